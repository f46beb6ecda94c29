package tasks

import (
	"container/list"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// A conversation is a thread that has tasks.
type conversation struct {
	seq    mesh.Seq // of the last event applied
	access thread.Access
	owner  string // for whom it is counted
	ledger thread.Ledger
	tasks  []*task
	open   []*task // those that are not over
}

type task struct {
	place
	agent  string // that it began with
	thread string
	in     *conversation
	state  mesh.TaskState
	ended  mesh.Seq     // of the terminal event, or 0
	view   *thread.View // nil when the task is over
	listed *list.Element
}

// A place is where a task stands in the order of List.
type place struct {
	at int64 // status time, Unix milliseconds
	id mesh.ExecutionID
}

// compare is below 0 if p comes before o: the latest status first, and of the
// same time the lowest id.
func (p place) compare(o place) int {
	switch {
	case p.at > o.at:
		return -1
	case p.at < o.at:
		return 1
	}
	return strings.Compare(string(p.id), string(o.id))
}

// apply adds the next event of the log. The caller holds mu.
func (x *Index) apply(p threadlog.Placed) {
	if p.Seq == 1 { // a later thread with the id of a deleted one
		x.drop(p.Thread)
	}
	switch b := p.Body.(type) {
	case mesh.TaskOpened:
		x.open(p, b.Execution.Agent)
		if c := x.find(p.Thread); c != nil {
			c.access.Apply(p.Event)
			x.count(p, c)
		}
		return
	case nil, mesh.ArtifactAppended: // most events are; no status comes of what is no decision
		if c := x.find(p.Thread); c != nil {
			c.seq = p.Seq
		}
		return
	}
	c := x.find(p.Thread)
	if c == nil {
		return
	}
	c.seq = p.Seq
	c.access.Apply(p.Event)
	for _, t := range c.open {
		u := t.view.Apply(p.Event).GetStatusUpdate()
		if u == nil {
			continue
		}
		t.state = u.GetStatus().GetState()
		t.at = p.Time.UnixMilli()
		x.tenants[p.Thread.Tenant].put(t)
		if t.view.Over() {
			t.ended, t.view = p.Seq, nil
		}
	}
	c.open = slices.DeleteFunc(c.open, func(t *task) bool { return t.view == nil })
	x.count(p, c)
}

// open adds the task that the event opens with the agent, unless it opens none.
func (x *Index) open(p threadlog.Placed, agent string) {
	view := thread.Fold([]*mesh.Event{p.Event}).View(p.Thread.ID, p.Execution, p.Seq, thread.Mode{})
	if view == nil {
		return
	}
	in := x.tenants[p.Thread.Tenant]
	if in == nil {
		in = &tenant{threads: map[string]*conversation{}, order: list.New()}
		x.tenants[p.Thread.Tenant] = in
	}
	c := in.threads[p.Thread.ID]
	if c == nil {
		c = new(conversation)
		in.threads[p.Thread.ID] = c
	}
	c.seq = p.Seq
	if slices.ContainsFunc(c.tasks, func(t *task) bool { return t.id == p.Execution }) {
		return
	}
	t := &task{
		place: place{at: p.Time.UnixMilli(), id: p.Execution}, agent: agent, thread: p.Thread.ID, in: c,
		state: a2apb.TaskState_TASK_STATE_SUBMITTED, view: view,
	}
	c.tasks = append(c.tasks, t)
	c.open = append(c.open, t)
	in.put(t)
}

func (x *Index) find(key mesh.ThreadKey) *conversation {
	if t := x.tenants[key.Tenant]; t != nil {
		return t.threads[key.ID]
	}
	return nil
}

// drop forgets a thread. The caller holds mu.
func (x *Index) drop(key mesh.ThreadKey) {
	c := x.find(key)
	if c == nil {
		return
	}
	x.close(key.Tenant, c)
	x.own(key.Tenant, c, "")
	t := x.tenants[key.Tenant]
	for _, k := range c.tasks {
		t.order.Remove(k.listed)
	}
	delete(t.threads, key.ID)
	if len(t.threads) == 0 {
		delete(x.tenants, key.Tenant)
	}
}

// put places the task in the order. What happens last is near the front, so
// this looks at few others.
func (t *tenant) put(k *task) {
	if k.listed != nil {
		t.order.Remove(k.listed)
	}
	for e := t.order.Front(); e != nil; e = e.Next() {
		if k.compare(e.Value.(*task).place) < 0 {
			k.listed = t.order.InsertBefore(k, e)
			return
		}
	}
	k.listed = t.order.PushBack(k)
}
