package turn

import (
	"context"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// Recover ends, with Interrupt, what a node left behind that died: turns that had begun,
// and that no agent works on any more, become FAILED with the reason INTERRUPTED, and so
// does everything below them. Turns that wait for their user, or have not begun, are left
// as they are, and threads that another node drives. It returns how many turns it
// ended. Every driver does the same to its thread before it does anything else; to
// call Recover before messages are taken spares users the wait for that. Without
// Interrupt they go on, once Run has found them.
func (r *Runner) Recover(ctx context.Context) (int, error) {
	ended := 0
	if !r.Interrupt {
		return 0, nil
	}
	err := r.unfinished(ctx, func(key mesh.ThreadKey) error {
		n, err := r.takeOver(ctx, key, begun)
		ended += n
		return err
	})
	return ended, mesh.Wrap("turn.Recover", err)
}

// RecoverAll does the same to threads of which the store does not say whether they
// are unfinished, and ends turns that have not begun, too.
func (r *Runner) RecoverAll(ctx context.Context, threads []mesh.ThreadKey) (int, error) {
	ended := 0
	for _, key := range threads {
		n, err := r.takeOver(ctx, key, func(*thread.State, *thread.Execution) bool { return true })
		if err != nil {
			return ended, mesh.Wrap("turn.RecoverAll", err)
		}
		ended += n
	}
	return ended, nil
}

// takeOver interrupts those turns of a thread, unless another node drives it.
func (r *Runner) takeOver(ctx context.Context, key mesh.ThreadKey, which func(*thread.State, *thread.Execution) bool) (int, error) {
	l, err := r.Leases.Acquire(ctx, key, r.Node, leaseTTL)
	if mesh.IsCode(err, mesh.Conflict) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := (&driver{Config: r.Config, runner: r, key: key}).interrupt(ctx, text.MeshRestarted(), which)
	if mesh.IsCode(err, mesh.DataLoss) {
		r.Logger.ErrorContext(ctx, "a turn is left as it is: its conversation is damaged", "thread", key, "err", err)
		err = nil
	}
	if failed := r.Leases.Release(context.WithoutCancel(ctx), l); err == nil {
		err = failed
	}
	return n, err
}

// interrupt ends those unfinished turns of the thread that were begun under an
// earlier claim, or whose driver stops, and says what happened, in a clause for the
// user. It returns how many.
func (d *driver) interrupt(ctx context.Context, what string, which func(*thread.State, *thread.Execution) bool) (int, error) {
	n := 0
	err := d.decideEnd(ctx, func(s *thread.State, dec *cache.Decision, called calls) error {
		n = 0
		rest := false // something is left to do
		for _, t := range s.Turns() {
			switch {
			case mesh.Terminal(t.State) || mesh.Interrupted(t.State):
				continue
			case !which(s, t):
				rest = true
				continue
			}
			n++
			for _, x := range s.Unfinished(t.ID) {
				dec.Events = append(dec.Events, d.event(x.Parent, "node", mesh.DispatchSettled{
					Child: x.ID, State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonInterrupted}))
			}
			end, err := called.cutOff(s, t.ID, what, mesh.ReasonInterrupted)
			if err != nil {
				return err
			}
			dec.Events = append(dec.Events, d.event(t.ID, "node", end))
		}
		if !rest {
			dec.Settled = s.Seq
		}
		return nil
	})
	if mesh.IsCode(err, mesh.NotFound) { // it was deleted
		return 0, nil
	}
	return n, err
}

// begun reports whether an agent has had the turn, and does not wait for the user's
// message in it: then nobody can take it up where it was left.
func begun(s *thread.State, t *thread.Execution) bool {
	switch at := t.Leg(); {
	case at != nil && mesh.Interrupted(s.Execution(at.Execution).State):
		return false
	case at != nil && mesh.Terminal(s.Execution(at.Execution).State) && len(t.Pending()) > 0: // who had it is gone, and nobody had the message
		return false
	case at == nil && len(s.Unfinished(t.ID)) == 0: // its user left, or the session was parked; who is to answer was not asked yet
		return false
	}
	return len(t.Legs) > 0
}

// Settle returns the events that end what is not over in a thread which comes from elsewhere,
// with all its events: turns that were at work, or waited, become FAILED with the reason
// INTERRUPTED, and so does everything below them. So nothing of it is gone on with here, where
// its agents were never asked.
func Settle(events []*mesh.Event) (ends []*mesh.Event) {
	s := thread.Fold(events)
	add := func(of mesh.ExecutionID, b mesh.Body) {
		ends = append(ends, &mesh.Event{ID: mesh.NewEventID(), Execution: of, Actor: "node", Body: b})
	}
	for _, t := range s.Turns() {
		if mesh.Terminal(t.State) {
			continue
		}
		for _, x := range s.Unfinished(t.ID) {
			add(x.Parent, mesh.DispatchSettled{Child: x.ID, State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonInterrupted})
		}
		add(t.ID, call.Failure(mesh.ReasonInterrupted, text.Interrupted(text.Imported(), outcomes(events, t.ID))))
	}
	return ends
}
