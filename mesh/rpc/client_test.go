package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
)

// heard returns a server that keeps the metadata it hears, mesh keys only.
func heard(t *testing.T) (addr string, got func() metadata.MD) {
	ch := make(chan metadata.MD, 1)
	a := &agent{get: func(ctx context.Context) error {
		all, _ := metadata.FromIncomingContext(ctx)
		md := metadata.MD{}
		for _, key := range append(rpc.Keys(), "x-custom") {
			if v := all[key]; v != nil {
				md[key] = v
			}
		}
		ch <- md
		return nil
	}}
	return serve(t, a, rpc.Options{Auth: authFunc(believe)}), func() metadata.MD { return <-ch }
}

func TestWhatAConnectionSays(t *testing.T) {
	alice := mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "alice"}, Thread: thread}
	under := alice
	under.GrantToken = "signed"
	smuggled := []string{"tenant-id", "umbrella", "authorization", "Bearer hers", "mesh-grant", "hers", "x-custom", "kept"}
	tests := map[string]struct {
		o    rpc.DialOptions
		call *mesh.Call
		md   []string
		want metadata.MD
	}{
		"a program's token, tenant and user": {o: rpc.DialOptions{Bearer: "mine", Tenant: "acme", User: "bot"},
			want: metadata.Pairs("authorization", "Bearer mine", "tenant-id", "acme", "user-id", "bot", "a2a-version", "1.0")},
		"the call's tenant and user before those": {o: rpc.DialOptions{Bearer: "mine", Tenant: "other", User: "bot"}, call: &alice,
			want: metadata.Pairs("authorization", "Bearer mine", "tenant-id", "acme", "user-id", "alice", "thread-id", thread, "a2a-version", "1.0")},
		"no token beside a grant": {o: rpc.DialOptions{Bearer: "mine"}, call: &under,
			want: metadata.Pairs("mesh-grant", "signed", "tenant-id", "acme", "user-id", "alice", "thread-id", thread, "a2a-version", "1.0")},
		"never what somebody put there before": {call: &alice, md: smuggled,
			want: metadata.Pairs("tenant-id", "acme", "user-id", "alice", "thread-id", thread, "a2a-version", "1.0", "x-custom", "kept")},
		"not even without a call": {md: smuggled, want: metadata.Pairs("a2a-version", "1.0", "x-custom", "kept")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			addr, got := heard(t)
			ctx := metadata.AppendToOutgoingContext(t.Context(), tt.md...)
			if tt.call != nil {
				ctx = mesh.WithCall(ctx, *tt.call)
			}
			if _, err := dialed(t, addr, tt.o).GetTask(ctx, &a2apb.GetTaskRequest{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got()); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
		})
	}
}

// The metadata of what a server is asked is not that of what it asks: a
// server's own calls carry only what it puts into a Call.
func TestAServerDoesNotForwardItsCallersToken(t *testing.T) {
	addr, got := heard(t)
	out := dialed(t, addr, rpc.DialOptions{})
	front := &agent{get: func(ctx context.Context) error {
		_, err := out.GetTask(ctx, &a2apb.GetTaskRequest{})
		return err
	}}
	c := dialed(t, serve(t, front, rpc.Options{Auth: authFunc(believe)}), rpc.DialOptions{Bearer: "hers", Tenant: "acme", User: "alice"})
	if _, err := c.GetTask(t.Context(), &a2apb.GetTaskRequest{}); err != nil {
		t.Fatal(err)
	}
	want := metadata.Pairs("tenant-id", "acme", "user-id", "alice", "a2a-version", "1.0")
	if diff := cmp.Diff(want, got()); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestATokenIsNotShownToTheNetwork(t *testing.T) {
	tests := map[string]bool{ // whether the target is on this machine
		"127.0.0.1:7420": true, "localhost:7420": true, "[::1]:7420": true, "127.8.9.1:1": true,
		"dns:///localhost:7420": true, "passthrough:///127.0.0.1:1": true, "unix:/run/mesh.sock": true,
		"10.0.0.7:7420": false, "mesh.example.com:7420": false, "localhost.example.com:7420": false,
		"dns:///mesh.example.com:7420": false, "0.0.0.0:7420": false, "[2001:db8::1]:7420": false,
		"127.0.0.1.example.com:7420": false, "dns://10.0.0.7/localhost:7420": false,
	}
	for target, local := range tests {
		conn, err := rpc.Dial(target, rpc.DialOptions{Bearer: "secret"})
		if local != (err == nil) || err != nil && !mesh.IsCode(err, mesh.Precondition) {
			t.Errorf("Dial(%q) with a token: %v, want it %v", target, err, map[bool]string{true: "allowed", false: "refused"}[local])
		}
		if err == nil {
			_ = conn.Close()
			continue
		}
		for _, o := range []rpc.DialOptions{{}, {Bearer: "secret", AllowPlaintextBearer: true}} {
			conn, err := rpc.Dial(target, o)
			if err != nil {
				t.Errorf("Dial(%q, %+v): %v", target, o, err)
				continue
			}
			_ = conn.Close()
		}
	}
}

func TestDialRefusesWhatCannotBe(t *testing.T) {
	for name, tt := range map[string]struct {
		target string
		o      rpc.DialOptions
		field  string
	}{
		"an empty target":        {"", rpc.DialOptions{}, "target"},
		"a target without sense": {"dns://%zz/x", rpc.DialOptions{}, "target"},
	} {
		_, err := rpc.Dial(tt.target, tt.o)
		var e *mesh.Error
		if !errors.As(err, &e) || e.Code != mesh.Invalid || e.Field != tt.field {
			t.Errorf("%s: %v, want invalid: %s", name, err, tt.field)
		}
	}
}

func TestAServerThatIsAwayIsUnavailableAndItsAddressNobodysBusiness(t *testing.T) {
	for kind, err := range both(t.Context(), dialed(t, rpctest.Free(t), rpc.DialOptions{})) {
		const want = "the service cannot be reached at the moment; try again"
		if !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) != want {
			t.Errorf("%s: %v, want unavailable: %s", kind, err, want)
		}
	}
}

// get returns the endpoint's connection of the pool.
func get(t *testing.T, p *rpc.Pool, endpoint string) *grpc.ClientConn {
	t.Helper()
	conn, err := p.Get(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func waitState(t *testing.T, conn *grpc.ClientConn, want connectivity.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for s := conn.GetState(); s != want; s = conn.GetState() {
		if !conn.WaitForStateChange(ctx, s) {
			t.Fatalf("connection is %v, want %v", s, want)
		}
	}
}

// S4-084: calls of one endpoint share a connection, which is there before the first of them.
func TestAPoolHasOneWarmConnectionPerEndpoint(t *testing.T) {
	var r recorder
	first, second := serve(t, r.agent(), rpc.Options{Auth: authFunc(believe)}), serve(t, r.agent(), rpc.Options{Auth: authFunc(believe)})
	p := rpc.NewPool(rpc.DialOptions{})
	conn := get(t, p, first)
	waitState(t, conn, connectivity.Ready) // before any call
	if get(t, p, first) != conn || get(t, p, second) == conn {
		t.Error("want one connection per endpoint")
	}
	for kind, err := range both(t.Context(), a2apb.NewA2AServiceClient(conn)) {
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := p.Get(""); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("Get of nothing: %v, want invalid", err)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if s := conn.GetState(); s != connectivity.Shutdown {
		t.Errorf("after Close the connection is %v", s)
	}
	if _, err := p.Get(first); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("Get after Close: %v, want unavailable", err)
	}
}

// only returns options with which a pool reaches these addresses and no others.
func only(addrs ...string) rpc.DialOptions {
	return rpc.DialOptions{Dialer: func(ctx context.Context, addr string) (net.Conn, error) {
		if !slices.Contains(addrs, addr) {
			return nil, errors.New("there is nobody")
		}
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}}
}

// Agents that come and go leave no connections behind that are tried for ever.
func TestAPoolDropsTheIdleConnectionThatWasAskedForTheLongestTimeAgo(t *testing.T) {
	release := make(chan struct{})
	a := &agent{get: func(context.Context) error { return nil }, sub: func(s grpc.ServerStream) error {
		if err := s.SendMsg(&a2apb.StreamResponse{}); err != nil {
			return err
		}
		select {
		case <-release:
		case <-s.Context().Done():
		}
		return nil
	}}
	busy, idle := serve(t, a, rpc.Options{Auth: authFunc(believe)}), serve(t, a, rpc.Options{Auth: authFunc(believe)})
	p := rpc.NewPool(only(busy, idle))
	defer func() { _ = p.Close() }()
	first, second := get(t, p, busy), get(t, p, idle)
	stream, err := a2apb.NewA2AServiceClient(first).SubscribeToTask(t.Context(), &a2apb.SubscribeToTaskRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range rpc.MaxIdle - 1 {
		get(t, p, fmt.Sprintf("127.0.0.1:%d", i+1))
	}
	waitState(t, second, connectivity.Shutdown)
	if _, err := a2apb.NewA2AServiceClient(second).GetTask(t.Context(), &a2apb.GetTaskRequest{}); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("a call on the connection that was dropped: %v, want unavailable", err)
	}
	if again := get(t, p, idle); again == second {
		t.Error("Get returned the connection that was dropped")
	} else if _, err := a2apb.NewA2AServiceClient(again).GetTask(t.Context(), &a2apb.GetTaskRequest{}); err != nil {
		t.Errorf("on the new connection: %v", err)
	}
	if get(t, p, busy) != first {
		t.Error("a connection was dropped with a call in flight")
	}
	close(release)
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the call in flight ended with %v", err)
	}
}

// However a call ends, its connection is idle afterwards.
func TestAConnectionIsIdleWhenItsCallsHaveEnded(t *testing.T) {
	a := &agent{get: func(context.Context) error { return nil }, sub: func(s grpc.ServerStream) error {
		if err := s.SendMsg(&a2apb.StreamResponse{}); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}}
	addr := serve(t, a, rpc.Options{Auth: authFunc(believe)})
	for name, end := range map[string]func(cancel context.CancelFunc, s a2apb.A2AService_SubscribeToTaskClient){
		"when its caller gives up and reads on": func(cancel context.CancelFunc, s a2apb.A2AService_SubscribeToTaskClient) {
			cancel()
			_, _ = s.Recv()
		},
		"when its caller gives up and leaves": func(cancel context.CancelFunc, _ a2apb.A2AService_SubscribeToTaskClient) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			p := rpc.NewPool(only(addr))
			defer func() { _ = p.Close() }()
			conn := get(t, p, addr)
			if _, err := a2apb.NewA2AServiceClient(conn).GetTask(t.Context(), &a2apb.GetTaskRequest{}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := a2apb.NewA2AServiceClient(conn).SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{})
			if err == nil {
				_, err = s.Recv()
			}
			if err != nil {
				t.Fatal(err)
			}
			end(cancel, s)
			// The end is noticed soon, not at once.
			for i := 0; i < 8*rpc.MaxIdle && conn.GetState() != connectivity.Shutdown; i++ {
				get(t, p, fmt.Sprintf("127.0.0.1:%d", i+1))
			}
			waitState(t, conn, connectivity.Shutdown)
		})
	}
}
