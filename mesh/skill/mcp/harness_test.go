package mcp_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/mcp"
	"agentmesh/mesh/skill/skilltest"
)

var _ mcp.Sink = (*skill.Library)(nil)

// A shelf is a sink that can be waited for.
type shelf struct {
	mu      sync.Mutex
	skills  map[string]*skill.Skill
	puts    int
	changed chan struct{}
}

func newShelf() *shelf {
	return &shelf{skills: map[string]*skill.Skill{}, changed: make(chan struct{}, 1)}
}

func (s *shelf) Put(skills ...*skill.Skill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sk := range skills {
		s.skills[sk.Name] = sk
	}
	s.puts += len(skills)
	s.wake()
}

func (s *shelf) Remove(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		delete(s.skills, n)
	}
	s.wake()
}

func (s *shelf) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *shelf) get(name string) *skill.Skill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.skills[name]
}

func (s *shelf) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.skills))
}

// patience is how long a test waits for what must come.
const patience = time.Minute

// await waits until the skills are as wanted.
func (s *shelf) await(t *testing.T, what string, want func() bool) {
	t.Helper()
	late := time.After(patience)
	for !want() {
		select {
		case <-s.changed:
		case <-late:
			t.Fatalf("%s did not come; there are %v", what, s.names())
		}
	}
}

func (s *shelf) awaitSkill(t *testing.T, name string) *skill.Skill {
	t.Helper()
	s.await(t, name, func() bool { return s.get(name) != nil })
	return s.get(name)
}

// A mesh runs servers for a test.
type meshed struct {
	*mcp.Servers
	*shelf
	log  *safeBuffer
	stop func() // ends Run and waits for it
}

// run opens and runs the servers.
func run(t *testing.T, servers map[string]mcp.Server, o mcp.Options) *meshed {
	t.Helper()
	m := &meshed{shelf: newShelf(), log: &safeBuffer{}}
	o.Logger = slog.New(slog.NewTextHandler(m.log, nil))
	if o.Retry == 0 {
		o.Retry = 20 * time.Millisecond
	}
	var err error
	if m.Servers, err = mcp.Open(servers, o); err != nil {
		t.Fatal(err)
	}
	mcp.SetGrace(m.Servers, 300*time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx, m.shelf) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(m.stop)
	return m
}

// call calls a skill by its handler.
func (m *meshed) call(ctx context.Context, name string, args map[string]any) (*skill.Result, error) {
	s := m.get(name)
	return skilltest.Do(ctx, m.Handlers()[s.Handler], &skill.Call{Skill: name, Args: args, Key: "key-1"}, nil)
}

// does calls a skill that has success.
func (m *meshed) does(t *testing.T, name string, args map[string]any) *skill.Result {
	t.Helper()
	r, err := m.call(t.Context(), name, args)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// again calls a skill until its server is back.
func (m *meshed) again(t *testing.T, name string) *skill.Result {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		r, err := m.call(t.Context(), name, nil)
		if err == nil {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v\n%s", name, err, m.log)
		}
		time.Sleep(10 * time.Millisecond) // a process starts meanwhile: there is no event to wait for
	}
}

// self is the test binary as a server.
func self(t *testing.T, mode string) mcp.Server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return mcp.Server{Command: []string{exe}, Env: map[string]string{asServer: mode, "GIVEN": "yes"}}
}

// endpoint serves a fake over HTTP, statelessly as the newest version of the
// protocol wants it, or with sessions as those before.
func endpoint(t *testing.T, f *fake, stateless bool) *httptest.Server {
	t.Helper()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return f.server }, &sdk.StreamableHTTPOptions{
		Stateless: stateless, SessionTimeout: time.Minute, PropagateRequestCancellation: true,
	})
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		for session := range f.server.Sessions() {
			_ = session.Close()
		}
		s.Close()
	})
	return s
}

// A safeBuffer is written and read concurrently.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

var _ io.Writer = (*safeBuffer)(nil)

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
