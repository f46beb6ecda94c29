package node_test

import (
	"crypto/tls"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/transport"
)

// shouters serves the agent of others over gRPC and JSON-RPC, with a certificate of the
// authority for the host, and returns the interfaces.
func shouters(t *testing.T, a *transport.Authority, host string) []*a2apb.AgentInterface {
	t.Helper()
	key, _, err := transport.Request()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := a.Issue(key.Public(), transport.Leaf{ID: mesh.AgentID{}.SPIFFE("agents.test"), Hosts: []string{host}})
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf}, PrivateKey: key}}, MinVersion: tls.VersionTLS13}
	handler := a2asrv.NewHandler(shouter{})
	web := httptest.NewUnstartedServer(a2asrv.NewJSONRPCHandler(handler))
	web.TLS = config
	web.StartTLS()
	t.Cleanup(web.Close)
	l := rpctest.Listen(t)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	a2agrpc.NewHandler(handler).RegisterWith(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return []*a2apb.AgentInterface{
		{Url: mesh.SecureScheme + l.Addr().String(), ProtocolBinding: "GRPC", ProtocolVersion: "1.0"},
		{Url: "https://" + l.Addr().String(), ProtocolBinding: "GRPC", ProtocolVersion: "1.0"},
		{Url: web.URL, ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"},
	}
}

// finding T8: agents of others are called over TLS, by whichever of its schemes their
// cards have, if their certificate is of their host and of somebody who is believed.
func TestAgentsAreCalledOverTLS(t *testing.T) {
	believed, err := transport.OpenAuthority(filepath.Join(t.TempDir(), "a"), "agents.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := transport.OpenAuthority(filepath.Join(t.TempDir(), "b"), "agents.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"none", "tokens"} {
		cfg := config(t.TempDir())
		cfg.TLS.CA = believed.Path()
		if mode == "tokens" {
			cfg.Auth, cfg.Tokens, cfg.Egress.Allow = "tokens", adminsFile(t), []string{"127.0.0.0/8"}
		}
		m := start(t, cfg, map[string]run{"main": echo})
		for name, at := range map[string][]*a2apb.AgentInterface{
			"": shouters(t, believed, "127.0.0.1"), "a wrong name": shouters(t, believed, "127.0.0.2"), "an unknown authority": shouters(t, unknown, "127.0.0.1"),
		} {
			for i, in := range at {
				shouter := fmt.Sprintf("shouter-%d-%d", len(name), i)
				c := card("shouter")
				c.Capabilities.Extensions, c.SupportedInterfaces = nil, []*a2apb.AgentInterface{in}
				if _, err := meshv1.NewRegistryServiceClient(m.raw(t)).RegisterAgent(as(plain(t), "a"), &meshv1.RegisterAgentRequest{Name: shouter, Card: c}); err != nil {
					t.Fatal(in.GetUrl(), err)
				}
				stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(as(plain(t), "a", "agent", shouter), say("hello"))
				said := hear(t, stream, err)
				if good := name == ""; good != (said.text == "HELLO!") || !good && said.state != a2apb.TaskState_TASK_STATE_FAILED {
					t.Errorf("%s, %s, %s: %q, %v %v", mode, name, in.GetUrl(), said.text, said.state, said.status)
				}
			}
		}
	}
}

// finding T8: all that a tenant's card names must be allowed, also without TLS.
func TestEveryInterfaceOfATenantsCardPassesTheEgressCheck(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.Egress = "tokens", adminsFile(t), node.Egress{Allow: []string{"127.0.0.0/8", "agents.internal"}}
	m := start(t, cfg, map[string]run{"main": echo})
	good := shouters(t, func() *transport.Authority {
		a, err := transport.OpenAuthority(t.TempDir(), "agents.test", nil)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}(), "127.0.0.1")[2]
	for url, says := range map[string]string{
		"http://agents.internal/rpc":      "without TLS",
		"http://agents.example.com/rpc":   "without TLS",
		"https://10.0.0.1/rpc":            "a private network",
		"https://169.254.169.254/latest/": "metadata",
		"https://agents.internal/rpc":     "",
		"http://127.0.0.1:9/rpc":          "",
	} {
		c := card("guest")
		c.SupportedInterfaces = []*a2apb.AgentInterface{good, {Url: url, ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"}}
		_, err := meshv1.NewRegistryServiceClient(m.raw(t)).RegisterAgent(as(plain(t), "a"), &meshv1.RegisterAgentRequest{Card: c})
		if (err == nil) != (says == "") || err != nil && (!strings.Contains(err.Error(), says) || mesh.FieldOf(rpc.FromStatus(err)) != "card.supportedInterfaces[1].url" || !strings.Contains(err.Error(), url)) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, endpoint := range []string{"agents.internal:7000", "8.8.8.8:7000"} {
		_, err := meshv1.NewRegistryServiceClient(m.raw(t)).RegisterAgent(as(plain(t), "a"), &meshv1.RegisterAgentRequest{Card: card("guest"), Endpoint: endpoint})
		if mesh.FieldOf(rpc.FromStatus(err)) != "endpoint" || !strings.Contains(err.Error(), "without TLS") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
