package call_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
)

const (
	working   = a2apb.TaskState_TASK_STATE_WORKING
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	failedAt  = a2apb.TaskState_TASK_STATE_FAILED
	asks      = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	auth      = a2apb.TaskState_TASK_STATE_AUTH_REQUIRED
)

// An actor is an agent that says what a script has, legal or not.
type actor struct {
	a2apb.UnimplementedA2AServiceServer
	says  func(req *a2apb.SendMessageRequest) []*a2apb.StreamResponse
	ends  error // of the stream, after all was said
	hangs bool  // instead of ending, until the caller leaves
	left  chan struct{}

	mu sync.Mutex // of says and ends, for tests that change them
}

// play gives the actor another script, for calls from now on.
func (a *actor) play(ends error, rs ...*a2apb.StreamResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.says, a.ends = script(rs...), ends
}

func (a *actor) lines(req *a2apb.SendMessageRequest) ([]*a2apb.StreamResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.says(req), a.ends
}

func (a *actor) SendStreamingMessage(req *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	if a.left != nil {
		defer close(a.left)
	}
	says, ends := a.lines(req)
	for _, r := range says {
		if err := stream.Send(r); err != nil {
			return err
		}
	}
	if a.hangs {
		<-stream.Context().Done()
	}
	return ends
}

func (a *actor) SendMessage(_ context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	says, ends := a.lines(req)
	for _, r := range says {
		switch p := r.GetPayload().(type) {
		case *a2apb.StreamResponse_Task:
			return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: p.Task}}, ends
		case *a2apb.StreamResponse_Message:
			return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Message{Message: p.Message}}, ends
		}
	}
	return &a2apb.SendMessageResponse{}, ends
}

func (a *actor) CancelTask(_ context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	if req.Id != "t" {
		return nil, status.Error(codes.NotFound, "Task not found")
	}
	return &a2apb.Task{Id: req.Id}, nil
}

// serve returns a client of the actor over a real connection.
func serve(t testing.TB, a *actor) call.Client { return serveAs(t, a) }

func serveAs(t testing.TB, a a2apb.A2AServiceServer) call.Client {
	t.Helper()
	conn, err := rpc.Dial(listening(t, a), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return call.GRPC(conn)
}

// places are clients of the actor by where it is.
func places(t testing.TB, a *actor) map[string]call.Client {
	return map[string]call.Client{"far": serve(t, a), "near": nearby(t, a)}
}

// nearby returns a client of the actor in this process.
func nearby(t testing.TB, a *actor) call.Client {
	srv := rpc.NewServer(rpc.Options{Auth: anyone{}})
	a2apb.RegisterA2AServiceServer(srv, a)
	t.Cleanup(srv.Stop)
	return call.GRPC(rpc.Local(srv, nil))
}

type anyone struct{}

func (anyone) Authenticate(context.Context, rpc.Credentials) (mesh.Principal, error) {
	return mesh.Principal{Tenant: "acme", User: "ann"}, nil
}

// listening serves until the test ends.
func listening(t testing.TB, a a2apb.A2AServiceServer) (addr string) {
	t.Helper()
	l := rpctest.Listen(t)
	srv := grpc.NewServer()
	a2apb.RegisterA2AServiceServer(srv, a)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Stop(); <-done })
	return l.Addr().String()
}

func script(rs ...*a2apb.StreamResponse) func(*a2apb.SendMessageRequest) []*a2apb.StreamResponse {
	return func(*a2apb.SendMessageRequest) []*a2apb.StreamResponse { return rs }
}

func text(s string) []*a2apb.Part {
	return []*a2apb.Part{{Content: &a2apb.Part_Text{Text: s}}}
}

func task(id string, state mesh.TaskState, artifacts ...string) *a2apb.StreamResponse {
	t := &a2apb.Task{Id: id, ContextId: "c", Status: &a2apb.TaskStatus{State: state}}
	for _, a := range artifacts {
		t.Artifacts = append(t.Artifacts, &a2apb.Artifact{ArtifactId: a, Parts: text("whole " + a)})
	}
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: t}}
}

func status1(id string, state mesh.TaskState, words string) *a2apb.StreamResponse {
	s := &a2apb.TaskStatus{State: state}
	if words != "" {
		s.Message = &a2apb.Message{MessageId: "s", Role: a2apb.Role_ROLE_AGENT, Parts: text(words)}
	}
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{TaskId: id, ContextId: "c", Status: s}}}
}

func piece(id, artifact, s string, add bool) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
		TaskId: id, ContextId: "c", Append: add, Artifact: &a2apb.Artifact{ArtifactId: artifact, Parts: text(s)}}}}
}

func says(task, id, s string) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Message{Message: &a2apb.Message{MessageId: id, TaskId: task, Role: a2apb.Role_ROLE_AGENT, Parts: text(s)}}}
}

// lines are the bodies, one line each.
func lines(bodies []mesh.Body) []string {
	out := []string{}
	for _, b := range bodies {
		switch b := b.(type) {
		case mesh.ArtifactAppended:
			mode := "new"
			if b.Append {
				mode = "append"
			}
			out = append(out, fmt.Sprintf("%s %s %q", mode, b.Artifact.ArtifactId, clip(b.Artifact.Parts[0].GetText())))
		case mesh.TaskMoved:
			line := strings.ToLower(strings.TrimPrefix(b.State.String(), "TASK_STATE_"))
			for _, s := range []string{b.Reason, b.RemoteTask, b.RemoteContext, words(b.Message)} {
				if s != "" {
					line += " " + s
				}
			}
			out = append(out, line)
		default:
			out = append(out, fmt.Sprintf("a %T", b))
		}
	}
	return out
}

func clip(s string) string { return s[:min(40, len(s))] }

func words(m *a2apb.Message) string {
	if len(m.GetParts()) == 0 {
		return ""
	}
	return m.Parts[0].GetText()
}
