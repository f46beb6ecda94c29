package node_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/transport"
)

// believing is a side that believes the mesh with tls: auto.
func believing(t testing.TB, m *testMesh, o transport.Options) *transport.Source {
	t.Helper()
	o.CA = m.CA
	s, err := transport.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// holder is a side with a certificate of the mesh's authority.
func holder(t testing.TB, m *testMesh) *transport.Source {
	t.Helper()
	a, err := transport.OpenAuthority(filepath.Dir(m.CA), "agentmesh", nil)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := transport.Request()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := a.Issue(key.Public(), transport.Leaf{ID: mesh.AgentID{Tenant: "default", Name: "client"}.SPIFFE("agentmesh")})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := transport.SaveIdentity(dir, key, leaf, a.Bundle()); err != nil {
		t.Fatal(err)
	}
	s, err := transport.New(transport.Identity(dir))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// dialed is a connection to a node.
func dialed(t testing.TB, at string, o rpc.DialOptions) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.Dial(at, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// asked makes a request of HTTP, and returns the protocol and what came.
func asked(config *tls.Config, req *http.Request) (string, string, error) {
	tr := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.Proto, string(body), err
}

// finding T8, its first half: with tls: auto both ports speak TLS and nothing else, also
// to the node itself and its agents.
func TestAMeshSpeaksTLSOnBothPorts(t *testing.T) {
	for _, demand := range []string{"request", "require"} {
		cfg := config(t.TempDir())
		cfg.TLS = node.TLS{Mode: node.TLSAuto, ClientAuth: demand}
		m := start(t, cfg, map[string]run{"main": recall})
		for who, side := range map[string]*transport.Source{"a stranger": believing(t, m, transport.Options{}), "a holder": holder(t, m)} {
			stream, err := a2apb.NewA2AServiceClient(dialed(t, mesh.SecureScheme+m.GRPC, rpc.DialOptions{TLS: side.Client})).SendStreamingMessage(plain(t), say("hello"))
			post, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+m.HTTP+"/message:stream", strings.NewReader(fmt.Sprintf(v1Body, mesh.NewEventID(), "hello")))
			post.Header.Set("Content-Type", "application/json")
			proto, body, webErr := asked(side.Client(), post)
			if demand == "require" && who == "a stranger" {
				if err == nil {
					_, err = stream.Recv()
				}
				if err == nil || webErr == nil {
					t.Errorf("without a certificate: %v, %v", err, webErr)
				}
				continue
			}
			if said := hear(t, stream, err); !strings.Contains(said.text, "user: hello") {
				t.Errorf("%s, %s, over gRPC: %q", demand, who, said.text)
			}
			if webErr != nil || proto != "HTTP/2.0" || !strings.Contains(body, "TASK_STATE_COMPLETED") {
				t.Errorf("%s, %s, over HTTP: %s, %v: %s", demand, who, proto, webErr, body)
			}
		}
		if _, err := a2apb.NewA2AServiceClient(dialed(t, m.GRPC, rpc.DialOptions{})).ListTasks(plain(t), &a2apb.ListTasksRequest{}); err == nil {
			t.Error("gRPC is spoken in clear")
		}
		open, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+m.HTTP+"/healthz", http.NoBody)
		if _, body, err := asked(nil, open); err == nil && !strings.Contains(body, "HTTP request to an HTTPS server") {
			t.Errorf("HTTP is spoken in clear: %s", body)
		}
		card, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+m.HTTP+ownCard, http.NoBody)
		if _, body, err := asked(holder(t, m).Client(), card); err != nil || !bytes.Contains([]byte(body), []byte(`"https://`+m.HTTP+`"`)) || !strings.Contains(body, `"https://`+m.GRPC+`"`) {
			t.Errorf("the card: %v: %s", err, body)
		}
	}
}

func TestSettingsOfTLSThatCannotHoldAreNamed(t *testing.T) {
	open := node.Config{GRPC: "0.0.0.0:7420", Auth: "tokens", Tokens: "t"}
	with := func(c node.Config, t node.TLS) node.Config { c.TLS = t; return c }
	for _, tt := range []struct {
		field string
		cfg   node.Config
		words string
	}{
		{"tls", open, "set tls: auto, or tls.cert and tls.key, or tls: off"},
		{"tls", node.Config{HTTP: ":7480", Auth: "tokens", Tokens: "t"}, ":7480 (http)"},
		{"tls.mode", with(open, node.TLS{Mode: "maybe"}), "off, auto or files"},
		{"tls.key", with(open, node.TLS{Cert: "c"}), "PEM file"},
		{"tls.cert", with(open, node.TLS{Key: "k"}), "PEM file"},
		{"tls.cert", with(open, node.TLS{Mode: "auto", Cert: "c", Key: "k"}), "leave one of them out"},
		{"tls.client_ca", with(open, node.TLS{Mode: "off", ClientCA: "c"}), "without TLS"},
		{"tls.client_auth", with(open, node.TLS{Mode: "auto", ClientAuth: "always"}), "none, request or require"},
		{"tls.domain", with(open, node.TLS{Mode: "auto", Domain: "a/b"}), "mesh.example.com"},
		{"grpc", node.Config{GRPC: "0.0.0.0:7420", TLS: node.TLS{Mode: "auto"}}, "auth: tokens"},
	} {
		if err := tt.cfg.Fill(); mesh.FieldOf(err) != tt.field || !strings.Contains(mesh.DetailOf(err), tt.words) {
			t.Errorf("%+v: %v", tt.cfg.TLS, err)
		}
	}
	for _, good := range []node.Config{with(open, node.TLS{Mode: "off"}), with(open, node.TLS{Mode: "auto"}), with(open, node.TLS{Cert: "c", Key: "k"}), {}} {
		if err := good.Fill(); err != nil {
			t.Errorf("%+v: %v", good.TLS, err)
		}
	}
}

func TestTLSIsReadFromAFileAsAModeOrFields(t *testing.T) {
	for text, want := range map[string]node.TLS{
		"tls: auto\n": {Mode: "auto"},
		"tls: off\n":  {Mode: "off"},
		"tls: {cert: /c, key: /k, client_auth: none}": {Cert: "/c", Key: "/k", ClientAuth: "none"},
	} {
		if c, err := node.LoadConfig(settingsFile(t, text)); err != nil || c.TLS != want {
			t.Errorf("%s: %+v, %v", text, c.TLS, err)
		}
	}
	if _, err := node.LoadConfig(settingsFile(t, "tls: {crt: /c}\n")); err == nil || !strings.Contains(mesh.DetailOf(err), "crt") {
		t.Errorf("an unknown field: %v", err)
	}
}

func settingsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
