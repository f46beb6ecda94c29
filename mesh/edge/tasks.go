package edge

import (
	"context"
	"iter"
	"slices"
	"sync"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// A ref is a task that a caller names.
type ref struct {
	key   mesh.ThreadKey
	task  mesh.ExecutionID
	call  mesh.Call
	by    mesh.Principal
	agent string // that the caller addresses, or ""
}

// locate finds the thread of a task that the caller names.
func (e *Edge) locate(ctx context.Context, op, id string) (ref, error) {
	call, err := e.caller(ctx, op)
	if err != nil {
		return ref{}, err
	}
	task := mesh.ExecutionID(id)
	threadID, valid := task.ThreadID()
	if !valid || call.Thread != "" && call.Thread != threadID {
		return ref{}, mesh.TaskNotFound(op)
	}
	return ref{mesh.ThreadKey{Tenant: call.Principal.Tenant, ID: threadID}, task, call, call.Principal, call.Agent}, nil
}

// turn returns the turn that the task is, if the caller may know of it.
func (r ref) turn(op string, s *thread.State) (*thread.Execution, error) {
	if t := s.TurnFor(r.by, r.task, r.agent); t != nil {
		return t, nil
	}
	return nil, mesh.TaskNotFound(op)
}

// noteRead says that the principal, who may, reads tasks of the thread.
func (e *Edge) noteRead(ctx context.Context, threadID string, a *thread.Access, p mesh.Principal) {
	if !a.Involves(p) {
		e.ReadByRole(ctx, threadID)
	}
}

// Task implements a2a.Service.
func (e *Edge) Task(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error) {
	return e.task(ctx, id, false)
}

// Bare implements a2a.Service.
func (e *Edge) Bare(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error) {
	return e.task(ctx, id, true)
}

func (e *Edge) task(ctx context.Context, id string, bare bool) (*a2apb.Task, mesh.Seq, error) {
	const op = "edge.Task"
	r, err := e.locate(ctx, op, id)
	if err != nil {
		return nil, 0, err
	}
	f, err := e.finished(ctx, r.key, r.task, bare)
	switch {
	case err != nil:
		return nil, 0, err
	case f != nil && r.agent != "" && r.agent != f.agent:
		return nil, 0, mesh.TaskNotFound(op)
	case f != nil && f.owned.Involves(r.by): // what is shared later, and who reads by a role, is looked up
		return e.shown(r.call, r.key, f, bare), f.ended, nil
	}
	var tail mesh.Seq
	err = e.States.With(ctx, r.key, func(s *thread.State) error {
		t, err := r.turn(op, s)
		if err != nil {
			return err
		}
		e.noteRead(ctx, r.key.ID, &s.Access, r.by)
		if tail = s.Seq; t.Ended != 0 {
			tail = t.Ended
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	snap, err := e.snapshot(ctx, r.call, r.key, r.task, tail, bare)
	return snap, tail, err
}

// Updates implements a2a.Service.
func (e *Edge) Updates(ctx context.Context, id string, after mesh.Seq) iter.Seq2[a2a.Update, error] {
	return func(yield func(a2a.Update, error) bool) {
		key, first, view, err := e.view(ctx, id, after)
		if err != nil {
			yield(a2a.Update{}, err)
			return
		}
		if view.Over() {
			return
		}
		var at *mesh.Event
		var u a2a.Update
		u.Wire = func() []byte { return view.Wire(at, u.Response) } // whoever is not on a network has no use for it
		for ev, err := range e.Log.Follow(ctx, key, first, after) {
			if err != nil {
				yield(a2a.Update{}, err)
				return
			}
			if at, u.Seq, u.Response = ev, ev.Seq, view.Apply(ev); u.Response != nil && !yield(u, nil) {
				return
			}
			if view.Over() {
				return
			}
			if !thread.Reshares(ev) {
				continue
			}
			if _, _, _, err := e.view(ctx, id, ev.Seq); err != nil { // it is not the caller's to read any more
				yield(a2a.Update{}, err)
				return
			}
		}
	}
}

// view returns the caller's view of the task after the cursor, and the thread that it is
// in, with the position of its first event.
func (e *Edge) view(ctx context.Context, id string, after mesh.Seq) (mesh.ThreadKey, mesh.Pos, *thread.View, error) {
	const op = "edge.Updates"
	r, err := e.locate(ctx, op, id)
	if err != nil {
		return r.key, 0, nil, err
	}
	call, _ := mesh.CallFrom(ctx)
	var first mesh.Pos
	var view *thread.View
	err = e.States.With(ctx, r.key, func(s *thread.State) error {
		t, err := r.turn(op, s)
		if err != nil {
			return err
		}
		e.noteRead(ctx, r.key.ID, &s.Access, r.by)
		if after < 0 || after > s.Seq {
			return mesh.InvalidField(op, "after-seq", "is %d, and the conversation ends at %d; use the seq of the last update that you had", after, s.Seq)
		}
		first = s.First
		view = s.View(r.key.ID, r.task, after, thread.Mode{Extended: call.Extended(), Seq: call.WantSeq, Context: e.Contexts.Shown(r.key, call, t.Context), Link: e.link(r.key)})
		return nil
	})
	return r.key, first, view, err
}

// Cancel implements a2a.Service. It returns when the task is over.
func (e *Edge) Cancel(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	const op = "edge.Cancel"
	call, _ := mesh.CallFrom(ctx)
	if err := sameTenant(call, req.GetTenant()); err != nil {
		return nil, err
	}
	r, err := e.locate(ctx, op, req.GetId())
	if err != nil {
		return nil, err
	}
	done, err := e.take()
	if err != nil {
		return nil, err
	}
	// A driver looks, whatever became of the caller, and finds out whether there is
	// something to do.
	appended := sync.OnceFunc(func() {
		defer done()
		e.Turns.Wake(r.key)
	})
	defer appended()
	waiting, from, err := e.requestCancel(ctx, r)
	if err != nil {
		return nil, err
	}
	e.Turns.EndTasks(ctx, r.key, waiting)
	appended()
	ctx, cancel := context.WithTimeout(ctx, e.CancelWait)
	defer cancel()
	for _, err := range e.Updates(ctx, req.GetId(), from) {
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, mesh.Errorf(mesh.Timeout, op, "the task is being canceled; ask for it again in a moment")
	}
	task, _, err := e.Task(ctx, req.GetId())
	if err == nil && task.GetStatus().GetState() == a2apb.TaskState_TASK_STATE_COMPLETED { // its agent was faster
		return nil, notCancelable()
	}
	return task, err
}

func notCancelable() *mesh.Error {
	return &mesh.Error{Code: mesh.Precondition, Op: "edge.Cancel", Field: "id", Reason: "TASK_NOT_CANCELABLE",
		Detail: "The task is over and cannot be canceled"}
}

// decline adds to the decision to cancel the turn, which waits for its user or has not begun,
// that the session of the active handoff is left with it: where its agent asks the user of the
// session there, who wants no more of that. It returns the executions that waited in turns of
// others, and do no more. The turn's own are for the caller.
func (e *Edge) decline(s *thread.State, t *thread.Execution, by string, dec *cache.Decision) []thread.Execution {
	turns := s.InSession()
	at := slices.Index(turns, t)
	if at < 0 || t.User != s.Handoff.By {
		return nil
	}
	return e.leave(s, by, t.ID, slices.Delete(turns, at, at+1), dec)
}

// requestCancel logs the wish. A task that no agent is working on ends at
// once; then the executions that waited, at any depth, are returned. The task had
// not ended at the Seq that is returned.
func (e *Edge) requestCancel(ctx context.Context, r ref) (waiting []thread.Execution, at mesh.Seq, err error) {
	event := func(id mesh.ExecutionID, b mesh.Body) *mesh.Event { return e.event(id, "user:"+r.by.User, b) }
	err = e.States.Decide(ctx, r.key, func(s *thread.State) (cache.Decision, error) {
		waiting, at = nil, s.Seq
		t, err := r.turn("edge.Cancel", s)
		if err != nil {
			return cache.Decision{}, err
		}
		if !s.MayCancel(r.by) {
			return cache.Decision{}, s.Outsider("edge.Cancel")
		}
		if mesh.Terminal(t.State) {
			return cache.Decision{}, notCancelable()
		}
		d := cache.Decision{Scopes: []mesh.Scope{mesh.Scope(r.task)}}
		if !t.Canceled {
			d.Events = append(d.Events, event(r.task, mesh.CancelRequested{By: r.by.User}))
		}
		if mesh.Interrupted(t.State) || t.State == a2apb.TaskState_TASK_STATE_SUBMITTED {
			waiting = e.decline(s, t, r.by.User, &d)
			for _, x := range s.Unfinished(r.task) {
				waiting = append(waiting, *x)
				d.Events = append(d.Events, event(x.Parent, mesh.DispatchSettled{Child: x.ID, State: a2apb.TaskState_TASK_STATE_CANCELED}))
			}
			d.Events = append(d.Events, event(r.task, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED, Message: mesh.Say(text.Canceled())}))
		}
		return d, nil
	})
	return waiting, at, err
}
