package node

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"agentmesh/mesh"
	"agentmesh/mesh/api"
	"agentmesh/mesh/bind/v03"
	"agentmesh/mesh/call"
	"agentmesh/mesh/push"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/credentials"
	"agentmesh/mesh/security/egress"
	"agentmesh/mesh/security/seal"
)

// Egress says what the node may call on behalf of users: webhooks of push
// notifications and, unless auth is none, the URLs of agents' cards.
type Egress struct {
	// Allow names what may be called although it is not public: host names,
	// addresses and networks, as "hooks.internal" or "10.1.0.0/16".
	Allow []string `yaml:"allow"`
	// AllowHTTP allows http URLs beside https ones, and agents of tenants on other machines
	// that are called without TLS.
	AllowHTTP bool `yaml:"allow_http"`
	// PlaintextGrants lets the grants and credentials of agents on other machines travel
	// unencrypted.
	PlaintextGrants bool `yaml:"plaintext_grants"`
}

// maxCertified bounds the transports that show certificates of agents; what was used last is
// kept.
const maxCertified = 128

// shown names a transport: by the certificate, and whether it is for agents of tenants.
type shown struct {
	of      [sha256.Size]byte
	guarded bool
}

// certified returns a transport whose connections show the certificate, and are used for
// those alone who give the same.
func (n *node) certified(cert *tls.Certificate, guarded bool) http.RoundTripper {
	key := shown{sha256.Sum256(bytes.Join(cert.Certificate, nil)), guarded && n.guarded != nil}
	if t, ok := n.showing.Get(key); ok {
		return t
	}
	base := n.carrier
	if key.guarded {
		base = n.guarded
	}
	t := n.securedAs(base.Clone(), cert)
	n.showing.Add(key, t)
	return t
}

// fetching returns how requests to agents travel that are made for the registry.
func (n *node) fetching(guarded bool) credentials.Carrier {
	return func(cert *tls.Certificate) http.RoundTripper {
		switch {
		case cert != nil:
			return n.certified(cert, guarded)
		case guarded:
			return n.guarded
		}
		return n.carrier
	}
}

// registryOptions are those of the registry. Under auth none all callers are
// on this machine, and so are the agents that they bring; under tokens a card's
// URL is as little to be trusted as a webhook's.
func (n *node) registryOptions() (registry.Options, error) {
	box, err := n.box("agentmesh credentials of agents v1")
	if err != nil {
		return registry.Options{}, err
	}
	key, err := n.contextKey()
	if err != nil {
		return registry.Options{}, err
	}
	opts := registry.Options{InstanceKey: key, Store: api.NewRegistrations(n.kv), Shared: n.backend.Shared, Verify: n.verifyCards.Check, Trusts: n.cfg.trusts, Allows: n.mayRegister, Logger: n.logger, Alarms: n.alarms}
	by := n.fetching(n.cfg.Auth != authNone)
	opts.Fetch, opts.Box = registry.HTTPFetch(by), box
	opts.Via = credentials.Via{Tokens: by(nil), Plaintext: n.cfg.Egress.PlaintextGrants}
	if n.cfg.Auth != authNone {
		opts.Probe, opts.Check = registry.GuardedDial(n.guard.DialContext), n.guard.CheckAgent
	}
	return opts, nil
}

// buildGuard makes what checks the addresses that users name.
func (n *node) buildGuard() (err error) {
	n.guard, err = egress.New(egress.Options{Allow: n.cfg.Egress.Allow, AllowHTTP: n.cfg.Egress.AllowHTTP})
	return mesh.Wrap("node.buildGuard", err)
}

// buildDialer makes what calls agents, by what their cards say. Under auth none
// they are on this machine, whoever registered them.
func (n *node) buildDialer() {
	n.showing, _ = lru.NewWithEvict(maxCertified, func(_ shown, t *http.Transport) { t.CloseIdleConnections() }) // for a size above 0
	n.carrier = n.secured(&http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 16,
		// A stream may be silent for long; what is dead is found out.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	})
	opts := call.Options{HTTP: n.carrier, Guarded: n.carrier, Local: n.builtin, PlaintextGrants: n.cfg.Egress.PlaintextGrants, Interfaces: n.cfg.calledBy(), Certified: n.certified,
		Credentials: func(tenant mesh.TenantID, agent string) *credentials.Set { return n.agents.Credentials(tenant, agent) }}
	if n.cfg.Auth != authNone {
		guarded := n.dialOptions()
		guarded.Dialer = n.guard.Dial
		n.guarded, n.guardedPool = n.secured(n.guard.Transport()), rpc.NewPool(guarded)
		opts.Guarded, opts.GuardedConns, opts.Check = n.guarded, n.guardedPool, n.guard.CheckAgent
	}
	opts.Down = func(t call.Target, err error) {
		n.agents.ReportDown(registry.Entry{Tenant: t.Tenant, Name: t.Name, Endpoint: t.Endpoint}, err)
	}
	n.dialer = call.NewDialer(n.pool, opts)
}

// box encrypts for the purpose what the node keeps of the secrets of others, under the keys
// of its grants, which are kept beside the store: under the first one, and each may go when
// another one is there.
func (n *node) box(purpose string) (*seal.Box, error) {
	const op = "node.box"
	data, err := os.ReadFile(filepath.Join(n.cfg.Data, keyFile))
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, op, "the key file %s cannot be read; check its permissions: %w", keyFile, err)
	}
	var keys [][]byte
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		keys = append(keys, block.Bytes)
	}
	box, err := seal.New(purpose, append(keys, data)...) // the whole file is what webhooks were sealed under before
	return box, mesh.Wrap(op, err)
}

// buildPush makes the dispatcher of push notifications.
func (n *node) buildPush() error {
	const op = "node.buildPush"
	box, err := n.box("agentmesh push configs v1")
	if err != nil {
		return err
	}
	n.push, err = push.New(push.Config{
		Blobs: n.blobURL,
		Log:   n.log, States: n.states, KV: n.kv, Box: box, Contexts: n.contexts, Guard: n.guard, Shared: n.backend.Shared, EncodeV03: v03.EncodePush,
		Standing: n.ownerStands, ReadByRole: n.audit.Read, Logger: n.logger, Alarms: n.alarms,
	})
	return mesh.Wrap(op, err)
}
