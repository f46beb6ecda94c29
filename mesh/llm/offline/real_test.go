package offline

import (
	"fmt"
	"os"
	"strings"
	"testing"

	mskill "agentmesh/mesh/skill"
	"agentmesh/skills"
)

func TestReal(t *testing.T) {
	cat, probs := mskill.Load(skills.FS)
	if len(probs) > 0 {
		t.Fatal(probs)
	}
	testSkills = nil
	for _, s := range cat.List() {
		d := skillDef{Name: s.Name, Description: s.Description, Access: s.Access, Tags: s.Tags}
		for _, p := range s.Parameters {
			d.Parameters = append(d.Parameters, paramDef{p.Name, p.Type, p.Required, p.Description, p.Enum})
		}
		testSkills = append(testSkills, d)
	}
	b, _ := os.ReadFile("/tmp/phrases.txt")
	for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		w := newWorld(t)
		w.replies["tasks.search"] = "Overdue tasks: 2, as of 2026-11-20\n\n1. Pay (due 2026-11-18, 2 days overdue, todo) [t-ab2cd]"
		w.replies["knowledge.search"] = "Passages found for \"x\": 2\n\n### 1. Limits > Rate limiting\nSource: docs/limits.md:12\n\nSet rate_limit in mesh.yaml.\n\nMore text.\n\n### 2. Pasta\nSource: docs/pasta.md:3\n\nBoil water to configure it.\n\nSources: docs/limits.md, docs/pasta.md"
		a := w.say(strings.ReplaceAll(l, "\\n", "\n"))
		fmt.Println("=====", l)
		fmt.Println("consult", w.consulted, "handoff", w.handoffs)
		for _, d := range w.dispatched {
			fmt.Println("  D", d["agent_id"], d["skills"], d["depends_on"], "|", d["mission"])
		}
		for _, u := range w.uses {
			fmt.Println("  U", u.Agent, u.Skill, toJSON(u.Args))
		}
		if strings.Contains(l, "ow") {
			fmt.Println("  A", strings.ReplaceAll(a, "\n", "\n    "))
		}
	}
}
