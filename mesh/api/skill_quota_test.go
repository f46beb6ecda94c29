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

// A skill of the tenant's is replaced by whoever may create skills; one that runs by itself
// does so in the name of who made it, and is changed by that user alone, also into one.
func TestASkillThatRunsByItselfIsChangedByItsOwnerAlone(t *testing.T) {
	n := serve(t)
	s := NewSkills(n.library, n.runner, WithOwners(NewSkillOwners(n.kv)),
		WithScheduleQuotas(limit.Quotas{User: limit.Quota{Schedules: 1}}))
	as := func(user, source, replaces string) (*meshv1.Skill, error) {
		ctx := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: user}})
		res, err := s.CreateSkill(ctx, &meshv1.CreateSkillRequest{Source: source, Replaces: replaces})
		return res.GetSkill(), err
	}
	plain := strings.Replace(alert, "schedule: \"0 9 * * *\"\ntimezone: Europe/Berlin\n", "", 1)
	louder := strings.Replace(plain, "description: ", "description: Loudly ", 1)
	if plain == alert || louder == plain {
		t.Fatal("the test's skills are the same")
	}
	made, err := as("ann", plain, "")
	if err != nil {
		t.Fatal(err)
	}
	changed, err := as("bob", louder, made.GetVersion())
	if err != nil || changed.GetSource() != louder {
		t.Fatalf("changed to %v, %v", changed, err)
	}
	if _, err := as("bob", alert, changed.GetVersion()); !mesh.IsCode(err, mesh.Denied) || mesh.FieldOf(err) != "replaces" {
		t.Errorf("bob makes it run in ann's name: %v", err)
	}
	scheduled, err := as("ann", alert, changed.GetVersion())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := as("bob", plain, scheduled.GetVersion()); !mesh.IsCode(err, mesh.Denied) {
		t.Errorf("bob changes what runs in ann's name: %v", err)
	}
	if _, err := as("ann", strings.Replace(alert, "slack_alert", "other", 1), ""); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("a second schedule: %v", err)
	}
	if _, err := as("ann", plain, changed.GetVersion()); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("with an old version: %v", err)
	}
}
