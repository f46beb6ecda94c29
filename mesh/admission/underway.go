package admission

import (
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// underway is what others have reserved: what the state will have unless their
// appends fail.
type underway struct {
	ids cache.Reserved
	// Calls of skills: of the execution, of its turn, and of the thread.
	calls, turn, thread int
	cost                int64                            // of models, in the thread
	below               map[mesh.ExecutionID]mesh.Budget // used by each execution and all below it
	dispatched          map[mesh.ExecutionID]int         // agents in the turn, by who dispatches them
	seen                map[mesh.ExecutionID]bool        // those
	adds                map[mesh.ExecutionID]mesh.Volume // to what the log has of each
	// Of the execution, the calls that
	called   map[string]bool // will be made
	asked    map[string]bool // will wait for the user's word
	answered map[string]bool // will have it
	returned map[string]bool // will have returned
	tripped  []trip
	// Of what the execution dispatched, what
	accepted map[mesh.ExecutionID]bool   // will have been accepted
	issued   map[mesh.ExecutionID]bool   // will be at work
	over     map[mesh.ExecutionID]bool   // will be over
	told     map[mesh.ExecutionID]string // will be delivered, by which event
}

// A trip is a limit that was met, and where.
type trip struct {
	limit string
	of    mesh.ExecutionID
}

// countUnderway says what is reserved beside the execution's request.
func countUnderway(st *thread.State, mine mesh.ExecutionID, on cache.Reserved) underway {
	u := underway{ids: on, called: map[string]bool{}, asked: map[string]bool{}, below: map[mesh.ExecutionID]mesh.Budget{}, dispatched: map[mesh.ExecutionID]int{}, answered: map[string]bool{}, returned: map[string]bool{},
		seen: map[mesh.ExecutionID]bool{}, adds: map[mesh.ExecutionID]mesh.Volume{}, accepted: map[mesh.ExecutionID]bool{}, issued: map[mesh.ExecutionID]bool{}, over: map[mesh.ExecutionID]bool{}, told: map[mesh.ExecutionID]string{}}
	turn := st.TurnOf(mine)
	for _, e := range on {
		u.adds[e.Execution] = u.adds[e.Execution].Plus(e.Volume())
		own := e.Execution == mine
		switch b := e.Body.(type) {
		case mesh.SkillCalled:
			u.thread++
			u.spend(st, e.Execution, mesh.Budget{Calls: 1})
			if t := st.TurnOf(e.Execution); t != nil && t == turn {
				u.turn++
			}
			if own {
				u.calls++
				u.called[b.Call] = true
			}
		case mesh.SkillReturned:
			if own {
				u.returned[b.Call] = true
			}
		case mesh.ApprovalAsked:
			if own {
				u.asked[b.Call] = true
			}
		case mesh.ApprovalSettled:
			if own {
				u.answered[b.Call] = true
			}
		case mesh.ModelReplied:
			u.cost += b.Usage.Spent().Cost
			u.spend(st, e.Execution, b.Usage.Spent())
		case mesh.DispatchAccepted:
			u.dispatch(st, turn, e, b.Child.ID)
			if own {
				u.accepted[b.Child.ID] = true
			}
		case mesh.DispatchIssued:
			u.dispatch(st, turn, e, b.Child.ID)
			if own {
				u.issued[b.Child.ID] = true
			}
		case mesh.DispatchSettled:
			if own {
				u.over[b.Child] = true
			}
		case mesh.ToolReturned:
			u.tell(st, e, own, b.Delivered)
		case mesh.ResultsDelivered:
			u.tell(st, e, own, b.Executions)
		case mesh.LimitTripped:
			u.tripped = append(u.tripped, trip{b.Limit, e.Execution})
		}
	}
	return u
}

// spend counts what the execution will have used.
func (u *underway) spend(st *thread.State, id mesh.ExecutionID, used mesh.Budget) {
	for x := range st.Up(id) {
		u.below[x.ID] = u.below[x.ID].Add(used)
	}
}

// dispatch counts an agent that will have been dispatched, once.
func (u *underway) dispatch(st *thread.State, turn *thread.Execution, e *mesh.Event, child mesh.ExecutionID) {
	if st.Execution(child) != nil || u.seen[child] || st.Turn(e.Execution) != nil {
		return
	}
	u.seen[child] = true
	u.spend(st, e.Execution, mesh.Budget{Agents: 1})
	if st.TurnOf(e.Execution) == turn {
		u.dispatched[e.Execution]++
	}
}

// tell notes what will be delivered by the event.
func (u *underway) tell(st *thread.State, e *mesh.Event, own bool, of []mesh.ExecutionID) {
	if !own {
		return
	}
	for _, id := range of {
		if x := st.Execution(id); x != nil && x.WaitsForHelp() && !u.over[id] { // it is what help it needs
			continue
		}
		u.told[id] = e.ID
	}
}

// has reports whether one of the events is on its way already.
func (u *underway) has(events []*mesh.Event) bool {
	return slices.ContainsFunc(events, func(e *mesh.Event) bool { return u.ids[e.ID] != nil })
}
