package node_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
)

// Whoever asks for the agent card has proved nothing: S4-052 holds for it too.
func TestTheAgentCardShowsNoTenantsAgentsToStrangers(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	cfg.Egress.Allow = []string{"127.0.0.1"}
	m := start(t, cfg, map[string]run{"main": echo})
	_, err := meshv1.NewRegistryServiceClient(raw(t, m.GRPC)).RegisterAgent(as(plain(t), "a"), &meshv1.RegisterAgentRequest{
		Name: "secret", Card: card("secret"), Endpoint: m.HTTP})
	if err != nil {
		t.Fatal(err)
	}
	if text := fetchCard(t, m.HTTP, "a"); strings.Contains(text, "secret") || !strings.Contains(text, "The main") {
		t.Errorf("the card is %s", text)
	}

	// Where nobody proves anything, a tenant is who says so.
	m = start(t, config(t.TempDir()), map[string]run{"main": echo})
	ctx := mesh.WithCall(plain(t), mesh.Call{Principal: mesh.Principal{Tenant: "a"}})
	_, err = meshv1.NewRegistryServiceClient(m.conn).RegisterAgent(ctx, &meshv1.RegisterAgentRequest{
		Name: "secret", Card: card("secret"), Endpoint: m.HTTP})
	if err != nil {
		t.Fatal(err)
	}
	if text := fetchCard(t, m.HTTP, "a"); !strings.Contains(text, "secret") {
		t.Errorf("the card is %s", text)
	}
}

// A browser that was tricked into calling this machine by another name gets
// nothing while nobody has to say who they are (DNS rebinding).
func TestAnOpenMeshAnswersToTheNamesOfThisMachineOnly(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	_, port, err := net.SplitHostPort(m.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	for host, code := range map[string]int{"localhost:" + port: 200, "127.0.0.1": 200, "[::1]:" + port: 200, "evil.example:" + port: 421, "localhost.evil.example": 421} {
		resp, text := fetch(t, m.HTTP, func(r *http.Request) { r.Host = host })
		if resp.StatusCode != code || resp.Header.Get("Content-Type") != "application/json" || !json.Valid([]byte(text)) {
			t.Errorf("called as %s, it answers %d %q: %s", host, resp.StatusCode, resp.Header.Get("Content-Type"), text)
		}
	}
}

// fetchCard gets the agent card as somebody who says that they are of the
// tenant.
func fetchCard(t *testing.T, addr, tenant string) string {
	t.Helper()
	_, text := fetch(t, addr, func(r *http.Request) { r.Header.Set("tenant-id", tenant) })
	return text
}

func fetch(t *testing.T, addr string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/.well-known/agent-card.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	change(req)
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// What a process left in the data folder that was killed while it wrote a key goes at the
// next start, also beside the keys of the authority.
func TestAStartSweepsWhatADeathLeft(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.TLS.Mode = node.TLSAuto
	var left []string
	for _, dir := range []string{cfg.Data, filepath.Join(cfg.Data, "tls")} {
		file := filepath.Join(dir, ".key-4711")
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = os.WriteFile(file, []byte("half a ke"), 0o600)
		}
		if err == nil {
			err = os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour))
		}
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, file)
	}
	stop := errors.New("stop")
	err := node.Run(t.Context(), cfg, node.Options{Backend: datafolder.Opener(nil),
		Builtins: []node.Builtin{{Name: "main", New: func(node.Env) (agent.Agent, error) { return nil, stop }}}})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	for _, file := range left {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there still: %v", file, err)
		}
	}
}
