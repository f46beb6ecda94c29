package agent

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime/debug"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/text"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// settleTime bounds how long the last facts of a run may take to be logged.
const settleTime = 5 * time.Second

// Send starts a run for the message, on the task of the caller's execution:
// the ticket proves that the task exists, so a message that continues one that
// this process does not know reopens it. A message that the task has had
// already starts nothing.
func (r *Runtime) Send(ctx context.Context, req *a2apb.SendMessageRequest) (*a2a.Accepted, error) {
	const op = "agent.Send"
	call, g, err := caller(ctx, op)
	if err != nil {
		return nil, err
	}
	m := req.GetMessage()
	switch {
	case m.GetContextId() != "" && m.GetContextId() != g.Thread:
		e := mesh.ThreadNotFound(op)
		e.Field = "message.context_id"
		return nil, e
	case m.GetTaskId() != "" && m.GetTaskId() != string(g.Execution):
		return nil, mesh.TaskNotFound(op)
	}
	var told int32
	if call.Principal.Ticket {
		if call, told, err = meshclient.Redeem(ctx, r.node, call, r.secret); err != nil {
			return nil, mesh.Wrap(op, err)
		}
	}
	inv, err := r.invocation(call, g, m)
	if err != nil {
		return nil, err
	}
	inv.Mesh.Waiting(told)
	r.mu.Lock()
	defer r.mu.Unlock()
	continues := a2a.Extension(m.GetMetadata()).GetFields()[a2a.KeyContinues].GetStringValue()
	t := r.tasks[string(g.Execution)]
	if t == nil {
		if r.stopping {
			return nil, mesh.Errorf(mesh.Unavailable, op, "The agent is stopping; try again")
		}
		t = newTask(g)
		inv.Resumed = m.GetTaskId() != "" && continues != a2a.ContinuesFirst // another process had it
		inv.Continued = continues != ""
		if len(r.tasks) >= maxTasks || r.held > maxHeld {
			r.sweep()
		}
		r.tasks[t.id] = t
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.status.State
	switch {
	case t.tenant != g.Tenant:
		return nil, mesh.TaskNotFound(op)
	case t.messages[m.GetMessageId()]: // a resend: attach
	case mesh.Terminal(state):
		return nil, a2a.TaskOver(op)
	case t.cancel != nil:
		return nil, a2a.UnsupportedOperation(op, "The task is at work on the message before; wait for it, or cancel it")
	case r.stopping:
		return nil, mesh.Errorf(mesh.Unavailable, op, "The agent is stopping; try again")
	default:
		if inv.Resumed = inv.Resumed || mesh.Interrupted(state); inv.GoesOn() { // here, or elsewhere meanwhile
			if had := a2a.Extension(m.GetMetadata()).GetFields()[a2a.KeyUpdates]; had != nil {
				t.sent = int64(min(max(had.GetNumberValue(), 0), math.MaxInt32))
			}
		}
		r.start(ctx, t, inv)
	}
	task, seq := t.snapshot()
	return &a2a.Accepted{Task: task, Cursor: seq}, nil
}

// start runs the agent on the invocation, detached from the caller, until the
// grant expires. The caller holds the task's mu.
func (r *Runtime) start(ctx context.Context, t *task, inv *Invocation) {
	ctx = inv.Mesh.About(context.WithoutCancel(ctx))
	ctx, expire := context.WithDeadlineCause(ctx, time.Unix(inv.Grant.Expires, 0), errExpired)
	ctx, cancel := context.WithCancelCause(ctx)
	t.begin(inv.Message, cancel)
	w := newWriter(t, inv.Message, inv.Resumed)
	inv.Mesh.BeforeHandoff(w.handOver)
	r.runs.Go(func() {
		defer expire()
		defer cancel(nil)
		r.watch(ctx, w, inv)
	})
}

// An outcome is how a run moves its task.
type outcome struct {
	state  mesh.TaskState
	text   string
	reason string
	asked  Ask // of one that waits for the user
}

// watch runs the agent and ends its task: with what came of the run, or when
// the run was cut and does not end within the grace.
func (r *Runtime) watch(ctx context.Context, w *writer, inv *Invocation) {
	done := make(chan outcome, 1)
	r.agents.Go(func() { r.drive(ctx, w, inv, done) })
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		select {
		case o = <-done:
		case <-time.After(r.grace):
			r.logger.ErrorContext(ctx, "an agent ignores the end of its context",
				"agent", r.card.GetName(), "execution", inv.Execution, "cause", context.Cause(ctx))
		}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrShutdown): // it goes on elsewhere, and has no last word here
		w.leave()
		return
	case cause != nil: // what the agent made of it does not matter
		o = cut(cause)
	}
	w.end(o)
}

// drive runs the agent's code and sends what came of it, also when that code
// panics or ends its goroutine.
func (r *Runtime) drive(ctx context.Context, w *writer, inv *Invocation, done chan<- outcome) {
	o := outcome{state: a2apb.TaskState_TASK_STATE_FAILED, text: internalError, reason: mesh.ReasonPanic}
	defer func() {
		if p := recover(); p != nil {
			r.logger.ErrorContext(ctx, "an agent panicked", "agent", r.card.GetName(),
				"execution", inv.Execution, "panic", p, "stack", string(debug.Stack()))
		}
		done <- o
	}()
	asked, err := r.consume(ctx, w, inv)
	settling, cancel := settle(ctx)
	defer cancel()
	err = cmp.Or(err, inv.Mesh.Close(settling)) // nothing can be added after the last word
	switch {
	case err != nil:
		o = failure(err)
		if o.text == internalError && ctx.Err() == nil {
			r.logger.ErrorContext(ctx, "an agent failed", "agent", r.card.GetName(), "execution", inv.Execution, "err", err)
		}
	case asked.Text != "":
		o = outcome{state: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, text: asked.Text, asked: asked}
		switch {
		case asked.Help != nil:
			o.reason = mesh.ReasonHelp
		case asked.Approval:
			o.reason = mesh.ReasonApproval
		case asked.Report != nil:
			o.reason = mesh.ReasonLimit
		}
	default:
		o = outcome{state: a2apb.TaskState_TASK_STATE_COMPLETED}
	}
}

// settle returns a context in which the last facts of a run are logged: as long as its node
// may take to restart, but soon once the run has been cut.
func settle(ctx context.Context) (context.Context, context.CancelFunc) {
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), meshclient.RestartTime)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(settleTime):
			cancel()
		case <-settling.Done():
		}
	})
	return settling, func() { stop(); cancel() }
}

// consume passes on what the agent says. It returns the question, if the agent
// asked one. It does not range over the run, because an agent that goes on
// after it was told to stop is to be ignored, not to panic.
func (r *Runtime) consume(ctx context.Context, w *writer, inv *Invocation) (asked Ask, err error) {
	stopped := false
	r.agent.Run(ctx, inv)(func(out Output, failure error) bool {
		if stopped {
			return false
		}
		switch {
		case failure != nil:
			err = failure
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		default:
			asked, err = w.take(out)
		}
		stopped = err != nil || asked.Text != ""
		return !stopped
	})
	return asked, err
}

const internalError = "internal error"

// failure is the outcome of a run that ended with an error: what a user may
// know of it.
func failure(err error) outcome {
	o := outcome{state: a2apb.TaskState_TASK_STATE_FAILED, text: internalError}
	if detail := mesh.DetailOf(err); detail != "" {
		o.text = detail
	}
	var e *mesh.Error
	switch {
	case errors.As(err, &e) && e.Reason != "":
		o.reason = e.Reason
		if e.Reason == mesh.ReasonDeclined {
			o.state = a2apb.TaskState_TASK_STATE_CANCELED
		}
	case mesh.IsCode(err, mesh.Timeout):
		o.reason = mesh.ReasonTimeout
	}
	return o
}

// cut is the outcome of a run that was ended for the cause.
func cut(cause error) outcome {
	if errors.Is(cause, ErrCanceled) {
		return outcome{state: a2apb.TaskState_TASK_STATE_CANCELED}
	}
	return outcome{state: a2apb.TaskState_TASK_STATE_FAILED,
		text: text.AgentLate(), reason: mesh.ReasonTimeout}
}
