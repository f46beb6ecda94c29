package call

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/internal/stack"
	"agentmesh/mesh/text"
)

// Bounds of what is logged at once, and of how far an agent may be ahead of the
// log, in updates and in bytes: who is further waits, as far as its transport has it do so.
// A batch has one update at least.
const (
	maxAhead      = 256
	maxAheadBytes = 4 * mesh.MaxEvent
	maxBatchBytes = mesh.MaxEvent
)

// ReasonLog is why an execution failed whose output could not be logged.
const ReasonLog = "LOG_UNAVAILABLE"

// A Journal takes what agents say into the log of a thread: all of the events, in
// order, or none. Whoever opened an agent's stream logs what comes back on it.
type Journal interface {
	Append(ctx context.Context, events []*mesh.Event) error
}

// A Relay is an agent at work on an execution: one message to it, and all that is
// said about it until the agent's last word. It belongs to one goroutine, but for
// Stop. Close it after use.
type Relay struct {
	client    Client
	execution mesh.ExecutionID
	event     func(mesh.Body) *mesh.Event
	journal   Journal
	bodies    chan mesh.Body
	ahead     *semaphore.Weighted // bytes that are read and were not taken into a batch
	cancel    context.CancelFunc
	reading   sync.WaitGroup
	lost      atomic.Bool

	mu         sync.Mutex
	remoteTask string
}

// Open sends the message and begins to read the answer; see [Stream]. The call ends
// with ctx, which carries the identity under which the agent is called. The journal
// gets events that event makes.
func Open(ctx context.Context, client Client, req Request, journal Journal, event func(mesh.Body) *mesh.Event) *Relay {
	ctx, cancel := context.WithCancel(ctx)
	r := &Relay{client: client, execution: req.Execution, event: event, journal: journal, bodies: make(chan mesh.Body, maxAhead), ahead: semaphore.NewWeighted(maxAheadBytes), cancel: cancel,
		remoteTask: req.RemoteTask}
	req.lost = &r.lost
	r.reading.Go(func() { // Close waits
		stack.Grow()
		defer close(r.bodies)
		for b := range Stream(ctx, client, req) {
			if r.ahead.Acquire(ctx, weight(b)) != nil {
				return
			}
			select {
			case r.bodies <- b:
			case <-ctx.Done():
				return
			}
		}
	})
	return r
}

// Bodies has what the agent says, and is closed when its stream has ended. Give
// each body that is taken to Log.
func (r *Relay) Bodies() <-chan mesh.Body { return r.bodies }

// Lost reports, of a stream that has ended, whether that was because the agent could not
// be reached any more, or did not know the task: it may be at work on nothing.
func (r *Relay) Lost() bool { return r.lost.Load() }

// Said is what a batch of the agent's words came to.
type Said struct {
	// Events are what was logged, or, with a Last, is still to be logged together
	// with what follows from that.
	Events []*mesh.Event
	// Last is the agent's last word, nil while it goes on. It is not among the
	// events.
	Last *mesh.TaskMoved
}

// Log takes what else the agent has said already, so that it is committed together,
// and logs it, unless the agent's last word is among it. change, which may be nil,
// makes another body of one, or none, and events that follow it.
func (r *Relay) Log(ctx context.Context, first mesh.Body, change func(mesh.Body) (mesh.Body, []*mesh.Event)) (Said, error) {
	var said Said
	for _, b := range r.collect(first) {
		moved, isMove := b.(mesh.TaskMoved)
		if isMove {
			r.learn(moved)
			if last(moved) {
				said.Last = &moved
				return said, nil
			}
		}
		var more []*mesh.Event
		if change != nil {
			b, more = change(b)
		}
		if b != nil {
			said.Events = append(said.Events, r.event(b))
		}
		said.Events = append(said.Events, more...)
	}
	if err := r.journal.Append(ctx, said.Events); err != nil {
		return said, mesh.Wrap("call.Log", err)
	}
	return said, nil
}

// bareTime is how long word that an agent has begun waits for what it says then, to be
// logged with it.
const bareTime = 20 * time.Millisecond

// bare reports whether the body says no more than that the agent is at work.
func bare(b mesh.Body) bool {
	m, ok := b.(mesh.TaskMoved)
	return ok && m.State == a2apb.TaskState_TASK_STATE_WORKING && m.Message == nil && m.Metadata == nil &&
		m.Reason == "" && m.RemoteTask == "" && m.RemoteContext == ""
}

// last reports whether an execution ends or asks with the word. An agent that waits
// for credentials may go on by itself (A2A v1.0 §7.6).
func last(m mesh.TaskMoved) bool {
	return mesh.Terminal(m.State) || m.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
}

// size is how many bytes the body has.
func size(b mesh.Body) int {
	n, _ := mesh.BodySize(b)
	return n
}

// weight is what a body counts among those that are ahead.
func weight(b mesh.Body) int64 { return int64(min(size(b), maxAheadBytes)) }

// collect returns the body and what has come after it, up to the bounds.
func (r *Relay) collect(first mesh.Body) (batch []mesh.Body) {
	defer func() {
		for _, b := range batch {
			r.ahead.Release(weight(b))
		}
	}()
	batch = append(batch, first)
	bytes := size(first)
	if bare(first) {
		select {
		case b, ok := <-r.bodies:
			if !ok {
				return batch
			}
			batch, bytes = append(batch, b), bytes+size(b)
		case <-time.After(bareTime):
		}
	}
	for len(batch) < maxAhead && bytes < maxBatchBytes {
		select {
		case b, ok := <-r.bodies:
			if !ok {
				return batch
			}
			batch, bytes = append(batch, b), bytes+size(b)
		default:
			return batch
		}
	}
	return batch
}

func (r *Relay) learn(m mesh.TaskMoved) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.RemoteTask != "" {
		r.remoteTask = m.RemoteTask
	}
}

// Close ends the call and waits for its reader.
func (r *Relay) Close() {
	r.cancel()
	r.reading.Wait()
}

// Stop asks the agent to end its task, whatever became of the stream. ctx carries
// the identity under which the agent is called.
func (r *Relay) Stop(ctx context.Context, within time.Duration) error {
	r.mu.Lock()
	task := r.remoteTask // "" where it uses our id
	r.mu.Unlock()
	return End(ctx, r.client, r.execution, task, within)
}

// End asks an agent to end its task of the execution, which it may know under an
// id of its own. It gives up after the given time.
func End(ctx context.Context, client Client, execution mesh.ExecutionID, remoteTask string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if remoteTask == "" {
		remoteTask = string(execution)
	}
	if err := Cancel(ctx, client, remoteTask); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// TooMuch is the end of an execution of whose agent the log takes no more, by the limit of that
// name. Its agent is to be told.
func TooMuch(limit string, most int64) mesh.TaskMoved {
	return failed(mesh.ReasonOutput, text.TooMuchOutput(limit, most))
}

// Failure is the end of an execution that could not go on, with words for people.
func Failure(reason, words string) mesh.TaskMoved { return failed(reason, words) }

// An Agent is one that can be called, as it was registered.
type Agent struct {
	Target
	Builtin bool
}

// As is the identity under which an agent is called for an execution of a user:
// ids for all, and for agents that speak our extension a ticket, anew for each call.
func (a Agent) As(key mesh.ThreadKey, x mesh.Execution, ticket func(context.Context) (string, error)) mesh.Call {
	as := mesh.Call{
		Principal: mesh.Principal{Tenant: key.Tenant, User: x.User},
		Thread:    key.ID, ParentTask: string(x.Parent), Execution: x.ID, Version: "1.0", Traceparent: x.Traceparent,
	}
	if Speaks(a.Card) {
		as.Extensions, as.Ticket = []string{mesh.ExtensionURI}, ticket
	}
	return as
}

// Skills are those that an agent gets which was chosen by name alone, of what its
// caller can give: all for agents that are trusted with them, and for others those
// on their card.
func (a Agent) Skills(trusted bool, of []string) []string {
	if trusted {
		return of
	}
	var ids []string
	for _, s := range a.Card.GetSkills() {
		ids = append(ids, s.GetId())
	}
	return mesh.OwnSkills(ids, of)
}

// Request is the message for the execution as the agent gets it: under our context
// id if it speaks our extension, else under its own, as far as there is one; and to
// its task if the execution goes on.
func (a Agent) Request(key mesh.ThreadKey, x mesh.ExecutionID, msg *a2apb.Message, remote Remote) Request {
	msg = proto.CloneOf(msg)
	msg.TaskId, msg.ContextId = "", remote.Context
	if Speaks(a.Card) {
		msg.ContextId = key.ID
	}
	req := Request{Message: msg, Execution: x, Unary: !a.Card.GetCapabilities().GetStreaming(), Idempotent: idempotent(a.Card)}
	if !remote.GoesOn && !Speaks(a.Card) && remote.Context != "" {
		req.Recall = remote.Recall
	}
	if remote.GoesOn {
		if req.RemoteTask = remote.Task; req.RemoteTask == "" {
			req.RemoteTask = string(x)
		}
		msg.TaskId = req.RemoteTask
	}
	if req.Attach = remote.Attach; req.Attach != nil {
		req.Attach.Again = Speaks(a.Card)
		if !req.Attach.Again {
			req.RemoteTask = remote.Task // by an id of ours it knows none
		}
	}
	return req
}

// Remote says what an agent calls an execution, and whether that goes on.
type Remote struct {
	Task, Context string // "" where it uses our ids, or will make one
	GoesOn        bool
	// Recall returns what the agent was told and said in the context before.
	Recall func(context.Context) (string, error)
	// Attach has the execution's task taken up, if there is one. Where the agent has lost
	// it, only one that speaks our extension gets the message again.
	Attach *Attach
}
