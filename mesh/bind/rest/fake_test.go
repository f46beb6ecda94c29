package rest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

const (
	threadID  = "550e8400-e29b-41d4-a716-446655440000"
	execution = "550e8400e29b41d4a716446655440000-0123456789abcdef"
)

// node is a small mesh: one agent that echoes, threads of numbered events, and
// state in memory. The text of a message tells it to misbehave.
type node struct {
	a2apb.UnimplementedA2AServiceServer
	meshv1.UnimplementedRegistryServiceServer
	meshv1.UnimplementedThreadServiceServer
	meshv1.UnimplementedHandoffServiceServer
	meshv1.UnimplementedExecutionServiceServer
	meshv1.UnimplementedSkillServiceServer
	meshv1.UnimplementedStateServiceServer
	meshv1.UnimplementedAccessServiceServer
	meshv1.UnimplementedAuditServiceServer
	meshv1.UnimplementedNodeServiceServer
	meshv1.UnimplementedIdentityServiceServer
	meshv1.UnimplementedBlobServiceServer

	mu      sync.Mutex
	calls   map[string]metadata.MD // by method, without the service's package
	state   map[string]*meshv1.Value
	ended   chan error    // how "wait" and follow ended for the service
	release chan struct{} // lets "hold" go on
	stop    func()        // ends the server; calling it again is harmless
}

// call returns the metadata of the last call of the method.
func (n *node) call(method string) (metadata.MD, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	md, ok := n.calls[method]
	return md, ok
}

func startNode(tb testing.TB) (*node, *rpc.Server) {
	tb.Helper()
	n := &node{
		calls:   map[string]metadata.MD{},
		state:   map[string]*meshv1.Value{},
		ended:   make(chan error, 16),
		release: make(chan struct{}, 16),
	}
	s := rpc.NewServer(rpc.Options{Auth: n})
	n.stop = s.Stop
	a2apb.RegisterA2AServiceServer(s, n)
	meshv1.RegisterRegistryServiceServer(s, n)
	meshv1.RegisterThreadServiceServer(s, n)
	meshv1.RegisterHandoffServiceServer(s, n)
	meshv1.RegisterExecutionServiceServer(s, n)
	meshv1.RegisterSkillServiceServer(s, n)
	meshv1.RegisterStateServiceServer(s, n)
	meshv1.RegisterAccessServiceServer(s, n)
	meshv1.RegisterAuditServiceServer(s, n)
	meshv1.RegisterNodeServiceServer(s, n)
	meshv1.RegisterIdentityServiceServer(s, n)
	meshv1.RegisterBlobServiceServer(s, n)
	tb.Cleanup(s.Stop)
	return n, s
}

// Authenticate believes every caller and notes the metadata of the call.
func (n *node) Authenticate(ctx context.Context, c rpc.Credentials) (mesh.Principal, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.Method != "" { // else somebody asks who it is
		n.calls[c.Method[strings.LastIndexByte(c.Method, '/')+1:]] = md
	}
	p := mesh.Principal{Tenant: c.Tenant, User: c.User}
	if c.Grant != "" {
		p.Grant = &mesh.Grant{Tenant: c.Tenant, Thread: c.Thread, Execution: c.Execution, Expires: time.Now().Add(time.Hour).Unix()}
	}
	return p, nil
}

// serveNode serves until s is stopped, which in a short test is before it began.
func serveNode(tb testing.TB, s *rpc.Server, l net.Listener) {
	if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		tb.Errorf("Serve: %v", err)
	}
}

func failure(c codes.Code, msg string, details ...protoadapt.MessageV1) error {
	st, err := status.New(c, msg).WithDetails(details...)
	if err != nil {
		return err
	}
	return st.Err()
}

func taskNotFound() error {
	return failure(codes.NotFound, "Task not found; check the task id",
		&errdetails.ErrorInfo{Reason: "TASK_NOT_FOUND", Domain: "a2a-protocol.org"})
}

// text returns what the message says, and refuses messages as the edge does.
func text(r *a2apb.SendMessageRequest) (string, error) {
	if len(r.GetMessage().GetParts()) == 0 {
		return "", failure(codes.InvalidArgument, "message.parts: must not be empty",
			&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
				{Field: "message.parts", Description: "must not be empty"}}})
	}
	said := r.GetMessage().GetParts()[0].GetText()
	switch said {
	case "who":
		return "", failure(codes.Unauthenticated, "say who you are")
	case "busy":
		return "", failure(codes.ResourceExhausted, "too many requests; wait a little",
			&errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)})
	case "down":
		return "", failure(codes.Unavailable, "try again",
			&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
	}
	return said, nil
}

func echo(r *a2apb.SendMessageRequest, said string) *a2apb.Task {
	return &a2apb.Task{
		Id:        "task-1",
		ContextId: r.GetMessage().GetContextId(),
		Status:    &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED},
		Artifacts: []*a2apb.Artifact{{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: r.GetTenant() + said}}}}},
	}
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
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: echo(r, said)}}, nil
}

// withSeq is metadata as the edge writes it under our extension.
func withSeq(seq int, more map[string]any) *structpb.Struct {
	ours := map[string]any{"seq": seq}
	for k, v := range more {
		ours[k] = v
	}
	s, err := structpb.NewStruct(map[string]any{mesh.ExtensionURI: ours})
	if err != nil {
		panic(err)
	}
	return s
}

func taskEvent(seq int) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{
		Id: "task-1", Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_WORKING}, Metadata: withSeq(seq, nil)}}}
}

func chunkEvent(seq int, said string) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
		TaskId: "task-1", Append: seq > 2, Metadata: withSeq(seq, nil),
		Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: said}}}}}}}
}

func statusEvent(seq int, state a2apb.TaskState, more map[string]any) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: "task-1", Status: &a2apb.TaskStatus{State: state}, Metadata: withSeq(seq, more)}}}
}

// story is the whole of task-1: five events, with a handoff in the fourth.
func story(said string) []*a2apb.StreamResponse {
	return []*a2apb.StreamResponse{
		taskEvent(1),
		chunkEvent(2, said),
		chunkEvent(3, said),
		statusEvent(4, a2apb.TaskState_TASK_STATE_WORKING, map[string]any{"to": "planner"}),
		statusEvent(5, a2apb.TaskState_TASK_STATE_COMPLETED, nil),
	}
}

func (n *node) SendStreamingMessage(r *a2apb.SendMessageRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	said, err := text(r)
	if err != nil {
		return err
	}
	var header metadata.MD
	if md, _ := metadata.FromIncomingContext(s.Context()); len(md.Get("a2a-extensions")) > 0 {
		header = metadata.Pairs("a2a-extensions", md.Get("a2a-extensions")[0], "secret", "inside")
	}
	if said == "nothing" {
		return nil
	}
	if err := s.SendHeader(header); err != nil {
		return err
	}
	if many, ok := strings.CutPrefix(said, "many "); ok {
		return sendMany(many, s)
	}
	events := story(said)
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
	case "shapeless":
		events[1] = statusEvent(2, a2apb.TaskState_TASK_STATE_WORKING, map[string]any{"x": math.NaN()})
	case "break":
		if err := s.Send(events[0]); err != nil {
			return err
		}
		return failure(codes.Internal, "internal error")
	}
	for _, e := range events {
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return nil
}

func sendMany(count string, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for i := range n {
		if err := s.Send(chunkEvent(i+1, "sixty bytes of text, which is about what a model says at once")); err != nil {
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
	for _, e := range story("again")[after:] {
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) GetTask(_ context.Context, r *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	if r.GetId() != "task-1" {
		return nil, taskNotFound()
	}
	return &a2apb.Task{Id: r.GetId(), Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_WORKING}}, nil
}

func (n *node) ListTasks(_ context.Context, r *a2apb.ListTasksRequest) (*a2apb.ListTasksResponse, error) {
	if r.GetContextId() == "" {
		return &a2apb.ListTasksResponse{}, nil
	}
	return &a2apb.ListTasksResponse{Tasks: []*a2apb.Task{{Id: "task-1"}}, PageSize: r.GetPageSize(), TotalSize: 1}, nil
}

func (n *node) CancelTask(_ context.Context, r *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	if r.GetId() == "done" {
		return nil, failure(codes.FailedPrecondition, "the task has ended",
			&errdetails.ErrorInfo{Reason: "TASK_NOT_CANCELABLE", Domain: "a2a-protocol.org"})
	}
	return &a2apb.Task{Id: r.GetId(), Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_CANCELED}}, nil
}

func (n *node) CreateTaskPushNotificationConfig(_ context.Context, r *a2apb.TaskPushNotificationConfig) (*a2apb.TaskPushNotificationConfig, error) {
	return r, nil
}

func (n *node) GetTaskPushNotificationConfig(_ context.Context, r *a2apb.GetTaskPushNotificationConfigRequest) (*a2apb.TaskPushNotificationConfig, error) {
	return &a2apb.TaskPushNotificationConfig{Id: r.GetId(), TaskId: r.GetTaskId()}, nil
}

func (n *node) ListTaskPushNotificationConfigs(context.Context, *a2apb.ListTaskPushNotificationConfigsRequest) (*a2apb.ListTaskPushNotificationConfigsResponse, error) {
	return &a2apb.ListTaskPushNotificationConfigsResponse{}, nil
}

func (n *node) DeleteTaskPushNotificationConfig(context.Context, *a2apb.DeleteTaskPushNotificationConfigRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

func (n *node) GetExtendedAgentCard(context.Context, *a2apb.GetExtendedAgentCardRequest) (*a2apb.AgentCard, error) {
	return &a2apb.AgentCard{Name: "extended"}, nil
}

func errThread(id string) error {
	return failure(codes.NotFound, fmt.Sprintf("no thread %s", id))
}
