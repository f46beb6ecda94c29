package node_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/oidc/oidctest"
	"agentmesh/mesh/security/transport"
)

// operated gives the mesh an operator, with the token of the tenant root.
func operated(t *testing.T, cfg *node.Config) {
	t.Helper()
	root := fmt.Sprintf("- {name: root, hash: %q, tenant: ops, user: root, roles: [operator]}\n", auth.Hash("secret-of-tenant-root"))
	all, err := os.ReadFile(cfg.Tokens)
	if err == nil {
		err = os.WriteFile(cfg.Tokens, append(all, root...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An alarmed mesh is one of which somebody asks whether anything is wrong.
type alarmed struct {
	*testMesh
	side *transport.Source // nil without TLS
	log  *logbuffer.Buffer
}

// health is what strangers are told by each node.
func (m alarmed) health(t *testing.T) (all []string) {
	t.Helper()
	for _, at := range m.All {
		url, tr := "http://"+at.HTTP+"/healthz", &http.Transport{}
		if m.side != nil {
			url, tr.TLSClientConfig = "https://"+at.HTTP+"/healthz", m.side.Client()
		}
		resp, err := (&http.Client{Transport: tr}).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		tr.CloseIdleConnections()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s (%v)", url, resp.Status, err)
		}
		all = append(all, strings.TrimSpace(string(body)))
	}
	return all
}

// alarms asks each node, as who has the token.
func (m alarmed) alarms(t *testing.T, token string) (all []*meshv1.Alarm, err error) {
	t.Helper()
	for _, at := range m.All {
		address, o := at.GRPC, rpc.DialOptions{Bearer: "secret-of-tenant-" + token}
		if m.side != nil {
			address, o.TLS = mesh.SecureScheme+at.GRPC, m.side.Client
		}
		conn := dialed(t, address, o)
		resp, err := meshv1.NewNodeServiceClient(conn).ListAlarms(plain(t), &meshv1.ListAlarmsRequest{})
		_ = conn.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, resp.GetAlarms()...)
	}
	return all, nil
}

// fine waits until no node knows of anything that is wrong.
func (m alarmed) fine(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		for _, got := range m.health(t) {
			if got != `{"status":"ok"}` {
				return fmt.Errorf("nothing is wrong, and health is %s", got)
			}
		}
		return nil
	})
	if all, err := m.alarms(t, "root"); err != nil || len(all) > 0 {
		t.Errorf("nothing is wrong, and the operator sees %v, %v", all, err)
	}
}

// wrong waits until all nodes tell that the setting cannot be used, and the operator why,
// with the words.
func (m alarmed) wrong(t *testing.T, setting, words string) {
	t.Helper()
	want := fmt.Sprintf(`{"status":"ok","warnings":[%q]}`, setting)
	eventually(t, func() error {
		for _, got := range m.health(t) {
			if got != want {
				return fmt.Errorf("health is %s, want %s", got, want)
			}
		}
		return nil
	})
	all, err := m.alarms(t, "root")
	if err != nil || len(all) != len(m.All) {
		t.Fatalf("the operator sees %v, %v", all, err)
	}
	for _, a := range all {
		if a.GetSetting() != setting || !strings.Contains(a.GetDetail()+a.GetOf(), words) || a.GetMeanwhile() == "" || time.Since(a.GetSince().AsTime()).Abs() > time.Hour {
			t.Errorf("the operator sees %v", a)
		}
	}
	for _, other := range []string{"a", "admin", "auditor"} {
		if _, err := m.alarms(t, other); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s asks: %v", other, err)
		}
	}
	if _, err := m.alarms(t, "nobody"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a stranger asks: %v", err)
	}
}

// told checks that the log and the record have what began and ended, each once for each
// node.
func (m alarmed) told(t *testing.T, conn meshv1.AuditServiceClient, resource string) {
	t.Helper()
	for _, words := range []string{"an alarm was raised", "an alarm is over"} {
		if n := strings.Count(m.log.String(), words); n != len(m.All) {
			t.Errorf("%d nodes logged %d times that %s", len(m.All), n, words)
		}
	}
	eventually(t, func() error {
		list, err := conn.ListAuditRecords(as(plain(t), "root"), &meshv1.ListAuditRecordsRequest{PageSize: 1000})
		if err != nil {
			return err
		}
		var acts []string
		for _, r := range list.GetRecords() {
			if strings.HasPrefix(r.GetAction(), "alarm.") {
				acts = append(acts, r.GetAction()+" "+r.GetResource())
			}
		}
		slices.Sort(acts)
		want := append(slices.Repeat([]string{"alarm.cleared " + resource}, len(m.All)), slices.Repeat([]string{"alarm.raised " + resource}, len(m.All))...)
		if !slices.Equal(acts, want) {
			return fmt.Errorf("recorded are %q, want %q", acts, want)
		}
		return nil
	})
}

// startAlarmed starts a mesh with an operator.
func startAlarmed(t *testing.T, cfg node.Config, opts ...func(*node.Options)) alarmed {
	t.Helper()
	if cfg.Tokens == "" {
		cfg.Auth, cfg.Tokens = "tokens", adminsFile(t)
	}
	operated(t, &cfg)
	log := new(logbuffer.Buffer)
	return alarmed{log: log, testMesh: start(t, cfg, map[string]run{"main": echo}, append(opts, func(o *node.Options) {
		o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	})...)}
}

// replace puts another file in the place of one.
func replace(t *testing.T, path string, text []byte) {
	t.Helper()
	err := os.WriteFile(path+".new", text, 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What cannot be read any more is told to operators, and by its name to anybody, until it
// is mended; what was read before goes on to count meanwhile.
func TestFilesThatCannotBeReadAnyMoreRaiseAlarms(t *testing.T) {
	no := []byte(`@id("not-b") forbid(principal == User::"b/ann", action == Action::"chat.send", resource);`)
	half := func(text []byte) []byte { return text[:len(text)*2/3] }
	for setting, tt := range map[string]struct {
		file  func(cfg *node.Config) string
		bad   func(good []byte) []byte
		words string
	}{
		"tokens":   {func(cfg *node.Config) string { return cfg.Tokens }, half, "tokens.yaml"},
		"policies": {func(cfg *node.Config) string { return filepath.Join(cfg.Policies, "all.cedar") }, half, "all.cedar"},
		"skills":   {func(cfg *node.Config) string { return filepath.Join(cfg.Data, "skills", "notes", "add.md") }, half, "add.md"},
	} {
		t.Run(setting, func(t *testing.T) {
			cfg := config(t.TempDir())
			cfg.Auth, cfg.Tokens, cfg.Policies = "tokens", adminsFile(t), policies(t, t.TempDir(), map[string]string{"all.cedar": string(no)})
			if err := os.MkdirAll(filepath.Join(cfg.Data, "skills", "notes"), 0o700); err != nil {
				t.Fatal(err)
			}
			replace(t, filepath.Join(cfg.Data, "skills", "notes", "add.md"), []byte("---\nname: notes.add\ndescription: Adds a note.\n---\nAdd it.\n"))
			m := startAlarmed(t, cfg)
			counts := func() { // on any node, what there was
				t.Helper()
				for range 2 * len(m.All) {
					if got := m.asks("a"); got != codes.OK {
						t.Errorf("who may: %v", got)
					}
					if got := m.asks("b"); got != codes.PermissionDenied {
						t.Errorf("whom a policy forbids it: %v", got)
					}
					if _, err := meshv1.NewSkillServiceClient(m.raw(t)).GetSkill(as(plain(t), "a"), &meshv1.GetSkillRequest{Name: "notes.add"}); err != nil {
						t.Errorf("the skill: %v", err)
					}
				}
			}
			m.fine(t)
			counts()
			path := tt.file(&cfg)
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			replace(t, path, tt.bad(good))
			m.wrong(t, setting, tt.words)
			counts()
			replace(t, path, good)
			m.fine(t)
			counts()
			m.told(t, meshv1.NewAuditServiceClient(m.raw(t)), setting)
		})
	}
}

// asks says what becomes of a message of the tenant's user.
func (m alarmed) asks(tenant string) codes.Code {
	_, err := a2apb.NewA2AServiceClient(m.raw(m.t)).SendMessage(as(plain(m.t), tenant), say("hello"))
	return status.Code(err)
}

// So is a certificate.
func TestACertificateThatCannotBeReadRaisesAnAlarm(t *testing.T) {
	dir := t.TempDir()
	a, err := transport.OpenAuthority(filepath.Join(dir, "ca"), "agentmesh", nil)
	if err != nil {
		t.Fatal(err)
	}
	issue := func() []byte {
		key, _, err := transport.Request()
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := a.Issue(key.Public(), transport.Leaf{ID: mesh.AgentID{Tenant: "ops", Name: "node"}.SPIFFE("agentmesh"), Hosts: []string{"127.0.0.1"}})
		if err == nil {
			err = transport.SaveIdentity(filepath.Join(dir, "made"), key, leaf, a.Bundle())
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(transport.Identity(filepath.Join(dir, "made")).Cert)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	cert, good := filepath.Join(dir, "node.pem"), issue()
	replace(t, cert, good)
	cfg := config(t.TempDir())
	cfg.TLS = node.TLS{Cert: cert, Key: cert}
	m := startAlarmed(t, cfg)
	if m.side, err = transport.New(transport.Options{CA: a.Path()}); err != nil {
		t.Fatal(err)
	}
	m.fine(t)
	replace(t, cert, good[:len(good)/3])
	m.wrong(t, "tls", cert)
	replace(t, cert, issue())
	m.fine(t)
	m.told(t, meshv1.NewAuditServiceClient(over(t, m.testMesh, m.side, "secret-of-tenant-root")), "tls")
}

// So is a provider that is gone, whose users go on to get in by the keys of before.
func TestAProviderThatIsGoneRaisesAnAlarm(t *testing.T) {
	p := oidctest.Start(t)
	cfg := providers(t, p)
	cfg.Tokens = adminsFile(t)
	m := startAlarmed(t, cfg)
	m.fine(t)
	conn := m.raw(t)
	unknown := p.Key("ES256")
	unknown.KeyID = "nobody's"
	stranger := oidctest.Sign(t, "ES256", unknown, "JWT", p.Claims("alice", nil))
	asked := func(at int, token string) codes.Code {
		_, err := a2apb.NewA2AServiceClient(conn[at]).SendMessage(metadata.AppendToOutgoingContext(plain(t), header(token)...), say("hello"))
		return status.Code(err)
	}
	p.AnswerKeys(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	eventually(t, func() error { // keys are fetched for one that is not known
		for at := range m.All {
			asked(at, stranger)
		}
		for _, got := range m.health(t) {
			if !strings.Contains(got, "oidc") {
				return fmt.Errorf("health is %s", got)
			}
		}
		return nil
	})
	m.wrong(t, "oidc", p.URL)
	for at := range m.All {
		if got := asked(at, p.Token("alice", nil)); got != codes.OK {
			t.Errorf("with a key of before: %v", got)
		}
	}
	p.AnswerKeys(nil)
	m.fine(t)
	m.told(t, meshv1.NewAuditServiceClient(m.raw(t)), "oidc "+p.URL)
}

// So is a second place of checkpoints that cannot be written.
func TestCheckpointsThatCannotBeKeptRaiseAnAlarm(t *testing.T) {
	cfg := config(t.TempDir())
	away := filepath.Join(t.TempDir(), "disk")
	cfg.Audit.Checkpoints = filepath.Join(away, "checkpoints")
	m := startAlarmed(t, cfg)
	m.wrong(t, "audit.checkpoints", away)
	if err := os.Mkdir(away, 0o700); err != nil {
		t.Fatal(err)
	}
	m.fine(t)
	m.told(t, meshv1.NewAuditServiceClient(m.raw(t)), "audit.checkpoints")
}
