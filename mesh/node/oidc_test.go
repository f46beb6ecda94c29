package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"agentmesh/mesh/agent"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/node"
	"agentmesh/mesh/security/oidc"
	"agentmesh/mesh/security/oidc/oidctest"
)

// providers has the mesh believe the provider, for the tenant acme, beside the tokens of
// a file.
func providers(t *testing.T, p *oidctest.Provider) node.Config {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.MCP.Offer = "tokens, oidc", userTokens(t), true
	cfg.OIDC = []oidc.Issuer{{Issuer: p.URL, Audience: oidctest.Audience, Tenant: "acme", UserPrefix: "corp:",
		RolesClaim: "groups", Roles: map[string][]string{"admins": {"tenant-admin"}}, DefaultRoles: []string{"user"}}}
	return cfg
}

func header(token string) []string { return []string{"authorization", "Bearer " + token} }

// finding P1: whoever has a token of a provider that the mesh believes gets in through
// every door, and with one that does not count through none. Nothing is begun for those,
// and the log says once that they came, without what they sent.
func TestEveryFaceTakesTheTokensOfAProvider(t *testing.T) {
	p, other := oidctest.Start(t), oidctest.Start(t)
	log := new(logbuffer.Buffer)
	var begun tally
	m := start(t, providers(t, p), map[string]run{"main": begun.counting(echo)},
		func(o *node.Options) {
			o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))
		})
	off := func(d time.Duration) map[string]any {
		now := time.Now().Add(d)
		return map[string]any{"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(30 * time.Minute).Unix()}
	}
	unknown := p.Key(jose.ES256)
	unknown.KeyID = "nobody's"
	good, claims := p.Token("alice", nil), p.Claims("alice", nil)
	const no = "UNAUTHENTICATED"
	tests := map[string]struct {
		headers []string
		want    string
	}{
		"one that counts":               {header(good), "OK"},
		"a clock that is off a little":  {header(p.Token("alice", off(50*time.Second))), "OK"},
		"a clock that is an hour ahead": {header(p.Token("alice", off(time.Hour))), no},
		"expired":                       {header(p.Token("alice", off(-time.Hour))), no},
		"another audience":              {header(p.Token("alice", map[string]any{"aud": "shop"})), no},
		"another issuer":                {header(other.Token("alice", nil)), no},
		"another algorithm":             {header(p.Sign(jose.ES256, "logout+jwt", claims)), no},
		"a shared secret":               {header(oidctest.Sign(t, jose.HS256, bytes.Repeat([]byte("k"), 32), "JWT", claims)), no},
		"none":                          {header("eyJhbGciOiJub25lIn0." + strings.Split(good, ".")[1] + "."), no},
		"an unknown key":                {header(oidctest.Sign(t, jose.ES256, unknown, "JWT", claims)), no},
		"of another tenant":             {append(header(good), "tenant-id", "umbrella"), "PERMISSION_DENIED"},
		"of another user":               {append(header(good), "user-id", "alice"), "PERMISSION_DENIED"},
		"too long":                      {header(strings.Repeat("x", 40<<10)), "INVALID_ARGUMENT"},
		"two of them":                   {append(header(good), header(good)...), "INVALID_ARGUMENT"},
	}
	want := 0
	for name, tt := range tests {
		for face, send := range faces() {
			got := send(t, m, "hello", tt.headers)
			if name == "an unknown key" && got == "UNAVAILABLE, later" { // for keys are fetched
				got = no
			}
			if got != tt.want {
				t.Errorf("%s, %s: %s, want %s", name, face, got, tt.want)
			}
			if tt.want == "OK" {
				want++
			}
		}
		resp, answer := post(t, m, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, append(tt.headers, "Accept", "application/json, text/event-stream")...)
		codes := map[string]int{"OK": http.StatusOK, no: http.StatusUnauthorized, "PERMISSION_DENIED": http.StatusForbidden, "INVALID_ARGUMENT": http.StatusBadRequest}
		if resp.StatusCode != codes[tt.want] && !(name == "an unknown key" && resp.StatusCode == http.StatusServiceUnavailable) {
			t.Errorf("%s, MCP: %d %s", name, resp.StatusCode, answer)
		}
	}
	if n := begun.n.Load(); n != int64(want) {
		t.Errorf("%d turns were begun, want %d", n, want)
	}
	if n := strings.Count(log.String(), "log-in failed"); n < 1 || n > 2 { // of this machine, over IPv4 and in the process
		t.Errorf("%d lines say that log-ins failed", n)
	}
	if strings.Contains(log.String(), strings.Split(good, ".")[1]) {
		t.Error("a token is in the log")
	}
	if got := faces()["REST"](t, m, "hello", bearer(userOf("REST"))); got != "OK" {
		t.Errorf("a token of the file: %s", got)
	}
}

// A provider that is gone while the mesh starts keeps nobody else out, and its users are
// told to come again, until it is there.
func TestEveryFaceWaitsForAProviderThatIsGone(t *testing.T) {
	p := oidctest.Start(t)
	p.AnswerKeys(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	m := start(t, providers(t, p), map[string]run{"main": echo})
	token := p.Token("alice", nil)
	for face, send := range faces() {
		if got := send(t, m, "hello", header(token)); got != "UNAVAILABLE, later" {
			t.Errorf("%s: %s", face, got)
		}
	}
	if got := faces()["REST"](t, m, "hello", bearer(userOf("REST"))); got != "OK" {
		t.Errorf("a token of the file: %s", got)
	}
	p.AnswerKeys(nil)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		got := faces()["REST"](t, m, "hello", header(token))
		if got == "OK" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the provider is there again: %s", got)
		}
	}
}

func TestSettingsOfLogInByProviders(t *testing.T) {
	for name, tt := range map[string]struct{ yaml, says string }{
		"a list":        {"auth: [tokens, oidc]\ntokens: t.yaml\noidc:\n- {issuer: https://id.example.com, audience: mesh, tenant: acme, default_roles: [user]}\n", ""},
		"one":           {"auth: oidc\noidc:\n- {issuer: https://id.example.com, audience: mesh, tenant: acme, default_roles: [user]}\n", ""},
		"none and more": {"auth: [none, tokens]\ntokens: t.yaml\n", "leave none out"},
		"no provider":   {"auth: oidc\n", "list the providers"},
		"not asked for": {"auth: tokens\ntokens: t.yaml\noidc:\n- {issuer: https://id.example.com}\n", "add oidc"},
		"a mistake":     {"auth: oidc\noidc:\n- {issuer: https://id.example.com, tenant: acme}\n", "audience"},
		"an unknown":    {"auth: [tokens, magic]\ntokens: t.yaml\n", "magic"},
		"a field":       {"auth: oidc\noidc:\n- {isuer: x}\n", "isuer"},
	} {
		path := filepath.Join(t.TempDir(), "mesh.yaml")
		if err := os.WriteFile(path, []byte(tt.yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := node.LoadConfig(path)
		if err == nil {
			err = cfg.Fill()
		}
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(fmt.Sprint(err), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A tally counts how often an agent was asked.
type tally struct{ n atomic.Int64 }

func (c *tally) counting(do run) run {
	return func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		c.n.Add(1)
		return do(ctx, inv)
	}
}

// A client of MCP that has no credential finds out where it gets one (RFC 9728).
func TestCardsOfTheResourceSayHowToLogIn(t *testing.T) {
	p := oidctest.Start(t)
	m := start(t, providers(t, p), map[string]run{"main": echo})
	resp, _ := post(t, m, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	_, where, ok := strings.Cut(resp.Header.Get("WWW-Authenticate"), `Bearer resource_metadata="`)
	if where = strings.TrimSuffix(where, `"`); resp.StatusCode != http.StatusUnauthorized || !ok {
		t.Fatalf("%d %q", resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
	}
	base := "http://" + m.web()
	for at, resource := range map[string]string{where: base + "/mcp", base + "/.well-known/oauth-protected-resource": base} {
		var got struct {
			Resource string
			Servers  []string `json:"authorization_servers"`
		}
		resp, err := http.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(resp.Body).Decode(&got)
		if _ = resp.Body.Close(); err != nil || got.Resource != resource || len(got.Servers) != 1 || got.Servers[0] != p.URL {
			t.Errorf("%s: %+v, %v", at, got, err)
		}
	}
	open := start(t, config(t.TempDir()), map[string]run{"main": echo})
	if resp, err := http.Get("http://" + open.web() + "/.well-known/oauth-protected-resource/mcp"); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("where nobody logs in: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
}
