package node_test

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/text/texttest"
)

// greeter hands over whatever mentions a skill, and confirms when control
// comes back.
func greeter(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		switch {
		case strings.HasSuffix(inv.Returned.GetResultSummary(), "is ready") && len(inv.Returned.GetArtifacts()) != 1: // as builder ends it
			yield(nil, mesh.Errorf(mesh.Unknown, "main", "it is told of the artifacts %v", inv.Returned.GetArtifacts()))
		case inv.Returned != nil:
			yield(agent.Text{Text: "[main] it is " + inv.Returned.GetState() + ": " + inv.Returned.GetResultSummary()}, nil)
		case strings.Contains(inv.Text(), "skill"):
			if !yield(agent.Text{Text: "[main] one moment. "}, nil) {
				return
			}
			if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "builder", Reason: "skill_creation_workflow", ContextSummary: "wants a skill"}); err != nil {
				yield(nil, err)
				return
			}
			yield(agent.Text{Text: "[main] too late"}, nil)
		default:
			yield(agent.Text{Text: "[main] " + inv.Text()}, nil)
		}
	}
}

// builder asks one question and gives control back with the answer.
func builder(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if inv.Handoff != nil {
			h := inv.Handoff
			said, err := inv.Mesh.History(ctx, 0)
			if err != nil || len(inv.RecentMessages) > 0 {
				yield(nil, mesh.Errorf(mesh.Unknown, "builder", "word by word it got %v, and of the history %v", inv.RecentMessages, err))
				return
			}
			if !yield(agent.Text{Text: "[builder] from " + h.GetSourceAgentId() + " because " + h.GetHandoffReason() + ", " + h.GetContextSummary() + ". "}, nil) {
				return
			}
			for _, r := range said {
				if !yield(agent.Text{Text: "(" + r.Role + ": " + r.Text + ")"}, nil) {
					return
				}
			}
			yield(agent.Ask{Text: "Which name?"}, nil)
			return
		}
		if strings.Contains(inv.Text(), "cancel") {
			if _, err := inv.Mesh.EndHandoff(ctx, &meshv1.EndHandoffRequest{Outcome: "cancelled"}); err != nil {
				yield(nil, err)
			}
			return
		}
		if !yield(agent.Text{Text: "[builder] made " + inv.Text() + ". "}, nil) {
			return
		}
		if !yield(agent.Artifact{Artifact: &a2apb.Artifact{ArtifactId: "skill", Name: "The skill", Parts: []*a2apb.Part{{Content: &a2apb.Part_Raw{Raw: []byte("steps")}}}}}, nil) {
			return
		}
		if _, err := inv.Mesh.EndHandoff(ctx, &meshv1.EndHandoffRequest{Summary: inv.Text() + " is ready", ArtifactIds: []string{"skill"}}); err != nil {
			yield(nil, err)
		}
	}
}

// S4-026, S4-027, S4-028, S4-030, S4-031, S4-032, S4-033, S4-042, S4-076: control goes
// to a specialist and comes back, in one stream of one task each time; the specialist gets
// the summary, and reads what was said in the thread.
func TestControlIsHandedOverAndReturnsInTheUsersStream(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": greeter, "builder": builder})
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("make a skill"))
	first := hear(t, stream, err)
	wantText := "[main] one moment. [builder] from main because skill_creation_workflow, wants a skill. (user: make a skill)(agent: [main] one moment. )"
	if first.text != wantText {
		t.Errorf("heard %q,\nwant  %q", first.text, wantText)
	}
	if first.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || !connecting(first.status, "The builder") || !strings.HasPrefix(first.status[len(first.status)-1], "Which name?") {
		t.Errorf("ended %v with %q", first.state, first.status)
	}
	h := extension(first, "handoff")
	if h["source_agent_id"] != "main" || h["target_agent_id"] != "builder" || h["thread_id"] != id || h["handoff_reason"] != "skill_creation_workflow" {
		t.Errorf("handoff data %v", h)
	}

	// The next message goes straight to the specialist and continues the task.
	stream, err = m.edge().SendStreamingMessage(in(t, id), say("slack.send_alert"))
	second := hear(t, stream, err)
	if second.task.GetId() != first.task.GetId() {
		t.Errorf("the answer opened task %s, want it to continue %s", second.task.GetId(), first.task.GetId())
	}
	if want := "[builder] made slack.send_alert. [main] it is completed: slack.send_alert is ready"; second.text != want {
		t.Errorf("heard %q,\nwant  %q; %v", second.text, want, second.status)
	}
	if second.state != a2apb.TaskState_TASK_STATE_COMPLETED || extension(second, "handoff_return")["outcome"] != "completed" {
		t.Errorf("ended %v; return %v", second.state, extension(second, "handoff_return"))
	}

	// And then main has it again (S4-027).
	stream, err = m.edge().SendStreamingMessage(in(t, id), say("thanks"))
	if third := hear(t, stream, err); third.text != "[main] thanks" || third.task.GetId() == first.task.GetId() {
		t.Errorf("heard %q in task %s", third.text, third.task.GetId())
	}

	task, err := m.edge().GetTask(in(t, id), &a2apb.GetTaskRequest{Id: first.task.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	var all string
	for _, a := range task.Artifacts {
		all += textOf(a.Parts)
	}
	if want := first.text + second.text; all != want {
		t.Errorf("the task has %q,\nthe streams had %q", all, want)
	}
	if len(task.History) != 3 { // message, question, answer
		t.Errorf("history has %d messages: %v", len(task.History), task.History)
	}
}

// S4-049, S4-029: nobody is asked twice. Of a conversation in several tasks and before several
// agents, who takes over, and who has it back, reads every word that was said to the user and by
// the user, in order, although the summary says nothing of it and no message goes along. The
// list of threads tells the state of the handoff as GetHandoff does.
func TestWhatWasSaidNeedNotBeSaidAgain(t *testing.T) {
	words := func(ctx context.Context, inv *agent.Invocation) (string, error) {
		said, err := inv.Mesh.History(ctx, 0)
		var all []string
		for _, u := range said {
			all = append(all, u.Role+u.Agent+": "+questionOf(u.Text))
		}
		return strings.Join(all, "\n"), err
	}
	one := func(out agent.Output, err error) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) { yield(out, err) }
	}
	var read []string
	m := start(t, config(t.TempDir()), map[string]run{
		"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
			if inv.Returned != nil {
				all, err := words(ctx, inv)
				read = append(read, all)
				return one(agent.Text{Text: "Welcome back."}, err)
			}
			if inv.Text() != "make it a skill" {
				return one(agent.Text{Text: "Noted."}, nil)
			}
			_, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "builder", ContextSummary: "wants a skill"})
			return one(agent.Progress{}, err)
		},
		"builder": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
			if inv.Handoff == nil {
				_, err := inv.Mesh.EndHandoff(ctx, &meshv1.EndHandoffRequest{Summary: "made"})
				return one(agent.Progress{}, err)
			}
			all, err := words(ctx, inv)
			read = append(read, all)
			return one(agent.Ask{Text: "Shall I make it?"}, err)
		},
	})
	id := mesh.NewThreadID()
	state := func(ctx context.Context) string {
		res, err := meshv1.NewHandoffServiceClient(m.conn).GetHandoff(ctx, &meshv1.GetHandoffRequest{ThreadId: id})
		if err != nil {
			t.Fatal(err)
		}
		th, err := meshv1.NewThreadServiceClient(m.conn).ListThreads(ctx, &meshv1.ListThreadsRequest{})
		if err != nil || len(th.GetThreads()) != 1 || th.GetThreads()[0].GetHandoffState() != res.GetHandoff().GetState() {
			t.Errorf("the list says %v, %v; want %s", th, err, res.GetHandoff().GetState())
		}
		return res.GetHandoff().GetState()
	}
	var states []string
	for _, text := range []string{"It posts to the channel alerts.", "Only when the disk is full.", "make it a skill", "yes"} {
		stream, err := m.edge().SendStreamingMessage(in(t, id), say(text))
		hear(t, stream, err)
		states = append(states, state(in(t, id)))
	}
	if want := []string{"", "", "active", "completed"}; !slices.Equal(states, want) {
		t.Errorf("the handoff was %q, want %q", states, want)
	}
	before := "user: It posts to the channel alerts.\nagentmain: Noted.\nuser: Only when the disk is full.\nagentmain: Noted.\nuser: make it a skill"
	if want := []string{before, before + "\nagentbuilder: Shall I make it?\nuser: yes"}; !slices.Equal(read, want) {
		t.Errorf("they read\n%q, want\n%q", read, want)
	}
}

// extension returns the last data under the name in our extension.
func extension(s said, name string) map[string]any {
	var out map[string]any
	for _, r := range s.all {
		f := r.GetStatusUpdate().GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()
		if v := f[name].GetStructValue(); v != nil {
			out = v.AsMap()
		}
	}
	return out
}

// A client that knows A2A and nothing of us reads the handoff in words, and
// its answer, with a context id alone, goes to the specialist (S4-004, S4-033, S4-081).
func TestAPlainClientFollowsAHandoffToo(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": greeter, "builder": builder})
	stream, err := m.edge().SendStreamingMessage(plain(t), say("make a skill"))
	first := hear(t, stream, err)
	if !connecting(first.status, "The builder") {
		t.Errorf("status messages %q", first.status)
	}
	for _, r := range first.all {
		if md := r.GetStatusUpdate().GetMetadata().GetFields()[mesh.ExtensionURI]; md != nil {
			t.Errorf("our data without the extension: %v", md)
		}
	}
	next := say("x.y")
	next.Message.ContextId = first.task.GetContextId()
	stream, err = m.edge().SendStreamingMessage(plain(t), next)
	if second := hear(t, stream, err); second.task.GetId() != first.task.GetId() || second.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("task %s ended %v", second.task.GetId(), second.state)
	}
}

// S4-036, S4-046: the user gets out at any time, and main has the stream.
func TestTheUserCanAlwaysLeaveAHandoff(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": greeter, "builder": builder})
	handoffs := meshv1.NewHandoffServiceClient(m.conn)
	for name, leave := range map[string]func(id, task string) said{
		"by saying so": func(id, _ string) said {
			stream, err := m.edge().SendStreamingMessage(in(t, id), say("cancel"))
			return hear(t, stream, err)
		},
		"by CancelTask": func(id, task string) said {
			got, err := m.edge().CancelTask(in(t, id), &a2apb.CancelTaskRequest{Id: task})
			if err != nil || got.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_CANCELED {
				t.Fatalf("%v %v", got, err)
			}
			return said{}
		},
		"by CancelTask over REST": func(_, task string) said {
			if resp, text := post(t, m, "/tasks/"+task+":cancel", "{}"); resp.StatusCode != http.StatusOK || !strings.Contains(text, "TASK_STATE_CANCELED") {
				t.Fatalf("%s %s", resp.Status, text)
			}
			return said{}
		},
		"by EndHandoff": func(id, _ string) said {
			resp, err := handoffs.EndHandoff(in(t, id), &meshv1.EndHandoffRequest{ThreadId: id, Outcome: "cancelled"})
			if err != nil || resp.GetHandoff().GetState() != "cancelled" {
				t.Fatalf("%v %v", resp, err)
			}
			return said{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := mesh.NewThreadID()
			stream, err := m.edge().SendStreamingMessage(in(t, id), say("make a skill"))
			first := hear(t, stream, err)
			leave(id, first.task.GetId())
			if h, err := handoffs.GetHandoff(in(t, id), &meshv1.GetHandoffRequest{ThreadId: id}); err != nil || h.GetHandoff().GetState() != "cancelled" {
				t.Errorf("the handoff is %v, %v", h.GetHandoff(), err)
			}
			stream, err = m.edge().SendStreamingMessage(in(t, id), say("hello"))
			if s := hear(t, stream, err); s.text != "[main] hello" {
				t.Errorf("heard %q", s.text)
			}
			task, err := m.edge().GetTask(in(t, id), &a2apb.GetTaskRequest{Id: first.task.GetId()})
			if err != nil || !mesh.Terminal(task.GetStatus().GetState()) {
				t.Errorf("the task is left as %v, %v", task.GetStatus(), err)
			}
		})
	}
}

// S4-063, S4-065, S4-085: a handoff that cannot be, also one within another, is refused with
// the reason, and control stays where it is.
func TestAHandoffThatCannotBeIsRefused(t *testing.T) {
	texttest.Fixed(t)
	tryTo := func(target string) run {
		return func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
			return func(yield func(agent.Output, error) bool) {
				_, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: target})
				yield(agent.Text{Text: mesh.CodeOf(err).String() + ": " + mesh.DetailOf(err)}, nil)
			}
		}
	}
	nested := func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			_, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "main"})
			yield(agent.Text{Text: mesh.CodeOf(err).String() + ": " + mesh.DetailOf(err)}, nil)
		}
	}
	toBuilder := func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "builder"}); err != nil {
				yield(nil, err)
			}
		}
	}
	tests := map[string]struct {
		agents map[string]run
		want   string
	}{
		"to nobody":                {map[string]run{"main": tryTo("nobody")}, "not found"},
		"to itself":                {map[string]run{"main": tryTo("main")}, "precondition: main cannot hand over to itself"},
		"with a name that is none": {map[string]run{"main": tryTo("No Body")}, "invalid: "},
		"within a handoff":         {map[string]run{"main": toBuilder, "builder": nested}, "precondition: builder has the conversation already"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := start(t, config(t.TempDir()), tt.agents)
			stream, err := m.edge().SendStreamingMessage(in(t, mesh.NewThreadID()), say("go"))
			if s := hear(t, stream, err); !strings.HasPrefix(s.text, tt.want) {
				t.Errorf("heard %q, want %q", s.text, tt.want)
			}
		})
	}
}

// Nobody but the agent that has the stream may give it away.
func TestOnlyTheActiveAgentMayHandOver(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo, "builder": builder})
	_, err := meshv1.NewHandoffServiceClient(m.conn).StartHandoff(in(t, mesh.NewThreadID()), &meshv1.StartHandoffRequest{ThreadId: mesh.NewThreadID(), TargetAgent: "builder"})
	if !mesh.IsCode(rpc.FromStatus(err), mesh.Unauthenticated) {
		t.Errorf("without a grant: %v", err)
	}
}

// What the user says while the specialist works is answered after control has
// come back.
func TestAMessageDuringAHandoffIsAnsweredAfterItsReturn(t *testing.T) {
	working, goOn := make(chan string), make(chan struct{})
	slow := func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			working <- inv.Text()
			<-goOn
			if _, err := inv.Mesh.EndHandoff(ctx, &meshv1.EndHandoffRequest{Summary: "done"}); err != nil {
				yield(nil, err)
			}
		}
	}
	m := start(t, config(t.TempDir()), map[string]run{"main": greeter, "builder": slow})
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("make a skill"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	<-working
	meanwhile := say("and by the way")
	meanwhile.Message.TaskId = first.GetTask().GetId()
	meanwhile.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	if _, err := m.edge().SendMessage(in(t, id), meanwhile); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	var s said
	s.add(t, first)
	for {
		r, err := stream.Recv()
		if err != nil {
			break
		}
		s.add(t, r)
	}
	if want := "[main] one moment. [main] it is completed: done[main] and by the way"; s.text != want || s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("heard %q, ended %v,\nwant  %q", s.text, s.state, want)
	}
}

// connecting reports whether a status says that the agent takes over.
func connecting(status []string, agent string) bool {
	return slices.Contains(status, "Connecting you with "+agent+"...") ||
		texttest.Random() && slices.ContainsFunc(status, func(s string) bool { return strings.Contains(s, agent) })
}
