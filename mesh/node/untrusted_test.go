package node_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// recalled is what an agent reads of its thread with the helpers that it has: what was said,
// what it noted, and the user's words in its turn.
func recalled(ctx context.Context, inv *agent.Invocation) (string, error) {
	said, err := inv.Mesh.History(ctx, 0)
	if err != nil {
		return "", err
	}
	var all []string
	for _, u := range said {
		all = append(all, u.Role+": "+questionOf(u.Text))
	}
	note, _, err := inv.Mesh.Noted(ctx)
	if err != nil {
		return "", err
	}
	all = append(all, "noted: "+string(note))
	did, err := inv.Mesh.Actions(ctx)
	if err != nil {
		return "", err
	}
	for _, round := range did.Rounds {
		all = append(all, "works on: "+round.Text)
	}
	return strings.Join(all, "\n"), nil
}

// An agent that nobody trusts knows its own conversation, by the client that agents have: turns
// that began with it, and those that were handed over to it, in one of them twice; what it
// noted, and what it works on. Of what others were told and have said, before, between and
// after it in the same turn, it reads nothing.
func TestAnAgentThatNobodyTrustsKnowsItsOwnConversation(t *testing.T) {
	const secret = "canary"
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.Egress.Allow = "tokens", tokensFile(t), []string{"127.0.0.1"}
	returned := 0
	m := start(t, cfg, map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			if !yield(agent.Text{Text: secret}, nil) {
				return
			}
			if inv.Returned != nil {
				returned++
			}
			if inv.Returned == nil && !strings.Contains(inv.Text(), "guest") || returned > 1 {
				return
			}
			if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "guest", RecentMessages: new(int32)}); err != nil {
				yield(nil, err)
			}
		}
	}})
	var read []string
	guest := testAgent{"guest", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			all, err := recalled(ctx, inv)
			if read = append(read, all); err == nil {
				err = inv.Mesh.Note(ctx, []byte(inv.Text()))
			}
			if err != nil {
				yield(nil, err)
				return
			}
			switch {
			case inv.Handoff != nil && returned == 0:
				yield(agent.Ask{Text: "Which?"}, nil)
			case inv.Handoff != nil || inv.Text() == "this one":
				if yield(agent.Text{Text: "part done"}, nil) {
					if _, err := inv.Mesh.EndHandoff(ctx, &meshv1.EndHandoffRequest{Summary: "done"}); err != nil {
						yield(nil, err)
					}
				}
			default:
				yield(agent.Text{Text: "I say " + inv.Text()}, nil)
			}
		}
	}}
	serveAgent(t, m, guest, "guest", "secret-of-tenant-a")
	edge, thread := a2apb.NewA2AServiceClient(m.raw(t)), mesh.NewThreadID()
	for _, turn := range []struct{ to, text string }{
		{"main", secret}, {"guest", "one"}, {"main", secret}, {"main", "a guest, please"}, {"main", "this one"}, {"main", secret}, {"guest", "last"},
	} {
		req := say(turn.text)
		req.Message.ContextId = thread
		meta := []string{"tenant-id", "a", "thread-id", thread}
		if turn.to != "main" {
			meta = append(meta, "agent", turn.to)
		}
		stream, err := edge.SendStreamingMessage(as(plain(t), "a", meta...), req)
		if s := hear(t, stream, err); s.state != a2apb.TaskState_TASK_STATE_COMPLETED && s.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
			t.Fatalf("%q to %s ends %v %v", turn.text, turn.to, s.state, s.status)
		}
	}
	before := "user: one\nagent: I say one\nuser: a guest, please"
	want := []string{
		"user: one\nnoted: \nworks on: one",
		before + "\nnoted: one\nworks on: a guest, please",
		before + "\nagent: Which?\nuser: this one\nnoted: a guest, please\nworks on: a guest, please\nworks on: this one",
		before + "\nagent: Which?\nuser: this one\nagent: part done\nnoted: this one\nworks on: a guest, please\nworks on: this one",
		before + "\nagent: Which?\nuser: this one\nagent: part done\nagent: part done\nuser: last\nnoted: this one\nworks on: last",
	}
	if !slices.Equal(read, want) {
		t.Errorf("it read\n%s,\nwant\n%s", strings.Join(read, "\n\n"), strings.Join(want, "\n\n"))
	}
}
