// Package authz decides who may call what: one table of all methods, which the
// interceptors of package rpc ask before any handler is called. REST, JSON-RPC, A2A
// v0.3 over HTTP and MCP call the same methods in the process, so the table is theirs
// too.
//
// A method has a row, or nobody calls it, and a node that serves it does not start.
// A row says what one must be allowed to do, and whether an agent may call it under
// the grant of its work: by default not. What a call is about, whose thread it is or
// who registered the agent, the services ask themselves, by [mesh.Principal.Can].
package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh"
)

// Under says how grants and a method go together.
type Under uint8

// The ways.
const (
	// NoGrant is for methods that agents do not call for their work.
	NoGrant Under = iota
	// MayGrant is for methods that agents call too: what they may is in the grant, and
	// the action is asked of others.
	MayGrant
	// AlsoGrant is as MayGrant, for actions that the user must be allowed whose work the
	// agent does.
	AlsoGrant
	// OnlyGrant is for methods of agents at work; an action must be allowed to the user whose
	// work the agent does.
	OnlyGrant
	// OnlyTicket is for those who have been called and are not at work yet.
	OnlyTicket
)

// A Rule is the row of a method.
type Rule struct {
	// Open says that anybody may call it who has no credential: the service checks by
	// itself who calls.
	Open bool
	// Action must be allowed; "" is for everybody who is known.
	Action mesh.Action
	// Grant says how it is with calls under a grant, and Capability what such a grant
	// must have; "" is for all.
	Grant      Under
	Capability mesh.Capability
	// Settles says that the method takes what an execution had begun, also after its
	// end; it judges that itself. Under the grant of an execution that is over, no other
	// method may be called.
	Settles bool
	// Effects says that the method does something besides what is in the thread's log, where
	// the mesh judges each event: not under a grant that is dry.
	Effects bool
	// Audit says that calls are recorded, as acts of administration; others are when they
	// are refused. Resource is the field of the request, or else of the response, that names what a call is about, as
	// "skill.name": for the record, and for policies that are asked for the action.
	Audit    bool
	Resource string
}

// Table decides by method, by its full name as "/mesh.v1.ThreadService/GetThread". It
// is read-only once it is in use.
type Table map[string]Rule

// Covers reports whether the method has a row.
func (t Table) Covers(method string) bool {
	_, ok := t[method]
	return ok
}

// Authorize returns nil if the principal may call the method; under a grant, its roles are
// those of the user for whom the work is done. It is Unauthenticated
// for calls that lack a grant, and else Denied with what is missing.
func (t Table) Authorize(_ context.Context, p mesh.Principal, method string) error {
	const op = "authz.Authorize"
	rule, ok := t[method]
	switch {
	case !ok:
		return mesh.Errorf(mesh.Denied, op, "nobody may call %s", method)
	case p.Ticket && rule.Grant != OnlyTicket:
		return &mesh.Error{Code: mesh.Unauthenticated, Op: op, Field: "mesh-ticket",
			Detail: "a ticket is redeemed and good for nothing else; call GrantService.RedeemTicket with it, and then with the grant in the metadata mesh-grant"}
	case !p.Ticket && rule.Grant == OnlyTicket:
		return &mesh.Error{Code: mesh.Unauthenticated, Op: op, Field: "mesh-ticket",
			Detail: "this is for agents that have been called; call with the ticket that came with the message in the metadata mesh-ticket"}
	case p.Grant == nil && rule.Grant == OnlyGrant:
		return &mesh.Error{Code: mesh.Unauthenticated, Op: op, Field: "mesh-grant",
			Detail: "this is for agents at work; call with the grant of an execution in the metadata mesh-grant"}
	case p.Grant != nil && rule.Grant == NoGrant:
		return &mesh.Error{Code: mesh.Denied, Op: op, Field: "mesh-grant",
			Detail: "agents do not call this for their work; users and programs call it with a credential of their own and without mesh-grant"}
	case p.Grant != nil && (rule.Grant == AlsoGrant || rule.Grant == OnlyGrant && rule.Action != "") && !p.Can(rule.Action):
		return Denied(op, rule.Action)
	case p.Grant != nil && p.Grant.Dry && rule.Effects:
		return &mesh.Error{Code: mesh.Denied, Op: op, Field: "mesh-grant",
			Detail: "the work of this grant is a dry run, in which nothing is changed or sent; go on as if it had been done"}
	case p.Grant != nil && rule.Capability != "" && !p.Grant.Has(rule.Capability):
		return &mesh.Error{Code: mesh.Denied, Op: op, Field: "mesh-grant", Detail: fmt.Sprintf("the agent %s is not trusted with %s: "+
			"it was registered by who may not trust agents; have a tenant-admin or the operator register it, or the operator name it in trusted_agents", p.Grant.Agent, rule.Capability)}
	case p.Grant != nil && rule.Grant != AlsoGrant, rule.Action == "", p.Can(rule.Action):
		return nil
	}
	return Denied(op, rule.Action)
}

// Open lists the methods that anybody may call, sorted.
func (t Table) Open() (all []string) {
	for method, rule := range t {
		if rule.Open {
			all = append(all, method)
		}
	}
	slices.Sort(all)
	return all
}

// Denied is the refusal of an action, which names the roles that allow it.
func Denied(op string, a mesh.Action) error {
	names := make([]string, 0, 4)
	for _, r := range mesh.RolesWith(a) {
		names = append(names, string(r))
	}
	return mesh.Errorf(mesh.Denied, op, "this needs the action %s, which these roles allow: %s; ask the operator for one", a, strings.Join(names, ", "))
}

// Explain returns the methods that the principal may call, sorted.
func (t Table) Explain(p mesh.Principal) []string {
	var may []string
	for method := range t {
		if t.Authorize(context.Background(), p, method) == nil {
			may = append(may, method)
		}
	}
	slices.Sort(may)
	return may
}

// Check returns an error that names the methods without a row.
func (t Table) Check(methods []string) error {
	missing := slices.DeleteFunc(slices.Clone(methods), t.Covers)
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("nobody said who may call %s", strings.Join(missing, ", "))
}
