package registry

import (
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/credentials"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// An Entry is an agent as the registry knows it at one moment. It is a value;
// its card is shared and nobody changes it.
type Entry struct {
	// Name is unique among what a tenant sees.
	Name string
	// Tenant owns the agent; "" when it is shared with all.
	Tenant mesh.TenantID
	// Owner is the user who registered it: the name is that user's. It is "" for
	// built-in agents and for those that were registered when names had no owner.
	Owner string
	Card  *a2apb.AgentCard
	// Endpoint is where it is called: the host:port of its A2A gRPC server or,
	// if the first interface of its card is another one, that URL.
	Endpoint string
	// CardURL is where the card comes from, for agents added by URL.
	CardURL string
	// Builtin says that the node runs it.
	Builtin bool
	// Trusted says that it gets what its work needs: skills, dispatch, handoff, and to
	// write skills. Others read and write in the thread of their work, and keep state
	// under their own name.
	Trusted bool
	// Live says that it may be called: its lease stands, and nobody found it
	// not to answer. Problem says, for people, why it is not.
	Live    bool
	Problem string
	// Gone is, of one that is not live, when it was last known to be: it has not answered
	// since, or not renewed its lease; of one that was not asked yet since the node started,
	// when that was. It is zero where that is not known.
	Gone time.Time
	// Warnings are what is odd on the card, and what follows from it.
	Warnings []Warning
	// Credentials say which were given for the agent, never what they are.
	Credentials []credentials.State
	// Instances are the processes of an agent that may have several, in the order in which
	// they came; nil for others. Endpoint and Card are then of the live one that came last.
	Instances []Instance

	Registered time.Time
	// Expires is when its lease ends; zero when it has none.
	Expires time.Time
}

// RoutingTenant is what calls of the agent must carry in the A2A tenant field:
// the card's own value for the interface that is called (A2A v1.0 §4.4.6). It
// has nothing to do with tenants of the mesh.
func (e Entry) RoutingTenant() string {
	for _, in := range e.Card.GetSupportedInterfaces() {
		if e.at(in) {
			return in.GetTenant()
		}
	}
	return ""
}

// OwnedBy reports whether the principal may replace and remove the agent, and sees where
// it is.
func (e Entry) OwnedBy(p mesh.Principal) bool {
	return e.Tenant == p.Tenant && (e.Owner == "" || e.Owner == p.User || p.Agent == e.Name || p.Can(mesh.ActTakeAgent)) || p.Can(mesh.ActAdminNode)
}

// ShownByRole reports whether a role alone lets the principal see where the agent is:
// somebody else registered it.
func (e Entry) ShownByRole(p mesh.Principal) bool {
	return p.Grant == nil && e.Owner != "" && e.Owner != p.User && p.Agent != e.Name && e.OwnedBy(p)
}

// Requires are the permissions that users must have for whom the agent works, as its card
// names them.
func (e Entry) Requires() []string { return Params(e.Card).RequiredPermissions }

// WorksFor returns nil if the agent works for users who have the roles, and else a Denied
// error with the first permission that they lack.
func (e Entry) WorksFor(op string, held []mesh.Role) error {
	missing := mesh.Lacking(held, e.Requires())
	if len(missing) == 0 {
		return nil
	}
	return mesh.Requires(op, e.Name, missing[0])
}

// addresses is where the agent may be connected to: the endpoint first.
func (e Entry) addresses() []string {
	all := []string{e.Endpoint}
	listed := false
	for _, in := range e.Card.GetSupportedInterfaces() {
		at, err := interfaceAddress(in)
		if err != nil {
			continue
		}
		if listed = listed || at == e.Endpoint; at != e.Endpoint {
			all = append(all, at)
		}
	}
	if !listed {
		return all[:1] // it stands in for them
	}
	return all
}

// A Filter selects entries; all that is set must hold.
type Filter struct {
	Skill string // the card has a skill with this id
	Tag   string // a skill has this tag, in any case
	// Query is words that must all appear, in any case, in the name, the
	// description, or the ids, names, descriptions and tags of the skills.
	Query string
	Live  bool // only what is live
}

// Match reports whether the entry passes the filter.
func (f Filter) Match(e Entry) bool {
	if f.Live && !e.Live {
		return false
	}
	skills := e.Card.GetSkills()
	if f.Skill != "" && !slices.ContainsFunc(skills, func(s *a2apb.AgentSkill) bool { return s.GetId() == f.Skill }) {
		return false
	}
	if f.Tag != "" && !slices.ContainsFunc(skills, func(s *a2apb.AgentSkill) bool {
		return slices.ContainsFunc(s.GetTags(), func(t string) bool { return strings.EqualFold(t, f.Tag) })
	}) {
		return false
	}
	if f.Query == "" {
		return true
	}
	text := searchText(e)
	for _, word := range strings.Fields(strings.ToLower(f.Query)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func searchText(e Entry) string {
	words := []string{e.Name, e.Card.GetName(), e.Card.GetDescription()}
	for _, s := range e.Card.GetSkills() {
		words = append(words, s.GetId(), s.GetName(), s.GetDescription())
		words = append(words, s.GetTags()...)
	}
	return strings.ToLower(strings.Join(words, "\n"))
}

// ChangeKind says what a [Change] is.
type ChangeKind uint8

// The kinds of changes.
const (
	Put     ChangeKind = iota + 1 // the entry was added or changed
	Removed                       // the entry is gone
	Synced                        // all that there was when the watch began has been told
)

// A Change is one step of a watch.
type Change struct {
	Kind ChangeKind
	// Entry is the entry as it is, or as it last was. It is zero for Synced.
	// That a lease was renewed is no change, so Expires may be out of date.
	Entry Entry
}

// InputModes are the media types that the agent takes, by itself or for a skill; none if
// its card does not say.
func (e Entry) InputModes() []string {
	modes := slices.Clone(e.Card.GetDefaultInputModes())
	for _, s := range e.Card.GetSkills() {
		modes = append(modes, s.GetInputModes()...)
	}
	return slices.Compact(slices.Sorted(slices.Values(modes)))
}

// OutputModes are those that it gives.
func (e Entry) OutputModes() []string {
	modes := slices.Clone(e.Card.GetDefaultOutputModes())
	for _, s := range e.Card.GetSkills() {
		modes = append(modes, s.GetOutputModes()...)
	}
	return slices.Compact(slices.Sorted(slices.Values(modes)))
}
