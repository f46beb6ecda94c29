package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// continued returns the dispatcher of the execution in a process that comes after one that
// died.
func (w *world) continued(ctx context.Context, inv *agent.Invocation, o dispatch.Options) *dispatch.Dispatcher {
	w.t.Helper()
	again := *inv
	again.Continued = true
	d := dispatch.New(ctx, &again, w.pool, o)
	w.t.Cleanup(d.Close)
	return d
}

// finding O9: an agent whose process dies while who dispatched it works gets its message
// again when it is back, under the same execution, and its result is there once.
func TestAnAgentThatDiesGoesOn(t *testing.T) {
	w := newWorld(t)
	w.ours = true
	first, heard := make(chan *mission, 1), make(chan struct{})
	w.agent("worker", func(m *mission) error {
		first <- m
		_ = m.say("half of")
		<-heard
		m.crash()
		<-m.ctx.Done()
		return m.ctx.Err()
	})
	d, inv := w.dispatcher(dispatch.Options{AdoptTime: time.Minute})
	for _, err := range d.Dispatch(t.Context(), []dispatch.Order{order("a"), order("b", "a")}) {
		t.Fatal(err)
	}
	was := receive(t, first)
	for len(bodies[mesh.ArtifactAppended](w, inv)) == 0 {
		time.Sleep(time.Millisecond)
	}
	close(heard)
	second := make(chan *mission, 4)
	w.agent("worker", func(m *mission) error { second <- m; return m.done("all of it") })
	got := wait(t, d)
	if a, b := got["a"], got["b"]; a.Status != dispatch.StatusCompleted || b.Status != dispatch.StatusCompleted || a.Result != "half of\n\nall of it" {
		t.Errorf("the results are %+v", got) // the fake's artifacts have an id each
	}
	now := receive(t, second)
	continues := a2a.Extension(now.msg.GetMetadata()).GetFields()[a2a.KeyContinues].GetStringValue()
	if now.msg.MessageId != was.msg.MessageId || now.text != was.text || continues != a2a.ContinuesFirst {
		t.Errorf("told %v, and again %v", was.msg, now.msg)
	}
	if n := len(bodies[mesh.DispatchIssued](w, inv)); n != 3 {
		t.Errorf("%d dispatches are in the log, that of the turn among them", n)
	}
	if n := len(bodies[mesh.DispatchSettled](w, inv)); n != 2 {
		t.Errorf("%d agents are settled", n)
	}
}

// What an execution had dispatched when its process died goes on with it: what is done is
// read from the log, what an agent has done meanwhile is asked for, and only an agent of
// the mesh is told again.
func TestWhatWasAtWorkGoesOnWithWhoDispatchedIt(t *testing.T) {
	texttest.Fixed(t)
	has := &a2apb.Task{Id: "remote", Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED},
		Artifacts: []*a2apb.Artifact{{ArtifactId: "out", Parts: parts("half of it")}}}
	for name, tt := range map[string]struct {
		ours   bool
		has    *a2apb.Task
		result string
		status string
		told   int // again
	}{
		"it is done":              {true, has, "half of it", dispatch.StatusCompleted, 0},
		"it lost the task":        {true, nil, "all of it", dispatch.StatusCompleted, 1},
		"another's is done":       {false, has, "half of it", dispatch.StatusCompleted, 0},
		"another's lost the task": {false, nil, "half of\n\nThe agent was interrupted; it is not known what became of its task.", dispatch.StatusFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ours = tt.ours
			out := func(m *mission, words string, more bool) error {
				return m.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
					TaskId: "remote", Append: more, Artifact: &a2apb.Artifact{ArtifactId: "out", Parts: parts(words)}}}})
			}
			began, told := make(chan struct{}), make(chan string, 8)
			traces := make(chan string, 8) // of who did "a"
			a := w.agent("worker", func(m *mission) error {
				if told <- idOf(m); idOf(m) == "a" {
					traces <- strings.Join(m.md.Get("traceparent"), " ")
				}
				if idOf(m) == "done" {
					return m.done("done before")
				}
				if len(told) > 2 {
					return out(m, "all of it", false)
				}
				if err := out(m, "half of", false); err != nil {
					return err
				}
				close(began)
				<-m.ctx.Done()
				return m.ctx.Err()
			})
			again := func(m *mission) error {
				told <- idOf(m)
				traces <- strings.Join(m.md.Get("traceparent"), " ")
				if err := out(m, "all of it", false); err != nil {
					return err
				}
				return m.end(a2apb.TaskState_TASK_STATE_COMPLETED, "")
			}
			inv := w.orchestrator()
			ctx, stop := context.WithCancelCause(mesh.WithCall(t.Context(), mesh.Call{Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}))
			d := dispatch.New(ctx, inv, w.pool, dispatch.Options{})
			run(t, d, order("done"))
			for _, err := range d.Dispatch(ctx, []dispatch.Order{order("a")}) {
				t.Fatal(err)
			}
			receive(t, began)
			for len(bodies[mesh.ArtifactAppended](w, inv)) < 2 {
				time.Sleep(time.Millisecond)
			}
			stop(agent.ErrShutdown) // the process stops
			d.Close()
			if n := len(bodies[mesh.DispatchSettled](w, inv)); n != 1 || len(a.canceled) > 0 {
				t.Errorf("%d agents are settled and %d were to end when the process stops", n, len(a.canceled))
			}
			a.act, a.has = again, tt.has
			next := w.continued(t.Context(), inv, dispatch.Options{})
			got := wait(t, next)
			if got["done"].Result != "done before" || got["a"].Status != tt.status || got["a"].Result != tt.result || len(told) != 2+tt.told {
				t.Errorf("the results are %+v; told %d times", got, len(told))
			}
			close(traces)
			first := <-traces
			for again := range traces {
				if again != first {
					t.Errorf("it was called in the trace %q, and again in %q", first, again)
				}
			}
			if first == "" {
				t.Error("it was called in no trace")
			}
			if n := len(bodies[mesh.DispatchSettled](w, inv)); n != 2 {
				t.Errorf("%d agents are settled", n)
			}
		})
	}
}

// An agent that loses its task again and again is interrupted: who dispatched it reads so, and
// what may have had its effect.
func TestAnAgentThatDiesAgainAndAgainIsInterrupted(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	w.ours = true
	d, inv := w.dispatcher(dispatch.Options{})
	var told atomic.Int32
	w.agent("worker", func(m *mission) error {
		if told.Add(1) > 1 {
			return nil // its stream ends, and nobody knows the task
		}
		child := bodies[mesh.DispatchIssued](w, inv)[1].Child.ID
		err := w.states.Decide(m.ctx, inv.Thread, func(*thread.State) (cache.Decision, error) {
			return cache.Decision{Events: []*mesh.Event{{Execution: child, Body: mesh.SkillCalled{Call: "c", Skill: "mail.send", Args: `{"to":"bob"}`}}}}, nil
		})
		return err
	})
	got := run(t, d, order("a"))["a"]
	settled := bodies[mesh.DispatchSettled](w, inv)
	if told.Load() != 4 || got.Status != dispatch.StatusFailed || !strings.Contains(got.Result, "mail.send(to: bob)") || len(settled) != 1 || settled[0].Reason != mesh.ReasonInterrupted {
		t.Errorf("told %d times, it is %+v, and the log has %+v", told.Load(), got, settled)
	}
}

// finding R7: what depends on an agent that is at work when the process stops is not skipped:
// it begins when that agent is done, in the process that goes on.
func TestWhatDependsOnWhatAStopCutsOffIsNotSkipped(t *testing.T) {
	w := newWorld(t)
	w.ours = true
	a := w.agent("worker", func(m *mission) error {
		if err := m.say("half"); err != nil {
			return err
		}
		<-m.ctx.Done()
		return m.ctx.Err()
	})
	inv := w.orchestrator()
	ctx, stop := context.WithCancelCause(t.Context())
	d := dispatch.New(ctx, inv, w.pool, dispatch.Options{})
	for _, err := range d.Dispatch(t.Context(), []dispatch.Order{order("a"), order("b", "a")}) {
		t.Fatal(err)
	}
	for len(bodies[mesh.ArtifactAppended](w, inv)) < 1 {
		time.Sleep(time.Millisecond)
	}
	stop(agent.ErrShutdown)
	d.Close()
	if n := len(bodies[mesh.DispatchSettled](w, inv)); n != 0 {
		t.Errorf("%d agents are settled when the process stops", n)
	}
	a.act = func(m *mission) error { return m.done("done") }
	if got := wait(t, w.continued(t.Context(), inv, dispatch.Options{})); got["a"].Status != dispatch.StatusCompleted || got["b"].Status != dispatch.StatusCompleted {
		t.Errorf("the results are %+v", got)
	}
}

// live has an agent be there or not.
func (w *world) live(name string, live bool, gone *timestamppb.Timestamp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := proto.CloneOf(w.agents[name])
	a.Live, a.Gone = live, gone
	w.agents[name] = a
}

// An agent that was live a moment ago gets its message when it is back; one that has been
// gone for longer is not waited for.
func TestAnAgentThatWasLiveAMomentAgoIsWaitedFor(t *testing.T) {
	texttest.Fixed(t)
	for name, tt := range map[string]struct {
		gone *timestamppb.Timestamp
		want string
	}{
		"a moment ago": {timestamppb.Now(), dispatch.StatusCompleted},
		"long ago":     {timestamppb.New(time.Now().Add(-time.Hour)), dispatch.StatusFailed},
		"who knows":    {nil, dispatch.StatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.agent("worker", func(m *mission) error { return m.done("back") })
			w.live("worker", false, tt.gone)
			d, _ := w.dispatcher(dispatch.Options{AdoptTime: time.Minute})
			for _, err := range d.Dispatch(t.Context(), []dispatch.Order{{AgentID: "a", Name: "worker", Mission: "go"}}) {
				t.Fatal(err)
			}
			if tt.want == dispatch.StatusCompleted {
				time.Sleep(100 * time.Millisecond) // in which it is looked for in vain
				w.live("worker", true, nil)
			}
			if got := wait(t, d)["a"]; got.Status != tt.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// An agent that nobody knows when a run goes on may be about to come back as well: it is not
// refused, and is given its order when it is there.
func TestAnAgentThatIsNotBackYetIsWaitedForByARunThatGoesOn(t *testing.T) {
	w := newWorld(t)
	d := w.continued(t.Context(), w.orchestrator(), dispatch.Options{AdoptTime: time.Minute, Profile: dispatch.ProfileCollect})
	o := dispatch.NewOrchestration(d)
	reply := []mesh.ToolUse{use("1", "dispatch_agent", `{"agent_id":"a","name":"helper","mission":"go"}`)}
	o.Batch(t.Context(), reply)
	if r := o.Call(t.Context(), reply[0]); r.Failed {
		t.Fatalf("it was told %+v", r)
	}
	time.Sleep(100 * time.Millisecond) // in which it is looked for in vain
	w.agent("helper", func(m *mission) error { return m.done("back") })
	if got := wait(t, d)["a"]; got.Status != dispatch.StatusCompleted || !strings.Contains(fmt.Sprint(got), "back") {
		t.Errorf("%+v", got)
	}
}
