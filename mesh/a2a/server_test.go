package a2a_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"strings"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/rpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
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
	updates []*a2apb.StreamResponse
	changed chan struct{}
	cut     bool // Updates end although the task does not
	sent    int
}

func newShelf() *shelf {
	return &shelf{
		card:    &a2apb.AgentCard{Name: "shelf", Capabilities: &a2apb.AgentCapabilities{Streaming: proto.Bool(true)}},
		start:   working,
		changed: make(chan struct{}),
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
	t := &a2apb.Task{Id: taskID, ContextId: thread, Status: &a2apb.TaskStatus{State: s.start}, History: s.history}
	for _, u := range s.updates {
		if state, ok := a2a.StateOf(u); ok {
			t.Status = &a2apb.TaskStatus{State: state}
		} else {
			t.Artifacts = append(t.Artifacts, u.GetArtifactUpdate().GetArtifact())
		}
	}
	return t
}

func (s *shelf) Card(context.Context) (*a2apb.AgentCard, error) { return s.card, nil }

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

func (s *shelf) Updates(ctx context.Context, _ string, after mesh.Seq) iter.Seq2[a2a.Update, error] {
	call, _ := mesh.CallFrom(ctx)
	return func(yield func(a2a.Update, error) bool) {
		for {
			s.mu.Lock()
			updates, changed, cut := s.updates[after:], s.changed, s.cut
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
			s.mu.Lock()
			over := mesh.Terminal(s.task().Status.State)
			s.mu.Unlock()
			if cut || over {
				return
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
	return nil, a2a.NotCancelable("shelf")
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(rpc.Options{Auth: anyone{}})
	a2apb.RegisterA2AServiceServer(srv, a2a.NewServer(s, opts...))
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	conn, err := rpc.Dial(l.Addr().String(), rpc.DialOptions{})
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

func TestARequestThatIsNotValidNamesTheFieldAndNeverReachesTheService(t *testing.T) {
	many := make([]*a2apb.Part, a2a.MaxParts+1)
	for i := range many {
		many[i] = a2a.TextPart("x")
	}
	tests := map[string]struct {
		change func(*a2apb.SendMessageRequest)
		code   mesh.Code
		field  string
		reason string
	}{
		"no message":     {func(r *a2apb.SendMessageRequest) { r.Message = nil }, mesh.Invalid, "message", ""},
		"no message id":  {func(r *a2apb.SendMessageRequest) { r.Message.MessageId = "" }, mesh.Invalid, "message.message_id", ""},
		"message id /":   {func(r *a2apb.SendMessageRequest) { r.Message.MessageId = "a/b" }, mesh.Invalid, "message.message_id", ""},
		"long id":        {func(r *a2apb.SendMessageRequest) { r.Message.MessageId = strings.Repeat("a", 300) }, mesh.Invalid, "message.message_id", ""},
		"task id :":      {func(r *a2apb.SendMessageRequest) { r.Message.TaskId = "a:b" }, mesh.Invalid, "message.task_id", ""},
		"reference id":   {func(r *a2apb.SendMessageRequest) { r.Message.ReferenceTaskIds = []string{"ok", "a/b"} }, mesh.Invalid, "message.reference_task_ids[1]", ""},
		"agent's role":   {func(r *a2apb.SendMessageRequest) { r.Message.Role = a2apb.Role_ROLE_AGENT }, mesh.Invalid, "message.role", ""},
		"no role":        {func(r *a2apb.SendMessageRequest) { r.Message.Role = 0 }, mesh.Invalid, "message.role", ""},
		"no parts":       {func(r *a2apb.SendMessageRequest) { r.Message.Parts = nil }, mesh.Invalid, "message.parts", ""},
		"too many parts": {func(r *a2apb.SendMessageRequest) { r.Message.Parts = many }, mesh.Invalid, "message.parts", ""},
		"hollow part":    {func(r *a2apb.SendMessageRequest) { r.Message.Parts = append(r.Message.Parts, &a2apb.Part{}) }, mesh.Invalid, "message.parts[1]", ""},
		"only blanks": {func(r *a2apb.SendMessageRequest) {
			r.Message.Parts = []*a2apb.Part{a2a.TextPart(""), a2a.TextPart(" \n")}
		}, mesh.Invalid, "message.parts", ""},
		"too long":         {func(r *a2apb.SendMessageRequest) { r.Message.Parts[0] = a2a.TextPart(strings.Repeat("x", 1<<20)) }, mesh.Exhausted, "message", ""},
		"no UUID":          {func(r *a2apb.SendMessageRequest) { r.Message.ContextId = "abc" }, mesh.Invalid, "message.context_id", ""},
		"upper case UUID":  {func(r *a2apb.SendMessageRequest) { r.Message.ContextId = strings.ToUpper(thread) }, mesh.Invalid, "message.context_id", ""},
		"another thread":   {func(r *a2apb.SendMessageRequest) { r.Message.ContextId = thread2 }, mesh.Invalid, "message.context_id", ""},
		"negative history": {func(r *a2apb.SendMessageRequest) { r.Configuration.HistoryLength = proto.Int32(-1) }, mesh.Invalid, "configuration.history_length", ""},
		"push configuration": {func(r *a2apb.SendMessageRequest) {
			r.Configuration.TaskPushNotificationConfig = &a2apb.TaskPushNotificationConfig{}
		}, mesh.Precondition, "", a2a.ReasonPushNotSupported},
		"foreign tenant": {func(r *a2apb.SendMessageRequest) { r.Tenant = "other" }, mesh.NotFound, "thread-id", ""},
	}
	service := newShelf()
	client := serve(t, service)
	ctx := mesh.WithCall(t.Context(), mesh.Call{Thread: thread})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := hello()
			req.Configuration = &a2apb.SendMessageConfiguration{}
			tt.change(req)
			_, unary := client.SendMessage(ctx, req)
			stream, err := client.SendStreamingMessage(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			_, streamed := stream.Recv()
			for _, err := range []error{unary, streamed} {
				e := errorOf(t, err)
				if e.Code != tt.code || e.Field != tt.field || e.Reason != tt.reason || e.Detail == "" {
					t.Errorf("got %v (%s) %q, want %v (%s) %q with a detail", e.Code, e.Field, e.Reason, tt.code, tt.field, tt.reason)
				}
			}
		})
	}
	if service.sent != 0 {
		t.Errorf("%d of the messages reached the service", service.sent)
	}
}

func TestAMessageIsAcceptedInAnyKindOfPart(t *testing.T) {
	client := serve(t, newShelf())
	for name, part := range map[string]*a2apb.Part{
		"text": a2a.TextPart("hi"),
		"raw":  {Content: &a2apb.Part_Raw{Raw: []byte{0}}},
		"url":  {Content: &a2apb.Part_Url{Url: "https://example.com/x"}},
		"null": {Content: &a2apb.Part_Data{}},
	} {
		req := hello()
		req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
		req.Message.Parts = []*a2apb.Part{part}
		if _, err := client.SendMessage(t.Context(), req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyVersion1IsSpoken(t *testing.T) {
	service := a2a.NewServer(newShelf())
	for version, ok := range map[string]bool{"": true, "1.0": true, "1.7": true, "1": true, "0.3": false, "2.0": false, "10.0": false} {
		ctx := mesh.WithCall(t.Context(), mesh.Call{Version: version})
		_, err := service.GetTask(ctx, &a2apb.GetTaskRequest{Id: ""})
		e := errorOf(t, err)
		if refused := e.Reason == a2a.ReasonVersionNotSupported; refused == ok {
			t.Errorf("version %q: got %v", version, err)
		}
	}
}

func TestOperationsThatAreNotOfferedSaySo(t *testing.T) {
	client := serve(t, newShelf())
	ctx := t.Context()
	calls := map[string]struct {
		call   func() error
		reason string
	}{
		"list": {func() error { _, err := client.ListTasks(ctx, &a2apb.ListTasksRequest{}); return err }, a2a.ReasonUnsupported},
		"extended": {func() error {
			_, err := client.GetExtendedAgentCard(ctx, &a2apb.GetExtendedAgentCardRequest{})
			return err
		}, a2a.ReasonUnsupported},
		"create push": {func() error {
			_, err := client.CreateTaskPushNotificationConfig(ctx, &a2apb.TaskPushNotificationConfig{})
			return err
		}, a2a.ReasonPushNotSupported},
		"get push": {func() error {
			_, err := client.GetTaskPushNotificationConfig(ctx, &a2apb.GetTaskPushNotificationConfigRequest{})
			return err
		}, a2a.ReasonPushNotSupported},
		"list push": {func() error {
			_, err := client.ListTaskPushNotificationConfigs(ctx, &a2apb.ListTaskPushNotificationConfigsRequest{})
			return err
		}, a2a.ReasonPushNotSupported},
		"delete push": {func() error {
			_, err := client.DeleteTaskPushNotificationConfig(ctx, &a2apb.DeleteTaskPushNotificationConfigRequest{})
			return err
		}, a2a.ReasonPushNotSupported},
		"cancel a task that is over": {func() error { _, err := client.CancelTask(ctx, &a2apb.CancelTaskRequest{Id: taskID}); return err }, a2a.ReasonTaskNotCancelable},
	}
	for name, tt := range calls {
		if e := errorOf(t, tt.call()); e.Code != mesh.Precondition || e.Reason != tt.reason || e.Detail == "" {
			t.Errorf("%s: got %v %q, want a precondition %q", name, e, e.Reason, tt.reason)
		}
	}
}

func TestAnAgentThatDoesNotStreamRefusesStreams(t *testing.T) {
	service := newShelf()
	service.card = &a2apb.AgentCard{}
	client := serve(t, service)
	stream, err := client.SendStreamingMessage(t.Context(), hello())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); errorOf(t, err).Reason != a2a.ReasonUnsupported {
		t.Errorf("got %v", err)
	}
	if service.sent != 0 {
		t.Error("the message reached the service")
	}
}

func TestSendMessageWaitsUntilTheTaskRests(t *testing.T) {
	for _, last := range []mesh.TaskState{completed, input, authorize} {
		service := newShelf()
		client := serve(t, service)
		var writing sync.WaitGroup
		writing.Go(func() { service.write(piece("one"), status(working), piece("two"), status(last)) })
		res, err := client.SendMessage(t.Context(), hello())
		writing.Wait()
		if err != nil {
			t.Fatal(err)
		}
		task := res.GetTask()
		if task.GetStatus().GetState() != last || len(task.GetArtifacts()) != 2 || len(task.GetHistory()) != 1 {
			t.Errorf("got %v, want %v with two artifacts and the message", task, last)
		}
	}
}

func TestSendMessageReturnsAtOnceWhenAskedTo(t *testing.T) {
	client := serve(t, newShelf())
	req := hello()
	req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	res, err := client.SendMessage(t.Context(), req)
	if err != nil || res.GetTask().GetStatus().GetState() != working {
		t.Errorf("got %v, %v; want a task at work", res, err)
	}
}

func TestHistoryHasTheMostRecentMessages(t *testing.T) {
	service := newShelf()
	for _, text := range []string{"a", "b", "c"} {
		service.history = append(service.history, a2a.NewMessage(a2apb.Role_ROLE_USER, text))
	}
	client := serve(t, service)
	for want, length := range map[string]*int32{"a b c": nil, "": proto.Int32(0), "b c": proto.Int32(2), "a b c ": proto.Int32(9)} {
		task, err := client.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: taskID, HistoryLength: length})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range task.GetHistory() {
			got = append(got, a2a.TextOf(m))
		}
		if strings.Join(got, " ") != strings.TrimSpace(want) {
			t.Errorf("history_length %v: got %q, want %q", length, got, want)
		}
	}
	if len(service.history) != 3 {
		t.Error("the service's own task was changed")
	}
}

func TestAStreamBeginsWithTheTaskAndEndsWithTheTurn(t *testing.T) {
	tests := map[string]struct {
		updates []*a2apb.StreamResponse
		want    []string
	}{
		"terminal": {
			[]*a2apb.StreamResponse{piece("hi"), status(completed)},
			[]string{"task WORKING", "text hi", "COMPLETED"},
		},
		"the user's turn": {
			[]*a2apb.StreamResponse{status(input), status(working), status(completed)},
			[]string{"task WORKING", "INPUT_REQUIRED"},
		},
		"credentials come by another way": {
			[]*a2apb.StreamResponse{status(authorize), status(working), status(completed)},
			[]string{"task WORKING", "AUTH_REQUIRED", "WORKING", "COMPLETED"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			service := newShelf()
			client := serve(t, service)
			stream, err := client.SendStreamingMessage(t.Context(), hello())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Header(); err != nil {
				t.Fatal(err)
			}
			service.write(tt.updates...)
			got, err := states(t, stream)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAStreamThatItsServerCutsIsAnError(t *testing.T) {
	service := newShelf()
	client := serve(t, service)
	stream, err := client.SendStreamingMessage(t.Context(), hello())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	service.write(piece("half"))
	service.end()
	if _, err := states(t, stream); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("got %v, want Unavailable", err)
	}
}

func TestSubscribeToTask(t *testing.T) {
	over := []*a2apb.StreamResponse{piece("one"), piece("two"), status(completed)}
	tests := map[string]struct {
		before, then []*a2apb.StreamResponse
		call         mesh.Call
		id           string
		want         []string
		code         mesh.Code
		reason       string
	}{
		"stays open while the user is asked": {
			before: []*a2apb.StreamResponse{piece("one")},
			then:   []*a2apb.StreamResponse{status(input), status(working), piece("two"), status(completed)},
			want:   []string{"task WORKING", "INPUT_REQUIRED", "WORKING", "text two", "COMPLETED"},
		},
		"begins with a task that waits": {
			before: []*a2apb.StreamResponse{status(input)},
			then:   []*a2apb.StreamResponse{status(working), status(completed)},
			want:   []string{"task INPUT_REQUIRED", "WORKING", "COMPLETED"},
		},
		"refuses a task that is over": {before: over, code: mesh.Precondition, reason: a2a.ReasonUnsupported},
		"serves it after a cursor": {
			before: over, call: mesh.Call{AfterSeq: 1, HasCursor: true},
			want: []string{"task COMPLETED", "text two", "COMPLETED"},
		},
		"serves all of it after cursor 0": {
			before: over, call: mesh.Call{HasCursor: true},
			want: []string{"task COMPLETED", "text one", "text two", "COMPLETED"},
		},
		"ends after the last cursor": {
			before: over, call: mesh.Call{AfterSeq: 3, HasCursor: true}, want: []string{"task COMPLETED"},
		},
		"refuses a cursor from the future": {before: over, call: mesh.Call{AfterSeq: 4, HasCursor: true}, code: mesh.Invalid},
		"does not know another task":       {id: "other", code: mesh.NotFound, reason: "TASK_NOT_FOUND"},
		"needs an id":                      {id: "/", code: mesh.Invalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			service := newShelf()
			service.write(tt.before...)
			client := serve(t, service)
			id := tt.id
			if id == "" {
				id = taskID
			}
			stream, err := client.SubscribeToTask(mesh.WithCall(t.Context(), tt.call), &a2apb.SubscribeToTaskRequest{Id: id})
			if err != nil {
				t.Fatal(err)
			}
			if md, err := stream.Header(); err != nil && md != nil {
				t.Fatal(err)
			}
			service.write(tt.then...)
			got, err := states(t, stream)
			if tt.want == nil {
				e := errorOf(t, err)
				if e.Code != tt.code || e.Reason != tt.reason || len(got) > 0 {
					t.Errorf("got %v, %v %q; want %v %q alone", got, e, e.Reason, tt.code, tt.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestATaskAfterACursorHasNeitherArtifactsNorHistory(t *testing.T) {
	service := newShelf()
	service.history = []*a2apb.Message{a2a.NewMessage(a2apb.Role_ROLE_USER, "x")}
	service.write(piece("one"), status(completed))
	client := serve(t, service)
	ctx := mesh.WithCall(t.Context(), mesh.Call{HasCursor: true, AfterSeq: 1, Extensions: []string{mesh.ExtensionURI}})
	stream, err := client.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: taskID})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if seq, ok := a2a.SeqOf(first); !ok || seq != 1 || len(first.GetTask().GetArtifacts())+len(first.GetTask().GetHistory()) != 0 {
		t.Errorf("got %v at %d, want a bare task at the cursor 1", first, seq)
	}
	second, err := stream.Recv()
	if seq, _ := a2a.SeqOf(second); err != nil || seq != 2 {
		t.Errorf("got %v, %v; want the update 2", second, err)
	}
}

func TestTheExtensionIsEchoedAndGivesCursorsOnlyWhenActivated(t *testing.T) {
	for name, extensions := range map[string][]string{"activated": {mesh.ExtensionURI, "urn:other"}, "not": {"urn:other"}} {
		t.Run(name, func(t *testing.T) {
			service := newShelf()
			service.write(piece("one"))
			client := serve(t, service)
			ctx := mesh.WithCall(t.Context(), mesh.Call{Extensions: extensions})
			stream, err := client.SendStreamingMessage(ctx, hello())
			if err != nil {
				t.Fatal(err)
			}
			md, err := stream.Header()
			if err != nil {
				t.Fatal(err)
			}
			service.write(status(completed))
			first, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			seq, ok := a2a.SeqOf(first)
			want := metadata.Pairs(rpc.KeyExtensions, mesh.ExtensionURI).Get(rpc.KeyExtensions)
			if name == "not" {
				want = nil
			}
			if diff := cmp.Diff(want, md.Get(rpc.KeyExtensions)); diff != "" {
				t.Error(diff)
			}
			if ok != (name == "activated") || ok && seq != 1 {
				t.Errorf("the task has the cursor %d, %v", seq, ok)
			}
			if _, err := states(t, stream); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestWhoeverCallsWithoutTheInterceptorsIsRefused(t *testing.T) {
	_, err := a2a.NewServer(newShelf()).GetTask(t.Context(), &a2apb.GetTaskRequest{Id: taskID})
	if !mesh.IsCode(err, mesh.Unknown) || err == nil {
		t.Errorf("got %v, want an internal error", err)
	}
}

func TestTheMessageLimitIsAnOption(t *testing.T) {
	client := serve(t, newShelf(), a2a.WithMaxMessage(10))
	if _, err := client.SendMessage(t.Context(), hello()); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("got %v, want Exhausted", err)
	}
}
