package api

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/authz"
	"agentmesh/mesh/security/credentials"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// callers are who may call in these tests, by user name.
var callers = map[string]mesh.Principal{
	"alice":    {Tenant: "acme", Roles: []mesh.Role{mesh.RoleAgentPublisher, mesh.RoleUser, mesh.RoleSkillAuthor}},
	"reader":   {Tenant: "acme", Roles: []mesh.Role{mesh.RoleUser}},
	"bob":      {Tenant: "globex", Roles: []mesh.Role{mesh.RoleAgentPublisher, mesh.RoleUser, mesh.RoleSkillAuthor}},
	"root":     {Tenant: "ops", Roles: []mesh.Role{mesh.RoleOperator}},
	"mailer":   granted("acme", "mailer", "mail.send", "calendar.*"),
	"mailer-b": granted("globex", "mailer", "mail.send", "calendar.*"),
	"worker":   granted("acme", "worker", "*"),
	"idle":     granted("acme", "idle"),
	"breaker":  granted("acme", "breaker", "breaker.reset"),
	"hired":    hired("acme", "mailer", "mail.send"),
}

// hired is an agent that another one dispatched.
func hired(tenant mesh.TenantID, agent string, skills ...string) mesh.Principal {
	p := granted(tenant, agent, skills...)
	p.Grant.Chain = []mesh.Actor{{Agent: "main"}, {Agent: agent}}
	return p
}

func granted(tenant mesh.TenantID, agent string, skills ...string) mesh.Principal {
	return mesh.Principal{Tenant: tenant, Grant: &mesh.Grant{Tenant: tenant, Agent: agent, Skills: skills}}
}

type byName struct{}

func (byName) Authenticate(_ context.Context, c rpc.Credentials) (mesh.Principal, error) {
	p, ok := callers[c.User]
	if !ok {
		return p, mesh.Errorf(mesh.Unauthenticated, "byName", "say who you are")
	}
	p.User = c.User
	return p, nil
}

// as returns a context for calls of the user.
func as(t *testing.T, user string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{User: user}})
}

// A node is the services of this package on a port of its own.
type node struct {
	agents  *registry.Registry
	library *skill.Library
	dir     string // of the shared skills
	tenants string // has a folder for each tenant
	runner  *runner
	kv      *state.KV

	registry meshv1.RegistryServiceClient
	state    meshv1.StateServiceClient
	skills   meshv1.SkillServiceClient
}

const shipped = "---\nname: mail.send\ndescription: Sends a mail.\nhandler: mail.send\ntags: [mail]\n---\n# mail.send\n\nSends.\n"

func serve(t *testing.T) *node {
	t.Helper()
	home := t.TempDir()
	n := &node{dir: filepath.Join(home, "skills"), tenants: filepath.Join(home, "tenants"), runner: new(runner), kv: state.New(mem.Open())}
	writeFile(t, filepath.Join(n.dir, "mail", "send.md"), shipped)
	writeFile(t, filepath.Join(n.dir, "mail", "broken.md"), "no front matter\n")
	var err error
	n.library, err = skill.OpenLibrary(skill.LibraryOptions{Folders: []string{n.dir}, TenantDir: n.tenants})
	if err != nil {
		t.Fatal(err)
	}
	n.agents, err = registry.New(t.Context(), registry.Options{
		Store: NewRegistrations(n.kv),
		Probe: func(_ context.Context, e registry.Entry) error {
			if strings.HasPrefix(e.Endpoint, "dead:") {
				return net.ErrClosed
			}
			return nil
		},
		Fetch: func(context.Context, string, *credentials.Sender) (*a2apb.AgentCard, error) {
			return card("Far Away"), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(rpc.Options{Auth: byName{}, Authorizer: roles(authz.Node())})
	meshv1.RegisterRegistryServiceServer(srv, NewRegistry(n.agents, [][]byte{[]byte("public key")}))
	meshv1.RegisterStateServiceServer(srv, NewState(n.kv, func(string) bool { return false }))
	meshv1.RegisterSkillServiceServer(srv, NewSkills(n.library, n.runner, WithBreakers(n.kv)))
	conn := start(t, srv)
	n.registry = meshv1.NewRegistryServiceClient(conn)
	n.state = meshv1.NewStateServiceClient(conn)
	n.skills = meshv1.NewSkillServiceClient(conn)
	return n
}

// start serves on a loopback port until the test ends.
func start(t *testing.T, srv *rpc.Server) *grpc.ClientConn {
	t.Helper()
	l := rpctest.Listen(t)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	conn, err := rpc.Dial(l.Addr().String(), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it began, in a short test
			t.Errorf("Serve: %v", err)
		}
	})
	return conn
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func card(name string) *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name: name, Description: "Does things.", Version: "1.0.0", Capabilities: &a2apb.AgentCapabilities{},
		SupportedInterfaces: []*a2apb.AgentInterface{{Url: "h:1", ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}},
		DefaultInputModes:   []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: "do", Name: "Do", Description: "Does it.", Tags: []string{"doing"}}},
	}
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

// roles authorizes by the table alone.
type roles authz.Table

func (r roles) Authorize(ctx context.Context, p mesh.Principal, method string, _ any) (string, error) {
	return "", authz.Table(r).Authorize(ctx, p, method)
}
