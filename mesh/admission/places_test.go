package admission

import (
	"fmt"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
)

// Of those that wait for a place, whoever's tenant has the fewest gets the next one, then
// whose user has, then who came first; who does not ask any more is passed over, and who
// dispatches others gives its own place back, so that they find one.
func TestPlacesGoInTurns(t *testing.T) {
	p, now := &Places{Most: 2}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ask := func(tenant, user, id string) bool {
		t.Helper()
		g := &mesh.Grant{Tenant: mesh.TenantID(tenant), User: user, Execution: mesh.ExecutionID("by-" + id)}
		trip := p.take(g, mesh.Execution{ID: mesh.ExecutionID(id), Deadline: now.Add(time.Hour)}, now)
		if trip != nil && (trip.Limit != limit.NodeAgents || trip.Most != 2) {
			t.Errorf("%s is refused by %+v", id, trip)
		}
		return trip == nil
	}
	want := func(got, want bool, id string) {
		t.Helper()
		if got != want {
			t.Errorf("%s has a place: %v", id, got)
		}
	}
	end := func(id string) {
		p.Added(mesh.ThreadKey{}, []*mesh.Event{{Body: mesh.DispatchSettled{Child: mesh.ExecutionID(id)}}}, 0)
	}
	for i := range 2 {
		want(ask("big", "ann", fmt.Sprint("b", i)), true, "b")
	}
	want(ask("big", "ann", "b2"), false, "b2")
	want(ask("big", "bob", "b3"), false, "b3")
	want(ask("small", "eve", "s"), false, "s")
	end("b0")
	want(ask("big", "ann", "b2"), false, "b2, while another tenant has none")
	want(ask("small", "eve", "s"), true, "s")
	want(ask("small", "eve", "s"), true, "s again")
	end("s")
	want(ask("big", "ann", "b2"), false, "b2, while another user has none")
	want(ask("big", "bob", "b3"), true, "b3")
	end("b1")
	now = now.Add(time.Minute)
	want(ask("big", "ann", "b4"), true, "b4, as b2 asks no more")
	p.Added(mesh.ThreadKey{}, []*mesh.Event{{Execution: "b4", Body: mesh.TaskMoved{State: 6}}}, 0) // INPUT_REQUIRED
	want(ask("big", "ann", "boss"), true, "boss")
	g := &mesh.Grant{Tenant: "big", User: "ann", Execution: "boss"}
	if trip := p.take(g, mesh.Execution{ID: "below", Deadline: now.Add(time.Hour)}, now); trip != nil {
		t.Errorf("who it dispatches finds no place: %+v", trip)
	}
	now = now.Add(2 * time.Hour)
	want(ask("big", "ann", "late"), true, "late, as the others' time is long over")
	none := &Places{Most: limit.Unlimited}
	if none.take(g, mesh.Execution{ID: "x"}, now) != nil || none.line.Held() > 0 {
		t.Error("there is a limit where there is none")
	}
}
