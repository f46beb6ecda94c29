package rpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"path/filepath"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/transport"
)

// side is a source with a certificate of the authority.
func side(t *testing.T, a *transport.Authority, id *url.URL) *transport.Source {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "identity")
	key, _, err := transport.Request()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := a.Issue(key.Public(), transport.Leaf{ID: id, Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := transport.SaveIdentity(dir, key, leaf, a.Bundle()); err != nil {
		t.Fatal(err)
	}
	o := transport.Identity(dir)
	o.ClientAuth = tls.VerifyClientCertIfGiven
	s, err := transport.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Who has a certificate with the name of an agent is that agent to handlers, over the
// network and in the process, and nobody else is.
func TestACallTellsWhichAgentItsConnectionProved(t *testing.T) {
	a, err := transport.OpenAuthority(t.TempDir(), "mesh.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	worker := mesh.AgentID{Tenant: "acme", Name: "worker"}
	serves := side(t, a, &url.URL{Scheme: "spiffe", Host: "mesh.test", Path: "/node"})
	var got mesh.AgentID
	var shown *x509.Certificate
	h := &agent{get: func(ctx context.Context) error {
		call, _ := mesh.CallFrom(ctx)
		got, shown = call.Peer, rpc.PeerCertificate(ctx)
		return nil
	}}
	o := rpc.Options{Auth: authFunc(believe), TLS: serves.Server("h2"), TrustDomain: "mesh.test"}
	addr := mesh.SecureScheme + serve(t, h, o)
	inner := rpc.NewServer(o)
	t.Cleanup(inner.Stop)
	a2apb.RegisterA2AServiceServer(inner, h)
	for name, tt := range map[string]struct {
		id   *url.URL
		want mesh.AgentID
	}{
		"an agent":                 {worker.SPIFFE("mesh.test"), worker},
		"one of another domain":    {worker.SPIFFE("elsewhere"), mesh.AgentID{}},
		"the node":                 {&url.URL{Scheme: "spiffe", Host: "mesh.test", Path: "/node"}, mesh.AgentID{}},
		"nobody, with no such id":  {&url.URL{Scheme: "https", Host: "mesh.test"}, mesh.AgentID{}},
		"nobody at all, in effect": {nil, mesh.AgentID{}},
	} {
		config := func() *tls.Config { c := serves.Client(); c.Certificates = nil; return c }
		if tt.id != nil {
			config = side(t, a, tt.id).Client
		}
		shown = nil
		if _, err := dialed(t, addr, rpc.DialOptions{TLS: config}).GetTask(t.Context(), &a2apb.GetTaskRequest{Id: "t"}); err != nil {
			t.Fatal(name, err)
		}
		if got != tt.want || (shown == nil) != (tt.id == nil) {
			t.Errorf("%s: %+v, %v", name, got, shown)
		}
		// A face in the process tells how somebody connected to it.
		state := tls.ConnectionState{}
		if shown != nil {
			state.VerifiedChains = [][]*x509.Certificate{{shown}}
		}
		got = mesh.AgentID{Name: "stale"}
		ctx := metadata.NewOutgoingContext(rpc.WithRemote(t.Context(), "192.0.2.1:1", &state), nil)
		if _, err := a2apb.NewA2AServiceClient(inner).GetTask(ctx, &a2apb.GetTaskRequest{Id: "t"}); err != nil || got != tt.want {
			t.Errorf("%s, in the process: %+v, %v", name, got, err)
		}
	}
}

// finding T8: a grant goes to this machine or over TLS, and else nowhere.
func TestAGrantIsNotSentInClear(t *testing.T) {
	secrets := []mesh.Call{{GrantToken: "granted"}, {TicketToken: "ticket"}, {Holder: "secret"}, {Ticket: func(context.Context) (string, error) { return "made", nil }}}
	for _, secret := range secrets {
		under := mesh.WithCall(t.Context(), secret)
		notInClear(t, under)
	}
}

func notInClear(t *testing.T, under context.Context) {
	t.Helper()
	for target, code := range map[string]mesh.Code{
		"10.255.255.1:1": mesh.Precondition, "agent.example:7000": mesh.Precondition,
		"grpc://agent.example:7000":  mesh.Precondition,
		"grpcs://agent.example:7000": mesh.Unavailable, "https://agent.example": mesh.Unavailable, "127.0.0.1:1": mesh.Unavailable, "localhost:1": mesh.Unavailable,
	} {
		refuse := func(context.Context, string) (net.Conn, error) { return nil, net.ErrClosed }
		for method, err := range both(under, dialed(t, target, rpc.DialOptions{Dialer: refuse})) {
			if !mesh.IsCode(err, code) || code == mesh.Precondition && mesh.FieldOf(err) != rpc.KeyGrant {
				t.Errorf("%s to %s: %v", method, target, err)
			}
		}
		for method, err := range both(under, dialed(t, target, rpc.DialOptions{Dialer: refuse, AllowPlaintextGrant: true})) {
			if !mesh.IsCode(err, mesh.Unavailable) {
				t.Errorf("%s to %s, where that is allowed: %v", method, target, err)
			}
		}
	}
}
