package edge_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/edge"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

func TestMain(m *testing.M) {
	texttest.FromEnv()
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
}

func (m *mortal) Append(ctx context.Context, key mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	if m.dead.Load() {
		return threadlog.Appended{}, mesh.Errorf(mesh.Unavailable, "mortal", "the process is dead")
	}
	if m.full.Load() > 0 && m.full.Add(-1) >= 0 {
		return threadlog.Appended{}, mesh.Errorf(mesh.Unavailable, "mortal", "the disk is full")
	}
	return m.Backend.Append(ctx, key, b)
}

// A mark is an edge.Checkpoint in memory.
type mark struct {
	mu     sync.Mutex
	pos    mesh.Pos
	onSave func(mesh.Pos)
}

func (m *mark) Load(context.Context) (mesh.Pos, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pos, nil
}

func (m *mark) Save(_ context.Context, pos mesh.Pos) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pos = pos
	if m.onSave != nil {
		m.onSave(pos)
	}
	return nil
}

// A world is an edge with all that it needs, in memory, and with agents behind
// real connections.
type world struct {
	*edge.Edge
	t        testing.TB
	backend  threadlog.Backend // beneath what dies
	store    *mortal
	log      *threadlog.Log
	states   *cache.States
	handoffs *handoff.Handoffs
	leases   lease.Store
	dir      *directory
	mark     *mark
	verifier *grant.Verifier
	thread   string // the thread that tests use who need one only
	close    func()
}

type option func(*edge.Config)

// patient is how long a test waits for what must happen.
const patient = time.Minute

// graces are times that no test of a busy machine runs out of: but for agents
// that gave the stream away and stay, whom many tests have.
func graces(c *edge.Config) { c.HandoffGrace, c.CancelGrace = 30*time.Millisecond, patient }

// build starts a world that ends with the test.
func build(t testing.TB, opts ...option) *world {
	t.Helper()
	return rebuild(t, mem.Open(), &mark{}, "node-1", opts...)
}

// rebuild starts a world over what another left.
func rebuild(t testing.TB, backend threadlog.Backend, m *mark, node string, opts ...option) *world {
	t.Helper()
	signer, err := grant.NewSigner([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := grant.NewVerifier(signer.Public(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, backend: backend, store: &mortal{Backend: backend}, verifier: verifier, mark: m,
		dir: &directory{agents: map[string]registry.Entry{}}, leases: lease.NewLocal(nil), thread: mesh.NewThreadID()}
	w.log = threadlog.New(w.store)
	w.states = cache.New(w.log, 0)
	w.handoffs = handoff.New(w.log, w.states, w.dir, nil)
	pool := rpc.NewPool(rpc.DialOptions{})
	cfg := edge.Config{
		Log: w.log, States: w.states, Leases: w.leases, Directory: w.dir, Conns: pool, Signer: signer, Checkpoint: m,
		Card: func(_ context.Context, tenant mesh.TenantID) (*a2apb.AgentCard, error) {
			return &a2apb.AgentCard{Name: "edge of " + string(tenant)}, nil
		},
		Main: "main", Node: node,
	}
	graces(&cfg)
	for _, o := range opts {
		o(&cfg)
	}
	w.leases = cfg.Leases
	if w.Edge, err = edge.New(cfg); err != nil {
		t.Fatal(err)
	}
	w.close = sync.OnceFunc(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		if err := w.Close(now); err != nil {
			t.Errorf("close: %v", err)
		}
		_ = pool.Close()
	})
	t.Cleanup(func() {
		w.close()
		w.check()
	})
	return w
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

// ctx is that of ann, who knows our extension, in the thread.
func (w *world) ctx(threadID string) context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), patient)
	w.t.Cleanup(cancel)
	return mesh.WithCall(ctx, mesh.Call{
		Principal: mesh.Principal{Tenant: "acme", User: "ann", Permissions: []mesh.Permission{mesh.PermChat}},
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
	for ev, err := range w.log.Follow(w.ctx(w.thread), w.key(), 0) {
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
