package rpc_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	thread = "550e8400-e29b-41d4-a716-446655440000"
	exec   = mesh.ExecutionID("550e8400e29b41d4a716446655440000-0123456789abcdef")
	stream = "/lf.a2a.v1.A2AService/SubscribeToTask"
)

// agent is a server whose two methods do as they are told.
type agent struct {
	a2apb.UnimplementedA2AServiceServer
	get func(context.Context) error
	sub func(grpc.ServerStream) error
}

func (a *agent) GetTask(ctx context.Context, r *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	return &a2apb.Task{Id: r.GetId()}, a.get(ctx)
}

func (a *agent) SubscribeToTask(_ *a2apb.SubscribeToTaskRequest, s a2apb.A2AService_SubscribeToTaskServer) error {
	return a.sub(s)
}

type authFunc func(rpc.Credentials) (mesh.Principal, error)

func (f authFunc) Authenticate(_ context.Context, c rpc.Credentials) (mesh.Principal, error) {
	return f(c)
}

// forever is when grants expire in tests that are about something else.
const forever = 1 << 40

// believe takes every claim for true.
func believe(c rpc.Credentials) (mesh.Principal, error) {
	p := mesh.Principal{Tenant: c.Tenant, User: c.User}
	if c.Grant != "" {
		p.Grant = &mesh.Grant{Tenant: c.Tenant, User: c.User, Thread: thread, Execution: exec,
			Parent: exec[:48] + "0", Chain: []mesh.Actor{{Agent: "main"}, {Agent: "mail"}}, Expires: forever}
	}
	return p, nil
}

// serve runs a on loopback until the test ends and returns its address.
func serve(t *testing.T, a *agent, o rpc.Options) string {
	t.Helper()
	return serving(t, rpc.NewServer(o), a)
}

// serving has the server serve the agent, and returns its address.
func serving(t *testing.T, srv *rpc.Server, a *agent) string {
	t.Helper()
	l := rpctest.Listen(t)
	a2apb.RegisterA2AServiceServer(srv, a)
	done := make(chan error)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it served, in a short test
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// dialed returns a client of the mesh.
func dialed(t *testing.T, addr string, o rpc.DialOptions) a2apb.A2AServiceClient {
	t.Helper()
	conn, err := rpc.Dial(addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return a2apb.NewA2AServiceClient(conn)
}

// plain returns a client that knows nothing of the mesh.
func plain(t *testing.T, addr string) a2apb.A2AServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return a2apb.NewA2AServiceClient(conn)
}

// both calls the unary and the streaming method and returns their errors.
func both(ctx context.Context, c a2apb.A2AServiceClient) map[string]error {
	errs := make(map[string]error)
	_, errs["unary"] = c.GetTask(ctx, &a2apb.GetTaskRequest{Id: "t"})
	s, err := c.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: "t"})
	if err == nil {
		_, err = s.Recv()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	errs["stream"] = err
	return errs
}

// recorder keeps the Calls that handlers saw.
type recorder struct {
	mu    sync.Mutex
	calls []mesh.Call
}

func (r *recorder) see(ctx context.Context) error {
	c, ok := mesh.CallFrom(ctx)
	if !ok {
		return errors.New("no call in the context")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
	return nil
}

func (r *recorder) agent() *agent {
	return &agent{get: r.see, sub: func(s grpc.ServerStream) error { return r.see(s.Context()) }}
}

func believeGrant() mesh.Principal {
	p, _ := believe(rpc.Credentials{Tenant: "acme", User: "alice", Grant: "signed"})
	return p
}
