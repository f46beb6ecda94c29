package node_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/text/texttest"
)

// finding N5: agents that want credentials of any kind, over any binding and version, are
// called with them; what is wrong or missing is said at once and with the cause, and what
// was given stays over a restart. It is nowhere in clear.
func TestAgentsAreCalledWithTheirCredentials(t *testing.T) {
	a := strangers(t)
	cfg := config(t.TempDir())
	cfg.TLS.CA = a.Path()
	m := start(t, cfg, map[string]run{"main": echo})
	agents := meshv1.NewRegistryServiceClient(m.conn)
	all := map[string]manner{}
	for kind, way := range manners(t, a) {
		w := guarding(t, way.config, way.knows)
		for _, version := range []string{"1.0", "0.3"} {
			for _, binding := range []string{"GRPC", "JSONRPC", "HTTP+JSON"} {
				name := strings.ToLower(strings.NewReplacer("+", "-", ".", "-").Replace(kind + "-" + binding + "-" + version))
				at := publish(t, w.described(name, binding, version, "the-"+kind, way.v1, way.v03))
				added, err := agents.RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{CardUrl: at})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if said := warnedOf(added.GetAgent(), "card.securityRequirements"); !strings.Contains(said, "the-"+kind+"=env:") {
					t.Errorf("%s: warned of %v", name, added.GetAgent().GetWarnings())
				}
				wanted := []string{"AGENT_NEEDS_CREDENTIALS"}
				if kind == "mtls" { // there is no connection then
					wanted = []string{mesh.ReasonUnavailable, "AGENT_ERROR"}
				}
				if text, reason := m.told(t, name); text != "" || !slices.Contains(wanted, reason) {
					t.Errorf("%s without: %q, %s", name, text, reason)
				}
				if _, err := m.set(t, name, &meshv1.AgentCredential{Scheme: "the-" + kind, Value: way.wrong}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if text, reason := m.told(t, name); text != "" || !slices.Contains(wanted, reason) {
					t.Errorf("%s with what is wrong: %q, %s", name, text, reason)
				}
				is, err := m.set(t, name, &meshv1.AgentCredential{Scheme: "the-" + kind, Value: way.right})
				if err != nil || warnedOf(is, "card.securityRequirements") != "" || len(is.GetCredentials()) != 1 || is.GetCredentials()[0].GetKind() == "" {
					t.Errorf("%s: set to %v, %v", name, is, err)
				}
				if text, reason := m.told(t, name); text != "HELLO!" {
					t.Errorf("%s with what is right: %q, %s", name, text, reason)
				}
				all[name] = way
			}
		}
	}
	list, err := agents.ListAgents(in(t, mesh.NewThreadID()), &meshv1.ListAgentsRequest{})
	if err != nil || strings.Contains(list.String(), hidden) {
		t.Errorf("the list shows what is secret: %v", err)
	}
	m.Stop()
	nowhere(t, cfg.Data, hidden)
	m = start(t, cfg, map[string]run{"main": echo})
	for name := range all {
		m.awaitLive(t, name)
		if text, reason := m.told(t, name); text != "HELLO!" {
			t.Errorf("%s after a restart: %q, %s", name, text, reason)
		}
	}
}

// nowhere fails for a file of the folder that has the text.
func nowhere(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			t.Errorf("%s has it in clear", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// finding N5: a card that is itself protected is fetched with what is given by kind or place,
// which stays when the agent is added again without, and goes with the agent.
func TestAProtectedCardIsFetchedWithCredentials(t *testing.T) {
	texttest.Fixed(t) // what to do is said
	for scheme, knows := range map[string]func(h http.Header, q url.Values) bool{
		"bearer":           func(h http.Header, _ url.Values) bool { return h.Get("Authorization") == "Bearer "+hidden },
		"header:X-Api-Key": func(h http.Header, _ url.Values) bool { return h.Get("X-Api-Key") == hidden },
		"query:key":        func(_ http.Header, q url.Values) bool { return q.Get("key") == hidden },
	} {
		w := guarding(t, nil, knows)
		w.described("graph", "JSONRPC", "1.0", "", nil, nil)
		delete(w.card, "securitySchemes") // as servers are that say nothing of it
		delete(w.card, "securityRequirements")
		m := start(t, config(t.TempDir()), map[string]run{"main": echo})
		agents := meshv1.NewRegistryServiceClient(m.conn)
		add := func(given ...*meshv1.AgentCredential) (*meshv1.RegisterAgentResponse, error) {
			return agents.RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{Name: "graph", CardUrl: w.web + "/secret/card", Credentials: given})
		}
		right := &meshv1.AgentCredential{Scheme: scheme, Value: hidden + "\n"}
		if _, err := add(); err == nil || !strings.Contains(err.Error(), "--credential") {
			t.Errorf("%s: without: %v", scheme, err)
		}
		if _, err := add(&meshv1.AgentCredential{Scheme: scheme, Value: "other"}); err == nil || strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: with what is wrong: %v", scheme, err)
		}
		for _, given := range [][]*meshv1.AgentCredential{{right}, nil} {
			if got, err := add(given...); err != nil || len(got.GetAgent().GetCredentials()) != 1 {
				t.Fatalf("%s: added as %v, %v", scheme, got.GetAgent(), err)
			}
			if text, reason := m.told(t, "graph"); text != "HELLO!" {
				t.Errorf("%s: %q, %s", scheme, text, reason)
			}
		}
		if _, err := agents.DeregisterAgent(in(t, mesh.NewThreadID()), &meshv1.DeregisterAgentRequest{Name: "graph"}); err != nil {
			t.Fatal(err)
		}
		if _, err := add(); err == nil {
			t.Errorf("%s: the credentials outlive the agent", scheme)
		}
		m.Stop()
	}
}

// finding N5: a token that the agent refuses is replaced by another one, once, and otherwise
// serves all calls; neither the client's secret nor credentials follow a card to other places.
func TestTokensAreRenewedAndCredentialsFollowNoCard(t *testing.T) {
	tokens, other := issuer(t, "mesh", hidden), issuer(t, "mesh", hidden)
	w := guarding(t, nil, func(h http.Header, _ url.Values) bool { return tokens.last(h.Get("Authorization")) })
	scheme := func(at string) map[string]any {
		return map[string]any{"oauth2SecurityScheme": map[string]any{"flows": map[string]any{"clientCredentials": map[string]any{"tokenUrl": at, "scopes": map[string]any{}}}}}
	}
	var card atomic.Value
	card.Store(w.described("taker", "HTTP+JSON", "1.0", "idp", scheme(tokens.at), nil))
	at := publishing(t, func() map[string]any { return card.Load().(map[string]any) })
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	agents := meshv1.NewRegistryServiceClient(m.conn)
	right := &meshv1.AgentCredential{Scheme: "oauth2", Value: "mesh:" + hidden}
	if _, err := agents.RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{CardUrl: at, Credentials: []*meshv1.AgentCredential{right}}); err != nil {
		t.Fatal(err)
	}
	talk := func() {
		t.Helper()
		if text, reason := m.told(t, "taker"); text != "HELLO!" {
			t.Errorf("%q, %s", text, reason)
		}
	}
	for range 3 * len(m.conn) {
		talk()
	}
	if n := tokens.issued(); len(m.conn) == 1 && n != 1 {
		t.Errorf("%d tokens for many calls", n)
	}
	before := tokens.issued()
	w.know(func(h http.Header, _ url.Values) bool {
		return tokens.issued() > before && tokens.last(h.Get("Authorization"))
	})
	for range len(m.conn) {
		talk()
	}

	moved := guarding(t, nil, func(h http.Header, q url.Values) bool {
		if h.Get("Authorization") != "" {
			t.Errorf("credentials went to another origin: %v", h)
		}
		return false
	})
	cards := map[string]map[string]any{
		"agent":          moved.described("taker", "HTTP+JSON", "1.0", "idp", scheme(tokens.at), nil),
		"token endpoint": w.described("taker", "HTTP+JSON", "1.0", "idp", scheme(other.at), nil),
	}
	for _, name := range []string{"agent", "token endpoint", "agent"} {
		next := cards[name]
		card.Store(next)
		got, err := agents.RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{Name: "taker", CardUrl: at})
		said := warnedOf(got.GetAgent(), "card.supportedInterfaces[0].url") + warnedOf(got.GetAgent(), "card.securitySchemes")
		if err != nil || !strings.Contains(said, "give them again") {
			t.Fatalf("the %s moved: %v, %v", name, got.GetAgent(), err)
		}
		for _, conn := range m.conn {
			if _, err := meshv1.NewRegistryServiceClient(conn).GetAgent(in(t, mesh.NewThreadID()), &meshv1.GetAgentRequest{Name: "taker"}); err != nil {
				t.Error(err)
			}
		}
		if text, reason := m.told(t, "taker"); text != "" || reason != "AGENT_NEEDS_CREDENTIALS" {
			t.Errorf("the %s moved: %q, %s", name, text, reason)
		}
	}
	if n := other.issued(); n > 0 {
		t.Errorf("the client's secret went to another token endpoint, %d times", n)
	}
}

// finding N5: what redirects lead to elsewhere gets nothing, when a card is fetched and when
// an agent is called.
func TestRedirectsGetNoCredentials(t *testing.T) {
	var mu sync.Mutex
	var leaked []string
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if leaks := fmt.Sprint(r.Header, r.URL); strings.Contains(leaks, hidden) {
			leaked = append(leaked, leaks)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(thief.Close)
	for _, scheme := range []string{"bearer", "query:key", "cookie:key", "header:X-Key"} {
		asked := make(chan bool, 100)
		var server *httptest.Server
		server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/card" {
				c := cardJSON(card("lead"))
				c["supportedInterfaces"] = []any{map[string]any{"url": server.URL + "/away", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}}
				_ = json.NewEncoder(w).Encode(c)
				return
			}
			asked <- strings.Contains(fmt.Sprint(r.Header, r.URL), hidden)
			http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
		}))
		t.Cleanup(server.Close)
		m := start(t, config(t.TempDir()), map[string]run{"main": echo})
		agents := meshv1.NewRegistryServiceClient(m.conn)
		given := []*meshv1.AgentCredential{{Scheme: scheme, Value: hidden}}
		if _, err := agents.RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{Name: "lead", CardUrl: server.URL + "/elsewhere", Credentials: given}); err == nil {
			t.Error("a card was read where there is none")
		}
		if _, err := agents.RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{Name: "lead", CardUrl: server.URL + "/card", Credentials: given}); err != nil {
			t.Fatal(err)
		}
		if text, _ := m.told(t, "lead"); text != "" {
			t.Errorf("heard %q", text)
		}
		if !<-asked || !<-asked {
			t.Errorf("%s: the agent's own server did not get it", scheme)
		}
		m.Stop()
	}
	mu.Lock()
	defer mu.Unlock()
	if len(leaked) > 0 {
		t.Errorf("redirects led to: %q", leaked)
	}
}

// finding N5: what cannot be is refused with what to do, without the secret, and who may not
// register agents gives none.
func TestCredentialsThatCannotBeAreRefused(t *testing.T) {
	w := guarding(t, nil, nil)
	w.described("picky", "JSONRPC", "1.0", "key", map[string]any{"apiKeySecurityScheme": map[string]any{"location": "header", "name": "X-Key"}}, nil)
	w.card["securitySchemes"].(map[string]any)["digest"] = map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "digest"}}
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	if _, err := meshv1.NewRegistryServiceClient(m.conn).RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{CardUrl: publish(t, w.card)}); err != nil {
		t.Fatal(err)
	}
	for scheme, value := range map[string]string{
		"nothing": hidden, "oauth2": hidden, "digest": hidden, "basic": hidden, "mtls": hidden, "key": hidden + "\nX-Other: 1", "bearer": hidden + " x",
		"header:Host": hidden, "header:a b": hidden, "cookie:c": hidden + ";", "": hidden, "apiKey": "", strings.Repeat("x", 200): hidden,
	} {
		_, err := m.set(t, "picky", &meshv1.AgentCredential{Scheme: scheme, Value: value})
		if !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != "credentials" || strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
	if _, err := m.set(t, "picky", slices.Repeat([]*meshv1.AgentCredential{{Scheme: "key", Value: hidden}}, 2)...); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("twice the same: %v", err)
	}
	if _, err := m.set(t, "main", &meshv1.AgentCredential{Scheme: "bearer", Value: hidden}); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("a built-in agent: %v", err)
	}
	if is, err := m.set(t, "picky", &meshv1.AgentCredential{Scheme: "apiKey", Value: hidden}); err != nil || is.GetCredentials()[0].GetKind() != "apiKey" {
		t.Errorf("by its kind: %v, %v", is, err)
	}
	if is, err := m.set(t, "picky"); err != nil || len(is.GetCredentials()) > 0 || warnedOf(is, "card.securityRequirements") == "" {
		t.Errorf("cleared: %v, %v", is, err)
	}
}

// finding N5: the token endpoint on a tenant's card is reached only where the operator lets
// users' requests go.
func TestTokensComeThroughTheEgressGuard(t *testing.T) {
	for allowed, allow := range map[bool][]string{false: {"localhost"}, true: {"localhost", "127.0.0.1"}} {
		tokens := issuer(t, "mesh", hidden)
		w := guarding(t, nil, func(h http.Header, _ url.Values) bool { return tokens.last(h.Get("Authorization")) })
		w.web = strings.Replace(w.web, "127.0.0.1", "localhost", 1)
		at := publish(t, w.described("tenants", "JSONRPC", "1.0", "idp", map[string]any{"oauth2SecurityScheme": map[string]any{
			"flows": map[string]any{"clientCredentials": map[string]any{"tokenUrl": tokens.at, "scopes": map[string]any{}}}}}, nil))
		cfg := config(t.TempDir())
		cfg.Auth, cfg.Tokens, cfg.Egress = "tokens", adminsFile(t), node.Egress{Allow: allow, AllowHTTP: true}
		m := start(t, cfg, map[string]run{"main": echo})
		_, err := meshv1.NewRegistryServiceClient(m.raw(t)).RegisterAgent(as(plain(t), "a"), &meshv1.RegisterAgentRequest{
			CardUrl: strings.Replace(at, "127.0.0.1", "localhost", 1), Credentials: []*meshv1.AgentCredential{{Scheme: "idp", Value: "mesh:" + hidden}}})
		if err != nil {
			t.Fatal(err)
		}
		stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(as(plain(t), "a", "agent", "tenants"), say("hello"))
		if s := hear(t, stream, err); allowed != (s.text == "HELLO!") || allowed != (tokens.issued() > 0) {
			t.Errorf("allowed %v: heard %q, ended %v %v, %d tokens", allowed, s.text, s.state, s.status, tokens.issued())
		}
		m.Stop()
	}
}

// finding N5: giving credentials is recorded, with their schemes, and who may not register
// agents gives none.
func TestGivingCredentialsIsRecorded(t *testing.T) {
	w := guarding(t, nil, nil)
	at := publish(t, w.described("noted", "JSONRPC", "1.0", "b", map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "bearer"}}, nil))
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.Egress = "tokens", adminsFile(t), node.Egress{Allow: []string{"127.0.0.1"}, AllowHTTP: true}
	m := start(t, cfg, map[string]run{"main": echo})
	given := []*meshv1.AgentCredential{{Scheme: "b", Value: hidden}}
	agents := meshv1.NewRegistryServiceClient(m.raw(t))
	if _, err := agents.RegisterAgent(as(plain(t), "a"), &meshv1.RegisterAgentRequest{CardUrl: at, Credentials: given}); err != nil {
		t.Fatal(err)
	}
	if _, err := agents.SetAgentCredentials(as(plain(t), "a"), &meshv1.SetAgentCredentialsRequest{Name: "noted", Credentials: given}); err != nil {
		t.Fatal(err)
	}
	if _, err := agents.SetAgentCredentials(as(plain(t), "b"), &meshv1.SetAgentCredentialsRequest{Name: "noted", Credentials: given}); err == nil {
		t.Error("another tenant gave the agent credentials")
	}
	got, err := agents.GetAgent(as(plain(t), "b"), &meshv1.GetAgentRequest{Name: "noted"})
	if err == nil {
		t.Errorf("another tenant sees %v", got)
	}
	res, err := meshv1.NewAuditServiceClient(m.raw(t)).ListAuditRecords(as(plain(t), "admin"), &meshv1.ListAuditRecordsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var done []string
	for _, r := range res.GetRecords() {
		if r.GetDecision() == meshv1.AuditRecord_DECISION_DONE {
			done = append(done, r.GetAction()[strings.LastIndexByte(r.GetAction(), '/')+1:]+" "+r.GetResource())
		}
		if strings.Contains(r.String(), hidden) {
			t.Errorf("recorded: %v", r)
		}
	}
	for _, want := range []string{"RegisterAgent noted (credentials: b)", "SetAgentCredentials noted (credentials: b)"} {
		if !slices.Contains(done, want) {
			t.Errorf("recorded %q, not %q", done, want)
		}
	}
}
