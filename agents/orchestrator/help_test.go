package orchestrator_test

import (
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// askTasks is the first reply of a planner that has one agent work.
func askTasks(p dispatch.Profile) scripted.Step {
	if p == dispatch.ProfilePush {
		return scripted.Call("dispatch_agent", `{"name":"tasks","task":"Plan the week"}`)
	}
	return scripted.Call("dispatch_agent", `{"agent_id":"plan","name":"tasks","mission":"Plan the week","skills":["tasks.search"]}`)
}

// needy is an agent that cannot do its mission alone.
func needy() *scripted.Model {
	return scripted.New(
		scripted.Call("request_help", `{"reason":"Whose week?","partial_results":"Monday is free."}`).For(mission("Plan the week")),
		scripted.Say("Ann's week is planned.").For(scripted.Last("Ann's")),
	)
}

// A sub-agent that lacks something asks the orchestrator, which is told by itself, answers
// and gets the result: one execution, one ask and one result, with each profile that has
// the tools. C8.2: collect has not, and there the agent says what blocks it.
func TestAnAgentAsksItsOrchestrator(t *testing.T) {
	texttest.Fixed(t)
	for _, profile := range []dispatch.Profile{dispatch.ProfilePush, dispatch.ProfileFull} {
		t.Run(string(profile), func(t *testing.T) {
			id := map[dispatch.Profile]string{dispatch.ProfilePush: "tasks-1", dispatch.ProfileFull: "plan"}[profile]
			steps := []scripted.Step{askTasks(profile)}
			if profile == dispatch.ProfileFull { // it waits, and is woken
				steps = append(steps, scripted.Call("get_agent_results", `{}`))
			} else {
				steps = append(steps, scripted.Say("I wait."))
			}
			planner := scripted.New(append(steps,
				scripted.Call("answer_agent", `{"agent_id":"`+id+`","message":"Ann's"}`).For(scripted.Last("[Sub-agent asks]")),
				scripted.Say("All is planned.").For(scripted.Last("[Sub-agent completed]")),
				scripted.Say("I wait again."))...)
			worker := needy()
			m := startWith(t, dispatch.Options{Profile: profile}, planner, worker)
			thread := mesh.NewThreadID()
			s := m.Say(thread, "Plan her week")
			if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.HasSuffix(s.Text, "All is planned.") {
				t.Fatalf("ended %v: %q\n%s", s.State, s.Text, strings.Join(golden(planner.Requests()), "\n"))
			}
			if !s.Heard("Asks: Plan the week") || !s.Heard("Done: Plan the week") {
				t.Errorf("the user heard %q", s.Status)
			}
			asked, answered, told := 0, 0, 0
			for _, e := range m.Events(thread) {
				switch b := e.Body.(type) {
				case mesh.TaskMoved:
					if help, ok := mesh.HelpOf(b.Metadata); ok && b.Reason == mesh.ReasonHelp && help.Partial == "Monday is free." && mesh.TextOf(b.Message) == "Whose week?" {
						asked++
					}
					if b.Reason == mesh.ReasonDelivered && mesh.TextOf(b.Message) == "Ann's" {
						answered++
					}
				case mesh.ResultsDelivered:
					told++
				}
			}
			if asked != 1 || answered != 1 || told != 2 || len(worker.Requests()) != 2 {
				t.Errorf("asked %d times, answered %d, told %d; the agent's model was asked %d times", asked, answered, told, len(worker.Requests()))
			}
		})
	}
	t.Run("collect", func(t *testing.T) {
		worker := scripted.New(scripted.Say("I do not know whose week.").For(mission("Plan the week")))
		planner := scripted.New(askTasks(dispatch.ProfileCollect), scripted.Call("get_agent_results", `{}`), scripted.Say("Whose week?"))
		m := startWith(t, dispatch.Options{Profile: dispatch.ProfileCollect}, planner, worker)
		if s := m.Say(mesh.NewThreadID(), "Plan her week"); s.State != a2apb.TaskState_TASK_STATE_COMPLETED {
			t.Fatalf("ended %v: %q", s.State, s.Text)
		}
		for _, tool := range append(worker.Requests()[0].Tools, planner.Requests()[0].Tools...) {
			if tool.Name == "request_help" || tool.Name == "answer_agent" {
				t.Errorf("there is %s", tool.Name)
			}
		}
	})
}

// What the orchestrator does not know either goes up to the user, whose answer goes down to
// the agent; also where its model answers the user without having answered the agent.
func TestWhatAnAgentAsksGoesUpToTheUser(t *testing.T) {
	texttest.Fixed(t)
	for name, middle := range map[string]scripted.Step{
		"asked":    scripted.Call("answer_agent", `{"agent_id":"plan","ask_user":true}`).For(scripted.Last("[Sub-agent asks]")),
		"answered": scripted.Say("It needs to know more.").For(scripted.Last("[Sub-agent asks]")),
	} {
		t.Run(name, func(t *testing.T) {
			planner := scripted.New(askTasks(dispatch.ProfileFull), scripted.Say("I wait."), middle,
				scripted.Say("All is planned.").For(scripted.Last("[Sub-agent completed]")), scripted.Say("I wait again."))
			worker := needy()
			m := startWith(t, dispatch.Options{}, planner, worker)
			thread := mesh.NewThreadID()
			s := m.Say(thread, "Plan her week")
			if s.State != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || s.Asked() != "plan asks: Whose week?" {
				t.Fatalf("ended %v and asked %q, said %q", s.State, s.Asked(), s.Text)
			}
			s = m.Say(thread, "Ann's, please")
			if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.HasSuffix(s.Text, "All is planned.") {
				t.Fatalf("ended %v: %q\n%s", s.State, s.Text, strings.Join(golden(planner.Requests()), "\n"))
			}
			dispatched := 0
			for _, e := range m.Events(thread) {
				if _, ok := e.Body.(mesh.DispatchAccepted); ok {
					dispatched++
				}
			}
			if reqs := worker.Requests(); dispatched != 1 || len(reqs) != 2 || !strings.Contains(reqs[1].Messages[len(reqs[1].Messages)-1].Text, "Ann's, please") {
				t.Errorf("%d dispatches; the agent's model was asked %d times", dispatched, len(reqs))
			}
		})
	}
}
