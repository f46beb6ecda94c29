package skillbuilder_test

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/skillbuilder"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// answering is a host that, when another agent asks it, answers as the function says.
type answering struct {
	host
	answer func(ctx context.Context, inv *agent.Invocation) (agent.Output, error)
}

func (a answering) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	if inv.Grant.Direct() {
		return a.host.Run(ctx, inv)
	}
	return func(yield func(agent.Output, error) bool) { yield(a.answer(ctx, inv)) }
}

// asked is a mesh in which the builder has the conversation and may ask main.
func asked(t *testing.T, o meshtest.Options, answer func(ctx context.Context, inv *agent.Invocation) (agent.Output, error)) *meshtest.Mesh {
	t.Helper()
	return meshtest.Start(t, meshtest.Agents{
		"main": func(node.Env) (agent.Agent, error) {
			return answering{host{meshtest.Card(t, "main"), nil}, answer}, nil
		},
		"skill-builder": func(env node.Env) (agent.Agent, error) {
			return skillbuilder.New(skillbuilder.Config{Card: meshtest.Card(t, "skill-builder"), Conns: env.Conns, Now: friday, Logger: env.Logger})
		},
	}, o)
}

// finding O4, S4-065: another skill is not begun without a word about the one that is being
// built; what is set aside is offered when the other one is done, and nothing is mixed.
func TestASecondSkillIsBuiltBesideTheFirst(t *testing.T) {
	m := handedOver(t, meshtest.Options{})
	thread := mesh.NewThreadID()
	s := say(m, thread, "a skill that sends Slack alerts", "channel and text", "I also want to create a skill that reads Notion pages")
	if !strings.Contains(s.Asked(), "You are creating your skill that sends Slack alerts. Would you like to finish that first?") {
		t.Fatalf("asked %q", s.Asked())
	}
	s = say(m, thread, "park")
	if !strings.Contains(s.Text, "reads Notion pages") || !strings.Contains(s.Asked(), "step by step") {
		t.Fatalf("said %q, asked %q", s.Text, s.Asked())
	}
	s = say(m, thread, "page and section", "ok", "yes")
	if !strings.Contains(s.Text, "'notion.read_page' is now active") || !strings.Contains(s.Asked(), "continue creating your skill that sends Slack alerts") {
		t.Fatalf("said %q, asked %q", s.Text, s.Asked())
	}
	s = say(m, thread, "yes", "ok", "yes")
	if !strings.Contains(s.Text, "[completed: Your skill 'slack.send_alert' is now active.]") {
		t.Errorf("said %q", s.Text)
	}
	notion, slack := m.SkillFile("notion.read_page"), m.SkillFile("slack.send_alert")
	if strings.Contains(notion, "channel") || !strings.Contains(notion, "- name: section\n") || strings.Contains(slack, "page") || !strings.Contains(slack, "- name: text\n") {
		t.Errorf("the skills are mixed up:\n%s\n%s", notion, slack)
	}
}

// Who wanted another skill, and to finish first, is offered that one when the first is done, while
// the session stands: a yes, in whichever words, begins it with what was wanted; a no ends
// with the success of the first.
func TestWhatIsWantedLaterIsOfferedAtTheEnd(t *testing.T) {
	const offer = "You also wanted a skill that reads Notion pages. Shall we begin with it?"
	first := func() (m *meshtest.Mesh, thread string) {
		m, thread = handedOver(t, meshtest.Options{}), mesh.NewThreadID()
		s := say(m, thread, "a skill that sends Slack alerts", "Create a skill that reads Notion pages", "finish", "ok", "ok", "yes")
		if !strings.Contains(s.Text, "'slack.send_alert' is now active.") || !strings.Contains(s.Asked(), offer) || strings.Contains(s.Text, "Returning") {
			t.Fatalf("said %q, asked %q", s.Text, s.Asked())
		}
		return m, thread
	}
	for _, yes := range []string{"yes", "begin with it", "I want the skill that reads Notion pages", "ok, let us start with that one"} {
		m, thread := first()
		s := m.Say(thread, yes)
		if !strings.Contains(s.Text, "help you create a skill that reads Notion pages.") || !strings.Contains(s.Asked(), "How does it work, step by step?") {
			t.Fatalf("%q: said %q, asked %q", yes, s.Text, s.Asked())
		}
		if s = say(m, thread, "ok", "ok", "yes"); s.State != completed || !strings.Contains(s.Text, "[completed: Your skill 'notion.read_page' is now active.]") {
			t.Errorf("%q: ended %v: %q, asked %q", yes, s.State, s.Text, s.Asked())
		}
	}
	for _, no := range []string{"no", "no thanks"} {
		m, thread := first()
		if s := m.Say(thread, "well hmm"); !strings.Contains(s.Asked(), offer) {
			t.Errorf("asked %q", s.Asked())
		}
		s := m.Say(thread, no)
		if s.State != completed || !strings.Contains(s.Text, "Good. Returning you to the main assistant.") || !strings.Contains(s.Text, "[completed: Your skill 'slack.send_alert' is now active.]") {
			t.Errorf("%q: ended %v: %q, asked %q", no, s.State, s.Text, s.Asked())
		}
		if s = m.Say(thread, "a skill that reads Notion pages"); !strings.Contains(s.Asked(), "How does it work, step by step?") {
			t.Errorf("%q: asked %q", no, s.Asked())
		}
	}
	m, thread := first()
	m.Say(thread, "cancel") // the mesh takes that
	if s := m.Say(thread, "hello"); !strings.Contains(s.Asked(), offer) {
		t.Errorf("to who comes back, asked %q", s.Asked())
	}
}

// A user who is not understood is not kept: after three questions what there is is kept, and
// control goes back.
func TestWhoIsNotUnderstoodIsLetGo(t *testing.T) {
	m := handedOver(t, meshtest.Options{})
	thread := mesh.NewThreadID()
	s := say(m, thread, "a skill that sends Slack alerts", "channel and text", "👎", "👎", "👎")
	if !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Fatalf("asked %q", s.Asked())
	}
	if s = m.Say(thread, "👎"); s.State != completed || !strings.Contains(s.Text, "I do not understand. I keep what we have so far.") {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	if s = say(m, thread, "hello", "yes"); !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Errorf("asked %q", s.Asked())
	}
}

// Main is asked once for each question, also after a restart; when it cannot answer, the user
// hears so, and the step is not lost.
func TestMainIsAskedOnceForEachQuestion(t *testing.T) {
	begun := make(chan struct{}, 8)
	m := asked(t, meshtest.Options{}, func(context.Context, *agent.Invocation) (agent.Output, error) {
		begun <- struct{}{}
		return agent.Text{Text: "Sunny."}, nil
	})
	thread := mesh.NewThreadID()
	say(m, thread, "a skill that sends Slack alerts", "ok")
	s := m.Say(thread, "What is the weather in Paris?")
	if !strings.Contains(s.Text, "The main assistant says: Sunny.") || !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Errorf("said %q, asked %q", s.Text, s.Asked())
	}
	m.Stop()
	m = asked(t, meshtest.Options{Data: m.Data}, func(context.Context, *agent.Invocation) (agent.Output, error) {
		begun <- struct{}{}
		return nil, mesh.Errorf(mesh.Unavailable, "test", "the weather is away")
	})
	s = m.Say(thread, "main: and in Rome?")
	if !strings.Contains(s.Text, "The main assistant could not answer: the weather is away") || !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Errorf("said %q, asked %q", s.Text, s.Asked())
	}
	if len(begun) != 2 {
		t.Errorf("main was asked %d times for two questions", len(begun))
	}
	if s = say(m, thread, "ok", "yes"); !strings.Contains(s.Text, "'slack.send_alert' is now active") {
		t.Errorf("said %q", s.Text)
	}
}

// finding O4: what is sent while the builder works on the message before is heard by the
// session when its turn comes, and nothing of it is lost.
func TestAMessageSentWhileTheBuilderWorksIsHeardNext(t *testing.T) {
	gate, begun := make(chan struct{}), make(chan struct{})
	m := asked(t, meshtest.Options{}, func(context.Context, *agent.Invocation) (agent.Output, error) {
		close(begun)
		<-gate
		return agent.Text{Text: "Sunny."}, nil
	})
	thread := mesh.NewThreadID()
	say(m, thread, "a skill that sends Slack alerts", "ok")
	first, second := make(chan meshtest.Said, 1), make(chan meshtest.Said, 1)
	go func() { first <- m.Say(thread, "What is the weather in Paris?") }()
	<-begun
	go func() { second <- m.Say(thread, "call it slack.ping, use it for “ping me”") }()
	accepted := func(e *mesh.Event) bool {
		b, posted := e.Body.(mesh.MessagePosted)
		return posted && strings.HasPrefix(mesh.TextOf(b.Message), "call it slack.ping")
	}
	for !slices.ContainsFunc(m.Events(thread), accepted) {
		runtime.Gosched()
	}
	close(gate)
	if s := <-first; !strings.Contains(s.Text, "Sunny.") {
		t.Errorf("main's answer is %q", s.Text)
	}
	s := <-second
	if !strings.Contains(s.Asked(), "Shall I save it as slack.ping?") {
		t.Fatalf("asked %q", s.Asked())
	}
	if s = m.Say(thread, "yes"); s.State != completed || !strings.Contains(s.Text, "'slack.ping' is now active") {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
	if file := m.SkillFile("slack.ping"); !strings.Contains(file, "ping me") {
		t.Errorf("the skill is\n%s", file)
	}
}

// What main asks back is for the user, whose next words go to main, unless they skip it or
// leave.
func TestWhatMainAsksBackIsAnsweredToMain(t *testing.T) {
	answer := func(_ context.Context, inv *agent.Invocation) (agent.Output, error) {
		if strings.Contains(inv.Text(), "- Paris") {
			return agent.Text{Text: "Sunny in Paris."}, nil
		}
		return agent.Ask{Text: "Where?"}, nil
	}
	m := asked(t, meshtest.Options{}, answer)
	for words, want := range map[string]string{"Paris": "Sunny in Paris.", "skip": "", "cancel": "[cancelled"} {
		thread := mesh.NewThreadID()
		s := say(m, thread, "a skill that sends Slack alerts", "main: what is the weather?")
		if !strings.Contains(s.Asked(), "The main assistant asks: Where?") || !strings.Contains(s.Asked(), "cancel") {
			t.Fatalf("said %q, asked %q", s.Text, s.Asked())
		}
		s = m.Say(thread, words)
		if !strings.Contains(s.Text, want) || strings.Contains(s.Asked(), "step by step") != (words != "cancel") {
			t.Errorf("%s: said %q, asked %q", words, s.Text, s.Asked())
		}
	}
}

// The whole mesh stops while main works on a question, and begins anew: the question is
// answered all the same, once, and the step is not lost.
func TestAQuestionForMainSurvivesARestartInBetween(t *testing.T) {
	begun := make(chan struct{}, 1)
	m := asked(t, meshtest.Options{}, func(ctx context.Context, _ *agent.Invocation) (agent.Output, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	thread := mesh.NewThreadID()
	say(m, thread, "a skill that sends Slack alerts", "ok")
	ctx := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: mesh.DefaultTenant, User: "ann"}, Thread: thread, Extensions: []string{mesh.ExtensionURI}})
	_, err := a2apb.NewA2AServiceClient(m.Dial(rpc.DialOptions{})).SendMessage(ctx, &a2apb.SendMessageRequest{
		Message:       a2a.NewMessage(a2apb.Role_ROLE_USER, "What is the weather in Paris?"),
		Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	m.Stop()
	m = asked(t, meshtest.Options{Data: m.Data}, func(context.Context, *agent.Invocation) (agent.Output, error) {
		return agent.Text{Text: "Sunny."}, nil
	})
	if s := say(m, thread, "hello", "yes", "call it slack.ping"); !strings.Contains(s.Asked(), "name: slack.ping") {
		t.Errorf("asked %q", s.Asked())
	}
	asks, answers := map[mesh.ExecutionID]bool{}, 0
	for _, e := range m.Events(thread) {
		switch b := e.Body.(type) {
		case mesh.DispatchIssued:
			if b.Child.Agent == "main" && b.Child.Label != "" {
				asks[b.Child.ID] = true
			}
		case mesh.ArtifactAppended:
			answers += strings.Count(a2a.ArtifactText(b.Artifact), "The main assistant says: Sunny.")
		}
	}
	if len(asks) != 1 || answers != 1 {
		t.Errorf("main was asked %d times, and its answer was said %d times", len(asks), answers)
	}
}

// What is longer than can be kept is refused by the question, which says how much is taken, and
// nothing is lost, whatever the session waits for: the next words are heard where it was.
func TestALongMessageIsAskedToBeShorter(t *testing.T) {
	m := asked(t, meshtest.Options{}, func(_ context.Context, inv *agent.Invocation) (agent.Output, error) {
		if strings.Contains(inv.Text(), "- Paris") {
			return agent.Text{Text: "Sunny in Paris."}, nil
		}
		return agent.Ask{Text: "Where?"}, nil
	})
	thread := mesh.NewThreadID()
	long := "I wonder about my day " + strings.Repeat("and what I did to my cat ", 14000)
	const bound = "bytes long, and I take at most 8192."
	for _, step := range []struct{ says, asks string }{
		{"create a skill", "What should the new skill do?"},
		{"it sends Slack alerts", "step by step"},
		{"Find my overdue tasks", "Is “Find my overdue tasks” an answer"},
		{"main", "step by step"},
		{"ok", "What should the skill be called?"},
		{"I also want to create a skill that reads Notion pages", "finish that first?"},
		{"finish", "What should the skill be called?"},
		{"ok", "Shall I save it"},
	} {
		s := m.Say(thread, step.says)
		for s.State != completed && strings.Contains(s.Asked(), "The main assistant asks: Where?") {
			if s = m.Say(thread, long); !strings.Contains(s.Text, bound) || !strings.Contains(s.Asked(), "The main assistant asks: Where?") {
				t.Fatalf("main: said %.300q, asked %.300q", s.Text, s.Asked())
			}
			s = m.Say(thread, "Paris")
		}
		if !strings.Contains(s.Asked(), step.asks) {
			t.Fatalf("%s: said %.300q, asked %.300q", step.says, s.Text, s.Asked())
		}
		if s = m.Say(thread, long); s.State == completed || !strings.Contains(s.Asked(), bound) || !strings.Contains(s.Asked(), step.asks) || len(s.Asked()) > 4000 {
			t.Fatalf("%s: ended %v: said %.300q, asked %.300q", step.says, s.State, s.Text, s.Asked())
		}
	}
	if s := m.Say(thread, "yes"); !strings.Contains(s.Text, "'slack.send_alert' is now active") || strings.Contains(m.SkillFile("slack.send_alert"), "cat") {
		t.Errorf("said %q, asked %q", s.Text, s.Asked())
	}
}

// More than one skill can hold is not taken either, and what there was stands.
func TestMoreThanASkillCanHoldIsNotTaken(t *testing.T) {
	m := handedOver(t, meshtest.Options{})
	thread := mesh.NewThreadID()
	s := say(m, thread, "a skill that sends Slack alerts", "ok", "ok")
	was := s.Asked()
	var steps strings.Builder
	for n := range 20 {
		steps.WriteString("post alert " + strings.Repeat("x", 180+n) + ". ")
	}
	s = m.Say(thread, "steps: "+strings.ReplaceAll(steps.String(), "x", "é"))
	if !strings.Contains(s.Asked(), "more than one skill can hold") || !strings.HasSuffix(s.Asked(), was) {
		t.Errorf("asked %q", s.Asked())
	}
}
