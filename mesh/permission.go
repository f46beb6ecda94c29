package mesh

import (
	"slices"
	"strings"
)

// MaxPermissions is how many permissions a card may require.
const MaxPermissions = 16

// A Lack is that a user for whom an agent is to work has not what the agent requires.
type Lack struct {
	// Permission is what is lacking, as the agent's card names it, and Agent the agent.
	Permission, Agent string
}

// PermissionAction returns the action that users must be allowed who have the permission:
// "skill:create" is the action "skill.create". It is false for what is no permission.
func PermissionAction(permission string) (Action, bool) {
	kind, verb, ok := strings.Cut(permission, ":")
	a := Action(kind + "." + verb)
	return a, ok && !strings.ContainsAny(kind+verb, ".:") && len(RolesWith(a)) > 0
}

// Permissions lists those that a card may require, sorted.
func Permissions() (all []string) {
	for _, r := range Roles() {
		for _, a := range r.Actions() {
			name := strings.Replace(string(a), ".", ":", 1)
			if _, ok := PermissionAction(name); ok {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// RoleNames lists the roles that give the permission, sorted: what to ask for.
func RoleNames(permission string) (names []string) {
	a, _ := PermissionAction(permission)
	for _, r := range RolesWith(a) {
		names = append(names, string(r))
	}
	return names
}

// Requires is the refusal of a user who lacks a permission that the agent requires.
func Requires(op, agent, permission string) *Error {
	e := Errorf(Denied, op, "%s works only for users with the permission %s, which these roles give: %s; ask the operator for one",
		agent, permission, strings.Join(RoleNames(permission), ", "))
	e.Reason, e.Lack = ReasonPermission, &Lack{Permission: permission, Agent: agent}
	return e
}

// Lacking returns those of the permissions that no role gives of those that are held, in
// their order. Nobody has what is no permission.
func Lacking(held []Role, permissions []string) (missing []string) {
	for _, name := range permissions {
		if a, ok := PermissionAction(name); !ok || !Allow(held, a) {
			missing = append(missing, name)
		}
	}
	return missing
}
