package node

import (
	"net"
	"path/filepath"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/cards"
	"agentmesh/mesh/security/egress"
)

// Cards are choices about agent cards.
type Cards struct {
	// Mode is union (default), for clients of A2A v1.0 and v0.3, or v1.
	Mode string `yaml:"mode"`
	// Bindings are those that the mesh's cards name, in this order: some of GRPC, HTTP+JSON
	// and JSONRPC; by default all. All are served, whatever cards say.
	Bindings []string `yaml:"bindings"`
	// Verify says what becomes of a third-party card without a signature that
	// can be believed: off (default) looks at none, warn logs it, and require
	// refuses it.
	Verify string `yaml:"verify"`
	// Trust is a file with a JWK set of keys that are believed, or revoked.
	Trust string `yaml:"trust"`
	// Hosts may vouch for any card with the keys that they publish, as
	// "keys.internal:8443".
	Hosts []string `yaml:"hosts"`
}

const (
	cardKeyFile = "card.key"
	jwksPath    = "/.well-known/jwks.json"
)

// buildCards makes what signs and verifies cards.
func (n *node) buildCards() (err error) {
	c := n.cfg.Cards
	if n.keys, err = cards.LoadOrCreate(filepath.Join(n.cfg.Data, cardKeyFile), n.publicHTTP()+jwksPath); err != nil {
		return err
	}
	opts := cards.VerifierOptions{Policy: cards.Policy(c.Verify), Hosts: c.Hosts, Logger: n.logger}
	if c.Trust != "" {
		if opts.Trust, err = cards.LoadTrust(c.Trust); err != nil {
			return err
		}
	}
	allow := slices.Clone(n.cfg.Egress.Allow)
	for _, h := range c.Hosts {
		if host, _, err := net.SplitHostPort(h); err == nil {
			h = host
		}
		allow = append(allow, strings.Trim(h, "[]"))
	}
	guard, err := egress.New(egress.Options{Allow: allow})
	if err != nil {
		return mesh.Wrap("node.buildCards", err)
	}
	n.keyHosts = guard.Transport()
	opts.Transport = n.keyHosts
	n.verifyCards, err = cards.NewVerifier(opts)
	return mesh.Wrap("node.buildCards", err)
}

// fillCards sets defaults and checks the rest.
func (c *Config) fillCards() error {
	if c.Cards.Mode == "" {
		c.Cards.Mode = string(cards.Union)
	}
	if c.Cards.Verify == "" {
		c.Cards.Verify = string(cards.Off)
	}
	if err := cards.Mode(c.Cards.Mode).Valid(); err != nil {
		return mesh.InvalidField("node.Config", "cards.mode", "%s", mesh.DetailOf(err))
	}
	if !slices.Contains([]cards.Policy{cards.Off, cards.Warn, cards.Require}, cards.Policy(c.Cards.Verify)) {
		return mesh.InvalidField("node.Config", "cards.verify", "must be off, warn or require, and is %q", c.Cards.Verify)
	}
	if c.Cards.Verify == string(cards.Off) && (c.Cards.Trust != "" || len(c.Cards.Hosts) > 0) {
		return mesh.InvalidField("node.Config", "cards.verify", "is off, so that nobody looks at cards.trust and cards.hosts; set warn or require, or leave those out")
	}
	return c.checkBindings()
}

// checkBindings checks which bindings cards name. One of HTTP has to be among them: agents
// have no address for gRPC of their own.
func (c *Config) checkBindings() error {
	const field = "cards.bindings"
	all := c.Cards.Bindings
	for i, b := range all {
		if !slices.Contains([]string{registry.BindingGRPC, registry.BindingREST, registry.BindingJSONRPC}, b) {
			return invalid(field, "must name some of %s, %s and %s, and has %q", registry.BindingGRPC, registry.BindingREST, registry.BindingJSONRPC, mesh.Clip(b, 48))
		}
		if slices.Contains(all[:i], b) {
			return invalid(field, "has %s twice; name it once", b)
		}
	}
	if len(all) == 1 && all[0] == registry.BindingGRPC {
		return invalid(field, "must have %s or %s, as cards of single agents name no other; add one of them, or leave it out for all", registry.BindingREST, registry.BindingJSONRPC)
	}
	return nil
}
