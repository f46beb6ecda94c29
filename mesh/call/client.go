package call

import (
	"context"
	"errors"
	"io"
	"iter"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// A Client calls one agent, whatever binding and version of A2A it speaks.
//
// It may be used concurrently. Its errors are *mesh.Error; calls carry the
// [mesh.Call] in their context. A stream that just ends has no error, and
// breaking its loop cancels it.
type Client interface {
	SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error)
	SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[Response, error]
	GetTask(ctx context.Context, task string) (*a2apb.Task, error)
	CancelTask(ctx context.Context, task string) error
	// SubscribeToTask streams the task as it is and then what happens to it.
	// It returns Unsupported for agents that cannot say the first.
	SubscribeToTask(ctx context.Context, task string) iter.Seq2[Response, error]
}

// A Response is one of a stream, with its wire bytes where they are at hand. Both are
// read-only: an agent in this process has it too.
type Response struct {
	*a2apb.StreamResponse
	Wire []byte
}

// GRPC returns a Client for an agent that speaks A2A v1.0 over the connection,
// which is one of package rpc and stays its owner's.
func GRPC(conn grpc.ClientConnInterface) Client { return overGRPC(conn, "") }

func overGRPC(conn grpc.ClientConnInterface, tenant string) grpcClient {
	local, _ := conn.(rpc.Conn)
	return grpcClient{a2apb.NewA2AServiceClient(conn), local, tenant}
}

// grpcClient speaks A2A v1.0 natively. The tenant is the agent's own, from its
// card, and has nothing to do with ours.
type grpcClient struct {
	agent  a2apb.A2AServiceClient
	local  rpc.Conn // where it is, if that is in this process
	tenant string
}

func (c grpcClient) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	var trailer metadata.MD
	resp, err := c.agent.SendMessage(ctx, routed(req, c.tenant), grpc.Trailer(&trailer))
	return resp, answer(readable(err), trailer)
}

// routed returns the request with the agent's tenant, without changing what
// the caller may send again.
func routed(req *a2apb.SendMessageRequest, tenant string) *a2apb.SendMessageRequest {
	if tenant == "" {
		return req
	}
	return &a2apb.SendMessageRequest{Tenant: tenant, Message: req.GetMessage(), Configuration: req.GetConfiguration(), Metadata: req.GetMetadata()}
}

func (c grpcClient) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[Response, error] {
	req = routed(req, c.tenant)
	if c.local != nil {
		return hear(ctx, c.local, a2apb.A2AService_SendStreamingMessage_FullMethodName, req)
	}
	return receive(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[a2apb.StreamResponse], error) {
		return c.agent.SendStreamingMessage(ctx, req)
	})
}

func (c grpcClient) GetTask(ctx context.Context, task string) (*a2apb.Task, error) {
	var trailer metadata.MD
	t, err := c.agent.GetTask(ctx, &a2apb.GetTaskRequest{Tenant: c.tenant, Id: task}, grpc.Trailer(&trailer))
	return t, answer(readable(err), trailer)
}

func (c grpcClient) CancelTask(ctx context.Context, task string) error {
	var trailer metadata.MD
	_, err := c.agent.CancelTask(ctx, &a2apb.CancelTaskRequest{Tenant: c.tenant, Id: task}, grpc.Trailer(&trailer))
	return answer(rpc.FromStatus(err), trailer)
}

func (c grpcClient) SubscribeToTask(ctx context.Context, task string) iter.Seq2[Response, error] {
	req := &a2apb.SubscribeToTaskRequest{Tenant: c.tenant, Id: task}
	if c.local != nil {
		return hear(ctx, c.local, a2apb.A2AService_SubscribeToTask_FullMethodName, req)
	}
	return receive(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[a2apb.StreamResponse], error) {
		return c.agent.SubscribeToTask(ctx, req)
	})
}

// hear is a stream in the process as a sequence.
func hear(ctx context.Context, conn rpc.Conn, method string, req proto.Message) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		out := &ear{yield: yield, leave: cancel}
		if err := conn.Stream(ctx, method, req, out); err != nil && !out.left {
			yield(Response{}, err)
		}
	}
}

// An ear is where such a stream is heard.
type ear struct {
	yield func(Response, error) bool
	leave func() // ends the call
	left  bool   // nobody listens any more
}

// Header implements [rpc.Sink].
func (e *ear) Header(metadata.MD) error { return nil }

// Send implements [rpc.Sink]. Who leaves has heard what was sent: the agent may come to
// its end by itself.
func (e *ear) Send(m proto.Message, _ int64) error {
	resp, ok := m.(*a2apb.StreamResponse)
	switch {
	case e.left:
		return context.Canceled
	case !ok:
		return mesh.Errorf(mesh.Unknown, "call.Send", "the agent's answer is a %T", m)
	case !e.yield(Response{StreamResponse: resp}, nil):
		e.left = true
		e.leave()
	}
	return nil
}

// receive is a gRPC stream as a sequence.
func receive(ctx context.Context, open func(context.Context) (grpc.ServerStreamingClient[a2apb.StreamResponse], error)) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := open(ctx)
		var resp *a2apb.StreamResponse
		var last *a2apb.TaskArtifactUpdateEvent
		var misread error // which gRPC makes a status of
		in := rpc.Encoded{Decode: func(wire []byte) error {
			err := decode(wire, resp, last)
			if err != nil {
				misread = misreadWire(wire, resp.ProtoReflect().Descriptor(), err)
			}
			return err
		}}
		for err == nil {
			resp = new(a2apb.StreamResponse)
			in.Message, in.Wire = resp, nil
			if err = stream.RecvMsg(&in); err == nil && !yield(Response{resp, in.Wire}, nil) {
				return
			}
			last = resp.GetArtifactUpdate()
		}
		switch {
		case misread != nil:
			yield(Response{}, rpc.FromStatus(misread))
		case errors.Is(err, io.EOF):
		case stream == nil:
			yield(Response{}, rpc.FromStatus(err))
		default:
			yield(Response{}, answer(readable(err), stream.Trailer()))
		}
	}
}

// errAnswered is in the chain of an error that the agent itself has answered with, though its
// code is that of a connection that broke.
var errAnswered = errors.New("the agent has answered so")

// answer marks the error of a call if it is the agent's answer. The agent's server sends
// trailers with a status, and what breaks on the way has none. One that had sent its headers
// may send trailers that are empty: that looks as if the connection had broken.
func answer(err error, trailer metadata.MD) error {
	var e *mesh.Error
	if len(trailer) == 0 || !errors.As(err, &e) || e.Code != mesh.Unavailable {
		return err
	}
	said := *e
	said.Err = errors.Join(e.Err, errAnswered)
	return &said
}
