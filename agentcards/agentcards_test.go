package agentcards_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"agentmesh/agentcards"
	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/skill"
	"agentmesh/skills"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
)

func read(t *testing.T, name string) *a2apb.AgentCard {
	t.Helper()
	data, err := fs.ReadFile(agentcards.FS, name+".json")
	if err != nil {
		t.Fatal(err)
	}
	card, err := registry.ParseCard(name+".json", data)
	if err != nil {
		t.Fatal(err)
	}
	return card
}

func ids(card *a2apb.AgentCard) []string {
	var out []string
	for _, s := range card.GetSkills() {
		out = append(out, s.GetId())
	}
	return out
}

// S4-061: each has an identity and skills, and A2A's rules hold for it.
func TestEveryCardIsValidAndDeclaresOurExtension(t *testing.T) {
	files, err := fs.Glob(agentcards.FS, "*.json")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		name := strings.TrimSuffix(f, ".json")
		names = append(names, name)
		if !mesh.ValidAgentName(name) {
			t.Errorf("%s does not name an agent", f)
		}
		if !registry.Params(read(t, name)).Declared {
			t.Errorf("%s does not declare %s", f, mesh.ExtensionURI)
		}
	}
	want := []string{"calendar", "knowledge", "mail", "main", "orchestrator", "skill-builder", "tasks", "worker"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("the agents with a card (-want +got):\n%s", diff)
	}
}

// A dispatcher finds specialists by the skills on their cards, so the cards
// must name those that there are.
func TestASpecialistsCardNamesAllSkillsOfItsDomainAndNoOther(t *testing.T) {
	catalog, problems := skill.Load(skills.FS)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, domain := range []string{"knowledge", "tasks", "mail", "calendar"} {
		var want []string
		for _, s := range catalog.Match([]string{domain + ".*"}) {
			want = append(want, s.Name)
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(ids(read(t, domain))))); diff != "" {
			t.Errorf("skills of %s (-want +got):\n%s", domain, diff)
		}
	}
	if diff := cmp.Diff([]string{"*"}, ids(read(t, "worker"))); diff != "" {
		t.Errorf("skills of worker (-want +got):\n%s", diff)
	}
	for _, name := range []string{"main", "orchestrator", "skill-builder"} {
		for _, s := range catalog.List() {
			if slices.ContainsFunc(ids(read(t, name)), func(id string) bool { return mesh.SkillMatches(id, s.Name) }) {
				t.Errorf("%s would be dispatched for the skill %s, which it cannot use", name, s.Name)
			}
		}
	}
}

// S4-040, S4-060.
func TestTheSkillBuildersCardSaysHowItTakesOver(t *testing.T) {
	want := registry.Extension{
		Declared: true, HandoffSupport: true, StatefulWorkflows: true, MultiTurn: true, RequiredPermissions: []string{"skill:create"},
		ExitWords:       []string{"cancel", "quit", "stop", "abort", "never mind", "go back"},
		HandoffTriggers: []string{"create skill", "build skill", "new skill"},
		WorkflowStates:  []string{"gathering_requirements", "defining_triggers", "generating", "testing", "complete"},
	}
	if diff := cmp.Diff(want, registry.Params(read(t, "skill-builder"))); diff != "" {
		t.Errorf("extension (-want +got):\n%s", diff)
	}
	o := read(t, "orchestrator")
	if !registry.Params(o).Orchestration || !slices.Contains(o.GetSkills()[0].GetTags(), "orchestration") {
		t.Error("the orchestrator's card does not say that it orchestrates")
	}
}
