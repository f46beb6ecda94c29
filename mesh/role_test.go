package mesh_test

import (
	"slices"
	"testing"

	"agentmesh/mesh"
)

// What each role is for, in one table: a role that is given another action is given it
// here too.
func TestRolesAllowTheirActionsAlone(t *testing.T) {
	for role, want := range map[mesh.Role][]mesh.Action{
		mesh.RoleViewer:         {"thread.read.own"},
		mesh.RoleReader:         {"thread.read.own", "thread.read.tenant"},
		mesh.RoleUser:           {"approve.own", "chat.send", "handoff", "orchestrate", "skill.call", "task.cancel.own", "thread.read.own"},
		mesh.RoleAgentPublisher: {"agent.register"},
		mesh.RoleSkillAuthor:    {"breaker.reset", "skill.create"},
		mesh.RoleApprover:       {"approve.any", "approve.own", "thread.read.own", "thread.read.tenant"},
		mesh.RoleDeleter:        {"thread.delete"},
		mesh.RoleTenantAdmin: {"admin.tenant", "agent.register", "agent.take", "approve.any", "approve.own", "audit.read", "breaker.reset", "chat.send", "handoff",
			"orchestrate", "skill.call", "skill.create", "task.cancel.own", "task.cancel.tenant", "thread.delete", "thread.read.own", "thread.read.tenant", "user.erase"},
		mesh.RoleAuditor: {"audit.read", "thread.read.own", "thread.read.tenant"},
		mesh.RoleOperator: {"admin.node", "admin.tenant", "agent.register", "agent.take", "approve.any", "approve.own", "audit.read", "breaker.reset", "chat.send", "handoff",
			"orchestrate", "skill.call", "skill.create", "task.cancel.own", "task.cancel.tenant", "thread.delete", "thread.read.own", "thread.read.tenant", "user.erase"},
		"nobody": nil,
	} {
		if got := role.Actions(); !slices.Equal(got, want) {
			t.Errorf("%s allows %v, want %v", role, got, want)
		}
		for _, a := range want {
			if !mesh.Allow([]mesh.Role{"nobody", role}, a) || !slices.Contains(mesh.RolesWith(a), role) {
				t.Errorf("%s does not allow %s", role, a)
			}
		}
	}
	if n := len(mesh.Roles()); n != 10 {
		t.Errorf("there are %d roles", n)
	}
}

// Token files and logs of before have names of permissions.
func TestPermissionsOfBeforeAreRoles(t *testing.T) {
	for name, want := range map[string]mesh.Role{
		"chat": mesh.RoleUser, "agents": mesh.RoleAgentPublisher, "skill:create": mesh.RoleSkillAuthor, "threads:delete": mesh.RoleDeleter,
		"operator": mesh.RoleOperator, "auditor": mesh.RoleAuditor,
	} {
		if r, ok := mesh.RoleOf(name); !ok || r != want {
			t.Errorf("%s is %s, %t", name, r, ok)
		}
	}
	for _, name := range []string{"", "Chat", "fly"} {
		if r, ok := mesh.RoleOf(name); ok || len(r.Actions()) != 0 {
			t.Errorf("%q is a role, and allows %v", name, r.Actions())
		}
	}
}
