// Package call calls agents: it opens an agent's A2A stream and turns what
// comes back, however well the agent behaves, into the bodies of events that
// belong in a thread's log.
//
// It guarantees a legal sequence: output and progress in the order in which
// they came, then exactly one last [mesh.TaskMoved], whose state is terminal or
// waits for the user. Events of other tasks, an append to an unknown artifact,
// a message in the middle of a task, output too large for an event, a stream
// that just ends and one that goes on after its end are mended or become FAILED
// with a reason.
//
// A [Dialer] makes clients of agents by what their cards say: A2A v1.0 and v0.3
// over gRPC, JSON-RPC and HTTP+JSON. A [Client] hides the difference.
//
// An agent that says nothing on an open stream is asked for its task from time to time,
// see [Limits]. What cannot be read is named in the log, with its place.
//
// Calls may run concurrently; a call keeps nothing, and starts nothing but the timer that
// it waits for.
// It is not a client of the mesh's own services.
package call

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
)

// A Request is one message to an agent.
type Request struct {
	// Message is sent as it is; its ids must be the agent's.
	Message *a2apb.Message
	// Execution is whose events come back. It is the agent's task id too, when
	// the agent is one of the mesh.
	Execution mesh.ExecutionID
	// RemoteTask is the agent's task when the message continues one.
	RemoteTask string
	// Recall, unless it is nil, returns what the agent was told and said in the context
	// that the message goes on in. If the agent refuses that, before anything else, it
	// gets the message once more, in a new context and after those words.
	Recall func(context.Context) (string, error)
	// Idempotent says that the agent has the effects of the message once, however often it
	// gets it for the execution: where the agent has several processes and the one that began
	// to answer is lost, another one gets the message too.
	Idempotent bool
	// Attach has the agent's task of the execution taken up where the log of it ends,
	// rather than a message sent; nil for a message.
	Attach *Attach
	// Unary asks with SendMessage, for agents that do not stream, and then for
	// the task.
	Unary bool

	// Agent is its name, for the log.
	Agent string
	// Silence is how long nothing may come on an open stream until the agent is asked
	// for its task; 0 for never.
	Silence time.Duration
	// Logger is told why an agent failed. The default tells nobody.
	Logger *slog.Logger

	lost *atomic.Bool // set if the agent, or its task, was lost
}

// Attach says how a task is taken up that another process of ours has followed.
type Attach struct {
	// Had are the outputs and words of the agent that the log has of the execution, in
	// order: what comes back goes on from them.
	Had []mesh.Body
	// Again has the message sent if the agent does not know the task, as it has lost it.
	// What it says then begins anew.
	Again bool
	// Answers says that the message answers what the agent asked: one that still waits with
	// words that are among Had has not got it, and gets it.
	Answers bool
}

func (r Request) logger() *slog.Logger {
	if r.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return r.Logger
}

// Speaks reports whether the agent's card declares our extension: such agents
// get grants, share our context ids and use our execution ids as task ids.
func Speaks(card *a2apb.AgentCard) bool {
	return slices.ContainsFunc(card.GetCapabilities().GetExtensions(), func(e *a2apb.AgentExtension) bool {
		return e.GetUri() == mesh.ExtensionURI
	})
}

// idempotent reports whether the card declares that a message which comes again has its
// effect once.
func idempotent(card *a2apb.AgentCard) bool {
	return slices.ContainsFunc(card.GetCapabilities().GetExtensions(), func(e *a2apb.AgentExtension) bool {
		return e.GetUri() == mesh.ExtensionURI && e.GetParams().GetFields()["idempotent"].GetBoolValue()
	})
}

// Stream sends the message and yields what comes back. The last body is a
// TaskMoved that is terminal or interrupted; errors of the call become one
// with state FAILED. After AUTH_REQUIRED more may follow, or not. When ctx ends,
// the last body is FAILED with the reason TIMEOUT or, if the caller gave up,
// none.
//
// A stream that breaks within a task is taken up again: by subscribing to the
// task, or by asking for it from time to time, which is also how agents that do
// not stream are followed. What was missed is told from the task as it is then;
// what was read before is not yielded again. That ends when the agent cannot be
// reached for some seconds, or does not know the task any more; the message then goes to
// another process of the agent, if there is one and [Request].Idempotent allows that.
func Stream(ctx context.Context, agent Client, req Request) iter.Seq[mesh.Body] {
	return func(yield func(mesh.Body) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		r := newReader(req)
		c := &call{agent: agent, reader: r, yield: yield}
		if s, several := agent.(*spread); several {
			c.at = s.was
		}
		err := c.begin(ctx, req)
		r = c.reader
		if req.Recall != nil && !r.heard && refusesContext(err) {
			err = c.sendAnew(ctx, req, err)
		}
		for !c.over(ctx) && r.req.Attach == nil && r.resumable(err) {
			if errors.As(err, new(*unreadable)) {
				req.logger().WarnContext(ctx, "agent's stream unreadable, asking for its task", "agent", req.Agent, "err", err)
			}
			if err = c.resume(ctx, err); c.over(ctx) || !c.moves(err) {
				break
			}
			req.logger().WarnContext(ctx, "agent's process lost, another one asked", "agent", req.Agent, "err", err)
			err = c.sendAgain(ctx, req)
		}
		c.noteLost(err)
		if c.left || r.done || context.Cause(ctx) != nil && mesh.CodeOf(context.Cause(ctx)) == mesh.Canceled {
			return
		}
		last, ok := r.end(err)
		if deadline, bound := ctx.Deadline(); ok && last.Reason == mesh.ReasonNoAnswer && bound && !time.Now().Before(deadline) {
			last = broken(context.DeadlineExceeded) // the agent heard of it before us
		}
		if ok {
			req.logger().WarnContext(ctx, "agent's call ended", "agent", req.Agent, "state", last.State, "reason", last.Reason, "err", err)
			yield(last)
		}
	}
}

// Cancel asks the agent to cancel a task. It reports whether the agent agreed.
func Cancel(ctx context.Context, agent Client, task string) error {
	return mesh.Wrap("call.Cancel", agent.CancelTask(ctx, task))
}

// failed is the body with which an execution ends that could not go on.
func failed(reason, words string) mesh.TaskMoved {
	return mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: reason, Message: mesh.Say(words)}
}

// end is how a stream ended that did not say so itself; false if the last body
// was that it waits for credentials.
func (r *reader) end(err error) (mesh.TaskMoved, bool) {
	if err != nil && !errors.Is(err, io.EOF) {
		return broken(err), true
	}
	switch {
	case r.auth:
		moved, ok := r.last.(mesh.TaskMoved)
		return word(r.waits), !ok || !mesh.Interrupted(moved.State)
	case r.rests != nil:
		return word(*r.rests), true
	}
	return failed(mesh.ReasonNoAnswer, text.AgentUnfinished()), true
}
