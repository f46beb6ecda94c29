package node_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/text/texttest"
)

// patient is an agent that works until it is stopped.
func patient(ctx context.Context, _ *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
}

// busy starts a mesh whose main agent waits for a patient one and a quick one, and a
// turn of it, and returns what its stream tells when the user was told that both were
// asked and one is done.
func busy(t *testing.T) (*testMesh, string, grpc.ServerStreamingClient[a2apb.StreamResponse], string, map[string]string) {
	t.Helper()
	cfg := config(t.TempDir())
	cfg.Limits.Quiet = time.Second
	m := start(t, cfg, map[string]run{"patient": patient, "writer": writer}, builtin("main", consulting(
		dispatch.Order{AgentID: "slow", Name: "patient", Mission: "take your time"},
		dispatch.Order{AgentID: "quick", Name: "writer", Mission: "found apples"},
	)))
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("compare them"))
	if err != nil {
		t.Fatal(err)
	}
	turn := ""
	for {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if task := r.GetTask(); task != nil {
			turn = task.GetId()
		}
		p := a2a.Extension(r.GetStatusUpdate().GetMetadata()).GetFields()[a2a.KeyProgress].GetStructValue().GetFields()
		if p["total"].GetNumberValue() != 2 || p["done"].GetNumberValue() != 1 {
			continue
		}
		if got := mesh.TextOf(r.GetStatusUpdate().GetStatus().GetMessage()); got != "Still working: slow; 1 of 2 done." && !strings.Contains(got, "slow; 1 of 2 done") {
			t.Errorf("the user is told %q", got)
		}
		break
	}
	ids := map[string]string{}
	list, err := meshv1.NewExecutionServiceClient(m.conn).ListExecutions(in(t, id), &meshv1.ListExecutionsRequest{ThreadId: id, TurnId: turn})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list.GetExecutions() {
		ids[x.GetExecution().GetLabel()] = x.GetExecution().GetId()
	}
	return m, id, stream, turn, ids
}

// ends are the statuses of the thread's executions that agents dispatched.
func ends(t *testing.T, m *testMesh, id string) []string {
	t.Helper()
	list, err := meshv1.NewExecutionServiceClient(m.conn).ListExecutions(in(t, id), &meshv1.ListExecutionsRequest{ThreadId: id})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, x := range list.GetExecutions() {
		if x.GetDepth() > 1 {
			out = append(out, fmt.Sprintf("%s %s %s", x.GetExecution().GetLabel(), x.GetStatus(), x.GetReason()))
		}
	}
	slices.Sort(out)
	return out
}

// finding O3, finding O6, S1-055, S1-079: while a turn is quiet its user is told who works, and
// sees it; ends one agent, which to A2A is no task, and the turn goes on with the others.
func TestTheUserEndsOneAgentOfAQuietTurn(t *testing.T) {
	texttest.Fixed(t)
	m, id, stream, _, ids := busy(t)
	if _, err := m.edge().GetTask(in(t, id), &a2apb.GetTaskRequest{Id: ids["slow"]}); status.Code(err) != codes.NotFound {
		t.Errorf("a sub-agent's execution over A2A: %v", err)
	}
	if _, err := m.edge().CancelTask(in(t, id), &a2apb.CancelTaskRequest{Id: ids["slow"]}); status.Code(err) != codes.NotFound {
		t.Errorf("and canceled there: %v", err)
	}
	executions := meshv1.NewExecutionServiceClient(m.conn)
	for agent, want := range map[string]string{"slow": "cancelled", "quick": "already_completed"} {
		got, err := executions.CancelExecution(in(t, id), &meshv1.CancelExecutionRequest{ThreadId: id, ExecutionId: ids[agent]})
		if err != nil || got.GetOutcome() != want {
			t.Fatalf("%s: %v, %v", agent, got, err)
		}
	}
	s := rest(t, stream)
	if s.state != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(s.text, "slow is cancelled") || !strings.Contains(s.text, "quick is completed: found apples") {
		t.Errorf("heard %q, ended %v", s.text, s.state)
	}
	if got := ends(t, m, id); !slices.Equal(got, []string{"quick completed ", "slow cancelled CANCELED_BY_USER"}) {
		t.Errorf("the agents: %q", got)
	}
}

// finding O6: who asks how far a turn is, is answered at once and beside it, in words and in
// data; the turn and the log know nothing of it.
func TestHowFarATurnIsCanBeAsked(t *testing.T) {
	texttest.Fixed(t)
	m, id, _, turn, ids := busy(t)
	threads := meshv1.NewThreadServiceClient(m.conn)
	ask := func() *a2apb.SendMessageRequest {
		req := say("How far are you?")
		req.Message.ContextId = id
		req.Message.Metadata = a2a.SetExtension(nil, map[string]*structpb.Value{a2a.KeyProgress: structpb.NewBoolValue(true)})
		return req
	}
	before := len(read(t, threads, id))
	resp, err := m.edge().SendMessage(in(t, id), ask())
	if err != nil || resp.GetMessage() == nil {
		t.Fatalf("answered %v, %v", resp, err)
	}
	p := a2a.Extension(resp.GetMessage().GetMetadata()).GetFields()[a2a.KeyProgress].GetStructValue().GetFields()
	at := p["working"].GetListValue().GetValues()
	if got := mesh.TextOf(resp.GetMessage()); got != "Still working: slow; 1 of 2 done." || p["task"].GetStringValue() != turn || p["state"].GetStringValue() != "working" ||
		len(at) != 1 || at[0].GetStructValue().GetFields()["id"].GetStringValue() != ids["slow"] {
		t.Errorf("answered %q with %v", got, p)
	}
	stream, err := m.edge().SendStreamingMessage(in(t, id), ask())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := stream.Recv(); err != nil || r.GetMessage() == nil {
		t.Errorf("streamed %v, %v", r, err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("and then %v", err)
	}
	for _, line := range read(t, threads, id)[before:] {
		if strings.Contains(fmt.Sprint(line), "How far") {
			t.Errorf("the log has the question: %v", line)
		}
	}
	if _, err := m.edge().SendMessage(in(t, mesh.NewThreadID()), ask()); err == nil {
		t.Error("a context that is not the thread's was taken")
	}
	if _, err := m.edge().CancelTask(in(t, id), &a2apb.CancelTaskRequest{Id: turn}); err != nil {
		t.Fatal(err)
	}
	if resp, err = m.edge().SendMessage(in(t, id), ask()); err != nil || mesh.TextOf(resp.GetMessage()) != "No agent is at work on this." {
		t.Errorf("after the end: %v, %v", resp, err)
	}
}

// S1-070, finding O9: with a turn all its agents are canceled, and say so.
func TestWithATurnItsAgentsAreCanceled(t *testing.T) {
	texttest.Fixed(t)
	m, id, _, turn, _ := busy(t)
	task, err := m.edge().CancelTask(in(t, id), &a2apb.CancelTaskRequest{Id: turn})
	if err != nil || task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_CANCELED {
		t.Fatalf("canceled: %v, %v", task, err)
	}
	if got := ends(t, m, id); !slices.Equal(got, []string{"quick completed ", "slow cancelled CANCELED_BY_USER"}) {
		t.Errorf("the agents: %q", got)
	}
}

// rest reads a stream, of which the task was read before, to its end.
func rest(t *testing.T, stream grpc.ServerStreamingClient[a2apb.StreamResponse]) (s said) {
	t.Helper()
	for {
		r, err := stream.Recv()
		if err == io.EOF {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.GetArtifactUpdate().GetArtifact().GetParts() {
			s.text += p.GetText()
		}
		if u := r.GetStatusUpdate(); u != nil {
			s.state = u.GetStatus().GetState()
		}
	}
}
