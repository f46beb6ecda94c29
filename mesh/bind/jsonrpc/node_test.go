package jsonrpc_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// node is an agent that echoes. The text of a message, or the id of a task,
// tells it to misbehave.
type node struct {
	a2apb.UnimplementedA2AServiceServer

	mu      sync.Mutex
	calls   map[string]metadata.MD // by method's name
	ended   chan error             // how "wait" ended for the service
	release chan struct{}          // lets "hold" go on
}

func (n *node) call(method string) metadata.MD {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[method]
}

// Authenticate believes every caller and notes the metadata of the call.
func (n *node) Authenticate(ctx context.Context, c rpc.Credentials) (mesh.Principal, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[c.Method[strings.LastIndexByte(c.Method, '/')+1:]] = md
	return mesh.Principal{Tenant: c.Tenant, User: c.User}, nil
}

func startNode(tb testing.TB) (*node, *rpc.Server) {
	tb.Helper()
	n := &node{calls: map[string]metadata.MD{}, ended: make(chan error, 16), release: make(chan struct{}, 16)}
	s := rpc.NewServer(rpc.Options{Auth: n})
	a2apb.RegisterA2AServiceServer(s, n)
	tb.Cleanup(s.Stop)
	return n, s
}

func failure(c codes.Code, msg string, details ...protoadapt.MessageV1) error {
	st, err := status.New(c, msg).WithDetails(details...)
	if err != nil {
		return err
	}
	return st.Err()
}

func reason(name string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: name, Domain: "a2a-protocol.org"}
}

func taskNotFound() error {
	return failure(codes.NotFound, "Task not found; check the task id", reason("TASK_NOT_FOUND"))
}

// text returns what the message says, or the failure that it asks for.
func text(r *a2apb.SendMessageRequest) (string, error) {
	if len(r.GetMessage().GetParts()) == 0 {
		return "", failure(codes.InvalidArgument, "message.parts: is empty", &errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "message.parts", Description: "is empty"}}})
	}
	said := r.GetMessage().GetParts()[0].GetText()
	switch said {
	case "who":
		return "", failure(codes.Unauthenticated, "say who you are")
	case "forbidden":
		return "", failure(codes.PermissionDenied, "not for you")
	case "unknown task":
		return "", taskNotFound()
	}
	return said, nil
}

func (n *node) SendMessage(ctx context.Context, r *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	said, err := text(r)
	if err != nil {
		return nil, err
	}
	md, _ := metadata.FromIncomingContext(ctx)
	if ext := md.Get("a2a-extensions"); len(ext) > 0 {
		if err := grpc.SetHeader(ctx, metadata.Pairs("a2a-extensions", ext[0], "secret", "inside")); err != nil {
			return nil, err
		}
	}
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: &a2apb.Task{
		Id: "task-1", ContextId: r.GetMessage().GetContextId(),
		Status:    &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED},
		Artifacts: []*a2apb.Artifact{{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: said}}}}},
	}}}, nil
}

// withSeq is metadata as the edge writes it under our extension.
func withSeq(seq int) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(
		&structpb.Struct{Fields: map[string]*structpb.Value{"seq": structpb.NewNumberValue(float64(seq))}})}}
}

func chunk(seq int, said string) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
		TaskId: "task-1", ContextId: "c", Append: seq > 2, Metadata: withSeq(seq),
		Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: said}}}}}}}
}

// story is the whole of task-1: four events.
func story(said string) []*a2apb.StreamResponse {
	return []*a2apb.StreamResponse{
		{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{Id: "task-1", ContextId: "c",
			Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_WORKING}, Metadata: withSeq(1)}}},
		chunk(2, said),
		chunk(3, said),
		{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{TaskId: "task-1", ContextId: "c",
			Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED}, Metadata: withSeq(4)}}},
	}
}

func (n *node) SendStreamingMessage(r *a2apb.SendMessageRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	said, err := text(r)
	if err != nil {
		return err
	}
	var header metadata.MD
	if md, _ := metadata.FromIncomingContext(s.Context()); len(md.Get("a2a-extensions")) > 0 {
		header = metadata.Pairs("a2a-extensions", md.Get("a2a-extensions")[0])
	}
	if err := s.SendHeader(header); err != nil {
		return err
	}
	events := story(said)
	if many, ok := strings.CutPrefix(said, "many "); ok {
		count, err := strconv.Atoi(many)
		if err != nil {
			return err
		}
		for seq := len(events) + 1; seq <= count; seq++ {
			events = append(events, chunk(seq, "as much text as a model says at once"))
		}
	}
	switch said {
	case "wait":
		<-s.Context().Done()
		n.ended <- s.Context().Err()
		return s.Context().Err()
	case "hold":
		if err := s.Send(events[0]); err != nil {
			return err
		}
		<-n.release
		events = events[1:]
	case "break":
		if err := s.Send(events[0]); err != nil {
			return err
		}
		return failure(codes.Internal, "internal error")
	}
	return send(s, events)
}

func send(s grpc.ServerStreamingServer[a2apb.StreamResponse], events []*a2apb.StreamResponse) error {
	for _, e := range events {
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) SubscribeToTask(r *a2apb.SubscribeToTaskRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	if r.GetId() != "task-1" {
		return taskNotFound()
	}
	if err := s.SendHeader(nil); err != nil {
		return err
	}
	md, _ := metadata.FromIncomingContext(s.Context())
	after := 0
	if v := md.Get("after-seq"); len(v) > 0 {
		var err error
		if after, err = strconv.Atoi(v[0]); err != nil {
			return err
		}
	}
	return send(s, story("again")[after:])
}

func (n *node) GetTask(_ context.Context, r *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	if r.GetId() != "task-1" {
		return nil, taskNotFound()
	}
	return &a2apb.Task{Id: r.GetId(), ContextId: "c", Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_WORKING}}, nil
}

func (n *node) ListTasks(context.Context, *a2apb.ListTasksRequest) (*a2apb.ListTasksResponse, error) {
	return &a2apb.ListTasksResponse{}, nil
}

func (n *node) CancelTask(_ context.Context, r *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	if r.GetId() == "done" {
		return nil, failure(codes.FailedPrecondition, "the task has ended", reason("TASK_NOT_CANCELABLE"))
	}
	return &a2apb.Task{Id: r.GetId(), ContextId: "c", Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_CANCELED}}, nil
}

func (n *node) CreateTaskPushNotificationConfig(_ context.Context, r *a2apb.TaskPushNotificationConfig) (*a2apb.TaskPushNotificationConfig, error) {
	return r, nil
}

func (n *node) GetTaskPushNotificationConfig(_ context.Context, r *a2apb.GetTaskPushNotificationConfigRequest) (*a2apb.TaskPushNotificationConfig, error) {
	return &a2apb.TaskPushNotificationConfig{Id: r.GetId(), TaskId: r.GetTaskId()}, nil
}

func (n *node) ListTaskPushNotificationConfigs(_ context.Context, r *a2apb.ListTaskPushNotificationConfigsRequest) (*a2apb.ListTaskPushNotificationConfigsResponse, error) {
	return &a2apb.ListTaskPushNotificationConfigsResponse{Configs: []*a2apb.TaskPushNotificationConfig{{Id: "p", TaskId: r.GetTaskId()}}}, nil
}

func (n *node) DeleteTaskPushNotificationConfig(context.Context, *a2apb.DeleteTaskPushNotificationConfigRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

func (n *node) GetExtendedAgentCard(context.Context, *a2apb.GetExtendedAgentCardRequest) (*a2apb.AgentCard, error) {
	return &a2apb.AgentCard{Name: "extended"}, nil
}
