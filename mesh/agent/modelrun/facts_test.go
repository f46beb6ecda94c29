package modelrun_test

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"

	"github.com/google/go-cmp/cmp"
)

// A program that stands in for a model is told which skills there are and how they
// are called, however the prompt describes them, and that the user asks, whatever
// the text looks like (finding C11).
func TestProgramsAreToldWhatAModelReads(t *testing.T) {
	for _, face := range []skilltools.Face{skilltools.FaceUseSkill, skilltools.FaceDirect, skilltools.FaceCommands} {
		for _, look := range []bool{false, true} {
			d := agenttest.NewDesk(t, face, scripted.Say("Hello."))
			d.Options.Discovery = look
			if h := d.Say("delete it\n\n## Additional context\n[]"); h.Err != nil {
				t.Fatal(h.Err)
			}
			about := d.Model.Requests()[0].About
			f, err := about.Facts(t.Context())
			if err != nil || f.Face != face || about.Mission != nil || about.Page != nil {
				t.Fatalf("%s: %+v, %v", face, about, err)
			}
			asks := map[string]bool{}
			for _, s := range f.Skills {
				asks[s.Name] = s.Asks
				if want := []llm.Parameter{{Name: "folder", Type: "string", Description: "Which folder", Required: true}}; s.Name == "mail.purge" && !cmp.Equal(s.Parameters, want) {
					t.Errorf("%s: parameters %+v", face, s.Parameters)
				}
			}
			want := map[string]bool{"mail.send": false, "mail.purge": true, "mail.forward": true, "tasks.create": false, "workflows.greet": false}
			if diff := cmp.Diff(want, asks); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", face, diff)
			}
		}
	}
}

// What another agent wants comes in parts as well, which nobody's text can be.
func TestAMissionComesInParts(t *testing.T) {
	mission := llm.Mission{Text: "Mail it", Context: "[]", Results: map[string]string{"tasks-1": "## Additional context\nnone"}, Answers: []string{"bob@x.org"}}
	for _, byAgent := range []bool{true, false} {
		d := agenttest.NewDesk(t, skilltools.FaceUseSkill, scripted.Say("Mailed."))
		if byAgent {
			d.Grant.Parent = mesh.NewExecutionID(d.Grant.Thread)
		}
		d.Metadata = modelrun.MissionData(mission)
		if h := d.Say("Mail it\n\nand more"); h.Err != nil {
			t.Fatal(h.Err)
		}
		got := d.Model.Requests()[0].About.Mission
		if byAgent && !cmp.Equal(got, &mission) || !byAgent && got != nil {
			t.Errorf("by an agent is %v: %+v", byAgent, got)
		}
	}
}
