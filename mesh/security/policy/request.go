package policy

import (
	"cmp"
	"encoding/binary"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"agentmesh/mesh"
)

// The types of the entities that policies name.
const (
	typeUser   cedar.EntityType = "User"
	typeRole   cedar.EntityType = "Role"
	typeTenant cedar.EntityType = "Tenant"
	typeAction cedar.EntityType = "Action"
)

// A Request asks whether a principal may do something.
type Request struct {
	// Principal is who wants to: the user and, with a Grant, the agent that works for it.
	Principal mesh.Principal
	Action    mesh.Action
	// Name is that of what it is about, of the type that [TypeOf] says; not used for the
	// tenant itself.
	Name string
	// Later says that it is asked for a turn that goes on: by what its user proved to be
	// who it is, nobody knows any more.
	Later bool
}

// call is a request as Cedar has it. It is an EntityGetter of who and what it is about.
type call struct {
	cedar.Request
	who, what, tenant cedar.Entity
}

// Get implements [cedar.EntityGetter].
func (c *call) Get(uid cedar.EntityUID) (cedar.Entity, bool) {
	switch uid {
	case c.who.UID:
		return c.who, true
	case c.what.UID:
		return c.what, true
	case c.tenant.UID:
		return c.tenant, true
	}
	return cedar.Entity{}, false
}

func named(t cedar.EntityType, id, name string, parents ...cedar.EntityUID) cedar.Entity {
	return cedar.Entity{UID: cedar.NewEntityUID(t, cedar.String(id)), Parents: cedar.NewEntityUIDSet(parents...),
		Attributes: cedar.NewRecord(cedar.RecordMap{"name": cedar.String(name)})}
}

// userID names the user in policies.
func userID(t mesh.TenantID, user string) string { return string(t) + "/" + user }

func (r *Request) cedar() *call {
	p := r.Principal
	tenant := named(typeTenant, string(p.Tenant), string(p.Tenant))
	groups := make([]cedar.EntityUID, 0, 1+len(p.Roles))
	groups = append(groups, tenant.UID)
	for _, role := range p.Roles {
		groups = append(groups, cedar.NewEntityUID(typeRole, cedar.String(role)))
	}
	c := &call{who: named(typeUser, userID(p.Tenant, p.User), p.User, groups...), what: tenant, tenant: tenant}
	if of := asked[r.Action]; of != typeTenant {
		c.what = named(of, r.Name, r.Name, tenant.UID)
	}
	c.Request = cedar.Request{Principal: c.who.UID, Action: cedar.NewEntityUID(typeAction, cedar.String(r.Action)), Resource: c.what.UID, Context: r.context()}
	return c
}

func (r *Request) context() cedar.Record {
	p := r.Principal
	all := cedar.RecordMap{"tenant": cedar.String(p.Tenant), "chain": cedar.NewSet()}
	switch g := p.Grant; {
	case g != nil:
		chain := make([]cedar.Value, 0, len(g.Chain))
		for _, a := range g.Agents() {
			chain = append(chain, cedar.String(a))
		}
		all["agent"], all["chain"] = cedar.String(g.Agent), cedar.NewSet(chain...)
	case !r.Later:
		scheme, _, _ := strings.Cut(p.Credential, ":")
		all["scheme"], all["credential"] = cedar.String(cmp.Or(scheme, "none")), cedar.String(p.Credential)
	}
	return cedar.NewRecord(all)
}

// key is all of the request that policies can see.
func (r *Request) key() string {
	p := r.Principal
	b := make([]byte, 0, 128)
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	for _, s := range []string{string(p.Tenant), p.User, string(r.Action), r.Name} {
		text(s)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Roles)))
	for _, role := range p.Roles {
		text(string(role))
	}
	switch {
	case p.Grant != nil:
		b = append(b, 'g')
		text(p.Grant.Agent)
		for _, a := range p.Grant.Chain {
			text(a.Agent)
		}
	case r.Later:
		b = append(b, 'l')
	default:
		b = append(b, 'u')
		text(p.Credential)
	}
	return string(b)
}
