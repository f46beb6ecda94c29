package tasks

import (
	"context"
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
	for {
		if err := x.Catch(ctx, q.Tenant); err != nil {
			return Page{}, err
		}
		x.mu.Lock()
		page := x.page(&q, after)
		err := x.table.Err()
		x.mu.Unlock()
		if err == nil {
			return page, nil
		}
		if _, err := x.step(ctx); err != nil { // which begins afresh
			return Page{}, err
		}
	}
}

// page returns the page after that place, or the first one. The caller holds mu.
func (x *Index) page(q *Query, after *place) (page Page) {
	var found []entryOf
	if q.Thread != "" {
		found, page.Total = x.inThread(q, after)
	} else {
		for _, list := range q.lists() {
			beyond, from := q.beyond(list), list
			page.Total += x.table.Count(list, beyond)
			if after != nil {
				from = string(after.append([]byte(list))) + "\x00"
			}
			n := 0
			for key, id := range x.table.Range(from, beyond) {
				if n++; n > q.Limit+1 {
					break
				}
				p := placeOf(key[len(list):])
				if id == "" {
					id, _ = p.id.ThreadID()
				}
				found = append(found, entryOf{entry{place: p}, id})
			}
		}
	}
	slices.SortFunc(found, func(a, b entryOf) int { return a.compare(b.place) })
	page.More = len(found) > q.Limit
	for _, e := range found[:min(len(found), q.Limit)] {
		page.Tasks = append(page.Tasks, x.public(mesh.ThreadKey{Tenant: q.Tenant, ID: e.thread}, e.id))
	}
	return page
}

// An entryOf is a task of a thread.
type entryOf struct {
	entry
	thread string
}

// inThread returns the tasks after that place, and how many there are in all.
func (x *Index) inThread(q *Query, after *place) (found []entryOf, total int) {
	key := mesh.ThreadKey{Tenant: q.Tenant, ID: q.Thread}
	if c := x.find(key); c == nil || !c.MayRead(q.Caller) {
		return nil, 0
	}
	for _, e := range x.entries(key) {
		if q.Agent != "" && e.agent != q.Agent || q.State != 0 && e.state != q.State || !q.Since.IsZero() && time.UnixMilli(e.at).Before(q.Since) {
			continue
		}
		if total++; after == nil || e.compare(*after) > 0 {
			found = append(found, entryOf{e, q.Thread})
		}
	}
	return found, total
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
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.find(key); c != nil {
		return c.Access, nil
	}
	return thread.Access{}, mesh.Wrap(op, x.table.Err())
}

// public is what is known of the task.
func (x *Index) public(key mesh.ThreadKey, id mesh.ExecutionID) Task {
	row, ok := x.table.Get(taskKey(key, id))
	if !ok {
		x.table.Fail(errRow)
		return Task{}
	}
	e := decodeEntry(id, row)
	seq := e.ended
	if seq == 0 {
		if c := x.find(key); c != nil {
			seq = c.Seq
		}
	}
	return Task{ID: id, Thread: key.ID, State: e.state, Since: time.UnixMilli(e.at).UTC(), Seq: seq}
}
