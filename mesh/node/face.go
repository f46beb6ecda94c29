package node

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Addresses are where the node listens.
type Addresses struct {
	GRPC, HTTP string
	// Problems are skill files that could not be loaded.
	Problems []skill.Problem
	// CA is the file of the certificate authority that clients have to believe; "" where
	// the node's certificate is not its own.
	CA string
	// Interrupted is how many turns an earlier process left unfinished.
	Interrupted int
}

// face is the mesh's own agent card, to the outside one agent, without its
// skills, which are those of the agents that a tenant may use.
func (n *node) face() *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name:                "agentmesh",
		Description:         "A mesh of agents behind one endpoint. It answers itself, asks other agents, or hands the conversation over to a specialist.",
		Version:             Version,
		SupportedInterfaces: n.interfaces(),
		Capabilities: &a2apb.AgentCapabilities{
			Streaming: proto.Bool(true), PushNotifications: proto.Bool(true), ExtendedAgentCard: proto.Bool(true),
			Extensions: []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI,
				Description: "Cursors to resume streams from, progress of the agents at work, and handoffs."}},
		},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
	}
}

// interfaces are the bindings that the mesh serves, those of v1.0 before those
// of v0.3, of which JSON-RPC comes first as its clients prefer it.
func (n *node) interfaces() []*a2apb.AgentInterface {
	grpc, web := n.publicGRPC(), n.publicHTTP()
	return []*a2apb.AgentInterface{
		{Url: grpc, ProtocolBinding: "GRPC", ProtocolVersion: "1.0"},
		{Url: web, ProtocolBinding: "HTTP+JSON", ProtocolVersion: "1.0"},
		{Url: web, ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"},
		{Url: web, ProtocolBinding: "JSONRPC", ProtocolVersion: "0.3"},
		{Url: web, ProtocolBinding: "HTTP+JSON", ProtocolVersion: "0.3"},
		{Url: grpc, ProtocolBinding: "GRPC", ProtocolVersion: "0.3"},
	}
}

// publicGRPC is the address of the gRPC server for clients.
func (n *node) publicGRPC() string {
	at := n.grpcL.Addr().String()
	if n.cfg.TLS.On() {
		at = "https://" + at
	}
	return cmp.Or(n.cfg.Public.GRPC, at)
}

// publicHTTP is the URL of the gateway for clients, without a slash at its end.
func (n *node) publicHTTP() string {
	scheme := "http://"
	if n.cfg.TLS.On() {
		scheme = "https://"
	}
	return strings.TrimSuffix(cmp.Or(n.cfg.Public.HTTP, scheme+n.httpL.Addr().String()), "/")
}

func distinct(words []string) []string {
	seen := map[string]bool{}
	out := []string{}
	for _, w := range words {
		if !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

// healthy reports whether the store answers.
func (n *node) healthy(ctx context.Context) error {
	_, err := n.backend.Threads.Threads(ctx, mesh.DefaultTenant, 0, 1)
	return err
}

const otherHost = `{"error":{"code":421,"status":"FAILED_PRECONDITION","message":"This mesh serves its own machine only; ` +
	`call it as 127.0.0.1 or localhost, or set auth: tokens","details":[]}}` + "\n"

// guardHost refuses requests that a browser was tricked into sending here by
// another name (DNS rebinding), while nobody has to say who they are.
func (n *node) guardHost(next http.Handler) http.Handler {
	if n.cfg.Auth != "none" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if !loopback(strings.Trim(host, "[]")) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusMisdirectedRequest)
			_, _ = io.WriteString(w, otherHost) // whoever is not there needs no answer
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Version is the version of this program.
const Version = "0.1.0"
