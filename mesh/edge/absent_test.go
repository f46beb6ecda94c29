package edge_test

import (
	"context"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// gone has the agent leave the directory, or be away since then.
func (w *world) gone(name string, since time.Time) {
	w.dir.mu.Lock()
	defer w.dir.mu.Unlock()
	e := w.dir.agents[name]
	if delete(w.dir.agents, name); !since.IsZero() {
		e.Live, e.Gone = false, since
		w.dir.agents[name] = e
	}
}

// finding R1: what is acknowledged is read, listed, followed, canceled and sent again by the
// log alone, at the address of an agent that is away, or has left for good. What it is to
// begin is refused while it is away, and an agent that was never there has nothing.
func TestWhatIsAcknowledgedNeedsNoAgent(t *testing.T) {
	long := func() time.Time { return time.Now().Add(-time.Hour) }
	for name, tt := range map[string]struct {
		leave func(*world)
		anew  mesh.Code // of a message that opens a task; Unknown where it is taken
	}{
		"live":            {func(*world) {}, mesh.Unknown},
		"away for a time": {func(w *world) { w.gone("smith", time.Now()) }, mesh.Unknown}, // it is waited for
		"away for long":   {func(w *world) { w.gone("smith", long()) }, mesh.Unavailable},
		"left":            {func(w *world) { w.gone("smith", time.Time{}) }, mesh.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := listing(t, func(s *settings) { began(s, long()) })
			w.agent("smith", func(s *scene) {
				if s.text() == "ask" {
					s.move(asks, "Which?")
					return
				}
				s.answer("done")
			})
			at := func(agent string) context.Context {
				return w.call(func(c *mesh.Call) { c.Thread, c.Extensions, c.Agent = "", nil, agent })
			}
			ctx, first := at("smith"), say("go")
			first.Message.ContextId = mesh.NewThreadID()
			done, waits := w.post(ctx, first), w.post(ctx, say("ask"))
			w.hear(done)
			w.hear(waits)
			tt.leave(w)

			if got, _, err := w.Task(ctx, done.Task.Id); err != nil || got.Status.State != completed {
				t.Errorf("Task: %v, %v", got.GetStatus(), err)
			}
			if err := refusal(w.Updates(ctx, done.Task.Id, 0)); err != nil {
				t.Errorf("Updates: %v", err)
			}
			if got, err := w.List(ctx, &a2apb.ListTasksRequest{PageSize: size(9)}); err != nil || got.TotalSize != 2 {
				t.Errorf("List: %d tasks, %v", got.GetTotalSize(), err)
			}
			if got, err := w.List(ctx, &a2apb.ListTasksRequest{PageSize: size(9), Status: failed}); err != nil || got.TotalSize != 0 {
				t.Errorf("List of what there is not: %d tasks, %v", got.GetTotalSize(), err)
			}
			if acc, err := w.Send(ctx, first); err != nil || acc.Task.Id != done.Task.Id {
				t.Errorf("resent: %v, %v", acc, err)
			}
			if got, err := w.Cancel(ctx, &a2apb.CancelTaskRequest{Id: waits.Task.Id}); err != nil || got.Status.State != canceled {
				t.Errorf("Cancel: %v, %v", got.GetStatus(), err)
			}
			threads := len(w.logs())
			acc, err := w.Send(ctx, say("more"))
			if err == nil && tt.anew == mesh.Unknown {
				_, err = w.Cancel(ctx, &a2apb.CancelTaskRequest{Id: acc.Task.Id}) // who is not waited for may have answered
				if err != nil && !mesh.IsCode(err, mesh.Precondition) {
					t.Errorf("cancel of a new one: %v", err)
				}
				return
			}
			if !mesh.IsCode(err, tt.anew) || len(w.logs()) != threads {
				t.Errorf("a new message: %v; %d threads, and before %d", err, len(w.logs()), threads)
			}
			for what, err := range map[string]error{
				"Task":    second(w.Task(at("nobody"), done.Task.Id)),
				"Updates": refusal(w.Updates(at("nobody"), done.Task.Id, 0)),
				"List":    last(w.List(at("nobody"), &a2apb.ListTasksRequest{PageSize: size(1)})),
				"Cancel":  last(w.Cancel(at("nobody"), &a2apb.CancelTaskRequest{Id: done.Task.Id})),
				"Send":    last(w.Send(at("nobody"), say("go"))),
			} {
				if !mesh.IsCode(err, mesh.NotFound) {
					t.Errorf("%s at an agent that was never there: %v", what, err)
				}
			}
		})
	}
}

func last[T any](_ T, err error) error           { return err }
func second[T, U any](_ T, _ U, err error) error { return err }

// began has the node of the settings begin then.
func began(s *settings, then time.Time) {
	first := true
	s.turn.Now = func() time.Time {
		if first {
			first = false
			return then
		}
		return time.Now()
	}
}

// A node that has just begun takes messages for an agent that had tasks and is to register
// again, which its turn waits for; and none for a name that nobody knows.
func TestAnAgentThatIsToRegisterAgainIsSentMessages(t *testing.T) {
	w := listing(t)
	w.agent("smith", func(s *scene) { s.answer("done") })
	at := func(agent string) context.Context {
		return w.call(func(c *mesh.Call) { c.Thread, c.Extensions, c.Agent = "", nil, agent })
	}
	w.hear(w.post(at("smith"), say("go")))
	w.dir.mu.Lock()
	smith := w.dir.agents["smith"]
	delete(w.dir.agents, "smith")
	w.dir.mu.Unlock()
	acc := w.post(at("smith"), say("more"))
	if _, err := w.Send(at("smiht"), say("more")); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("a name that was mistyped: %v", err)
	}
	w.dir.mu.Lock()
	w.dir.agents["smith"] = smith
	w.dir.mu.Unlock()
	if h := w.hear(acc); h.state != completed || h.text != "done" {
		t.Errorf("heard %v", h)
	}
}
