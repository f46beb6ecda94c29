package dispatch_test

import (
	"context"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/call"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// finding O9, S1-070: however an agent ends, the log says once how and why, and what was
// canceled is not told as a failure of the agent or of the log.
func TestTheLogSaysTrulyHowAgentsEnd(t *testing.T) {
	t.Parallel()
	silent := func(m *mission) error { <-m.ctx.Done(); return m.ctx.Err() }
	canceled := a2apb.TaskState_TASK_STATE_CANCELED
	failed := a2apb.TaskState_TASK_STATE_FAILED
	for name, tt := range map[string]struct {
		act    func(*mission) error
		end    func(w *world, d *dispatch.Dispatcher, inv *agent.Invocation, cut context.CancelCauseFunc)
		state  mesh.TaskState
		reason string
		status string
	}{
		"completed":                     {act: func(m *mission) error { return m.done("fine") }, state: a2apb.TaskState_TASK_STATE_COMPLETED, status: thread.StatusCompleted},
		"failed, and says why":          {act: func(m *mission) error { return m.endFor(failed, mesh.ReasonModel) }, state: failed, reason: mesh.ReasonModel, status: thread.StatusFailed},
		"failed, and why is no word":    {act: func(m *mission) error { return m.endFor(failed, "The mesh: no") }, state: failed, status: thread.StatusFailed},
		"canceled itself, and says who": {act: func(m *mission) error { return m.endFor(canceled, mesh.ReasonCanceled) }, state: canceled, status: thread.StatusCancelled},
		"failed":                        {act: func(m *mission) error { return m.end(failed, "disk full") }, state: failed, status: thread.StatusFailed},
		"canceled itself":               {act: func(m *mission) error { return m.end(canceled, "") }, state: canceled, status: thread.StatusCancelled},
		"took too long":                 {act: silent, state: failed, reason: mesh.ReasonTimeout, status: thread.StatusTimeout},
		"died":                          {act: func(m *mission) error { m.crash(); return silent(m) }, state: failed, reason: mesh.ReasonUnavailable, status: thread.StatusFailed},
		"said nonsense":                 {act: func(m *mission) error { return m.send(&a2apb.StreamResponse{}) }, state: failed, reason: mesh.ReasonIllegal, status: thread.StatusFailed},
		"ended by nothing":              {act: func(*mission) error { return nil }, state: failed, reason: mesh.ReasonNoAnswer, status: thread.StatusFailed},
		"by the tool": {act: silent, state: canceled, reason: mesh.ReasonDismissed, status: thread.StatusCancelled,
			end: func(_ *world, d *dispatch.Dispatcher, _ *agent.Invocation, _ context.CancelCauseFunc) { d.Cancel("x") }},
		"with who dispatched it": {act: silent, state: canceled, reason: mesh.ReasonDismissed, status: thread.StatusCancelled,
			end: func(_ *world, d *dispatch.Dispatcher, _ *agent.Invocation, _ context.CancelCauseFunc) { d.Close() }},
		"by the user": {act: silent, state: canceled, reason: mesh.ReasonCanceled, status: thread.StatusCancelled,
			end: func(w *world, d *dispatch.Dispatcher, inv *agent.Invocation, _ context.CancelCauseFunc) {
				w.note(inv, d.List()[0].ExecutionID, mesh.CancelRequested{By: "ann"})
				d.Cancel("x") // as its stream would end
			}},
		"with its turn": {act: silent, state: canceled, reason: mesh.ReasonCanceled, status: thread.StatusCancelled,
			end: func(w *world, _ *dispatch.Dispatcher, inv *agent.Invocation, cut context.CancelCauseFunc) {
				w.note(inv, inv.Grant.Turn, mesh.CancelRequested{By: "ann"})
				cut(agent.ErrCanceled)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			began := make(chan struct{}, 1)
			w.agent("worker", func(m *mission) error {
				began <- struct{}{}
				return tt.act(m)
			})
			inv := w.orchestrator()
			ctx, cut := context.WithCancelCause(t.Context())
			defer cut(nil)
			options := dispatch.Options{Limits: call.Limits{Silence: time.Minute}}
			if tt.reason == mesh.ReasonTimeout {
				options.Timeout = time.Second
			}
			d := dispatch.New(ctx, inv, w.pool, options)
			for _, err := range d.Dispatch(ctx, []dispatch.Order{order("x")}) {
				t.Fatal(err)
			}
			receive(t, began)
			if tt.end != nil {
				tt.end(w, d, inv, cut)
			}
			got := wait(t, d)["x"]
			d.Close()
			x := w.state(inv).Execution(got.ExecutionID)
			if x.State != tt.state || x.Reason != tt.reason || x.Status() != tt.status || got.Status != tt.status {
				t.Errorf("logged %v %q %s, told %+v", x.State, x.Reason, x.Status(), got)
			}
			if n := len(bodies[mesh.DispatchSettled](w, inv)); n != 1 {
				t.Errorf("its end is logged %d times", n)
			}
		})
	}
}

// note has the log say something of an execution.
func (w *world) note(inv *agent.Invocation, id mesh.ExecutionID, b mesh.Body) {
	w.t.Helper()
	if _, err := w.log.Append(w.t.Context(), inv.Thread, []*mesh.Event{{Execution: id, Body: b}}, threadlog.AppendOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// An agent that was not asked has the reason for that in the log: only one that could not be
// reached was unavailable.
func TestTheLogSaysWhyAnAgentWasNotAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent("worker", func(m *mission) error { return m.done("fine") })
	w.agent("gone", func(m *mission) error { return m.done("fine") })
	w.agents["gone"].Live = false
	w.agent("private", func(m *mission) error { return m.done("fine") })
	w.agents["private"].MissingPermissions = []string{"skill:create"}
	trip := &limit.Trip{Limit: limit.ModelTokens, Used: 60_000, Most: 50_000}
	policy := &mesh.Error{Code: mesh.Denied, Reason: mesh.ReasonPolicy, Policy: "night", Detail: "not at night"}
	w.deny = func(e *mesh.Event) error {
		b, ok := e.Body.(mesh.DispatchIssued)
		switch {
		case ok && b.Child.Label == "limited":
			return trip.Err("node")
		case ok && b.Child.Label == "forbidden":
			return policy
		}
		return nil
	}
	inv := w.orchestrator()
	d := dispatch.New(t.Context(), inv, w.pool, dispatch.Options{})
	defer d.Close()
	want := map[string]string{"gone": mesh.ReasonUnavailable, "private": mesh.ReasonPermission, "nobody": "", "limited": mesh.ReasonLimit, "forbidden": mesh.ReasonPolicy}
	var orders []dispatch.Order
	for id := range want {
		o := dispatch.Order{AgentID: id, Name: id, Mission: "m"}
		if id == "limited" || id == "forbidden" {
			o.Name = "worker"
		}
		orders = append(orders, o)
	}
	for _, err := range d.Dispatch(t.Context(), orders) {
		t.Fatal(err)
	}
	for id, got := range wait(t, d) {
		x := w.state(inv).Execution(got.ExecutionID)
		if x.State != a2apb.TaskState_TASK_STATE_FAILED || x.Reason != want[id] || x.Result == "" {
			t.Errorf("%s: logged %v %q, %q; want %q", id, x.State, x.Reason, x.Result, want[id])
		}
	}
}
