package admission

import (
	"slices"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/mesh/thread"
)

// What is dispatched to be dry has a grant that is, with nobody to dispatch and no capability,
// and stays so. Of its calls the mesh says, and no agent, which are not made: all that write,
// send requests, want the user's word or are not known. None of these waits for a yes, and
// none says anything of the skill's health; the others are made as ever.
func TestADryExecutionsCallsAreNotMadeWhereTheyHaveAnEffect(t *testing.T) {
	t.Parallel()
	skills := &shelf{of: map[mesh.TenantID]*skill.Catalog{"acme": new(skill.Catalog)}}
	notMade := map[string]bool{"mail.unknown": true}
	for name, tt := range map[string]struct {
		front  string
		effect bool
	}{
		"mail.send": {"handler: mail.send\naccess: write", true}, "mail.ask": {"handler: mail.read\naccess: read\nconfirm: Really?", true},
		"mail.get": {"handler: http.request\naccess: read", true}, "mail.tool": {"handler: \"mcp:mail\"\naccess: write", true},
		"mail.read": {"handler: mail.read\naccess: read", false}, "mail.look": {"handler: \"mcp:mail\"\naccess: read", false},
		"mail.page": {"access: write\nrequires_approval: true", false},
	} {
		s, err := skill.Parse("", []byte("---\nname: "+name+"\ndescription: Does.\n"+tt.front+"\n---\n# x\n"))
		if err != nil {
			t.Fatal(err)
		}
		skills.of["acme"].Put(s)
		notMade[name] = tt.effect
	}
	l := newLibrary(t, WithSkills(skills), WithBudgets(limit.Budgets{TurnCalls: -1, AgentCalls: -1, ThreadCalls: -1}))
	breaker := limit.NewBreaker(new(skilltest.State), limit.BreakerOptions{Fresh: -1})
	l.breakers = func(mesh.TenantID, string) Breaker { return breaker }
	turn := l.post(t)
	mine := l.run(t, turn, "builder", "mail.*")
	mine.Capabilities = mesh.CapabilitiesFor(mesh.Roles())
	x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: mine.Execution, Kind: mesh.KindAgent, Agent: "worker", User: "ann", Skills: []string{"mail.*"}, Dry: true}
	got, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.DispatchIssued{Child: x}})
	dry := got.Grants[x.ID]
	if err != nil || !dry.Dry || dry.Depth != 0 || !slices.Equal(dry.Capabilities, []mesh.Capability{mesh.CapReadThread}) {
		t.Fatalf("the grant is %+v, %v", dry, err)
	}
	wet := x
	wet.Dry = false
	if got, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.DispatchIssued{Child: wet}}); err == nil {
		t.Errorf("it gets another grant: %+v", got.Grants)
	}
	for name, not := range notMade {
		for _, says := range []bool{false, true} {
			call := mesh.SkillCalled{Call: name, Skill: name, Args: "{}", NotMade: says}
			got, err := l.add(t.Context(), &dry, &mesh.Event{Execution: x.ID, Body: call})
			if err != nil || len(got.Calls) != 1 || got.Calls[0].NotMade != not {
				t.Errorf("%s, said to be %v: %+v, %v", name, says, got.Calls, err)
			}
			if _, err := l.add(t.Context(), &dry, &mesh.Event{Execution: x.ID, Body: mesh.SkillReturned{Call: name}}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for range 2 * limit.DefaultFailures { // whatever the agent says came of it
		call := mesh.NewEventID()
		if _, err := l.add(t.Context(), &dry, &mesh.Event{Execution: x.ID, Body: mesh.SkillCalled{Call: call, Skill: "mail.send", Args: "{}"}},
			&mesh.Event{Execution: x.ID, Body: mesh.SkillReturned{Call: call, Failed: true}}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.SkillCalled{Call: "real", Skill: "mail.send", Args: "{}", NotMade: true}}); err != nil || got.Calls[0].NotMade {
		t.Errorf("where nothing is dry: %+v, %v", got.Calls, err)
	}
	events, err := l.log.Read(t.Context(), l.key, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range thread.SkillCalls(events) {
		if is := c.Status == thread.CallNotMade; c.Execution == x.ID && c.Status != thread.CallFailed && is != notMade[c.Skill] || c.Execution == mine.Execution && (is || !c.Unsettled()) {
			t.Errorf("%s is %s", c.Skill, c.Status)
		}
	}
}
