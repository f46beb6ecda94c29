package a2a

import (
	"context"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// An Option changes a default of [NewServer].
type Option func(*server)

// WithStrictVersion takes a request that names no A2A version for one of 0.3,
// as A2A v1.0 §3.6.2 says, and so refuses it. By default it is served: that it
// came over the service of v1.0 says enough.
func WithStrictVersion() Option { return func(s *server) { s.strict = true } }

// server implements the operations of A2A v1.0 over a Service. The embedded
// type answers operations that A2A adds later.
type server struct {
	a2apb.UnimplementedA2AServiceServer
	service Service
	pusher  Pusher                   // nil: push notifications are not offered
	strict  bool                     // see WithStrictVersion
	names   bool                     // see WithContextNames
	whole   func(task string) string // see WithWhole, or nil
}

// NewServer returns an A2A v1.0 server over s, for a gRPC server of package
// rpc. Its errors are *mesh.Error.
func NewServer(s Service, opts ...Option) a2apb.A2AServiceServer {
	srv := &server{service: s}
	for _, opt := range opts {
		opt(srv)
	}
	return srv
}

// SendMessage answers with the task: when it is over or waits for its user, or
// at once if the caller wants that (A2A v1.0 §3.2.2).
func (s *server) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	const op = "a2a.SendMessage"
	call, err := s.admit(ctx, op, req.GetTenant())
	if err != nil {
		return nil, err
	}
	if err := s.checkSend(call, req); err != nil {
		return nil, err
	}
	acc, err := s.send(ctx, req)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if acc.Message != nil {
		if err := grpc.SetHeader(ctx, activated(call)); err != nil {
			return nil, mesh.Wrap(op, err)
		}
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Message{Message: acc.Message}}, nil
	}
	task, cursor := acc.Task, acc.Cursor
	if !req.GetConfiguration().GetReturnImmediately() && !resting(task.GetStatus().GetState()) {
		if task, cursor, err = s.settle(ctx, acc); err != nil {
			return nil, mesh.Wrap(op, err)
		}
	}
	if err := grpc.SetHeader(ctx, activated(call)); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	task = s.present(call, task, cursor, historyOf(req.GetConfiguration()))
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: task}}, nil
}

// settle waits until the task is over or waits for its user.
func (s *server) settle(ctx context.Context, acc *Accepted) (*a2apb.Task, mesh.Seq, error) {
	id := acc.Task.GetId()
	for u, err := range s.service.Updates(ctx, id, acc.Cursor) {
		if err != nil {
			return nil, 0, err
		}
		if state, ok := StateOf(u.Response); ok && resting(state) {
			return s.service.Task(ctx, id)
		}
	}
	return nil, 0, cutOff("a2a.settle")
}

// A beginning is what a stream begins with. It is found out by functions that
// return: what they have on the stack is not kept as long as the stream.
type beginning struct {
	task    *a2apb.Task    // as the caller sees it
	message *a2apb.Message // all that the stream has, in place of a task
	cursor  mesh.Seq
	turn    bool // the stream ends when it is the user's turn to speak
	spent   bool // nothing follows the cursor, as the task is over
}

// SendStreamingMessage streams the task and its updates, until the task is
// over or waits for its user's words. It stays open while the task waits for
// credentials, which come by another way (A2A v1.0 §7.6.1).
func (s *server) SendStreamingMessage(req *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	const op = "a2a.SendStreamingMessage"
	b, err := s.begin(stream.Context(), op, req)
	if err != nil {
		return err
	}
	return s.follow(stream, op, b)
}

func (s *server) begin(ctx context.Context, op string, req *a2apb.SendMessageRequest) (*beginning, error) {
	call, err := s.admitStream(ctx, op, req.GetTenant())
	if err != nil {
		return nil, err
	}
	if err := s.checkSend(call, req); err != nil {
		return nil, err
	}
	acc, err := s.send(ctx, req)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if acc.Message != nil {
		return &beginning{message: acc.Message}, nil
	}
	return &beginning{task: s.present(call, acc.Task, acc.Cursor, historyOf(req.GetConfiguration())), cursor: acc.Cursor, turn: true}, nil
}

// SubscribeToTask streams the task as it stands and its updates from there on,
// until it is over. With a cursor it streams the updates after the cursor, of
// tasks that are over too.
func (s *server) SubscribeToTask(req *a2apb.SubscribeToTaskRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	const op = "a2a.SubscribeToTask"
	b, err := s.subscribe(stream.Context(), op, req)
	if err != nil {
		return err
	}
	return s.follow(stream, op, b)
}

func (s *server) subscribe(ctx context.Context, op string, req *a2apb.SubscribeToTaskRequest) (*beginning, error) {
	call, err := s.admitStream(ctx, op, req.GetTenant())
	if err != nil {
		return nil, err
	}
	if err := checkTaskID(op, req.GetId()); err != nil {
		return nil, err
	}
	read := s.service.Task
	if call.HasCursor {
		read = s.service.Bare
	}
	task, cursor, err := read(ctx, req.GetId())
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	over := mesh.Terminal(task.GetStatus().GetState())
	spent := call.HasCursor && over && call.AfterSeq == cursor
	switch {
	case call.HasCursor && call.AfterSeq > cursor:
		return nil, mesh.InvalidField(op, "after-seq", "is %d, and the task's last update is %d; "+
			"send the last cursor that this task's stream gave", call.AfterSeq, cursor)
	case call.HasCursor:
		bare := copyTask(task, task.Metadata)
		bare.History = nil
		task, cursor = bare, call.AfterSeq
	case over:
		return nil, UnsupportedOperation(op, "The task is over; read it with GetTask, or subscribe with a cursor (after-seq)")
	}
	return &beginning{task: s.present(call, task, cursor, nil), cursor: cursor, spent: spent}, nil
}

// follow sends the task and the updates after the cursor. It ends with the
// terminal update and, if turn is set, when it is the user's turn to speak.
func (s *server) follow(stream grpc.ServerStreamingServer[a2apb.StreamResponse], op string, b *beginning) error {
	if b.message != nil {
		if err := stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Message{Message: b.message}}); err != nil {
			return mesh.Wrap(op, gone(err))
		}
		return nil
	}
	if err := b.send(stream); err != nil {
		return mesh.Wrap(op, gone(err))
	}
	id, state, cursor, turn := b.task.GetId(), b.task.GetStatus().GetState(), b.cursor, b.turn // the task itself is not kept
	if turn && done(state) {
		return nil
	}
	over := mesh.Terminal(state)
	for u, err := range s.service.Updates(stream.Context(), id, cursor) {
		if err != nil {
			return mesh.Wrap(op, err)
		}
		if err := sendUpdate(stream, u); err != nil {
			return mesh.Wrap(op, gone(err))
		}
		next, moved := StateOf(u.Response)
		if !moved {
			continue
		}
		if mesh.Terminal(next) || turn && done(next) {
			return nil
		}
	}
	if over {
		return nil
	}
	return cutOff(op)
}

// sendUpdate sends the update as it is encoded and numbered, to who calls this service.
// A stream of another type is one that changes what is sent, which it does in Send.
func sendUpdate(stream grpc.ServerStreamingServer[a2apb.StreamResponse], u Update) error {
	switch stream.(type) {
	case *grpc.GenericServerStream[a2apb.SendMessageRequest, a2apb.StreamResponse],
		*grpc.GenericServerStream[a2apb.SubscribeToTaskRequest, a2apb.StreamResponse]:
		return stream.SendMsg(&rpc.Encoded{Message: u.Response, Encode: u.Wire, Seq: int64(u.Seq)})
	}
	return stream.Send(u.Response)
}

func (b *beginning) send(stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	call, _ := mesh.CallFrom(stream.Context())
	header := activated(call)
	if b.spent {
		header = metadata.Join(header, metadata.Pairs(rpc.KeyNothingLeft, "1"))
	}
	if err := stream.SendHeader(header); err != nil {
		return err
	}
	return sendUpdate(stream, Update{Seq: b.cursor, Response: TaskResponse(b.task)})
}

// GetTask returns the task with at most as much history as asked for.
func (s *server) GetTask(ctx context.Context, req *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	const op = "a2a.GetTask"
	call, err := s.admit(ctx, op, req.GetTenant())
	if err != nil {
		return nil, err
	}
	if err := checkTaskID(op, req.GetId()); err != nil {
		return nil, err
	}
	if err := checkHistory(op, "history_length", req.HistoryLength); err != nil {
		return nil, err
	}
	task, cursor, err := s.service.Task(ctx, req.GetId())
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if err := grpc.SetHeader(ctx, activated(call)); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return s.present(call, task, cursor, req.HistoryLength), nil
}

// CancelTask ends the task.
func (s *server) CancelTask(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	const op = "a2a.CancelTask"
	call, err := s.admit(ctx, op, req.GetTenant())
	if err != nil {
		return nil, err
	}
	if err := checkTaskID(op, req.GetId()); err != nil {
		return nil, err
	}
	task, err := s.service.Cancel(ctx, req)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return s.fit(call, task), mesh.Wrap(op, grpc.SetHeader(ctx, activated(call)))
}

// activated is the header that tells the caller which extensions it activated
// (A2A v1.0 §4.6): ours or none.
func activated(call mesh.Call) metadata.MD {
	if !call.Extended() {
		return nil
	}
	return metadata.Pairs(rpc.KeyExtensions, mesh.ExtensionURI)
}

// present gives the caller its copy of the task: with at most length messages
// of history, the cursor if it activated our extension or wants that alone, and no more than it
// takes.
func (s *server) present(call mesh.Call, t *a2apb.Task, cursor mesh.Seq, length *int32) *a2apb.Task {
	out := copyTask(t, t.Metadata)
	if length != nil {
		out.History = out.History[max(0, len(out.History)-int(*length)):]
	}
	if !call.Extended() {
		out.Metadata = WithoutExtension(out.Metadata)
	}
	if call.Extended() || call.WantSeq {
		out.Metadata = SetSeq(out.Metadata, cursor)
	}
	return s.fit(call, out)
}

// historyOf returns how much history the caller wants, or nil for all.
func historyOf(c *a2apb.SendMessageConfiguration) *int32 {
	if c == nil {
		return nil
	}
	return c.HistoryLength
}

// resting reports whether nothing more happens to the task by itself.
func resting(s mesh.TaskState) bool { return mesh.Terminal(s) || mesh.Interrupted(s) }

// done reports whether a turn of the conversation ends with the state.
func done(s mesh.TaskState) bool {
	return mesh.Terminal(s) || s == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
}

// cutOff is the error of a stream that its server ended before the task was.
func cutOff(op string) *mesh.Error {
	return mesh.Errorf(mesh.Unavailable, op, "The stream ended before the task did; read on with SubscribeToTask")
}

// gone is the error of a client that does not listen any more.
func gone(err error) error {
	return mesh.Errorf(mesh.Canceled, "a2a.Send", "The client went away: %w", err)
}

// impliedVersion is the version of requests that name none (A2A v1.0 §3.6.2).
const impliedVersion = "0.3"

// supported reports whether the A2A version is one that this server speaks:
// any 1.x, with or without a patch. A request without one came over the v1.0
// service, which is enough.
func supported(version string) bool {
	if version == "" {
		return true
	}
	parts := strings.Split(version, ".")
	numbers := !slices.ContainsFunc(parts, func(p string) bool { return p == "" || strings.Trim(p, "0123456789") != "" })
	return numbers && parts[0] == "1" && len(parts) <= 3
}

func versionError(op, version string) error {
	e := &mesh.Error{Code: mesh.Precondition, Op: op, Field: "a2a-version", Reason: ReasonVersionNotSupported,
		Detail: "A2A version " + clip(version) + " is not spoken here; use 1.0"}
	return rpc.WithInfo(e, map[string]string{"supportedVersions": "1.0"})
}
