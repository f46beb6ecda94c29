package agent_test

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/text/texttest"

	"github.com/google/go-cmp/cmp"
)

// S0-076, S0-077: of what two reports tell of the same execution there is each call
// once, and calls of others that look the same are there besides. A person reads
// no ids.
func TestAReportHasEachCallOnce(t *testing.T) {
	texttest.Fixed(t)
	x, y := mesh.NewExecutionID(agenttest.Thread), mesh.NewExecutionID(agenttest.Thread)
	report := func(of mesh.ExecutionID, done, open []string) agent.Report {
		r := agent.Report{Limit: limit.TurnSkillCalls, Most: 2}
		r.Add(agent.Work{Done: done, Open: open})
		return r.Under(of)
	}
	all := agent.Merge([]agent.Report{
		report(x, []string{"note(a)", "note(a)"}, []string{"note(b)"}),
		report(y, []string{"note(a)"}, nil),
		report(x, []string{"note(a)", "note(c)"}, []string{"note(b)"}),
	})
	const want = "I have used the 2 skill calls that I may make for one message." +
		"\n\nDone so far:\n- note(a)\n- note(a)\n- note(c)\n- note(a)\n\nStill open:\n- note(b)\n\nWould you like me to continue?"
	if diff := cmp.Diff(want, all.Text()); diff != "" {
		t.Error(diff)
	}
}
