package node_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/transport"
)

// people is an authority that issues certificates to people.
func people(t *testing.T) *transport.Authority {
	t.Helper()
	a, err := transport.OpenAuthority(t.TempDir(), "people.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// someone is a side with a certificate of the authority for spiffe://people.example/NAME, that
// believes the mesh.
func someone(t *testing.T, m *testMesh, a *transport.Authority, name string) *transport.Source {
	t.Helper()
	key, _, err := transport.Request()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := a.Issue(key.Public(), transport.Leaf{ID: &url.URL{Scheme: "spiffe", Host: "people.example", Path: "/" + name}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ca, err := os.ReadFile(m.CA)
	if err == nil {
		err = transport.SaveIdentity(dir, key, leaf, ca)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := transport.New(transport.Identity(dir))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answersOver says hello over each face with the connection's certificate, and the token if
// it is not "", and returns by face whether it was answered.
func answersOver(t *testing.T, m *testMesh, s *transport.Source, token string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	conn, err := grpc.NewClient(m.Any().GRPC, grpc.WithTransportCredentials(credentials.NewTLS(s.Client()))) // not ours, which says a version
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx := plain(t)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, header(token)...)
	}
	_, err = a2apb.NewA2AServiceClient(conn).SendMessage(ctx, say("hello"))
	all["gRPC"] = err == nil
	_, err = legacypb.NewA2AServiceClient(conn).SendMessage(ctx, legacySay("hello"))
	all["gRPC 0.3"] = err == nil
	for name, at := range map[string][2]string{"REST": {"/message:send", v1Body}, "SSE": {"/message:stream", v1Body}, "JSON-RPC": {"/", rpcBody("SendMessage", v1Body)},
		"REST 0.3": {"/v1/message:send", v03RESTBody}, "JSON-RPC 0.3": {"/", rpcBody("message/send", v03Body)}} {
		post, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+m.web()+at[0], strings.NewReader(fmt.Sprintf(at[1], mesh.NewEventID(), "hello")))
		post.Header.Set("Content-Type", "application/json")
		if token != "" {
			post.Header.Set("Authorization", "Bearer "+token)
		}
		_, body, err := asked(s.Client(), post)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all[name] = strings.Contains(body, "hello") || strings.Contains(body, `"completed"`) || strings.Contains(body, "COMPLETED")
	}
	return all
}

func certificates(t *testing.T, a *transport.Authority) node.Config {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens, mtls", adminsFile(t)
	cfg.TLS = node.TLS{Mode: node.TLSAuto, ClientCA: a.Path()}
	cfg.MTLS = []auth.Certificate{
		{ID: "spiffe://people.example/staff/*", Tenant: "acme", UserPrefix: "staff:", Roles: []string{"user"}},
		{Subject: "CN=spiffe://people.example/boss", Tenant: "acme", User: "boss", Roles: []string{"tenant-admin"}},
	}
	return cfg
}

// part of T10: whoever has a certificate that the mesh knows gets in through every face without
// a token, as who the configuration says; others do not, and a token says more than a
// certificate. What is revoked ends, and a new certificate counts.
func TestEveryFaceTakesCertificates(t *testing.T) {
	a := people(t)
	m := start(t, certificates(t, a), map[string]run{"main": echo})
	alice, boss := someone(t, m, a, "staff/alice"), someone(t, m, a, "boss")
	for name, tt := range map[string]struct {
		side  *transport.Source
		token string
		want  bool
	}{
		"by id":                        {alice, "", true},
		"by subject":                   {boss, "", true},
		"of nobody":                    {someone(t, m, a, "guest/alice"), "", false},
		"with more parts":              {someone(t, m, a, "staff/alice/x"), "", false},
		"none":                         {believing(t, m, transport.Options{}), "", false},
		"of nobody, and a token":       {someone(t, m, a, "guest/bob"), "secret-of-tenant-a", true},
		"a good one and a wrong token": {alice, "wrong", false},
		"an agent's":                   {holder(t, m), "", false},
	} {
		for face, got := range answersOver(t, m, tt.side, tt.token) {
			if got != tt.want {
				t.Errorf("%s, %s: it is %v that it was answered", name, face, got)
			}
		}
	}
	is, err := meshv1.NewAccessServiceClient(over(t, m, alice, "")).GetAccess(plain(t), &meshv1.GetAccessRequest{})
	if err != nil || is.GetTenantId() != "acme" || is.GetUserId() != "staff:alice" || !slices.Equal(is.GetRoles(), []string{"user"}) ||
		is.GetCredential() != "certificate:spiffe://people.example/staff/alice" || is.GetExpires() == nil {
		t.Errorf("alice is %v, %v", is, err)
	}
	if _, err := meshv1.NewAccessServiceClient(over(t, m, boss, "")).RevokeUser(plain(t), &meshv1.RevokeUserRequest{UserId: "staff:alice"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		for face, got := range answersOver(t, m, alice, "") {
			if got {
				return fmt.Errorf("%s: with a certificate that was revoked there is an answer", face)
			}
		}
		return nil
	})
}

// The card says that a certificate will do.
func TestTheCardNamesTheSchemeOfCertificates(t *testing.T) {
	a := people(t)
	m := start(t, certificates(t, a), map[string]run{"main": echo})
	for version, want := range map[string][]string{"1.0": {`"mtlsSecurityScheme"`, `"bearer"`}, "": {`"type":"mutualTLS"`, `{"mtls":[]}`}} {
		get, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+m.web()+ownCard, http.NoBody)
		get.Header.Set("A2A-Version", version)
		_, body, err := asked(believing(t, m, transport.Options{}).Client(), get)
		for _, w := range want {
			if err != nil || !strings.Contains(body, w) {
				t.Errorf("the card of version %q has no %s: %v, %s", version, w, err, body)
			}
		}
	}
}

// registered serves an agent that registers under the name over the connection of its
// certificate, until stop; its end is sent to done.
func registered(t *testing.T, m *testMesh, s *transport.Source, name string) (at string, done chan error, stop func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- agent.Serve(ctx, agent.Options{Agent: testAgent{name, recall}, Node: over(t, m, s, ""), TLS: s.Server("h2"),
			Register: &agent.Registration{Name: name}, Ready: func(at string) { ready <- at }})
	}()
	select {
	case at = <-ready:
	case err := <-done:
		done <- err
	}
	return at, done, stop
}

// An agent that joined registers itself with its certificate and no token, under no other
// name, and calls nothing else; when an admin revokes it, its streams end, it renews nothing,
// and it registers no more.
func TestAJoinedAgentRegistersWithItsCertificate(t *testing.T) {
	m := encrypted(t, map[string]run{"main": echo})
	s, _ := joined(t, m, "guest")
	at, done, stop := registered(t, m, s, "guest")
	if at == "" {
		t.Fatal(<-done)
	}
	defer func() {
		stop()
		<-done //nolint:errcheck // it ends because its registration was revoked
	}()
	user := a2apb.NewA2AServiceClient(over(t, m, believing(t, m, transport.Options{}), "secret-of-tenant-a"))
	stream, err := user.SendStreamingMessage(mesh.WithCall(plain(t), mesh.Call{Agent: "guest"}), say("hello"))
	if said := hear(t, stream, err); !strings.Contains(said.text, "user: hello") {
		t.Errorf("it said %q, and %v", said.text, said.status)
	}
	itself := over(t, m, s, "")
	if _, err := meshv1.NewRegistryServiceClient(itself).RegisterAgent(plain(t), &meshv1.RegisterAgentRequest{Name: "other", Card: card("other"), Endpoint: at}); !mesh.IsCode(err, mesh.Denied) || mesh.FieldOf(err) != "name" {
		t.Errorf("it registers another: %v", err)
	}
	if _, err := meshv1.NewRegistryServiceClient(itself).DeregisterAgent(plain(t), &meshv1.DeregisterAgentRequest{Name: "other"}); !mesh.IsCode(err, mesh.Denied) {
		t.Errorf("it removes another: %v", err)
	}
	if _, err := a2apb.NewA2AServiceClient(itself).SendMessage(plain(t), say("hello")); !mesh.IsCode(err, mesh.Denied) {
		t.Errorf("it chats: %v", err)
	}
	watching, err := meshv1.NewRegistryServiceClient(itself).WatchAgents(plain(t), &meshv1.WatchAgentsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	admin := meshv1.NewAccessServiceClient(over(t, m, believing(t, m, transport.Options{}), "secret-of-tenant-admin"))
	if _, err := admin.RevokeUser(plain(t), &meshv1.RevokeUserRequest{UserId: auth.AgentUser("guest")}); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = watching.Recv()
	}
	if err = rpc.FromStatus(err); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("its stream ended with %v", err)
	}
	eventually(t, func() error { // until all nodes know
		for range 10 {
			_, err := meshv1.NewRegistryServiceClient(over(t, m, s, "")).ListAgents(plain(t), &meshv1.ListAgentsRequest{})
			if !mesh.IsCode(err, mesh.Unauthenticated) {
				return fmt.Errorf("with a certificate that was revoked: %w", err)
			}
		}
		return nil
	})
	_, csr, err := transport.Request()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := meshv1.NewIdentityServiceClient(over(t, m, s, "")).RenewCertificate(plain(t), &meshv1.RenewCertificateRequest{Csr: csr}); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("it renews: %v", err)
	}
	eventually(t, func() error { // certificates tell time in seconds
		again, _ := joined(t, m, "guest")
		_, err := meshv1.NewRegistryServiceClient(over(t, m, again, "")).ListAgents(plain(t), &meshv1.ListAgentsRequest{})
		return err
	})
}
