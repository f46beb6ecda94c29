package agent_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestARunEndsInExactlyOneWay(t *testing.T) {
	texttest.Fixed(t)
	tests := map[string]struct {
		run    func(ctx context.Context, inv *agent.Invocation, say func(agent.Output) bool) error
		state  mesh.TaskState
		text   string
		reason string
	}{
		"without an error": {func(context.Context, *agent.Invocation, func(agent.Output) bool) error { return nil }, agenttest.Completed, "", ""},
		"with an error of the mesh": {func(context.Context, *agent.Invocation, func(agent.Output) bool) error {
			return mesh.Errorf(mesh.Unavailable, "x", "The printer is on fire: %w", errPlain)
		}, agenttest.Failed, "The printer is on fire", ""},
		"with a deadline of its own": {func(context.Context, *agent.Invocation, func(agent.Output) bool) error {
			return mesh.Errorf(mesh.Timeout, "x", "The model did not answer")
		}, agenttest.Failed, "The model did not answer", mesh.ReasonTimeout},
		"with another error": {func(context.Context, *agent.Invocation, func(agent.Output) bool) error { return errPlain }, agenttest.Failed, "internal error", ""},
		"with a panic":       {func(context.Context, *agent.Invocation, func(agent.Output) bool) error { panic("secret") }, agenttest.Failed, "internal error", mesh.ReasonPanic},
		"with its goroutine": {func(context.Context, *agent.Invocation, func(agent.Output) bool) error {
			runtime.Goexit()
			return nil
		}, agenttest.Failed, "internal error", mesh.ReasonPanic},
		"with a question": {func(_ context.Context, _ *agent.Invocation, say func(agent.Output) bool) error {
			say(agent.Ask{Text: "Which?"})
			return errPlain
		}, agenttest.InputRequired, "Which?", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, _ := start(t, fake{tt.run})
			hs := tell(t, r, "go")
			want := strings.TrimPrefix(tt.state.String(), "TASK_STATE_")
			if got := kinds(hs); got != want || last(hs).text != tt.text || reason(last(hs)) != tt.reason {
				t.Errorf("got %s %q (%s), want %s %q (%s)", got, last(hs).text, reason(last(hs)), want, tt.text, tt.reason)
			}
		})
	}
}

func TestTheStackOfAPanicIsInTheLogOnly(t *testing.T) {
	var log bytes.Buffer
	r, stop := start(t, fake{func(context.Context, *agent.Invocation, func(agent.Output) bool) error { panic("broken heart") }},
		agent.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	hs := tell(t, r, "go")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(last(hs).r.String(), "heart") {
		t.Errorf("the client reads %v", last(hs).r)
	}
	if s := log.String(); !strings.Contains(s, "broken heart") || !strings.Contains(s, "runtime_test.go") {
		t.Errorf("the log has %s", s)
	}
}

// until runs until its context ends, if it heeds that.
func until(heed bool, more time.Duration) fake {
	return fake{func(ctx context.Context, _ *agent.Invocation, say func(agent.Output) bool) error {
		say(agent.Text{Text: "x"})
		<-ctx.Done()
		if heed {
			return ctx.Err()
		}
		time.Sleep(more)
		say(agent.Text{Text: "late"})
		return nil
	}}
}

func TestCancelEndsTheTaskWhateverTheAgentDoes(t *testing.T) {
	for name, tt := range map[string]struct {
		agent agent.Agent
		after time.Duration
	}{
		"heeds it":       {until(true, 0), 0},
		"takes a second": {until(false, time.Second), time.Second},
		"ignores it":     {until(false, 20*time.Second), 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, stop := start(t, tt.agent)
				g := agenttest.NewGrant()
				send(t, r, g, agenttest.Message("go"))
				synctest.Wait()
				begun := time.Now()
				task, err := r.Cancel(under(t.Context(), g), &a2apb.CancelTaskRequest{Id: string(g.Execution)})
				if err != nil {
					t.Fatal(err)
				}
				if got := time.Since(begun); got != tt.after || task.GetStatus().GetState() != agenttest.Canceled {
					t.Errorf("%v after %v, want canceled after %v", task.GetStatus(), got, tt.after)
				}
				time.Sleep(time.Minute)
				if got := kinds(listen(t, r, g, 0)); got != "piece CANCELED" {
					t.Errorf("got %s", got)
				}
				if _, err := r.Cancel(under(t.Context(), g), &a2apb.CancelTaskRequest{Id: string(g.Execution)}); !mesh.IsCode(err, mesh.Precondition) {
					t.Errorf("canceling again: %v", err)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestARunThatNeverEndsIsCutWhenItsGrantExpires(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context, say func(agent.Output) bool){
		"waiting": func(ctx context.Context, _ func(agent.Output) bool) { <-ctx.Done() },
		"talking": func(_ context.Context, say func(agent.Output) bool) {
			for say(agent.Progress{Text: "still here"}) {
				time.Sleep(10 * time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := start(t, fake{func(ctx context.Context, _ *agent.Invocation, say func(agent.Output) bool) error {
					run(ctx, say)
					return nil
				}})
				h := last(tell(t, r, "go"))
				if h.kind != "FAILED" || reason(h) != mesh.ReasonTimeout || h.at < time.Hour || h.at > time.Hour+10*time.Second {
					t.Errorf("got %s %q (%s) after %v", h.kind, h.text, reason(h), h.at)
				}
				time.Sleep(10 * time.Second) // until the agent notices
			})
		})
	}
}

func TestACallerThatLeavesChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, paced(time.Second, "a", "b"))
		g := agenttest.NewGrant()
		ctx, leave := context.WithCancel(under(t.Context(), g))
		if _, err := r.Send(ctx, &a2apb.SendMessageRequest{Message: agenttest.Message("go")}); err != nil {
			t.Fatal(err)
		}
		leave()
		for _, err := range r.Updates(ctx, string(g.Execution), 0) {
			if err != nil {
				break
			}
		}
		if got := kinds(listen(t, r, g, 0)); got != "piece more COMPLETED" {
			t.Errorf("got %s", got)
		}
	})
}

// asker asks once, and repeats the answer.
func asker() fake {
	return fake{func(_ context.Context, inv *agent.Invocation, say func(agent.Output) bool) error {
		say(agent.Text{Text: "heard " + inv.Text()})
		if !inv.Resumed {
			say(agent.Ask{Text: "Which color?"})
		}
		return nil
	}}
}

func TestATaskThatAskedGoesOnWithTheAnswer(t *testing.T) {
	r, _ := start(t, asker())
	g := agenttest.NewGrant()
	first := send(t, r, g, agenttest.Message("paint"))
	hs := listen(t, r, g, first.Cursor)
	if got := kinds(hs); got != "piece INPUT_REQUIRED" || last(hs).text != "Which color?" {
		t.Fatalf("got %s %q", got, last(hs).text)
	}
	answer := agenttest.Message("red")
	answer.TaskId = string(g.Execution)
	second := send(t, r, g, answer)
	if second.Task.GetStatus().GetState() != agenttest.Working || second.Cursor != last(hs).seq+1 {
		t.Errorf("got %v at %d", second.Task.GetStatus(), second.Cursor)
	}
	if got := kinds(listen(t, r, g, second.Cursor)); got != "piece COMPLETED" {
		t.Errorf("got %s", got)
	}
	// Who follows the task all the while sees it wait and go on.
	if got := kinds(listen(t, r, g, last(hs).seq)); got != "WORKING piece COMPLETED" {
		t.Errorf("got %s", got)
	}
	task, _, err := r.Task(under(t.Context(), g), string(g.Execution))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range task.GetHistory() {
		said = append(said, a2a.TextOf(m))
	}
	if diff := cmp.Diff([]string{"paint", "Which color?", "red"}, said); diff != "" {
		t.Error(diff)
	}
	if len(task.GetArtifacts()) != 2 || a2a.TaskText(task) != "heard paint\nheard red" {
		t.Errorf("got %v", task.GetArtifacts())
	}
}

func TestATaskThatWaitsCanBeCanceled(t *testing.T) {
	r, _ := start(t, asker())
	g := agenttest.NewGrant()
	listen(t, r, g, send(t, r, g, agenttest.Message("paint")).Cursor)
	task, err := r.Cancel(under(t.Context(), g), &a2apb.CancelTaskRequest{Id: string(g.Execution)})
	if err != nil || task.GetStatus().GetState() != agenttest.Canceled {
		t.Errorf("got %v, %v", task, err)
	}
}

// An answer that comes while the question is being canceled either counts, and what
// it started is canceled, or it comes too late: never both, and never none.
func TestAnAnswerAndACancellationAtOnce(t *testing.T) {
	t.Parallel()
	var done atomic.Int32
	r, _ := start(t, fake{func(ctx context.Context, inv *agent.Invocation, say func(agent.Output) bool) error {
		if !inv.Resumed {
			say(agent.Ask{Text: "May I?", Approval: true})
			return nil
		}
		if ctx.Err() == nil {
			done.Add(1)
		}
		return ctx.Err()
	}})
	for range 200 {
		g := agenttest.NewGrant()
		asked := untilAsked(t, r, g, send(t, r, g, agenttest.Message("go")).Cursor)
		before := done.Load()
		yes := agenttest.Message("yes")
		yes.TaskId = string(g.Execution)
		var both sync.WaitGroup
		var sent, canceledErr error
		both.Go(func() { _, sent = r.Send(under(t.Context(), g), &a2apb.SendMessageRequest{Message: yes}) })
		both.Go(func() {
			_, canceledErr = r.Cancel(under(t.Context(), g), &a2apb.CancelTaskRequest{Id: string(g.Execution)})
		})
		both.Wait()
		hs := listen(t, r, g, asked)
		state, ran := last(hs).kind, done.Load()-before
		switch {
		case sent != nil && (!mesh.IsCode(sent, mesh.Precondition) && !mesh.IsCode(sent, mesh.Unsupported) || canceledErr != nil || ran != 0 || state != "CANCELED"):
			t.Fatalf("the answer was refused (%v), and the task is %s after %d runs, %v", sent, state, ran, canceledErr)
		case sent == nil && canceledErr == nil && state != "CANCELED", sent == nil && canceledErr != nil && (state != "COMPLETED" || ran != 1):
			t.Fatalf("the answer counted, and the task is %s after %d runs, %v", state, ran, canceledErr)
		}
		if n := strings.Count(kinds(hs), "CANCELED") + strings.Count(kinds(hs), "COMPLETED"); n != 1 {
			t.Fatalf("it ended %d times: %s", n, kinds(hs))
		}
	}
}

// untilAsked waits for the question of the task and returns its cursor.
func untilAsked(t *testing.T, r *agent.Runtime, g *mesh.Grant, after mesh.Seq) mesh.Seq {
	t.Helper()
	for u, err := range r.Updates(under(t.Context(), g), string(g.Execution), after) {
		if err != nil {
			t.Fatal(err)
		}
		if state, _ := a2a.StateOf(u.Response); mesh.Interrupted(state) {
			return u.Seq
		}
	}
	t.Fatal("it asks nothing")
	return 0
}

func TestAfterARestartTheGrantReopensItsTask(t *testing.T) {
	r, _ := start(t, asker())
	g := agenttest.NewGrant()
	m := agenttest.Message("blue")
	m.TaskId, m.ContextId = string(g.Execution), agenttest.Thread
	acc := send(t, r, g, m)
	if acc.Task.GetId() != string(g.Execution) || acc.Task.GetContextId() != agenttest.Thread {
		t.Errorf("got %v", acc.Task)
	}
	hs := listen(t, r, g, acc.Cursor)
	if got := kinds(hs); got != "piece. COMPLETED" && got != "piece COMPLETED" {
		t.Errorf("got %s, want an answer and no question", got)
	}
	if id := hs[0].r.GetArtifactUpdate().GetArtifact().GetArtifactId(); id == agent.ResponseArtifact {
		t.Error("the text would replace that of the first run")
	}
}

func TestAMessageSentAgainAttachesToItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		r, _ := start(t, fake{func(_ context.Context, _ *agent.Invocation, say func(agent.Output) bool) error {
			runs++
			say(agent.Text{Text: "once"})
			time.Sleep(time.Second)
			return nil
		}})
		g := agenttest.NewGrant()
		m := agenttest.Message("go")
		send(t, r, g, m)
		synctest.Wait()
		again := send(t, r, g, m)
		if again.Cursor != 1 || a2a.TaskText(again.Task) != "once" {
			t.Errorf("got %v at %d", again.Task, again.Cursor)
		}
		if got := kinds(listen(t, r, g, again.Cursor)); got != "COMPLETED" {
			t.Errorf("got %s", got)
		}
		over := send(t, r, g, m)
		if over.Task.GetStatus().GetState() != agenttest.Completed || runs != 1 {
			t.Errorf("got %v after %d runs", over.Task.GetStatus(), runs)
		}
	})
}

func TestMessagesThatFitNoTaskAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, paced(time.Second, "x"))
		g := agenttest.NewGrant()
		send(t, r, g, agenttest.Message("go"))
		at := func(change func(*a2apb.Message)) *a2apb.Message {
			m := agenttest.Message("more")
			change(m)
			return m
		}
		refused := func(m *a2apb.Message, g *mesh.Grant) *mesh.Error {
			_, err := r.Send(under(t.Context(), g), &a2apb.SendMessageRequest{Message: m})
			e, _ := mesh.Wrap("", err).(*mesh.Error)
			return e
		}
		if e := refused(agenttest.Message("more"), g); e.Reason != a2a.ReasonUnsupported {
			t.Errorf("while it works: %v", e)
		}
		if e := refused(at(func(m *a2apb.Message) { m.TaskId = string(mesh.NewExecutionID(agenttest.Thread)) }), g); e.Reason != "TASK_NOT_FOUND" {
			t.Errorf("unknown task: %v", e)
		}
		if e := refused(at(func(m *a2apb.Message) { m.ContextId = mesh.NewThreadID() }), g); e.Code != mesh.NotFound {
			t.Errorf("other thread: %v", e)
		}
		if e := refused(at(func(m *a2apb.Message) {
			m.Metadata = a2a.SetExtension(nil, map[string]*structpb.Value{a2a.KeyHandoff: structpb.NewStructValue(
				&structpb.Struct{Fields: map[string]*structpb.Value{"seq": structpb.NewStringValue("x")}})})
		}), agenttest.NewGrant()); e.Code != mesh.Invalid || !strings.Contains(e.Field, a2a.KeyHandoff) {
			t.Errorf("bad handoff: %v", e)
		}
		listen(t, r, g, 0)
		if e := refused(agenttest.Message("more"), g); e.Reason != a2a.ReasonUnsupported || e.Field != "message.task_id" {
			t.Errorf("when it is over: %v", e)
		}
		if _, err := r.Send(mesh.WithCall(t.Context(), mesh.Call{}), &a2apb.SendMessageRequest{Message: agenttest.Message("x")}); !mesh.IsCode(err, mesh.Unauthenticated) {
			t.Errorf("without a grant: %v", err)
		}
	})
}

// S4-052: what is another execution's or another tenant's looks unknown.
func TestACallSeesTheTaskOfItsOwnGrantOnly(t *testing.T) {
	r, _ := start(t, says(agent.Text{Text: "secret"}))
	g := agenttest.NewGrant()
	listen(t, r, g, send(t, r, g, agenttest.Message("go")).Cursor)
	foreign := *g
	foreign.Tenant = "other"
	for name, other := range map[string]*mesh.Grant{"execution": agenttest.NewGrant(), "tenant": &foreign} {
		ctx := under(t.Context(), other)
		_, _, read := r.Task(ctx, string(g.Execution))
		_, cancel := r.Cancel(ctx, &a2apb.CancelTaskRequest{Id: string(g.Execution)})
		var follow error
		for _, err := range r.Updates(ctx, string(g.Execution), 0) {
			follow = err
		}
		for _, err := range []error{read, cancel, follow} {
			if e, _ := mesh.Wrap("", err).(*mesh.Error); e == nil || e.Reason != "TASK_NOT_FOUND" {
				t.Errorf("another %s: got %v", name, err)
			}
		}
	}
	if _, err := r.Send(under(t.Context(), &foreign), &a2apb.SendMessageRequest{Message: agenttest.Message("go")}); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("another tenant's message: got %v", err)
	}
}

func TestCallersWithoutTheExtensionGetPlainUpdates(t *testing.T) {
	r, _ := start(t, says(agent.Progress{Text: "looking", Step: 1}, agent.Text{Text: "x"}))
	g := agenttest.NewGrant()
	send(t, r, g, agenttest.Message("go"))
	call, _ := mesh.CallFrom(under(t.Context(), g))
	call.Extensions = nil
	n := 0
	for u, err := range r.Updates(mesh.WithCall(t.Context(), call), string(g.Execution), 0) {
		if err != nil || a2a.MetadataOf(u.Response) != nil {
			t.Errorf("got %v, %v", u.Response, err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("got %d updates, want 3", n)
	}
}

// What only the mesh may say to an agent does not count in the message of another agent.
func TestAHandoffIsTheMeshsToTell(t *testing.T) {
	var got *agent.Invocation
	r, _ := start(t, fake{func(_ context.Context, inv *agent.Invocation, _ func(agent.Output) bool) error {
		got = inv
		return nil
	}})
	h := map[string]any{"seq": 5, "type": "handoff", "agent": "fake", "recent_messages": []any{map[string]any{"role": "user", "text": "hi"}}}
	md, err := structpb.NewStruct(map[string]any{mesh.ExtensionURI: map[string]any{"handoff": h, "handoff_return": h, "handoff_parked": h, "resume": h, "skill_call": map[string]any{"skill": "a.b"}}})
	if err != nil {
		t.Fatal(err)
	}
	g, m := agenttest.NewGrant(), agenttest.Message("go")
	g.Turn, m.Metadata = mesh.NewExecutionID(g.Thread), md
	listen(t, r, g, send(t, r, g, m).Cursor)
	if got.Handoff != nil || got.Returned != nil || got.Parked != nil || got.Resume != nil || got.SkillCall != nil || got.RecentMessages != nil {
		t.Errorf("it believes %+v", got)
	}
}

func TestTheInvocationHasWhatTheMessageCarries(t *testing.T) {
	var got *agent.Invocation
	r, _ := start(t, fake{func(_ context.Context, inv *agent.Invocation, _ func(agent.Output) bool) error {
		got = inv
		return nil
	}})
	md, err := structpb.NewStruct(map[string]any{mesh.ExtensionURI: map[string]any{
		"max_tool_calls": 7,
		"handoff": map[string]any{
			"seq": 5, "source_agent_id": "main", "target_agent_id": "fake", "context_summary": "wants a skill",
			"type": "handoff", "recent_messages": []any{map[string]any{"role": "user", "text": "hi"}, map[string]any{"role": "agent", "agent": "main", "text": "hello"}},
		},
		"handoff_return": map[string]any{"seq": "6", "state": "completed", "result_summary": "built"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	g, m := agenttest.NewGrant(), agenttest.Message("go")
	m.Metadata = md
	listen(t, r, g, send(t, r, g, m).Cursor)
	if h := got.Handoff; h.GetSeq() != 5 || h.GetSourceAgentId() != "main" || h.GetContextSummary() != "wants a skill" {
		t.Errorf("handoff is %v", h)
	}
	if h := got.Returned; h.GetSeq() != 6 || h.GetResultSummary() != "built" {
		t.Errorf("return is %v", h)
	}
	want := []agent.HistoryItem{{Role: "user", Text: "hi"}, {Role: "agent", Agent: "main", Text: "hello"}}
	if diff := cmp.Diff(want, got.RecentMessages); diff != "" {
		t.Error(diff)
	}
	if got.MaxToolCalls != 7 || got.User != "alice" || got.Thread != g.Key() || got.Execution != g.Execution || got.Text() != "go" || got.Resumed {
		t.Errorf("got %+v", got)
	}
}
