package tasks

import (
	"cmp"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/rows"
	"agentmesh/mesh/threadlog"
)

// A conversation is a thread that has tasks, while something happens in it. Its row is as it
// was when it was kept last.
type conversation struct {
	thread.Listed
	key     mesh.ThreadKey
	shown   thread.Access // for whom its tasks are in lists
	open    []*task       // those that are not over
	changed []*task       // that are not in their rows as they are
	kept    bool          // its row is as it is
	used    bool          // since rows were kept last
}

// A task is one that changes.
type task struct {
	entry
	was     *entry // as it is in rows; nil if it is not there
	view    *thread.View
	changed bool
}

// A place is where a task stands in the order of List.
type place struct {
	at int64 // status time, Unix milliseconds
	id mesh.ExecutionID
}

// compare is below 0 if p comes before o: the latest status first, and of the
// same time the lowest id.
func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(o.at, p.at), strings.Compare(string(p.id), string(o.id)))
}

// apply adds the next event of the log. The caller holds mu, and settles what it touched.
func (x *Index) apply(p threadlog.Placed) {
	if p.Seq == 1 { // a later thread with the id of a deleted one
		x.drop(p.Thread)
	}
	opened, opens := p.Body.(mesh.TaskOpened)
	if opens {
		x.open(p, opened.Execution.Agent)
	}
	c := x.find(p.Thread)
	if c == nil {
		return
	}
	c.Seq, c.kept = p.Seq, false
	switch p.Body.(type) {
	case nil, mesh.ArtifactAppended: // most events are; no status comes of what is no decision
		return
	}
	c.Access.Apply(p.Event)
	x.touched[c] = struct{}{}
	if !opens {
		c.advance(p)
	}
	x.count(p, c)
}

// advance has the event change the tasks that are open.
func (c *conversation) advance(p threadlog.Placed) {
	for _, t := range c.open {
		u := t.view.Apply(p.Event).GetStatusUpdate()
		if u == nil {
			continue
		}
		t.state, t.at = u.GetStatus().GetState(), p.Time.UnixMilli()
		if t.view.Over() {
			t.ended, t.view = p.Seq, nil
		}
		c.change(t)
	}
	c.open = slices.DeleteFunc(c.open, func(t *task) bool { return t.view == nil })
}

func (c *conversation) change(t *task) {
	if !t.changed {
		t.changed, c.changed = true, append(c.changed, t)
	}
}

// open adds the task that the event opens with the agent, unless it opens none.
func (x *Index) open(p threadlog.Placed, agent string) {
	view := thread.Fold([]*mesh.Event{p.Event}).View(p.Thread.ID, p.Execution, p.Seq, thread.Mode{})
	if view == nil {
		return
	}
	c := x.held[p.Thread]
	if c == nil && p.Seq > 1 { // else there is nothing of it
		c = x.find(p.Thread)
	}
	if c == nil {
		c = &conversation{key: p.Thread, used: true}
		x.held[p.Thread] = c
	} else if x.has(c, p.Execution) {
		return
	}
	t := &task{entry: entry{place: place{p.Time.UnixMilli(), p.Execution}, agent: agent, state: a2apb.TaskState_TASK_STATE_SUBMITTED}, view: view}
	c.open = append(c.open, t)
	c.change(t)
}

func (x *Index) has(c *conversation, id mesh.ExecutionID) bool {
	if slices.ContainsFunc(c.changed, func(t *task) bool { return t.id == id }) {
		return true
	}
	_, ok := x.table.Get(taskKey(c.key, id))
	return ok
}

// find returns the thread, of its row if it is not in memory; nil if it has no tasks.
func (x *Index) find(key mesh.ThreadKey) *conversation {
	if c := x.held[key]; c != nil {
		c.used = true
		return c
	}
	row, ok := x.table.Get(threadKey(key))
	if !ok {
		return nil
	}
	l, err := thread.DecodeListed([]byte(row))
	if err != nil {
		x.table.Fail(err)
		return nil
	}
	c := &conversation{Listed: *l, key: key, shown: l.Access, kept: true, used: true}
	for _, v := range l.Views {
		row, ok := x.table.Get(taskKey(key, v.Task()))
		if !ok {
			x.table.Fail(errRow)
			return nil
		}
		e := decodeEntry(v.Task(), row)
		c.open = append(c.open, &task{entry: e, was: &e, view: v})
	}
	x.held[key] = c
	return c
}

// settle brings what was touched into its rows. The caller holds mu.
func (x *Index) settle() {
	for c := range x.touched {
		x.place(c)
	}
	clear(x.touched)
}

// place brings the thread's tasks into the lists where they belong.
func (x *Index) place(c *conversation) {
	if !equal(&c.shown, &c.Access) {
		for _, e := range x.entries(c.key) {
			x.unlist(c, &e)
			if !slices.ContainsFunc(c.changed, func(t *task) bool { return t.id == e.id }) {
				x.list(c, &e)
			}
		}
	}
	for _, t := range c.changed {
		if t.was != nil {
			x.unlist(c, t.was)
		}
		x.list(c, &t.entry)
		x.table.Put(taskKey(c.key, t.id), t.encode())
		was := t.entry
		t.was, t.changed = &was, false
	}
	c.shown, c.changed = c.Access, nil
}

func equal(a, b *thread.Access) bool {
	return a.Owner == b.Owner && a.Readable == b.Readable && slices.Equal(a.Participants, b.Participants)
}

func (x *Index) list(c *conversation, e *entry) {
	in := c.key.ID
	if of, ok := e.id.ThreadID(); ok && of == in {
		in = ""
	}
	for _, key := range e.places(c.key.Tenant, &c.Access) {
		x.table.Put(key, in)
	}
}

func (x *Index) unlist(c *conversation, e *entry) {
	for _, key := range e.places(c.key.Tenant, &c.shown) {
		x.table.Delete(key)
	}
}

// entries are the thread's tasks, as they are in rows.
func (x *Index) entries(key mesh.ThreadKey) []entry {
	var all []entry
	prefix := threadKey(key) + ofThreadTask
	for k, row := range x.table.Range(prefix, rows.Beyond(prefix)) {
		all = append(all, decodeEntry(mesh.ExecutionID(k[len(prefix):]), row))
	}
	return all
}

// drop forgets a thread. The caller holds mu.
func (x *Index) drop(key mesh.ThreadKey) {
	delete(x.summaries, key)
	var kept []string
	prefix := threadKey(key)
	for k := range x.table.Range(prefix, rows.Beyond(prefix)) {
		kept = append(kept, k)
	}
	if x.held[key] == nil && len(kept) == 0 {
		return
	}
	if c := x.find(key); c != nil {
		x.close(key.Tenant, c)
		x.own(key.Tenant, c, "")
		for _, e := range x.entries(key) {
			x.unlist(c, &e)
		}
		delete(x.touched, c)
		delete(x.held, key)
	}
	for _, k := range kept {
		x.dropSum(key, k)
		x.table.Delete(k)
	}
}
