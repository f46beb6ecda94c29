// Package policy asks the policies that an operator writes, in the language Cedar: files
// *.cedar in a folder, and for single tenants in folders in it that have their names.
//
// Roles stay the base. A policy that forbids always wins. One that permits gives a user an
// action that no role of the user allows; never to agents, which get no more than roles
// allow, and never what is another tenant's or another user's, which services look after
// whatever allowed the call. Policies of a tenant's folder only forbid, and only there.
//
// A [Set] is what a folder said once: it is immutable, decides in memory, asks only the
// policies that can be about a tenant and an action, and remembers what they said. A [Source] has the Set of the
// moment. Both may be used concurrently.
package policy

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/cedar-policy/cedar-go"
	lru "github.com/hashicorp/golang-lru/v2"

	"agentmesh/mesh"
)

// asked has the actions that policies are asked for, and what each is about. The others
// are about whose something is, and roles alone allow them.
var asked = map[mesh.Action]cedar.EntityType{
	mesh.ActChat: "Agent", mesh.ActOrchestrate: "Agent", mesh.ActHandoff: "Agent", mesh.ActRegister: "Agent",
	mesh.ActSkillCall: "Skill", mesh.ActCreateSkill: "Skill", mesh.ActResetBreaker: "Skill",
	mesh.ActDeleteThread: "Thread",
	mesh.ActReadOwn:      typeTenant, mesh.ActCancelOwn: typeTenant, mesh.ActReadAudit: typeTenant, mesh.ActAdminTenant: typeTenant, mesh.ActEraseUser: typeTenant,
}

// Actions lists the actions that policies are asked for, sorted.
func Actions() []mesh.Action { return slices.Sorted(maps.Keys(asked)) }

// TypeOf returns the type of what the action is about, as "Skill"; false for an action
// that policies are not asked for.
func TypeOf(a mesh.Action) (string, bool) {
	of, ok := asked[a]
	return string(of), ok
}

// Tenant is the type of the tenant itself.
const Tenant = string(typeTenant)

// A Policy is one that decided.
type Policy struct {
	// ID is its annotation @id, or else At; for a tenant's, TENANT/ID.
	ID string
	// At is where it is, as "FILE:LINE" below the folder.
	At string
	// Permits says that it permits and does not forbid.
	Permits bool
	// Failed is why it could not be evaluated; such a policy forbids, if it is one that
	// forbids, and else counts for nothing.
	Failed string
}

// A rule is a policy of a set.
type rule struct {
	Policy
	cedar *cedar.Policy
}

// A Set is the policies of a folder. The zero value has none.
type Set struct {
	rules []*rule
	parts map[part]*rules
	named map[cedar.PolicyID]*rule
	known *lru.Cache[string, *Policy] // which policy forbids, by request
}

// How many decisions are remembered, and of requests of how many bytes: names may be of
// any length.
const (
	maxKnown = 4096
	maxKey   = 512
)

// A part is what is asked together: the policies for an action that are for one tenant,
// or with "" for all.
type part struct {
	tenant mesh.TenantID
	action mesh.Action
}

type rules struct{ forbids, permits []*rule }

// Len returns how many policies there are.
func (s *Set) Len() int { return len(s.rules) }

// Policies lists them, in the order of their files.
func (s *Set) Policies() []Policy {
	all := make([]Policy, 0, len(s.rules))
	for _, r := range s.rules {
		all = append(all, r.Policy)
	}
	return all
}

// several are those of several parts, as [cedar.Authorize] takes them.
type several [2][]*rule

func (two several) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, list := range two {
			for _, r := range list {
				if !yield(cedar.PolicyID(r.ID), r.cedar) {
					return
				}
			}
		}
	}
}

// Asks reports whether there are policies for the action in the tenant.
func (s *Set) Asks(t mesh.TenantID, a mesh.Action) bool {
	return s != nil && (s.parts[part{"", a}] != nil || s.parts[part{t, a}] != nil)
}

// of returns the parts that are asked.
func (s *Set) of(r *Request) (forbids, permits several) {
	if s == nil {
		return forbids, permits
	}
	for i, t := range []mesh.TenantID{"", r.Principal.Tenant} {
		if p := s.parts[part{t, r.Action}]; p != nil {
			forbids[i], permits[i] = p.forbids, p.permits
		}
	}
	return forbids, permits
}

// Forbids returns the first policy that forbids what is asked; nil for none.
func (s *Set) Forbids(r Request) *Policy {
	forbids, _ := s.of(&r)
	if len(forbids[0])+len(forbids[1]) == 0 {
		return nil
	}
	key := r.key()
	if p, ok := s.known.Get(key); ok {
		return p
	}
	p := s.first(forbids, &r, true)
	if len(key) <= maxKey {
		s.known.Add(key, p)
	}
	return p
}

// Permits returns the first policy that permits what is asked, whatever others forbid;
// nil for none.
func (s *Set) Permits(r Request) *Policy {
	_, permits := s.of(&r)
	if len(permits[0])+len(permits[1]) == 0 {
		return nil
	}
	return s.first(permits, &r, false)
}

func (s *Set) first(list several, r *Request, failing bool) *Policy {
	c := r.cedar()
	_, why := cedar.Authorize(list, c, c.Request)
	if failing && len(why.Errors) > 0 {
		e := why.Errors[0]
		p := s.named[e.PolicyID].Policy
		p.Failed = e.Message
		return &p
	}
	if len(why.Reasons) == 0 {
		return nil
	}
	return &s.named[why.Reasons[0].PolicyID].Policy
}

// Judge says whether what is asked may be done, where the roles say refusal: nil, or why
// not. It returns the id of the policy that decided, or "" when roles did. A refusal by a
// policy is Denied, and names the policy.
func (s *Set) Judge(op string, r Request, refusal error) (by string, err error) {
	var permit *Policy
	if refusal != nil {
		if r.Principal.Grant != nil || !mesh.IsCode(refusal, mesh.Denied) {
			return "", refusal
		}
		if permit = s.Permits(r); permit == nil {
			return "", refusal
		}
	}
	if p := s.Forbids(r); p != nil {
		return p.ID, denied(op, p, &r)
	}
	if permit != nil {
		by = permit.ID
	}
	return by, nil
}

func denied(op string, p *Policy, r *Request) error {
	e := mesh.Errorf(mesh.Denied, op, "the policy %s forbids this (%s); ask the operator, who wrote it", p.ID, r.about())
	e.Reason, e.Policy = mesh.ReasonPolicy, p.ID
	if p.Failed != "" {
		e.Err = errors.New(p.Failed)
	}
	return e
}

// about is what is asked, in words.
func (r *Request) about() string {
	if of := asked[r.Action]; of != typeTenant {
		return fmt.Sprintf("%s on %s %q", r.Action, of, mesh.Clip(r.Name, 64))
	}
	return string(r.Action)
}
