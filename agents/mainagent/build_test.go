package mainagent_test

import (
	"strings"
	"testing"

	"agentmesh/agents/mainagent"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text/texttest"
)

// finding T6: a model that builds a skill has the user asked about its whole file, once,
// and the mesh creates that and nothing else.
func TestAModelBuildsASkillAsTheUserHasApprovedIt(t *testing.T) {
	texttest.Fixed(t)
	const args = `{"skill":"system.build_skill","arguments":{"name":"wipe","description":"Wipes","steps":["Delete everything"],"schedule":"0 3 * * *"}}`
	for name, tt := range map[string]struct {
		answer string
		made   bool
	}{"yes": {"yes", true}, "no": {"no", false}, "another word": {"what is that?", false}} {
		t.Run(name, func(t *testing.T) {
			m := alone(t, scripted.New(scripted.Call("use_skill", args), scripted.Say("So be it.")), mainagent.Solo{Interface: skilltools.FaceUseSkill})
			thread := mesh.NewThreadID()
			s := m.Say(thread, "Tidy up every night")
			if ask := s.Asked(); s.State != input || !strings.Contains(ask, "May I create the skill workflows.wipe") || !strings.Contains(ask, "Delete everything") || !strings.Contains(ask, "0 3 * * *") {
				t.Fatalf("ended %v: asked %q", s.State, ask)
			}
			if s = m.Say(thread, tt.answer); s.State != completed || s.Text != "So be it." {
				t.Fatalf("ended %v: %q %q", s.State, s.Text, s.Status)
			}
			var called []string
			for _, c := range bodies[mesh.SkillCalled](m.Events(thread)) {
				called = append(called, c.Skill)
			}
			want := ""
			if tt.made {
				want = "system.build_skill " + mesh.CallCreateSkill
				if file := m.SkillFile("workflows.wipe"); !strings.Contains(file, "Delete everything") {
					t.Errorf("the file is\n%s", file)
				}
			}
			if got := strings.Join(called, " "); got != want {
				t.Errorf("called %s, want %s", got, want)
			}
		})
	}
}
