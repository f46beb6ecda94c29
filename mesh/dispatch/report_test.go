package dispatch_test

import (
	"context"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// stopped waits for the user's word on going on after a limit.
func (m *mission) stopped(open string) error {
	data, err := structpb.NewStruct(map[string]any{mesh.ExtensionURI: map[string]any{"reason": mesh.ReasonLimit,
		"limit_report": map[string]any{"limit": "agent.steps", "most": 3, "work": []any{map[string]any{"open": []any{open}}}}}})
	if err != nil {
		return err
	}
	return m.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: "remote", Metadata: data, Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED,
			Message: &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_AGENT, Parts: parts("Go on?")}}}}})
}

// S0-077: when an agent is stopped by a limit, the user reads what all agents did: their
// calls, or else what they were asked for, and what was not begun.
func TestTheReportHasTheWorkOfAllAgents(t *testing.T) {
	w := newWorld(t)
	d, inv := w.dispatcher(dispatch.Options{})
	w.agent("worker", func(m *mission) error {
		switch id := idOf(m); id {
		case "limited":
			return m.stopped("write it")
		case "busy":
			x := execution(w, inv, id)
			if err := w.states.Decide(context.WithoutCancel(m.ctx), inv.Thread, func(*thread.State) (cache.Decision, error) {
				return cache.Decision{Events: []*mesh.Event{
					{Execution: x, Body: mesh.SkillCalled{Call: "c", Skill: "tasks.create", Args: `{"title":"t"}`}},
					{Execution: x, Body: mesh.SkillReturned{Call: "c"}},
				}}, nil
			}); err != nil {
				return err
			}
		}
		return m.done("did " + idOf(m))
	})
	for _, err := range d.Dispatch(t.Context(), []dispatch.Order{order("limited"), order("busy"), order("plain"), order("later", "limited")}) {
		t.Fatal(err)
	}
	o := dispatch.NewOrchestration(d)
	if r := o.Call(t.Context(), use("results", dispatch.ToolResults, `{}`)); r.Ask == "" {
		t.Fatalf("nothing is asked: %+v", r)
	}
	_, report, ok := o.Asked(t.Context(), "results")
	if !ok || report == nil || report.Limit != "agent.steps" || report.Most != 3 {
		t.Fatalf("the report is %+v", report)
	}
	names := map[string]string{}
	for _, x := range w.state(inv).Executions() {
		names[string(x.ID)] = x.Label
	}
	got := map[string]string{}
	for _, work := range report.Work {
		name := names[work.Execution]
		if name == "" { // it has not begun
			name = "later"
		}
		got[name] = strings.Join(work.Done, ";") + "|" + strings.Join(work.Open, ";")
	}
	for name, want := range map[string]string{"limited": "|write it", "busy": "tasks.create(title: t)|", "plain": "do plain|"} {
		if got[name] != want {
			t.Errorf("of %s is told %q, want %q", name, got[name], want)
		}
	}
	if s := got["later"]; len(got) != 4 || !strings.HasPrefix(s, "|") || len(s) == 1 {
		t.Errorf("of what has not begun is told %q, of all %v", s, got)
	}
}
