package grant

import (
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
)

// Bounds of the skills in a grant, so that its token stays below MaxToken.
const (
	MaxSkills = 100 // in number
	maxSkill  = 100 // bytes of a name or pattern
)

// Narrow returns the grant for an execution that the parent's execution opens
// on the agent. Tenant, user, thread, turn and capabilities are the parent's;
// the skills are as given and must all be among the parent's; the depth is one
// less; the end is the child's deadline or the parent's end, whichever is
// earlier, and so are the other parts of the budget. What is dry stays so, and has neither
// capabilities nor depth. A parent without an agent, that of a turn, begins the chain.
//
// It refuses as Denied: an agent that is in the chain already (the detail
// shows the cycle), a skill that the parent does not have (named), a parent
// with no depth left, and an execution of another parent. It refuses as
// Invalid an execution of another thread and names and patterns that cannot
// be; as Unauthenticated a parent that has expired; and as Timeout a deadline
// that has passed.
func Narrow(parent *mesh.Grant, child mesh.Execution, agent string, skills []string, now time.Time) (mesh.Grant, error) {
	const op = "grant.Narrow"
	if !now.Before(time.Unix(parent.Expires, 0)) {
		return mesh.Grant{}, refuse(op, grants, "the grant has expired; the task that it was made for is over")
	}
	if err := checkChild(op, parent, child, agent); err != nil {
		return mesh.Grant{}, err
	}
	if err := checkSkills(op, parent, skills); err != nil {
		return mesh.Grant{}, err
	}
	expires := parent.Expires
	if !child.Deadline.IsZero() {
		if !now.Before(child.Deadline) {
			return mesh.Grant{}, mesh.Errorf(mesh.Timeout, op, "the time for %s is over before it begins; give it a later deadline", agent)
		}
		expires = min(expires, ceilSeconds(child.Deadline))
	}
	g := mesh.Grant{
		Tenant: parent.Tenant, User: parent.User, Thread: parent.Thread, Turn: parent.Turn,
		Execution: child.ID, Parent: parent.Execution, Agent: agent,
		Chain:        append(slices.Clone(parent.Chain), mesh.Actor{Agent: agent, Execution: child.ID}),
		Skills:       slices.Clone(skills),
		Capabilities: slices.Clone(parent.Capabilities),
		Depth:        parent.Depth - 1, Expires: expires, Budget: child.Budget.Within(parent.Budget), Dry: parent.Dry || child.Dry,
	}
	if g.Dry { // others would act outside of the mesh
		g.Depth, g.Capabilities = 0, slices.DeleteFunc(g.Capabilities, func(c mesh.Capability) bool { return c != mesh.CapReadThread })
	}
	return g, nil
}

func checkChild(op string, parent *mesh.Grant, child mesh.Execution, agent string) error {
	thread, ok := child.ID.ThreadID()
	switch {
	case !ok || thread != parent.Thread:
		return mesh.InvalidField(op, "execution-id", "must be a new execution of the thread %s", parent.Thread)
	case child.Parent != "" && child.Parent != parent.Execution:
		return &mesh.Error{Code: mesh.Denied, Op: op, Field: "execution.parent",
			Detail: "an execution can only open executions below itself; leave the parent out"}
	case !mesh.ValidAgentName(agent):
		return mesh.InvalidField(op, "agent", "must be the name of an agent: lower-case letters, digits, '-' and '_'")
	case slices.Contains(parent.Agents(), agent):
		return &mesh.Error{Code: mesh.Denied, Op: op, Field: "agent",
			Detail: "the agents would call each other in a cycle: " +
				strings.Join(append(parent.Agents(), agent), " -> ") + "; ask another agent, or answer"}
	case parent.Depth <= 0:
		return &mesh.Error{Code: mesh.Denied, Op: op, Field: "agent",
			Detail: "agents may not be dispatched from here: the allowed depth is used up by " +
				strings.Join(parent.Agents(), " -> ") + "; do the work without " + agent}
	}
	return nil
}

func checkSkills(op string, parent *mesh.Grant, skills []string) error {
	if len(skills) > MaxSkills {
		return mesh.InvalidField(op, "skills", "must be at most %d, and are %d; grant whole domains, as \"mail.*\"", MaxSkills, len(skills))
	}
	for _, s := range skills {
		if !validPattern(s) {
			return mesh.InvalidField(op, "skills", "must be names as \"mail.send\", \"mail.*\" or \"*\", and one is %.40q", s)
		}
		if !parent.AllowsSkill(s) {
			return &mesh.Error{Code: mesh.Denied, Op: op, Field: "skills",
				Detail: "the skill " + s + " cannot be granted, because the one who grants it does not have it; " +
					"it has: " + strings.Join(parent.Skills, ", ")}
		}
	}
	return nil
}

// validPattern reports whether s can be a skill's name, "domain.*" or "*": a
// star stands for everything or for the rest after a dot, and nowhere else.
// For such patterns mesh.SkillMatches(a, b) says whether a includes all of b.
func validPattern(s string) bool {
	if s == "*" {
		return true
	}
	name := strings.TrimSuffix(s, ".*")
	if name == "" || len(s) > maxSkill {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	})
}

func ceilSeconds(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}
