package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

// canary is in all that was said to others.
const canary = "canary"

func words(text string) *a2apb.Message {
	return &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}
}

// turn has the agent answer a message of the user, in a turn that is at work. It returns what
// the agent is called with.
func (l *library) turn(t *testing.T, agent, question, answer string) *mesh.Grant {
	t.Helper()
	id, leg := mesh.NewExecutionID(l.key.ID), mesh.NewExecutionID(l.key.ID)
	for _, e := range []*mesh.Event{
		{Execution: id, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, Agent: agent, User: "ann", Text: question}}},
		{Execution: id, Body: mesh.MessagePosted{User: "ann", Message: words(question)}},
		{Execution: id, Body: mesh.DispatchIssued{Child: mesh.Execution{ID: leg, Parent: id, Kind: mesh.KindAgent, Agent: agent, User: "ann", Text: question}, Message: words(question)}},
		{Execution: leg, Body: mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: words(answer).GetParts()}}},
	} {
		if err := l.decide(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	return &mesh.Grant{Tenant: l.key.Tenant, User: "ann", Thread: l.key.ID, Execution: leg, Parent: id, Turn: id, Agent: agent, Expires: time.Now().Add(time.Hour).Unix()}
}

func (l *library) end(t *testing.T, g *mesh.Grant) {
	t.Helper()
	for _, id := range []mesh.ExecutionID{g.Execution, g.Turn} {
		if err := l.decide(t.Context(), &mesh.Event{Execution: id, Body: mesh.TaskMoved{State: completed}}); err != nil {
			t.Fatal(err)
		}
	}
}

// An agent that nobody trusts reads what it was told and did itself, also in turns before,
// and nothing that was said to others; one that somebody trusts reads everything.
func TestAnAgentThatNobodyTrustsReadsItsOwnPartAlone(t *testing.T) {
	l := newLibrary(t)
	main := l.turn(t, "main", canary, canary)
	other := l.run(t, main.Turn, "other")
	beside := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: main.Execution, Kind: mesh.KindAgent, Agent: "other", Text: canary}
	for _, e := range []*mesh.Event{
		{Execution: other.Execution, Body: mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: words(canary).GetParts()}}},
		{Execution: main.Execution, Body: mesh.DispatchIssued{Child: beside, Message: words(canary)}},
		{Execution: main.Execution, Body: mesh.DispatchSettled{Child: beside.ID, State: completed, Result: canary}},
		{Execution: main.Turn, Body: mesh.HandoffStarted{From: "main", To: "other", Summary: canary, ToName: "other"}},
	} {
		if err := l.decide(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	l.end(t, main)
	l.end(t, l.turn(t, "helper", "first question", "first answer"))
	for range 400 { // more than a page, and than two of its parts may be apart
		if err := l.decide(t.Context(), &mesh.Event{Execution: other.Execution, Body: mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "b", Parts: words(canary).GetParts()}, Append: true}}); err != nil {
			t.Fatal(err)
		}
	}
	l.end(t, l.turn(t, "main", canary, canary))
	own := l.turn(t, "helper", "second question", "second answer")
	trusted := *own
	trusted.Capabilities = mesh.CapabilitiesFor(nil)

	handoffs := NewHandoffs(handoff.New(l.log, l.states, nil, nil, nil))
	for name, read := range map[string]func(ctx context.Context) (string, error){
		"GetThread": func(ctx context.Context) (string, error) {
			r, err := l.GetThread(ctx, &meshv1.GetThreadRequest{ThreadId: l.key.ID})
			return r.String(), err
		},
		"ReadThread":         func(ctx context.Context) (string, error) { return l.pages(ctx, t, false) },
		"ReadThread, a tail": func(ctx context.Context) (string, error) { return l.pages(ctx, t, true) },
		"FollowThread": func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			var b strings.Builder
			err := l.FollowThread(&meshv1.FollowThreadRequest{ThreadId: l.key.ID}, &followed{ctx: ctx, sent: func(e *mesh.Event) {
				b.WriteString(eventpb.EventToProto(e).String())
				if strings.Contains(b.String(), "second answer") {
					cancel()
				}
			}})
			if mesh.IsCode(err, mesh.Canceled) {
				err = nil
			}
			return b.String(), err
		},
		"GetHandoff": func(ctx context.Context) (string, error) {
			r, err := handoffs.GetHandoff(ctx, &meshv1.GetHandoffRequest{ThreadId: l.key.ID})
			return r.String(), err
		},
	} {
		all, err := read(under(t, &trusted))
		if err != nil || !strings.Contains(all, canary) {
			t.Errorf("%s: an agent that is trusted is shown %.200q: %v", name, all, err)
		}
		part, err := read(under(t, own))
		if err != nil || strings.Contains(part, canary) {
			t.Errorf("%s: an agent that nobody trusts is shown %.2000q: %v", name, part, err)
		}
		for _, text := range []string{"first question", "second question"} {
			if name != "GetHandoff" && !strings.Contains(part, text) {
				t.Errorf("%s: an agent that nobody trusts does not know %q: %.2000q", name, text, part)
			}
		}
	}
}

// pages reads the thread in small pages, checks that none is empty while there are more,
// that it is enough for a transcript of the own conversation, and returns them.
func (l *library) pages(ctx context.Context, t *testing.T, tail bool) (string, error) {
	t.Helper()
	req := &meshv1.ReadThreadRequest{ThreadId: l.key.ID, Limit: 3, Tail: tail}
	var all []*meshv1.Event
	for {
		r, err := l.ReadThread(ctx, req)
		if err != nil {
			return "", err
		}
		if len(r.GetEvents()) == 0 {
			t.Errorf("a page is empty, after %d events", len(all))
			break
		}
		if tail {
			all, req.BeforeSeq = append(slices.Clone(r.GetEvents()), all...), r.GetEvents()[0].GetSeq()
		} else {
			all, req.AfterSeq = append(all, r.GetEvents()...), r.GetEvents()[len(r.GetEvents())-1].GetSeq()
		}
		if !r.GetMore() {
			break
		}
	}
	tr := new(thread.Transcript)
	for i, p := range all {
		if i > 0 && p.GetSeq() <= all[i-1].GetSeq() {
			t.Errorf("event %d comes after %d", p.GetSeq(), all[i-1].GetSeq())
		}
		e, err := eventpb.EventFromProto(p)
		if err != nil {
			return "", err
		}
		tr.Apply(e)
	}
	const want = "first question, first answer, second question, second answer"
	var texts []string
	for _, u := range tr.Said() {
		if u.Text != canary {
			texts = append(texts, u.Text)
		}
	}
	if got := strings.Join(texts, ", "); !strings.HasSuffix(got, want) {
		t.Errorf("the conversation is %q, want %q", got, want)
	}
	return fmt.Sprint(all), nil
}
