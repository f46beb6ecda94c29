package node

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/api"
	"agentmesh/mesh/bind/v03"
	"agentmesh/mesh/call"
	"agentmesh/mesh/push"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/egress"
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
	// PlaintextGrants lets the grants of agents on other machines travel unencrypted.
	PlaintextGrants bool `yaml:"plaintext_grants"`
}

// fetchTime bounds how long a card may take to come.
const fetchTime = 10 * time.Second

// registryOptions are those of the registry. Under auth none all callers are
// on this machine, and so are the agents that they bring; under tokens a card's
// URL is as little to be trusted as a webhook's.
func (n *node) registryOptions() registry.Options {
	opts := registry.Options{Store: api.NewRegistrations(n.kv), Shared: n.backend.Shared, Verify: n.verifyCards.Check, Trusts: n.cfg.trusts, Allows: n.mayRegister, Logger: n.logger, Alarms: n.alarms}
	opts.Fetch = registry.HTTPFetch(&http.Client{Transport: n.carrier, Timeout: fetchTime})
	if n.cfg.Auth != authNone {
		opts.Fetch = registry.HTTPFetch(&http.Client{Transport: n.secured(n.guard.Transport()), Timeout: fetchTime})
		opts.Probe, opts.Check = registry.GuardedDial(n.guard.DialContext), n.guard.CheckAgent
	}
	return opts
}

// buildGuard makes what checks the addresses that users name.
func (n *node) buildGuard() (err error) {
	n.guard, err = egress.New(egress.Options{Allow: n.cfg.Egress.Allow, AllowHTTP: n.cfg.Egress.AllowHTTP})
	return mesh.Wrap("node.buildGuard", err)
}

// buildDialer makes what calls agents, by what their cards say. Under auth none
// they are on this machine, whoever registered them.
func (n *node) buildDialer() {
	n.carrier = n.secured(&http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 16,
		// A stream may be silent for long; what is dead is found out.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	})
	opts := call.Options{HTTP: n.carrier, Guarded: n.carrier, Local: n.builtin, PlaintextGrants: n.cfg.Egress.PlaintextGrants, Interfaces: n.cfg.calledBy()}
	if n.cfg.Auth != authNone {
		guarded := n.dialOptions()
		guarded.Dialer = n.guard.Dial
		n.guarded, n.guardedPool = n.secured(n.guard.Transport()), rpc.NewPool(guarded)
		opts.Guarded, opts.GuardedConns, opts.Check = n.guarded, n.guardedPool, n.guard.CheckAgent
	}
	n.dialer = call.NewDialer(n.pool, opts)
}

// buildPush makes the dispatcher of push notifications. What it encrypts is
// under the key of the node's grants, which is kept beside the store.
func (n *node) buildPush() error {
	const op = "node.buildPush"
	key, err := os.ReadFile(filepath.Join(n.cfg.Data, keyFile))
	if err != nil {
		return mesh.Errorf(mesh.Precondition, op, "the key file %s cannot be read; check its permissions: %w", keyFile, err)
	}
	n.push, err = push.New(push.Config{
		Log: n.log, States: n.states, KV: n.kv, Key: key, Guard: n.guard, Shared: n.backend.Shared, EncodeV03: v03.EncodePush,
		Standing: n.ownerStands, ReadByRole: n.audit.Read, Logger: n.logger, Alarms: n.alarms,
	})
	return mesh.Wrap(op, err)
}

// forget removes what is kept about a thread beside its log.
func (n *node) forget(ctx context.Context, key mesh.ThreadKey) {
	if err := n.push.Forget(ctx, key); err != nil {
		n.logger.WarnContext(ctx, "push configs of a deleted thread are left", "err", err)
	}
}
