package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog/eventpb"
)

// maxAppend bounds the events of one AppendEvents, and maxEventID their ids, in
// bytes: ids are kept in memory.
const (
	maxAppend  = 1000
	maxEventID = 128
)

// AppendEvents implements meshv1.ThreadServiceServer. What an execution may
// say is: its own model, tool and skill calls, approvals, notes and limits, its
// dispatches and how they ended, and, as it is who reads their streams, the
// output and states of the executions that it dispatched. Skills are called as the
// grant and [WithDelegators] allow. A skill call that
// exceeds a limit is refused with all that came with it: nothing is added but
// the fact that the limit was met, once for each message of the user. When the
// execution is over, only what the log has already is taken again, so that a
// writer who missed the answer gets one.
func (s *Threads) AppendEvents(ctx context.Context, req *meshv1.AppendEventsRequest) (*meshv1.AppendEventsResponse, error) {
	const op = "api.AppendEvents"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	g := call.Principal.Grant
	if g == nil {
		return nil, mesh.Errorf(mesh.Unauthenticated, op, "only agents may add to a thread, under the grant of an execution")
	}
	key, _, err := keyFor(ctx, op, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	events, err := s.decode(op, req)
	if err != nil {
		return nil, err
	}
	if err := s.recall(ctx, key.Tenant, events); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	w := &writer{op: op, grant: g, now: s.now().UTC().Truncate(time.Millisecond), budgets: s.budgets, users: s.users, volumes: s.volumes, delegators: s.delegators}
	w.logged = func(after mesh.Seq, ids []string) (map[string]bool, error) { return s.logged(ctx, key, after, ids) }
	err = s.states.Decide(ctx, key, func(st *thread.State) (cache.Decision, error) {
		return w.decide(st, events)
	})
	if err == nil && w.trip != nil {
		err = w.trip.Err(op)
	}
	if err != nil {
		w.release()
		return nil, err
	}
	s.volumes.add(w.added(events))
	if err := w.dispatchedAll(events); err != nil {
		return nil, err
	}
	resp := &meshv1.AppendEventsResponse{Grants: map[string]string{}}
	for id, g := range w.grants {
		resp.Grants[string(id)] = s.signer.Issue(g)
	}
	for _, e := range events {
		resp.Seq = max(resp.Seq, int64(e.Seq))
	}
	return resp, nil
}

func (s *Threads) decode(op string, req *meshv1.AppendEventsRequest) ([]*mesh.Event, error) {
	if n := len(req.GetEvents()); n == 0 || n > maxAppend {
		return nil, mesh.InvalidField(op, "events", "has %d events; it must have 1 to %d", n, maxAppend)
	}
	events, ids := make([]*mesh.Event, 0, len(req.Events)), make(map[string]bool, len(req.Events))
	for i, p := range req.Events {
		e, err := eventpb.EventFromProto(p)
		if err != nil {
			return nil, mesh.InvalidField(op, fmt.Sprintf("events[%d]", i), "cannot be read: %s", mesh.DetailOf(err))
		}
		if e.ID == "" || len(e.ID) > maxEventID {
			return nil, mesh.InvalidField(op, fmt.Sprintf("events[%d].id", i), "has %d bytes; give every event a UUID of its own, and the same when you send it again", len(e.ID))
		}
		if ids[e.ID] { // the log would drop it, and what is checked by it would not be there
			return nil, mesh.InvalidField(op, fmt.Sprintf("events[%d].id", i), "is that of an event before it; give every event a UUID of its own")
		}
		ids[e.ID] = true
		if e.Time.IsZero() {
			e.Time = s.now()
		}
		e.Time = e.Time.UTC().Truncate(time.Millisecond)
		e.Seq, e.Epoch = 0, 0
		events = append(events, e)
	}
	return events, nil
}

// writer checks what an execution wants to add.
type writer struct {
	op      string
	grant   *mesh.Grant
	now     time.Time
	budgets limit.Budgets
	users   *limit.Windows
	volumes *volumes
	delegators
	// logged returns which of the ids the log has above the Seq. It reads all of
	// the thread from there on: ask once for each request, not for each event.
	logged func(after mesh.Seq, ids []string) (map[string]bool, error)
	spent  // by this request

	children map[mesh.ExecutionID]mesh.Execution // dispatched by this request
	grants   map[mesh.ExecutionID]mesh.Grant     // to be issued
	answers  map[string]bool                     // approvals settled by this request
	fresh    map[mesh.ExecutionID]bool           // of the children, that the thread did not have
	returns                                      // of this request
	written  map[mesh.ExecutionID]volume         // by this request, if all of it is new
	sizes    []int                               // of its events, in bytes
}

// decide checks the events on the thread's state.
func (w *writer) decide(st *thread.State, events []*mesh.Event) (cache.Decision, error) {
	w.release()
	w.children, w.grants, w.answers = map[mesh.ExecutionID]mesh.Execution{}, map[mesh.ExecutionID]mesh.Grant{}, map[string]bool{}
	w.fresh, w.written, w.sizes = map[mesh.ExecutionID]bool{}, map[mesh.ExecutionID]volume{}, nil
	w.returns = returns{begun: map[string]string{}, settled: map[string]bool{}}
	mine := st.Execution(w.grant.Execution)
	if mine == nil {
		return cache.Decision{}, mesh.ThreadNotFound(w.op)
	}
	if mesh.Terminal(mine.State) {
		return w.repeated(mine, events)
	}
	for i, e := range events {
		switch err := w.check(st, i, e); {
		case w.trip != nil:
			return cache.Decision{Events: w.tripped(st)}, nil
		case err != nil:
			return cache.Decision{}, err
		}
	}
	if err := w.checkLoose(mine); err != nil {
		return cache.Decision{}, err
	}
	return cache.Decision{Events: events, Scopes: []mesh.Scope{mesh.Scope(w.grant.Execution)}}, nil
}

// repeated takes events that the log has already, and no others.
func (w *writer) repeated(mine *thread.Execution, events []*mesh.Event) (cache.Decision, error) {
	ids := make([]string, 0, len(events))
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	known, err := w.logged(mine.Opened, ids)
	if err != nil {
		return cache.Decision{}, mesh.Wrap(w.op, err)
	}
	if len(known) < len(ids) {
		return cache.Decision{}, over(w.op)
	}
	return cache.Decision{Events: events}, nil
}

func (w *writer) check(st *thread.State, i int, e *mesh.Event) error {
	if e.Time.After(w.now) { // an agent's clock does not move the thread ahead
		e.Time = w.now
	}
	if oldest := w.now.Add(-slack); e.Time.Before(oldest) { // nor far behind
		e.Time = oldest
	}
	if err := w.fits(i, e); err != nil {
		return err
	}
	if e.Execution == w.grant.Execution {
		e.Actor = "agent:" + w.grant.Agent
		return w.checkOwn(st, i, e)
	}
	x := st.Execution(e.Execution)
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
// user said, a grant for as long as it had one at first.
func (w *writer) renew(x *thread.Execution, e *mesh.Event, b mesh.TaskMoved) error {
	if x == nil || b.Reason != mesh.ReasonDelivered || b.State != a2apb.TaskState_TASK_STATE_WORKING {
		return nil
	}
	if sentAgain := x.WentOn == e.ID; x.State != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && !sentAgain {
		return nil
	}
	g, err := grant.Renew(w.grant, x.Execution, x.Started, w.now)
	if err != nil {
		return mesh.Wrap(w.op, err)
	}
	w.grants[x.ID] = g
	return nil
}

func (w *writer) checkOwn(st *thread.State, i int, e *mesh.Event) error {
	switch b := e.Body.(type) {
	case mesh.SkillReturned:
		return w.checkReturned(st, i, e, b)
	case mesh.ModelReplied:
		return w.checkReplied(i, b)
	case mesh.SkillCalled:
		return w.checkCall(st, i, e, b)
	case mesh.ToolReturned:
		return w.checkTool(i, b)
	case mesh.ApprovalAsked:
		return w.checkAsked(st, i, e, b)
	case mesh.ApprovalSettled:
		return w.checkSettled(st, i, e, b)
	case mesh.LimitTripped:
		if limit.Shared(b.Limit) {
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
	case mesh.DispatchIssued:
		return w.checkDispatch(st, i, b)
	case mesh.DispatchSettled:
		x := st.Execution(b.Child)
		_, fresh := w.children[b.Child]
		if !fresh && (x == nil || x.Parent != w.grant.Execution) {
			return w.refuse(i, "only what the execution dispatched can be settled")
		}
		if !mesh.Terminal(b.State) || len(b.Result) > mesh.MaxResult {
			return mesh.InvalidField(w.op, fmt.Sprintf("events[%d].dispatch_settled", i), "needs a terminal state and a result of at most %d bytes", mesh.MaxResult)
		}
		return nil
	}
	return w.refuse(i, "this kind of event is not an agent's to add")
}

// checkDispatch checks that the grant allows the child, or that the child is
// the one that the same event opened before.
func (w *writer) checkDispatch(st *thread.State, i int, b mesh.DispatchIssued) error {
	field := fmt.Sprintf("events[%d].dispatch_issued.child", i)
	c := b.Child
	if c.Parent != w.grant.Execution || c.Kind != mesh.KindAgent || c.User != w.grant.User || !mesh.ValidAgentName(c.Agent) {
		return mesh.InvalidField(w.op, field, "needs the grant's execution as parent, its user, the kind agent and the name of an agent")
	}
	if x := st.Execution(c.ID); x != nil && (x.Parent != c.Parent || x.Agent != c.Agent || !slices.Equal(x.Skills, c.Skills)) {
		return mesh.InvalidField(w.op, field+".id", "is taken; make a new one for each dispatch")
	}
	if mine := st.Execution(w.grant.Execution); mine.Canceled || st.TurnOf(mine.ID) != nil && st.TurnOf(mine.ID).Canceled {
		return mesh.Errorf(mesh.Canceled, w.op, "the task is being canceled; nothing more can be dispatched")
	}
	g, err := grant.Narrow(w.grant, c, c.Agent, c.Skills, w.now)
	if err != nil {
		return mesh.Wrap(w.op, err)
	}
	w.children[c.ID], w.grants[c.ID] = c, g
	w.fresh[c.ID] = st.Execution(c.ID) == nil
	if n := w.dispatched(st); n > maxChildren {
		return mesh.Errorf(mesh.Exhausted, w.op, "an execution may dispatch at most %d agents, and this would make %d", maxChildren, n)
	}
	return nil
}

// dispatchedAll refuses a dispatch that the log has dropped, because its event has
// the id of another one: nobody gets a grant for what is not in the log.
func (w *writer) dispatchedAll(events []*mesh.Event) error {
	for i, e := range events {
		if b, ok := e.Body.(mesh.DispatchIssued); ok && e.Pos == 0 && w.fresh[b.Child.ID] {
			return mesh.InvalidField(w.op, fmt.Sprintf("events[%d].id", i), "is that of another event of the thread; give every event a UUID of its own")
		}
	}
	return nil
}

// maxChildren bounds what one execution may dispatch, whatever its agent's own
// limit is.
const maxChildren = 64

// dispatched counts the children that the execution has with this request.
func (w *writer) dispatched(st *thread.State) int {
	n := len(w.children)
	for _, x := range st.Executions() {
		if _, again := w.children[x.ID]; !again && x.Parent == w.grant.Execution {
			n++
		}
	}
	return n
}

func (w *writer) refuse(i int, detail string) error {
	return &mesh.Error{Code: mesh.Denied, Op: w.op, Field: fmt.Sprintf("events[%d]", i), Detail: detail}
}
