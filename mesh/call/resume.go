package call

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

const (
	firstWait = 100 * time.Millisecond // between two looks at a task
	longWait  = 5 * time.Second
	lookTime  = 15 * time.Second // of one look
	// maxFailures is how many looks in a row may fail before the agent counts
	// as gone: about three seconds, in which one that restarts is back.
	maxFailures = 7
)

// errForgotten is in the chain when the agent lost the task.
var errForgotten = errors.New("the agent does not know the task")

// A call is one message to an agent and all that is done to hear the answer.
type call struct {
	agent  Client
	reader *reader
	yield  func(mesh.Body) bool
	left   bool // the caller broke the loop
	// attached says that the agent had begun before this call.
	attached bool
	news     bool   // something was yielded since this was cleared
	at       string // the instance that has the execution, as the log knows
}

// over reports whether there is nothing more to do.
func (c *call) over(ctx context.Context) bool {
	return c.left || c.reader.done || ctx.Err() != nil
}

func (c *call) tell(bodies []mesh.Body) {
	for _, b := range c.placed(bodies) {
		c.news = true
		if c.left = !c.yield(b); c.left {
			return
		}
	}
}

// send sends the message and reads the answer until it ends. It returns how it
// ended: io.EOF if nothing went wrong.
func (c *call) send(ctx context.Context, req Request) error {
	send := &a2apb.SendMessageRequest{Message: req.Message}
	if !req.Unary {
		err := c.follow(ctx, func(ctx context.Context) iter.Seq2[Response, error] { return c.agent.SendStreamingMessage(ctx, send) },
			func(resp Response) error { c.tell(c.reader.read(resp)); return nil })
		if err == nil && !c.left {
			c.tell(c.reader.failure())
		}
		return ended(err)
	}
	send.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	resp, err := c.agent.SendMessage(ctx, send)
	if err != nil {
		return err
	}
	answer := &a2apb.StreamResponse{}
	switch p := resp.GetPayload().(type) {
	case *a2apb.SendMessageResponse_Task:
		answer.Payload = &a2apb.StreamResponse_Task{Task: p.Task}
	case *a2apb.SendMessageResponse_Message:
		answer.Payload = &a2apb.StreamResponse_Message{Message: p.Message}
	}
	c.tell(c.reader.read(Response{StreamResponse: answer}))
	return io.EOF
}

// resumable reports whether a call that ended so may have a task that goes on.
func (r *reader) resumable(err error) bool {
	if r.task == "" || !r.seen {
		return false
	}
	if errors.Is(err, io.EOF) {
		return !r.auth && r.rests == nil
	}
	return transient(err)
}

// transient reports whether the error says nothing of the task.
func transient(err error) bool {
	switch mesh.CodeOf(rpc.FromStatus(err)) {
	case mesh.Unavailable, mesh.Unknown, mesh.Timeout, mesh.Canceled: // the last of somebody between
		return true
	}
	return false
}

// resume follows the task of a call that ended with cause. It returns why it
// cannot be followed, or io.EOF when it waits for credentials and the agent says
// no more; its result means nothing when the call is over.
func (c *call) resume(ctx context.Context, cause error) error {
	streams, failures, wait := !c.reader.req.Unary, 0, firstWait
	for !c.over(ctx) {
		c.news = false
		if streams {
			err := c.subscribe(ctx)
			if errors.Is(err, io.EOF) && c.reader.auth {
				return err
			}
			if errors.As(err, new(*oversize)) {
				return err
			}
			streams = !mesh.IsCode(err, mesh.Unsupported)
			if c.over(ctx) {
				break
			}
		}
		switch err := c.look(ctx); {
		case err == nil:
			failures = 0
		case errors.As(err, new(*unreadable)), errors.As(err, new(*oversize)):
			return err
		case mesh.IsCode(err, mesh.NotFound):
			return mesh.Errorf(mesh.NotFound, "call.resume", "the agent lost the task: %w", errForgotten)
		case !transient(err):
			return cause
		default:
			if failures++; failures == maxFailures {
				return err
			}
		}
		if c.news || failures == 1 { // however seldom it was asked before
			wait = firstWait
		}
		if c.reader.auth && !streams { // nobody will tell when it goes on
			return io.EOF
		}
		if c.over(ctx) {
			break
		}
		pause(ctx, wait)
		wait = min(wait*8/5, longWait)
	}
	return ctx.Err()
}

// pause waits for about d, so that agents are not asked by many at once.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d*3/4 + rand.N(d/2)): //nolint:gosec // not a secret
	}
}

// subscribe reads on in a new stream. It returns Unsupported if the agent has
// none that begins with the task.
func (c *call) subscribe(ctx context.Context) error {
	first := true
	err := c.follow(ctx, func(ctx context.Context) iter.Seq2[Response, error] {
		return c.agent.SubscribeToTask(ctx, c.reader.task)
	},
		func(resp Response) error {
			var bodies []mesh.Body
			switch {
			case !first:
				bodies = c.reader.read(resp)
			case resp.GetTask() == nil:
				return mesh.Errorf(mesh.Unsupported, "call.subscribe", "the agent does not say how the task stands")
			default:
				bodies = c.reader.reconcile(resp.GetTask())
			}
			first = false
			c.tell(bodies)
			return nil
		})
	return ended(err)
}

// ended is how a stream ended: io.EOF if nothing went wrong.
func ended(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// look asks for the task and tells what is new.
func (c *call) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	task, err := c.agent.GetTask(ctx, c.reader.task)
	if err != nil {
		return err
	}
	c.tell(c.reader.reconcile(task))
	return nil
}
