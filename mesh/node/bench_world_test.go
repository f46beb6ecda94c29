//go:build unix

package node_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1/pbconv"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"
)

// A shape is what an agent of the benchmarks is asked for: so many chunks of
// so many bytes.
type shape struct {
	chunks, size int
	// pieces sends each chunk as the whole of an artifact. Text below 2 KiB
	// would be put together by our runtime, and so not be comparable.
	pieces bool
}

func (s shape) String() string { return fmt.Sprintf("%d %d %t", s.chunks, s.size, s.pieces) }

func shapeOf(text string) (s shape, err error) {
	_, err = fmt.Sscanf(text, "%d %d %t", &s.chunks, &s.size, &s.pieces)
	return s, err
}

// texts yields the chunks, each of which begins with its number.
func (s shape) texts() iter.Seq[string] {
	fill := strings.Repeat("x", s.size-numberSize)
	return func(yield func(string) bool) {
		for i := range s.chunks {
			if !yield(fmt.Sprintf("%0*d", numberSize, i) + fill) {
				return
			}
		}
	}
}

const numberSize = 8

// chunker is the agent on our runtime.
func chunker(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		s, err := shapeOf(inv.Text())
		if err != nil {
			yield(nil, err)
			return
		}
		for text := range s.texts() {
			var out agent.Output = agent.Text{Text: text}
			if s.pieces {
				out = agent.Artifact{Artifact: whole(text)}
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}

func whole(text string) *a2apb.Artifact {
	return &a2apb.Artifact{ArtifactId: "out", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}
}

// bareAgent is the agent on nothing but generated types.
type bareAgent struct {
	a2apb.UnimplementedA2AServiceServer
}

func (bareAgent) SendStreamingMessage(req *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	s, err := shapeOf(textOf(req.GetMessage().GetParts()))
	if err != nil {
		return err
	}
	task := bareTask(a2apb.TaskState_TASK_STATE_WORKING)
	if err := stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task}}); err != nil {
		return err
	}
	more := false
	for text := range s.texts() {
		u := &a2apb.TaskArtifactUpdateEvent{TaskId: task.Id, ContextId: task.ContextId, Artifact: whole(text), Append: more && !s.pieces}
		if err := stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: u}}); err != nil {
			return err
		}
		more = true
	}
	return stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: task.Id, ContextId: task.ContextId, Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED}}}})
}

func (bareAgent) SendMessage(context.Context, *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: bareTask(a2apb.TaskState_TASK_STATE_COMPLETED)}}, nil
}

func bareTask(state mesh.TaskState) *a2apb.Task {
	thread := mesh.NewThreadID()
	return &a2apb.Task{Id: string(mesh.NewExecutionID(thread)), ContextId: thread, Status: &a2apb.TaskStatus{State: state}}
}

// bareHop passes calls on and does nothing else.
type bareHop struct {
	a2apb.UnimplementedA2AServiceServer
	to a2apb.A2AServiceClient
}

func (h bareHop) SendStreamingMessage(req *a2apb.SendMessageRequest, out grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	in, err := h.to.SendStreamingMessage(out.Context(), req)
	for err == nil {
		var r *a2apb.StreamResponse
		if r, err = in.Recv(); err == nil {
			err = out.Send(r)
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

func (h bareHop) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	return h.to.SendMessage(ctx, req)
}

// sdkAgent is the agent on a2a-go's server package.
type sdkAgent struct{}

func (sdkAgent) Execute(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		s, err := shapeOf(x.Message.Parts[0].Text())
		if err != nil {
			yield(nil, err)
			return
		}
		if !yield(sdk.NewSubmittedTask(x, x.Message), nil) {
			return
		}
		more := false
		for text := range s.texts() {
			e := sdk.NewArtifactUpdateEvent(x, "out", sdk.NewTextPart(text))
			e.Append = more && !s.pieces
			more = true
			if !yield(e, nil) {
				return
			}
		}
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCompleted, nil), nil)
	}
}

func (sdkAgent) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCanceled, nil), nil)
	}
}

// sdkServer puts a2a-go's request handler behind gRPC, with its own conversions,
// as its gRPC package does, which would bring its client along.
type sdkServer struct {
	a2apb.UnimplementedA2AServiceServer
	handler a2asrv.RequestHandler
}

func (s sdkServer) SendStreamingMessage(req *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	in, err := pbconv.FromProtoSendMessageRequest(req)
	if err != nil {
		return err
	}
	ctx, _ := a2asrv.NewCallContext(stream.Context(), nil)
	for event, err := range s.handler.SendStreamingMessage(ctx, in) {
		if err != nil {
			return err
		}
		out, err := pbconv.ToProtoStreamResponse(event)
		if err != nil {
			return err
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
	return nil
}

// serveBare serves what register adds on plain grpc-go and returns a
// connection to it.
func serveBare(b *testing.B, register func(*grpc.Server)) *grpc.ClientConn {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := grpc.NewServer()
	register(s)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }() // the cleanup waits
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return conn
}

// serveAgent serves an agent of generated types, and one hop before it.
func serveAgent(b *testing.B, a a2apb.A2AServiceServer) (direct, hop a2apb.A2AServiceClient) {
	b.Helper()
	to := a2apb.NewA2AServiceClient(serveBare(b, func(s *grpc.Server) { a2apb.RegisterA2AServiceServer(s, a) }))
	front := serveBare(b, func(s *grpc.Server) { a2apb.RegisterA2AServiceServer(s, bareHop{to: to}) })
	return to, a2apb.NewA2AServiceClient(front)
}

func serveSDK(b *testing.B) a2apb.A2AServiceClient {
	b.Helper()
	s := sdkServer{handler: a2asrv.NewHandler(sdkAgent{})}
	return a2apb.NewA2AServiceClient(serveBare(b, func(g *grpc.Server) { a2apb.RegisterA2AServiceServer(g, s) }))
}

// runtimeOf returns a client of the mesh's agent itself, past the edge, and a
// function that puts a new execution's grant into a context.
func runtimeOf(b *testing.B, m *testMesh, name string) (a2apb.A2AServiceClient, func(context.Context) context.Context) {
	b.Helper()
	signer, err := grant.LoadOrCreateKey(filepath.Join(m.data, "grant.key"))
	if err != nil {
		b.Fatal(err)
	}
	found, err := meshv1.NewRegistryServiceClient(m.conn).GetAgent(b.Context(), &meshv1.GetAgentRequest{Name: name})
	if err != nil {
		b.Fatal(err)
	}
	conn, err := rpc.Dial(found.GetAgent().GetEndpoint(), rpc.DialOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return a2apb.NewA2AServiceClient(conn), func(ctx context.Context) context.Context {
		thread := mesh.NewThreadID()
		g := mesh.Grant{
			Tenant: mesh.DefaultTenant, User: "ann", Thread: thread, Execution: mesh.NewExecutionID(thread),
			Agent: name, Chain: []string{name}, Expires: time.Now().Add(time.Minute).Unix(),
		}
		return mesh.WithCall(ctx, mesh.Call{GrantToken: signer.Issue(g), Thread: thread, Execution: g.Execution})
	}
}

// drink reads a stream to its end and checks that it has all chunks, in order,
// and that the task is completed.
func drink(b *testing.B, s shape, stream grpc.ServerStreamingClient[a2apb.StreamResponse], err error) {
	if err != nil {
		b.Error(err)
		return
	}
	next, state := 0, a2apb.TaskState_TASK_STATE_UNSPECIFIED
	for {
		r, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			b.Errorf("stream broke after %d chunks: %v", next, err)
			return
		}
		if u := r.GetStatusUpdate(); u != nil {
			state = u.GetStatus().GetState()
		}
		for _, p := range r.GetArtifactUpdate().GetArtifact().GetParts() {
			if n, err := strconv.Atoi(p.GetText()[:numberSize]); err != nil || n != next || len(p.GetText()) != s.size {
				b.Errorf("chunk %.*q of %d bytes, want number %d of %d", numberSize, p.GetText(), len(p.GetText()), next, s.size)
			}
			next++
		}
	}
	if next != s.chunks || state != a2apb.TaskState_TASK_STATE_COMPLETED {
		b.Errorf("%d chunks, then %v; want %d chunks and the task completed", next, state, s.chunks)
	}
}
