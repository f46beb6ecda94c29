package admission

import (
	"errors"
	"fmt"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/quota"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/thread"
)

// checkAccepted checks that the grant allows what is known of the child, or that the
// child is the one that the same event opened before.
func (w *ruling) checkAccepted(i int, b mesh.DispatchAccepted) error {
	field := fmt.Sprintf("events[%d].dispatch_accepted.child", i)
	c := b.Child
	if err := w.mayDispatch(field, c, c.Agent == ""); err != nil {
		return err
	}
	if x := w.st.Execution(c.ID); x != nil && (x.Accepted == nil || !sameOrder(x.Accepted.Child, c)) {
		return taken(w.op, field)
	}
	err := w.bounded(i, "dispatch_accepted", span{"context", b.Context, 0, mesh.MaxContext}, span{"call", b.Call, 0, maxName})
	if err != nil {
		return err
	}
	for _, id := range c.DependsOn {
		if _, fresh := w.children[id]; !fresh && !w.isChild(id) {
			return mesh.InvalidField(w.op, field+".depends_on", "names %q, which the execution has not dispatched; name executions that it dispatched before", clip(string(id)))
		}
	}
	if err := budgeted(w.op, field, c.Budget); err != nil {
		return err
	}
	if c.Agent != "" {
		if _, err := grant.Narrow(w.grant, c, c.Agent, c.Skills, w.now); err != nil {
			return mesh.Wrap(w.op, err)
		}
	}
	return w.admit(c)
}

// admit counts an order where it is let in: when it is accepted or, of an agent that
// accepts none, when it is dispatched.
func (w *ruling) admit(c mesh.Execution) error {
	if w.st.Execution(c.ID) == nil { // else it was counted when it was sent before
		if w.trip = w.ledger().Check(limit.StopsDispatches); w.trip != nil {
			return w.trip.Err(w.op)
		}
		w.used.Agents++
	}
	w.children[c.ID] = c
	return nil
}

// mayDispatch checks who dispatches what; anyone says that the agent is not chosen yet.
func (w *ruling) mayDispatch(field string, c mesh.Execution, anyone bool) error {
	if c.Parent != w.grant.Execution || c.Kind != mesh.KindAgent || c.User != w.grant.User || !anyone && !mesh.ValidAgentName(c.Agent) {
		e := mesh.InvalidField(w.op, field, "needs the grant's execution as parent, its user, the kind agent and the name of an agent")
		e.Forbidden = true
		return e
	}
	if c.Traceparent != mesh.LoggedTraceparent(c.Traceparent) || c.Traceparent != "" && !mesh.ValidTraceparent(c.Traceparent) {
		return mesh.InvalidField(w.op, field+".traceparent", "must be a W3C traceparent of version 00, which has 55 characters; leave it out where nothing is traced")
	}
	if !mesh.ValidLabel(c.Label) {
		return mesh.InvalidField(w.op, field+".label", "must be at most %d characters of a-z, 0-9, _ and -, or empty", mesh.MaxLabel)
	}
	if of, ok := c.ID.ThreadID(); !ok || of != w.grant.Thread {
		return mesh.InvalidField(w.op, field+".id", "is no id of an execution in this thread; make a new one for each dispatch")
	}
	if mine := w.mine; mine.Canceled || w.st.TurnOf(mine.ID) != nil && w.st.TurnOf(mine.ID).Canceled {
		return mesh.Errorf(mesh.Canceled, w.op, "the task is being canceled; nothing more can be dispatched")
	}
	if err := w.stands(); err != nil || anyone {
		return err
	}
	err := w.permitted(mesh.ActOrchestrate, c.Agent)
	if e := (*mesh.Error)(nil); errors.As(err, &e) && e.Lack != nil {
		e.Field = field + ".agent"
	}
	return err
}

// isChild reports whether the thread has the execution as one that the grant's
// dispatched, or has on its way.
func (w *ruling) isChild(id mesh.ExecutionID) bool {
	x := w.st.Execution(id)
	return x != nil && x.Parent == w.grant.Execution || w.away.accepted[id]
}

// sameOrder reports whether an execution is what was accepted, as far as that said who
// does it and with which skills.
func sameOrder(was, is mesh.Execution) bool {
	return was.Parent == is.Parent && was.Label == is.Label && was.Text == is.Text && was.Dry == is.Dry &&
		(was.Agent == "" || was.Agent == is.Agent) && (len(was.Skills) == 0 || slices.Equal(was.Skills, is.Skills))
}

func taken(op, field string) error {
	return mesh.InvalidField(op, field+".id", "is taken; make a new one for each dispatch")
}

// checkDispatch checks that the grant allows the child, that it is what was accepted,
// if it was, or that the child is the one that the same event opened before.
func (w *ruling) checkDispatch(i int, e *mesh.Event, b mesh.DispatchIssued) error {
	field := fmt.Sprintf("events[%d].dispatch_issued.child", i)
	c := b.Child
	if err := w.mayDispatch(field, c, false); err != nil {
		return err
	}
	x := w.st.Execution(c.ID)
	issued := x != nil && x.Issued > 0
	switch was, fresh := w.children[c.ID]; {
	case issued && (x.Parent != c.Parent || x.Agent != c.Agent || x.Dry != c.Dry || !slices.Equal(x.Skills, c.Skills)),
		x != nil && !issued && (!x.Waits() || !sameOrder(x.Execution, c)),
		x == nil && fresh && !sameOrder(was, c):
		return taken(w.op, field)
	}
	if _, fresh := w.children[c.ID]; !fresh && x == nil {
		if err := w.admit(c); err != nil {
			return err
		}
	}
	if err := w.allot(e, &b); err != nil {
		return err
	}
	c = b.Child
	g, err := grant.Narrow(w.grant, c, c.Agent, c.Skills, w.now)
	if err != nil {
		return mesh.Wrap(w.op, err)
	}
	w.grants[c.ID], w.fresh[c.ID] = w.by.granted(g), !issued
	w.children[c.ID] = c
	return nil
}

// checkOutcome checks the end of an execution that this one dispatched or was to. One that
// has an end, as when the user ended it, gets no other one.
func (w *ruling) checkOutcome(i int, e *mesh.Event, b mesh.DispatchSettled) error {
	if _, fresh := w.children[b.Child]; !fresh && !w.isChild(b.Child) {
		return w.refuse(i, "only what the execution dispatched can be settled")
	}
	if !mesh.Terminal(b.State) || len(b.Result) > mesh.MaxResult {
		return mesh.InvalidField(w.op, fmt.Sprintf("events[%d].dispatch_settled", i), "needs a terminal state and a result of at most %d bytes", mesh.MaxResult)
	}
	switch x := w.st.Execution(b.Child); {
	case w.over[b.Child] || x != nil && mesh.Terminal(x.State):
		w.late = append(w.late, e)
	case x != nil && x.Status() == thread.StatusRunning:
		w.vacant++
	}
	w.over[b.Child] = true
	return nil
}

// checkDelivered checks that the executions are over, or wait for help, and were dispatched
// by this one, and that nobody was told of that before.
func (w *ruling) checkDelivered(i int, e *mesh.Event, of []mesh.ExecutionID) error {
	for _, id := range of {
		x := w.st.Execution(id)
		_, fresh := w.children[id]
		if !fresh && !w.isChild(id) {
			return w.refuse(i, "only what came of executions that this one dispatched can be delivered to its model")
		}
		over := x != nil && mesh.Terminal(x.State) || w.over[id] || w.away.over[id]
		if !over && x != nil && x.WaitsForHelp() {
			if x.HelpTold != "" && x.HelpTold != e.ID {
				return mesh.Errorf(mesh.Precondition, w.op, "what help the execution %q needs was delivered before; deliver each request once", clip(string(id)))
			}
			continue
		}
		if !over {
			return w.refuse(i, fmt.Sprintf("the execution %q is not over; deliver what came of it when it is", clip(string(id))))
		}
		by, told := w.told[id]
		if !told {
			by, told = w.away.told[id]
		}
		if !told && x != nil {
			by, told = x.Delivery, x.Delivery != ""
		}
		if told && by != e.ID {
			return mesh.Errorf(mesh.Precondition, w.op, "what came of the execution %q was delivered before; deliver each result once", clip(string(id)))
		}
		w.told[id] = e.ID
	}
	return nil
}

// allot counts the child for the quotas, and has the log say what it may use, and how long:
// what it is to have, and no more than is left of what the execution may use itself. A child
// that the log has keeps what it got, and was counted.
func (w *ruling) allot(e *mesh.Event, b *mesh.DispatchIssued) error {
	if err := budgeted(w.op, "dispatch_issued.child", b.Child.Budget); err != nil {
		return err
	}
	if x := w.st.Execution(b.Child.ID); x != nil && x.Issued > 0 {
		b.Child.Budget, b.Child.Deadline = x.Budget, x.Deadline
		return nil
	}
	if w.trip = w.ledger().Check(limit.StopsStarts); w.trip != nil {
		return w.trip.Err(w.op)
	}
	var trip *limit.Trip
	if b.Child, trip = w.within(b.Child); trip != nil { // it waits: that is no limit of the turn's
		return trip.Err(w.op)
	}
	if trip := w.by.places.take(w.grant, b.Child, w.now); trip != nil { // as above
		return trip.Err(w.op)
	}
	w.began = append(w.began, b.Child.ID)
	one := oneAgent
	if w.vacant > 0 { // one that ends with this request makes room at work, which nobody counts yet
		w.vacant, one.Agents = w.vacant-1, 0
	}
	place, trip := w.by.quotas.Take(w.grant.Tenant, w.grant.User, one)
	if w.trip = trip; trip != nil {
		return trip.Err(w.op)
	}
	if place != nil {
		if w.agents == nil {
			w.agents = map[*mesh.Event]*quota.Place{}
		}
		w.agents[e] = place
	}
	b.Child.Budget = b.Child.Budget.Within(w.shares())
	e.Body, e.Time = *b, w.now // by which its time is counted, and not by the agent's clock
	return nil
}

func budgeted(op, field string, n mesh.Budget) error {
	if min(n.Calls, n.Tokens, n.Cost, n.Agents) < 0 {
		return mesh.InvalidField(op, field+".budget", "must not be negative; leave out what has no limit of its own")
	}
	return nil
}

// stands refuses to begin anything for a user who may not have it any more.
func (w *ruling) stands() error {
	t := w.st.TurnOf(w.mine.ID)
	if t == nil {
		return nil
	}
	return w.by.standing(w.grant.Tenant, t)
}

// permitted asks whether the user may have the agent do that, by name.
func (w *ruling) permitted(a mesh.Action, name string) error {
	p := mesh.Principal{Tenant: w.grant.Tenant, User: w.grant.User, Grant: w.grant}
	if t := w.st.TurnOf(w.mine.ID); t != nil {
		p.Roles = t.Roles
	}
	return w.by.policy(p, a, name)
}

// granted is the grant as its agent gets it: with less if nobody trusts that one.
func (c *Controller) granted(g mesh.Grant) mesh.Grant {
	if !c.trusted(g.Tenant, g.Agent) {
		g.Distrust()
	}
	return g
}

// ChildGrant returns the grant of an execution that the parent's execution dispatched, as
// it was then or, for one that went on later, for as long anew.
func (c *Controller) ChildGrant(parent *mesh.Grant, x *thread.Execution) (mesh.Grant, error) {
	now := c.now()
	if x.Deadline.IsZero() || now.Before(x.Deadline) {
		g, err := grant.Narrow(parent, x.Execution, x.Agent, x.Skills, now)
		return c.granted(g), err
	}
	g, err := grant.Renew(parent, x.Execution, x.Deadline.Add(-x.Allowed), now)
	return c.granted(g), err
}

// dispatchedAll refuses a dispatch that the log has dropped, because its event has
// the id of another one: nobody gets a grant for what is not in the log.
func (w *ruling) dispatchedAll() error {
	for i, e := range w.events {
		if b, ok := e.Body.(mesh.DispatchIssued); ok && e.Pos == 0 && w.fresh[b.Child.ID] {
			return mesh.InvalidField(w.op, fmt.Sprintf("events[%d].id", i), "is that of another event of the thread; give every event a UUID of its own")
		}
	}
	return nil
}
