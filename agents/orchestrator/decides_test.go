package orchestrator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
)

// S1-002: nothing but the model decides who is asked, in which order, and when it is
// enough: the same mesh has the same agents work as three models want it.
func TestTheModelAloneDecidesWhoWorksAndWhen(t *testing.T) {
	texttest.Fixed(t)
	order := func(name string) scripted.Step {
		return scripted.Call("dispatch_agent", fmt.Sprintf(`{"name":%q,"task":"Look"}`, name))
	}
	wait := scripted.Say("I wait.")
	done := scripted.Say("That is all.").For(scripted.Last("[Sub-agent completed]"))
	planner := scripted.New()
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfilePush}, planner, scripted.New(scripted.Say("I saw it.").Repeat()))
	for _, want := range [][]string{{"tasks", "mail"}, {"mail", "tasks"}, {"mail"}, {"mail", "mail", "tasks"}, {}} {
		for i, name := range want {
			next := order(name)
			if i > 0 {
				next = next.For(scripted.Last("[Sub-agent completed]"))
			}
			planner.Add(next, wait.For(scripted.Last("accepted")))
		}
		if len(want) == 0 {
			planner.Add(scripted.Say("That is all."))
		} else {
			planner.Add(done)
		}
		thread := mesh.NewThreadID()
		if s := m.Say(thread, "Look around"); s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.HasSuffix(s.Text, "That is all.") {
			t.Fatalf("%v: ended %v: %q", want, s.State, s.Text)
		}
		asked := []string{}
		for _, e := range m.Events(thread) {
			if b, ok := e.Body.(mesh.DispatchIssued); ok && b.Child.Label != "" {
				asked = append(asked, b.Child.Agent)
			}
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("who was asked (-want +got):\n%s", diff)
		}
		if left := planner.Left(); left != 0 {
			t.Fatalf("%v: %d steps are left", want, left)
		}
	}
}

// S1-003, S1-004: what the model says of an agent's work is words, and they arrive as they
// are, and so do the agent's: an order has a name and a text, no model, server or limit,
// which are the operator's to say, and no form that a finding would have to have.
func TestTasksAndFindingsAreWords(t *testing.T) {
	texttest.Fixed(t)
	const task = "Why is \"checkout\" slow?\n\n- since 9:00 {\"p99\": \"4 s\"}\n- only in Köln 🦉"
	const found = "It is <b>not</b> the database.\n\n| host | p99 |\n|---|---|\n| köln-1 | 4 s |\n\n{\"verdict\": null}"
	order, err := json.Marshal(map[string]string{"name": "tasks", "task": task})
	if err != nil {
		t.Fatal(err)
	}
	planner := scripted.New(scripted.Call("dispatch_agent", string(order)), scripted.Say("I wait.").For(scripted.Last("accepted")),
		scripted.Say("It is the network.").For(scripted.Last("[Sub-agent completed]")))
	worker := scripted.New(scripted.Say(found))
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfilePush}, planner, worker)
	m.Say(mesh.NewThreadID(), "Why?")
	if got := worker.Requests()[0].Messages; len(got) != 1 || got[0].Text != text.Task(task) {
		t.Errorf("the agent was told %+v", got)
	}
	reqs := planner.Requests()
	last := reqs[len(reqs)-1].Messages
	if got := last[len(last)-1].Text; !strings.HasSuffix(got, "\n> "+strings.ReplaceAll(found, "\n", "\n> ")) { // quoted line by line
		t.Errorf("the model was told %q", got)
	}
	var schema struct{ Properties map[string]struct{ Type string } }
	i := slices.IndexFunc(reqs[0].Tools, func(tool llm.Tool) bool { return tool.Name == dispatch.ToolDispatch })
	if err := json.Unmarshal(reqs[0].Tools[i].Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]struct{ Type string }{"name": {"string"}, "task": {"string"}}, schema.Properties); diff != "" {
		t.Errorf("what an order has (-want +got):\n%s", diff)
	}
}
