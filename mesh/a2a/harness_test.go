package a2a_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	taskID  = "550e8400e29b41d4a716446655440000-0011223344556677"
	thread  = "550e8400-e29b-41d4-a716-446655440000"
	thread2 = "650e8400-e29b-41d4-a716-446655440000"

	working   = a2apb.TaskState_TASK_STATE_WORKING
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	input     = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	authorize = a2apb.TaskState_TASK_STATE_AUTH_REQUIRED
)

// shelf is a Service with one task, whose updates the test writes.
type shelf struct {
	mu      sync.Mutex
	card    *a2apb.AgentCard
	start   mesh.TaskState
	history []*a2apb.Message
	marks   *structpb.Struct // metadata of the task
	updates []*a2apb.StreamResponse
	changed chan struct{}
	cut     bool // Updates end although the task does not
	sent    int
	follow  chan struct{} // gets a value, if there is room, when somebody waits for updates
}

func newShelf() *shelf {
	return &shelf{
		card:    &a2apb.AgentCard{Name: "shelf", Capabilities: &a2apb.AgentCapabilities{Streaming: proto.Bool(true)}},
		start:   working,
		changed: make(chan struct{}),
		follow:  make(chan struct{}, 1),
	}
}

func (s *shelf) write(updates ...*a2apb.StreamResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = append(s.updates, updates...)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *shelf) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *shelf) task() *a2apb.Task {
	t := &a2apb.Task{Id: taskID, ContextId: thread, Status: &a2apb.TaskStatus{State: s.start}, History: s.history, Metadata: s.marks}
	for _, u := range s.updates {
		if state, ok := a2a.StateOf(u); ok {
			t.Status = &a2apb.TaskStatus{State: state}
		} else {
			t.Artifacts = append(t.Artifacts, u.GetArtifactUpdate().GetArtifact())
		}
	}
	return t
}

func (s *shelf) Capabilities() *a2apb.AgentCapabilities { return s.card.GetCapabilities() }

func (s *shelf) Send(_ context.Context, req *a2apb.SendMessageRequest) (*a2a.Accepted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	s.history = append(s.history, req.GetMessage())
	return &a2a.Accepted{Task: s.task(), Cursor: mesh.Seq(len(s.updates))}, nil
}

func (s *shelf) Task(_ context.Context, id string) (*a2apb.Task, mesh.Seq, error) {
	if id != taskID {
		return nil, 0, mesh.TaskNotFound("shelf")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.task(), mesh.Seq(len(s.updates)), nil
}

func (s *shelf) Bare(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error) {
	task, seq, err := s.Task(ctx, id)
	if err == nil {
		task.Artifacts = nil
	}
	return task, seq, err
}

func (s *shelf) Updates(ctx context.Context, _ string, after mesh.Seq) iter.Seq2[a2a.Update, error] {
	call, _ := mesh.CallFrom(ctx)
	return func(yield func(a2a.Update, error) bool) {
		for {
			s.mu.Lock()
			updates, changed, cut := s.updates[after:], s.changed, s.cut
			over := mesh.Terminal(s.task().Status.State)
			s.mu.Unlock()
			for _, u := range updates {
				after++
				if call.Extended() {
					u = proto.CloneOf(u)
					if su := u.GetStatusUpdate(); su != nil {
						su.Metadata = a2a.SetSeq(su.Metadata, after)
					}
				}
				if !yield(a2a.Update{Seq: after, Response: u}, nil) {
					return
				}
				if state, ok := a2a.StateOf(u); ok && mesh.Terminal(state) {
					return
				}
			}
			if len(updates) > 0 {
				continue
			}
			if cut || over {
				return
			}
			select {
			case s.follow <- struct{}{}:
			default:
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(a2a.Update{}, ctx.Err())
				return
			}
		}
	}
}

func (s *shelf) Cancel(context.Context, *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mesh.Terminal(s.task().Status.State) {
		return nil, a2a.NotCancelable("shelf")
	}
	s.updates = append(s.updates, status(a2apb.TaskState_TASK_STATE_CANCELED))
	return s.task(), nil
}

func status(state mesh.TaskState) *a2apb.StreamResponse {
	return a2a.StatusResponse(&a2apb.TaskStatusUpdateEvent{
		TaskId: taskID, ContextId: thread, Status: &a2apb.TaskStatus{State: state},
	})
}

func piece(text string) *a2apb.StreamResponse {
	return a2a.ArtifactResponse(&a2apb.TaskArtifactUpdateEvent{
		TaskId: taskID, ContextId: thread,
		Artifact: &a2apb.Artifact{ArtifactId: "response", Parts: []*a2apb.Part{a2a.TextPart(text)}},
	})
}

type anyone struct{}

func (anyone) Authenticate(_ context.Context, c rpc.Credentials) (mesh.Principal, error) {
	return mesh.Principal{Tenant: "acme", User: "alice"}, nil
}

// serve returns a client of an A2A server over s.
func serve(t *testing.T, s a2a.Service, opts ...a2a.Option) a2apb.A2AServiceClient {
	t.Helper()
	return serveTo(t, s, rpc.DialOptions{}, opts...)
}

// serveTo is serve for a client with the choices.
func serveTo(t *testing.T, s a2a.Service, o rpc.DialOptions, opts ...a2a.Option) a2apb.A2AServiceClient {
	t.Helper()
	l := rpctest.Listen(t)
	srv := rpc.NewServer(rpc.Options{Auth: anyone{}})
	a2apb.RegisterA2AServiceServer(srv, a2a.NewServer(s, opts...))
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	conn, err := rpc.Dial(l.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
		serving.Wait()
	})
	return a2apb.NewA2AServiceClient(conn)
}

func hello() *a2apb.SendMessageRequest {
	m := a2a.NewMessage(a2apb.Role_ROLE_USER, "hello")
	m.ContextId = thread
	return &a2apb.SendMessageRequest{Message: m}
}

type receiver interface {
	Recv() (*a2apb.StreamResponse, error)
}

// states receives until the stream ends and tells what came: "task STATE",
// "STATE", or "text TEXT".
func states(t *testing.T, stream receiver) ([]string, error) {
	t.Helper()
	var out []string
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		state, _ := a2a.StateOf(r)
		name := strings.TrimPrefix(state.String(), "TASK_STATE_")
		switch {
		case r.GetTask() != nil:
			out = append(out, "task "+name)
		case r.GetStatusUpdate() != nil:
			out = append(out, name)
		default:
			out = append(out, "text "+a2a.ArtifactText(r.GetArtifactUpdate().GetArtifact()))
		}
	}
}

func errorOf(t *testing.T, err error) *mesh.Error {
	t.Helper()
	var e *mesh.Error
	if !errors.As(rpc.FromStatus(err), &e) {
		t.Fatalf("error is %v, want a *mesh.Error", err)
	}
	return e
}
