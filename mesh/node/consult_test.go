package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc/rpctest"
)

// builtin adds an agent that uses what its node gives it.
func builtin(name string, r func(node.Env) run) func(*node.Options) {
	return func(o *node.Options) {
		o.Builtins = append(o.Builtins, node.Builtin{Name: name, New: func(env node.Env) (agent.Agent, error) {
			return testAgent{name, r(env)}, nil
		}})
	}
}

// consulting is an agent that dispatches the orders and says what came of each,
// and, when it is asked to recall, what was said.
func consulting(orders ...dispatch.Order) func(node.Env) run {
	return func(env node.Env) run {
		return func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
			if inv.Text() == "recall" {
				return recall(ctx, inv)
			}
			return func(yield func(agent.Output, error) bool) {
				d := dispatch.New(ctx, inv, env.Conns, dispatch.Options{})
				defer d.Close()
				for _, err := range d.Dispatch(ctx, orders) {
					if err != nil {
						yield(nil, err)
						return
					}
				}
				results, err := d.Wait(ctx, nil)
				if err != nil {
					yield(nil, err)
					return
				}
				for _, r := range results {
					if !yield(agent.Text{Text: fmt.Sprintf("%s is %s: %s. ", r.AgentID, r.Status, r.Result)}, nil) {
						return
					}
				}
			}
		}
	}
}

// finder is an agent whose runs answer once so many are at work at the same
// time.
func finder(runs int) run {
	meet := together(runs)
	return func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			err := meet(ctx)
			yield(agent.Text{Text: "found " + inv.Text()}, err)
		}
	}
}

// writer is an agent that repeats what finders found.
func writer(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return words(strings.Join(regexp.MustCompile(`found \w+`).FindAllString(inv.Text(), -1), " and "))
}

// S0-007, S4-017, S4-012: the main agent consults two others, which are at work
// at the same time, and a third one that needs them and starts only then; what
// they say comes back through the log, main's answer becomes part of the
// history, and the log alone tells who did what for whom.
func TestAgentsAreConsultedInParallelAndTheLogTellsAll(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"finder": finder(2), "writer": writer}, builtin("main", consulting(
		dispatch.Order{AgentID: "one", Name: "finder", Mission: "apples"},
		dispatch.Order{AgentID: "two", Name: "finder", Mission: "pears"},
		dispatch.Order{AgentID: "three", Name: "writer", Mission: "sum up", DependsOn: []string{"one", "two"}},
	)))
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("compare them"))
	s := hear(t, stream, err)
	answer := "one is completed: found apples. two is completed: found pears. three is completed: found apples and found pears. "
	if s.text != answer || s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("heard %q,\nwant  %q; ended %v %v", s.text, answer, s.state, s.status)
	}

	events := read(t, meshv1.NewThreadServiceClient(m.conn), id)
	want := []string{
		"user:ann posts: compare them",
		"main, asked by the turn: compare them", "main says: " + answer, "main is COMPLETED",
		"finder, asked by main: apples", "finder says: found apples", "finder is COMPLETED: found apples",
		"finder, asked by main: pears", "finder says: found pears", "finder is COMPLETED: found pears",
		"writer, asked by main: sum up", "writer says: found apples and found pears", "writer is COMPLETED: found apples and found pears",
		"the turn is COMPLETED",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(deeds(t, events)))); diff != "" {
		t.Errorf("the log tells another story (-want +got):\n%s", diff)
	}
	issued, settled := places(events)
	if max(issued["apples"], issued["pears"]) > min(settled["apples"], settled["pears"]) {
		t.Errorf("one was dispatched when the other had ended: issued %v, settled %v", issued, settled)
	}
	if issued["sum up"] < max(settled["apples"], settled["pears"]) {
		t.Errorf("it was dispatched before what it depends on was done: issued %v, settled %v", issued, settled)
	}

	stream, err = m.edge().SendStreamingMessage(in(t, id), say("recall"))
	if s := hear(t, stream, err); s.text != "user: compare them; agent: "+answer+"; user: recall; " {
		t.Errorf("the next turn remembers %q", s.text)
	}
}

// deeds tells from the events alone who did what, and checks that each names
// its actor, its time and an execution that the log has introduced (S4-015).
func deeds(t *testing.T, events []*meshv1.Event) []string {
	t.Helper()
	var all []string
	who, says := map[string]string{}, map[string]string{}
	for _, e := range events {
		x, body := e.GetExecutionId(), e.GetBody()
		if o := e.GetTaskOpened(); o != nil {
			who[o.GetExecution().GetId()] = "the turn"
		}
		if _, claim := body.(*meshv1.Event_ThreadClaimed); !claim && who[x] == "" || e.GetActor() == "" || e.GetTime() == nil {
			t.Errorf("nobody can tell who did this: %v", e)
		}
		switch b := body.(type) {
		case *meshv1.Event_MessagePosted:
			all = append(all, e.GetActor()+" posts: "+textOf(b.MessagePosted.GetMessage().GetParts()))
		case *meshv1.Event_DispatchIssued:
			child := b.DispatchIssued.GetChild()
			who[child.GetId()] = child.GetAgent()
			if child.GetParent() != x {
				t.Errorf("%s was asked by %s, and says its parent is %s", child.GetId(), x, child.GetParent())
			}
			all = append(all, fmt.Sprintf("%s, asked by %s: %s", child.GetAgent(), who[x], child.GetText()))
		case *meshv1.Event_ArtifactAppended:
			says[x] += textOf(b.ArtifactAppended.GetArtifact().GetParts())
		case *meshv1.Event_DispatchSettled:
			child := b.DispatchSettled.GetChild()
			all = append(all, who[child]+" says: "+says[child],
				strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", who[child], word(b.DispatchSettled.GetState()), b.DispatchSettled.GetResult()), ": "))
		case *meshv1.Event_TaskMoved:
			if mesh.Terminal(b.TaskMoved.GetState()) {
				all = append(all, who[x]+" is "+word(b.TaskMoved.GetState()))
			}
		}
	}
	return all
}

func word(s mesh.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_STATE_") }

// places returns where in the log executions begin and end, by their text.
func places(events []*meshv1.Event) (issued, settled map[string]int) {
	issued, settled = map[string]int{}, map[string]int{}
	text := map[string]string{}
	for i, e := range events {
		if d := e.GetDispatchIssued(); d != nil {
			text[d.GetChild().GetId()], issued[d.GetChild().GetText()] = d.GetChild().GetText(), i
		}
		if d := e.GetDispatchSettled(); d != nil {
			settled[text[d.GetChild()]] = i
		}
	}
	return issued, settled
}

// A tap is an agent without any runtime that keeps the metadata it is called
// with, as it came over the wire.
type tap struct {
	a2apb.UnimplementedA2AServiceServer
	name string

	mu    sync.Mutex
	calls []metadata.MD
}

func (a *tap) SendStreamingMessage(_ *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	a.mu.Lock()
	a.calls = append(a.calls, md)
	a.mu.Unlock()
	return stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{
		Id: one(md, "execution-id"), ContextId: one(md, "thread-id"),
		Status:    &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED},
		Artifacts: []*a2apb.Artifact{{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "tapped"}}}}},
	}}})
}

// one is the only value of a key.
func one(md metadata.MD, key string) string {
	if len(md[key]) != 1 {
		return fmt.Sprint(md[key])
	}
	return md[key][0]
}

// join serves the tap and registers it with the mesh.
func (a *tap) join(t *testing.T, m *testMesh, knowsUs bool) {
	t.Helper()
	join(t, m, a.name, a, knowsUs)
}

// join serves an agent and registers it with the mesh. It returns the registration's secret.
func join(t *testing.T, m *testMesh, name string, a a2apb.A2AServiceServer, knowsUs bool) string {
	t.Helper()
	return joinAs(in(t, mesh.NewThreadID()), t, m.conn, name, a, knowsUs)
}

// joinAs is join by the caller whose metadata is in ctx.
func joinAs(ctx context.Context, t *testing.T, conn grpc.ClientConnInterface, name string, a a2apb.A2AServiceServer, knowsUs bool) string {
	t.Helper()
	l := rpctest.Listen(t)
	server := grpc.NewServer()
	a2apb.RegisterA2AServiceServer(server, a)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	c := card(name)
	if !knowsUs {
		c.Capabilities.Extensions = nil
	}
	res, err := meshv1.NewRegistryServiceClient(conn).RegisterAgent(ctx,
		&meshv1.RegisterAgentRequest{Name: name, Card: c, Endpoint: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetSecret()
}

// S4-010, S4-015, S4-051, S4-069, S4-078: in a turn in which agents dispatch agents
// that dispatch agents, every call that reaches one carries the conversation's
// thread and tenant, its own execution and the one that asked, over gRPC,
// and is in the log and, where it was answered by our runtime, in the node's
// records.
func TestEveryCallOfATurnCarriesItsIdentity(t *testing.T) {
	var records logbuffer.Buffer
	asks := []dispatch.Order{{AgentID: "w", Name: "wired", Mission: "w"}, {AgentID: "p", Name: "plain", Mission: "p"}}
	m := start(t, config(t.TempDir()), nil,
		builtin("lead", consulting(asks...)),
		builtin("main", consulting(append(asks, dispatch.Order{AgentID: "l", Name: "lead", Mission: "l"})...)),
		func(o *node.Options) { o.Logger = slog.New(slog.NewJSONHandler(&records, nil)) })
	wired, plain := &tap{name: "wired"}, &tap{name: "plain"}
	wired.join(t, m, true)
	plain.join(t, m, false)
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("go"))
	if s := hear(t, stream, err); strings.Count(s.text, "tapped") != 4 {
		t.Fatalf("heard %q", s.text)
	}
	events := read(t, meshv1.NewThreadServiceClient(m.conn), id)
	m.Stop() // then all records are written

	asked, inProcess := map[string]*meshv1.Execution{}, map[string]string{}
	for _, e := range events {
		x := e.GetDispatchIssued().GetChild()
		switch x.GetAgent() {
		case "wired", "plain":
			asked[x.GetId()] = x
		case "main", "lead":
			inProcess[x.GetId()] = x.GetAgent()
		}
	}
	for _, a := range []*tap{wired, plain} {
		for _, md := range a.calls {
			x := asked[one(md, "execution-id")]
			delete(asked, x.GetId())
			want := []string{a.name, id, "default", "ann", x.GetParent(), fmt.Sprint(a == wired)}
			got := []string{x.GetAgent(), one(md, "thread-id"), one(md, "tenant-id"), one(md, "user-id"), one(md, "parent-task-id"), fmt.Sprint(md["mesh-ticket"] != nil)}
			if diff := cmp.Diff(want, got); diff != "" || inProcess[x.GetParent()] == "" {
				t.Errorf("a call of %s by %q says (-want +got):\n%s", a.name, inProcess[x.GetParent()], diff)
			}
		}
	}
	if len(asked) != 0 || len(wired.calls) != 2 || len(plain.calls) != 2 {
		t.Errorf("%d and %d calls came; the log has also %v", len(wired.calls), len(plain.calls), asked)
	}
	if diff := cmp.Diff(inProcess, agentCalls(t, records.String(), id)); diff != "" {
		t.Errorf("the records of agent calls are not those of the log (-log +records):\n%s", diff)
	}
}

// agentCalls returns, by execution, who was called by the records, all of which
// must be of the thread.
func agentCalls(t *testing.T, records, thread string) map[string]string {
	t.Helper()
	calls := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(records))
	for lines.Scan() {
		var r struct{ Msg, Tenant, Thread, Execution, Agent, Chain string }
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Msg != "agent call" {
			continue
		}
		if r.Tenant != "default" || r.Thread != thread || !strings.HasSuffix(r.Chain, r.Agent) {
			t.Errorf("a record without its context: %s", lines.Text())
		}
		calls[r.Execution] = r.Agent
	}
	return calls
}
