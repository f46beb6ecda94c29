package skillbuilder_test

import (
	"context"
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/skillbuilder"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
)

// thinking is a mesh in which the builder has a model, and main answers "Three."
func thinking(t *testing.T, model *scripted.Model) *meshtest.Mesh {
	t.Helper()
	answer := func(_ context.Context, inv *agent.Invocation) (agent.Output, error) {
		return agent.Text{Text: "Three, about " + inv.Text()}, nil
	}
	return meshtest.Start(t, meshtest.Agents{
		"main": func(node.Env) (agent.Agent, error) {
			return answering{host{meshtest.Card(t, "main"), nil}, answer}, nil
		},
		"skill-builder": func(env node.Env) (agent.Agent, error) {
			return skillbuilder.New(skillbuilder.Config{Card: meshtest.Card(t, "skill-builder"), Conns: env.Conns, Model: model, Now: friday, Logger: env.Logger})
		},
	}, meshtest.Options{})
}

// With a model the builder understands whole sentences: the model fills the same steps by
// typed calls, and the machine decides. Only the user's own yes saves.
func TestAModelFillsTheStepsByTypedCalls(t *testing.T) {
	m := scripted.New(
		scripted.Call("answer", `{"purpose":"sends Slack alerts","steps":["look up who is on duty","post the alert"],"inputs":[{"name":"Team Name"},{"name":"urgency","type":"integer","required":false,"description":"1 to 5"},{"name":"x","type":"spell"}]}`).For(scripted.Last("pages whoever")),
		scripted.Say("I think I should… ").Call("answer", `{"steps":["look up who is on duty","post the alert"],"inputs":[{"name":"Team Name"},{"name":"urgency","type":"integer","required":false,"description":"1 to 5"}]}`).For(scripted.Last("both of that")),
		scripted.Call("question_about_the_step", `{"reply":"A phrase is what you say when you want it."}`).For(scripted.Last("no idea what these")),
		scripted.Call("for_main_assistant", `{"request":"How many tasks are overdue?"}`).For(scripted.Last("by the way")),
		scripted.Call("answer", `{"name":"Duty Pager","triggers":["page the duty"]}`).For(scripted.Last("duty pager sounds right")),
		scripted.Call("answer", `{"ask_before_each_call":true}`).For(scripted.Last("nothing must leave")),
		scripted.Call("unclear", `{}`).For(scripted.Last("tea")),
	)
	mm := thinking(t, m)
	thread := mesh.NewThreadID()
	s := say(mm, thread, "create a skill", "something that pages whoever of us has the duty")
	if !strings.Contains(s.Asked(), "step by step") {
		t.Fatalf("asked %q", s.Asked())
	}
	s = mm.Say(thread, "well, both of that, and maybe how urgent it is")
	if !strings.Contains(s.Asked(), "What should the skill be called?") || strings.Contains(s.Text, "I think") {
		t.Fatalf("said %q, asked %q", s.Text, s.Asked())
	}
	if s = mm.Say(thread, "I have no idea what these phrases of yours are good for"); !strings.Contains(s.Asked(), "A phrase is what you say") || !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Errorf("asked %q", s.Asked())
	}
	if s = mm.Say(thread, "by the way I wonder about my overdue stuff"); !strings.Contains(s.Text, "The main assistant says: Three, about How many tasks are overdue?") || !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Errorf("said %q, asked %q", s.Text, s.Asked())
	}
	if s = mm.Say(thread, "duty pager sounds right, and people will say page the duty"); !strings.Contains(s.Asked(), "name: slack.duty_pager") {
		t.Fatalf("asked %q", s.Asked())
	}
	if s = mm.Say(thread, "nothing must leave the house before I had a look"); !strings.Contains(s.Asked(), "requires_approval: true") {
		t.Errorf("asked %q", s.Asked())
	}
	if s = mm.Say(thread, "a cup of tea"); !strings.Contains(s.Asked(), "Is “a cup of tea” an answer") {
		t.Errorf("asked %q", s.Asked())
	}
	if s = say(mm, thread, "main"); !strings.Contains(s.Asked(), "Shall I save it") {
		t.Errorf("asked %q", s.Asked())
	}
	if s = mm.Say(thread, "yes"); !strings.Contains(s.Text, "'slack.duty_pager' is now active") {
		t.Fatalf("said %q, asked %q", s.Text, s.Asked())
	}
	file := mm.SkillFile("slack.duty_pager")
	for _, want := range []string{"name: team_name\n", "name: urgency\n  type: integer\n", "1. Look up who is on duty\n2. Post the alert\n", "- page the duty\n"} {
		if !strings.Contains(file, want) {
			t.Errorf("%q is not in\n%s", want, file)
		}
	}
	if strings.Contains(file, "cup") || strings.Contains(file, "overdue") {
		t.Errorf("what was no answer is in\n%s", file)
	}
}

// Where the model fails, or says nothing usable, rules have the message; what needs no model
// does not wait for it.
func TestWithoutTheModelsWordTheRulesHaveIt(t *testing.T) {
	for name, model := range map[string]*scripted.Model{
		"it is away":          scripted.New(scripted.Fail(mesh.Errorf(mesh.Unavailable, "test", "the model is away")).Repeat()),
		"it talks":            scripted.New(scripted.Say("Sure!").Repeat()),
		"it calls what is no": scripted.New(scripted.Call("save_skill", `{}`).Repeat()),
	} {
		mm := thinking(t, model)
		thread := mesh.NewThreadID()
		s := say(mm, thread, "a skill that sends Slack alerts", "channel and text")
		if !strings.Contains(s.Asked(), "What should the skill be called?") {
			t.Fatalf("%s: asked %q", name, s.Asked())
		}
		if s = mm.Say(thread, "I also want to create a skill that reads Notion pages"); !strings.Contains(s.Asked(), "finish that first?") {
			t.Errorf("%s: asked %q", name, s.Asked())
		}
		if s = say(mm, thread, "finish", "ok", "yes"); !strings.Contains(s.Text, "'slack.send_alert' is now active") {
			t.Errorf("%s: said %q, asked %q", name, s.Text, s.Asked())
		}
	}
}

// Whatever a model says is a yes, nothing is saved by it.
func TestAModelSavesNothing(t *testing.T) {
	mm := thinking(t, scripted.New(scripted.Call("answer", `{"you_decide":true}`).Repeat()))
	thread := mesh.NewThreadID()
	say(mm, thread, "a skill that sends Slack alerts", "ok", "ok")
	if s := mm.Say(thread, "that is all rather nice I would say"); s.State == completed || !strings.Contains(s.Asked(), "Shall I save it") {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
	for _, e := range mm.Events(thread) {
		if c, ok := e.Body.(mesh.SkillCalled); ok {
			t.Errorf("called %+v", c)
		}
	}
}

// finding O4: a model's call that was not offered, or says nothing for the draft, is no answer:
// the step stays, nothing of it is in the draft, and the user is asked about their own words.
func TestACallThatWasNotOfferedOrSaysNothingIsNoAnswer(t *testing.T) {
	const said = "well Zebedee would like the list of what is overdue for him on Monday"
	for name, step := range map[string]scripted.Step{
		"an answer without content": scripted.Call("answer", `{}`),
		"an answer of blanks":       scripted.Call("answer", `{"steps":[" ","."],"triggers":[""],"name":"!","inputs":[{"name":"?"}],"confirm":" "}`),
		"what becomes of skills":    scripted.Call("existing_skill", `{"what":"use","name":"mail.send"}`),
		"a new one of none":         scripted.Call("existing_skill", `{"what":"new","name":""}`),
	} {
		for _, before := range [][]string{nil, {"ok"}, {"ok", "ok"}} {
			mm := thinking(t, scripted.New(step.Repeat()))
			thread := mesh.NewThreadID()
			was := say(mm, thread, append([]string{"a skill that sends Slack alerts"}, before...)...)
			if s := mm.Say(thread, said); !strings.Contains(s.Asked(), "Is “"+said+"” an answer") {
				t.Errorf("%s, after %q: said %q, asked %q", name, before, s.Text, s.Asked())
			}
			noted := ""
			for _, e := range mm.Events(thread) {
				if n, ok := e.Body.(mesh.StateNoted); ok {
					noted = string(n.Data)
				}
			}
			if draft, _, _ := strings.Cut(noted, `,"waits"`); strings.Contains(draft, "mail.send") || strings.Contains(draft, "Zebedee") {
				t.Errorf("%s, after %q: noted %s", name, before, noted)
			}
			if len(before) > 0 {
				continue
			}
			if s := say(mm, thread, "main"); !strings.Contains(s.Asked(), was.Asked()) {
				t.Errorf("%s: asked %q, before %q", name, s.Asked(), was.Asked())
			}
		}
	}
}
