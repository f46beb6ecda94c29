package modelrun_test

import (
	"fmt"
	"strings"
	"testing"

	"agentmesh/mesh/agent/agenttest"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text"
	"agentmesh/mesh/text/texttest"
)

func TestCombinedToolsAreSortedAndEachIsCalled(t *testing.T) {
	texttest.Fixed(t)
	tools := modelrun.Combine(agenttest.NamedTool("zebra"), nil, agenttest.NamedTool("ant"), agenttest.NamedTool("ant"))
	var names []string
	for _, tool := range tools.List(t.Context()) {
		names = append(names, tool.Name)
	}
	if diff := cmp.Diff([]string{"ant", "zebra"}, names); diff != "" {
		t.Error(diff)
	}
	if r := tools.Call(t.Context(), agenttest.Use("zebra", "{}")); r.Text != "I am zebra" {
		t.Errorf("got %+v", r)
	}
	if r := tools.Call(t.Context(), agenttest.Use("fox", "{}")); !r.Failed || r.Text != "Unknown tool: fox" { // S0-040
		t.Errorf("got %+v", r)
	}
}

func TestAModelAnswersWithItsToolsAndEveryReplyIsRecorded(t *testing.T) {
	texttest.Fixed(t)
	n, inv, handlers, _ := agenttest.Office(t)
	model := scripted.New(
		scripted.Say("I will ", "write.").Call("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`).Usage(mesh.Usage{Prompt: 3, Completion: 2}),
		scripted.Say("Done: sent."),
	)
	outs, err := agenttest.Outputs(t, inv, modelrun.Options{
		Model: model, System: "You write mail.", Tools: agenttest.SkillTools(t, inv, skilltools.Options{Handlers: handlers}),
		Progress: func(u mesh.ToolUse) (agent.Progress, bool) { return agent.Progress{Text: "Using " + u.Name}, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []agent.Output{
		agent.Text{Text: "I will "}, agent.Text{Text: "write."}, agent.Progress{Text: "Using use_skill"}, agent.Text{Text: "\n\nDone: sent."},
	}
	if diff := cmp.Diff(want, outs); diff != "" {
		t.Error(diff)
	}
	var kinds []string
	for _, b := range n.Bodies(t, inv.Execution) {
		kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", b), "mesh."))
	}
	if diff := cmp.Diff([]string{"ModelReplied", "SkillCalled", "SkillReturned", "ModelReplied"}, kinds); diff != "" {
		t.Error(diff)
	}
	if r, ok := n.Bodies(t, inv.Execution)[0].(mesh.ModelReplied); !ok || r.Text != "I will write." || r.Usage.Prompt != 3 || len(r.Tools) != 1 {
		t.Errorf("got %+v", r)
	}
	req := model.Requests()[0]
	if req.System != "You write mail." || len(req.Messages) != 1 || req.Messages[0].Text != text.Task("write to bob") {
		t.Errorf("the model was asked %+v", req)
	}
}

func TestAModelThatFailsFailsTheRun(t *testing.T) {
	texttest.Fixed(t)
	_, inv, _, _ := agenttest.Office(t)
	model := scripted.New(scripted.Say("Well").Fail(mesh.Errorf(mesh.Unavailable, "x", "The model is away")))
	outs, err := agenttest.Outputs(t, inv, modelrun.Options{Model: model})
	if !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) != "The model is away" || len(outs) != 1 {
		t.Errorf("got %v, %v", outs, err)
	}
}

func TestAModelThatNeverComesToAnEndIsStopped(t *testing.T) {
	n, inv, handlers, _ := agenttest.Office(t)
	model := scripted.New(
		scripted.Call("use_skill", `{"skill":"mail.send","arguments":{"to":"bob"}}`).For(scripted.HasTool("use_skill")).Repeat(),
		scripted.Say("That is all."),
	)
	outs, err := agenttest.Outputs(t, inv, modelrun.Options{
		Model: model, Tools: agenttest.SkillTools(t, inv, skilltools.Options{Handlers: handlers}), MaxSteps: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]agent.Output{agent.Text{Text: "That is all."}}, outs); diff != "" {
		t.Error(diff)
	}
	tripped := false
	for _, b := range n.Bodies(t, inv.Execution) {
		if l, ok := b.(mesh.LimitTripped); ok {
			tripped = l.Limit == "agent.steps" && l.Most == 2
		}
	}
	if !tripped {
		t.Error("the limit is not in the log")
	}
}
