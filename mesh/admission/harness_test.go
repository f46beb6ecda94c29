package admission

import (
	"context"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/cache/cachetest"
	"agentmesh/mesh/threadlog"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A library is a Controller of one thread, over a store in memory that counts
// what is read from it.
type library struct {
	*Controller
	store *cachetest.Store
	key   mesh.ThreadKey
}

func newLibrary(t testing.TB, opts ...Option) *library {
	t.Helper()
	return over(&cachetest.Store{Backend: mem.Open()}, opts...)
}

// over returns the library on the store, as a node that has just started.
func over(store *cachetest.Store, opts ...Option) *library {
	log := threadlog.New(store, threadlog.WithRoom(func(context.Context) bool {
		l, lags := store.Backend.(*laggard)
		return lags && l.fails.Load() > 0
	}))
	return &library{
		Controller: New(log, cache.New(log, 0), nil, opts...), store: store,
		key: mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()},
	}
}

// restart has the node begin anew.
func (l *library) restart(c *clock, opts ...Option) {
	log := threadlog.New(l.store)
	l.Controller = New(log, cache.New(log, 0), c.now, opts...)
}

// post opens a turn, as a message of a user does.
func (l *library) post(t testing.TB) mesh.ExecutionID {
	t.Helper()
	return cachetest.Post(t, l.states, l.key)
}

func (l *library) decide(ctx context.Context, events ...*mesh.Event) error {
	return cachetest.Decide(ctx, l.states, l.key, events...)
}

// run opens an execution of the agent below the turn and returns its grant.
func (l *library) run(t testing.TB, turn mesh.ExecutionID, agent string, skills ...string) *mesh.Grant {
	t.Helper()
	return cachetest.Run(t, l.states, l.key, turn, agent, skills...)
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

// logged is how much of the log the grant's execution has.
func (l *library) logged(t testing.TB, g *mesh.Grant) (v mesh.Volume) {
	t.Helper()
	if err := l.states.With(t.Context(), l.key, func(st *thread.State) error { v = st.Execution(g.Execution).Logged; return nil }); err != nil {
		t.Fatal(err)
	}
	return v
}
