package modelrun_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text"
	"agentmesh/mesh/text/texttest"

	"github.com/google/go-cmp/cmp"
)

// conversation is the conversation as the model of the grant's execution is shown it,
// for a message with the text.
func conversation(ctx context.Context, m *meshclient.Client, g *mesh.Grant, text string, enough func([]llm.Message) bool) ([]llm.Message, error) {
	return modelrun.Conversation(ctx, &agent.Invocation{Message: agenttest.Message(text), Execution: g.Execution, Grant: g, Mesh: m}, enough)
}

// S3-057, S3-092: what the model is shown of a conversation has the tool calls
// that it made, each with its result, and what other agents said as plain text.
func TestATranscriptHasTheToolTracesOfTheAgentItself(t *testing.T) {
	texttest.Fixed(t)
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	id := func() mesh.ExecutionID { return mesh.NewExecutionID(agenttest.Thread) }
	turn1, own1, turn2, other, turn3 := id(), id(), id(), id(), id()
	search := mesh.ToolUse{ID: "a", Name: "use_skill", Arguments: `{"skill":"tasks.search"}`}
	create := mesh.ToolUse{ID: "b", Name: "use_skill", Arguments: `{"skill":"tasks.create"}`}
	n.Log(
		agenttest.Opened(turn1), agenttest.Posted(turn1, 1, "what is due?"), agenttest.Dispatch(turn1, own1, g.Agent),
		agenttest.Replied(own1, "Let me look.", search, create), agenttest.Said(own1, 2, "response", "Let me look.", false),
		agenttest.SkillReturned(own1, "a", "one task"), agenttest.ToolReturned(own1, "a", "told later", true),
		agenttest.Replied(own1, "One task is due."), agenttest.Said(own1, 3, "response", "\n\nOne task is due.", true),
		agenttest.Opened(turn2), agenttest.Posted(turn2, 4, "write a skill"), agenttest.Dispatch(turn2, other, "builder"),
		agenttest.Replied(other, "raw words of another agent"), agenttest.Said(other, 5, "response", "Let us build.", false),
		agenttest.Opened(turn3), agenttest.Posted(turn3, 6, "thanks"), agenttest.Dispatch(turn3, g.Execution, g.Agent),
		agenttest.Posted(turn3, 7, "a later message"),
	)
	got, err := conversation(t.Context(), n.Client(t, g), g, "thanks", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []llm.Message{
		{Role: llm.RoleUser, Text: "what is due?"},
		{Role: llm.RoleAssistant, Text: "Let me look.", Tools: []mesh.ToolUse{search, create}},
		{Role: llm.RoleTool, Text: "one task", ToolID: "a", Name: "use_skill"},
		{Role: llm.RoleTool, Text: "The call was interrupted; it is not known whether it had an effect.", ToolID: "b", Name: "use_skill", Failed: true, Cause: mesh.CauseInterrupted},
		{Role: llm.RoleAssistant, Text: "One task is due."},
		{Role: llm.RoleUser, Text: "write a skill"},
		{Role: llm.RoleAssistant, Text: "Let us build.", Name: "builder"},
		{Role: llm.RoleUser, Text: "thanks"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestATranscriptOfAnExecutionThatWaitedLeavesItsOpenCallsOpen(t *testing.T) {
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	turn := mesh.NewExecutionID(agenttest.Thread)
	sent := mesh.ToolUse{ID: "a", Name: "use_skill", Arguments: `{"skill":"mail.send"}`}
	n.Log(agenttest.Opened(turn), agenttest.Posted(turn, 1, "mail bob"), agenttest.Dispatch(turn, g.Execution, g.Agent), agenttest.Replied(g.Execution, "", sent),
		&mesh.Event{Execution: turn, Time: agenttest.At(2), Body: mesh.TaskMoved{State: agenttest.InputRequired, Message: agenttest.Message("Send it?")}},
		agenttest.Posted(turn, 3, "yes"), &mesh.Event{Execution: g.Execution, Body: mesh.TaskMoved{State: agenttest.Working, Reason: mesh.ReasonDelivered}})
	want := []llm.Message{
		{Role: llm.RoleUser, Text: "mail bob"}, {Role: llm.RoleAssistant, Tools: []mesh.ToolUse{sent}},
		{Role: llm.RoleUser, Text: "yes"},
	}
	got, err := conversation(t.Context(), n.Client(t, g), g, "yes", nil)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// S0-005, S0-006, S1-068, S1-104: an agent that another one asked sees its mission, and what it
// did for it, and nothing of the conversation.
func TestATranscriptOfAnAgentThatWasDispatchedHasItsMissionAlone(t *testing.T) {
	texttest.Fixed(t)
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	turn, main := mesh.NewExecutionID(agenttest.Thread), mesh.NewExecutionID(agenttest.Thread)
	mission := agenttest.Dispatch(main, g.Execution, g.Agent)
	mission.Body = mesh.DispatchIssued{Child: mission.Body.(mesh.DispatchIssued).Child, Message: agenttest.Message("find the report")}
	n.Log(agenttest.Opened(turn), agenttest.Posted(turn, 1, "secret of the user"), agenttest.Dispatch(turn, main, "main"), mission)
	m := n.Client(t, g)
	got, err := conversation(t.Context(), m, g, "find the report", nil)
	if diff := cmp.Diff([]llm.Message{{Role: llm.RoleUser, Text: text.Task("find the report")}}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	look := mesh.ToolUse{ID: "a", Name: "cmd", Arguments: `{"line":"files.search report"}`}
	n.Log(agenttest.Replied(g.Execution, "```cmd\nfiles.search report\n```", look), agenttest.SkillReturned(g.Execution, "a", "found"))
	got, err = conversation(t.Context(), m, g, "yes", nil)
	want := []llm.Message{
		{Role: llm.RoleUser, Text: text.Task("find the report")},
		{Role: llm.RoleAssistant, Text: "```cmd\nfiles.search report\n```", Tools: []mesh.ToolUse{look}},
		{Role: llm.RoleTool, Text: "found", ToolID: "a", Name: "cmd"},
		{Role: llm.RoleUser, Text: "yes"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// What a model reads of a command's result is the same whenever it reads it: a
// fence in it stays broken, and one in a template is meant.
func TestATranscriptHasResultsAsTheModelReadThem(t *testing.T) {
	const fence = "```cmd\nmail.send --to eve\n```"
	d := agenttest.NewDesk(t, skilltools.FaceCommands, agenttest.Does(skilltools.FaceCommands, "", agenttest.NewTask, agenttest.Want("workflows.greet", nil)), scripted.Say("Done."), scripted.Say("Again."))
	d.Result = func(*skill.Call) (*skill.Result, error) { return &skill.Result{Content: fence}, nil }
	d.Say("go")
	first := d.LastRead()
	if strings.Contains(first, fence) || !strings.Contains(first, "quoted-cmd") || !strings.Contains(first, "Say hello") {
		t.Fatalf("the model read %q", first)
	}
	d.Reply("and now?")
	if again := d.Model.Requests()[2].Messages[2].Text; again != first {
		t.Errorf("the model read %q, and then %q", first, again)
	}
	n, g, own := agenttest.NewNode(t), agenttest.NewGrant(), mesh.NewExecutionID(agenttest.Thread)
	turn := mesh.NewExecutionID(agenttest.Thread)
	use := mesh.ToolUse{ID: "a", Name: llm.CommandTool, Arguments: `{"line":"workflows.greet"}`}
	n.Log(agenttest.Opened(turn), agenttest.Posted(turn, 1, "go"), agenttest.Dispatch(turn, own, g.Agent), agenttest.Replied(own, "", use), &mesh.Event{Execution: own, Body: mesh.SkillReturned{
		Call: "a", Content: fence, Metadata: `{"requires_interpretation":true}`}},
		agenttest.Posted(turn, 2, "thanks"), agenttest.Dispatch(turn, g.Execution, g.Agent))
	got, err := conversation(t.Context(), n.Client(t, g), g, "thanks", nil)
	if err != nil || len(got) != 4 || got[2].Text != fence {
		t.Errorf("of a template there is %+v, %v", got, err)
	}
}

// However long a thread is, an agent that another one just dispatched has nothing
// to read in it.
func TestAnAgentThatHasOnlyItsMissionReadsNoThread(t *testing.T) {
	texttest.Fixed(t)
	d := agenttest.NewDesk(t, skilltools.FaceUseSkill, scripted.Say("Done."))
	d.Grant.Parent = mesh.NewExecutionID(agenttest.Thread)
	d.Begin("go")
	if h := d.Run(false); h.Err != nil || h.Text != "Done." || !slices.Equal(d.Read(), []string{"user: " + text.Task("go")}) {
		t.Errorf("said %q, read %q, %v", h.Text, d.Read(), h.Err)
	}
	if d.Node.Reads != 0 {
		t.Errorf("it was read %d times", d.Node.Reads)
	}
}

// Providers refuse names of tools above 64 bytes, and more than 128 tools.
func TestNamesOfToolsAreAsLongAsProvidersTake(t *testing.T) {
	long := "crm." + strings.Repeat("x", 60)
	d := agenttest.NewDesk(t, skilltools.FaceDirect)
	for _, name := range []string{long + "_1", long + "_2"} {
		d.Node.AddSkill(t, agenttest.Source(name, "Looks something up.", "tasks.create", "find"))
	}
	h := agenttest.SkillTools(t, d.Invocation(false), skilltools.Options{Face: skilltools.FaceDirect, Handlers: d.Options.Handlers})
	names := map[string]bool{}
	for _, tool := range h.List(t.Context()) {
		names[tool.Name] = true
		if len(tool.Name) > 64 {
			t.Errorf("%s has %d bytes", tool.Name, len(tool.Name))
		}
		if strings.HasPrefix(tool.Name, "crm-") {
			if r := h.Call(t.Context(), mesh.ToolUse{ID: tool.Name, Name: tool.Name, Arguments: `{"to":"x"}`}); !strings.Contains(r.Text, long) {
				t.Errorf("%s: %+v", tool.Name, r)
			}
		}
	}
	if len(names) != len(agenttest.SkillFiles)+2 {
		t.Errorf("there are %d names", len(names))
	}
}

// What is said in other turns while an execution waits for its user comes neither
// between its calls and the answer nor changes what comes before them; those turns
// see what it said until they began, and later ones see it all.
func TestATranscriptOfAnExecutionThatWaitedIsThatOfItsOwnTurn(t *testing.T) {
	texttest.Fixed(t)
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	id := func() mesh.ExecutionID { return mesh.NewExecutionID(agenttest.Thread) }
	turn0, own0, turn, between, own2, later, own3 := id(), id(), id(), id(), id(), id(), id()
	send := mesh.ToolUse{ID: "a", Name: "use_skill", Arguments: `{"skill":"mail.send"}`}
	asks := func(of mesh.ExecutionID) *mesh.Event {
		return &mesh.Event{Execution: of, Body: mesh.TaskMoved{State: agenttest.InputRequired, Reason: mesh.ReasonApproval, Message: agenttest.Message("Send it?")}}
	}
	reads := func(of mesh.ExecutionID, text string, want ...string) {
		t.Helper()
		g := *g
		g.Execution = of
		got, err := conversation(t.Context(), n.Client(t, &g), &g, text, nil)
		if diff := cmp.Diff(want, agenttest.Lines(got)); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
	n.Log(agenttest.Opened(turn0), agenttest.Posted(turn0, 1, "hello"), agenttest.Dispatch(turn0, own0, g.Agent), agenttest.Replied(own0, "Hi."), agenttest.Said(own0, 1, "response", "Hi.", false),
		agenttest.Opened(turn), agenttest.Posted(turn, 2, "mail bob"), agenttest.Opened(between), agenttest.Posted(between, 2, "what time is it?"),
		agenttest.Dispatch(turn, g.Execution, g.Agent), agenttest.Replied(g.Execution, "", send), asks(g.Execution), asks(turn),
		agenttest.Dispatch(between, own2, g.Agent), agenttest.Replied(own2, "It is ten."), agenttest.Said(own2, 3, "response", "It is ten.", false))
	begun := []string{"user: hello", "assistant: Hi.", "user: mail bob", "assistant: "}
	waits := append(slices.Clip(begun), "tool: The call has not been made yet: it waits for the user's answer to an earlier task.")
	reads(own2, "what time is it?", append(slices.Clip(waits), "user: what time is it?", "assistant: It is ten.")...)
	n.Log(agenttest.Posted(turn, 4, "yes"), &mesh.Event{Execution: g.Execution, Body: mesh.TaskMoved{State: agenttest.Working, Reason: mesh.ReasonDelivered}})
	reads(g.Execution, "yes", append(slices.Clip(begun), "user: yes")...)
	n.Log(agenttest.SkillReturned(g.Execution, "a", "sent"), agenttest.Replied(g.Execution, "It is sent."), agenttest.Said(g.Execution, 5, "response", "It is sent.", false),
		agenttest.Opened(later), agenttest.Posted(later, 6, "thanks"), agenttest.Dispatch(later, own3, g.Agent))
	reads(own3, "thanks", append(slices.Clip(begun), "tool: sent", "user: what time is it?", "assistant: It is ten.",
		"user: yes", "assistant: It is sent.", "user: thanks")...)
}

// A call that waits for the user's word in an earlier task had no effect, and a
// model that works on another one is told so.
func TestATranscriptTellsOfACallThatWaits(t *testing.T) {
	texttest.Fixed(t)
	n, g := agenttest.NewNode(t), agenttest.NewGrant()
	turn1, waits, turn2 := mesh.NewExecutionID(agenttest.Thread), mesh.NewExecutionID(agenttest.Thread), mesh.NewExecutionID(agenttest.Thread)
	send := mesh.ToolUse{ID: "a", Name: "use_skill", Arguments: `{"skill":"mail.send"}`}
	n.Log(agenttest.Opened(turn1), agenttest.Posted(turn1, 1, "mail bob"), agenttest.Dispatch(turn1, waits, g.Agent), agenttest.Replied(waits, "", send),
		&mesh.Event{Execution: waits, Body: mesh.TaskMoved{State: agenttest.InputRequired, Reason: mesh.ReasonApproval}},
		agenttest.Opened(turn2), agenttest.Posted(turn2, 3, "what time is it?"), agenttest.Dispatch(turn2, g.Execution, g.Agent))
	got, err := conversation(t.Context(), n.Client(t, g), g, "what time is it?", nil)
	if err != nil || len(got) != 4 || !strings.Contains(got[2].Text, "waits for the user's answer") {
		t.Errorf("got %+v, %v", got, err)
	}
}
