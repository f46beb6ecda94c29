package admission

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A library is a Controller of one thread, over a store in memory that counts
// what is read from it, and of which one read can fail.
type library struct {
	*Controller
	store *countingStore
	key   mesh.ThreadKey
}

type countingStore struct {
	threadlog.Backend
	mu    sync.Mutex
	bytes int
	reads int
	fails int // that one
}

func (s *countingStore) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	recs, err := s.Backend.Read(ctx, key, after, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads++; s.reads == s.fails {
		return nil, mesh.Errorf(mesh.Unavailable, "store.Read", "the disk is away")
	}
	for _, r := range recs {
		s.bytes += len(r.Data)
	}
	return recs, err
}

func (s *countingStore) read() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.bytes
	s.bytes = 0
	return n
}

func newLibrary(t testing.TB, opts ...Option) *library {
	t.Helper()
	return over(&countingStore{Backend: mem.Open()}, opts...)
}

// over returns the library on the store, as a node that has just started.
func over(store *countingStore, opts ...Option) *library {
	log := threadlog.New(store)
	return &library{
		Controller: New(log, cache.New(log, 0), nil, opts...), store: store,
		key: mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()},
	}
}

// restart has the node begin anew.
func (l *library) restart(c *clock, opts ...Option) {
	l.Controller = New(l.log, cache.New(l.log, 0), c.now, opts...)
}

// post opens a turn, as a message of a user does.
func (l *library) post(t testing.TB) mesh.ExecutionID {
	t.Helper()
	id := mesh.NewExecutionID(l.key.ID)
	if err := l.decide(t.Context(), &mesh.Event{Execution: id, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, Agent: "main"}}}); err != nil {
		t.Fatal(err)
	}
	return id
}

func (l *library) decide(ctx context.Context, events ...*mesh.Event) error {
	return l.states.Decide(ctx, l.key, func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: events}, nil
	})
}

// run opens an execution of the agent below the turn and returns its grant.
func (l *library) run(t testing.TB, turn mesh.ExecutionID, agent string, skills ...string) *mesh.Grant {
	t.Helper()
	x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: turn, Kind: mesh.KindAgent, Agent: agent, User: "ann", Skills: skills}
	if err := l.decide(t.Context(), &mesh.Event{Execution: turn, Body: mesh.DispatchIssued{Child: x}}); err != nil {
		t.Fatal(err)
	}
	return &mesh.Grant{
		Tenant: l.key.Tenant, User: "ann", Thread: l.key.ID, Execution: x.ID, Parent: turn, Turn: turn, Agent: agent,
		Chain: []string{agent}, Skills: skills, Depth: 2, Expires: time.Now().Add(time.Hour).Unix(),
	}
}

// add has the grant's execution add copies of the events, which get an id first.
func (l *library) add(ctx context.Context, g *mesh.Grant, events ...*mesh.Event) (Admitted, error) {
	var copies []*mesh.Event
	for _, e := range events {
		if e.ID == "" {
			e.ID = mesh.NewEventID()
		}
		one := *e
		copies = append(copies, &one)
	}
	return l.Append(ctx, g, copies)
}

func wantCode(t *testing.T, err error, code mesh.Code, words ...string) {
	t.Helper()
	if !mesh.IsCode(err, code) {
		t.Fatalf("error is %v, want one that is %v", err, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}
