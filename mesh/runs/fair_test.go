package runs_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/runs"
	"agentmesh/mesh/skill"
)

// crowd is a library of tenants that have so many schedules each.
type crowd map[mesh.TenantID]int

func (c crowd) Tenants() (all []mesh.TenantID) {
	for t := range c {
		all = append(all, t)
	}
	return all
}

func (c crowd) Watch(ctx context.Context, t mesh.TenantID) iter.Seq2[skill.Change, error] {
	return func(yield func(skill.Change, error) bool) {
		for i := range c[t] {
			s := &skill.Skill{Name: fmt.Sprintf("a.s%d", i), Tenant: t, Schedule: "0 9 * * *"}
			if !yield(skill.Change{Kind: skill.ChangePut, Skill: s}, nil) {
				return
			}
		}
		if yield(skill.Change{Kind: skill.ChangeSynced}, nil) {
			<-ctx.Done()
			yield(skill.Change{}, ctx.Err())
		}
	}
}

// began lists who began, in order.
func (w *world) began(of func(skillCall) string) (list []string) {
	for _, c := range w.agents.seen() {
		list = append(list, of(c))
	}
	return list
}

func tenantOf(c skillCall) string { return string(c.tenant) }

// finding T7: of two tenants whose schedules are due at once, the one with many does not
// delay the one with few, neither when they are claimed nor when they get slots, and
// never has all slots.
func TestSchedulesOfATenantDoNotDelayAnothers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(time.Minute)
		lib := crowd{"acme": 200, "beta": 3}
		defer w.schedule(lib, func(c *runs.SchedulerConfig) { c.Parallel = 4 })()
		w.at("01-01 09:00:30")
		if first := w.began(tenantOf); len(first) < 3 || !slices.Contains(first, "beta") {
			t.Errorf("at first began %q; one of four slots is for a tenant that has none", first)
		}
		w.at("01-01 09:03:30")
		order := w.began(tenantOf)
		if few := order[:10]; count(few, "beta") != 3 {
			t.Errorf("the order is %q; three of the first ten are beta's", order)
		}
		w.at("01-01 09:57:30")
		if n := count(w.began(tenantOf), "acme"); n < 150 { // it has three of four slots
			t.Errorf("%d runs of acme began; its turns are not taken from it", n)
		}
	})
}

// finding T7: nor do those of a user delay another user's of the same tenant.
func TestSchedulesOfAUserDoNotDelayAnothers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(time.Minute)
		owner := func(_ context.Context, _ mesh.TenantID, skill string) (string, error) {
			if skill == "a.s7" || skill == "a.s8" {
				return "bob", nil
			}
			return "ann", nil
		}
		defer w.schedule(crowd{"acme": 100}, func(c *runs.SchedulerConfig) { c.Parallel, c.Owner = 1, owner })()
		w.at("01-02 08:59:30") // by now it is known whose they are, and nobody's has begun
		before := len(w.agents.seen())
		w.at("01-02 09:06:30")
		order := w.began(func(c skillCall) string { return c.user })[before:]
		if n := count(order, "bob"); n != 2 {
			t.Errorf("the order is %q; two of it are bob's", order)
		}
	})
}

// A tenant that weighs three has three runs begin where another has one.
func TestTenantsGoInTurnsAsTheyWeigh(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(time.Minute)
		weight := func(t mesh.TenantID) int { return map[mesh.TenantID]int{"acme": 3}[t] }
		defer w.schedule(crowd{"acme": 30, "beta": 10}, func(c *runs.SchedulerConfig) { c.Parallel, c.Weight = 1, weight })()
		w.at("01-01 09:16:30")
		order := w.began(tenantOf)[1:] // the first one had no line before it
		if n := count(order[:16], "beta"); n != 4 {
			t.Errorf("the order is %q; every fourth is beta's", order)
		}
	})
}

func count(list []string, of string) (n int) {
	for _, s := range list {
		if s == of {
			n++
		}
	}
	return n
}
