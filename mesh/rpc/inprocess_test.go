package rpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// inProcess returns a server that is not on the network.
func inProcess(t *testing.T, a *agent, o rpc.Options) *rpc.Server {
	t.Helper()
	srv := rpc.NewServer(o)
	a2apb.RegisterA2AServiceServer(srv, a)
	t.Cleanup(srv.Stop)
	return srv
}

// ear is a sink that keeps what it is given.
type ear struct {
	headers  []metadata.MD
	messages []proto.Message
	seqs     []int64
	refuse   error
}

func (h *ear) Header(md metadata.MD) error {
	h.headers = append(h.headers, md)
	return nil
}

func (h *ear) Send(m proto.Message, seq int64) error {
	h.messages, h.seqs = append(h.messages, m), append(h.seqs, seq)
	return h.refuse
}

// bothIn is both, in the process.
func bothIn(ctx context.Context, s rpc.Conn, id string) map[string]error {
	_, unary := a2apb.NewA2AServiceClient(s).GetTask(ctx, &a2apb.GetTaskRequest{Id: id})
	return map[string]error{"unary": unary, "stream": s.Stream(ctx, stream, &a2apb.SubscribeToTaskRequest{Id: id}, &ear{})}
}

// bothOn is both, over the network.
func bothOn(ctx context.Context, c a2apb.A2AServiceClient, id string) map[string]error {
	errs := map[string]error{}
	_, errs["unary"] = c.GetTask(ctx, &a2apb.GetTaskRequest{Id: id})
	s, err := c.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: id})
	if err == nil {
		_, err = s.Recv()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	errs["stream"] = err
	return errs
}

// One chain stands before the services: who is refused over the network is refused
// in the process, by the same status.
func TestACallInTheProcessEndsAsOneOverTheNetwork(t *testing.T) {
	fails := func(err error) *agent {
		return &agent{get: func(context.Context) error { return err }, sub: func(grpc.ServerStream) error { return err }}
	}
	detailed := rpc.WithInfo(rpc.WithRetryAfter(&mesh.Error{Code: mesh.Precondition, Field: "f", Reason: "UNSUPPORTED_OPERATION", Detail: "no"}, time.Second), map[string]string{"a": "b"})
	tests := map[string]struct {
		agent *agent
		o     func() rpc.Options
		md    []string
		id    string
		calls int  // before the one that counts
		loose bool // the words differ
	}{
		"well":                    {agent: fails(nil)},
		"with malformed metadata": {agent: fails(nil), md: []string{"thread-id", "42"}},
		"with metadata twice":     {agent: fails(nil), md: []string{"tenant-id", "a", "tenant-id", "b"}},
		"by nobody":               {agent: fails(nil), o: func() rpc.Options { return rpc.Options{} }},
		"by someone unknown": {agent: fails(nil), o: func() rpc.Options {
			return rpc.Options{Auth: authFunc(func(rpc.Credentials) (mesh.Principal, error) {
				return mesh.Principal{}, &mesh.Error{Code: mesh.Unauthenticated, Field: "authorization", Detail: "a token is needed"}
			})}
		}},
		"with a grant that is not accepted": {agent: fails(nil), md: []string{"mesh-grant", "x"}, o: func() rpc.Options {
			return rpc.Options{Auth: authFunc(func(rpc.Credentials) (mesh.Principal, error) { return mesh.Principal{}, nil })}
		}},
		"too often": {agent: fails(nil), calls: 2, o: func() rpc.Options {
			return rpc.Options{Auth: authFunc(believe), Limiter: &count{n: 1, used: map[string]int{}}}
		}},
		"with an error of the mesh":         {agent: fails(detailed)},
		"with an error that is not shown":   {agent: fails(errors.New("the disk is at /dev/sda"))},
		"with a status of another server":   {agent: fails(status.Error(codes.AlreadyExists, "there is one"))},
		"with the end of a context":         {agent: fails(context.DeadlineExceeded)},
		"with a table of old errors":        {agent: fails(detailed), o: func() rpc.Options { return rpc.Options{Auth: authFunc(believe), Errors: rpc.ErrorsV100} }},
		"with more than the server reads":   {agent: fails(nil), id: strings.Repeat("x", 2000), loose: true, o: func() rpc.Options { return rpc.Options{Auth: authFunc(believe), MaxMessage: 1000} }},
		"with just what the server reads":   {agent: fails(nil), id: strings.Repeat("x", 997), o: func() rpc.Options { return rpc.Options{Auth: authFunc(believe), MaxMessage: 1000} }},
		"by a panic":                        {agent: &agent{get: func(context.Context) error { panic("x") }, sub: func(grpc.ServerStream) error { panic("x") }}},
		"of a method that is there no more": {agent: fails(mesh.Errorf(mesh.Unsupported, "x", "gone"))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.o == nil {
				tt.o = func() rpc.Options { return rpc.Options{Auth: authFunc(believe)} }
			}
			ctx := metadata.AppendToOutgoingContext(t.Context(), tt.md...)
			c, s := plain(t, serve(t, tt.agent, tt.o())), inProcess(t, tt.agent, tt.o())
			for range tt.calls {
				bothOn(ctx, c, tt.id)
				bothIn(ctx, s, tt.id)
			}
			got := bothIn(ctx, s, tt.id)
			for kind, err := range bothOn(ctx, c, tt.id) {
				want, got := status.Convert(err).Proto(), status.Convert(got[kind]).Proto()
				if tt.loose {
					want.Message, got.Message = "", ""
				}
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Errorf("%s (-network +process):\n%s", kind, diff)
				}
			}
		})
	}
}

// finding R4: what a server answers in its own process may be longer than what a
// connection takes.
func TestAnAnswerInTheProcessHasNoLimit(t *testing.T) {
	s := inProcess(t, &agent{get: func(context.Context) error { return nil }}, rpc.Options{Auth: authFunc(believe), MaxMessage: 8 << 20})
	id := strings.Repeat("x", rpc.DefaultMaxMessage+1)
	got, err := a2apb.NewA2AServiceClient(s).GetTask(t.Context(), &a2apb.GetTaskRequest{Id: id})
	if err != nil || got.GetId() != id {
		t.Errorf("%d bytes, %v", len(got.GetId()), err)
	}
}

type valueKey struct{}

// A handler in the process knows of its caller what the network would carry.
func TestOfACallersContextItsMetadataAndItsEndArrive(t *testing.T) {
	var seen context.Context
	ended := make(chan error, 2)
	look := func(ctx context.Context) error {
		seen = ctx //nolint:fatcontext // it is looked at, and not passed on
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	}
	a := &agent{get: look, sub: func(s grpc.ServerStream) error {
		_ = look(s.Context())
		return nil // for which its caller does not take it to have ended
	}}
	s := inProcess(t, a, rpc.Options{Auth: authFunc(believe)})
	ctx := context.WithValue(mesh.WithCall(t.Context(), mesh.Call{Thread: thread, Agent: "smuggled"}), valueKey{}, "secret")
	ctx = metadata.AppendToOutgoingContext(ctx, "Tenant-Id", "acme", "x-notes", "1")
	deadline := time.Now().Add(time.Minute)
	for kind, call := range map[string]func(context.Context) error{
		"unary": func(ctx context.Context) error { return bothIn(ctx, s, "")["unary"] },
		"stream": func(ctx context.Context) error {
			return s.Stream(ctx, stream, &a2apb.SubscribeToTaskRequest{}, &ear{})
		},
	} {
		limited, cancel := context.WithDeadline(ctx, deadline)
		time.AfterFunc(20*time.Millisecond, cancel)
		if err := call(limited); status.Code(err) != codes.Canceled {
			t.Errorf("%s: %v, want canceled", kind, err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the handler's context ended by %v", kind, err)
		}
		if got, ok := seen.Deadline(); !ok || !got.Equal(deadline) {
			t.Errorf("%s: the handler has until %v, want %v", kind, got, deadline)
		}
		in, _ := metadata.FromIncomingContext(seen)
		if diff := cmp.Diff(metadata.Pairs("tenant-id", "acme", "x-notes", "1"), in); diff != "" {
			t.Errorf("%s: metadata (-want +got):\n%s", kind, diff)
		}
		if md, has := metadata.FromOutgoingContext(seen); has || seen.Value(valueKey{}) != nil {
			t.Errorf("%s: the handler would pass on %v, and sees %v", kind, md, seen.Value(valueKey{}))
		}
		if call, _ := mesh.CallFrom(seen); call.Principal.Tenant != "acme" || call.Thread != "" || call.Agent != "" {
			t.Errorf("%s: the call is %+v", kind, call)
		}
	}
	seen = nil
	if _, err := a2apb.NewA2AServiceClient(s).GetTask(canceled(t), &a2apb.GetTaskRequest{}); status.Code(err) != codes.Canceled || seen != nil {
		t.Errorf("a call that is over before it begins: %v, with a context of %v", err, seen)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// keeper is a server that keeps what it was sent.
type keeper struct {
	a2apb.UnimplementedA2AServiceServer
	kept *a2apb.Message
}

func (k *keeper) SendMessage(ctx context.Context, r *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	k.kept = r.GetMessage()
	if err := grpc.SetHeader(ctx, metadata.Pairs("a", "1")); err != nil {
		return nil, err
	}
	if err := grpc.SendHeader(ctx, metadata.Pairs("a", "2")); err != nil {
		return nil, err
	}
	if grpc.SetHeader(ctx, metadata.Pairs("a", "3")) == nil {
		return nil, errors.New("a header was taken after it was sent")
	}
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Message{Message: r.GetMessage()}}, nil
}

func (k *keeper) SendStreamingMessage(_ *a2apb.SendMessageRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	if err := s.SetHeader(metadata.Pairs("a", "1")); err != nil {
		return err
	}
	for _, id := range []string{"1", "2"} {
		if err := s.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{Id: id}}}); err != nil {
			return err
		}
	}
	if s.SendHeader(nil) == nil {
		return errors.New("a header was taken after it was sent")
	}
	return nil
}

func TestWhatIsSentIsTheServersAndWhatIsAnsweredArrives(t *testing.T) {
	k := &keeper{}
	s := rpc.NewServer(rpc.Options{Auth: authFunc(believe)})
	t.Cleanup(s.Stop)
	a2apb.RegisterA2AServiceServer(s, k)
	sent := &a2apb.Message{MessageId: "m", Parts: []*a2apb.Part{{Content: &a2apb.Part_Raw{Raw: []byte("abc")}}}, Extensions: []string{"x"}}
	want := proto.CloneOf(sent)
	var header metadata.MD
	got, err := a2apb.NewA2AServiceClient(s).SendMessage(t.Context(), &a2apb.SendMessageRequest{Message: sent}, grpc.Header(&header))
	if diff := cmp.Diff(want, got.GetMessage(), protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(metadata.Pairs("a", "1", "a", "2"), header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	sent.Parts[0].GetContent().(*a2apb.Part_Raw).Raw[0], sent.Extensions[0] = 'X', "X"
	if diff := cmp.Diff(want, k.kept, protocmp.Transform()); diff != "" {
		t.Errorf("the caller changed what the server has (-want +got):\n%s", diff)
	}
	var out ear
	if err := s.Stream(t.Context(), a2apb.A2AService_SendStreamingMessage_FullMethodName, &a2apb.SendMessageRequest{}, &out); err != nil {
		t.Error(err)
	}
	if len(out.messages) != 2 || out.messages[1].(*a2apb.StreamResponse).GetTask().GetId() != "2" {
		t.Errorf("the stream said %v", out.messages)
	}
	if diff := cmp.Diff([]metadata.MD{metadata.Pairs("a", "1")}, out.headers); diff != "" {
		t.Errorf("headers of the stream (-want +got):\n%s", diff)
	}
	refusing := ear{refuse: errors.New("enough")}
	err = s.Stream(t.Context(), a2apb.A2AService_SendStreamingMessage_FullMethodName, &a2apb.SendMessageRequest{}, &refusing)
	if err == nil || len(refusing.messages) != 1 {
		t.Errorf("a sink that refuses got %d messages, and the call ended with %v", len(refusing.messages), err)
	}
}

// A call in the process has the message itself, which readers look into, and its place;
// its bytes are for the network, and made for nobody else.
func TestBytesAreForTheNetwork(t *testing.T) {
	sent, other := &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{Id: "said"}}}, []byte{10, 4, 10, 2, 'o', 'k'}
	made := 0
	a := &agent{sub: func(s grpc.ServerStream) error {
		return s.SendMsg(&rpc.Encoded{Message: sent, Seq: 7, Encode: func() []byte { made++; return other }})
	}}
	o := rpc.Options{Auth: authFunc(believe)}
	var out ear
	err := inProcess(t, a, o).Stream(t.Context(), stream, &a2apb.SubscribeToTaskRequest{}, &out)
	if err != nil || made != 0 || len(out.messages) != 1 || out.messages[0] != sent || out.seqs[0] != 7 {
		t.Errorf("in the process %v at %v, encoded %d times, %v", out.messages, out.seqs, made, err)
	}
	in, err := plain(t, serve(t, a, o)).SubscribeToTask(t.Context(), &a2apb.SubscribeToTaskRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := in.Recv(); err != nil || got.GetTask().GetId() != "ok" || made != 1 {
		t.Errorf("over the network %v, encoded %d times, %v", got, made, err)
	}
}

func TestAStreamThatSaysNothingIsAccepted(t *testing.T) {
	s := inProcess(t, &agent{sub: func(grpc.ServerStream) error { return nil }}, rpc.Options{Auth: authFunc(believe)})
	var out ear
	if err := s.Stream(t.Context(), stream, &a2apb.SubscribeToTaskRequest{}, &out); err != nil || len(out.headers) != 1 || len(out.messages) != 0 {
		t.Errorf("%v, %+v", err, out)
	}
	refused := inProcess(t, &agent{sub: func(grpc.ServerStream) error { return mesh.TaskNotFound("x") }}, rpc.Options{Auth: authFunc(believe)})
	out = ear{}
	if err := refused.Stream(t.Context(), stream, &a2apb.SubscribeToTaskRequest{}, &out); status.Code(err) != codes.NotFound || len(out.headers) != 0 {
		t.Errorf("%v, %+v", err, out)
	}
}

// Text that gRPC would not carry does not come in by another way.
func TestARequestThatIsNotUTF8IsRefused(t *testing.T) {
	s := inProcess(t, &agent{get: func(context.Context) error { return nil }, sub: func(grpc.ServerStream) error { return nil }}, rpc.Options{Auth: authFunc(believe)})
	for kind, err := range bothIn(t.Context(), s, "\xff") {
		if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() == "" {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestWhatCannotBeCalledIsUnimplemented(t *testing.T) {
	s := inProcess(t, &agent{}, rpc.Options{Auth: authFunc(believe)})
	ctx, in := t.Context(), &a2apb.GetTaskRequest{}
	_, opened := s.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, stream)
	for name, err := range map[string]error{
		"a method that there is not": s.Invoke(ctx, "/lf.a2a.v1.A2AService/Nothing", in, &a2apb.Task{}),
		"a stream that there is not": s.Stream(ctx, "/lf.a2a.v1.A2AService/Nothing", in, &ear{}),
		"a stream as a unary method": s.Invoke(ctx, stream, in, &a2apb.Task{}),
		"a unary method as a stream": s.Stream(ctx, a2apb.A2AService_GetTask_FullMethodName, in, &ear{}),
		"a stream as gRPC opens one": opened,
	} {
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := inProcess(t, &agent{get: func(context.Context) error { return nil }}, rpc.Options{Auth: authFunc(believe)}).
		Invoke(ctx, a2apb.A2AService_GetTask_FullMethodName, in, &a2apb.Message{}); status.Code(err) != codes.Internal {
		t.Errorf("an answer of another type: %v", err)
	}
}

// A server that stops waits for its calls in the process, and Stop ends them.
func TestTheEndOfAServerIsTheEndOfItsCallsInTheProcess(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	waits := func(ctx context.Context) error {
		begun <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for name, tt := range map[string]struct {
		stop func(*rpc.Server)
		free bool // lets the calls end
		want codes.Code
	}{
		"GracefulStop": {(*rpc.Server).GracefulStop, true, codes.OK},
		"Stop":         {(*rpc.Server).Stop, false, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := inProcess(t, &agent{get: waits, sub: func(s grpc.ServerStream) error { return waits(s.Context()) }}, rpc.Options{Auth: authFunc(believe)})
			ended := make(chan error, 2)
			go func() { ended <- s.Stream(t.Context(), stream, &a2apb.SubscribeToTaskRequest{}, &ear{}) }()
			go func() {
				ended <- s.Invoke(t.Context(), a2apb.A2AService_GetTask_FullMethodName, &a2apb.GetTaskRequest{}, &a2apb.Task{})
			}()
			<-begun
			<-begun
			stopped := make(chan struct{})
			go func() { defer close(stopped); tt.stop(s) }()
			for status.Code(s.Invoke(t.Context(), a2apb.A2AService_ListTasks_FullMethodName, &a2apb.ListTasksRequest{}, &a2apb.ListTasksResponse{})) != codes.Unavailable {
				time.Sleep(time.Millisecond) // until it refuses
			}
			if tt.free {
				select {
				case <-stopped:
					t.Error("it did not wait for the calls")
				case <-time.After(20 * time.Millisecond):
				}
				release <- struct{}{}
				release <- struct{}{}
			}
			for range 2 {
				if err := <-ended; status.Code(err) != tt.want {
					t.Errorf("a call ended with %v, want %v", err, tt.want)
				}
			}
			<-stopped
			for kind, err := range bothIn(t.Context(), s, "") {
				if status.Code(err) != codes.Unavailable {
					t.Errorf("%s after the end: %v", kind, err)
				}
			}
		})
	}
}

// Streams in the process count among those that a user has open.
func TestStreamsInTheProcessAreLimited(t *testing.T) {
	a := &agent{}
	s := inProcess(t, a, rpc.Options{Auth: authFunc(believe), Streams: rpc.StreamLimit{PerUser: 1}})
	var second error
	a.sub = func(grpc.ServerStream) error {
		a.sub = func(grpc.ServerStream) error { return nil }
		second = s.Stream(t.Context(), stream, &a2apb.SubscribeToTaskRequest{}, &ear{})
		return nil
	}
	for _, want := range []codes.Code{codes.ResourceExhausted, codes.OK} {
		if err := s.Stream(t.Context(), stream, &a2apb.SubscribeToTaskRequest{}, &ear{}); err != nil || status.Code(second) != want {
			t.Errorf("the first stream %v, the second %v, want %v", err, second, want)
		}
		second = nil
	}
}

// onNetwork serves s, to compare.
func onNetwork(b *testing.B, s *rpc.Server) a2apb.A2AServiceClient {
	b.Helper()
	l := rpctest.Listen(b)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	conn, err := rpc.Dial(l.Addr().String(), rpc.DialOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(); s.Stop(); <-served })
	return a2apb.NewA2AServiceClient(conn)
}

func BenchmarkUnary(b *testing.B) {
	s := rpc.NewServer(rpc.Options{Auth: authFunc(believe)})
	a2apb.RegisterA2AServiceServer(s, &agent{get: func(context.Context) error { return nil }})
	for name, c := range map[string]a2apb.A2AServiceClient{"process": a2apb.NewA2AServiceClient(s), "network": onNetwork(b, s)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.GetTask(b.Context(), &a2apb.GetTaskRequest{Id: "t"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
