package registry

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/credentials"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A network is what the registry can reach: endpoints that answer, and cards.
type network struct {
	mu     sync.Mutex
	dead   map[string]bool
	cards  map[string]*a2apb.AgentCard
	probes map[string]int
}

func newNetwork() *network {
	return &network{dead: map[string]bool{}, cards: map[string]*a2apb.AgentCard{}, probes: map[string]int{}}
}

func (n *network) kill(endpoint string)   { n.set(func() { n.dead[endpoint] = true }) }
func (n *network) revive(endpoint string) { n.set(func() { delete(n.dead, endpoint) }) }
func (n *network) serve(url string, card *a2apb.AgentCard) {
	n.set(func() { n.cards[url] = card })
}

func (n *network) probed(endpoint string) (times int) {
	n.set(func() { times = n.probes[endpoint] })
	return times
}

func (n *network) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *network) probe(_ context.Context, e Entry) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.probes[e.Endpoint]++
	if n.dead[e.Endpoint] {
		return errors.New("connection refused")
	}
	return nil
}

func (n *network) fetch(_ context.Context, url string, _ *credentials.Sender) (*a2apb.AgentCard, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.cards[url]; c != nil {
		return c, nil
	}
	return nil, errors.New("connection refused")
}

// A shelf is a Store in memory that can be broken.
type shelf struct {
	mu    sync.Mutex
	all   map[string][]byte
	rev   int64
	swaps int
	fail  error
}

func (s *shelf) Save(_ context.Context, key string, data []byte) (int64, error) {
	return s.change(func() { s.all[key] = data })
}

func (s *shelf) Remove(_ context.Context, key string) (int64, error) {
	return s.change(func() { delete(s.all, key) })
}

func (s *shelf) change(f func()) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		f()
		s.rev++
	}
	return s.rev, s.fail
}

func (s *shelf) Revision(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rev, s.fail
}

func (s *shelf) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key], s.fail
}

func (s *shelf) Swap(_ context.Context, key string, old, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil && bytes.Equal(s.all[key], old) && old != nil {
		s.all[key], s.swaps = data, s.swaps+1
	}
	return s.fail
}

func (s *shelf) All(context.Context) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.all), s.fail
}

func newShelf() *shelf { return &shelf{all: map[string][]byte{}} }

func open(t *testing.T, n *network, s *shelf) *Registry {
	t.Helper()
	o := Options{Probe: n.probe, Fetch: n.fetch}
	if s != nil {
		o.Store = s
	}
	r, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs the registry until the test, or the bubble, ends.
func start(t *testing.T, r *Registry) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func card(name string) *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name: name, Description: "Does " + name + " things.", Version: "1.0.0",
		Capabilities:      &a2apb.AgentCapabilities{},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: name + ".do", Name: "Do " + name, Description: "Does it.", Tags: []string{"doing"}}},
	}
}

func principal(tenant mesh.TenantID, perms ...mesh.Role) mesh.Principal {
	if perms == nil {
		perms = []mesh.Role{mesh.RoleAgentPublisher}
	}
	return mesh.Principal{Tenant: tenant, User: "u", Roles: perms}
}

var operator = principal("ops", mesh.RoleOperator)

// register registers an agent with a lease of 10 s.
func register(t *testing.T, r *Registry, p mesh.Principal, name, endpoint string) Registration {
	t.Helper()
	got, err := r.Register(t.Context(), p, Request{Name: name, Card: card(name), Endpoint: endpoint, Lease: 10 * time.Second})
	if err != nil {
		t.Fatalf("Register(%s): %v", name, err)
	}
	return got
}

// same reports whether the entries are equal, of one card.
func same(a, b Entry) bool {
	warned := slices.Equal(a.Warnings, b.Warnings)
	a.Warnings, b.Warnings = nil, nil
	return warned && reflect.DeepEqual(a, b) && a.Card == b.Card
}

// fieldOf returns the field that err names, or "".
func fieldOf(err error) string {
	var e *mesh.Error
	if errors.As(err, &e) {
		return e.Field
	}
	return ""
}

func wantCode(t *testing.T, err error, code mesh.Code, words ...string) {
	t.Helper()
	if !mesh.IsCode(err, code) {
		t.Fatalf("error is %v, want one that is %v", err, code)
	}
	for _, w := range words {
		if !strings.Contains(fieldOf(err)+" "+mesh.DetailOf(err), w) {
			t.Errorf("error %q (field %q) does not say %q", mesh.DetailOf(err), fieldOf(err), w)
		}
	}
}
