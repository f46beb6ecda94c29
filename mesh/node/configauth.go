package node

import (
	"net"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"agentmesh/mesh"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/oidc"
)

// Modes are ways in which callers prove who they are: one, or several with commas
// between them. In a file they may be a list.
type Modes string

// The modes.
const (
	authNone   = "none"
	authTokens = "tokens"
	authOIDC   = "oidc"
	authMTLS   = "mtls"
)

// UnmarshalYAML reads a text or a list of texts.
func (m *Modes) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return n.Decode((*string)(m))
	}
	var all []string
	err := n.Decode(&all)
	*m = Modes(strings.Join(all, ","))
	return err
}

func (m Modes) list() []string { return strings.Split(string(m), ",") }

func (m Modes) has(mode string) bool { return slices.Contains(m.list(), mode) }

// tidy is each mode once, without spaces.
func (m Modes) tidy() Modes {
	var all []string
	for _, mode := range m.list() {
		if mode = strings.TrimSpace(mode); !slices.Contains(all, mode) {
			all = append(all, mode)
		}
	}
	return Modes(strings.Join(all, ","))
}

// trusts reports whether the operator trusts the tenant's agent of that name.
func (c *Config) trusts(tenant mesh.TenantID, name string) bool {
	return c.Auth == authNone || slices.Contains(c.TrustedAgents, string(tenant)+"/"+name)
}

// checkAuth checks who may call, and who sees what.
func (c *Config) checkAuth() error {
	const op = "node.Config"
	switch v := &c.Threads.Visibility; *v {
	case "":
		*v = visiblePrivate
	case visiblePrivate, visibleTenant:
	default:
		return mesh.InvalidField(op, "threads.visibility", "must be %s or %s, and is %q", visiblePrivate, visibleTenant, mesh.Clip(*v, 48))
	}
	for _, of := range c.TrustedAgents {
		tenant, name, _ := strings.Cut(of, "/")
		if mesh.TenantID(tenant).Validate() != nil || !mesh.ValidAgentName(name) {
			return mesh.InvalidField(op, "trusted_agents", "must be TENANT/NAME, and one is %q", mesh.Clip(of, 48))
		}
	}
	return first(c.checkModes, c.checkNone, c.checkOpen)
}

// checkModes checks how callers prove who they are.
func (c *Config) checkModes() error {
	modes := c.Auth.list()
	for _, m := range modes {
		if !slices.Contains([]string{authNone, authTokens, authOIDC, authMTLS}, m) {
			return invalid("auth", "must be none, or a list of tokens, oidc and mtls, and has %q", mesh.Clip(m, 48))
		}
	}
	switch {
	case c.Auth.has(authNone) && len(modes) > 1:
		return invalid("auth", "is %s; nobody is asked for more where none will do: leave none out, or the others", mesh.Clip(string(c.Auth), 48))
	case c.Auth.has(authTokens) && c.Tokens == "":
		return invalid("tokens", "is missing; name the file of hashed tokens, or use auth: none on this machine alone")
	case !c.Auth.has(authTokens) && c.Tokens != "":
		return invalid("auth", "is %s, so that nobody is asked for one of the tokens in %s; set auth: tokens, or leave tokens out", c.Auth, c.Tokens)
	case c.Auth.has(authOIDC) && len(c.OIDC) == 0:
		return invalid("oidc", "is missing; list the providers that are believed")
	case !c.Auth.has(authOIDC) && len(c.OIDC) > 0:
		return invalid("auth", "is %s, so that nobody is asked for a token of a provider in oidc; add oidc, or leave that out", c.Auth)
	}
	if field, why := oidc.Check(c.OIDC); why != "" {
		return invalid("oidc."+field, "%s", why)
	}
	return c.checkMTLS()
}

// checkMTLS checks who is known by a certificate.
func (c *Config) checkMTLS() error {
	switch on := c.Auth.has(authMTLS); {
	case on && len(c.MTLS) == 0:
		return invalid("mtls", "is missing; list whose certificates are known")
	case !on && len(c.MTLS) > 0:
		return invalid("auth", "is %s, so that nobody is known by a certificate in mtls; add mtls, or leave that out", c.Auth)
	case on && (!c.TLS.On() || c.TLS.ClientCA == ""):
		return invalid("tls.client_ca", "is missing; name the PEM file of who issues the certificates in mtls, and set tls.mode or tls.cert")
	case on && c.TLS.ClientAuth == "none":
		return invalid("tls.client_auth", "is none, so that no certificate is asked for; set request or require")
	}
	if field, why := auth.CheckCertificates(c.MTLS); why != "" {
		return invalid("mtls."+field, "%s", why)
	}
	return nil
}

// checkNone refuses to be open to a network where nobody says who they are.
func (c *Config) checkNone() error {
	if c.Auth != authNone {
		return nil
	}
	for _, a := range []struct{ field, addr string }{{"grpc", c.GRPC}, {"http", c.HTTP}} {
		if host, _, err := net.SplitHostPort(a.addr); err != nil || !loopback(host) {
			return invalid(a.field, "%s can be reached from other machines, and nobody has to say who they are; set auth: tokens, or listen on 127.0.0.1", a.addr)
		}
	}
	return nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
