package node_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"sync"
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
	"agentmesh/mesh/rpc/rpctest"
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
	l := rpctest.Listen(t)
	server := grpc.NewServer(opts...)
	a2agrpc.NewHandler(handler).RegisterWith(server)
	a2agrpc0.NewHandler(handler).RegisterWith(server)
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) }) // until it is stopped
	t.Cleanup(func() { web.CloseClientConnections(); web.Close(); server.Stop(); served.Wait() })
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
		for deadline := time.Now().Add(time.Minute); ; {
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
