package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// run serves the agent until the test ends or stops it, and returns its
// address once it is ready.
func run(t *testing.T, o agent.Options) (addr string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	o.Ready = func(endpoint string) { ready <- endpoint }
	go func() { ended <- agent.Serve(ctx, o) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	select {
	case addr = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return addr, stop
}

// S4-017, S4-051: a message goes to an agent's own server under a grant; the
// agent reaches the mesh over gRPC, and streams back.
func TestAnAgentIsServedOverGRPC(t *testing.T) {
	n := agenttest.NewNode(t)
	nodeAddr, _ := n.Serve(t, nil)
	n.Log(agenttest.Posted(mesh.NewExecutionID(agenttest.Thread), 1, "earlier"))
	addr, _ := run(t, agent.Options{
		Node: agenttest.Dial(t, nodeAddr), Verifier: n.Verifier(t), Addr: "127.0.0.1:0",
		Agent: fake{func(ctx context.Context, inv *agent.Invocation, say func(agent.Output) bool) error {
			items, err := inv.Mesh.History(ctx, 0)
			if err != nil {
				return err
			}
			if err := inv.Mesh.Note(ctx, []byte(`{}`)); err != nil {
				return err
			}
			say(agent.Text{Text: items[0].Text + ", " + inv.Text()})
			return nil
		}},
	})
	conn := agenttest.Dial(t, addr)
	client := a2apb.NewA2AServiceClient(conn)
	g := agenttest.NewGrant()
	res, err := client.SendMessage(mesh.WithCall(t.Context(), n.Call(g)), &a2apb.SendMessageRequest{Message: agenttest.Message("later")})
	if err != nil {
		t.Fatal(err)
	}
	if task := res.GetTask(); a2a.TaskText(task) != "earlier, later" || task.GetId() != string(g.Execution) || task.GetContextId() != agenttest.Thread {
		t.Errorf("got %v", task)
	}
	if got := len(n.Bodies(t, g.Execution)); got != 1 {
		t.Errorf("%d notes in the thread", got)
	}
	if _, err := client.SendMessage(t.Context(), &a2apb.SendMessageRequest{Message: agenttest.Message("x")}); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("without a grant: %v", err)
	}
	health, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", health, err)
	}
}

func TestAnAgentInItsOwnProcessRegistersAndStaysRegistered(t *testing.T) {
	n := agenttest.NewNode(t)
	nodeAddr, stopNode := n.Serve(t, nil)
	addr, stop := run(t, agent.Options{
		Agent: says(agent.Text{Text: "hi"}), NodeAddr: nodeAddr, Register: &agent.Registration{Name: "fake"},
	})
	n.Await(t, "two renewals", func() bool { return n.Renewed >= 2 })
	if a := n.Agents["fake"]; a.GetEndpoint() != addr || a.GetCard().GetSupportedInterfaces()[0].GetUrl() != addr {
		t.Errorf("registered as %v, served at %s", a, addr)
	}
	client := a2apb.NewA2AServiceClient(agenttest.Dial(t, addr))
	if _, err := client.SendMessage(mesh.WithCall(t.Context(), n.Call(agenttest.NewGrant())), &a2apb.SendMessageRequest{Message: agenttest.Message("x")}); err != nil {
		t.Errorf("the node's grant is refused: %v", err)
	}

	// The node restarts and knows nothing of the lease.
	stopNode()
	n.Mu.Lock()
	clear(n.Leases)
	clear(n.Agents)
	n.Mu.Unlock()
	_, _ = n.Serve(t, rpctest.ListenAt(t, nodeAddr))
	n.Await(t, "registration after the node's restart", func() bool { return n.Leases["fake"] != "" })

	if err := stop(); err != nil {
		t.Error(err)
	}
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.Leases["fake"] != "" {
		t.Error("the agent left without a word")
	}
}

func TestAnAgentThatTheNodeRefusesIsNotServed(t *testing.T) {
	texttest.Fixed(t)
	n := agenttest.NewNode(t)
	n.Leases["fake"] = "somebody else's"
	nodeAddr, _ := n.Serve(t, nil)
	err := agent.Serve(t.Context(), agent.Options{Agent: says(), NodeAddr: nodeAddr, Register: &agent.Registration{Name: "fake"}})
	if !mesh.IsCode(err, mesh.Precondition) || mesh.DetailOf(err) != "The name fake is taken" {
		t.Errorf("got %v", err)
	}
}

func TestAnAgentWaitsForItsNode(t *testing.T) {
	n := agenttest.NewNode(t)
	addr := rpctest.Free(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Serve(ctx, agent.Options{Agent: says(), NodeAddr: addr, Register: &agent.Registration{Name: "fake"}})
	}()
	_, _ = n.Serve(t, rpctest.ListenAt(t, addr))
	n.Await(t, "registration", func() bool { return n.Leases["fake"] != "" })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Many agents may register at once, as after a restart of their node, which then says
// when to come again.
func TestAnAgentComesAgainWhenItsNodeSaysSo(t *testing.T) {
	n := agenttest.NewNode(t)
	n.Busy = 2
	addr, _ := n.Serve(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Serve(ctx, agent.Options{Agent: says(), NodeAddr: addr, Register: &agent.Registration{Name: "fake"}})
	}()
	n.Await(t, "registration", func() bool { return n.Leases["fake"] != "" })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestOptionsThatMakeNoSenseNameTheField(t *testing.T) {
	n := agenttest.NewNode(t)
	v := n.Verifier(t)
	taken := rpctest.Listen(t)
	defer taken.Close()
	for name, tt := range map[string]struct {
		o    agent.Options
		want string
	}{
		"no agent":        {agent.Options{NodeAddr: "x", Verifier: v}, "agent"},
		"no node":         {agent.Options{Agent: says(), Verifier: v}, "node_addr"},
		"no verifier":     {agent.Options{Agent: says(), NodeAddr: "x"}, "verifier"},
		"a port in use":   {agent.Options{Agent: says(), NodeAddr: "x", Verifier: v, Addr: taken.Addr().String()}, taken.Addr().String()},
		"a bad node addr": {agent.Options{Agent: says(), NodeAddr: "\x00", Verifier: v}, "target"},
	} {
		if err := agent.Serve(t.Context(), tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want it to name %s", name, err, tt.want)
		}
	}
}

func TestServeDrainsAndEnds(t *testing.T) {
	n := agenttest.NewNode(t)
	nodeAddr, _ := n.Serve(t, nil)
	working := make(chan struct{})
	addr, stop := run(t, agent.Options{
		Node: agenttest.Dial(t, nodeAddr), Verifier: n.Verifier(t), Drain: 20 * time.Millisecond, Grace: time.Minute, // the drain is to pass, the grace is not
		Agent: fake{func(ctx context.Context, _ *agent.Invocation, say func(agent.Output) bool) error {
			close(working)
			<-ctx.Done()
			return ctx.Err()
		}},
	})
	client := a2apb.NewA2AServiceClient(agenttest.Dial(t, addr))
	stream, err := client.SendStreamingMessage(mesh.WithCall(t.Context(), n.Call(agenttest.NewGrant())), &a2apb.SendMessageRequest{Message: agenttest.Message("x")})
	if err != nil {
		t.Fatal(err)
	}
	<-working
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for {
		r, err := stream.Recv()
		if err != nil {
			if !mesh.IsCode(rpc.FromStatus(err), mesh.Unavailable) {
				t.Errorf("the stream ended with %v", err)
			}
			break
		}
		if state, _ := a2a.StateOf(r); mesh.Terminal(state) {
			t.Errorf("the task that is to go on ended with %v", r)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// newRogue returns an agent that does, for the seed in its message, one random
// thing after the other, good or bad.
func newRogue() agent.Agent {
	return fake{func(ctx context.Context, inv *agent.Invocation, say func(agent.Output) bool) error {
		seed, err := strconv.ParseUint(inv.Text(), 10, 64)
		if err != nil {
			return err
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		for range rnd.IntN(30) {
			switch rnd.IntN(40) {
			case 0:
				panic("rogue")
			case 1:
				return errPlain
			case 2:
				return mesh.Errorf(mesh.Unavailable, "rogue", "gone")
			case 3:
				runtime.Goexit()
			case 4:
				say(agent.Ask{Text: "What?"}) // and goes on
			case 5:
				say(agent.Artifact{})
			case 6:
				say(agent.Data{Value: make(chan int)})
			case 7:
				say(nil)
			case 8:
				time.Sleep(60 * time.Millisecond)
			case 9:
				say(agent.Text{Text: strings.Repeat("long ", 1000)})
			case 10, 11:
				say(agent.Progress{Text: "busy \xff", Step: 1})
			case 12, 13:
				say(agent.Data{Name: "n", Value: []any{1, "two", nil}})
			case 14:
				say(agent.Artifact{Artifact: &a2apb.Artifact{ArtifactId: "same", Parts: []*a2apb.Part{a2a.TextPart("x")}}})
			case 15:
				say(agent.Text{Text: "\xe4\xb8"})
			default:
				say(agent.Text{Text: fmt.Sprintf("w%d ", rnd.IntN(100))})
			}
		}
		return nil
	}}
}

// Whatever an agent does, a client sees a legal stream (A2A v1.0 §3.1.2): the
// task first, updates in the order of their cursors, pieces only of artifacts
// that began, and exactly one end. The same stream comes after a cursor.
func TestAnyAgentGivesALegalStream(t *testing.T) {
	n := agenttest.NewNode(t)
	nodeAddr, _ := n.Serve(t, nil)
	addr, _ := run(t, agent.Options{Node: agenttest.Dial(t, nodeAddr), Verifier: n.Verifier(t), Agent: newRogue()})
	client := a2apb.NewA2AServiceClient(agenttest.Dial(t, addr))
	base := rand.Uint64N(1 << 40)
	var checks sync.WaitGroup
	defer checks.Wait()
	for i := range uint64(200) {
		checks.Go(func() {
			seed := base + i
			if err := checkStream(t.Context(), n, client, seed); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}

func checkStream(ctx context.Context, n *agenttest.Node, client a2apb.A2AServiceClient, seed uint64) error {
	g := agenttest.NewGrant()
	call := n.Call(g)
	call.WantSeq = true
	ctx = mesh.WithCall(ctx, call)
	stream, err := client.SendStreamingMessage(ctx, &a2apb.SendMessageRequest{Message: agenttest.Message(strconv.FormatUint(seed, 10))})
	if err != nil {
		return err
	}
	first, err := checkLegal(stream)
	if err != nil {
		return err
	}
	end := first[len(first)-1]
	state, _ := a2a.StateOf(end)
	if !mesh.Terminal(state) {
		return nil // it waits for its user, and so would a subscription
	}
	call.HasCursor = true
	again, err := client.SubscribeToTask(mesh.WithCall(ctx, call), &a2apb.SubscribeToTaskRequest{Id: string(g.Execution)})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		r, err := again.Recv()
		if errors.Is(err, io.EOF) {
			if i != len(first) {
				return fmt.Errorf("%d updates the second time, %d the first", i, len(first))
			}
			return nil
		}
		if err != nil {
			return err
		}
		if i > 0 && r.String() != first[i].String() {
			return fmt.Errorf("the second time %v, the first %v", r, first[i])
		}
	}
}

func checkLegal(stream interface {
	Recv() (*a2apb.StreamResponse, error)
}) ([]*a2apb.StreamResponse, error) {
	var got []*a2apb.StreamResponse
	begun := map[string]bool{}
	closed := map[string]bool{}
	over := false
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if !over {
				return got, fmt.Errorf("the stream ended without an end: %v", got)
			}
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, r)
		seq, ok := a2a.SeqOf(r)
		switch {
		case over:
			return got, fmt.Errorf("%v after the end", r)
		case !ok || int(seq) != len(got)-1:
			return got, fmt.Errorf("cursor %d of update %d", seq, len(got)-1)
		case (r.GetTask() != nil) != (len(got) == 1):
			return got, fmt.Errorf("the task is at place %d", len(got))
		}
		if state, moved := a2a.StateOf(r); moved {
			over = mesh.Terminal(state) || mesh.Interrupted(state)
			continue
		}
		u := r.GetArtifactUpdate()
		id := u.GetArtifact().GetArtifactId()
		switch {
		case id == "" || len(u.GetArtifact().GetParts()) == 0:
			return got, fmt.Errorf("a hollow artifact: %v", u)
		case u.GetAppend() && (!begun[id] || closed[id]):
			return got, fmt.Errorf("more of an artifact that is not open: %v", u)
		case !utf8.ValidString(a2a.ArtifactText(u.GetArtifact())):
			return got, fmt.Errorf("torn text: %v", u)
		}
		begun[id], closed[id] = true, u.GetLastChunk()
	}
}
