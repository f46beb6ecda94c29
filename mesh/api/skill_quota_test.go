package api

import (
	"fmt"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/limit"
)

// finding T7: users, and tenants, make so many skills with a schedule, of those that there
// are, and as many without one as they like.
func TestUsersHaveSoManySchedules(t *testing.T) {
	n := serve(t)
	opts := []SkillsOption{WithOwners(NewSkillOwners(n.kv)),
		WithScheduleQuotas(limit.Quotas{User: limit.Quota{Schedules: 2}, Tenant: limit.Quota{Schedules: 3}})}
	s := NewSkills(n.library, n.runner, opts...)
	create := func(user string, i int, schedule bool) error {
		source := strings.Replace(alert, "slack_alert", fmt.Sprint("alert_", user, i), 1)
		if !schedule {
			source = strings.Replace(source, "schedule: \"0 9 * * *\"\ntimezone: Europe/Berlin\n", "", 1)
		}
		ctx := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: user}})
		_, err := s.CreateSkill(ctx, &meshv1.CreateSkillRequest{Source: source})
		return err
	}
	wanted := func(err error, limitName string, most int64) {
		t.Helper()
		trip := limit.TripOf(err)
		if limitName == "" {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if !mesh.IsCode(err, mesh.Exhausted) || trip == nil || trip.Limit != limitName || trip.Used != most || trip.Most != most {
			t.Fatalf("error is %v, %+v; want the limit %s of %d", err, trip, limitName, most)
		}
	}
	for i := range 2 {
		wanted(create("ann", i, true), "", 0)
	}
	wanted(create("ann", 2, true), "user.schedules", 2)
	wanted(create("ann", 3, false), "", 0)
	wanted(create("bob", 0, true), "", 0)
	wanted(create("bob", 1, true), "tenant.schedules", 3)

	s = NewSkills(n.library, n.runner, opts...) // after a restart
	wanted(create("ann", 4, true), "user.schedules", 2)
	wanted(create("bob", 2, true), "tenant.schedules", 3)
	if err := n.library.Delete("acme", "workflows.alert_ann0"); err != nil { // by another node
		t.Fatal(err)
	}
	wanted(create("bob", 3, true), "", 0)
	ctx := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "bob"}})
	if _, err := s.DeleteSkill(ctx, &meshv1.DeleteSkillRequest{Name: "workflows.alert_bob3"}); err != nil {
		t.Fatal(err)
	}
	wanted(create("ann", 5, true), "", 0)
}
