package tasks

import (
	"context"
	"iter"
	"slices"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// A Query says which tasks are wanted. All filters must hold.
type Query struct {
	Tenant mesh.TenantID
	// Caller is who asks, of that tenant: tasks of threads that it may not read are not
	// there. A page token works for whom it was given to.
	Caller mesh.Principal
	// Agent is the name of the agent that the tasks began with, "" for all.
	Agent string
	// Thread is a thread id, "" for all.
	Thread string
	// State is a state, 0 for all.
	State mesh.TaskState
	// Since is the earliest time of the status, zero for all.
	Since time.Time
	// Limit is the most tasks of the page, above 0.
	Limit int
	// Token is "" for the first page, else what [Index.Token] gave for the
	// last task of the page before.
	Token string
}

// A Task is what the index knows of a task.
type Task struct {
	ID     mesh.ExecutionID
	Thread string
	State  mesh.TaskState
	// Since is when it came into its status.
	Since time.Time
	// Seq is the place in its thread up to which all this holds.
	Seq mesh.Seq
}

// A Page is a part of the tasks that were asked for: the latest status first,
// and of the same time the lowest id.
type Page struct {
	Tasks []Task
	// Total counts all tasks of the query, on every page.
	Total int
	// More says that there are tasks after these.
	More bool
}

// List returns a page of the tenant's tasks, with all that was acknowledged
// before the call. A token that was not given for the same tenant, caller and
// filters is Invalid and names page_token. List reads the log as far as it must
// and gives up when ctx ends.
func (x *Index) List(ctx context.Context, q Query) (Page, error) {
	after, err := x.unseal(q)
	if err != nil {
		return Page{}, err
	}
	if err := x.catchUp(ctx, q.Tenant); err != nil {
		return Page{}, err
	}
	if err := x.prune(ctx, q.Tenant); err != nil {
		return Page{}, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	var page Page
	for t := range x.tenants[q.Tenant].ordered(q.Thread) {
		if !q.has(t) {
			continue
		}
		page.Total++
		switch {
		case after != nil && t.compare(*after) <= 0: // on an earlier page
		case len(page.Tasks) < q.Limit:
			page.Tasks = append(page.Tasks, t.public())
		default:
			page.More = true
		}
	}
	return page, nil
}

func (q Query) has(t *task) bool {
	return t.in.access.MayRead(q.Caller) && (q.Agent == "" || t.agent == q.Agent) && (q.State == 0 || t.state == q.State) && (q.Since.IsZero() || !time.UnixMilli(t.at).Before(q.Since))
}

// ordered yields the tenant's tasks, or those of one thread. It may be called
// on nil.
func (t *tenant) ordered(thread string) iter.Seq[*task] {
	return func(yield func(*task) bool) {
		switch {
		case t == nil:
		case thread == "":
			for e := t.order.Front(); e != nil && yield(e.Value.(*task)); e = e.Next() {
			}
		case t.threads[thread] != nil:
			byPlace := func(a, b *task) int { return a.compare(b.place) }
			slices.Values(slices.SortedFunc(slices.Values(t.threads[thread].tasks), byPlace))(yield)
		}
	}
}

// Access says whose a thread is, and who else may see it, with all that was
// acknowledged before the call; the zero value for one without tasks.
func (x *Index) Access(ctx context.Context, key mesh.ThreadKey) (thread.Access, error) {
	const op = "tasks.Access"
	info, ok, err := x.log.Info(ctx, key)
	if err != nil || !ok {
		return thread.Access{}, mesh.Wrap(op, err)
	}
	if err := x.read(ctx, info.LastPos); err != nil {
		return thread.Access{}, mesh.Wrap(op, err)
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c := x.find(key); c != nil {
		return c.access, nil
	}
	return thread.Access{}, nil
}

func (t *task) public() Task {
	seq := t.in.seq
	if t.ended != 0 {
		seq = t.ended
	}
	return Task{ID: t.id, Thread: t.thread, State: t.state, Since: time.UnixMilli(t.at).UTC(), Seq: seq}
}
