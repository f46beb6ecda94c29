package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// lookupFile is a skill of the operator's that finds tasks.
func lookupFile(access string) string {
	return "---\nname: crm.find\ndescription: Find customers' tasks\nhandler: tasks.search\naccess: " + access + "\n---\n# Find\n\n    crm.find\n"
}

// calling is a reply that calls a skill through the face.
func calling(face, name string, args map[string]any) modelReply {
	if face == "json" {
		return modelReply{calls: []modelCall{useSkill(name, args)}}
	}
	line := name
	for flag, value := range args {
		line += fmt.Sprintf(" --%s %q", flag, value)
	}
	return modelReply{text: "```cmd\n" + line + "\n```\n"}
}

// readingItself is a model that has main and the orchestrator read, tries to have each
// of them write, and then has others do it. meanwhile is called before the main
// agent finds customers for the second time.
func readingItself(t *testing.T, face string, meanwhile func()) *scriptedModel {
	order := modelCall{"dispatch_agent", map[string]any{"agent_id": "t", "mission": "Note it", "skills": []string{"tasks.create"}}}
	return startScripted(t, func(req *modelRequest) modelReply {
		_, after := req.since()
		replies := 0
		for _, msg := range after {
			if msg.Role == "assistant" {
				replies++
			}
		}
		steps := []modelReply{calling(face, "tasks.create", map[string]any{"title": "Call Ann"}), {text: "Noted."}} // of a specialist
		switch {
		case req.offers("consult_agent"):
			if replies == 1 {
				meanwhile()
			}
			steps = []modelReply{calling(face, "crm.find", nil), calling(face, "crm.find", nil), calling(face, "tasks.create", map[string]any{"title": "Call Ann"}),
				{calls: []modelCall{{"consult_agent", map[string]any{"agent": "orchestrator", "task": "Note that I call Ann"}}}}, {text: "All done."}}
		case req.offers("dispatch_agent"):
			steps = []modelReply{calling(face, "tasks.search", nil), calling(face, "tasks.create", map[string]any{"title": "Call Ann"}),
				{calls: []modelCall{order, {"get_agent_results", map[string]any{}}}}, {text: "Orchestrated."}}
		}
		if replies >= len(steps) {
			t.Errorf("reply %d is asked for:\n%s", replies+1, req.text())
			return modelReply{text: "I am lost."}
		}
		return steps[replies]
	})
}

// C1 row 6: with orchestrator_read_skills the main agent and the orchestrator read
// themselves, through either face, in the log under their own names; what writes
// is refused to them, by the mesh too where the skill has read until now, and is
// done by the agent that they ask.
func TestWhoDelegatesReadsItselfIfTheOperatorLetsIt(t *testing.T) {
	for _, face := range []string{"cli", "json"} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "skills", "crm", "find.md")
			writeFile(t, file, lookupFile("read"))
			writeFile(t, filepath.Join(dir, "mesh.yaml"), "orchestrator_read_skills: true\nskill_interface: "+face+"\n")
			started := make(chan meshv1.SkillServiceClient, 1)
			model := readingItself(t, face, func() {
				writeFile(t, file, lookupFile("write"))
				if _, err := (<-started).ReloadSkills(timely(t), &meshv1.ReloadSkillsRequest{}); err != nil {
					t.Error(err)
				}
			})
			m := upWith(t, dir, model.env())
			started <- meshv1.NewSkillServiceClient(m.dial())
			id := mesh.NewThreadID()
			if h := speaker(speakGRPC).complete(t, m, id, "Which customers wait? And note that I call Ann"); h.text != "All done." {
				t.Errorf("said %q", h.text)
			}
			var calls []string
			for _, e := range m.log(id) {
				if c := e.GetSkillCalled(); c != nil {
					calls = append(calls, e.GetActor()+" "+c.GetSkill())
				}
			}
			if diff := cmp.Diff([]string{"agent:main crm.find", "agent:orchestrator tasks.search", "agent:tasks tasks.create"}, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			told := map[string][]string{} // by what an agent can do
			for _, req := range model.asked() {
				for _, tool := range []string{"consult_agent", "dispatch_agent"} {
					if n := len(req.Messages); req.offers(tool) {
						told[tool] = append(told[tool], string(req.Messages[n-1].Content))
					}
				}
			}
			const refused = "Failed to execute 'tasks.create': its access is write, and this agent itself runs only skills with the access read; have another agent do it"
			for _, want := range []struct {
				tool  string
				reply int
				words string
			}{
				{"consult_agent", 2, `Failed to execute 'crm.find': the agent main itself calls only skills with the access read, and "crm.find" is none; dispatch an agent that does`},
				{"consult_agent", 3, refused}, {"dispatch_agent", 2, refused},
			} {
				if got := told[want.tool]; len(got) <= want.reply || !strings.Contains(got[want.reply], want.words) {
					t.Errorf("the agent with %s reads %q, want %q in the last of %d", want.tool, got, want.words, want.reply+1)
				}
			}
		})
	}
}

// C1 row 6, S0-003: by default the same model can have them call nothing: they are
// offered no skills, and its blocks are text.
func TestWhoDelegatesCallsNothingByDefault(t *testing.T) {
	for _, face := range []string{"cli", "json"} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "mesh.yaml"), "skill_interface: "+face+"\n")
			model := startScripted(t, func(req *modelRequest) modelReply {
				_, after := req.since()
				if len(after) > 0 {
					return modelReply{text: "ok"}
				}
				r := calling(face, "tasks.search", nil)
				if req.offers("consult_agent") {
					r.calls = append(r.calls, modelCall{"consult_agent", map[string]any{"agent": "orchestrator", "task": "Look"}})
				} else {
					r.calls = append(r.calls, modelCall{"get_skill", map[string]any{}})
				}
				return r
			})
			m := upWith(t, dir, model.env())
			id := mesh.NewThreadID()
			speaker(speakGRPC).complete(t, m, id, "Look")
			if calls := madeCalls(m.log(id)); len(calls) > 0 {
				t.Errorf("called %q", calls)
			}
			var asked []string
			for _, req := range model.asked() {
				var tools []string
				for _, tool := range req.Tools {
					tools = append(tools, tool.Function.Name)
				}
				asked = append(asked, strings.Join(tools, " "))
				system, err := json.Marshal(req.Messages[0].Content)
				if err != nil || strings.Contains(string(system), "## Skills") || strings.Contains(string(system), "## Commands") {
					t.Errorf("the model is told %s, %v", system, err)
				}
			}
			main, orchestrator := "consult_agent request_handoff", "answer_agent cancel_agent dispatch_agent get_agent_results get_skill list_agents"
			if diff := cmp.Diff([]string{main, orchestrator, orchestrator, main}, asked); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
		})
	}
}

// C1 row 6: the offline planner, which goes by rules, has others do everything
// whatever the operator allows.
func TestThePlannerDelegatesWhereItMayRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "orchestrator_read_skills: true\n")
	m := up(t, dir)
	id := mesh.NewThreadID()
	speaker(speakGRPC).complete(t, m, id, `Create a task called "Call Ann"`)
	speaker(speakGRPC).complete(t, m, id, "Show my tasks")
	var calls []string
	for _, e := range m.log(id) {
		if c := e.GetSkillCalled(); c != nil {
			calls = append(calls, e.GetActor()+" "+c.GetSkill())
		}
	}
	if diff := cmp.Diff([]string{"agent:tasks tasks.create", "agent:tasks tasks.search"}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
