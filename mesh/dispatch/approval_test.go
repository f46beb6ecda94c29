package dispatch_test

import (
	"context"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text/texttest"
)

// replied logs that the model of the execution made the calls.
func (w *world) replied(inv *agent.Invocation, uses ...mesh.ToolUse) {
	w.t.Helper()
	if _, err := inv.Mesh.Record(w.t.Context(), &mesh.Event{Body: mesh.ModelReplied{Tools: uses}}); err != nil {
		w.t.Fatal(err)
	}
}

// returned logs what the model was told of a call.
func (w *world) returned(inv *agent.Invocation, u mesh.ToolUse, r llm.ToolResult) {
	w.t.Helper()
	if _, err := inv.Mesh.Record(w.t.Context(), &mesh.Event{Body: mesh.ToolReturned{Call: u.ID, Name: u.Name, Content: r.Text, Failed: r.Failed}}); err != nil {
		w.t.Fatal(err)
	}
}

// goOn returns the dispatcher of the execution when it goes on with the user's
// words.
func (w *world) goOn(inv *agent.Invocation, words string, o dispatch.Options) *dispatch.Dispatcher {
	w.t.Helper()
	again := *inv
	again.Resumed = true
	again.Message = &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER, Parts: parts(words)}
	d := dispatch.New(w.t.Context(), &again, w.pool, o)
	w.t.Cleanup(d.Close)
	return d
}

// asker is an agent that asks before it does what its mission says, and says
// what it was answered.
func asker(m *mission) error {
	switch {
	case m.msg.TaskId != "":
		return m.done("they said " + m.text)
	case strings.HasPrefix(m.text, "do ask"):
		if err := m.say("I shall."); err != nil {
			return err
		}
		return m.ask("May I " + idOf(m) + "?")
	}
	return m.done("did " + idOf(m))
}

func dispatchUse(call, id, after string) mesh.ToolUse {
	return use(call, dispatch.ToolDispatch, `{"agent_id":"`+id+`","mission":"do `+id+`","name":"worker","skills":[],"depends_on":[`+after+`]}`)
}

// S3-032: agents that need the user's word wait, with all their questions asked
// together; the others end. When the execution goes on, those that waited are
// told what the user said, nothing is dispatched again, and what depends on them
// begins. finding C13: those that had ended have the results that the log's fold has.
func TestAgentsThatNeedApprovalWaitAndGoOn(t *testing.T) {
	for name, ours := range map[string]bool{"of the mesh": true, "others": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			calls := make(chan *mission, 16)
			w.agent("worker", func(m *mission) error { calls <- m; return asker(m) })
			if ours {
				w.agents["worker"].Card.Capabilities.Extensions = []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI}}
			}
			inv, announced := w.untilAsked()
			for range 3 {
				<-calls
			}
			d := w.goOn(inv, "yes", dispatch.Options{MaxAgents: 1})
			got := read(t, dispatch.NewOrchestration(d).Call(t.Context(), use("5", dispatch.ToolResults, `{}`)).Text)
			var told []string
			for _, a := range got["agents"].([]any) {
				r := a.(map[string]any)
				told = append(told, r["agent_id"].(string)+" "+r["status"].(string)+": "+r["result"].(string))
			}
			equal(t, []string{"later completed: did later", "ask-1 completed: I shall.\n\nthey said yes",
				"ask-2 completed: I shall.\n\nthey said yes", "quick completed: did quick"}, told)
			for range 3 {
				m := <-calls
				switch answered := m.msg.TaskId == "remote"; {
				case answered && (m.text != "yes" || (len(m.md.Get("mesh-ticket")) == 1) != ours || (m.msg.ContextId == inv.Thread.ID) != ours):
					t.Errorf("one that waited was told %v with %v", m.msg, m.md)
				case !answered && (!strings.Contains(m.text, "ask-1") || !strings.Contains(m.text, "\n> I shall.\n> \n> they said yes\n```") || !strings.Contains(m.text, "did quick")):
					t.Errorf("what depended on them was told %q", m.text)
				}
			}
			if n := len(bodies[mesh.DispatchIssued](w, inv)); n != 5 {
				t.Errorf("%d dispatches", n-1)
			}
			if !strings.Contains(announced, string(execution(w, inv, "later"))) {
				t.Errorf("the execution that was announced is not the one that came: %s", announced)
			}
			if errs := d.Dispatch(t.Context(), []dispatch.Order{order("a"), order("b")}); len(errs) == 0 || !mesh.IsCode(errs[0], mesh.Exhausted) {
				t.Errorf("more than there may be for one message: %v", errs)
			}
			if errs := d.Dispatch(t.Context(), []dispatch.Order{order("a")}); errs != nil { // S0-058
				t.Errorf("those before the user's word count: %v", errs)
			}
			if errs := d.Dispatch(t.Context(), []dispatch.Order{order("quick")}); len(errs) == 0 || !mesh.IsCode(errs[0], mesh.Invalid) {
				t.Errorf("an id of before is taken twice: %v", errs)
			}
		})
	}
}

// untilAsked has an execution dispatch two agents that ask, one that does not,
// and one that depends on others, until it waits for the user. It returns what
// the model was told of the last.
func (w *world) untilAsked() (inv *agent.Invocation, announced string) {
	w.t.Helper()
	ctx := w.t.Context()
	d, inv := w.dispatcher(dispatch.Options{})
	o := dispatch.NewOrchestration(d)
	reply := []mesh.ToolUse{dispatchUse("1", "later", `"ask-1","quick"`), dispatchUse("2", "ask-1", ""), dispatchUse("3", "ask-2", ""), dispatchUse("4", "quick", "")}
	w.replied(inv, reply...)
	o.Batch(ctx, reply)
	for i, u := range reply {
		r := o.Call(ctx, u)
		w.returned(inv, u, r)
		if i == 0 {
			announced = r.Text
		}
	}
	collect := use("5", dispatch.ToolResults, `{"agent_ids":["later"]}`)
	w.replied(inv, collect)
	if r := o.Call(ctx, collect); !texttest.Is(r.Ask, "1. May I ask-1?\n\n2. May I ask-2?\n\nYour answer counts for all of these.") {
		w.t.Fatalf("got %+v", r)
	}
	if r := o.Call(ctx, use("6", dispatch.ToolResults, `{"agent_ids":["quick"]}`)); r.Ask != "" || !strings.Contains(r.Text, `"did quick"`) {
		w.t.Errorf("one that is done: %+v", r)
	}
	d.Close()
	for _, x := range w.state(inv).Executions()[2:] {
		if waits := strings.HasPrefix(x.Label, "ask"); waits && (x.State != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || x.Reason != mesh.ReasonApproval) {
			w.t.Errorf("%s is logged as %v %s", x.Label, x.State, x.Reason)
		}
	}
	return inv, announced
}

func execution(w *world, inv *agent.Invocation, label string) mesh.ExecutionID {
	for _, x := range w.state(inv).Executions() {
		if x.Label == label {
			return x.ID
		}
	}
	return "none"
}

func equal(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// asks has the execution ask the user what its agents ask.
func asks(t *testing.T, d *dispatch.Dispatcher) {
	t.Helper()
	if r := dispatch.NewOrchestration(d).Call(t.Context(), use("results", dispatch.ToolResults, `{}`)); r.Ask == "" {
		t.Fatalf("nothing is asked: %+v", r)
	}
}

// An agent may ask more than once.
func TestAnAgentAsksAgain(t *testing.T) {
	w := newWorld(t)
	w.agent("worker", func(m *mission) error {
		if m.text == "yes" {
			return m.done("done")
		}
		return m.ask("May I, after " + m.text + "?")
	})
	d, inv := w.dispatcher(dispatch.Options{})
	if r := run(t, d, order("a"))["a"]; r.Status != dispatch.StatusWaiting || r.Result != "May I, after do a?" || r.Terminal() {
		t.Fatalf("%+v", r)
	}
	asks(t, d)
	d.Close()
	d = w.goOn(inv, "no", dispatch.Options{})
	if r := wait(t, d)["a"]; r.Status != dispatch.StatusWaiting || r.Result != "May I, after no?" {
		t.Fatalf("%+v", r)
	}
	asks(t, d)
	d.Close()
	if r := wait(t, w.goOn(inv, "yes", dispatch.Options{}))["a"]; r.Status != dispatch.StatusCompleted || r.Result != "done" {
		t.Errorf("%+v", r)
	}
}

// A consultation that waited is found by its call when that is made again; the
// same words in a later call are another consultation.
func TestAConsultationGoesOnWithItsCall(t *testing.T) {
	w := newWorld(t)
	w.agent("worker", asker)
	agents := []*meshv1.Agent{w.agents["worker"]}
	d, inv := w.dispatcher(dispatch.Options{})
	c := dispatch.NewConsult(d, agents)
	ask, other := use("1", dispatch.ToolConsult, `{"agent":"worker","task":"do ask"}`), use("2", dispatch.ToolConsult, `{"agent":"worker","task":"do it"}`)
	w.replied(inv, ask, other)
	done := c.Call(t.Context(), other)
	w.returned(inv, other, done)
	if r := c.Call(t.Context(), ask); r.Ask != "May I ask?" {
		t.Fatalf("%+v", r)
	}
	d.Close()

	d = w.goOn(inv, "go on", dispatch.Options{})
	c = dispatch.NewConsult(d, nil) // also when the agent is not offered any more
	if r := c.Call(t.Context(), ask); !strings.Contains(r.Text, `they said go on"`) {
		t.Errorf("the call again: %+v", r)
	}
	c = dispatch.NewConsult(d, agents)
	if r := c.Call(t.Context(), use("8", dispatch.ToolConsult, ask.Arguments)); r.Ask != "May I ask?" {
		t.Errorf("a call of the same words: %+v", r)
	}
	if r := c.Call(t.Context(), use("9", dispatch.ToolConsult, other.Arguments)); r.Text != done.Text {
		t.Errorf("another one: %+v, want %+v", r, done)
	}
	var labels []string
	for _, r := range d.List() {
		labels = append(labels, r.AgentID+" "+r.Status)
	}
	equal(t, []string{"worker-1 completed", "worker-2 completed", "worker-3 waiting", "worker-4 completed"}, labels)
}

// Agents that wait are ended with a run that is cut, and one by one.
func TestAgentsThatWaitAreCanceled(t *testing.T) {
	for name, end := range map[string]func(d *dispatch.Dispatcher, cut func()){
		"with the run": func(d *dispatch.Dispatcher, cut func()) { cut(); d.Close() },
		"alone": func(d *dispatch.Dispatcher, _ func()) {
			if got := d.Cancel("ask"); got != dispatch.StatusCanceled {
				t.Errorf("Cancel = %q", got)
			}
			d.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.agent("worker", asker)
			inv := w.orchestrator()
			ctx, cut := context.WithCancel(t.Context())
			defer cut()
			d := dispatch.New(ctx, inv, w.pool, dispatch.Options{})
			defer d.Close()
			run(t, d, order("ask"), order("after", "ask"))
			end(d, cut)
			if id := receive(t, a.canceled); id != "remote" {
				t.Errorf("asked to cancel %q", id)
			}
			if x := w.state(inv).Executions()[2]; x.State != a2apb.TaskState_TASK_STATE_CANCELED {
				t.Errorf("logged %v", x.State)
			}
			if r := d.List()[0]; r.Status != dispatch.StatusCanceled {
				t.Errorf("%+v", r)
			}
			if d.Cancel("ask") != "already_completed" {
				t.Error("it can be cancelled again")
			}
		})
	}
}

// What is at work when a tool asks the user comes to its end, though nobody
// waits for it now.
func TestClosingForAQuestionLetsTheOthersEnd(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	w.agent("worker", func(m *mission) error {
		if idOf(m) == "slow" {
			<-hold
		}
		return asker(m)
	})
	d, inv := w.dispatcher(dispatch.Options{})
	for _, err := range d.Dispatch(t.Context(), []dispatch.Order{order("slow")}) {
		t.Fatal(err)
	}
	if r := dispatch.NewConsult(d, []*meshv1.Agent{w.agents["worker"]}).Call(t.Context(), use("1", dispatch.ToolConsult, `{"agent":"worker","task":"do ask"}`)); r.Ask == "" {
		t.Fatalf("%+v", r)
	}
	closed := make(chan struct{})
	go func() { d.Close(); close(closed) }()
	close(hold)
	<-closed
	if x := w.state(inv).Execution(execution(w, inv, "slow")); x.State != a2apb.TaskState_TASK_STATE_COMPLETED || x.Result != "did slow" {
		t.Errorf("logged %v %q", x.State, x.Result)
	}
}

// What was dispatched before is as the log has it, whatever came of it.
func TestWhatWasDispatchedBeforeIsRestored(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	w.agent("worker", func(m *mission) error {
		switch idOf(m) {
		case "failed":
			return m.end(a2apb.TaskState_TASK_STATE_FAILED, "disk full")
		case "awaiting":
			return m.end(a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, "Which Bob?")
		}
		return asker(m)
	})
	d, inv := w.dispatcher(dispatch.Options{})
	before := run(t, d, order("completed"), order("failed"), order("awaiting"))
	d.Close()
	for id, end := range map[string]mesh.DispatchSettled{
		"timeout":   {State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonTimeout, Result: "Too slow."},
		"cancelled": {State: a2apb.TaskState_TASK_STATE_CANCELED, Result: "Stopped."},
	} {
		x := mesh.Execution{ID: mesh.NewExecutionID(inv.Thread.ID), Parent: inv.Execution, Kind: mesh.KindAgent, Agent: "worker", User: "ann", Label: id, Text: "do " + id}
		end.Child = x.ID
		if _, err := inv.Mesh.Record(t.Context(), &mesh.Event{Body: mesh.DispatchIssued{Child: x}}, &mesh.Event{Body: end}); err != nil {
			t.Fatal(err)
		}
		before[id] = dispatch.Result{ExecutionID: x.ID, Agent: "worker", Status: id, Result: end.Result}
	}
	lost := mesh.Execution{ID: mesh.NewExecutionID(inv.Thread.ID), Parent: inv.Execution, Kind: mesh.KindAgent, Agent: "worker", User: "ann", Label: "lost"}
	if _, err := inv.Mesh.Record(t.Context(), &mesh.Event{Body: mesh.DispatchIssued{Child: lost}}); err != nil {
		t.Fatal(err)
	}
	d = w.goOn(inv, "x", dispatch.Options{})
	after := wait(t, d)
	for id, b := range before {
		if a := after[id]; a.Status != b.Status || a.Result != b.Result || a.ExecutionID != b.ExecutionID || a.Agent != b.Agent || a.Mission != "do "+id || a.ToolCalls != b.ToolCalls || b.Status != id {
			t.Errorf("%s was %+v, is %+v", id, b, a)
		}
	}
	if r := after["lost"]; r.Status != dispatch.StatusFailed || !strings.Contains(r.Result, "not known") {
		t.Errorf("%+v", r)
	}
	if r := run(t, d, order("next", "failed"))["next"]; r.Status != dispatch.StatusSkipped {
		t.Errorf("what depends on one that failed before: %+v", r)
	}
}

// finding O8: what was accepted is carried out by the run that goes on, whether its call
// has a result in the log or not, and what depends on an execution that the log does not
// have is skipped. A call that is made again orders nothing twice.
func TestWhatWasAcceptedIsCarriedOutByWhoGoesOn(t *testing.T) {
	w := newWorld(t)
	w.agent("worker", asker)
	d, inv := w.dispatcher(dispatch.Options{})
	d.Close()
	accepted := func(label, call string, after ...mesh.ExecutionID) *mesh.Event {
		x := mesh.Execution{ID: mesh.NewExecutionID(inv.Thread.ID), Parent: inv.Execution, Kind: mesh.KindAgent, Agent: "worker", User: "ann",
			Label: label, Text: "do " + label, DependsOn: after}
		return &mesh.Event{Body: mesh.DispatchAccepted{Child: x, Wave: 1 + len(after), Call: call}}
	}
	first := accepted("first", "1")
	_, err := inv.Mesh.Record(t.Context(), first, accepted("second", "2", first.Body.(mesh.DispatchAccepted).Child.ID), accepted("lost", "3", "gone"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range w.state(inv).Executions()[2:] {
		if x.State != a2apb.TaskState_TASK_STATE_SUBMITTED || !x.Waits() {
			t.Errorf("%s is logged as %v", x.Label, x.State)
		}
	}
	d = w.goOn(inv, "x", dispatch.Options{})
	again := dispatchUse("2", "second", `"first"`)
	w.replied(inv, again)
	o := dispatch.NewOrchestration(d)
	o.Batch(t.Context(), []mesh.ToolUse{again})
	if r := o.Call(t.Context(), again); r.Failed || !strings.Contains(r.Text, string(execution(w, inv, "second"))) {
		t.Errorf("the call again: %+v", r)
	}
	got := wait(t, d)
	for label, want := range map[string]string{"first": "completed", "second": "completed", "lost": "skipped"} {
		if got[label].Status != want {
			t.Errorf("%s: %+v", label, got[label])
		}
	}
	if n := len(bodies[mesh.DispatchIssued](w, inv)); n != 3 {
		t.Errorf("%d dispatches, and the turn's", n-1)
	}
	if x := w.state(inv).Execution(execution(w, inv, "lost")); x.State != a2apb.TaskState_TASK_STATE_REJECTED || x.Reason != mesh.ReasonDependency {
		t.Errorf("what was skipped is logged as %v %s", x.State, x.Reason)
	}
}

// An agent that is gone when the user answers fails, and the log says so.
func TestAnAgentThatIsGoneCannotGoOn(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	w.agent("worker", asker)
	d, inv := w.dispatcher(dispatch.Options{})
	run(t, d, order("ask"))
	asks(t, d)
	d.Close()
	w.mu.Lock()
	w.agents["worker"].Live = false
	w.mu.Unlock()
	if r := wait(t, w.goOn(inv, "yes", dispatch.Options{}))["ask"]; r.Status != dispatch.StatusFailed || !strings.Contains(r.Result, "not available") {
		t.Errorf("%+v", r)
	}
	if x := w.state(inv).Executions()[2]; x.State != a2apb.TaskState_TASK_STATE_FAILED {
		t.Errorf("logged %v", x.State)
	}
}

// Without the log, nothing is dispatched a second time.
func TestWithoutTheLogNothingGoesOn(t *testing.T) {
	w := newWorld(t)
	inv := w.orchestrator()
	_ = w.conn.Close()
	d := w.goOn(inv, "yes", dispatch.Options{})
	if errs := d.Dispatch(t.Context(), []dispatch.Order{order("a")}); len(errs) != 1 || !mesh.IsCode(errs[0], mesh.Unavailable) {
		t.Errorf("%v", errs)
	}
	if _, err := d.Wait(t.Context(), nil); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("%v", err)
	}
}

// An agent whose question cannot be logged would wait for ever: it fails.
func TestAQuestionThatCannotBeLoggedIsAFailure(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	a := w.agent("worker", asker)
	w.refuse = func(e *mesh.Event) bool {
		m, ok := e.Body.(mesh.TaskMoved)
		return ok && mesh.Interrupted(m.State)
	}
	d, inv := w.dispatcher(dispatch.Options{})
	if r := run(t, d, order("ask"))["ask"]; r.Status != dispatch.StatusFailed || r.Result != "I shall.\n\nthe disk is full" {
		t.Errorf("%+v", r)
	}
	receive(t, a.canceled)
	if x := w.state(inv).Executions()[2]; x.State != a2apb.TaskState_TASK_STATE_FAILED {
		t.Errorf("logged %v", x.State)
	}
}
