package modelrun_test

import (
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text"
	"agentmesh/mesh/text/texttest"

	"google.golang.org/protobuf/types/known/structpb"
)

// helped has the desk's agent work for another one, which answers when it asks for help.
func helped(d *agenttest.Desk, mission string) {
	parent := mesh.NewExecutionID(agenttest.Thread)
	d.Grant.Parent, d.Last = parent, mission
	d.Metadata = modelrun.MissionData(llm.Mission{Text: mission, Help: true})
	asked := agenttest.Dispatch(parent, d.Grant.Execution, d.Grant.Agent)
	message := agenttest.Message(mission)
	message.Metadata = a2a.SetExtension(nil, d.Metadata)
	asked.Body = mesh.DispatchIssued{Child: asked.Body.(mesh.DispatchIssued).Child, Message: message}
	d.Node.Log(agenttest.Opened(d.Turn), agenttest.Posted(d.Turn, 1, "a secret"), agenttest.Dispatch(d.Turn, parent, "orchestrator"), asked)
}

// answer logs that the desk's agent is answered, and has it be what it is told next.
func answer(d *agenttest.Desk, call, words string) {
	name, v := mesh.HelpAnswer{Call: call, By: "1"}.Value()
	d.Last, d.Metadata = words, map[string]*structpb.Value{name: v}
	said := agenttest.Message(words)
	said.Metadata = a2a.SetExtension(nil, d.Metadata)
	d.Node.Log(&mesh.Event{Execution: d.Grant.Execution, Body: mesh.TaskMoved{State: agenttest.Working, Reason: mesh.ReasonDelivered, Message: said}})
}

// A model that may asks for help with a tool, and is told to; its run ends with that as
// data, and the next one has the answer as what the call came to, once. What skills did is
// not done again.
func TestAModelAsksForHelpAndGoesOn(t *testing.T) {
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.NewTask),
			scripted.Call(modelrun.ToolHelp, `{"reason":"To whom?","partial_results":"The task is noted."}`),
			agenttest.Does(face, "", agenttest.SendBob),
			scripted.Call(modelrun.ToolHelp, `{"reason":"And then?"}`),
			scripted.Say("Sent."))
		helped(d, "note it and mail it")
		h := d.Run(false)
		if h.Err != nil || h.Ask.Text != "To whom?" || h.Ask.Help == nil || h.Ask.Help.Call == "" || h.Ask.Help.Partial != "The task is noted." || h.Ask.Approval {
			t.Fatalf("asked %+v, %v", h.Ask, h.Err)
		}
		req := d.Model.Requests()[0]
		if !strings.Contains(req.System, "call request_help") {
			t.Errorf("the prompt is %s", req.System)
		}
		if !strings.Contains(toolNames(req.Tools), modelrun.ToolHelp) {
			t.Errorf("the tools are %s", toolNames(req.Tools))
		}
		answer(d, h.Ask.Help.Call, "To bob.")
		h = d.Run(true)
		if h.Err != nil || h.Ask.Text != "And then?" || d.Made() != "tasks.create mail.send" {
			t.Fatalf("asked %+v, %v, and called %s", h.Ask, h.Err, d.Made())
		}
		third := d.Model.Requests()[2].Messages
		if last := third[len(third)-1]; last.Role != llm.RoleTool || last.Text != text.HelpAnswered("To bob.") && !texttest.Random() || !strings.Contains(last.Text, "To bob.") {
			t.Errorf("the model was told %+v", last)
		}
		if n := strings.Count(strings.Join(agenttest.Lines(third), "\n"), "To bob."); n != 1 {
			t.Errorf("the answer is there %d times", n)
		}
		answer(d, h.Ask.Help.Call, "Nothing.")
		if h = d.Run(true); h.Err != nil || h.Text != "Sent." || d.Made() != "tasks.create mail.send" {
			t.Errorf("said %q, %v, and called %s", h.Text, h.Err, d.Made())
		}
		if said := strings.Join(d.Read(), "\n"); !strings.Contains(said, "To bob.") || !strings.Contains(said, "Nothing.") {
			t.Errorf("in the end the model has read\n%s", said)
		}
	})
}

func toolNames(tools []llm.Tool) string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

// A run that was cut after the answer came has it too; one that was cut before it asked
// asks, though the message before was an answer and some providers use ids of calls again.
func TestAnAnswerOutlivesTheProcess(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceDirect, scripted.Call(modelrun.ToolHelp, `{"reason":"To whom?"}`), scripted.Say("Sent."))
	helped(d, "mail it")
	id := d.Run(false).Ask.Help.Call
	answer(d, id, "To bob.")
	run := func() []string {
		inv := d.Invocation(true)
		inv.Continued = true
		outs, err := agenttest.Outputs(t, inv, modelrun.Options{Model: d.Model, System: "You help."})
		h := d.Collect(outs, err, nil)
		if h.Err != nil {
			t.Fatal(h.Err)
		}
		return []string{h.Text, h.Ask.Text}
	}
	if got := run(); got[0] != "Sent." {
		t.Errorf("said %q", got)
	}
	d.Node.Log(&mesh.Event{Execution: d.Grant.Execution, Body: mesh.ModelReplied{Tools: []mesh.ToolUse{{ID: id, Name: modelrun.ToolHelp, Arguments: `{"reason":"When?"}`}}}})
	if got := run(); got[1] != "When?" {
		t.Errorf("said and asked %q", got)
	}
}

// What a model asks is bounded, and an error names the field; an agent that nobody answers
// has no such tool.
func TestRequestsForHelpAreChecked(t *testing.T) {
	texttest.Fixed(t)
	for args, want := range map[string]string{
		`{}`:             "reason is missing; say what blocks you and what you need",
		`{"reason":" "}`: "reason is missing; say what blocks you and what you need",
		`{"reason":"` + strings.Repeat("x", mesh.MaxHelp+1) + `"}`:                       "reason has 16385 bytes; shorten it to at most 16384",
		`{"reason":"x","partial_results":"` + strings.Repeat("x", mesh.MaxHelp+1) + `"}`: "partial_results has 16385 bytes; shorten it to at most 16384",
		`{"reason":7}`: "reason must be a text, and has a number",
	} {
		d := agenttest.NewDesk(t, skilltools.FaceDirect, scripted.Call(modelrun.ToolHelp, args), scripted.Say("I stop."))
		helped(d, "mail it")
		if h := d.Run(false); h.Text != "I stop." || !strings.HasPrefix(d.LastRead(), want) {
			t.Errorf("%.60s: the model was told %q, %v", args, d.LastRead(), h.Err)
		}
	}
	d := agenttest.NewDesk(t, skilltools.FaceDirect, scripted.Say("Done."))
	dispatched(d, "mail it")
	d.Run(false)
	if req := d.Model.Requests()[0]; strings.Contains(toolNames(req.Tools)+req.System, modelrun.ToolHelp) {
		t.Errorf("an agent that nobody answers has %s", toolNames(req.Tools))
	}
}
