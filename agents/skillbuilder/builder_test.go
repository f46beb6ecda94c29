package skillbuilder_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/skillbuilder"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/store/shared"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	shared.Twice(m, "")
	goleak.VerifyTestMain(m)
}

const (
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	failed    = a2apb.TaskState_TASK_STATE_FAILED
)

func friday() time.Time { return time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC) }

func builder(t *testing.T) func(node.Env) (agent.Agent, error) {
	return func(env node.Env) (agent.Agent, error) {
		return skillbuilder.New(skillbuilder.Config{Card: meshtest.Card(t, "skill-builder"), Now: friday, Logger: env.Logger})
	}
}

// host hands every message over to the builder, and repeats what came of it.
type host struct {
	card *a2apb.AgentCard
	keep *bool // preserve_state
}

func (h host) Card() *a2apb.AgentCard { return h.card }

func (h host) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if back := inv.Returned; back != nil {
			yield(agent.Text{Text: " [" + back.GetState() + ": " + back.GetResultSummary() + "]"}, nil)
			return
		}
		_, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "skill-builder", Reason: "test", ContextSummary: inv.Text(), PreserveState: h.keep})
		if err != nil {
			yield(nil, err)
		}
	}
}

// handedOver is a mesh in which the builder gets the conversation at once.
func handedOver(t *testing.T, o meshtest.Options) *meshtest.Mesh {
	t.Helper()
	return meshtest.Start(t, meshtest.Agents{
		"main":          func(node.Env) (agent.Agent, error) { return host{meshtest.Card(t, "main"), nil}, nil },
		"skill-builder": builder(t),
	}, o)
}

// say sends one message after the other and returns what is said to the last.
func say(m *meshtest.Mesh, thread string, texts ...string) (last meshtest.Said) {
	for _, text := range texts {
		last = m.Say(thread, text)
	}
	return last
}

// Without a handoff the agent works as well; there is nobody to return to.
func TestASkillCanBeBuiltWithoutAHandoff(t *testing.T) {
	m := meshtest.Start(t, meshtest.Agents{"main": builder(t)}, meshtest.Options{})
	thread := mesh.NewThreadID()
	s := say(m, thread, "a skill that sends Slack alerts", "ok", "ok", "yes")
	if want := "Your skill is ready! It is called slack.send_alert and can be used at once."; s.State != completed || !strings.Contains(s.Text, want) {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
	if file := m.SkillFile("slack.send_alert"); !strings.Contains(file, "created: '2026-11-20'") {
		t.Errorf("the file is\n%s", file)
	}
	// What is complete is not continued.
	if s = m.Say(thread, "a skill that posts tweets"); !strings.Contains(s.Text, "posts tweets") {
		t.Errorf("said %q", s.Text)
	}
	if s = m.Say(thread, "cancel"); s.State != completed || !strings.Contains(s.Text, "Write to me again") {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
}

// The user needs the role skill-author; who lacks it hears so at once, also where the card
// does not require it and the mesh lets the user through.
func TestWhoMayNotCreateSkillsIsToldSoAtOnce(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	entry := "- name: bob\n  hash: " + auth.Hash("s3cret-of-bob") + "\n  tenant: default\n  user: bob\n  permissions: [chat]\n"
	if err := os.WriteFile(tokens, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = `Creating skills needs the role "skill-author"`
	lenient := func(env node.Env) (agent.Agent, error) {
		card := meshtest.Card(t, "skill-builder")
		delete(card.GetCapabilities().GetExtensions()[0].GetParams().GetFields(), "required_permissions")
		return skillbuilder.New(skillbuilder.Config{Card: card, Now: friday, Logger: env.Logger})
	}
	o := meshtest.Options{Tokens: tokens, Bearer: "s3cret-of-bob"}
	m := meshtest.Start(t, meshtest.Agents{
		"main":          func(node.Env) (agent.Agent, error) { return host{meshtest.Card(t, "main"), nil}, nil },
		"skill-builder": lenient,
	}, o)
	s := m.SayAs(mesh.Principal{}, mesh.NewThreadID(), "a skill that sends Slack alerts")
	if s.State != completed || !strings.Contains(s.Text, want) || !strings.Contains(s.Text, "[error: "+want) {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
	direct := meshtest.Start(t, meshtest.Agents{"main": lenient}, o)
	if s = direct.SayAs(mesh.Principal{}, mesh.NewThreadID(), "a skill that sends Slack alerts"); s.State != failed || !s.Heard(want) {
		t.Errorf("ended %v: %q", s.State, s.Status)
	}
}

// What was not seen is not saved: a skill of the same name that came in
// between gets this one another name, and the user is asked again.
func TestASkillThatIsThereAlreadyIsNotOverwritten(t *testing.T) {
	m := handedOver(t, meshtest.Options{})
	one, two, three := mesh.NewThreadID(), mesh.NewThreadID(), mesh.NewThreadID()
	for _, thread := range []string{one, two} {
		say(m, thread, "a skill that sends Slack alerts", "ok", "ok")
	}
	say(m, one, "description: it wakes people up", "yes")
	first := m.SkillFile("slack.send_alert")
	s := say(m, two, "yes")
	if !strings.Contains(s.Asked(), "There is a skill slack.send_alert already, so I call this one slack.send_alert_2.") {
		t.Fatalf("asked %q", s.Asked())
	}
	if s = say(m, two, "yes"); !strings.Contains(s.Text, "[completed: Your skill 'slack.send_alert_2' is now active.]") {
		t.Errorf("said %q", s.Text)
	}
	second := m.SkillFile("slack.send_alert_2")
	s = say(m, three, "a skill that sends Slack alerts", "new", "ok", "ok", "description: it rings a bell")
	if !shared.Pair() && !strings.Contains(s.Asked(), "save it as slack.send_alert_3") { // another node hears of files a moment later
		t.Errorf("asked %q", s.Asked())
	}
	say(m, three, "yes", "yes") // of a name that was taken meanwhile it asks again
	if m.SkillFile("slack.send_alert") != first || m.SkillFile("slack.send_alert_2") != second || !strings.Contains(second, "Sends Slack alerts") {
		t.Error("a file was overwritten")
	}
}

// A skill that cannot be saved is not lost.
func TestASkillThatCannotBeSavedCanBeSavedLater(t *testing.T) {
	m := handedOver(t, meshtest.Options{})
	thread := mesh.NewThreadID()
	say(m, thread, "a skill that sends Slack alerts", "ok", "ok")
	inTheWay := filepath.Join(m.Data, "tenant-skills", string(mesh.DefaultTenant))
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(inTheWay, []byte("a file where the folder should be"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := say(m, thread, "yes")
	if !strings.Contains(s.Asked(), "I could not save the skill") || !strings.Contains(s.Asked(), "Nothing is lost") {
		t.Fatalf("asked %q", s.Asked())
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if s = say(m, thread, "yes"); !strings.Contains(s.Text, "'slack.send_alert' is now active") {
		t.Errorf("said %q", s.Text)
	}
}

// S4-029: a restart of the whole mesh between two messages changes nothing.
func TestASessionSurvivesARestartBetweenAnyTwoMessages(t *testing.T) {
	m := handedOver(t, meshtest.Options{})
	thread := mesh.NewThreadID()
	var s meshtest.Said
	for _, text := range []string{"a skill that sends Slack alerts", "channel and text", "call it slack.ping", "yes"} {
		s = m.Say(thread, text)
		m.Stop()
		m = handedOver(t, meshtest.Options{Data: m.Data})
	}
	if !strings.Contains(s.Text, "[completed: Your skill 'slack.ping' is now active.]") {
		t.Errorf("said %q", s.Text)
	}
	if file := m.SkillFile("slack.ping"); !strings.Contains(file, "--channel <string> --text <string>") {
		t.Errorf("the file is\n%s", file)
	}
}

// forgetful saves the skill and stops right before it gives control back, as
// if its process had died there.
type forgetful struct{ agent.Agent }

func (f forgetful) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	if inv.Text() != "die" {
		return f.Agent.Run(ctx, inv)
	}
	return func(yield func(agent.Output, error) bool) {
		if err := inv.Mesh.Note(ctx, []byte(`{"step":"complete","draft":{"name":"slack.send_alert"}}`)); err != nil {
			yield(nil, err)
			return
		}
		yield(agent.Ask{Text: "…"}, nil)
	}
}

// S4-027: control goes back when the skill is there, if need be later.
func TestControlIsGivenBackAlsoWhenThatWasMissed(t *testing.T) {
	m := meshtest.Start(t, meshtest.Agents{
		"main": func(node.Env) (agent.Agent, error) { return host{meshtest.Card(t, "main"), nil}, nil },
		"skill-builder": func(env node.Env) (agent.Agent, error) {
			a, err := builder(t)(env)
			return forgetful{a}, err
		},
	}, meshtest.Options{})
	s := say(m, mesh.NewThreadID(), "a skill that sends Slack alerts", "die", "hello?")
	if !strings.Contains(s.Text, "Your skill is ready!") || !strings.Contains(s.Text, "[completed: Your skill 'slack.send_alert' is now active.]") {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
}

func TestTheAgentNeedsACard(t *testing.T) {
	if _, err := skillbuilder.New(skillbuilder.Config{}); !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(err.Error(), "card") {
		t.Errorf("without a card: %v", err)
	}
}

// finding O9: preserve_state is obeyed: where who hands over wants nothing to be kept, a
// skill that was begun is not offered again, however the handoff ended; else it is.
func TestWhatIsNotToBeKeptIsNotOfferedAgain(t *testing.T) {
	for _, keep := range []bool{true, false} {
		m := meshtest.Start(t, meshtest.Agents{
			"main":          func(node.Env) (agent.Agent, error) { return host{meshtest.Card(t, "main"), &keep}, nil },
			"skill-builder": builder(t),
		}, meshtest.Options{})
		for how, end := range map[string]func(thread string){
			"the user leaves": func(thread string) {
				if s := m.Say(thread, "cancel it please"); strings.Contains(s.Text, "I keep what we have so far") != keep || !strings.Contains(s.Text, "[cancelled: ") {
					t.Errorf("keep %v: said %q", keep, s.Text)
				}
			},
			"it is ended": func(thread string) {
				ctx := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: mesh.DefaultTenant, User: "ann"}, Thread: thread})
				if _, err := meshv1.NewHandoffServiceClient(m.Dial(rpc.DialOptions{})).EndHandoff(ctx, &meshv1.EndHandoffRequest{ThreadId: thread, Outcome: "cancelled"}); err != nil {
					t.Error(err)
				}
			},
		} {
			thread := mesh.NewThreadID()
			say(m, thread, "I want to create a skill that sends Slack alerts", "channel and text")
			end(thread)
			s := m.Say(thread, "I want to create a skill that mails the weather")
			if again := strings.Contains(s.Asked(), "Welcome back!"); again != keep || !keep && !strings.Contains(s.Text, "mails the weather") {
				t.Errorf("%s, keep %v: said %q, asked %q", how, keep, s.Text, s.Asked())
			}
		}
	}
}
