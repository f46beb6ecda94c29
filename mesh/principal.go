package mesh

import (
	"context"
	"slices"
	"time"
)

// A Principal is who a call comes from, as far as it was proved: by a bearer
// token, by a grant, or by nothing under auth none.
type Principal struct {
	Tenant TenantID
	// User is the person, or the program acting for itself.
	User string
	// Agent is the agent that the caller is by its certificate, which registers nobody
	// else; "" for others.
	Agent string
	// Roles are sorted.
	Roles []Role
	// Credential names what the caller proved itself by, and is not secret; "" under
	// auth none. It ends at Expires, if that is not zero, or before; what was begun with
	// it ends with Ended, if that is not nil.
	Credential string
	Expires    time.Time
	// Issuer is who named the credential; "" for the mesh's own. ImpersonatedBy is who acts
	// in the user's name, as tenant/user; "" if that is the user.
	Issuer         string
	ImpersonatedBy string
	// Issued is when the caller got the credential; zero if that is not known.
	Issued time.Time
	Ended  context.Context //nolint:containedctx // the credential's end
	// Grant is set when the call came under a grant: an agent's call. With Ticket it is
	// the one that an agent may have for the ticket, and allows nothing yet.
	Grant  *Grant
	Ticket bool
}

// Can reports whether a role of the principal allows the action.
func (p Principal) Can(a Action) bool { return Allow(p.Roles, a) }

// A Grant is what the node allows one execution to do. The agent gets a ticket with its
// message and redeems it for the grant, which the node signs and which is good for
// that agent alone, in every auth mode. What the user may is not in it: that is in the
// log, and the node asks for both.
type Grant struct {
	// ID is that of the ticket for which it was given.
	ID        string
	Tenant    TenantID
	User      string
	Thread    string // thread id
	Execution ExecutionID
	Parent    ExecutionID
	// Turn is the execution of the user's turn that all this serves.
	Turn ExecutionID
	// Agent is who may use it: the agent that is registered under that name with
	// Holder, the tenant or, for one that all share, "".
	Agent  string
	Holder TenantID
	// Chain has the agents from the first one asked to this one, for audit
	// and for finding cycles.
	Chain []Actor
	// Skills are the skills that may be called: names, "domain.*" or "*".
	Skills []string
	// Capabilities are what the agent may do for its work beside reading and writing what
	// is its own in the thread.
	Capabilities []Capability
	// Depth is how many more levels of dispatch are allowed below.
	Depth int
	// Expires is a Unix time in seconds: the deadline of the work.
	Expires int64
	// Budget is the ceiling of what may be used until then; the node knows what is left.
	Budget Budget
	// Dry says that nothing done under it may have an effect; see [Execution].
	Dry bool
}

// An Actor is an agent at work on an execution.
type Actor struct {
	Agent     string
	Execution ExecutionID
}

// Agents are those of the chain.
func (g *Grant) Agents() []string {
	names := make([]string, 0, len(g.Chain))
	for _, a := range g.Chain {
		names = append(names, a.Agent)
	}
	return names
}

// A Capability is something that an agent may do for its work.
type Capability string

// The capabilities. Skills and dispatch have fields of their own in a grant.
const (
	CapHandoff     Capability = "handoff"      // give the user's stream to another agent
	CapCreateSkill Capability = "skill.create" // write skills, if the user may
	CapReadThread  Capability = "thread.read"  // read the whole thread, and not its own part alone
)

// CapabilitiesFor lists those that agents may have who work for a user with the roles.
func CapabilitiesFor(roles []Role) []Capability {
	all := []Capability{CapHandoff, CapReadThread}
	if Allow(roles, ActCreateSkill) {
		all = append(all, CapCreateSkill)
	}
	return all
}

// Has reports whether the grant has the capability.
func (g *Grant) Has(c Capability) bool { return slices.Contains(g.Capabilities, c) }

// ReadsAll reports whether the whole thread may be read under the grant; no grant, nil, hides
// nothing.
func (g *Grant) ReadsAll() bool { return g == nil || g.Has(CapReadThread) }

// Distrust takes from the grant what only agents get that somebody trusts: skills,
// dispatch and all capabilities.
func (g *Grant) Distrust() { g.Skills, g.Depth, g.Capabilities = nil, 0, nil }

// Key returns the thread that the grant is for.
func (g *Grant) Key() ThreadKey { return ThreadKey{g.Tenant, g.Thread} }

// Direct reports whether the user's turn itself opened the execution, and no other
// agent dispatched it.
func (g *Grant) Direct() bool { return g.Parent == g.Turn }

// AllowsSkill reports whether the skill, as "mail.send", is granted.
func (g *Grant) AllowsSkill(name string) bool {
	return slices.ContainsFunc(g.Skills, func(s string) bool { return SkillMatches(s, name) })
}

// SkillMatches reports whether the pattern, a name, "domain.*" or "*",
// includes the skill.
func SkillMatches(pattern, name string) bool {
	if pattern == "*" || pattern == name {
		return true
	}
	n := len(pattern)
	return n > 2 && pattern[n-2:] == ".*" && len(name) >= n && name[:n-1] == pattern[:n-1]
}

// Call is what rides in the metadata of a call, read by the interceptors of
// package rpc and written by them into calls that are made under it.
type Call struct {
	Principal Principal
	// Peer is the agent that whoever connected proved to be, by a certificate; zero for
	// none. It says where the call comes from, and nothing of what it may do.
	Peer AgentID
	// Thread is the thread id in the call's metadata, checked to be a UUID v4,
	// or "".
	Thread string
	// ParentTask and Execution are the ids in the metadata, or "".
	ParentTask string
	Execution  ExecutionID
	// GrantToken is the signed grant of an agent that calls the node, and Holder the
	// secret by which it proves that the grant is its own.
	GrantToken string
	Holder     string
	// TicketToken is the signed ticket with which an agent is called, and which it
	// redeems. Of a call that goes out Ticket makes it, if it is not nil: a ticket is good
	// for a minute, and calls of one execution come later, too.
	TicketToken string
	Ticket      func(context.Context) (string, error)
	// Traceparent is the W3C trace context, passed on verbatim.
	Traceparent string
	// Extensions are the A2A extension URIs that the caller activated.
	Extensions []string
	// Version is the A2A-Version of the caller, or "".
	Version string
	// AfterSeq is the cursor in after-seq, and HasCursor whether there is one.
	AfterSeq  Seq
	HasCursor bool
	// WantSeq asks for the Seq in every update's metadata although the
	// extension is not activated; a gateway on another machine does, for the ids
	// of its events.
	WantSeq bool
	// Room is how many bytes the caller takes of one answer; 0 is for any number. A task that
	// has no room is shown without a part of it, and says so ([KeyTruncated]).
	Room int
	// PushV03 says that the push notification configs of this call are for
	// webhooks that know A2A v0.3; package v03 does.
	PushV03 bool
	// Policy is the id of the operator's policy that allowed the call, if its roles do not.
	Policy string
	// Agent is the agent that the caller addresses through the edge, or "" for
	// the mesh as one. It is a valid name; whether there is such an agent is
	// not checked.
	Agent string
}

// MakeTicket returns the ticket for a call that goes out; "" where none is due.
func (c Call) MakeTicket(ctx context.Context) (string, error) {
	if c.Ticket == nil {
		return c.TicketToken, nil
	}
	return c.Ticket(ctx)
}

// Extended reports whether the caller activated our extension.
func (c Call) Extended() bool { return slices.Contains(c.Extensions, ExtensionURI) }

// ExtensionURI names our A2A extension: handoff, cursor and execution data in
// the metadata of updates.
const ExtensionURI = "urn:agentmesh:ext:mesh:v1"

// KeyTruncated is what the metadata of a task, an artifact or a part has, as an object, where
// something is left out of the task that the caller takes no answer for. It is told to all
// callers, and not data of the extension.
const KeyTruncated = "urn:agentmesh:truncated"

type callKey struct{}

// WithCall returns ctx with the call's identity.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallFrom returns the identity in ctx; false if there is none, which on a
// server means that the interceptors of package rpc are missing.
func CallFrom(ctx context.Context) (Call, bool) {
	c, ok := ctx.Value(callKey{}).(Call)
	return c, ok
}
