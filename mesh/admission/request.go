package admission

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// maxAppend bounds the events of one request, and maxEventID their ids, in
// bytes: ids are kept in memory.
const (
	maxAppend  = 1000
	maxEventID = 128
)

// prepare checks what can be said of the events without their thread.
func prepare(op string, events []*mesh.Event, now time.Time) error {
	if n := len(events); n == 0 || n > maxAppend {
		return mesh.InvalidField(op, "events", "has %d events; it must have 1 to %d", n, maxAppend)
	}
	ids := make(map[string]bool, len(events))
	for i, e := range events {
		if e.ID == "" || len(e.ID) > maxEventID {
			return mesh.InvalidField(op, fmt.Sprintf("events[%d].id", i), "has %d bytes; give every event a UUID of its own, and the same when you send it again", len(e.ID))
		}
		if ids[e.ID] { // the log would drop it, and what is checked by it would not be there
			return mesh.InvalidField(op, fmt.Sprintf("events[%d].id", i), "is that of an event before it; give every event a UUID of its own")
		}
		ids[e.ID] = true
		if e.Time.IsZero() {
			e.Time = now
		}
		e.Time = e.Time.UTC().Truncate(time.Millisecond)
		e.Seq, e.Pos, e.Epoch = 0, 0, 0
	}
	return nil
}

// A request is what an execution wants to add.
type request struct {
	by     *Controller
	op     string
	grant  *mesh.Grant
	now    time.Time
	events []*mesh.Event
	byNode bool                        // it is what the mesh itself does for the execution
	placed func()                      // of one that is deferred: it is told when the events have their place
	logged map[string]bool             // of the ids that were looked up, whether the log has them
	left   *atomic.Pointer[limit.Left] // for what the execution may still use
}

// A ruling is a request as it is decided on one state of the thread.
type ruling struct {
	*request
	st   *thread.State
	mine *thread.Execution // the grant's
	away underway

	spent
	returns
	adds     map[mesh.ExecutionID]mesh.Volume    // by this request
	children map[mesh.ExecutionID]mesh.Execution // accepted or dispatched by this request
	fresh    map[mesh.ExecutionID]bool           // of the children, that were not dispatched before
	over     map[mesh.ExecutionID]bool           // settled by this request
	late     []*mesh.Event                       // ends of what is over: they are not added
	told     map[mesh.ExecutionID]string         // delivered by this request, by which event
	grants   map[mesh.ExecutionID]mesh.Grant     // to be issued
	answers  map[string]bool                     // approvals settled by this request
}

func newRuling(r *request, st *thread.State, on cache.Reserved) *ruling {
	return &ruling{
		request: r, st: st, mine: st.Execution(r.grant.Execution), away: countUnderway(st, r.grant.Execution, on),
		returns:  returns{begun: map[string]string{}, called: map[string]string{}, settled: map[string]bool{}},
		adds:     map[mesh.ExecutionID]mesh.Volume{},
		children: map[mesh.ExecutionID]mesh.Execution{}, fresh: map[mesh.ExecutionID]bool{},
		over: map[mesh.ExecutionID]bool{}, told: map[mesh.ExecutionID]string{},
		grants: map[mesh.ExecutionID]mesh.Grant{}, answers: map[string]bool{},
	}
}

// decide checks the events on the thread's state.
func (w *ruling) decide() (cache.Decision, error) {
	if w.mine == nil {
		return cache.Decision{}, mesh.ThreadNotFound(w.op)
	}
	if mesh.Terminal(w.mine.State) {
		return w.repeated()
	}
	if w.away.has(w.events) { // it is sent again while it is being added
		return cache.Decision{Events: w.events}, nil
	}
	for i, e := range w.events {
		switch err := w.check(i, e); {
		case w.trip != nil:
			return cache.Decision{Events: w.tripped()}, nil
		case err != nil:
			return cache.Decision{}, err
		}
	}
	if err := w.checkLoose(); err != nil {
		return cache.Decision{}, err
	}
	left := w.remaining()
	w.left.Store(&left)
	add := w.events
	if len(w.late) > 0 {
		add = slices.DeleteFunc(slices.Clone(add), func(e *mesh.Event) bool { return slices.Contains(w.late, e) })
	}
	return cache.Decision{Events: add, Scopes: []mesh.Scope{mesh.Scope(w.grant.Execution)}, Placed: w.placed}, nil
}

// repeated takes events that the log has already, and no others.
func (w *ruling) repeated() (cache.Decision, error) {
	ids := make([]string, 0, len(w.events))
	for _, e := range w.events {
		ids = append(ids, e.ID)
	}
	known, err := w.look(w.mine.Opened, ids)
	if err != nil {
		return cache.Decision{}, err
	}
	if len(known) < len(ids) {
		return cache.Decision{}, Over(w.op)
	}
	return cache.Decision{Events: w.events}, nil
}

func (w *ruling) check(i int, e *mesh.Event) error {
	if e.Time.After(w.now) { // an agent's clock does not move the thread ahead
		e.Time = w.now
	}
	if oldest := w.now.Add(-slack); e.Time.Before(oldest) { // nor far behind
		e.Time = oldest
	}
	x := w.st.Execution(e.Execution)
	if err := w.fits(i, e, x); err != nil {
		return err
	}
	if e.Execution == w.grant.Execution {
		e.Actor = "agent:" + w.grant.Agent
		return w.checkOwn(i, e)
	}
	agent, ok := "", false
	if x != nil && x.Parent == w.grant.Execution {
		agent, ok = x.Agent, true
	} else if c, fresh := w.children[e.Execution]; fresh {
		agent, ok = c.Agent, true
	}
	if !ok {
		return &mesh.Error{Code: mesh.Denied, Op: w.op, Field: fmt.Sprintf("events[%d].execution_id", i),
			Detail: "is neither the execution of the grant nor one that it dispatched"}
	}
	e.Actor = "agent:" + agent
	switch b := e.Body.(type) {
	case mesh.ArtifactAppended:
		return nil
	case mesh.TaskMoved:
		return w.renew(x, e, b)
	}
	return w.refuse(i, "of an execution that was dispatched, only its output and states can be added")
}

// renew gives an execution that waited for the user, and goes on with what the
// user said, a grant for as long as it had one at first; and one whose work was cut off,
// and goes on, a grant for the time that it had left.
func (w *ruling) renew(x *thread.Execution, e *mesh.Event, b mesh.TaskMoved) error {
	if x == nil || b.State != a2apb.TaskState_TASK_STATE_WORKING {
		return nil
	}
	if mesh.Terminal(x.State) {
		if b.Reason == mesh.ReasonDelivered || b.Reason == mesh.ReasonContinued { // its agent would begin again
			return mesh.Errorf(mesh.Precondition, w.op, "the execution %q is over; it does not go on", clip(string(x.ID)))
		}
		return nil
	}
	child, began := x.Execution, x.Deadline.Add(-x.Allowed)
	switch b.Reason {
	case mesh.ReasonDelivered:
		if sentAgain := x.WentOn == e.ID; x.State != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && !sentAgain {
			return nil
		}
	case mesh.ReasonContinued:
		if w.st.Dismissed(x) { // an agent that lost it would begin again
			return mesh.Errorf(mesh.Canceled, w.op, "the execution %q is being canceled; it does not go on", clip(string(x.ID)))
		}
		began = x.Deadline.Add(-x.Left())
	default:
		return nil
	}
	if err := w.stands(); err != nil {
		return err
	}
	g, err := grant.Renew(w.grant, child, began, w.now)
	if err != nil {
		return mesh.Wrap(w.op, err)
	}
	w.grants[x.ID] = w.by.granted(g)
	w.by.places.keep(w.grant, x, w.now)
	return nil
}

func (w *ruling) checkOwn(i int, e *mesh.Event) error {
	switch b := e.Body.(type) {
	case mesh.SkillReturned:
		return w.checkReturned(i, e, b)
	case mesh.ModelReplied:
		return w.checkReplied(i, b)
	case mesh.SkillCalled:
		return w.checkCall(i, e, b)
	case mesh.ToolReturned:
		if err := w.checkTool(i, b); err != nil {
			return err
		}
		return w.checkDelivered(i, e, b.Delivered)
	case mesh.ResultsDelivered:
		if err := w.bounded(i, "results_delivered", span{"text", b.Text, 1, mesh.MaxResult}); err != nil {
			return err
		}
		return w.checkDelivered(i, e, b.Executions)
	case mesh.ApprovalAsked:
		return w.checkAsked(i, e, b)
	case mesh.ApprovalSettled:
		return w.checkSettled(i, e, b)
	case mesh.LimitTripped:
		if limit.Noted(b.Limit) {
			return w.refuse(i, fmt.Sprintf("the limit %s is counted and noted by the mesh", b.Limit))
		}
		return w.bounded(i, "limit_tripped", span{"limit", b.Limit, 0, maxName}, span{"detail", b.Detail, 0, maxDetail})
	case mesh.StateNoted:
		if b.Agent != w.grant.Agent {
			return w.refuse(i, "an agent notes its own state only")
		}
		if len(b.Data) > mesh.MaxState {
			return mesh.InvalidField(w.op, fmt.Sprintf("events[%d].state_noted.data", i), "has %d bytes; at most %d are allowed", len(b.Data), mesh.MaxState)
		}
		return nil
	case mesh.DispatchAccepted:
		return w.checkAccepted(i, b)
	case mesh.InstructionPosted:
		return w.checkRead(i, b)
	case mesh.DispatchIssued:
		return w.checkDispatch(i, e, b)
	case mesh.DispatchSettled:
		return w.checkOutcome(i, e, b)
	}
	return w.refuse(i, "this kind of event is not an agent's to add")
}

// checkRead lets an agent say that it has read what it was told. What it is told, others
// say.
func (w *ruling) checkRead(i int, b mesh.InstructionPosted) error {
	if !b.Read || b.By != "" || b.Text != "" || !slices.Contains(w.mine.Told, b.ID) {
		return w.refuse(i, "an agent says of an instruction alone that it was read, by the id of one that was posted to it")
	}
	return nil
}

func (w *ruling) refuse(i int, detail string) error {
	return &mesh.Error{Code: mesh.Denied, Op: w.op, Field: fmt.Sprintf("events[%d]", i), Detail: detail}
}
