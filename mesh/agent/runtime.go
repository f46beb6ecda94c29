package agent

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// How long things are kept, and waited for.
const (
	keepTask  = 10 * time.Minute // a task that rests and that nobody follows
	sweepTime = time.Minute
	maxTasks  = 4096
	maxHeld   = 256 << 20 // bytes of output of all tasks

	// DefaultGrace is how long a run may take to end when it is told to.
	DefaultGrace = 5 * time.Second
	// DefaultDrain is how long runs may go on when the runtime stops.
	DefaultDrain = 10 * time.Second
)

// bindingGRPC is how cards call the gRPC binding (A2A v1.0 §8).
const bindingGRPC = "GRPC"

// Why a run is cut, as causes of its context.
var (
	ErrCanceled = errors.New("the task was canceled")
	ErrShutdown = errors.New("the agent's process is stopping")
	errExpired  = errors.New("the grant of the task expired")
)

// A Runtime runs one agent's tasks. It is an [a2a.Service] whose callers have
// tickets: a call sees the task of its own ticket's execution only. Its methods
// are safe for concurrent use.
type Runtime struct {
	agent    Agent
	card     *a2apb.AgentCard
	endpoint string
	node     grpc.ClientConnInterface
	secret   func() string // of the agent's registration
	keys     func() *grant.Verifier
	logger   *slog.Logger
	grace    time.Duration
	drain    time.Duration

	mu       sync.Mutex
	tasks    map[string]*task
	held     int // bytes of output when last counted
	stopping bool
	// stopped is closed when no run is left, for those who follow tasks.
	stopped chan struct{}

	runs   sync.WaitGroup // what watches over the runs
	agents sync.WaitGroup // what runs in the agent's code
}

var _ a2a.Service = (*Runtime)(nil)

// A RuntimeOption changes a default of [NewRuntime].
type RuntimeOption func(*Runtime)

// WithLogger tells the operator of panics and of runs that do not end. The
// default discards.
func WithLogger(l *slog.Logger) RuntimeOption { return func(r *Runtime) { r.logger = l } }

// WithGrace gives a run that is cut d to end. The default is DefaultGrace.
func WithGrace(d time.Duration) RuntimeOption { return func(r *Runtime) { r.grace = d } }

// WithDrain lets runs go on for d when the runtime stops. The default is
// DefaultDrain.
func WithDrain(d time.Duration) RuntimeOption { return func(r *Runtime) { r.drain = d } }

// WithEndpoint puts the host:port of the agent's gRPC server into its card. By
// default the card stays as the agent wrote it.
func WithEndpoint(hostport string) RuntimeOption { return func(r *Runtime) { r.endpoint = hostport } }

// NewRuntime returns the runtime of an agent that reaches the node's services
// over node. Its owner calls Run and serves it with [a2a.NewServer].
func NewRuntime(agent Agent, node grpc.ClientConnInterface, opts ...RuntimeOption) *Runtime {
	r := &Runtime{
		agent: agent, node: node, secret: func() string { return "" }, keys: func() *grant.Verifier { return nil },
		logger: slog.New(slog.DiscardHandler), grace: DefaultGrace, drain: DefaultDrain,
		tasks: map[string]*task{}, stopped: make(chan struct{}),
	}
	for _, opt := range opts {
		opt(r)
	}
	r.card = complete(agent.Card(), r.endpoint)
	return r
}

// complete returns a copy of the card that declares what the runtime does for
// any agent, and where it does it.
func complete(card *a2apb.AgentCard, endpoint string) *a2apb.AgentCard {
	card = proto.CloneOf(card)
	if endpoint != "" {
		others := slices.DeleteFunc(card.SupportedInterfaces, func(i *a2apb.AgentInterface) bool {
			return i.GetProtocolBinding() == bindingGRPC
		})
		card.SupportedInterfaces = append([]*a2apb.AgentInterface{
			{Url: endpoint, ProtocolBinding: bindingGRPC, ProtocolVersion: rpc.Version},
		}, others...)
	}
	if card.Capabilities == nil {
		card.Capabilities = &a2apb.AgentCapabilities{}
	}
	c := card.Capabilities
	c.Streaming, c.PushNotifications, c.ExtendedAgentCard = proto.Bool(true), proto.Bool(false), proto.Bool(false)
	declared := slices.ContainsFunc(c.Extensions, func(e *a2apb.AgentExtension) bool { return e.GetUri() == mesh.ExtensionURI })
	if !declared {
		c.Extensions = append(c.Extensions, &a2apb.AgentExtension{
			Uri: mesh.ExtensionURI, Description: "Cursors, progress and handoff of agentmesh",
		})
	}
	return card
}

// Run keeps the runtime until ctx is done, and then stops it: new messages are
// refused, runs may finish for a while and are cut then. When it returns,
// nothing that the runtime started is left, unless an agent ignores the end of
// its context, which is the error.
func (r *Runtime) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.mu.Lock()
			r.sweep()
			r.mu.Unlock()
		case <-ctx.Done():
			return r.stop()
		}
	}
}

func (r *Runtime) stop() error {
	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()

	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() { r.runs.Wait(); close(ended) })
	select {
	case <-ended:
	case <-time.After(r.drain):
		r.cutAll()
	}
	waiting.Wait() // a run that is cut ends within the grace, whatever the agent does
	close(r.stopped)

	left := make(chan struct{})
	waiting.Go(func() { r.agents.Wait(); close(left) })
	select {
	case <-left:
		waiting.Wait()
		return nil
	case <-time.After(r.grace):
		return mesh.Errorf(mesh.Timeout, "agent.Run", "A run of agent %s ignores the end of its context", r.card.GetName())
	}
}

func (r *Runtime) cutAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tasks {
		t.mu.Lock()
		if t.cancel != nil {
			t.cancel(ErrShutdown)
		}
		t.mu.Unlock()
	}
}

// sweep forgets tasks at rest: those that nothing happened to for a while, and
// the longest untouched ones while there is too much. The caller holds mu.
func (r *Runtime) sweep() {
	type resting struct {
		id    string
		since time.Time
		size  int
	}
	var idle []resting
	r.held = 0
	for id, t := range r.tasks {
		since, size, ok := t.idle()
		r.held += size
		if ok {
			idle = append(idle, resting{id, since, size})
		}
	}
	slices.SortFunc(idle, func(a, b resting) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.id, b.id)) })
	tooMuch := len(r.tasks) > maxTasks || r.held > maxHeld
	for _, t := range idle {
		// Well below the bound, so that the next sweep is not soon.
		enough := !tooMuch || len(r.tasks) <= maxTasks*3/4 && r.held <= maxHeld*3/4
		if enough && time.Since(t.since) < keepTask {
			return
		}
		delete(r.tasks, t.id)
		r.held -= t.size
	}
}

// Card returns the agent's card, shared and read-only.
func (r *Runtime) Card() *a2apb.AgentCard { return r.card }

// Capabilities returns those of the agent's card.
func (r *Runtime) Capabilities() *a2apb.AgentCapabilities { return r.card.GetCapabilities() }

// Task returns the task of the caller's execution.
func (r *Runtime) Task(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error) {
	t, err := r.find(ctx, "agent.Task", id)
	if err != nil {
		return nil, 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	task, seq := t.snapshot()
	return task, seq, nil
}

// Bare returns the task of the caller's execution, without its artifacts.
func (r *Runtime) Bare(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error) {
	task, seq, err := r.Task(ctx, id)
	if err == nil {
		task.Artifacts = nil
	}
	return task, seq, err
}

// Updates yields the updates of the task of the caller's execution. Output has
// its cursor only for callers that want it (want-seq) or came with one: for the
// edge, which does not, it would be a third of what a chunk costs.
func (r *Runtime) Updates(ctx context.Context, id string, after mesh.Seq) iter.Seq2[a2a.Update, error] {
	const op = "agent.Updates"
	return func(yield func(a2a.Update, error) bool) {
		t, err := r.find(ctx, op, id)
		if err != nil {
			yield(a2a.Update{}, err)
			return
		}
		call, _ := mesh.CallFrom(ctx)
		t.join(1)
		defer t.join(-1)
		for {
			updates, changed := t.since(after)
			for _, u := range updates {
				after++
				switch {
				case !call.Extended():
					u = a2a.Plain(u)
				case call.WantSeq || call.HasCursor:
					u = a2a.WithSeq(u, after)
				}
				if !yield(a2a.Update{Seq: after, Response: u}, nil) {
					return
				}
			}
			if len(updates) > 0 {
				continue
			}
			if changed == nil {
				return
			}
			if err := r.wait(ctx, op, changed); err != nil {
				yield(a2a.Update{}, err)
				return
			}
		}
	}
}

// wait returns nil when changed is closed.
func (r *Runtime) wait(ctx context.Context, op string, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return mesh.Wrap(op, context.Cause(ctx))
	case <-r.stopped:
		return mesh.Errorf(mesh.Unavailable, op, "The agent is stopping; try again")
	}
}

// Cancel ends the task of the caller's execution and returns it when it has
// ended, which may take the run's grace.
func (r *Runtime) Cancel(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	const op = "agent.Cancel"
	t, err := r.find(ctx, op, req.GetId())
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	switch {
	case mesh.Terminal(t.status.State):
		t.mu.Unlock()
		return nil, a2a.NotCancelable(op)
	case t.cancel != nil:
		t.cancel(ErrCanceled)
	default: // it waits for its user
		t.move(a2apb.TaskState_TASK_STATE_CANCELED, nil, nil)
	}
	after := mesh.Seq(len(t.updates))
	t.mu.Unlock()
	for {
		updates, changed := t.since(after)
		if after += mesh.Seq(len(updates)); len(updates) > 0 {
			continue
		}
		if changed == nil {
			break
		}
		if err := r.wait(ctx, op, changed); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status.State != a2apb.TaskState_TASK_STATE_CANCELED { // it was over just before
		return nil, a2a.NotCancelable(op)
	}
	task, _ := t.snapshot()
	return task, nil
}

// find returns the task with the id if it is the one of the caller's grant.
func (r *Runtime) find(ctx context.Context, op, id string) (*task, error) {
	_, g, err := caller(ctx, op)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[id]
	if t == nil || id != string(g.Execution) || t.tenant != g.Tenant {
		return nil, mesh.TaskNotFound(op)
	}
	return t, nil
}

// caller returns the identity of the call, which must be with a ticket.
func caller(ctx context.Context, op string) (mesh.Call, *mesh.Grant, error) {
	call, _ := mesh.CallFrom(ctx)
	if call.Principal.Grant == nil {
		return call, nil, mesh.Errorf(mesh.Unauthenticated, op,
			"Agents are called with a ticket; send metadata mesh-ticket with the ticket that the node issued")
	}
	return call, call.Principal.Grant, nil
}
