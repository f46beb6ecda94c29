package node

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/bind/v03"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/oidc"
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
	// MainAway says that the default tenant knows no agent of the name of that which
	// answers new conversations.
	MainAway bool
	// SharedTasks says that the default tenant has to-dos that all its users share.
	SharedTasks bool
}

// face is the mesh's own agent card, to the outside one agent, without its
// skills, which are those of the agents that a tenant may use, and with the media types of a
// mesh whose main agent is away.
func (n *node) face() *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name:                "agentmesh",
		Description:         "A mesh of agents behind one endpoint. It answers itself, asks other agents, or hands the conversation over to a specialist.",
		Version:             Version,
		SupportedInterfaces: n.interfaces(),
		Capabilities:        n.capabilities(),
		DefaultInputModes:   append([]string{"text/plain"}, n.cfg.Voice.takes()...), DefaultOutputModes: []string{"text/plain"},
		SecuritySchemes:      n.schemes(),
		SecurityRequirements: n.requirements(),
	}
}

// schemes say how callers prove who they are: by a bearer token and, of providers, where
// to get one, or by a certificate.
func (n *node) schemes() map[string]*a2apb.SecurityScheme {
	if n.cfg.Auth == authNone {
		return nil
	}
	all := map[string]*a2apb.SecurityScheme{}
	if n.cfg.Auth != authMTLS {
		all["bearer"] = &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_HttpAuthSecurityScheme{
			HttpAuthSecurityScheme: &a2apb.HTTPAuthSecurityScheme{Scheme: "Bearer", Description: "A token that the operator or a provider issued."}}}
	}
	if n.cfg.Auth.has(authMTLS) {
		all["mtls"] = &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_MtlsSecurityScheme{
			MtlsSecurityScheme: &a2apb.MutualTlsSecurityScheme{Description: "A certificate that the operator knows."}}}
	}
	for i, p := range n.cfg.OIDC {
		all[providerScheme(i)] = &a2apb.SecurityScheme{Scheme: &a2apb.SecurityScheme_OpenIdConnectSecurityScheme{
			OpenIdConnectSecurityScheme: &a2apb.OpenIdConnectSecurityScheme{OpenIdConnectUrl: strings.TrimSuffix(p.Issuer, "/") + "/.well-known/openid-configuration",
				Description: "An access token of this provider, for the audience " + p.Audience + "."}}}
	}
	return all
}

// requirements say that one of the schemes will do. But for a certificate all are met by the
// same header; the first is the one that most clients can meet.
func (n *node) requirements() []*a2apb.SecurityRequirement {
	if n.cfg.Auth == authNone {
		return nil
	}
	need := func(scheme string) *a2apb.SecurityRequirement {
		return &a2apb.SecurityRequirement{Schemes: map[string]*a2apb.StringList{scheme: {}}}
	}
	var all []*a2apb.SecurityRequirement
	if n.cfg.Auth != authMTLS {
		all = append(all, need("bearer"))
	}
	for i := range n.cfg.OIDC {
		all = append(all, need(providerScheme(i)))
	}
	if n.cfg.Auth.has(authMTLS) {
		all = append(all, need("mtls"))
	}
	return all
}

// resource says to clients over HTTP how to log in; nil where nobody has to.
func (n *node) resource() *rest.Resource {
	if n.cfg.Auth == authNone {
		return nil
	}
	return &rest.Resource{URL: n.publicHTTP(), Issuers: oidc.Names(n.cfg.OIDC)}
}

// providerScheme is the name of the scheme of the i-th provider.
func providerScheme(i int) string {
	if i == 0 {
		return "oidc"
	}
	return "oidc" + strconv.Itoa(i+1)
}

// interfaces are the bindings that the mesh's cards name, those of v1.0 before those of
// v0.3; without a choice of the operator's JSON-RPC is first of these, as its clients
// prefer it.
func (n *node) interfaces() (all []*a2apb.AgentInterface) {
	chosen := n.cfg.Cards.Bindings
	for _, v := range []struct {
		version string
		usual   []string
	}{{"1.0", []string{registry.BindingGRPC, registry.BindingREST, registry.BindingJSONRPC}}, {v03.Version, []string{registry.BindingJSONRPC, registry.BindingREST, registry.BindingGRPC}}} {
		names := v.usual
		if len(chosen) > 0 {
			names = chosen
		}
		for _, name := range names {
			at := n.publicHTTP()
			if name == registry.BindingGRPC {
				at = n.publicGRPC()
			}
			all = append(all, &a2apb.AgentInterface{Url: at, ProtocolBinding: name, ProtocolVersion: v.version})
		}
	}
	return all
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
	if n.cfg.Auth != authNone {
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
