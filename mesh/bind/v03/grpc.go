package v03

import (
	"context"
	"errors"
	"slices"
	"strings"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// A CardFunc returns the agent card as the tenant sees it, shared and
// read-only. It is called concurrently.
type CardFunc func(ctx context.Context, tenant mesh.TenantID) (*a2apb.AgentCard, error)

// server implements a2a.v1 by calls of the v1.0 server in the same process.
type server struct {
	legacypb.UnimplementedA2AServiceServer
	inner a2apb.A2AServiceServer
	card  CardFunc
	early bool // see NewServer
}

// NewServer returns an A2A v0.3 server over that of v1.0, for the same gRPC
// server of package rpc. Its errors are *mesh.Error. The card is for callers
// for whom there is no extended one. A message without a configuration is waited for
// unless early is set; in one, the proto cannot tell "blocking" that is absent from no.
func NewServer(inner a2apb.A2AServiceServer, card CardFunc, early bool) legacypb.A2AServiceServer {
	return &server{inner: inner, card: card, early: early}
}

// enter returns the context for the call of the v1.0 server: that of the call
// itself, whose identity stays, with what v0.3 says in its own words.
func enter(ctx context.Context, op string) (context.Context, error) {
	call, ok := mesh.CallFrom(ctx)
	if !ok {
		return nil, mesh.Errorf(mesh.Unknown, op, "the server does not know who is calling")
	}
	if !spoken(call.Version) {
		return nil, legacyError(versionError(op, call.Version))
	}
	call.Version = rpc.Version
	call.PushV03 = true
	md, _ := metadata.FromIncomingContext(ctx)
	extensions := slices.Clone(call.Extensions)
	for _, line := range md[keyLegacyExtensions] {
		for uri := range strings.SplitSeq(line, ",") {
			uri = strings.TrimSpace(uri)
			if uri == "" || slices.Contains(extensions, uri) {
				continue
			}
			if len(uri) > rpc.MaxExtension || len(extensions) == rpc.MaxExtensions {
				return nil, mesh.InvalidField(op, keyLegacyExtensions, "must be at most %d values of at most %d bytes", rpc.MaxExtensions, rpc.MaxExtension)
			}
			extensions = append(extensions, uri)
		}
	}
	call.Extensions = extensions
	if s := grpc.ServerTransportStreamFromContext(ctx); s != nil {
		ctx = grpc.NewContextWithServerTransportStream(ctx, legacyHeaders{s})
	}
	return mesh.WithCall(ctx, call), nil
}

// legacyHeaders gives the header for extensions the name that it has in v0.3.
type legacyHeaders struct{ grpc.ServerTransportStream }

func (h legacyHeaders) SetHeader(md metadata.MD) error {
	return h.ServerTransportStream.SetHeader(legacyHeader(md))
}

func (h legacyHeaders) SendHeader(md metadata.MD) error {
	return h.ServerTransportStream.SendHeader(legacyHeader(md))
}

func legacyHeader(md metadata.MD) metadata.MD {
	values := md[rpc.KeyExtensions]
	if len(values) == 0 {
		return md
	}
	md = md.Copy()
	delete(md, rpc.KeyExtensions)
	md[keyLegacyExtensions] = values
	return md
}

// legacyError gives the errors of A2A the gRPC codes that they have in v0.3,
// by which alone its clients tell them apart.
func legacyError(err error) error {
	var e *mesh.Error
	if !errors.As(err, &e) {
		return err
	}
	code := e.Code
	switch e.Reason {
	case "UNSUPPORTED_OPERATION", "PUSH_NOTIFICATION_NOT_SUPPORTED", "EXTENSION_SUPPORT_REQUIRED", "VERSION_NOT_SUPPORTED":
		code = mesh.Unsupported
	case "EXTENDED_AGENT_CARD_NOT_CONFIGURED":
		code = mesh.NotFound
	}
	if code == e.Code {
		return err
	}
	out := *e
	out.Code, out.Err = code, err
	return &out
}

// unary calls a unary method of the v1.0 server and translates both ways.
func unary[In, Out, Legacy any](ctx context.Context, op string, in In, bad error,
	call func(context.Context, In) (Out, error), translate func(Out) Legacy) (Legacy, error) {
	var none Legacy
	ctx, err := enter(ctx, op)
	if err != nil {
		return none, err
	}
	if bad != nil {
		return none, bad
	}
	out, err := call(ctx, in)
	if err != nil {
		return none, legacyError(err)
	}
	return translate(out), nil
}

func (s *server) SendMessage(ctx context.Context, r *legacypb.SendMessageRequest) (*legacypb.SendMessageResponse, error) {
	return unary(ctx, "v03.SendMessage", fromSend(r, s.early), nil, s.inner.SendMessage, toSendResponse)
}

func (s *server) SendStreamingMessage(r *legacypb.SendMessageRequest, stream grpc.ServerStreamingServer[legacypb.StreamResponse]) error {
	return relay("v03.SendStreamingMessage", fromSend(r, s.early), nil, stream, s.inner.SendStreamingMessage)
}

func (s *server) TaskSubscription(r *legacypb.TaskSubscriptionRequest, stream grpc.ServerStreamingServer[legacypb.StreamResponse]) error {
	const op = "v03.TaskSubscription"
	task, _, err := fromName(op, "name", r.GetName())
	return relay(op, &a2apb.SubscribeToTaskRequest{Id: task}, err, stream, s.inner.SubscribeToTask)
}

func (s *server) GetTask(ctx context.Context, r *legacypb.GetTaskRequest) (*legacypb.Task, error) {
	const op = "v03.GetTask"
	task, _, err := fromName(op, "name", r.GetName())
	in := &a2apb.GetTaskRequest{Id: task, HistoryLength: fromLength(r.GetHistoryLength())}
	return unary(ctx, op, in, err, s.inner.GetTask, toTask)
}

func (s *server) ListTasks(ctx context.Context, r *legacypb.ListTasksRequest) (*legacypb.ListTasksResponse, error) {
	return unary(ctx, "v03.ListTasks", fromList(r), nil, s.inner.ListTasks, toList)
}

func (s *server) CancelTask(ctx context.Context, r *legacypb.CancelTaskRequest) (*legacypb.Task, error) {
	const op = "v03.CancelTask"
	task, _, err := fromName(op, "name", r.GetName())
	return unary(ctx, op, &a2apb.CancelTaskRequest{Id: task}, err, s.inner.CancelTask, toTask)
}

func (s *server) CreateTaskPushNotificationConfig(ctx context.Context, r *legacypb.CreateTaskPushNotificationConfigRequest) (*legacypb.TaskPushNotificationConfig, error) {
	const op = "v03.CreateTaskPushNotificationConfig"
	in, err := fromCreatePush(op, r)
	return unary(ctx, op, in, err, s.inner.CreateTaskPushNotificationConfig, toPush)
}

func (s *server) GetTaskPushNotificationConfig(ctx context.Context, r *legacypb.GetTaskPushNotificationConfigRequest) (*legacypb.TaskPushNotificationConfig, error) {
	const op = "v03.GetTaskPushNotificationConfig"
	task, id, err := fromName(op, "name", r.GetName())
	in := &a2apb.GetTaskPushNotificationConfigRequest{TaskId: task, Id: id}
	return unary(ctx, op, in, err, s.inner.GetTaskPushNotificationConfig, toPush)
}

func (s *server) ListTaskPushNotificationConfig(ctx context.Context, r *legacypb.ListTaskPushNotificationConfigRequest) (*legacypb.ListTaskPushNotificationConfigResponse, error) {
	const op = "v03.ListTaskPushNotificationConfig"
	task, _, err := fromName(op, "parent", r.GetParent())
	in := &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: task, PageSize: r.GetPageSize(), PageToken: r.GetPageToken()}
	return unary(ctx, op, in, err, s.inner.ListTaskPushNotificationConfigs, toPushList)
}

func (s *server) DeleteTaskPushNotificationConfig(ctx context.Context, r *legacypb.DeleteTaskPushNotificationConfigRequest) (*emptypb.Empty, error) {
	const op = "v03.DeleteTaskPushNotificationConfig"
	task, id, err := fromName(op, "name", r.GetName())
	in := &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: task, Id: id}
	return unary(ctx, op, in, err, s.inner.DeleteTaskPushNotificationConfig, func(e *emptypb.Empty) *emptypb.Empty { return e })
}

// GetAgentCard returns the extended card, or the one for everybody to callers
// for whom there is no other.
func (s *server) GetAgentCard(ctx context.Context, _ *legacypb.GetAgentCardRequest) (*legacypb.AgentCard, error) {
	const op = "v03.GetAgentCard"
	ctx, err := enter(ctx, op)
	if err != nil {
		return nil, err
	}
	card, err := s.inner.GetExtendedAgentCard(ctx, &a2apb.GetExtendedAgentCardRequest{})
	if mesh.IsCode(err, mesh.Precondition) {
		call, _ := mesh.CallFrom(ctx)
		card, err = s.card(ctx, call.Principal.Tenant)
	}
	if err != nil {
		return nil, legacyError(mesh.Wrap(op, err))
	}
	out, err := toCard(card)
	if err != nil {
		return nil, mesh.Errorf(mesh.Unknown, op, "the agent card cannot be shown in A2A 0.3: %w", err)
	}
	return out, nil
}

// relay calls a streaming method of the v1.0 server, until the event that is
// final in v0.3.
func relay[In any](op string, in In, bad error, stream grpc.ServerStreamingServer[legacypb.StreamResponse],
	call func(In, grpc.ServerStreamingServer[a2apb.StreamResponse]) error) error {
	ctx, err := enter(stream.Context(), op)
	if err != nil {
		return err
	}
	if bad != nil {
		return bad
	}
	out := &translator{ServerStream: stream, ctx: ctx, out: stream}
	err = call(in, out)
	if out.turn.over {
		return nil
	}
	if err != nil {
		return legacyError(err)
	}
	if last := out.turn.ending(); last != nil {
		return mesh.Wrap(op, stream.Send(toEvent(last)))
	}
	return nil
}

// errOver ends a stream of the v1.0 server that is over in v0.3.
var errOver = errors.New("v03: the stream is over")

// translator is a stream of v1.0 that goes out in v0.3.
type translator struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // where gRPC wants it
	out  grpc.ServerStreamingServer[legacypb.StreamResponse]
	turn turn
}

func (t *translator) Context() context.Context { return t.ctx }

func (t *translator) SetHeader(md metadata.MD) error {
	return t.ServerStream.SetHeader(legacyHeader(md))
}

func (t *translator) SendHeader(md metadata.MD) error {
	return t.ServerStream.SendHeader(legacyHeader(md))
}

func (t *translator) Send(r *a2apb.StreamResponse) error {
	if t.turn.over {
		return errOver
	}
	if err := t.out.Send(toEvent(r)); err != nil {
		return err
	}
	if t.turn.saw(r); t.turn.over {
		return errOver
	}
	return nil
}
