package mainagent_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/mainagent"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
)

// registerDead makes an agent known that dies right after.
func registerDead(t *testing.T, m *meshtest.Mesh, name string) {
	t.Helper()
	l := rpctest.Listen(t)
	defer func() { _ = l.Close() }() // from then on it refuses connections
	conn, err := rpc.Dial(m.Any().GRPC, rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = meshv1.NewRegistryServiceClient(conn).RegisterAgent(ctx, &meshv1.RegisterAgentRequest{
		Name: name, Card: meshtest.Card(t, name), Endpoint: l.Addr().String(),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// S4-020, S4-062: main answers although the agent that knows is down, and
// names what is missing.
func TestMainAnswersWhenTheAgentThatKnowsIsDown(t *testing.T) {
	w := newWorld(t)
	m := meshtest.Start(t, meshtest.Agents{"main": w.main}, meshtest.Options{})
	registerDead(t, m, "knowledge")
	thread := mesh.NewThreadID()
	for range 2 { // found dead, and known as dead
		s := m.Say(thread, "How do I configure rate limiting for my agent?")
		if s.State != completed || !strings.Contains(s.Text, "could not get an answer from the knowledge agent") {
			t.Errorf("ended %v: %q", s.State, s.Text)
		}
	}
}

// S4-063: control stays with main.
func TestMainExplainsWhenNobodyCanTakeOver(t *testing.T) {
	w := newWorld(t)
	m := meshtest.Start(t, meshtest.Agents{"main": w.main}, meshtest.Options{})
	registerDead(t, m, "skill-builder")
	thread := mesh.NewThreadID()
	for _, when := range []string{"found dead", "known as dead"} {
		s := m.Say(thread, "I want to create a skill that sends Slack alerts")
		if s.State != completed || !strings.Contains(s.Text, "help you with something else, or try again later?") {
			t.Errorf("%s: ended %v: %q", when, s.State, s.Text)
		}
	}
	if s := m.Say(thread, "hello"); s.State != completed || !strings.Contains(s.Text, "Hello") {
		t.Errorf("main does not answer any more: %v %q", s.State, s.Text)
	}
}

// S4-021: what several agents say, at the same time, goes to the model
// that puts it together; S4-011: so does what was said before.
func TestAModelSeesTheConversationAndTheAnswersOfAllAgentsItAsked(t *testing.T) {
	model := scripted.New(
		scripted.Say("Nice to meet you."),
		scripted.Call("consult_agent", `{"agent":"left","task":"L?"}`).Call("consult_agent", `{"agent":"right","task":"R?"}`),
		scripted.Say("Both ", "agree."),
	)
	w := newWorld(t)
	w.model = model
	both := make(chan string) // each agent waits for the other
	m := meshtest.Start(t, meshtest.Agents{"main": w.main, "left": meets(both), "right": meets(both)}, meshtest.Options{})
	thread := mesh.NewThreadID()
	m.Say(thread, "I am Ann")
	s := m.Say(thread, "What do left and right think?")
	if s.Text != "Both agree." || !s.Heard("Researching") {
		t.Errorf("heard %q, %q", s.Text, s.Status)
	}
	reqs := model.Requests()
	want := []llm.Message{
		{Role: llm.RoleUser, Text: "I am Ann"},
		{Role: llm.RoleAssistant, Text: "Nice to meet you."},
		{Role: llm.RoleUser, Text: "What do left and right think?"},
	}
	if diff := cmp.Diff(want, reqs[1].Messages); diff != "" {
		t.Errorf("what the model was shown (-want +got):\n%s", diff)
	}
	results := reqs[2].Messages[4:]
	if len(results) != 2 || !strings.Contains(results[0].Text, `"I am left"`) || !strings.Contains(results[1].Text, `"I am right"`) {
		t.Errorf("answers %+v", results)
	}
	offered := reqs[1].Tools
	if !slices.ContainsFunc(offered, func(l llm.Tool) bool { return l.Name == "consult_agent" }) || len(offered) != 1 {
		t.Errorf("tools %+v, want consult_agent alone where nobody can take over", offered)
	}
}

func TestTheAgentNeedsWhatItNeeds(t *testing.T) {
	card, model := meshtest.Card(t, "main"), scripted.New()
	for field, cfg := range map[string]mainagent.Config{
		"card": {Model: model, Conns: new(rpc.Pool)}, "model": {Card: card, Conns: new(rpc.Pool)}, "conns": {Card: card, Model: model},
		"reads": {Card: card, Model: model, Conns: new(rpc.Pool), Solo: new(mainagent.Solo), Reads: new(skilltools.Options)},
	} {
		if _, err := mainagent.New(cfg); !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// meets returns agents that answer once another one is there too.
func meets(meet chan string) func(node.Env) (agent.Agent, error) {
	return func(node.Env) (agent.Agent, error) { return meeting{meet}, nil }
}

type meeting struct{ meet chan string }

func (meeting) Card() *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name: "Meeting", Description: "Meets another.", Version: "1", Capabilities: &a2apb.AgentCapabilities{
			Extensions: []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI}},
		},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: "meet", Name: "Meet", Description: "Meets.", Tags: []string{"meet"}}},
	}
}

func (a meeting) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		select {
		case a.meet <- inv.Grant.Agent:
		case <-a.meet:
		case <-ctx.Done():
			yield(nil, context.Cause(ctx))
			return
		}
		yield(agent.Text{Text: "I am " + inv.Grant.Agent}, nil)
	}
}
