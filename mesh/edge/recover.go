package edge

import (
	"context"
	"maps"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threads"
)

// Recover settles what a node left unfinished that died: turns that no agent
// works on any more become FAILED with the reason INTERRUPTED, and so does
// everything below them. Turns that wait for their user are left as they are.
// It returns how many turns it settled. Call it before the edge serves, while
// no other node drives threads of the same store.
func (e *Edge) Recover(ctx context.Context) (int, error) {
	const op, page = "edge.Recover", 1024
	from, err := e.Checkpoint.Load(ctx)
	if err != nil {
		return 0, mesh.Wrap(op, err)
	}
	touched := map[mesh.ThreadKey]bool{}
	pos := from
	for {
		records, err := e.Log.Scan(ctx, pos, page)
		if err != nil {
			return 0, mesh.Wrap(op, err)
		}
		if len(records) == 0 {
			break
		}
		for _, r := range records {
			touched[r.Thread] = true
		}
		pos = records[len(records)-1].Pos
	}
	settled := 0
	for key := range touched {
		n, err := e.interrupt(ctx, key, "The mesh was restarted while this was running")
		if err != nil {
			return settled, mesh.Wrap(op, err)
		}
		settled += n
	}
	e.saw(pos)
	return settled, e.saveCheckpoint(ctx)
}

// cut is how a turn ends that was interrupted. What happened is a clause for the
// user, who is told too which skills may have had their effect: to send the same
// message again could have it twice.
func cut(s *thread.State, turn mesh.ExecutionID, what string) mesh.TaskMoved {
	open := map[string]bool{}
	for _, x := range s.Executions() {
		if len(x.Unsettled) == 0 {
			continue
		}
		if t := s.TurnOf(x.ID); t != nil && t.ID == turn {
			for _, skill := range x.Unsettled {
				open[skill] = true
			}
		}
	}
	if len(open) == 0 {
		return failure(mesh.ReasonInterrupted, what+"; send the message again.")
	}
	names := mesh.Clip(strings.Join(slices.Sorted(maps.Keys(open)), ", "), 200)
	return failure(mesh.ReasonInterrupted, what+". It is not known whether this had its effect: "+names+". Find out before you send the message again.")
}

// interrupt settles the unfinished turns of a thread, and says what happened, in
// a clause for the user.
func (e *Edge) interrupt(ctx context.Context, key mesh.ThreadKey, what string) (int, error) {
	n := 0
	err := e.States.Decide(ctx, key, func(s *thread.State) (threads.Decision, error) {
		n = 0
		d := e.claim(s)
		claims := len(d.Events)
		for _, t := range s.Turns() {
			if mesh.Terminal(t.State) || mesh.Interrupted(t.State) {
				continue
			}
			n++
			for _, x := range s.Unfinished(t.ID) {
				d.Events = append(d.Events, e.maker(x.Parent, "node")(mesh.DispatchSettled{
					Child: x.ID, State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonInterrupted}))
			}
			d.Events = append(d.Events, e.maker(t.ID, "node")(cut(s, t.ID, what)))
		}
		if len(d.Events) == claims {
			return threads.Decision{}, nil
		}
		for _, ev := range d.Events {
			ev.Epoch = d.Epoch
		}
		return d, nil
	})
	return n, err
}
