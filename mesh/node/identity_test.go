package node_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/transport"
)

// encrypted starts a mesh with tls: auto under tokens, with an admin of tenant a.
func encrypted(t *testing.T, agents map[string]run) *testMesh {
	cfg := config(t.TempDir())
	cfg.TLS.Mode, cfg.Auth, cfg.Tokens, cfg.Egress.Allow = node.TLSAuto, "tokens", adminsFile(t), []string{"127.0.0.0/8"}
	return start(t, cfg, agents)
}

// over is a connection of the source to a node of the mesh, with the bearer token.
func over(t testing.TB, m *testMesh, s *transport.Source, bearer string) *grpc.ClientConn {
	t.Helper()
	return dialed(t, mesh.SecureScheme+m.Any().GRPC, rpc.DialOptions{TLS: s.Client, Bearer: bearer})
}

// invite returns the token of an invitation by the admin of tenant a.
func invite(t *testing.T, m *testMesh, req *meshv1.InviteAgentRequest) string {
	t.Helper()
	conn := over(t, m, believing(t, m, transport.Options{}), "secret-of-tenant-admin")
	res, err := meshv1.NewIdentityServiceClient(conn).InviteAgent(plain(t), req)
	if err != nil {
		t.Fatal(err)
	}
	return res.GetToken()
}

// joined is the source of an agent that was invited under the name and has joined.
func joined(t *testing.T, m *testMesh, name string) (s *transport.Source, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "identity")
	conn := over(t, m, believing(t, m, transport.Options{}), "")
	who, err := meshclient.Join(plain(t), conn, invite(t, m, &meshv1.InviteAgentRequest{Name: name}), dir)
	if want := (mesh.AgentID{Tenant: "a", Name: name}); err != nil || who != want {
		t.Fatalf("joined as %+v: %v", who, err)
	}
	if s, err = transport.New(transport.Identity(dir)); err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// A joined agent serves over TLS alone, to whom the mesh's authority vouches for, and
// works under grants that never travel in clear.
func TestAnAgentThatJoinedWorksOverMutualTLS(t *testing.T) {
	m := encrypted(t, map[string]run{"main": echo})
	s, _ := joined(t, m, "guest")
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- agent.Serve(ctx, agent.Options{Agent: testAgent{"guest", recall}, Node: over(t, m, s, "secret-of-tenant-a"), TLS: s.Server("h2"),
			Register: &agent.Registration{Name: "guest"}, Ready: func(at string) { ready <- at }})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	var at string
	select {
	case at = <-ready:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	if !strings.HasPrefix(at, mesh.SecureScheme+"127.0.0.1:") {
		t.Errorf("it is at %s", at)
	}
	user := over(t, m, believing(t, m, transport.Options{}), "secret-of-tenant-a")
	stream, err := a2apb.NewA2AServiceClient(user).SendStreamingMessage(mesh.WithCall(plain(t), mesh.Call{Agent: "guest"}), say("hello"))
	if said := hear(t, stream, err); !strings.Contains(said.text, "user: hello") {
		t.Errorf("it said %q, and %v", said.text, said.status)
	}
	for name, o := range map[string]rpc.DialOptions{
		"in clear":              {},
		"without a certificate": {TLS: believing(t, m, transport.Options{}).Client},
	} {
		target := strings.TrimPrefix(at, mesh.SecureScheme)
		if o.TLS != nil {
			target = at
		}
		_, err := a2apb.NewA2AServiceClient(dialed(t, target, o)).GetTask(plain(t), &a2apb.GetTaskRequest{Id: "x"})
		if !mesh.IsCode(err, mesh.Unavailable) {
			t.Errorf("called %s: %v", name, err)
		}
	}
}

func TestAnInvitationIsGoodOnceForOneName(t *testing.T) {
	m := encrypted(t, map[string]run{"main": echo})
	conn := over(t, m, believing(t, m, transport.Options{}), "")
	join := func(token string) error {
		_, err := meshclient.Join(plain(t), conn, token, filepath.Join(t.TempDir(), "identity"))
		return err
	}
	good := invite(t, m, &meshv1.InviteAgentRequest{Name: "guest", Hosts: []string{"guest.internal", "10.1.2.3"}})
	other := invite(t, m, &meshv1.InviteAgentRequest{Name: "other"})
	short := invite(t, m, &meshv1.InviteAgentRequest{Name: "short", Valid: durationpb.New(time.Nanosecond)})
	part := strings.Split(good, "/")
	for name, token := range map[string]string{
		"for another name":      "a/other/" + part[2],
		"for another tenant":    "b/guest/" + part[2],
		"for a name of nobody":  "a/nobody/" + part[2],
		"for a path":            "a/../guest/" + part[2],
		"without its secret":    "a/guest/",
		"with another's secret": "a/guest/" + strings.Split(other, "/")[2],
		"expired":               short,
		"empty":                 "",
	} {
		if err := join(token); !mesh.IsCode(err, mesh.Unauthenticated) || mesh.FieldOf(err) != "token" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := join(good); err != nil {
		t.Fatal(err)
	}
	if err := join(good); !mesh.IsCode(err, mesh.Unauthenticated) || !strings.Contains(mesh.DetailOf(err), "was used") {
		t.Errorf("a second time: %v", err)
	}
	if _, err := meshv1.NewIdentityServiceClient(conn).JoinAgent(plain(t), &meshv1.JoinAgentRequest{Token: other, Csr: []byte("nonsense")}); mesh.FieldOf(err) != "csr" {
		t.Errorf("a request that is none: %v", err)
	}
	if err := join(other); err != nil { // which that did not use up
		t.Errorf("after a request that was none: %v", err)
	}
}

func TestOnlyAnAdminInvites(t *testing.T) {
	m := encrypted(t, map[string]run{"main": echo})
	stranger := believing(t, m, transport.Options{})
	for who, want := range map[string]codes.Code{"a": codes.PermissionDenied, "eve": codes.PermissionDenied, "nobody": codes.Unauthenticated, "admin": codes.OK} {
		_, err := meshv1.NewIdentityServiceClient(over(t, m, stranger, "secret-of-tenant-"+who)).InviteAgent(plain(t), &meshv1.InviteAgentRequest{Name: "guest"})
		if got := status.Code(rpc.ToStatus(err)); got != want {
			t.Errorf("%s: %v", who, err)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+m.HTTP+"/mesh/v1/agents/guest:invite", strings.NewReader("{}"))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer secret-of-tenant-"+who)
		if _, body, err := asked(stranger.Client(), req); err != nil || strings.Contains(body, `"token":"a/guest/`) != (want == codes.OK) {
			t.Errorf("%s over HTTP: %v: %s", who, err, body)
		}
	}
	admin := meshv1.NewIdentityServiceClient(over(t, m, stranger, "secret-of-tenant-admin"))
	for field, req := range map[string]*meshv1.InviteAgentRequest{
		"name": {Name: "No Name"}, "valid": {Name: "x", Valid: durationpb.New(8 * 24 * time.Hour)}, "hosts": {Name: "x", Hosts: []string{"*.example.com"}},
	} {
		if _, err := admin.InviteAgent(plain(t), req); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	plainMesh := start(t, config(t.TempDir()), map[string]run{"main": echo})
	if _, err := meshv1.NewIdentityServiceClient(plainMesh.conn).InviteAgent(plain(t), &meshv1.InviteAgentRequest{Name: "guest"}); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("a mesh without TLS: %v", err)
	}
}

func TestACertificateIsRenewedByWhoHasIt(t *testing.T) {
	m := encrypted(t, map[string]run{"main": echo})
	first, dir := joined(t, m, "guest")
	renew := func(s *transport.Source) error {
		_, csr, err := transport.Request()
		if err != nil {
			t.Fatal(err)
		}
		_, err = meshv1.NewIdentityServiceClient(over(t, m, s, "")).RenewCertificate(plain(t), &meshv1.RenewCertificateRequest{Csr: csr})
		return err
	}
	if err := renew(first); err != nil {
		t.Error(err)
	}
	if err := renew(believing(t, m, transport.Options{})); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("without a certificate: %v", err)
	}
	elsewhere, _ := joined(t, encrypted(t, map[string]run{"main": echo}), "guest")
	stranger := func() *tls.Config { c := first.Client(); c.Certificates = elsewhere.Client().Certificates; return c }
	conn := dialed(t, mesh.SecureScheme+m.GRPC, rpc.DialOptions{TLS: stranger})
	if _, err := meshv1.NewIdentityServiceClient(conn).RenewCertificate(plain(t), &meshv1.RenewCertificateRequest{}); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("with a certificate of another mesh: %v", err)
	}

	// At half its life the agent renews it by itself.
	was := first.Leaf()
	late := transport.Identity(dir)
	late.Now = func() time.Time { return time.Now().Add(13 * time.Hour) }
	s, err := transport.New(late)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	dial := func() (*grpc.ClientConn, error) {
		return rpc.Dial(mesh.SecureScheme+m.Any().GRPC, rpc.DialOptions{TLS: first.Client})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		meshclient.KeepIdentity(ctx, dial, s, dir, slog.New(slog.DiscardHandler))
	}()
	for s.Leaf().Equal(was) && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	<-done
	if id := s.Leaf().URIs[0].String(); id != was.URIs[0].String() || s.Leaf().Equal(was) {
		t.Errorf("the next one is of %s", id)
	}

	invite(t, m, &meshv1.InviteAgentRequest{Name: "guest"})
	if err := renew(first); !mesh.IsCode(err, mesh.Denied) {
		t.Errorf("after another invitation: %v", err)
	}
}
