package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/text/texttest"
)

// childEnv makes the test binary play another program.
const childEnv = "MESH_TEST_CHILD"

// plainAgent is a whole program: an A2A agent on the official SDK's server that
// knows nothing of any mesh. It prints its gRPC address and the address of its
// card, and serves until its input ends.
func plainAgent() error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	a2agrpc.NewHandler(a2asrv.NewHandler(shouter{})).RegisterWith(server)
	c := card("shouter")
	c.Capabilities.Extensions = nil
	c.SupportedInterfaces[0].Url = l.Addr().String()
	data, err := json.Marshal(cardJSON(c))
	if err != nil {
		return err
	}
	go func() { _ = server.Serve(l) }() // ends with the process
	go func() {                         // ends with the process
		_ = http.Serve(web, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(data)
		}))
	}()
	fmt.Printf("%s %s\n", l.Addr(), web.Addr())
	_, err = bufio.NewReader(os.Stdin).ReadByte()
	return err
}

// cardJSON is the JSON form of the card's fields that the test uses.
func cardJSON(c *a2apb.AgentCard) map[string]any {
	return map[string]any{
		"name": c.Name, "description": c.Description, "version": c.Version,
		"supportedInterfaces": []any{map[string]any{"url": c.SupportedInterfaces[0].Url, "protocolBinding": "GRPC", "protocolVersion": "1.0"}},
		"capabilities":        map[string]any{"streaming": true},
		"defaultInputModes":   c.DefaultInputModes, "defaultOutputModes": c.DefaultOutputModes,
		"skills": []any{map[string]any{"id": "shout", "name": "Shout", "description": "Says it louder.", "tags": []string{"loud"}}},
	}
}

// shouter says things in capitals; what begins with "ask" makes it ask back.
type shouter struct{}

func (shouter) Execute(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		text := ""
		for _, p := range ec.Message.Parts {
			text += p.Text()
		}
		if ec.StoredTask == nil && !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) {
			return
		}
		if strings.HasPrefix(text, "ask") {
			yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateInputRequired, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("How loud?"))), nil)
			return
		}
		first := a2a.NewArtifactEvent(ec, a2a.NewTextPart(strings.ToUpper(text)))
		if !yield(first, nil) || !yield(a2a.NewArtifactUpdateEvent(ec, first.Artifact.ID, a2a.NewTextPart("!")), nil) {
			return
		}
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
	}
}

func (shouter) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

// child starts the test binary as another program and returns the words of its
// first line, and a function that kills it.
func child(t testing.TB, role string, env ...string) ([]string, func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append([]string{childEnv + "=" + role}, env...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill := func() {
		if !killed {
			killed = true
			_ = in.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s did not start: %v", role, err)
	}
	return strings.Fields(line), kill
}

// A plain A2A agent in a process of its own, built on the official SDK, joins
// by the URL of its card and answers new conversations as the main agent; when
// it dies, it is not routed to (S1 push delivery in its simplest form: what it
// says is in the log and in the user's stream as it comes).
func TestAPlainA2AAgentInItsOwnProcessJoinsByCardURL(t *testing.T) {
	at, kill := child(t, "plain-agent")
	cfg := config(t.TempDir())
	cfg.Main = "shouter"
	m := start(t, cfg, map[string]run{"main": echo})
	agents := meshv1.NewRegistryServiceClient(m.conn)
	if _, err := agents.RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{Name: "shouter", CardUrl: "http://" + at[1]}); err != nil {
		t.Fatalf("register: %v", err)
	}

	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("hello"))
	s := hear(t, stream, err)
	if s.text != "HELLO!" || s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("heard %q, ended %v: %v", s.text, s.state, s.all)
	}

	// It asks; the answer continues its task, not a new one.
	stream, err = m.edge().SendStreamingMessage(in(t, id), say("ask me"))
	first := hear(t, stream, err)
	if first.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || first.status[len(first.status)-1] != "How loud?" {
		t.Fatalf("ended %v with %q", first.state, first.status)
	}
	stream, err = m.edge().SendStreamingMessage(in(t, id), say("very"))
	second := hear(t, stream, err)
	if second.text != "VERY!" || second.task.GetId() != first.task.GetId() || second.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("heard %q in %s, ended %v", second.text, second.task.GetId(), second.state)
	}

	kill()
	for _, conn := range m.conn { // each node finds out for itself, as it works on a message
		m.notice(t, conn, "shouter")
	}
}

// notice says something at a node to an agent that has died, in new threads, until that
// node has worked on one, and sees that its registry knows then.
func (m *testMesh) notice(t *testing.T, conn grpc.ClientConnInterface, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		id := mesh.NewThreadID()
		stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(in(t, id), say("still there?"))
		if s := hear(t, stream, err); s.state != a2apb.TaskState_TASK_STATE_FAILED || s.text != "" {
			t.Errorf("after its death: heard %q, ended %v", s.text, s.state)
		}
		resp, err := meshv1.NewRegistryServiceClient(conn).GetAgent(in(t, id), &meshv1.GetAgentRequest{Name: name})
		if err == nil && !resp.GetAgent().GetLive() && resp.GetAgent().GetProblem() != "" {
			return
		}
		if err != nil || len(m.conn) == 1 || time.Now().After(deadline) {
			t.Fatalf("the registry still says it lives: %v, %v", resp, err)
		}
	}
}

// An agent that speaks JSON-RPC or HTTP+JSON alone joins by the URL of its card
// and answers as the main agent (S4-002).
func TestAnAgentOnAnotherBindingAnswersAsMain(t *testing.T) {
	for binding, serve := range map[string]func(a2asrv.RequestHandler) http.Handler{
		"JSONRPC":   func(h a2asrv.RequestHandler) http.Handler { return a2asrv.NewJSONRPCHandler(h) },
		"HTTP+JSON": func(h a2asrv.RequestHandler) http.Handler { return a2asrv.NewRESTHandler(h) },
	} {
		t.Run(binding, func(t *testing.T) {
			agentAt := serve(a2asrv.NewHandler(shouter{}))
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/.well-known/agent-card.json" {
					agentAt.ServeHTTP(w, r)
					return
				}
				c := cardJSON(card("shouter"))
				c["supportedInterfaces"] = []any{map[string]any{"url": server.URL, "protocolBinding": binding, "protocolVersion": "1.0"}}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(c)
			}))
			t.Cleanup(server.Close)
			cfg := config(t.TempDir())
			cfg.Main = "shouter"
			m := start(t, cfg, nil)
			if _, err := meshv1.NewRegistryServiceClient(m.conn).RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{Name: "shouter", CardUrl: server.URL}); err != nil {
				t.Fatalf("register: %v", err)
			}
			id := mesh.NewThreadID()
			stream, err := m.edge().SendStreamingMessage(in(t, id), say("hello"))
			if s := hear(t, stream, err); s.text != "HELLO!" || s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
				t.Errorf("heard %q, ended %v: %v", s.text, s.state, s.status)
			}
			stream, err = m.edge().SendStreamingMessage(in(t, id), say("ask me"))
			first := hear(t, stream, err)
			stream, err = m.edge().SendStreamingMessage(in(t, id), say("very"))
			if s := hear(t, stream, err); s.text != "VERY!" || s.task.GetId() != first.task.GetId() {
				t.Errorf("heard %q in %s, asked in %s", s.text, s.task.GetId(), first.task.GetId())
			}
			m.Stop()
		})
	}
}

// finding N4, finding N12: an agent with no more on its card than its name and where it is,
// as gRPC writes that, joins, is known with what its card lacks, and answers.
func TestAnAgentWithTheLeastOfACardAnswersAsMain(t *testing.T) {
	for name, host := range map[string]string{"by number": "127.0.0.1", "by name": "localhost"} {
		t.Run(name, func(t *testing.T) {
			l := rpctest.Listen(t)
			_, port, err := net.SplitHostPort(l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			agent := grpc.NewServer()
			a2agrpc.NewHandler(a2asrv.NewHandler(shouter{})).RegisterWith(agent)
			served := make(chan error, 1)
			go func() { served <- agent.Serve(l) }()
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, `{"name":"My Shouter","supportedInterfaces":[{"url":"dns:///%s:%s","protocolBinding":"grpc"}]}`, host, port)
			}))
			t.Cleanup(func() {
				web.Close()
				agent.Stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
			cfg := config(t.TempDir())
			cfg.Main = "my-shouter"
			m := start(t, cfg, nil)
			agents := meshv1.NewRegistryServiceClient(m.conn)
			added, err := agents.RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{CardUrl: "dns:///" + web.Listener.Addr().String()})
			if err != nil {
				t.Fatalf("register: %v", err)
			}
			known, err := agents.GetAgent(in(t, mesh.NewThreadID()), &meshv1.GetAgentRequest{Name: "my-shouter"})
			warned := func(a *meshv1.Agent) bool {
				return slices.ContainsFunc(a.GetWarnings(), func(w *meshv1.CardWarning) bool { return w.GetField() == "card.skills" && w.GetText() != "" })
			}
			if err != nil || !warned(added.GetAgent()) || !warned(known.GetAgent()) {
				t.Errorf("added as %v, known as %v, %v; want it warned of its skills", added, known, err)
			}
			stream, err := m.edge().SendStreamingMessage(in(t, mesh.NewThreadID()), say("hello"))
			if s := hear(t, stream, err); s.text != "HELLO!" || s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
				t.Errorf("heard %q, ended %v: %v", s.text, s.state, s.status)
			}
			m.Stop()
		})
	}
}

// A registration by URL outlives the node; one by lease does where several nodes
// share what they know.
func TestWhoRegisteredByURLIsKnownAfterARestart(t *testing.T) {
	at, _ := child(t, "plain-agent")
	cfg := config(t.TempDir())
	m := start(t, cfg, map[string]run{"main": echo})
	agents := meshv1.NewRegistryServiceClient(m.conn)
	ctx := in(t, mesh.NewThreadID())
	for _, req := range []*meshv1.RegisterAgentRequest{
		{Name: "kept", CardUrl: "http://" + at[1]},
		{Name: "leased", Card: card("leased"), Endpoint: at[0]},
	} {
		if _, err := agents.RegisterAgent(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
	m.Stop()
	m = start(t, cfg, map[string]run{"main": echo})
	agents = meshv1.NewRegistryServiceClient(m.conn)
	if resp, err := agents.GetAgent(in(t, mesh.NewThreadID()), &meshv1.GetAgentRequest{Name: "kept"}); err != nil {
		t.Errorf("registered by URL: %v, %v", resp, err)
	}
	if _, err := agents.GetAgent(in(t, mesh.NewThreadID()), &meshv1.GetAgentRequest{Name: "leased"}); shared.Pair() && err != nil || !shared.Pair() && !mesh.IsCode(rpc.FromStatus(err), mesh.NotFound) {
		t.Errorf("registered by lease: %v", err)
	}
}

// meshChild runs a node in this process until it is killed.
func meshChild() error {
	cfg := config(os.Getenv("MESH_TEST_DATA"))
	cfg.Main = os.Getenv("MESH_TEST_MAIN")
	return node.Run(context.Background(), cfg, node.Options{
		Builtins: builtins(map[string]run{"main": slowEcho}), Backend: datafolder.Opener(nil),
		Ready: func(a node.Addresses) { fmt.Println(a.GRPC, a.HTTP, a.Interrupted) },
	})
}

// A mesh that was registered as an agent of itself does not talk to itself for
// ever.
func TestAMeshIsNotItsOwnAgent(t *testing.T) {
	texttest.Fixed(t)
	cfg := config(t.TempDir())
	cfg.Main = "mirror"
	m := start(t, cfg, nil)
	c := card("mirror")
	c.Capabilities.Extensions = nil
	if _, err := meshv1.NewRegistryServiceClient(m.conn).RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{Name: "mirror", Card: c, Endpoint: m.GRPC}); err != nil {
		t.Fatal(err)
	}
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("hello"))
	s := hear(t, stream, err)
	if s.state != a2apb.TaskState_TASK_STATE_FAILED || !strings.Contains(strings.Join(s.status, " "), "its own") {
		t.Errorf("ended %v: %q", s.state, s.status)
	}
}

// Cards name where clients reach the node, not where it listens.
func TestCardsNameThePublicAddresses(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Public = node.Public{GRPC: "mesh.example.com:443", HTTP: "https://mesh.example.com/"}
	m := start(t, cfg, map[string]run{"main": echo})
	resp, err := http.Get("http://" + m.web() + "/.well-known/agent-card.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var c struct{ SupportedInterfaces []struct{ URL string } }
	if err := json.NewDecoder(resp.Body).Decode(&c); err != nil {
		t.Fatal(err)
	}
	for _, i := range c.SupportedInterfaces {
		if i.URL != "mesh.example.com:443" && i.URL != "https://mesh.example.com" {
			t.Errorf("the card names %q", i.URL)
		}
	}
}
