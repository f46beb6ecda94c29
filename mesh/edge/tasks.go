package edge

import (
	"context"
	"errors"
	"iter"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/peer"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threads"
)

// locate finds the thread of a task that the caller names.
func (e *Edge) locate(ctx context.Context, op, id string) (mesh.ThreadKey, mesh.ExecutionID, error) {
	call, err := e.caller(ctx, op)
	if err != nil {
		return mesh.ThreadKey{}, "", err
	}
	task := mesh.ExecutionID(id)
	threadID, valid := task.ThreadID()
	if !valid {
		return mesh.ThreadKey{}, "", mesh.TaskNotFound(op)
	}
	if call.Thread != "" && call.Thread != threadID {
		return mesh.ThreadKey{}, "", mesh.TaskNotFound(op)
	}
	return mesh.ThreadKey{Tenant: call.Principal.Tenant, ID: threadID}, task, nil
}

// Task implements a2a.Service.
func (e *Edge) Task(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error) {
	key, task, err := e.locate(ctx, "edge.Task", id)
	if err != nil {
		return nil, 0, err
	}
	var tail mesh.Seq
	err = e.States.With(ctx, key, func(s *thread.State) error {
		t := s.Turn(task)
		if t == nil {
			return mesh.TaskNotFound("edge.Task")
		}
		if tail = s.Seq; t.Ended != 0 {
			tail = t.Ended
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	snap, err := e.snapshot(ctx, key, task, tail)
	return snap, tail, err
}

// snapshot assembles the task as it was at the given Seq.
func (e *Edge) snapshot(ctx context.Context, key mesh.ThreadKey, id mesh.ExecutionID, at mesh.Seq) (*a2apb.Task, error) {
	const page = 256
	var after mesh.Seq
	err := e.States.With(ctx, key, func(s *thread.State) error {
		t := s.Turn(id)
		if t == nil {
			return mesh.TaskNotFound("edge.snapshot")
		}
		after = t.Opened - 1
		return nil
	})
	if err != nil {
		return nil, err
	}
	snap := thread.NewSnapshot(key.ID, id)
	for after < at {
		events, err := e.Log.Read(ctx, key, after, int(min(page, at-after)))
		if err != nil {
			return nil, mesh.Wrap("edge.snapshot", err)
		}
		if len(events) == 0 {
			break
		}
		for _, ev := range events {
			snap.Apply(ev)
		}
		after = events[len(events)-1].Seq
	}
	task, _ := snap.Task()
	return task, nil
}

// Updates implements a2a.Service.
func (e *Edge) Updates(ctx context.Context, id string, after mesh.Seq) iter.Seq2[a2a.Update, error] {
	return func(yield func(a2a.Update, error) bool) {
		key, view, err := e.view(ctx, id, after)
		if err != nil {
			yield(a2a.Update{}, err)
			return
		}
		if view.Over() {
			return
		}
		for ev, err := range e.Log.Follow(ctx, key, after) {
			if err != nil {
				yield(a2a.Update{}, err)
				return
			}
			if r := view.Apply(ev); r != nil && !yield(a2a.Update{Seq: ev.Seq, Response: r}, nil) {
				return
			}
			if view.Over() {
				return
			}
		}
	}
}

// view returns the caller's view of the task after the cursor.
func (e *Edge) view(ctx context.Context, id string, after mesh.Seq) (mesh.ThreadKey, *thread.View, error) {
	const op = "edge.Updates"
	key, task, err := e.locate(ctx, op, id)
	if err != nil {
		return key, nil, err
	}
	call, _ := mesh.CallFrom(ctx)
	var view *thread.View
	err = e.States.With(ctx, key, func(s *thread.State) error {
		if s.Turn(task) == nil {
			return mesh.TaskNotFound(op)
		}
		if after < 0 || after > s.Seq {
			return mesh.InvalidField(op, "after-seq", "is %d, and the conversation ends at %d; use the seq of the last update that you had", after, s.Seq)
		}
		view = s.View(key.ID, task, after, thread.Mode{Extended: call.Extended(), Seq: call.WantSeq})
		return nil
	})
	return key, view, err
}

// Cancel implements a2a.Service. It returns when the task is over.
func (e *Edge) Cancel(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	const op = "edge.Cancel"
	call, _ := mesh.CallFrom(ctx)
	if err := sameTenant(call, req.GetTenant()); err != nil {
		return nil, err
	}
	key, id, err := e.locate(ctx, op, req.GetId())
	if err != nil {
		return nil, err
	}
	appended, err := e.opening(key)
	if err != nil {
		return nil, err
	}
	defer appended()
	parked, err := e.requestCancel(ctx, key, id, call.Principal.User)
	if err != nil {
		return nil, err
	}
	for _, x := range parked { // the agent has no stream open; tell it, as a courtesy
		detached := context.WithoutCancel(ctx)
		e.wg.Go(func() { e.tellCanceled(detached, key, &x) }) // Close waits
	}
	appended()
	ctx, cancel := context.WithTimeout(ctx, 2*e.CancelGrace)
	defer cancel()
	for _, err := range e.Updates(ctx, req.GetId(), 0) {
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, mesh.Errorf(mesh.Timeout, op, "the task is being canceled; ask for it again in a moment")
	}
	task, _, err := e.Task(ctx, req.GetId())
	return task, err
}

// requestCancel logs the wish. A task that no agent is working on ends at
// once; then the executions that waited, at any depth, are returned.
func (e *Edge) requestCancel(ctx context.Context, key mesh.ThreadKey, id mesh.ExecutionID, user string) ([]thread.Execution, error) {
	var parked []thread.Execution
	err := e.States.Decide(ctx, key, func(s *thread.State) (threads.Decision, error) {
		parked = nil
		t := s.Turn(id)
		switch {
		case t == nil:
			return threads.Decision{}, mesh.TaskNotFound("edge.Cancel")
		case mesh.Terminal(t.State):
			return threads.Decision{}, &mesh.Error{Code: mesh.Precondition, Op: "edge.Cancel", Field: "id", Reason: "TASK_NOT_CANCELABLE",
				Detail: "The task is over and cannot be canceled"}
		}
		d := e.claim(s)
		event := e.maker(id, "user:"+user)
		if !t.Canceled {
			d.Events = append(d.Events, event(mesh.CancelRequested{By: user}))
		}
		if mesh.Interrupted(t.State) || t.State == a2apb.TaskState_TASK_STATE_SUBMITTED {
			for _, x := range s.Unfinished(id) {
				parked = append(parked, *x)
				d.Events = append(d.Events, e.maker(x.Parent, "user:"+user)(mesh.DispatchSettled{Child: x.ID, State: a2apb.TaskState_TASK_STATE_CANCELED}))
			}
			d.Events = append(d.Events, event(mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED, Message: peer.Say("Canceled.")}))
		}
		if len(d.Events) == 0 {
			return threads.Decision{}, nil
		}
		for _, ev := range d.Events {
			ev.Epoch = d.Epoch
		}
		return d, nil
	})
	return parked, err
}

// tellCanceled asks the agent of an execution to cancel its task.
func (e *Edge) tellCanceled(ctx context.Context, key mesh.ThreadKey, x *thread.Execution) {
	ctx, cancel := context.WithTimeout(ctx, e.CancelGrace)
	defer cancel()
	l, err := e.connect(key.Tenant, x.Agent)
	if err != nil {
		return
	}
	task := x.RemoteTask
	if task == "" {
		task = string(x.ID)
	}
	ctx = e.identify(ctx, key, x.Execution, l.entry, nil, time.Minute)
	if err := peer.Cancel(ctx, l.client, task); err != nil && !errors.Is(err, context.Canceled) {
		e.Logger.InfoContext(ctx, "agent did not cancel", "agent", x.Agent, "err", err)
	}
}
