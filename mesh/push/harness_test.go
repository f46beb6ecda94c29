package push_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/push"
	"agentmesh/mesh/security/egress"
	"agentmesh/mesh/security/seal"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	working   = a2apb.TaskState_TASK_STATE_WORKING
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	patient   = time.Minute // how long a test waits for what must happen
)

// A backend is what a store is to a world.
type backend interface {
	threadlog.Backend
	state.Store
}

// A world is a log and what a dispatcher needs around it.
type world struct {
	t      *testing.T
	log    *threadlog.Log
	states *cache.States
	kv     *state.KV
	logs   *logbuffer.Buffer
}

func newWorld(t *testing.T, b backend) *world {
	log := threadlog.New(b)
	return &world{t: t, log: log, states: cache.New(log, 0), kv: state.New(b), logs: new(logbuffer.Buffer)}
}

// config is a Config for webhooks on this machine.
func (w *world) config() push.Config {
	guard, err := egress.New(egress.Options{AllowHTTP: true, Allow: []string{"127.0.0.1/32", "hook.test"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return push.Config{
		Log: w.log, States: w.states, KV: w.kv, Guard: guard,
		Box:    box("0123456789abcdef"),
		Logger: slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Jitter: func() float64 { return 0 },
	}
}

// dispatcher returns one that runs until stop is called or the test ends.
func (w *world) dispatcher(c push.Config) (d *push.Dispatcher, stop func()) {
	w.t.Helper()
	d, err := push.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return d, w.run(d)
}

func (w *world) run(d *push.Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// A task is a turn that an agent works on.
type task struct {
	w   *world
	key mesh.ThreadKey
	id  mesh.ExecutionID
	leg mesh.ExecutionID
}

// open opens a task of alice of acme.
func (w *world) open() *task {
	w.t.Helper()
	t := &task{w: w, key: mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}}
	t.id, t.leg = mesh.NewExecutionID(t.key.ID), mesh.NewExecutionID(t.key.ID)
	t.add("", mesh.ThreadClaimed{Epoch: 1, Node: "n"})
	t.add(t.id, mesh.TaskOpened{Execution: mesh.Execution{ID: t.id, Kind: mesh.KindTurn, Agent: "main", User: "alice"}})
	t.add(t.id, mesh.MessagePosted{User: "alice", Message: &a2apb.Message{MessageId: "m1", Role: a2apb.Role_ROLE_USER}})
	t.add(t.id, mesh.DispatchIssued{Child: mesh.Execution{ID: t.leg, Parent: t.id, Kind: mesh.KindAgent, Agent: "main"}})
	return t
}

func (t *task) add(about mesh.ExecutionID, body mesh.Body) mesh.Seq {
	t.w.t.Helper()
	e := &mesh.Event{Execution: about, Actor: "node", Body: body}
	seqs, err := t.w.log.Append(context.Background(), t.key, []*mesh.Event{e}, threadlog.AppendOptions{Epoch: 1})
	if err != nil {
		t.w.t.Fatal(err)
	}
	return seqs[0]
}

// say has the agent say something.
func (t *task) say(texts ...string) {
	t.w.t.Helper()
	for _, text := range texts {
		t.add(t.leg, mesh.ArtifactAppended{Append: true, Artifact: &a2apb.Artifact{
			ArtifactId: "response", Parts: []*a2apb.Part{a2a.TextPart(text)},
		}})
	}
}

func (t *task) complete() mesh.Seq { return t.add(t.id, mesh.TaskMoved{State: completed}) }

// set makes a config of alice's for the task.
func (t *task) set(d *push.Dispatcher, url string, change ...func(*a2apb.TaskPushNotificationConfig)) *a2apb.TaskPushNotificationConfig {
	t.w.t.Helper()
	c := &a2apb.TaskPushNotificationConfig{TaskId: string(t.id), Url: url}
	for _, f := range change {
		f(c)
	}
	c, err := d.Create(as("alice"), c)
	if err != nil {
		t.w.t.Fatal(err)
	}
	return c
}

// configs are those that alice has for the task.
func (t *task) configs(d *push.Dispatcher) []*a2apb.TaskPushNotificationConfig {
	t.w.t.Helper()
	list, err := d.List(as("alice"), &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: string(t.id)})
	if err != nil {
		t.w.t.Fatal(err)
	}
	return list.GetConfigs()
}

func (t *task) delivery(d *push.Dispatcher, id string) push.Delivery {
	t.w.t.Helper()
	out, err := d.Delivery(as("alice"), string(t.id), id)
	if err != nil {
		t.w.t.Fatal(err)
	}
	return out
}

// as is a call of a user of acme.
func as(user string) context.Context { return of("acme", user) }

func of(tenant mesh.TenantID, user string) context.Context {
	return mesh.WithCall(context.Background(), mesh.Call{
		Principal: mesh.Principal{Tenant: tenant, User: user, Roles: mesh.Roles()},
	})
}

// A hook is a webhook that keeps what it gets.
type hook struct {
	*httptest.Server

	mu      sync.Mutex
	got     []request
	changed chan struct{}
	answer  func(w http.ResponseWriter, r *http.Request)
}

type request struct {
	path   string
	header http.Header
	update *a2apb.StreamResponse // nil if it is none
	body   string
}

func newHook(t *testing.T) *hook {
	h := &hook{changed: make(chan struct{})}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	update := new(a2apb.StreamResponse)
	if err != nil || protojson.Unmarshal(body, update) != nil {
		update = nil
	}
	h.mu.Lock()
	h.got = append(h.got, request{r.URL.Path, r.Header.Clone(), update, string(body)})
	close(h.changed)
	h.changed = make(chan struct{})
	answer := h.answer
	h.mu.Unlock()
	if answer != nil {
		answer(w, r)
	}
}

func (h *hook) requests() []request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

// until waits until done is true of what the hook has got.
func (h *hook) until(t *testing.T, done func([]request) bool) []request {
	t.Helper()
	timeout := time.After(patient)
	for {
		h.mu.Lock()
		got, changed := slices.Clone(h.got), h.changed
		h.mu.Unlock()
		if done(got) {
			return got
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("the webhook got only %q", words(got))
		}
	}
}

// expect waits until the hook has got as many updates, and compares them.
func (h *hook) expect(t *testing.T, want ...string) []request {
	t.Helper()
	got := h.until(t, func(got []request) bool { return len(got) >= len(want) })
	if w := words(got); !slices.Equal(w, want) {
		t.Fatalf("the webhook got %q, want %q", w, want)
	}
	return got
}

// words tells what updates say: their text or state.
func words(got []request) []string {
	var out []string
	for _, r := range got {
		out = append(out, word(r.update))
	}
	return out
}

func word(u *a2apb.StreamResponse) string {
	if s := u.GetStatusUpdate(); s != nil {
		return strings.TrimPrefix(s.GetStatus().GetState().String(), "TASK_STATE_")
	}
	return a2a.ArtifactText(u.GetArtifactUpdate().GetArtifact())
}

func memory(t *testing.T) *world { return newWorld(t, mem.Open()) }

// box seals under the first secret, and opens under any.
func box(secrets ...string) *seal.Box {
	var all [][]byte
	for _, s := range secrets {
		all = append(all, []byte(s))
	}
	b, err := seal.New("configs", all...)
	if err != nil {
		panic(err)
	}
	return b
}
