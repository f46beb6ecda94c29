package mainagent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/mainagent"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/text/texttest"

	"github.com/google/go-cmp/cmp"
)

// alone runs a mesh whose main agent has the skills itself.
func alone(t *testing.T, model llm.Model, solo mainagent.Solo) *meshtest.Mesh {
	t.Helper()
	return aloneWithin(t, model, solo, node.Limits{})
}

// aloneWithin is alone within limits.
func aloneWithin(t *testing.T, model llm.Model, solo mainagent.Solo, limits node.Limits) *meshtest.Mesh {
	t.Helper()
	w := newWorld(t)
	solo.Handlers = w.handlers()
	return meshtest.Start(t, meshtest.Agents{"main": func(env node.Env) (agent.Agent, error) {
		return mainagent.New(mainagent.Config{
			Card: meshtest.Card(t, "main"), Model: model, Conns: env.Conns, Solo: &solo, Now: friday, Logger: env.Logger,
			Context: func(context.Context, *agent.Invocation) string { return "From the memory: likes tea" },
		})
	}}, meshtest.Options{Limits: limits})
}

// S3-001, S3-132, S3-133: one agent does it alone, through each of the faces.
func TestOneAgentDoesItAlone(t *testing.T) {
	for face, tt := range map[skilltools.Face]struct {
		steps []scripted.Step
		tools []string
	}{
		skilltools.FaceUseSkill: {[]scripted.Step{ // S3-110: found, used, told
			scripted.Call("get_skill", `{"domain":"tasks"}`),
			scripted.Call("use_skill", `{"skill":"tasks.create","arguments":{"title":"Call Ann"}}`),
		}, []string{"get_skill", "use_skill"}},
		skilltools.FaceCommands: {[]scripted.Step{
			scripted.Say("```cmd\ntasks --help\n```"), scripted.Say("```cmd\ntasks.create --title \"Call Ann\"\n```"),
		}, nil},
		skilltools.FaceDirect: {[]scripted.Step{scripted.Call("tasks-create", `{"title":"Call Ann"}`)}, nil},
	} {
		t.Run(string(face), func(t *testing.T) {
			model := scripted.New(append(tt.steps, scripted.Say("Noted."))...)
			m := alone(t, model, mainagent.Solo{Interface: face})
			thread := mesh.NewThreadID()
			if s := m.Say(thread, "Note that I call Ann"); s.State != completed || s.Text != "Noted." {
				t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
			}
			calls := bodies[mesh.SkillCalled](m.Events(thread))
			if len(calls) != 1 || calls[0].Skill != "tasks.create" || calls[0].Args != `{"priority":"medium","title":"Call Ann"}` && calls[0].Args != `{"title":"Call Ann"}` {
				t.Errorf("called %+v", calls)
			}
			checkSolo(t, model.Requests()[0], face, tt.tools)
		})
	}
}

// checkSolo checks what the model is told: S3-006, S3-052 to S3-054, S3-069,
// S3-145.
func checkSolo(t *testing.T, req *llm.Request, face skilltools.Face, tools []string) {
	t.Helper()
	var names []string
	for _, tool := range req.Tools {
		names = append(names, tool.Name)
	}
	switch {
	case face != skilltools.FaceDirect:
		if diff := cmp.Diff(tools, names); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
	case !slices.Contains(names, "tasks-create") || slices.Contains(names, "get_skill") || slices.Contains(names, "use_skill"):
		t.Errorf("tools %v", names)
	}
	order := []string{"You are the assistant of this mesh.", "## Commands", "## Skills", "- tasks (", "The user is ann.", "Today is Friday, 20 November 2026 (time zone UTC)."}
	switch face {
	case skilltools.FaceUseSkill:
		order = slices.Delete(order, 1, 2)
	case skilltools.FaceDirect:
		order = slices.Delete(order, 1, 4)
	}
	at := 0
	for _, part := range order {
		i := strings.Index(req.System[at:], part)
		if i < 0 {
			t.Fatalf("%q is not in its place in\n%s", part, req.System)
		}
		at += i
	}
	if !strings.Contains(req.System, "search it at the start of a conversation") || !strings.Contains(req.System, "do you remember") || !strings.Contains(req.System, "a fact, a preference or a decision, save it") {
		t.Error("the model is not told when to use the memory")
	}
	if req.Context != "From the memory: likes tea" || req.Fresh != "It is 09:30 UTC." {
		t.Errorf("context %q, fresh %q", req.Context, req.Fresh)
	}
}

// S3-044, S3-114: at a limit the user is asked, and a yes goes on in the same
// task.
func TestAloneTheAgentPausesAtALimit(t *testing.T) {
	create := scripted.Call("use_skill", `{"skill":"tasks.create","arguments":{"title":"Call Ann"}}`)
	model := scripted.New(create, scripted.Call("use_skill", `{"skill":"tasks.search","arguments":{}}`), scripted.Say("Noted."))
	m := alone(t, model, mainagent.Solo{Interface: skilltools.FaceUseSkill, MaxSteps: 1})
	thread := mesh.NewThreadID()
	first := m.Say(thread, "Note that I call Ann and show my tasks")
	if first.State != input || !texttest.Has(first.Asked(), "Done so far:\n- tasks.create(") || !texttest.Random() && !strings.HasSuffix(first.Asked(), "Would you like me to continue?") {
		t.Fatalf("ended %v and asked %q", first.State, first.Asked())
	}
	m.Say(thread, "yes") // another step
	if fresh := model.Requests()[1].Fresh; model.Requests()[1].About.Resume != llm.ResumeContinue || !texttest.Has(fresh, "wants you to continue") || !strings.HasPrefix(fresh, "It is 09:30 UTC.") {
		t.Errorf("the model is told %q", fresh)
	}
	if last := m.Say(thread, "go on"); last.TaskID != first.TaskID || last.State != completed || last.Text != "Noted." {
		t.Errorf("ended %v in task %s: %q", last.State, last.TaskID, last.Text)
	}
	if calls := bodies[mesh.SkillCalled](m.Events(thread)); len(calls) != 2 {
		t.Errorf("called %+v", calls)
	}
}

// While there is no room, each report has all that is done and open, also in the
// words of tools that are named otherwise; a no ends it, and the model is told what
// to report (S3-042, S3-043).
func TestAloneTheReportStaysWholeWhileThereIsNoRoom(t *testing.T) {
	for _, face := range []skilltools.Face{skilltools.FaceUseSkill, skilltools.FaceDirect, skilltools.FaceCommands} {
		t.Run(string(face), func(t *testing.T) {
			create := func(title string) scripted.Step {
				switch face {
				case skilltools.FaceDirect:
					return scripted.Call("tasks-create", `{"title":"`+title+`"}`)
				case skilltools.FaceCommands:
					return scripted.Say("```cmd\ntasks.create --title " + title + "\n```")
				}
				return use("tasks.create", "title", title)
			}
			model := scripted.New(create("Ann"), create("Bob"), scripted.Say("Ann is noted, Bob is not."))
			m := aloneWithin(t, model, mainagent.Solo{Interface: face}, node.Limits{ThreadCalls: 1})
			thread := mesh.NewThreadID()
			s := m.Say(thread, "Note Ann and Bob")
			for _, answer := range []string{"yes", "yes", "and now?", "yes", "no"} {
				if s.State != input || !texttest.Has(s.Asked(), "Done so far:\n- tasks.create(title: Ann)\n\nStill open:\n- tasks.create(title: Bob)\n\nThere is room") {
					t.Fatalf("before %q it ended %v and asked %q", answer, s.State, s.Asked())
				}
				s = m.Say(thread, answer)
			}
			if s.State != completed || s.Text != "Ann is noted, Bob is not." {
				t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
			}
			fresh := model.Requests()[2].Fresh
			if model.Requests()[2].About.Resume != llm.ResumeStop || !texttest.Has(fresh, "Done already:\n- tasks.create(title: Ann)\n\nNot done:\n- tasks.create(title: Bob)") {
				t.Errorf("the model is told %q", fresh)
			}
		})
	}
}

// S3-040: with the defaults it is the limit of ten calls that an agent meets
// that works alone, and not that of its replies, also when it looks for each
// skill before.
func TestTheTenthCallIsTheLastForOneMessage(t *testing.T) {
	var steps []scripted.Step
	for n := range limit.SoloTurnCalls + 1 {
		steps = append(steps, scripted.Call("get_skill", `{"domain":"tasks"}`), use("tasks.create", "title", fmt.Sprint("Task ", n)))
	}
	m := aloneWithin(t, scripted.New(steps...), mainagent.Solo{}, node.Limits{TurnCalls: limit.SoloTurnCalls})
	thread := mesh.NewThreadID()
	s := m.Say(thread, "Note these eleven tasks")
	if s.State != input || !texttest.Random() && !strings.HasPrefix(s.Asked(), "I have used the 10 skill calls that I may make for one message.") || !texttest.Has(s.Asked(), "Still open:\n- tasks.create(title: Task 10)") {
		t.Errorf("ended %v, asked %q", s.State, s.Asked())
	}
	trips := bodies[mesh.LimitTripped](m.Events(thread))
	if len(trips) != 1 || trips[0].Limit != limit.TurnSkillCalls || trips[0].Most != 10 {
		t.Errorf("met %+v", trips)
	}
}

// S3-145: in the default mode, too, the model is told when to use the memory:
// what it has of the conversation's subject was searched before, and to save or
// to search for more it asks another agent.
func TestThePromptOfTheDefaultModeTellsOfTheMemory(t *testing.T) {
	for _, want := range []string{"what the memory gave you", "shares a fact, a preference or a decision to keep", "whether you remember something", "to save it to the memory or to search there"} {
		if !strings.Contains(mainagent.Prompt, want) {
			t.Errorf("the prompt does not say %q", want)
		}
	}
}
