package skillbuilder_test

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/skillbuilder"
	"agentmesh/agents/specialist"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/skill"
	"agentmesh/skills"
	httpskill "agentmesh/skills/http"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A tester stands for the worker: it runs as the function says.
type tester struct {
	card *a2apb.AgentCard
	run  func(ctx context.Context, inv *agent.Invocation) (agent.Output, error)
}

func (w tester) Card() *a2apb.AgentCard { return w.card }

func (w tester) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) { yield(w.run(ctx, inv)) }
}

// tried is a mesh whose builder has new skills tried by a worker, which thinks or does not.
func tried(t *testing.T, thinks bool, worker func(node.Env) (agent.Agent, error), files ...fs.FS) *meshtest.Mesh {
	t.Helper()
	return meshtest.Start(t, meshtest.Agents{
		"main":   func(node.Env) (agent.Agent, error) { return host{meshtest.Card(t, "main"), nil}, nil },
		"worker": worker,
		"skill-builder": func(env node.Env) (agent.Agent, error) {
			return skillbuilder.New(skillbuilder.Config{Card: meshtest.Card(t, "skill-builder"), Conns: env.Conns, Worker: "worker", WorkerThinks: thinks, Now: friday, Logger: env.Logger})
		},
	}, meshtest.Options{Skills: append(files, skills.FS)})
}

// A new skill is tried once before the user is asked to save it, in a dry execution: whatever
// the agent that carries it out calls, the mesh has nothing made that would have an effect, and
// notes the call. The list of these comes from the log and not from what that agent says. What
// came of it is shown, also that it failed, and the user decides.
func TestANewSkillIsTriedWithoutEffect(t *testing.T) {
	runs, fails := 0, false
	work := func(ctx context.Context, inv *agent.Invocation) (agent.Output, error) {
		if runs++; fails {
			return nil, mesh.Errorf(mesh.Unavailable, "test", "the worker is tired")
		}
		if !strings.Contains(inv.Text(), "name: slack.send_alert") || !inv.Grant.Dry || !inv.Grant.AllowsSkill("mail.send") {
			t.Errorf("told %q with %+v", inv.Text(), inv.Grant)
		}
		for i, name := range []string{"tasks.create", "mail.send", "system.build_skill", "no.skill"} {
			call := mesh.SkillCalled{Call: "call-" + name, Skill: name, Args: `{"a":"` + name + `"}`}
			if permit, err := inv.Mesh.RecordCall(ctx, mesh.NewEventID(), call); permit != nil || err != nil {
				t.Errorf("%d: the mesh permits %s: %v", i, name, err)
			}
		}
		read := mesh.SkillCalled{Call: "read", Skill: "tasks.search", Args: `{"status":"overdue"}`}
		if permit, err := inv.Mesh.RecordCall(ctx, mesh.NewEventID(), read); permit == nil || err != nil {
			t.Errorf("the mesh does not permit to read: %v", err)
		}
		if _, err := inv.Mesh.State().Put(ctx, "task", "x", []byte("{}"), 0); !mesh.IsCode(err, mesh.Denied) {
			t.Errorf("state is written: %v", err)
		}
		if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "main", Reason: "test"}); !mesh.IsCode(err, mesh.Denied) {
			t.Errorf("the conversation is handed over: %v", err)
		}
		if _, err := inv.Mesh.CreateSkill(ctx, inv.Text(), ""); !mesh.IsCode(err, mesh.Denied) {
			t.Errorf("a skill is created: %v", err)
		}
		child := mesh.Execution{ID: mesh.NewExecutionID(inv.Thread.ID), Parent: inv.Execution, Kind: mesh.KindAgent, User: inv.User, Agent: "main"}
		if _, err := inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.DispatchIssued{Child: child}}); !mesh.IsCode(err, mesh.Denied) {
			t.Errorf("another agent is asked: %v", err)
		}
		return agent.Text{Text: "The alert is posted.\nAll is well."}, nil
	}
	m := tried(t, true, func(node.Env) (agent.Agent, error) { return tester{meshtest.Card(t, "worker"), work}, nil })
	thread := mesh.NewThreadID()
	s := say(m, thread, "a skill that sends Slack alerts", "ok", "ok")
	want := "I tried it, without any effect:\n> The alert is posted.\n> All is well.\nNot made:\n> tasks.create {\"a\":\"tasks.create\"}\nNot made:\n> mail.send {\"a\":\"mail.send\"}\n"
	if !strings.Contains(s.Asked(), want) || !strings.Contains(s.Asked(), "Not made:\n> no.skill") ||
		!strings.Contains(s.Asked(), "Made, as it only reads:\n> tasks.search {\"status\":\"overdue\"}\n\nShall I save it") || runs != 1 {
		t.Fatalf("tried %d times, asked %q", runs, s.Asked())
	}
	for _, e := range m.Events(thread) {
		if c, ok := e.Body.(mesh.SkillCalled); ok && c.NotMade != (c.Skill != "tasks.search") {
			t.Errorf("the log has %+v", c)
		}
	}
	if s = m.Say(thread, "What happens when I save it?"); !strings.Contains(s.Asked(), "> The alert is posted.") || runs != 1 {
		t.Errorf("tried %d times, asked %q", runs, s.Asked())
	}
	fails = true
	if s = m.Say(thread, "inputs: channel, text"); !strings.Contains(s.Asked(), "It could not be tried: ") || !strings.Contains(s.Asked(), "the worker is tired") || runs != 2 {
		t.Errorf("tried %d times, asked %q", runs, s.Asked())
	}
	if s = m.Say(thread, "yes"); !strings.Contains(s.Text, "'slack.send_alert' is now active") || strings.Contains(m.SkillFile("slack.send_alert"), "tired") {
		t.Errorf("said %q, asked %q", s.Text, s.Asked())
	}
}

// request is a skill that is an HTTP request with a secret.
const request = "---\nname: crm.add_note\ndescription: Add a note\nhandler: http.request\naccess: write\nparameters:\n- {name: text, required: true, description: What to note}\n---\n# Note\n\n" +
	"```http\nPOST %s/notes?key={secret:crm}\nAuthorization: Bearer {secret:crm}\n\n{\"text\": {text}}\n```\n"

// Without a model, steps that are commands are tried: what reads is read, and what would write or
// send is noted and shown as it would be sent, with its secrets left out. Where nothing can be
// tried, the user is told so.
func TestWithoutAModelCommandsAreTriedAndNothingElse(t *testing.T) {
	sent := 0
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ }))
	t.Cleanup(service.Close)
	made := 0
	worker := func(env node.Env) (agent.Agent, error) {
		handlers, err := httpskill.Handlers(httpskill.Options{Client: service.Client(), Allow: []string{service.URL},
			Secrets: map[string]httpskill.Secret{"crm": {Value: "s3cret-value", Origins: []string{service.URL}}}})
		if err != nil {
			return nil, err
		}
		code := skill.HandlerFunc(func(_ context.Context, c *skill.Call, _ *skill.Env) (*skill.Result, error) {
			if made++; c.Skill != "tasks.search" {
				t.Errorf("%s was made", c.Skill)
			}
			return &skill.Result{Content: "Two tasks are overdue."}, nil
		})
		handlers["tasks.search"], handlers["tasks.create"] = code, code
		return specialist.New(specialist.Config{Card: meshtest.Card(t, "worker"), Model: scripted.New(), Domains: []string{specialist.AnyDomain}, Handlers: handlers, Logger: env.Logger})
	}
	m := tried(t, false, worker, fstest.MapFS{"crm/add_note.md": {Data: fmt.Appendf(nil, request, service.URL)}})
	thread := mesh.NewThreadID()
	s := say(m, thread, "a skill that posts what is late", "ok", "ok")
	if !strings.Contains(s.Asked(), "It was not tried: there is no language model here") || !strings.Contains(s.Asked(), "Shall I save it") {
		t.Fatalf("asked %q", s.Asked())
	}
	s = say(m, thread, "steps: look who is there; tasks.search --status overdue; tasks.create --title late; crm.add_note --text hello", "answer")
	for _, want := range []string{
		"Made, as it only reads:\n> tasks.search {\"limit\":20,\"offset\":0,\"status\":[\"overdue\"]}\n> Two tasks are overdue.\n", "Not made:\n> tasks.create {\"title\":\"late\"}\n",
		"Not made:\n> crm.add_note {\"text\":\"hello\"}\n> POST " + service.URL + "/notes?key={secret:crm}\n", "> Authorization: Bearer {secret:crm}\n> Content-Type: application/json\n> \n> {\"text\": \"hello\"}\nSteps that were not tried, as without a language model only commands of skills are, and at most 5: 1.\n", "1. Look who is there\n2. tasks.search --status overdue\n",
	} {
		if !strings.Contains(s.Asked(), want) {
			t.Errorf("asked %q, want %q", s.Asked(), want)
		}
	}
	if made != 1 || sent != 0 {
		t.Errorf("%d handlers were called and %d requests sent", made, sent)
	}
	for _, e := range m.Events(thread) {
		if strings.Contains(fmt.Sprintf("%+v", e.Body), "s3cret") {
			t.Errorf("the log has the secret: %+v", e.Body)
		}
	}
}
