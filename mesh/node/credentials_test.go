package node_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
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
	"time"

	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2agrpc0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/security/transport"
)

// A wary agent answers those alone who prove themselves, over all bindings of HTTP on one
// listener and over gRPC on another one.
type wary struct {
	web, rpc string // addresses, with their schemes
	card     map[string]any

	mu      sync.Mutex
	knows   func(h http.Header, q url.Values) bool
	refused int
}

func (w *wary) admits(h http.Header, q url.Values) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok := w.knows == nil || w.knows(h, q)
	if !ok {
		w.refused++
	}
	return ok
}

func (w *wary) know(f func(h http.Header, q url.Values) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.knows = f
}

// metadataOf is a call's metadata as HTTP has headers.
func metadataOf(ctx context.Context) (http.Header, url.Values) {
	md, _ := metadata.FromIncomingContext(ctx)
	h, q := http.Header{}, url.Values{}
	for key, values := range md {
		h[http.CanonicalHeaderKey(key)], q[key] = values, values
	}
	return h, q
}

// guarding serves the agent of others behind f. Its card is at /card, for everybody, and at
// /secret/card behind f. config makes it want certificates.
func guarding(t *testing.T, config *tls.Config, f func(h http.Header, q url.Values) bool) *wary {
	t.Helper()
	w := &wary{knows: f}
	handler := a2asrv.NewHandler(shouter{})
	mux := http.NewServeMux()
	mux.Handle("/1.0/rpc", a2asrv.NewJSONRPCHandler(handler))
	mux.Handle("/1.0/", http.StripPrefix("/1.0", a2asrv.NewRESTHandler(handler)))
	mux.Handle("/0.3/rpc", a2av0.NewJSONRPCHandler(handler))
	mux.Handle("/0.3/", http.StripPrefix("/0.3", a2av0.NewRESTHandler(handler)))
	mux.HandleFunc("/secret/card", func(rw http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(rw).Encode(w.card) })
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.admits(r.Header, r.URL.Query()) {
			http.Error(rw, fmt.Sprintf("who is %v %v?", r.Header, r.URL), http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(rw, r)
	}))
	opts := []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if h, q := metadataOf(ctx); !w.admits(h, q) {
				return nil, status.Errorf(codes.Unauthenticated, "who is %v?", h)
			}
			return next(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if h, q := metadataOf(s.Context()); !w.admits(h, q) {
				return status.Errorf(codes.Unauthenticated, "who is %v?", h)
			}
			return next(srv, s)
		}),
	}
	scheme := ""
	if web.TLS = config; config != nil {
		web.StartTLS()
		scheme, opts = mesh.SecureScheme, append(opts, grpc.Creds(credentials.NewTLS(config)))
	} else {
		web.Start()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(opts...)
	a2agrpc.NewHandler(handler).RegisterWith(server)
	a2agrpc0.NewHandler(handler).RegisterWith(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() { web.CloseClientConnections(); web.Close(); server.Stop(); <-done })
	w.web, w.rpc = web.URL, scheme+l.Addr().String()
	return w
}

// publish serves the card until the test ends, for everybody.
func publish(t *testing.T, card map[string]any) string {
	t.Helper()
	return publishing(t, func() map[string]any { return card })
}

// publishing serves the card that there is.
func publishing(t *testing.T, card func() map[string]any) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(card()) }))
	t.Cleanup(s.Close)
	return s.URL
}

// described is the agent's card for a binding of a version, which requires the scheme.
func (w *wary) described(name, binding, version, scheme string, v1, v03 map[string]any) map[string]any {
	at := map[string]string{"GRPC": w.rpc, "JSONRPC": w.web + "/" + version + "/rpc", "HTTP+JSON": w.web + "/" + version}[binding]
	c := cardJSON(card(name))
	c["name"] = name
	delete(c, "supportedInterfaces")
	if version == "1.0" {
		c["supportedInterfaces"] = []any{map[string]any{"url": at, "protocolBinding": binding, "protocolVersion": version}}
		c["securitySchemes"] = map[string]any{scheme: v1}
		c["securityRequirements"] = []any{map[string]any{"schemes": map[string]any{scheme: map[string]any{"list": []string{}}}}}
	} else {
		c["url"], c["preferredTransport"], c["protocolVersion"] = at, binding, "0.3.0"
		c["securitySchemes"] = map[string]any{scheme: v03}
		c["security"] = []any{map[string]any{scheme: []string{}}}
	}
	w.card = c
	return c
}

// issuing is a token endpoint that knows one client, and gives a new token each time.
type issuing struct {
	at string

	mu     sync.Mutex
	tokens []string
}

func issuer(t *testing.T, id, secret string) *issuing {
	t.Helper()
	i := &issuing{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		if user != id || password != secret || r.FormValue("grant_type") != "client_credentials" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"error":"invalid_client","error_description":%q}`, user+password)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.tokens = append(i.tokens, fmt.Sprintf("access-%s-%d", secret, len(i.tokens)))
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":3600}`, i.tokens[len(i.tokens)-1])
	}))
	t.Cleanup(s.Close)
	i.at = s.URL + "/token"
	return i
}

func (i *issuing) issued() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.tokens)
}

// last reports whether it is the token that was issued last.
func (i *issuing) last(bearer string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.tokens) > 0 && bearer == "Bearer "+i.tokens[len(i.tokens)-1]
}

// A manner is how an agent wants to be called: how cards say so, and what is right and wrong.
type manner struct {
	v1, v03      map[string]any
	right, wrong string
	knows        func(h http.Header, q url.Values) bool
	config       *tls.Config
}

const hidden = "planted-Sesame-4711"

func manners(t *testing.T, a *transport.Authority) map[string]manner {
	tokens := issuer(t, "mesh", hidden)
	key := func(in string) map[string]any { return map[string]any{"type": "apiKey", "in": in, "name": "X-Key"} }
	newKey := func(in string) map[string]any {
		return map[string]any{"apiKeySecurityScheme": map[string]any{"location": in, "name": "X-Key"}}
	}
	flows := map[string]any{"clientCredentials": map[string]any{"tokenUrl": tokens.at, "scopes": map[string]any{}}}
	either := func(h http.Header, q url.Values) bool { // gRPC has no queries
		return q.Get("X-Key") == hidden || h.Get("X-Key") == hidden
	}
	return map[string]manner{
		"bearer": {v1: map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "Bearer"}}, v03: map[string]any{"type": "http", "scheme": "bearer"},
			right: hidden, wrong: "other", knows: func(h http.Header, _ url.Values) bool { return h.Get("Authorization") == "Bearer "+hidden }},
		"basic": {v1: map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "basic"}}, v03: map[string]any{"type": "http", "scheme": "Basic"},
			right: "mesh:" + hidden, wrong: "mesh:other", knows: func(h http.Header, _ url.Values) bool {
				user, password, ok := (&http.Request{Header: h}).BasicAuth()
				return ok && user == "mesh" && password == hidden
			}},
		"header": {v1: newKey("header"), v03: key("header"), right: hidden, wrong: "other", knows: func(h http.Header, _ url.Values) bool { return h.Get("X-Key") == hidden }},
		"query":  {v1: newKey("query"), v03: key("query"), right: hidden, wrong: "other", knows: either},
		"cookie": {v1: newKey("cookie"), v03: key("cookie"), right: hidden, wrong: "other", knows: func(h http.Header, _ url.Values) bool {
			c, err := (&http.Request{Header: h}).Cookie("X-Key")
			return err == nil && c.Value == hidden
		}},
		"oauth": {v1: map[string]any{"oauth2SecurityScheme": map[string]any{"flows": flows}}, v03: map[string]any{"type": "oauth2", "flows": flows},
			right: "mesh:" + hidden, wrong: "mesh:other", knows: func(h http.Header, _ url.Values) bool { return tokens.last(h.Get("Authorization")) }},
		"mtls": {v1: map[string]any{"mtlsSecurityScheme": map[string]any{}}, v03: map[string]any{"type": "mutualTLS"},
			right: clientPEM(t, a, "mesh"), wrong: clientPEM(t, strangers(t), "mesh"), config: wantingCertificates(t, a)},
	}
}

func strangers(t *testing.T) *transport.Authority {
	t.Helper()
	a, err := transport.OpenAuthority(filepath.Join(t.TempDir(), "ca"), "strangers.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// leaf is a certificate of the authority with its key.
func leaf(t *testing.T, a *transport.Authority, host string) tls.Certificate {
	t.Helper()
	key, _, err := transport.Request()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Issue(key.Public(), transport.Leaf{ID: mesh.AgentID{}.SPIFFE("agents.test"), Hosts: []string{host}})
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key}
}

func clientPEM(t *testing.T, a *transport.Authority, name string) string {
	t.Helper()
	c := leaf(t, a, name)
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
}

func wantingCertificates(t *testing.T, a *transport.Authority) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	for _, c := range a.Roots() {
		pool.AddCert(c)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{leaf(t, a, "127.0.0.1")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
}

// told says something to the agent and returns what came of it.
func (m *testMesh) told(t *testing.T, agent string) (text, reason string) {
	t.Helper()
	ctx := in(t, mesh.NewThreadID())
	call, _ := mesh.CallFrom(ctx)
	call.Agent = agent
	stream, err := m.edge().SendStreamingMessage(mesh.WithCall(ctx, call), say("hello"))
	s := hear(t, stream, err)
	for _, r := range s.all {
		if said := r.GetStatusUpdate().GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["reason"].GetStringValue(); said != "" {
			reason = said
		}
	}
	return s.text, reason
}

// set gives the agent's credentials, and waits until all nodes know.
func (m *testMesh) set(t *testing.T, agent string, given ...*meshv1.AgentCredential) (*meshv1.Agent, error) {
	t.Helper()
	resp, err := meshv1.NewRegistryServiceClient(m.conn).SetAgentCredentials(in(t, mesh.NewThreadID()), &meshv1.SetAgentCredentialsRequest{Name: agent, Credentials: given})
	for _, conn := range m.conn {
		if _, err := meshv1.NewRegistryServiceClient(conn).GetAgent(in(t, mesh.NewThreadID()), &meshv1.GetAgentRequest{Name: agent}); err != nil {
			t.Error(err)
		}
	}
	return resp.GetAgent(), err
}

// awaitLive waits until all nodes call the agent.
func (m *testMesh) awaitLive(t *testing.T, agent string) {
	t.Helper()
	for _, conn := range m.conn {
		for deadline := time.Now().Add(20 * time.Second); ; {
			resp, err := meshv1.NewRegistryServiceClient(conn).GetAgent(in(t, mesh.NewThreadID()), &meshv1.GetAgentRequest{Name: agent})
			if err == nil && resp.GetAgent().GetLive() {
				break
			}
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("%s is not live: %v, %v", agent, resp, err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func warnedOf(a *meshv1.Agent, field string) string {
	for _, w := range a.GetWarnings() {
		if w.GetField() == field {
			return w.GetText()
		}
	}
	return ""
}

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
	for name, next := range map[string]map[string]any{
		"agent":          moved.described("taker", "HTTP+JSON", "1.0", "idp", scheme(tokens.at), nil),
		"token endpoint": w.described("taker", "HTTP+JSON", "1.0", "idp", scheme(other.at), nil),
	} {
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
