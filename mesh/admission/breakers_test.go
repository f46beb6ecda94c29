package admission

import (
	"fmt"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/skill/skilltest"
)

// part of T1, S3-047 to S3-049: a breaker goes by what was logged of calls: it counts the
// failures of a skill, whoever's they are, and not those that say nothing of it, refuses
// calls while the circuit is open, and lets one through that finds out.
func TestBreakersGoByWhatWasLogged(t *testing.T) {
	l, c := timed(t, limit.Budgets{TurnCalls: -1, AgentCalls: -1, ThreadCalls: -1})
	values := new(skilltest.State)
	boot := func() {
		b := limit.NewBreaker(values, limit.BreakerOptions{Now: c.now, Fresh: -1})
		l.breakers = func(tenant mesh.TenantID, skill string) Breaker {
			if tenant != "acme" || skill == "mail.none" {
				return nil
			}
			return b
		}
	}
	boot()
	turn := l.post(t)
	agents := []*mesh.Grant{l.run(t, turn, "one", "mail.*"), l.run(t, turn, "two", "mail.*")}
	n := 0
	call := func(g *mesh.Grant, skill string) (id string, err error) {
		n++
		id = fmt.Sprint("c", n)
		_, err = l.add(t.Context(), g, &mesh.Event{Execution: g.Execution, Time: c.now(), Body: mesh.SkillCalled{Call: id, Skill: skill, Args: "{}"}})
		return id, err
	}
	returned := func(g *mesh.Grant, id string, b mesh.SkillReturned) {
		t.Helper()
		b.Call = id
		e := &mesh.Event{Execution: g.Execution, Time: c.now(), Body: b}
		for range 2 { // also when its answer was lost
			if _, err := l.add(t.Context(), g, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	fails := func(times int, b mesh.SkillReturned) {
		t.Helper()
		for i := range times {
			g := agents[i%2]
			id, err := call(g, "mail.send")
			if err != nil {
				t.Fatalf("call %d: %v", i+1, err)
			}
			returned(g, id, b)
		}
	}
	fails(4, mesh.SkillReturned{Failed: true})
	fails(3, mesh.SkillReturned{Failed: true, Blameless: true})
	fails(1, mesh.SkillReturned{})
	fails(4, mesh.SkillReturned{Failed: true})
	boot() // as after a restart
	g := agents[0]
	both := []*mesh.Event{{Execution: g.Execution, Body: mesh.SkillCalled{Call: "x", Skill: "mail.send", Args: "{}"}},
		{Execution: g.Execution, Body: mesh.SkillReturned{Call: "x", Failed: true}}}
	if _, err := l.add(t.Context(), g, both...); err != nil {
		t.Fatal(err)
	}
	_, err := call(g, "mail.send")
	wantCode(t, err, mesh.Precondition, "temporarily unavailable")
	if _, err := call(g, "mail.read"); err != nil {
		t.Errorf("another skill: %v", err)
	}
	if _, err := call(g, "mail.none"); err != nil {
		t.Errorf("one that is no skill: %v", err)
	}
	if _, err := l.add(t.Context(), g, both...); err != nil { // the log has it
		t.Errorf("a call that is sent again: %v", err)
	}
	c.pass(limit.DefaultOpen)
	probe, err := call(agents[1], "mail.send")
	if err != nil {
		t.Fatal(err)
	}
	_, err = call(g, "mail.send")
	wantCode(t, err, mesh.Precondition)
	boot() // what the probe finds, the next process hears
	returned(agents[1], probe, mesh.SkillReturned{})
	if _, err := call(g, "mail.send"); err != nil {
		t.Errorf("after a probe that went well: %v", err)
	}
}

// A probe that is refused for another reason leaves its place to the next call.
func TestAProbeThatIsNotMadeFreesItsPlace(t *testing.T) {
	l, c := timed(t, limit.Budgets{TurnCalls: 5})
	b := limit.NewBreaker(new(skilltest.State), limit.BreakerOptions{Now: c.now})
	l.breakers = func(mesh.TenantID, string) Breaker { return b }
	turn := l.post(t)
	g := l.run(t, turn, "one", "mail.*")
	call := func(id string) error {
		_, err := l.add(t.Context(), g, &mesh.Event{Execution: g.Execution, Time: c.now(), Body: mesh.SkillCalled{Call: id, Skill: "mail.send", Args: "{}"}})
		return err
	}
	for i := range 5 {
		id := fmt.Sprint(i)
		if err := call(id); err != nil {
			t.Fatal(err)
		}
		if _, err := l.add(t.Context(), g, &mesh.Event{Execution: g.Execution, Body: mesh.SkillReturned{Call: id, Failed: true}}); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, call("5"), mesh.Precondition)
	c.pass(limit.DefaultOpen)
	for _, id := range []string{"6", "7"} { // the breaker is asked first, and then the limit
		if err := call(id); !mesh.IsCode(err, mesh.Exhausted) {
			t.Errorf("call %s: %v", id, err)
		}
	}
}
