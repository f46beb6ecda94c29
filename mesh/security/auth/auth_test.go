package auth_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/grant"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	thread = "550e8400-e29b-41d4-a716-446655440000"
	exec   = mesh.ExecutionID("550e8400e29b41d4a716446655440000-0123456789abcdef")
	other  = mesh.ExecutionID("550e8400e29b41d4a716446655440000-fedcba9876543210")
)

func signer(t *testing.T, seed byte) *grant.Signer {
	t.Helper()
	s, err := grant.NewSigner(bytes.Repeat([]byte{seed}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func verifier(t *testing.T) *grant.Verifier {
	t.Helper()
	v, err := grant.NewVerifier(signer(t, 1).Public(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func granted() mesh.Grant {
	return mesh.Grant{Tenant: "acme", User: "alice", Thread: thread, Execution: exec, Agent: "mail",
		Chain: []mesh.Actor{{Agent: "main"}, {Agent: "mail"}}, Expires: time.Now().Add(time.Hour).Unix()}
}

const tokenFile = `
- name: alice-laptop
  hash: HASH-A
  tenant: acme
  user: alice
  permissions: [chat, agents]
- {name: umbrella-bot, hash: HASH-B, tenant: umbrella, user: bot, permissions: [chat]}
- name: ops
  hash: HASH-O
  tenant: acme
  user: ops
  permissions: [operator]
`

// write puts a token file with the hashes of a, b and o into a new folder.
func write(t *testing.T, content string) string {
	t.Helper()
	for _, token := range []string{"A", "B", "O"} {
		content = string(bytes.ReplaceAll([]byte(content), []byte("HASH-"+token), []byte(auth.Hash("token-"+token))))
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func tokens(t *testing.T) rpc.Authenticator {
	t.Helper()
	a, err := auth.LoadTokens(write(t, tokenFile), verifier(t))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// modes are those of a node, by name.
func modes(t *testing.T) map[string]rpc.Authenticator {
	return map[string]rpc.Authenticator{"none": auth.None(verifier(t)), "tokens": tokens(t)}
}

// proofs are the two of an agent, by their keys in the metadata, and the modes that take
// them.
func proofs(t *testing.T, g mesh.Grant) map[string]struct {
	token string
	modes map[string]rpc.Authenticator
} {
	both, s := modes(t), signer(t, 1)
	all := maps.Clone(both)
	all["ticket only"] = auth.TicketOnly(verifier(t), "")
	return map[string]struct {
		token string
		modes map[string]rpc.Authenticator
	}{"mesh-grant": {s.Issue(g), both}, "mesh-ticket": {s.Ticket(g, time.Now()), all}}
}

// whoAmI is a server that answers with the Principal it sees.
type whoAmI struct {
	a2apb.UnimplementedA2AServiceServer
	seen chan mesh.Principal
}

func (w *whoAmI) GetTask(ctx context.Context, _ *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	call, _ := mesh.CallFrom(ctx)
	w.seen <- call.Principal
	return &a2apb.Task{}, nil
}

// caller returns a function that calls a server in the mode, with the metadata.
func caller(t *testing.T, mode rpc.Authenticator) func(md ...string) (mesh.Principal, error) {
	t.Helper()
	l := rpctest.Listen(t)
	srv := rpc.NewServer(rpc.Options{Auth: mode})
	w := &whoAmI{seen: make(chan mesh.Principal, 1)}
	a2apb.RegisterA2AServiceServer(srv, w)
	done := make(chan error)
	go func() { done <- srv.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it served, in a short test
			t.Errorf("Serve: %v", err)
		}
	})
	c := a2apb.NewA2AServiceClient(conn)
	return func(md ...string) (mesh.Principal, error) {
		if _, err := c.GetTask(metadata.AppendToOutgoingContext(t.Context(), md...), &a2apb.GetTaskRequest{}); err != nil {
			return mesh.Principal{}, rpc.FromStatus(err)
		}
		return <-w.seen, nil
	}
}

func TestUnderNoneACallerIsWhoItSays(t *testing.T) {
	call := caller(t, auth.None(verifier(t)))
	everything := []mesh.Role{mesh.RoleOperator}
	for name, tt := range map[string]struct {
		md   []string
		want mesh.Principal
	}{
		"and somebody local if it says nothing": {nil, mesh.Principal{Tenant: "default", User: "local", Roles: everything}},
		"whatever it says":                      {[]string{"tenant-id", "acme", "user-id", "alice"}, mesh.Principal{Tenant: "acme", User: "alice", Roles: everything}},
		"and tokens are not looked at":          {[]string{"authorization", "Basic x"}, mesh.Principal{Tenant: "default", User: "local", Roles: everything}},
	} {
		got, err := call(tt.md...)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestUnderTokensACallerIsWhoseTokenItHas(t *testing.T) {
	call := caller(t, tokens(t))
	alice := mesh.Principal{Tenant: "acme", User: "alice", Roles: []mesh.Role{mesh.RoleAgentPublisher, mesh.RoleUser}, Credential: "token:alice-laptop"}
	bot := mesh.Principal{Tenant: "umbrella", User: "bot", Roles: []mesh.Role{mesh.RoleUser}, Credential: "token:umbrella-bot"}
	ops := mesh.Principal{Tenant: "acme", User: "ops", Roles: []mesh.Role{mesh.RoleOperator}, Credential: "token:ops"}
	opsElsewhere := mesh.Principal{Tenant: "umbrella", User: "bot", Roles: ops.Roles, Credential: "token:ops", ImpersonatedBy: "acme/ops"}
	for name, tt := range map[string]struct {
		md   []string
		want mesh.Principal
	}{
		"alice":                      {[]string{"authorization", "Bearer token-A"}, alice},
		"the scheme in another case": {[]string{"authorization", "bEARER  token-A "}, alice},
		"alice, who says so":         {[]string{"authorization", "Bearer token-A", "tenant-id", "acme", "user-id", "alice"}, alice},
		"a program":                  {[]string{"authorization", "Bearer token-B"}, bot},
		"the operator":               {[]string{"authorization", "Bearer token-O"}, ops},
		"the operator for others":    {[]string{"authorization", "Bearer token-O", "tenant-id", "umbrella", "user-id", "bot"}, opsElsewhere},
	} {
		got, err := call(tt.md...)
		if got.Ended == nil || got.Ended.Err() != nil {
			t.Errorf("%s: the token has ended: %v", name, got.Ended)
		}
		got.Ended = nil
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestUnderTokensNobodyGetsInWithoutOne(t *testing.T) {
	call := caller(t, tokens(t))
	for name, md := range map[string][]string{
		"no token":       nil,
		"only a claim":   {"tenant-id", "acme", "user-id", "alice"},
		"another scheme": {"authorization", "Basic token-A"},
		"no scheme":      {"authorization", "token-A"},
		"a bare scheme":  {"authorization", "Bearer "},
		"a wrong token":  {"authorization", "Bearer token-X"},
		"the hash":       {"authorization", "Bearer " + auth.Hash("token-A")},
		"a prefix":       {"authorization", "Bearer token-"},
	} {
		_, err := call(md...)
		if !mesh.IsCode(err, mesh.Unauthenticated) || !bytes.Contains([]byte(mesh.DetailOf(err)), []byte("scheme Bearer")) {
			t.Errorf("%s: %v, want unauthenticated with a challenge", name, err)
		}
	}
}

// S4-014, S4-052: the answer does not tell whether another tenant exists.
func TestAnotherTenantIsRefusedWhetherItExistsOrNot(t *testing.T) {
	call := caller(t, tokens(t))
	var answers []string
	for _, tenant := range []string{"umbrella", "nobody-has-this"} {
		_, err := call("authorization", "Bearer token-A", "tenant-id", tenant)
		if !mesh.IsCode(err, mesh.Denied) {
			t.Errorf("%s: %v, want denied", tenant, err)
		}
		answers = append(answers, status.Convert(rpc.ToStatus(err)).Proto().String())
	}
	if answers[0] != answers[1] {
		t.Errorf("the answers differ:\n%s\n%s", answers[0], answers[1])
	}
	if _, err := call("authorization", "Bearer token-A", "user-id", "bob"); !mesh.IsCode(err, mesh.Denied) {
		t.Errorf("another user: %v, want denied", err)
	}
}

func TestAGrantWinsInEveryMode(t *testing.T) {
	g := granted()
	want := mesh.Principal{Tenant: "acme", User: "alice", Grant: &g}
	for key, proof := range proofs(t, g) {
		for name, mode := range proof.modes {
			t.Run(key+"/"+name, func(t *testing.T) {
				call := caller(t, mode)
				for _, md := range [][]string{
					{key, proof.token},
					{key, proof.token, "authorization", "Bearer token-B"},
					{key, proof.token, "tenant-id", "acme", "user-id", "alice", "thread-id", thread, "execution-id", string(exec)},
				} {
					got, err := call(md...)
					if err == nil {
						got.Grant.ID = "" // of a ticket
					}
					want.Ticket = key == "mesh-ticket"
					if diff := cmp.Diff(want, got); err != nil || diff != "" {
						t.Errorf("%v\n%s", err, diff)
					}
				}
			})
		}
	}
}

// S4-013, S4-014, S4-052: in every mode.
func TestWhatDisagreesWithAGrantIsRefused(t *testing.T) {
	s := signer(t, 1)
	old := granted()
	old.Expires = time.Now().Add(-time.Second).Unix()
	for key, proof := range proofs(t, granted()) {
		made := map[string]func(*grant.Signer, mesh.Grant) string{
			"mesh-grant":  (*grant.Signer).Issue,
			"mesh-ticket": func(s *grant.Signer, g mesh.Grant) string { return s.Ticket(g, time.Now()) },
		}
		token, foreign, over := proof.token, made[key](signer(t, 2), granted()), made[key](s, old)
		wrong := map[string]string{"mesh-grant": "mesh-ticket", "mesh-ticket": "mesh-grant"}[key]
		tests := map[string]struct {
			md   []string
			code mesh.Code
			says string
		}{
			"another tenant":        {[]string{key, token, "tenant-id", "umbrella"}, mesh.Denied, "tenant-id must be the tenant of the grant"},
			"another thread":        {[]string{key, token, "thread-id", mesh.NewThreadID()}, mesh.NotFound, "Thread not found for tenant"},
			"another user":          {[]string{key, token, "user-id", "bob"}, mesh.Denied, "user-id must be"},
			"another execution":     {[]string{key, token, "execution-id", string(other)}, mesh.Denied, "execution-id must be"},
			"another signer":        {[]string{key, foreign}, mesh.Unauthenticated, "did not sign it"},
			"no token at all":       {[]string{key, "x", "authorization", "Bearer token-A"}, mesh.Unauthenticated, "did not sign it"},
			"a grant that is over":  {[]string{key, over}, mesh.Unauthenticated, "expired at"},
			"a grant that is empty": {[]string{key, ""}, mesh.Invalid, "must not be empty"},
			"the other kind":        {[]string{key, made[wrong](s, granted())}, mesh.Unauthenticated, "did not sign it"},
		}
		for mode, a := range proof.modes {
			call := caller(t, a)
			for name, tt := range tests {
				t.Run(key+"/"+mode+"/"+name, func(t *testing.T) {
					_, err := call(tt.md...)
					if !mesh.IsCode(err, tt.code) || !bytes.Contains([]byte(mesh.DetailOf(err)), []byte(tt.says)) {
						t.Errorf("got %v, want %v saying %q", err, tt.code, tt.says)
					}
					if tt.code == mesh.NotFound && mesh.FieldOf(err) != "thread-id" { // as the caller named it
						t.Errorf("it is about %q", mesh.FieldOf(err))
					}
				})
			}
		}
	}
	for name, mode := range modes(t) {
		_, err := caller(t, mode)("mesh-grant", s.Issue(granted()), "mesh-ticket", s.Ticket(granted(), time.Now()))
		if !mesh.IsCode(err, mesh.Denied) {
			t.Errorf("both at once, under %s: %v", name, err)
		}
	}
}

func TestWithoutAVerifierGrantsAreRefused(t *testing.T) {
	byToken, err := auth.LoadTokens(write(t, tokenFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	token := signer(t, 1).Ticket(granted(), time.Now())
	for name, mode := range map[string]rpc.Authenticator{"none": auth.None(nil), "tokens": byToken, "ticket only": auth.TicketOnly(nil, "")} {
		if p, err := mode.Authenticate(t.Context(), rpc.Credentials{Ticket: token, Authorization: "Bearer token-A"}); !mesh.IsCode(err, mesh.Unauthenticated) {
			t.Errorf("%s: %+v, %v; want unauthenticated", name, p, err)
		}
	}
}

// part of T2: a ticket is for the agent that it names, and is of no use at another one.
func TestATicketIsForItsAgent(t *testing.T) {
	token := signer(t, 1).Ticket(granted(), time.Now()) // of mail
	for name, ok := range map[string]bool{"mail": true, "": true, "worker": false, "Mail": false} {
		p, err := caller(t, auth.TicketOnly(verifier(t), name))("mesh-ticket", token)
		if ok && (err != nil || p.Grant.Agent != "mail") || !ok && (!mesh.IsCode(err, mesh.Denied) || mesh.FieldOf(err) != "mesh-ticket") {
			t.Errorf("at %q: %+v, %v", name, p, err)
		}
	}
}

func TestAnAgentsServerIsForTheMeshOnly(t *testing.T) {
	call := caller(t, auth.TicketOnly(verifier(t), ""))
	for name, md := range map[string][]string{
		"nobody": nil, "a user": {"authorization", "Bearer token-A"}, "a claim": {"tenant-id", "acme", "thread-id", thread},
	} {
		var e *mesh.Error
		if _, err := call(md...); !errors.As(err, &e) || e.Code != mesh.Unauthenticated || e.Field != "mesh-ticket" {
			t.Errorf("%s: %+v, want unauthenticated for mesh-ticket", name, e)
		}
	}
}
