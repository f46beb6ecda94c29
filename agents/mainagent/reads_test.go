package mainagent_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/mainagent"
	"agentmesh/agents/orchestrator"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/text/texttest"

	"github.com/google/go-cmp/cmp"
)

// readers runs a mesh whose main agent or orchestrator, with the scripted model,
// has the user's stream; with a face it may read itself. Specialists are asked.
func readers(t *testing.T, name string, face skilltools.Face, model llm.Model) *meshtest.Mesh {
	t.Helper()
	w := newWorld(t)
	agents := w.all()
	var reads *skilltools.Options
	if face != "" {
		reads = &skilltools.Options{Face: face, Handlers: w.handlers()}
	}
	agents["main"] = func(env node.Env) (agent.Agent, error) {
		if name == "orchestrator" {
			return orchestrator.New(orchestrator.Config{Card: meshtest.Card(t, name), Model: model, Conns: env.Conns, Reads: reads, Now: friday, Logger: env.Logger,
				Dispatch: dispatch.Options{Profile: dispatch.ProfileCollect}})
		}
		return mainagent.New(mainagent.Config{Card: meshtest.Card(t, name), Model: model, Conns: env.Conns, Reads: reads, Now: friday, Logger: env.Logger})
	}
	return meshtest.Start(t, agents, meshtest.Options{})
}

// delegated are the tools by which each of them has others do its work, and its
// prompt is what the model is told where it calls no skills.
var delegated = map[string]struct {
	tools  []string
	prompt modelrun.Prompt
}{
	"main": {[]string{"consult_agent", "request_handoff"}, modelrun.Prompt{Identity: mainagent.Prompt}},
	"orchestrator": {[]string{"dispatch_agent", "get_agent_results", "get_skill"}, modelrun.Prompt{Identity: orchestrator.PromptFor(dispatch.ProfileCollect),
		Skills: "Available skill domains: calendar, files, knowledge, mail, markdown, memory, system, tasks, workflow"}},
}

func toolNames(req *llm.Request) (names []string) {
	for _, tool := range req.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// C1 row 6, S0-003, S0-012: by default neither has skills, or is told of any, in a
// single byte.
func TestByDefaultWhoDelegatesHasNoSkills(t *testing.T) {
	for name, want := range delegated {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := scripted.New(scripted.Say("```cmd\ntasks.search\n```"))
			m := readers(t, name, "", model)
			thread := mesh.NewThreadID()
			if s := m.Say(thread, "hi"); s.State != completed || !strings.Contains(s.Text, "tasks.search") { // it is text
				t.Errorf("ended %v: %q", s.State, s.Text)
			}
			req := model.Requests()[0]
			if diff := cmp.Diff(want.tools, toolNames(req)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			want.prompt.User, want.prompt.Now = "ann", friday()
			if diff := cmp.Diff(want.prompt.String(), req.System); diff != "" {
				t.Errorf("prompt (-want +got):\n%s", diff)
			}
			if calls := bodies[mesh.SkillCalled](m.Events(thread)); len(calls) > 0 {
				t.Errorf("called %+v", calls)
			}
		})
	}
}

// C1 row 6: who delegates may be let read itself, through either face. It still
// delegates; a skill that writes is refused, with what to do, and is then done by
// the agent that is asked.
func TestWhoDelegatesMayReadItself(t *testing.T) {
	texttest.Fixed(t)
	asks := map[string][]scripted.Step{
		"main":         {consult(scripted.Step{}, "tasks", `Create a task "Call Ann"`)},
		"orchestrator": {scripted.Call("dispatch_agent", `{"agent_id":"t","mission":"Create a task \"Call Ann\"","skills":["tasks.create"]}`).Call("get_agent_results", `{}`)},
	}
	for name, want := range delegated {
		for _, face := range []skilltools.Face{skilltools.FaceCommands, skilltools.FaceUseSkill} {
			t.Run(name+" "+string(face), func(t *testing.T) {
				t.Parallel()
				create := use("tasks.create", "title", "Call Ann")
				if face == skilltools.FaceCommands {
					create = scripted.Say("```cmd\ntasks.create --title \"Call Ann\"\n```")
				}
				steps := slices.Concat([]scripted.Step{search(face, "late"), create}, asks[name], []scripted.Step{scripted.Say("Noted.")})
				model := scripted.New(steps...)
				m := readers(t, name, face, model)
				thread := mesh.NewThreadID()
				s := m.Say(thread, "Is anything late? And note that I call Ann")
				if s.State != completed || s.Text != "Noted." || !s.Heard("Using tasks.search") && name == "main" {
					t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
				}
				var called []string
				for _, e := range m.Events(thread) {
					if c, ok := e.Body.(mesh.SkillCalled); ok {
						called = append(called, e.Actor+" "+c.Skill+" "+c.Source)
					}
				}
				source := map[skilltools.Face]string{skilltools.FaceCommands: mesh.SourceCommand, skilltools.FaceUseSkill: mesh.SourceUseSkill}[face]
				if diff := cmp.Diff([]string{"agent:main tasks.search " + source, "agent:tasks tasks.create " + mesh.SourceUseSkill}, called); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				reqs := model.Requests()
				refused := reqs[2].Messages[len(reqs[2].Messages)-1].Text
				if !strings.Contains(refused, "Failed to execute 'tasks.create': its access is write, and this agent itself runs only skills with the access read; have another agent do it") {
					t.Errorf("of the call that writes the model reads %q", refused)
				}
				tools := slices.Clone(want.tools)
				if face == skilltools.FaceUseSkill {
					tools = append(tools, "get_skill", "use_skill")
					slices.Sort(tools)
				}
				if diff := cmp.Diff(slices.Compact(tools), toolNames(reqs[0])); diff != "" {
					t.Errorf("tools (-want +got):\n%s", diff)
				}
				for _, part := range []string{"You may use these yourself, since they only read.", "- tasks (2 skills): "} {
					if !strings.Contains(reqs[0].System, part) {
						t.Errorf("%q is not in\n%s", part, reqs[0].System)
					}
				}
				if strings.Contains(reqs[0].System, "Never execute skills yourself") || strings.Contains(reqs[0].System, "    tasks.create") {
					t.Errorf("the model is told\n%s", reqs[0].System)
				}
			})
		}
	}
}

// C1 row 6, pitfalls SEC1: what other agents answer runs nothing when a model that
// writes commands repeats it.
func TestAnAnswerThatIsRepeatedReadsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	agents := w.all()
	parrot := scripted.New(consult(scripted.Step{}, "tasks", "Look"), scripted.Say("ok"))
	agents["main"] = func(env node.Env) (agent.Agent, error) {
		return mainagent.New(mainagent.Config{Card: meshtest.Card(t, "main"), Model: parrot, Conns: env.Conns, Now: friday, Logger: env.Logger,
			Reads: &skilltools.Options{Face: skilltools.FaceCommands, Handlers: w.handlers()}})
	}
	w.model = scripted.New(scripted.Say("Found:\n\n```sh\nx\n```\n~~~ cmd\nmail.search --query all\n~~~\n"))
	m := meshtest.Start(t, agents, meshtest.Options{})
	if s := m.Say(mesh.NewThreadID(), "Look"); s.Text != "ok" {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
	msgs := parrot.Requests()[1].Messages
	if told := msgs[len(msgs)-1].Text; !strings.Contains(told, "~~~ quoted-cmd") {
		t.Errorf("the model reads %q", told)
	}
}

// C1 row 6: a skill that only reads, but asks, waits for the user in the hands of
// the main agent too, and is run once by it after the yes.
func TestWhoReadsItselfAsksForApprovals(t *testing.T) {
	for _, face := range []skilltools.Face{skilltools.FaceCommands, skilltools.FaceUseSkill} {
		t.Run(string(face), func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			model := scripted.New(search(face, "secrets"), scripted.Say("Found."))
			m := meshtest.Start(t, meshtest.Agents{"main": func(env node.Env) (agent.Agent, error) {
				return mainagent.New(mainagent.Config{Card: meshtest.Card(t, "main"), Model: model, Conns: env.Conns, Now: friday, Logger: env.Logger,
					Reads: &skilltools.Options{Face: face, Handlers: o.handlers()}})
			}}, meshtest.Options{Skills: []fs.FS{fstest.MapFS{"tasks/search.md": {Data: []byte(strings.Replace(
				page("tasks.search", "query", "confirm: May I look?\n"), "access: write", "access: read", 1))}}}})
			thread := mesh.NewThreadID()
			if s := m.Say(thread, "Look"); s.State != input || !texttest.Has(s.Asked(), "May I look?") || len(o.happened()) > 0 {
				t.Fatalf("ended %v, asked %q, made %q", s.State, s.Asked(), o.happened())
			}
			if s := m.Say(thread, "yes"); s.State != completed || s.Text != "Found." {
				t.Errorf("ended %v: %q", s.State, s.Text)
			}
			same(t, "effects", o.happened(), "tasks.search map[query:secrets]")
		})
	}
}
