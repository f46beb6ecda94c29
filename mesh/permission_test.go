package mesh_test

import (
	"slices"
	"testing"

	"agentmesh/mesh"
)

func TestAPermissionIsAnAction(t *testing.T) {
	for name, want := range map[string]mesh.Action{
		"skill:create": mesh.ActCreateSkill, "chat:send": mesh.ActChat, "audit:read": mesh.ActReadAudit, "admin:node": mesh.ActAdminNode,
		"": "", "skill": "", "skill:": "", ":create": "", "skill.create": "", "Skill:create": "", "skill:create ": "", "skill:drop": "", "skill:create:x": "",
		"thread.read:own": "", "thread:read.own": "", "thread:read:own": "", "orchestrate": "", "orchestrate:": "",
	} {
		if a, ok := mesh.PermissionAction(name); ok != (want != "") || ok && a != want {
			t.Errorf("%q is %q, %v", name, a, ok)
		}
	}
	all := mesh.Permissions()
	if !slices.Contains(all, "skill:create") || !slices.IsSorted(all) || slices.Contains(all, "thread:read.own") {
		t.Errorf("there are %q", all)
	}
	for _, name := range all {
		if a, ok := mesh.PermissionAction(name); !ok || len(mesh.RoleNames(name)) == 0 {
			t.Errorf("%q, which is listed, is %q, %v", name, a, ok)
		}
	}
}

func TestNobodyHasWhatIsNoPermission(t *testing.T) {
	required := []string{"skill:create", "chat:send", "", "skill:drop"}
	for _, tt := range []struct {
		held []mesh.Role
		want []string
	}{
		{nil, required},
		{[]mesh.Role{mesh.RoleUser}, []string{"skill:create", "", "skill:drop"}},
		{[]mesh.Role{mesh.RoleUser, mesh.RoleSkillAuthor}, []string{"", "skill:drop"}},
		{mesh.Roles(), []string{"", "skill:drop"}},
	} {
		if got := mesh.Lacking(tt.held, required); !slices.Equal(got, tt.want) {
			t.Errorf("with %v, %q are lacking, want %q", tt.held, got, tt.want)
		}
	}
	err := mesh.Wrap("x", mesh.Requires("x", "builder", "skill:create"))
	if l := mesh.LackOf(err); !mesh.IsCode(err, mesh.Denied) || l == nil || *l != (mesh.Lack{Permission: "skill:create", Agent: "builder"}) {
		t.Errorf("the refusal has %+v: %v", l, err)
	}
}
