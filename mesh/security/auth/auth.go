// Package auth finds out who is calling: the auth modes of the mesh.
//
// [None] believes what the caller says and is for servers that only this
// machine can reach; [Bearer] knows callers by bearer tokens, as [Tokens], whose hashes
// are in a file; [Certified] by the certificates of their connections; [TicketOnly] is for the servers of agents, which are called with tickets
// and nothing else.
//
// A grant is checked in every mode and wins: whoever carries one is who it
// says, and may do what it says, whatever else they claim. Claims that
// disagree with a proof are refused, with the same answer whether what they
// name exists or not.
//
// All modes are safe for concurrent use and implement [rpc.Authenticator]. The
// package does not decide what a caller may do; the services do, from the
// [mesh.Principal].
package auth

import (
	"context"
	"errors"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"
)

// LocalUser is the user of callers that name none under None.
const LocalUser = "local"

// None returns the mode in which every caller may do everything for any
// tenant. Callers that name no tenant or user are [mesh.DefaultTenant] and
// [LocalUser]. Grants are checked with the verifier; without one, calls under
// a grant are refused.
func None(grants *grant.Verifier) rpc.Authenticator { return none{grants} }

type none struct{ grants *grant.Verifier }

// everything is what a caller may do under None. All principals share it, as it is.
var everything = []mesh.Role{mesh.RoleOperator}

func (n none) Authenticate(_ context.Context, c rpc.Credentials) (mesh.Principal, error) {
	if c.Grant != "" || c.Ticket != "" {
		return underGrant(n.grants, c)
	}
	p := mesh.Principal{Tenant: c.Tenant, User: c.User, Roles: everything}
	if p.Tenant == "" {
		p.Tenant = mesh.DefaultTenant
	}
	if p.User == "" {
		p.User = LocalUser
	}
	return p, nil
}

// WithRole returns the mode in which everybody has the role beside those of mode; but
// for agents at work.
func WithRole(mode rpc.Authenticator, role mesh.Role) rpc.Authenticator { return withRole{mode, role} }

type withRole struct {
	mode rpc.Authenticator
	role mesh.Role
}

func (w withRole) Authenticate(ctx context.Context, c rpc.Credentials) (mesh.Principal, error) {
	p, err := w.mode.Authenticate(ctx, c)
	if err == nil && p.Grant == nil && !slices.Contains(p.Roles, w.role) {
		p.Roles = append(slices.Clone(p.Roles), w.role)
		slices.Sort(p.Roles)
	}
	return p, err
}

// WithIssuers returns the mode in which refusals say at which OpenID Connect providers to log in.
func WithIssuers(mode rpc.Authenticator, issuers []string) rpc.Authenticator {
	return withIssuers{mode, strings.Join(issuers, " ")}
}

type withIssuers struct {
	mode    rpc.Authenticator
	issuers string
}

func (w withIssuers) Authenticate(ctx context.Context, c rpc.Credentials) (mesh.Principal, error) {
	p, err := w.mode.Authenticate(ctx, c)
	if e := (*mesh.Error)(nil); errors.As(err, &e) && e.Code == mesh.Unauthenticated && e.Reason == "" {
		said := *e // it may be one for all
		said.Reason = "UNAUTHENTICATED"
		return p, rpc.WithInfo(&said, map[string]string{rpc.InfoIssuers: w.issuers})
	}
	return p, err
}

// TicketOnly returns the mode in which a caller needs a ticket for the agent of that name,
// and is nobody without: an agent that was asked cannot ask another one with what it
// got. With the name "" a ticket for any agent will do.
func TicketOnly(tickets *grant.Verifier, agent string) rpc.Authenticator {
	return ticketOnly{tickets, agent}
}

type ticketOnly struct {
	tickets *grant.Verifier
	agent   string
}

func (t ticketOnly) Authenticate(_ context.Context, c rpc.Credentials) (mesh.Principal, error) {
	if c.Ticket == "" {
		return mesh.Principal{}, &mesh.Error{Code: mesh.Unauthenticated, Op: "auth.TicketOnly", Field: rpc.KeyTicket,
			Detail: "this agent is called through the mesh only; send your message to the mesh"}
	}
	p, err := underGrant(t.tickets, c)
	if err == nil && t.agent != "" && p.Grant.Agent != t.agent {
		return mesh.Principal{}, denied("auth.TicketOnly", rpc.KeyTicket, "is for the agent "+p.Grant.Agent+", and this is "+t.agent+"; dispatch the agent that is to work")
	}
	return p, err
}

// underGrant returns the principal of a call that carries a grant or a ticket, also of one
// that is refused because it says something else besides.
func underGrant(v *grant.Verifier, c rpc.Credentials) (mesh.Principal, error) {
	const op = "auth.underGrant"
	if v == nil {
		return mesh.Principal{}, &mesh.Error{Code: mesh.Unauthenticated, Op: op, Field: rpc.KeyGrant,
			Detail: "grants are not accepted here; leave " + rpc.KeyGrant + " and " + rpc.KeyTicket + " out"}
	}
	check, token := v.Check, c.Grant
	if c.Ticket != "" {
		check, token = v.CheckTicket, c.Ticket
	}
	g, err := check(token)
	if err != nil {
		return mesh.Principal{}, mesh.Wrap(op, err)
	}
	p := mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g, Ticket: c.Ticket != ""}
	switch {
	case c.Ticket != "" && c.Grant != "":
		return p, denied(op, rpc.KeyTicket, "cannot be sent with "+rpc.KeyGrant+"; leave it out once it is redeemed")
	case c.Tenant != "" && c.Tenant != g.Tenant:
		return p, otherTenant(op, "grant")
	case c.Thread != "" && c.Thread != g.Thread:
		e := mesh.ThreadNotFound(op)
		e.Forbidden, e.Field = true, rpc.KeyThread
		return p, e
	case c.User != "" && c.User != g.User:
		return p, denied(op, rpc.KeyUser, "must be the user of the grant; leave it out")
	case c.Execution != "" && c.Execution != g.Execution:
		return p, denied(op, rpc.KeyExecution, "must be the execution of the grant; leave it out")
	}
	return p, nil
}

func denied(op, field, detail string) error {
	return &mesh.Error{Code: mesh.Denied, Op: op, Field: field, Detail: field + " " + detail}
}

func otherTenant(op, proof string) error {
	return denied(op, rpc.KeyTenant, "must be the tenant of the "+proof+"; leave it out")
}
