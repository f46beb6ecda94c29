package node

import (
	"cmp"
	"context"
	"crypto/x509"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/api"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/push"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/authz"
	"agentmesh/mesh/security/oidc"
	"agentmesh/mesh/security/policy"
	"agentmesh/mesh/security/revocation"
	"agentmesh/mesh/security/transport"
	"agentmesh/mesh/thread"
)

// failedLogins is how many log-ins may fail from an address in a second by default.
const failedLogins = 10

// maxCallers is how many users' rates are remembered at a time.
const maxCallers = 10_000

func (n *node) buildAuth(ctx context.Context) (err error) {
	var provers []auth.Prover
	if n.cfg.Auth.has(authTokens) {
		if err := n.loadTokens(ctx); err != nil {
			return err
		}
		provers = append(provers, n.tokens)
	}
	if n.cfg.Auth.has(authOIDC) {
		if n.oidc, err = oidc.Open(ctx, n.cfg.OIDC, oidc.Options{Alarms: n.alarms}); err != nil {
			return err
		}
		provers = append(provers, n.oidc)
	}
	if n.cfg.Policies != "" {
		if n.policies, err = policy.Open(n.cfg.Policies, n.logger, n.alarms); err != nil {
			return err
		}
	}
	if n.revoked, err = revocation.Open(ctx, n.kv, n.backend.Shared, n.alarms); err != nil {
		return err
	}
	n.auth = auth.None(n.verifier)
	if n.cfg.Auth != authNone {
		for i, p := range provers {
			provers[i] = auth.Revocable(p, n.revokedOf)
		}
		n.auth = auth.Bearer(n.verifier, provers...)
		if certify := n.certify(); len(certify) > 0 {
			n.auth = auth.Certified(n.auth, n.revokedOf, certify...)
		}
	}
	if n.oidc != nil {
		n.auth = auth.WithIssuers(n.auth, oidc.Names(n.cfg.OIDC))
	}
	if n.cfg.Threads.Visibility == visibleTenant {
		n.auth = auth.WithRole(n.auth, mesh.RoleReader)
	}
	if most := cmp.Or(n.cfg.RateLimit.FailedLogins, failedLogins); most > 0 {
		if n.logins, err = limit.NewRate(float64(most), most, maxCallers); err != nil {
			return err
		}
	}
	if r := n.cfg.RateLimit; r.PerSecond > 0 {
		n.limiter, err = limit.NewRate(r.PerSecond, r.Burst, maxCallers)
	}
	return err
}

// certify knows callers by the certificates of their connections: agents that joined, and
// whom mtls lists.
func (n *node) certify() (all []auth.Certify) {
	if n.cfg.TLS.On() {
		all = append(all, auth.Agents(n.cfg.TLS.Domain, transport.Issued))
	}
	if n.cfg.Auth.has(authMTLS) {
		all = append(all, auth.Certificates(n.cfg.MTLS))
	}
	return all
}

// stands reports whether the certificate by which the agent connected counts still.
func (n *node) stands(a mesh.AgentID, c *x509.Certificate) bool {
	_, revoked := n.revoked.Of(a.Tenant, auth.AgentUser(a.Name), false, transport.Issued(c))
	return !revoked
}

// startLogins starts what keeps credentials as they are, and ends what was begun with
// those that are no more.
func (n *node) startLogins(start func(name string, run func(context.Context) error), server *rpc.Server) {
	if n.tokens != nil {
		n.tokensEnded = func() {
			server.EndCalls(endedIf(func(call context.Context) bool { return n.unfounded(context.WithoutCancel(call), call) }))
		}
		start("tokens", n.tokens.Run)
	}
	if n.oidc != nil {
		start("oidc", n.oidc.Run)
	}
	if n.policies != nil {
		start("policies", func(ctx context.Context) error {
			return n.policies.Run(ctx, func() { server.EndCalls(n.forbidden) })
		})
	}
	start("revoked", func(ctx context.Context) error {
		return n.revoked.Run(ctx, func() {
			server.EndCalls(func(of context.Context, method string) error {
				if method == meshv1.AccessService_EraseUser_FullMethodName { // who erases oneself is told
					return nil
				}
				return endedIf(func(of context.Context) bool { return n.ended(ctx, of) })(of, method)
			})
		})
	})
}

// endedIf ends calls whose credential ended, as over says by their contexts.
func endedIf(over func(context.Context) bool) func(context.Context, string) error {
	return func(of context.Context, _ string) error {
		if over(of) {
			return rpc.ErrEnded
		}
		return nil
	}
}

// forbidden is why a call that has begun is not allowed by now: a policy forbids it, or
// the one that permitted it is gone. Else it is nil.
func (n *node) forbidden(ctx context.Context, method string) error {
	c, _ := mesh.CallFrom(ctx)
	_, err := n.authorizer.Authorize(ctx, c.Principal, method, nil)
	if mesh.PolicyOf(err) != "" || c.Policy != "" && mesh.IsCode(err, mesh.Denied) {
		return err
	}
	return nil
}

// access is the service that says what callers may, and ends that.
func (n *node) access(methods func(mesh.Principal) []string) *api.Access {
	if n.cfg.Auth == authNone {
		return api.NewAccess(methods, nil)
	}
	return api.NewAccess(methods, n.revoked)
}

// revokedOf returns when the caller's credential was revoked; false if it counts.
func (n *node) revokedOf(p mesh.Principal) (time.Time, bool) {
	return n.revoked.Of(p.Tenant, p.User, p.Can(mesh.ActAdminNode), p.Issued)
}

// standing refuses turns whose user may not have them any more: one to whom a policy
// forbids by now what the turn began with, or whose credentials were revoked since.
func (n *node) standing(tenant mesh.TenantID, turn *thread.Execution) error {
	if err := n.unrevoked(tenant, turn); err != nil {
		return err
	}
	_, err := n.policies.Judge("node.standing", policy.Request{Principal: mesh.Principal{Tenant: tenant, User: turn.User, Roles: turn.Roles},
		Action: mesh.ActChat, Name: turn.Agent, Later: true}, nil)
	return err
}

// permitted refuses what an agent wants to do for its work, by name, if its user or a policy
// does not allow it. For a dispatch the user needs the action, and what the other agent
// requires; what skills may be called is in the grant. An agent of another tenant is as
// unknown as one that does not exist, which is no matter of permission.
func (n *node) permitted(p mesh.Principal, a mesh.Action, name string) (err error) {
	const op = "node.permitted"
	if a == mesh.ActOrchestrate || a == mesh.ActHandoff {
		if !p.Can(a) {
			err = authz.Denied(op, a)
		} else if e, unknown := n.agents.Get(p.Tenant, name); unknown == nil {
			err = e.WorksFor(op, p.Roles)
		}
	}
	_, err = n.policies.Judge(op, policy.Request{Principal: p, Action: a, Name: name}, err)
	return err
}

// mayRegister asks who may register an agent of that name.
func (n *node) mayRegister(p mesh.Principal, name string) (err error) {
	if !p.Can(mesh.ActRegister) {
		err = authz.Denied("node.mayRegister", mesh.ActRegister)
	}
	_, err = n.policies.Judge("node.mayRegister", policy.Request{Principal: p, Action: mesh.ActRegister, Name: name}, err)
	return err
}

// unrevoked refuses turns whose user's last message came under a token that has ended, or
// before all of the user's credentials were revoked.
func (n *node) unrevoked(tenant mesh.TenantID, turn *thread.Execution) error {
	return n.counts(tenant, push.Owner{User: turn.User, Credential: turn.Credential, Operator: mesh.Allow(turn.Roles, mesh.ActAdminNode), At: turn.Asked})
}

// ownerStands reports whether what somebody proved itself by counts still.
func (n *node) ownerStands(tenant mesh.TenantID, o push.Owner) bool {
	return n.counts(tenant, o) == nil
}

// counts refuses what somebody said or set with a credential that does not count any more.
func (n *node) counts(tenant mesh.TenantID, o push.Owner) error {
	if err := n.erasing(tenant, o.User); err != nil {
		return err
	}
	if n.tokens != nil && !n.tokens.Stands(o.Credential, o.At) {
		return mesh.Errorf(mesh.Unauthenticated, "node.standing", "the token with which the user %s sent the last message does not count any more, and nothing more is begun for what was said with it; "+
			"have the user ask again with another one", o.User)
	}
	if at, revoked := n.revoked.Of(tenant, o.User, o.Operator, o.At); revoked {
		return mesh.Errorf(mesh.Unauthenticated, "node.standing", "the credentials of the user %s were revoked at %s, and nothing more is begun for what was said before; "+
			"have the user log in and ask again", o.User, at.Format(time.RFC3339))
	}
	return nil
}

// ended reports whether a stream of the caller has to end, for what it was opened with was
// revoked.
func (n *node) ended(ctx, of context.Context) (over bool) {
	call, _ := mesh.CallFrom(of)
	p := call.Principal
	if call.Peer != (mesh.AgentID{}) && !n.stands(call.Peer, rpc.PeerCertificate(of)) {
		return true
	}
	if !n.revoked.Any(p.Tenant, p.User) {
		return false
	}
	if p.Grant == nil {
		_, over = n.revokedOf(p)
		return over || n.erasing(p.Tenant, p.User) != nil
	}
	return n.unfounded(ctx, of)
}

// unfounded reports whether a stream has to end that an agent opened for work on what the
// user said, since that does not stand any more.
func (n *node) unfounded(ctx, of context.Context) (over bool) {
	call, _ := mesh.CallFrom(of)
	g := call.Principal.Grant
	if g == nil {
		return false
	}
	err := n.states.With(ctx, g.Key(), func(st *thread.State) error {
		if t := st.TurnOf(g.Execution); t != nil {
			over = n.unrevoked(g.Tenant, t) != nil
		}
		return nil
	})
	return over || mesh.IsCode(err, mesh.NotFound)
}
