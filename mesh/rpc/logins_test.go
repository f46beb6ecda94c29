package rpc_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"agentmesh/mesh"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/rpc"
)

// few lets so many through, for each caller.
type few struct {
	mu   sync.Mutex
	most int
	seen map[string]int
}

func (*few) Burst() int { return 2 }

func (f *few) Allow(caller string, _ time.Time) (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[caller]++
	return time.Second, f.seen[caller] <= f.most
}

func (f *few) String() string { return "few" }

// part of T9: who cannot log in is told to come later and is in the log, once and without
// what it sent; who can is not held up, from wherever it comes.
func TestLogInsThatFailAreBoundedAndToldOnce(t *testing.T) {
	var logs logbuffer.Buffer
	limiter := &few{most: 3, seen: map[string]int{}}
	o := rpc.Options{Logins: limiter, Logger: slog.New(slog.NewTextHandler(&logs, nil)), Auth: authFunc(func(c rpc.Credentials) (mesh.Principal, error) {
		if c.Authorization != "Bearer good" {
			return mesh.Principal{}, mesh.Errorf(mesh.Unauthenticated, "test", "the token is not known")
		}
		return mesh.Principal{Tenant: "acme", User: "ann"}, nil
	})}
	a := &agent{get: func(context.Context) error { return nil }, sub: func(grpc.ServerStream) error { return nil }}
	s := inProcess(t, a, o)
	call := func(token, from string) error {
		ctx := metadata.NewOutgoingContext(rpc.WithRemote(t.Context(), from, nil), metadata.Pairs("authorization", "Bearer "+token))
		_, err := a2apb.NewA2AServiceClient(s).GetTask(ctx, &a2apb.GetTaskRequest{Id: "t"})
		return rpc.FromStatus(err)
	}
	for i := range 6 {
		want := mesh.Unauthenticated
		if i >= 3 {
			want = mesh.Exhausted
		}
		err := call("a-secret", "192.0.2.1:"+string(rune('1'+i)))
		if after, _ := rpc.RetryAfter(err); !mesh.IsCode(err, want) || want == mesh.Exhausted && after != time.Second {
			t.Errorf("attempt %d: %v", i+1, err)
		}
		if err := call("good", "192.0.2.1:9"); err != nil {
			t.Errorf("with a token that counts, from the same host: %v", err)
		}
	}
	if err := call("a-secret", "192.0.2.2:1"); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("from another host: %v", err)
	}
	text := logs.String()
	if n := strings.Count(text, "log-in failed"); n != 2 || strings.Contains(text, "a-secret") || !strings.Contains(text, "from=192.0.2.1 times=1") {
		t.Errorf("it was told %d times:\n%s", n, text)
	}
	// Over the network it is known who calls.
	c := dialed(t, serve(t, a, o), rpc.DialOptions{})
	if _, err := c.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: "t"}); !mesh.IsCode(rpc.FromStatus(err), mesh.Unauthenticated) {
		t.Errorf("over the network: %v", err)
	}
	if limiter.seen["127.0.0.1"] != 1 {
		t.Errorf("who failed: %v", limiter.seen)
	}
}
