package edge

import (
	"context"
	"maps"
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
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
		n, err := e.interrupt(ctx, key, text.MeshRestarted())
		if err != nil {
			return settled, mesh.Wrap(op, err)
		}
		settled += n
	}
	e.saw(pos)
	return settled, e.saveCheckpoint(ctx)
}

// cut is how a turn ends that was interrupted, by what the state has of it. What
// happened is a clause for the user.
func cut(s *thread.State, turn mesh.ExecutionID, what string) mesh.TaskMoved {
	var f text.Fates
	for _, x := range s.Executions() {
		if t := s.TurnOf(x.ID); t != nil && t.ID == turn {
			f.Unknown = append(f.Unknown, slices.Compact(slices.Sorted(maps.Values(x.Unsettled)))...)
			f.Others += x.SkillCalls - len(x.Unsettled)
		}
	}
	return failure(mesh.ReasonInterrupted, text.Interrupted(what, f))
}

// cutOff is how a turn ends that was interrupted. What happened is a clause for the
// user, who is told too what was done and what may have had its effect: to send
// the same message again could have it twice.
func (e *Edge) cutOff(ctx context.Context, key mesh.ThreadKey, s *thread.State, turn mesh.ExecutionID, what string) (mesh.TaskMoved, error) {
	called := func(x *thread.Execution) bool {
		t := s.TurnOf(x.ID)
		return x.SkillCalls > 0 && t != nil && t.ID == turn
	}
	if !slices.ContainsFunc(s.Executions(), called) {
		return cut(s, turn, what), nil
	}
	const page = 1024
	var events []*mesh.Event
	for {
		more, err := e.Log.Read(ctx, key, mesh.Seq(len(events)), page)
		if err != nil {
			return mesh.TaskMoved{}, mesh.Wrap("edge.cutOff", err)
		}
		if events = append(events, more...); len(more) < page {
			break
		}
	}
	var f text.Fates
	for _, c := range thread.SkillCalls(events) {
		if c.Turn != turn {
			continue
		}
		switch c.Status {
		case thread.CallCompleted:
			f.Done = append(f.Done, mesh.CallSummary(c.Skill, c.Args))
		case thread.CallFailed:
			f.Failed = append(f.Failed, mesh.CallSummary(c.Skill, c.Args))
		default:
			f.Unknown = append(f.Unknown, mesh.CallSummary(c.Skill, c.Args))
		}
	}
	return failure(mesh.ReasonInterrupted, text.Interrupted(what, f)), nil
}

// interrupt settles the unfinished turns of a thread, and says what happened, in
// a clause for the user.
func (e *Edge) interrupt(ctx context.Context, key mesh.ThreadKey, what string) (int, error) {
	n := 0
	err := e.States.Decide(ctx, key, func(s *thread.State) (cache.Decision, error) {
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
			end, err := e.cutOff(ctx, key, s, t.ID, what)
			if err != nil {
				return cache.Decision{}, err
			}
			d.Events = append(d.Events, e.maker(t.ID, "node")(end))
		}
		if len(d.Events) == claims {
			return cache.Decision{}, nil
		}
		for _, ev := range d.Events {
			ev.Epoch = d.Epoch
		}
		return d, nil
	})
	return n, err
}
