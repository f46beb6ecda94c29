package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"agentmesh/mesh"
)

// A turn is one task's stream, which survives broken connections: it knows
// what was seen of it, and so where to go on.
type turn struct {
	thread string
	agent  string // that is addressed rather than main, or ""
	// send is the message that begins it; nil to only follow the task. sent
	// says that this was tried, and base is a Seq from before it.
	send *a2apb.SendMessageRequest
	sent bool
	base mesh.Seq

	// task is the task's id, once known, and state its last known state.
	task  string
	state mesh.TaskState
	// seq is the cursor: the Seq of the last update seen, if there is one.
	seq       mesh.Seq
	hasCursor bool
	// seen says that updates were seen, so that beginning anew would repeat.
	seen bool
}

// newTurn returns a turn that sends text in the thread, as the answer to the
// task if one is named.
func newTurn(thread, task, text string) *turn {
	m := &a2apb.Message{MessageId: mesh.NewEventID(), ContextId: thread, TaskId: task, Role: a2apb.Role_ROLE_USER, Extensions: []string{mesh.ExtensionURI}}
	if text != "" { // a file says it
		m.Parts = []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}
	}
	return &turn{thread: thread, task: task, send: &a2apb.SendMessageRequest{Message: m}}
}

// over reports whether nothing more comes before somebody acts.
func (t *turn) over() bool {
	return mesh.Terminal(t.state) || t.state == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
}

// failed reports whether the task ended otherwise than well.
func (t *turn) failed() bool {
	return mesh.Terminal(t.state) && t.state != a2apb.TaskState_TASK_STATE_COMPLETED
}

// retries bounds attempts at a broken stream that bring nothing new: with
// the pauses between them, about 9 seconds.
const retries = 8

// updates yields the turn's updates, each once and in order, until it is over. A
// connection that breaks is made again, which an update says once; the stream goes
// on after the last Seq that was seen. An error is the last thing it yields.
func (c *client) updates(ctx context.Context, t *turn) iter.Seq2[update, error] {
	return func(yield func(update, error) bool) {
		for try := 0; ; try++ {
			before := t.seq
			more, err := c.attempt(ctx, t, yield)
			if !more {
				return
			}
			if t.seq != before {
				try = 0
			}
			if ctx.Err() != nil || !t.retryable(err) || try >= retries {
				yield(update{}, c.gaveUp(ctx, t, err))
				return
			}
			if try == 0 && !yield(update{lost: true, resumed: t.seen}, nil) {
				return
			}
			if err := c.reconnect(ctx, try); err != nil {
				yield(update{}, err)
				return
			}
		}
	}
}

// retryable reports whether the turn may go on after err, neither repeating nor
// skipping anything: from a cursor, or when nothing was seen yet, as the mesh
// recognises a message that it got before by its id.
func (t *turn) retryable(err error) bool {
	return mesh.IsCode(err, mesh.Unavailable) && (!t.seen || t.task != "" && t.hasCursor)
}

// down reports whether there is no connection at the moment.
func (c *client) down() bool { return c.conn.GetState() != connectivity.Ready }

// reconnect waits before the next attempt, the longer the more there were, and
// has the connection made again at once then.
func (c *client) reconnect(ctx context.Context, try int) error {
	if err := c.app.pause(ctx, min(2*time.Second, 100*time.Millisecond<<try)); err != nil {
		return err
	}
	c.conn.ResetConnectBackoff()
	return nil
}

// gaveUp returns what to tell about the last error of a stream.
func (c *client) gaveUp(ctx context.Context, t *turn, err error) error {
	if ctx.Err() != nil || mesh.CodeOf(err) != mesh.Unavailable || !c.down() {
		return err
	}
	if t.task == "" || !t.hasCursor {
		return mesh.Errorf(mesh.Unavailable, "mesh.stream",
			"lost the connection to %s; what happened meanwhile shows 'mesh threads show %s': %w", c.app.flags.addr, t.thread, err)
	}
	return mesh.Errorf(mesh.Unavailable, "mesh.stream",
		"lost the connection to %s; go on with 'mesh send --thread %s --task %s --resume %d': %w",
		c.app.flags.addr, t.thread, t.task, t.seq, err)
}

// attempt opens one stream and yields what it brings. It returns false when
// the turn is over or yield wants no more, and otherwise why the stream broke.
func (c *client) attempt(ctx context.Context, t *turn, yield func(update, error) bool) (more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, resumed, err := c.open(ctx, t)
	if err != nil {
		return true, err
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if t.over() || mesh.Interrupted(t.state) {
				return false, nil
			}
			return true, mesh.Errorf(mesh.Unavailable, "mesh.stream",
				"the stream ended before the task did; look at it with 'mesh threads show %s'", t.thread)
		}
		if err != nil {
			return true, err
		}
		u := decode(resp)
		u.resumed = resumed
		t.note(u)
		if !yield(u, nil) || !u.snapshot && u.state != a2apb.TaskState_TASK_STATE_UNSPECIFIED && t.over() {
			return false, nil
		}
	}
}

// open begins the turn, or goes on with it where it broke.
func (c *client) open(ctx context.Context, t *turn) (stream grpc.ServerStreamingClient[a2apb.StreamResponse], resumed bool, err error) {
	if t.send != nil && !t.seen {
		if !t.sent {
			t.sent = true
			stream, err = c.a2a.SendStreamingMessage(c.addressed(ctx, t.thread, t.agent), t.send)
			return stream, false, err
		}
		if err := c.attach(ctx, t); err != nil {
			return nil, false, err
		}
	}
	stream, err = c.a2a.SubscribeToTask(c.after(ctx, t.thread, t.seq), &a2apb.SubscribeToTaskRequest{Id: t.task})
	return stream, true, err
}

// attach sends a message again of which nothing came back, to learn which
// task it opened. The mesh recognises it by its id if it got it before.
func (c *client) attach(ctx context.Context, t *turn) error {
	resp, err := c.a2a.SendMessage(c.addressed(ctx, t.thread, t.agent), &a2apb.SendMessageRequest{
		Message: t.send.GetMessage(), Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true}})
	if err != nil {
		return err
	}
	if resp.GetTask() == nil {
		return mesh.Errorf(mesh.Unavailable, "mesh.attach", "the agent has no task to go on with; send the message again")
	}
	t.task, t.seq, t.hasCursor = resp.GetTask().GetId(), t.base, true
	return nil
}

// note keeps what u says about the turn. The task as a whole moves the cursor
// only at the beginning: after a break, what led to it is still to come. So is
// the state's news, and only updates end a turn.
func (t *turn) note(u update) {
	if u.task != "" {
		t.task = u.task
	}
	if u.thread != "" {
		t.thread = u.thread
	}
	if u.state != a2apb.TaskState_TASK_STATE_UNSPECIFIED {
		t.state = u.state
	}
	if u.seq != 0 && !(u.snapshot && u.resumed) {
		t.seq, t.hasCursor = u.seq, true
	}
	t.seen = t.seen || !u.snapshot || t.hasCursor
}
