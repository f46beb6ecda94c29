package node_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/nodetest"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/text/texttest"
)

// runOnce matches the tests of what one process or one address does, and those that
// have two nodes anyway. Benchmarks are run once, too.
const runOnce = "^(TestARunSurvivesKill9|" +
	"TestNothingAcknowledgedIsLostByKill9|TestAStreamResumesFromItsCursorAfterARestart|TestAPlainAgentRemembersAfterKill9|TestAFolder|" +
	"TestANodeThatFailsToStart|TestATurnGoesOnAtTheProcess|TestAnOpenMesh|TestTheAgentCard|TestEveryCard|TestNoCallMakesACard|TestACard|TestTheCard|" +
	"TestCards|TestOnlyCards|TestTheCardOfAnAgent|TestEachFormOfACard|TestInterop.*Programs|TestInteropReflection|TestInteropCurl|" +
	"TestInteropGrpcurl|TestInteropBufCurl|TestInteropTheDocument|TestInteropAGenerated|TestTheReadersOfStreams|TestSettings|TestEachBad|TestModes|TestReadingOf|TestBadChoices|TestAStrictMesh|TestTheErrorTable|TestAUserHasSoManyStreams|TestEveryFace|TestPair)"

// All other tests run on one node and then on two.
func TestMain(m *testing.M) {
	texttest.FromEnv()
	switch os.Getenv(childEnv) {
	case "":
		shared.Twice(m, runOnce)
		goleak.VerifyTestMain(m)
	case "plain-agent":
		exit(plainAgent())
	case "diary-agent":
		exit(diaryAgent())
	case "greedy-agent":
		exit(greedyAgent())
	case "malicious-agent":
		exit(maliciousAgent())
	case "surviving-mesh":
		exit(survivingMesh())
	case "surviving-lead":
		exit(survivingAgents(lead, "lead"))
	case "surviving-worker":
		exit(survivingAgents(doer, "worker", "clerk"))
	case "surviving-helper":
		exit(survivingAgents(doer, "helper", "scribe"))
	case "surviving-replica":
		exit(survivingReplica())
	case "surviving-twin":
		exit(survivingTwin())
	case "mesh":
		exit(meshChild())
	}
}

// exit ends a child of the test.
func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A mesh under test: a whole node on ephemeral ports, with its agents, or two of
// them on one backend, of which each call goes to any.
type testMesh struct {
	*nodetest.Mesh
	t    testing.TB
	data string
	conn nodetest.Conns // of which each is a node's
	dead []*atomic.Bool // of two nodes: that they were killed
}

// web is the address of any node's gateway.
func (m *testMesh) web() string { return m.Any().HTTP }

// raw connects to all nodes as a program that is not the mesh's.
func (m *testMesh) raw(t testing.TB) nodetest.Conns {
	t.Helper()
	var c nodetest.Conns
	for _, a := range m.All {
		c = append(c, raw(t, a.GRPC))
	}
	return c
}

// run is an agent whose Run is a function.
type run func(context.Context, *agent.Invocation) iter.Seq2[agent.Output, error]

type testAgent struct {
	name string
	run  run
}

func (a testAgent) Card() *a2apb.AgentCard { return card(a.name) }
func (a testAgent) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return a.run(ctx, inv)
}

func card(name string) *a2apb.AgentCard {
	yes := true
	return &a2apb.AgentCard{
		Name: "The " + name, Description: "Does what " + name + " does.", Version: "1.0.0",
		Capabilities:      &a2apb.AgentCapabilities{Streaming: &yes, Extensions: []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI}}},
		Skills:            []*a2apb.AgentSkill{{Id: name + ".do", Name: name, Description: "does it", Tags: []string{name}}},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		SupportedInterfaces: []*a2apb.AgentInterface{{Url: "127.0.0.1:1", ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}},
	}
}

// config of a mesh on ephemeral ports.
func config(data string) node.Config { return nodetest.Config(data) }

// options are those of a node with the agents.
func options(agents map[string]run, opts []func(*node.Options)) node.Options {
	o := nodetest.Options()
	o.Builtins = builtins(agents)
	for _, f := range opts {
		f(&o)
	}
	return o
}

// start starts a mesh with the agents and stops it when the test ends.
func start(t testing.TB, cfg node.Config, agents map[string]run, opts ...func(*node.Options)) *testMesh {
	t.Helper()
	m := &testMesh{Mesh: nodetest.Start(t, cfg, options(agents, opts)), t: t, data: cfg.Data}
	m.conn = m.Dial(rpc.DialOptions{})
	return m
}

func builtins(agents map[string]run) []node.Builtin {
	var out []node.Builtin
	for name, r := range agents {
		out = append(out, node.Builtin{Name: name, New: func(node.Env) (agent.Agent, error) { return testAgent{name, r}, nil }})
	}
	return out
}

// client of the edge.
func (m *testMesh) edge() a2apb.A2AServiceClient { return a2apb.NewA2AServiceClient(m.conn) }

// in returns a context for calls in the thread as a client that knows our
// extension.
func in(t testing.TB, threadID string) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{Tenant: "default", User: "ann"}, Thread: threadID, Extensions: []string{mesh.ExtensionURI}})
}

// plain is a context of a client that knows only A2A.
func plain(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func say(text string) *a2apb.SendMessageRequest {
	return &a2apb.SendMessageRequest{Message: &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}}
}

// said is what a stream told: everything, and the parts of it that tests ask
// for.
type said struct {
	all    []*a2apb.StreamResponse
	task   *a2apb.Task
	text   string
	state  mesh.TaskState
	status []string // texts of status messages
	seqs   []mesh.Seq
}

// hear reads a stream to its end and checks that it is a legal one: the task
// first, then updates of that task alone, in order, at most one terminal one,
// and that last.
func hear(t testing.TB, stream grpc.ServerStreamingClient[a2apb.StreamResponse], err error) said {
	t.Helper()
	var s said
	if err != nil {
		t.Fatalf("stream: %v", err)
	}
	for {
		r, err := stream.Recv()
		if err == io.EOF {
			return s
		}
		if err != nil {
			t.Fatalf("stream broke after %d updates: %v", len(s.all), err)
		}
		s.add(t, r)
	}
}

func (s *said) add(t testing.TB, r *a2apb.StreamResponse) {
	t.Helper()
	s.all = append(s.all, r)
	if (s.task == nil) != (r.GetTask() != nil) {
		t.Errorf("update %d: the task must come first, and once: %v", len(s.all), r)
	}
	if mesh.Terminal(s.state) {
		t.Errorf("update %d came after the end: %v", len(s.all), r)
	}
	id, ctx := "", ""
	switch p := r.Payload.(type) {
	case *a2apb.StreamResponse_Task:
		s.task = p.Task
		if !mesh.Terminal(p.Task.GetStatus().GetState()) { // a resumed stream still tells how it came to that
			s.state = p.Task.GetStatus().GetState()
		}
		return
	case *a2apb.StreamResponse_StatusUpdate:
		id, ctx, s.state = p.StatusUpdate.TaskId, p.StatusUpdate.ContextId, p.StatusUpdate.GetStatus().GetState()
		if m := p.StatusUpdate.GetStatus().GetMessage(); m != nil {
			s.status = append(s.status, textOf(m.Parts))
		}
		s.seq(t, p.StatusUpdate.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["seq"].GetNumberValue())
	case *a2apb.StreamResponse_ArtifactUpdate:
		id, ctx = p.ArtifactUpdate.TaskId, p.ArtifactUpdate.ContextId
		s.text += textOf(p.ArtifactUpdate.GetArtifact().GetParts())
		s.seq(t, p.ArtifactUpdate.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["seq"].GetNumberValue())
	}
	if id != s.task.GetId() || ctx != s.task.GetContextId() {
		t.Errorf("update of task %q in %q, want %q in %q", id, ctx, s.task.GetId(), s.task.GetContextId())
	}
}

func (s *said) seq(t testing.TB, n float64) {
	if n == 0 {
		return
	}
	if len(s.seqs) > 0 && s.seqs[len(s.seqs)-1] >= mesh.Seq(n) {
		t.Errorf("seq %v after %v", n, s.seqs[len(s.seqs)-1])
	}
	s.seqs = append(s.seqs, mesh.Seq(n))
}

func textOf(parts []*a2apb.Part) string {
	out := ""
	for _, p := range parts {
		out += p.GetText()
	}
	return out
}

// words yields texts as an agent's answer.
func words(texts ...string) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		for _, w := range texts {
			if !yield(agent.Text{Text: w}, nil) {
				return
			}
		}
	}
}

// echo is an agent that repeats what it is told.
func echo(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return words("You said: ", inv.Text())
}

// recall is an agent that tells what was said in the thread (S4-011).
func recall(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		said, err := inv.Mesh.History(ctx, 100)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, h := range said {
			if !yield(agent.Text{Text: h.Role + ": " + h.Text + "; "}, nil) {
				return
			}
		}
	}
}

func insecureCredentials() credentials.TransportCredentials { return insecure.NewCredentials() }

// slowEcho repeats what it is told, word by word and not too fast.
func slowEcho(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		for _, w := range strings.Fields(inv.Text()) {
			if !yield(agent.Text{Text: w + " "}, nil) {
				return
			}
			select {
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}
