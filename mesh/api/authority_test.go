package api

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/security/authz"
)

// part of T6: under a grant whose execution is over, or is none of its thread's, nothing
// is called but what settles what had begun; of others, all that their grants allow.
func TestADeadGrantStartsNothing(t *testing.T) {
	l := newLibrary(t)
	turn := l.post(t)
	ended, works := l.run(t, turn, "mailer", "*"), l.run(t, turn, "writer", "*")
	for _, g := range []*mesh.Grant{ended, works} {
		g.Capabilities = mesh.CapabilitiesFor(mesh.Roles())
	}
	gone := *works
	gone.Execution = mesh.NewExecutionID(l.key.ID)
	if err := l.decide(t.Context(), &mesh.Event{Execution: ended.Execution, Body: mesh.TaskMoved{State: completed}}); err != nil {
		t.Fatal(err)
	}
	a := Authority{Table: authz.Node(), States: l.states, Holders: anybody{}}
	tried := 0
	for method, rule := range a.Table {
		as := func(g *mesh.Grant) mesh.Principal {
			return mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g}
		}
		want := a.Table.Authorize(t.Context(), as(works), method)
		if _, err := a.Authorize(t.Context(), as(works), method, nil); (err == nil) != (want == nil) {
			t.Errorf("%s by one that works: %v, want %v", method, err, want)
		}
		if want != nil {
			continue
		}
		tried++
		for g, code := range map[*mesh.Grant]mesh.Code{ended: mesh.Precondition, &gone: mesh.NotFound} {
			if _, err := a.Authorize(t.Context(), as(g), method, nil); rule.Settles && err != nil || !rule.Settles && !mesh.IsCode(err, code) {
				t.Errorf("%s under the grant of %s: %v", method, g.Execution, err)
			}
		}
	}
	if tried < 15 {
		t.Errorf("%d methods were tried", tried)
	}
	if _, err := a.Authorize(t.Context(), mesh.Principal{Tenant: "acme", User: "ann", Roles: []mesh.Role{mesh.RoleUser}}, "/mesh.v1.ThreadService/ReadThread", nil); err != nil {
		t.Errorf("a user reads: %v", err)
	}
}

type anybody struct{}

func (anybody) Holds(mesh.TenantID, string, string) bool { return true }
