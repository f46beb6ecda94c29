package admission

import (
	"fmt"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/quota"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/thread"
)

// checkDispatch checks that the grant allows the child, or that the child is
// the one that the same event opened before.
func (w *ruling) checkDispatch(i int, e *mesh.Event, b mesh.DispatchIssued) error {
	field := fmt.Sprintf("events[%d].dispatch_issued.child", i)
	c := b.Child
	if c.Parent != w.grant.Execution || c.Kind != mesh.KindAgent || c.User != w.grant.User || !mesh.ValidAgentName(c.Agent) {
		e := mesh.InvalidField(w.op, field, "needs the grant's execution as parent, its user, the kind agent and the name of an agent")
		e.Forbidden = true
		return e
	}
	if x := w.st.Execution(c.ID); x != nil && (x.Parent != c.Parent || x.Agent != c.Agent || !slices.Equal(x.Skills, c.Skills)) {
		return mesh.InvalidField(w.op, field+".id", "is taken; make a new one for each dispatch")
	}
	if mine := w.mine; mine.Canceled || w.st.TurnOf(mine.ID) != nil && w.st.TurnOf(mine.ID).Canceled {
		return mesh.Errorf(mesh.Canceled, w.op, "the task is being canceled; nothing more can be dispatched")
	}
	if err := w.stands(); err != nil {
		return err
	}
	if err := w.permitted(mesh.ActOrchestrate, c.Agent); err != nil {
		return err
	}
	if err := w.allot(e, &b); err != nil {
		return err
	}
	c = b.Child
	g, err := grant.Narrow(w.grant, c, c.Agent, c.Skills, w.now)
	if err != nil {
		return mesh.Wrap(w.op, err)
	}
	w.children[c.ID], w.grants[c.ID] = c, w.by.granted(g)
	w.fresh[c.ID] = w.st.Execution(c.ID) == nil
	if n := w.dispatched(); n > maxChildren {
		return mesh.Errorf(mesh.Exhausted, w.op, "an execution may dispatch at most %d agents, and this would make %d", maxChildren, n)
	}
	return nil
}

// allot counts the child for the quotas, and has the log say what it may use: what it is to
// have, and no more than is left of what the execution may use itself. A child that the
// log has keeps what it got, and was counted.
func (w *ruling) allot(e *mesh.Event, b *mesh.DispatchIssued) error {
	if n := b.Child.Budget; min(n.Calls, n.Tokens, n.Cost) < 0 {
		return mesh.InvalidField(w.op, "dispatch_issued.child.budget", "must not be negative; leave out what has no limit of its own")
	}
	if x := w.st.Execution(b.Child.ID); x != nil {
		b.Child.Budget = x.Budget
		return nil
	}
	var left mesh.Budget
	if left, w.trip = w.left(); w.trip != nil {
		return w.trip.Err(w.op)
	}
	place, trip := w.by.quotas.Take(w.grant.Tenant, w.grant.User, oneAgent)
	if w.trip = trip; trip != nil {
		return trip.Err(w.op)
	}
	if place != nil {
		if w.agents == nil {
			w.agents = map[*mesh.Event]*quota.Place{}
		}
		w.agents[e] = place
	}
	b.Child.Budget = b.Child.Budget.Within(left)
	e.Body = *b
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

// permitted asks the operator's policies.
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

// maxChildren bounds what one execution may dispatch, whatever its agent's own
// limit is.
const maxChildren = 64

// dispatched counts the children that the execution has with this request.
func (w *ruling) dispatched() int {
	n := len(w.children)
	for _, x := range w.st.Executions() {
		if _, again := w.children[x.ID]; !again && x.Parent == w.grant.Execution {
			n++
		}
	}
	return n
}
