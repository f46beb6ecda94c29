package rpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// A hall is an agent whose streams stay until they are let go.
type hall struct {
	in, out chan struct{}
}

func (h *hall) agent() *agent {
	return &agent{
		get: func(context.Context) error { return nil },
		sub: func(s grpc.ServerStream) error {
			h.in <- struct{}{}
			select {
			case <-h.out:
				return nil
			case <-s.Context().Done():
				return s.Context().Err()
			}
		},
	}
}

func user(ctx context.Context, tenant mesh.TenantID, name string) context.Context {
	return mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{Tenant: tenant, User: name}})
}

// enter opens a stream and returns how it ends; nil at once when it is refused.
func (h *hall) enter(t *testing.T, ctx context.Context, c a2apb.A2AServiceClient) (wait func() error, refused error) {
	t.Helper()
	s, err := c.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: "t"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := s.Recv(); ended <- err }() // ends with the test's server
	select {
	case <-h.in:
		return func() error { return <-ended }, nil
	case err := <-ended:
		return nil, err
	}
}

func TestAUserHasSoManyStreamsAndNoMore(t *testing.T) {
	h := &hall{in: make(chan struct{}), out: make(chan struct{})}
	c := dialed(t, serve(t, h.agent(), rpc.Options{Auth: authFunc(believe), Streams: rpc.StreamLimit{PerUser: 2, Total: 4}}), rpc.DialOptions{})
	ann, bob := user(t.Context(), "acme", "ann"), user(t.Context(), "acme", "bob")
	var open []func() error
	for _, ctx := range []context.Context{ann, ann} {
		wait, err := h.enter(t, ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, wait)
	}
	_, err := h.enter(t, ann, c)
	if after, ok := rpc.RetryAfter(err); !mesh.IsCode(err, mesh.Exhausted) || !ok || after <= 0 || !strings.Contains(mesh.DetailOf(err), "2 for each user") {
		t.Errorf("the third stream: %v", err)
	}
	if _, err := c.GetTask(ann, &a2apb.GetTaskRequest{Id: "t"}); err != nil {
		t.Errorf("a call that is no stream: %v", err)
	}
	// Others have their own, up to what the server has in all.
	for _, ctx := range []context.Context{bob, user(t.Context(), "other", "ann")} {
		wait, err := h.enter(t, ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, wait)
	}
	if _, err := h.enter(t, bob, c); !mesh.IsCode(err, mesh.Exhausted) || !strings.Contains(mesh.DetailOf(err), "as many open streams as it may have") {
		t.Errorf("the fifth of all streams: %v", err)
	}
	// Agents at work for a user are not the user.
	granted := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "ann"}, GrantToken: "signed"})
	wait, err := h.enter(t, granted, c)
	if err != nil {
		t.Fatalf("under a grant: %v", err)
	}
	// A stream that has ended makes room.
	close(h.out)
	for _, wait := range append(open, wait) {
		if err := wait(); err != io.EOF {
			t.Errorf("a stream ended with %v", err)
		}
	}
	for range 3 {
		wait, err := h.enter(t, ann, c)
		if err != nil {
			t.Fatalf("after all have ended: %v", err)
		}
		if err := wait(); err != io.EOF {
			t.Error(err)
		}
	}
}

// What was opened with a credential ends with it, on the network and in the process;
// what others opened goes on.
func TestStreamsEndWithTheirCredential(t *testing.T) {
	ways := map[string]func(p *mesh.Principal, standing context.Context){
		"it is ended":     func(p *mesh.Principal, standing context.Context) { p.Ended = standing },
		"it expires":      func(p *mesh.Principal, _ context.Context) { p.Expires = time.Now().Add(3 * time.Second) },
		"the server ends": func(*mesh.Principal, context.Context) {},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) { streamsEnd(t, name == "the server ends", way) })
	}
}

func streamsEnd(t *testing.T, byServer bool, way func(p *mesh.Principal, standing context.Context)) {
	h := &hall{in: make(chan struct{}), out: make(chan struct{})}
	standing, revoke := context.WithCancel(t.Context())
	who := authFunc(func(c rpc.Credentials) (mesh.Principal, error) {
		p, err := believe(c)
		if p.User == "ann" {
			p.Credential = "token:ann"
			way(&p, standing)
		}
		return p, err
	})
	srv := inProcess(t, h.agent(), rpc.Options{Auth: who})
	far := rpc.NewServer(rpc.Options{Auth: who})
	c := dialed(t, serving(t, far, h.agent()), rpc.DialOptions{})
	ann, err := h.enter(t, user(t.Context(), "acme", "ann"), c)
	bob, err2 := h.enter(t, user(t.Context(), "acme", "bob"), c)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	inside := make(chan struct{}, 2)
	for _, name := range []string{"ann", "bob"} {
		md := metadata.Pairs("tenant-id", "acme", "user-id", name)
		go func() {
			err := srv.Stream(metadata.NewOutgoingContext(t.Context(), md), stream, &a2apb.SubscribeToTaskRequest{Id: "t"}, &ear{})
			if name == "bob" && err != nil || name == "ann" && !mesh.IsCode(rpc.FromStatus(err), mesh.Unauthenticated) {
				t.Errorf("%s in the process: %v", name, err)
			}
			inside <- struct{}{}
		}()
		<-h.in
	}
	revoke()
	if byServer {
		for _, s := range []*rpc.Server{srv, far} {
			s.EndCalls(func(ctx context.Context, method string) error {
				if c, _ := mesh.CallFrom(ctx); c.Principal.User == "ann" && method == stream {
					return rpc.ErrEnded
				}
				return nil
			})
		}
	}
	if err := ann(); !mesh.IsCode(rpc.FromStatus(err), mesh.Unauthenticated) {
		t.Errorf("ann's stream: %v", err)
	}
	<-inside // ann's
	close(h.out)
	if err := bob(); !errors.Is(err, io.EOF) {
		t.Errorf("bob's stream: %v", err)
	}
	<-inside
}
