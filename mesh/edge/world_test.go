package edge_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/call"
	"agentmesh/mesh/edge"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/turn"
)

// All tests run on one node and then on two, which share what a backend shares.
// finding C1: a message, or a cancel, that one node takes disturbs nobody who works
// on the thread at the other.
func TestMain(m *testing.M) {
	texttest.FromEnv()
	shared.Twice(m, "")
	goleak.VerifyTestMain(m)
}

const (
	submitted = a2apb.TaskState_TASK_STATE_SUBMITTED
	working   = a2apb.TaskState_TASK_STATE_WORKING
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	failed    = a2apb.TaskState_TASK_STATE_FAILED
	canceled  = a2apb.TaskState_TASK_STATE_CANCELED
	asks      = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	auth      = a2apb.TaskState_TASK_STATE_AUTH_REQUIRED
)

// A mortal is a store of a process that can die: then it writes no more. It can
// also fail for a while.
type mortal struct {
	threadlog.Backend
	dead atomic.Bool
	full atomic.Int64 // so many appends fail
	room atomic.Int64 // if not 0: after so many more, all fail
}

func (m *mortal) Append(ctx context.Context, key mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	if m.dead.Load() {
		return threadlog.Appended{}, mesh.Errorf(mesh.Unavailable, "mortal", "the process is dead")
	}
	if m.full.Load() > 0 && m.full.Add(-1) >= 0 {
		return threadlog.Appended{}, mesh.Errorf(mesh.Unavailable, "mortal", "the disk is full")
	}
	if m.room.Load() > 0 && m.room.Add(-1) == 0 {
		m.full.Store(1 << 30)
	}
	return m.Backend.Append(ctx, key, b)
}

// A world is a mesh's front door with all that it needs, in memory, and with agents
// behind real connections: one node, or two on one store, of which each call goes
// to any.
type world struct {
	t        testing.TB
	nodes    []*member
	backend  threadlog.Backend // beneath what dies
	store    *mortal           // the first node's
	log      *threadlog.Log    // the first node's
	leases   lease.Store
	dir      *directory
	verifier *grant.Verifier
	thread   string // the thread that tests use who need one only
	close    func()
}

// A member is a node of a world.
type member struct {
	*edge.Edge
	turns    *turn.Runner
	log      *threadlog.Log
	states   *cache.States
	handoffs *handoff.Handoffs
}

// any is one of the world's nodes.
func (w *world) any() *member { return w.nodes[rand.IntN(len(w.nodes))] }

// The world as an edge: each call is one of any node's.
func (w *world) Send(ctx context.Context, req *a2apb.SendMessageRequest) (*a2a.Accepted, error) {
	return w.any().Send(ctx, req)
}

func (w *world) Updates(ctx context.Context, id string, after mesh.Seq) iter.Seq2[a2a.Update, error] {
	return w.any().Updates(ctx, id, after)
}

func (w *world) Task(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error) {
	return w.any().Task(ctx, id)
}

func (w *world) Bare(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error) {
	return w.any().Bare(ctx, id)
}

func (w *world) Cancel(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	return w.any().Cancel(ctx, req)
}

func (w *world) List(ctx context.Context, req *a2apb.ListTasksRequest) (*a2apb.ListTasksResponse, error) {
	return w.any().List(ctx, req)
}

func (w *world) ExtendedCard(ctx context.Context) (*a2apb.AgentCard, error) {
	return w.any().ExtendedCard(ctx)
}

// Close stops all nodes.
func (w *world) Close(ctx context.Context) error {
	for _, n := range w.nodes {
		n.Edge.Close()
	}
	var errs []error
	for _, n := range w.nodes {
		errs = append(errs, n.turns.Close(ctx))
	}
	return errors.Join(errs...)
}

// recover has the first node settle what was left.
func (w *world) recover() (int, error) { return w.nodes[0].turns.Recover(w.t.Context()) }

// tend does what the nodes do by the clock.
func (w *world) tend() {
	for _, n := range w.nodes {
		n.turns.Tend(w.t.Context())
	}
}

// busy reports whether a node drives the thread.
func (w *world) busy(key mesh.ThreadKey) bool {
	return slices.ContainsFunc(w.nodes, func(n *member) bool { return n.turns.Drives(key) })
}

// forget is what the nodes' servers do with a thread that was deleted.
func (w *world) forget(key mesh.ThreadKey) {
	for _, n := range w.nodes {
		n.states.Forget(key)
	}
}

// settings are those of a node.
type settings struct {
	edge edge.Config
	turn turn.Config
}

type option func(*settings)

// patient is how long a test waits for what must happen.
const patient = time.Minute

// build starts a world that ends with the test, of as many nodes as this run of the
// tests is about.
func build(t testing.TB, opts ...option) *world {
	t.Helper()
	return buildOn(t, mem.Open(), opts...)
}

func buildOn(t testing.TB, backend threadlog.Backend, opts ...option) *world {
	t.Helper()
	w := assemble(t, backend, opts)
	w.add("node-1")
	if shared.Pair() {
		w.add("node-2")
	}
	return w.begin()
}

// buildOne starts a world of one node, for tests that hold or break its parts.
func buildOne(t testing.TB, opts ...option) *world {
	t.Helper()
	return rebuild(t, mem.Open(), "node-1", opts...)
}

// rebuild starts a world of one node over what another left.
func rebuild(t testing.TB, backend threadlog.Backend, node string, opts ...option) *world {
	t.Helper()
	w := assemble(t, backend, opts)
	w.add(node)
	return w.begin()
}

// A site is a world under construction.
type site struct {
	*world
	opts   []option
	shared *shared.Store
	signer *grant.Signer
	pool   *rpc.Pool
}

func assemble(t testing.TB, backend threadlog.Backend, opts []option) *site {
	t.Helper()
	signer, err := grant.NewSigner([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := grant.NewVerifier(signer.Public(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, backend: backend, verifier: verifier,
		dir: &directory{agents: map[string]registry.Entry{}}, leases: lease.NewLocal(nil), thread: mesh.NewThreadID()}
	return &site{world: w, opts: opts, shared: shared.New(backend), signer: signer, pool: rpc.NewPool(rpc.DialOptions{})}
}

// add adds a node.
func (w *site) add(name string) {
	w.t.Helper()
	store := &mortal{Backend: w.shared.Handle()}
	n := &member{log: threadlog.New(store)}
	n.states = cache.New(n.log, 0)
	cfg := settings{
		turn: turn.Config{
			Log: n.log, States: n.states, Leases: w.leases, Directory: w.dir, Dialer: call.NewDialer(w.pool, call.Options{}), Signer: w.signer,
			Main: "main", Node: name, Interrupt: true, // what goes on is tested in packages turn and node
			// Times that no test of a busy machine runs out of: but for agents
			// that gave the stream away and stay, whom many tests have.
			HandoffGrace: 30 * time.Millisecond, CancelGrace: patient,
		},
		edge: edge.Config{
			Log: n.log, States: n.states, Directory: w.dir, Main: "main", CancelWait: patient,
			Card: func(_ context.Context, tenant mesh.TenantID) (*a2apb.AgentCard, error) {
				return &a2apb.AgentCard{Name: "edge of " + string(tenant)}, nil
			},
		},
	}
	for _, o := range w.opts {
		o(&cfg)
	}
	w.leases = cfg.turn.Leases
	var err error
	if n.turns, err = turn.New(cfg.turn); err != nil {
		w.t.Fatal(err)
	}
	n.handoffs = handoff.New(n.log, n.states, w.dir, n.turns, nil)
	cfg.edge.Turns = n.turns
	if n.Edge, err = edge.New(cfg.edge); err != nil {
		w.t.Fatal(err)
	}
	if len(w.nodes) == 0 {
		w.store, w.log = store, n.log
	}
	w.nodes = append(w.nodes, n)
}

// begin runs the nodes until the test ends.
func (w *site) begin() *world {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, n := range w.nodes {
		running.Go(func() {
			if err := n.log.Run(ctx); err != nil {
				w.t.Errorf("log: %v", err)
			}
		})
	}
	w.close = sync.OnceFunc(func() {
		if err := w.Close(stopNow()); err != nil {
			w.t.Errorf("close: %v", err)
		}
		stop()
		running.Wait()
		_ = w.pool.Close()
	})
	w.t.Cleanup(func() {
		w.close()
		w.check()
	})
	return w.world
}

// crash is what a killed process leaves: nothing is written any more.
func (w *world) crash() {
	w.store.dead.Store(true)
	w.close()
}

// check finds what must not be in any log, whatever happened: a turn that ends
// twice, a thing below a turn that outlives it, or something settled twice.
func (w *world) check() {
	w.t.Helper()
	for key, events := range w.logs() {
		ends, settled := map[mesh.ExecutionID]int{}, map[mesh.ExecutionID]int{}
		for _, ev := range events {
			switch b := ev.Body.(type) {
			case mesh.TaskMoved:
				if mesh.Terminal(b.State) {
					ends[ev.Execution]++
				}
			case mesh.DispatchSettled:
				settled[b.Child]++
			}
		}
		s := thread.Fold(events)
		for _, t := range s.Turns() {
			if ends[t.ID] > 1 {
				w.t.Errorf("%v: turn %s ended %d times", key, t.ID, ends[t.ID])
			}
			if rest := s.Unfinished(t.ID); mesh.Terminal(t.State) && len(rest) > 0 {
				w.t.Errorf("%v: turn %s is over, and %d executions of it are not", key, t.ID, len(rest))
			}
		}
		for id, n := range settled {
			if n > 1 {
				w.t.Errorf("%v: execution %s was settled %d times", key, id, n)
			}
		}
	}
}

// logs returns all threads.
func (w *world) logs() map[mesh.ThreadKey][]*mesh.Event {
	w.t.Helper()
	all := map[mesh.ThreadKey][]*mesh.Event{}
	log := threadlog.New(w.backend)
	for pos := mesh.Pos(0); ; {
		page, err := log.Scan(context.Background(), pos, 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(page) == 0 {
			return all
		}
		for _, p := range page {
			all[p.Thread] = append(all[p.Thread], p.Event)
			pos = p.Pos
		}
	}
}

// fold returns the world's own thread as it is in the store.
func (w *world) fold() *thread.State {
	w.t.Helper()
	return thread.Fold(w.logs()[w.key()])
}

func (w *world) key() mesh.ThreadKey { return mesh.ThreadKey{Tenant: "acme", ID: w.thread} }

// share has the users take part in the thread.
func (w *world) share(users ...string) {
	w.t.Helper()
	err := w.any().states.Decide(w.t.Context(), w.key(), func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: []*mesh.Event{{Actor: "user:ann", Body: mesh.ThreadShared{Participants: users}}}}, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// ctx is that of ann, who knows our extension, in the thread.
func (w *world) ctx(threadID string) context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), patient)
	w.t.Cleanup(cancel)
	return mesh.WithCall(ctx, mesh.Call{
		Principal: mesh.Principal{Tenant: "acme", User: "ann", Roles: []mesh.Role{mesh.RoleUser}},
		Thread:    threadID, Extensions: []string{mesh.ExtensionURI},
	})
}

// call is ctx for the world's own thread, changed.
func (w *world) call(change func(*mesh.Call)) context.Context {
	ctx := w.ctx(w.thread)
	c, _ := mesh.CallFrom(ctx)
	change(&c)
	return mesh.WithCall(ctx, c)
}

func say(words string) *a2apb.SendMessageRequest {
	return &a2apb.SendMessageRequest{Message: &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER, Parts: text(words)}}
}

// to addresses the request to a task.
func to(req *a2apb.SendMessageRequest, task string) *a2apb.SendMessageRequest {
	req.Message.TaskId = task
	return req
}

// send sends words to the world's thread as a new message.
func (w *world) send(words string) *a2a.Accepted {
	w.t.Helper()
	return w.post(w.ctx(w.thread), say(words))
}

func (w *world) post(ctx context.Context, req *a2apb.SendMessageRequest) *a2a.Accepted {
	w.t.Helper()
	acc, err := w.Send(ctx, req)
	if err != nil {
		w.t.Fatalf("send: %v", err)
	}
	return acc
}

// heard is what the updates of a task told.
type heard struct {
	all   []a2a.Update
	text  string
	state mesh.TaskState
	words []string // of status messages
	last  *a2apb.TaskStatusUpdateEvent
}

func (h *heard) add(u a2a.Update) {
	h.all = append(h.all, u)
	h.text += textOf(u.Response.GetArtifactUpdate().GetArtifact().GetParts())
	if s := u.Response.GetStatusUpdate(); s != nil {
		h.state, h.last = s.GetStatus().GetState(), s
		if m := s.GetStatus().GetMessage(); m != nil {
			h.words = append(h.words, textOf(m.Parts))
		}
	}
}

func (h *heard) lastWords() string { return textOf(h.last.GetStatus().GetMessage().GetParts()) }

// reason is the machine-readable one of the last status.
func (h *heard) reason() string {
	return h.last.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["reason"].GetStringValue()
}

func (h *heard) String() string {
	return fmt.Sprintf("%q, %v %s %q", h.text, h.state, h.reason(), h.words)
}

// hear reads the updates of what was accepted until it is the user's turn.
func (w *world) hear(acc *a2a.Accepted) *heard {
	w.t.Helper()
	return w.until(acc, func(h *heard) bool { return h.state == asks })
}

// until reads updates until the task is over or the condition holds.
func (w *world) until(acc *a2a.Accepted, cond func(*heard) bool) *heard {
	w.t.Helper()
	h := new(heard)
	id, _ := mesh.ExecutionID(acc.Task.GetId()).ThreadID()
	for u, err := range w.Updates(w.ctx(id), acc.Task.GetId(), acc.Cursor) {
		if err != nil {
			w.t.Fatalf("updates after %v: %v", h, err)
		}
		h.add(u)
		if cond(h) {
			break
		}
	}
	return h
}

// await follows the world's thread until the condition holds of its state.
func (w *world) await(what string, cond func(*thread.State) bool) *thread.State {
	w.t.Helper()
	s := new(thread.State)
	for ev, err := range w.log.Follow(w.ctx(w.thread), w.key(), 0, 0) {
		if err != nil {
			w.t.Fatalf("waiting until %s: %v", what, err)
		}
		if s.Apply(ev); cond(s) {
			break
		}
	}
	return s
}

func (w *world) snapshot(id string) *a2apb.Task {
	w.t.Helper()
	threadID, _ := mesh.ExecutionID(id).ThreadID()
	task, _, err := w.Task(w.ctx(threadID), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return task
}

// stopNow is a context that has ended.
func stopNow() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
