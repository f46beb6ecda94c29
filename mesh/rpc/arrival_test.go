package rpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// begin sends the headers of a call, and no message.
func begin(ctx context.Context, t *testing.T, conn *grpc.ClientConn, method string) grpc.ClientStream {
	t.Helper()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func connected(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.Dial(addr, rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// part of T5: a call whose message does not come is cut, also of who may call; one whose
// message has come may take as long as it wants.
func TestACallWhoseMessageDoesNotComeIsCut(t *testing.T) {
	slow := func(ctx context.Context) error {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	a := &agent{get: slow, sub: func(s grpc.ServerStream) error { return slow(s.Context()) }}
	conn := connected(t, serve(t, a, rpc.Options{Auth: authFunc(believe), Arrive: 100 * time.Millisecond}))
	for _, method := range []string{a2apb.A2AService_GetTask_FullMethodName, a2apb.A2AService_SubscribeToTask_FullMethodName} {
		if err := begin(t.Context(), t, conn, method).RecvMsg(new(a2apb.Task)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s without a message: %v", method, err)
		}
	}
	client := a2apb.NewA2AServiceClient(conn)
	for try := 0; ; try++ { // a machine may be too busy to send anything in so short a time
		_, err := client.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: "t"})
		if err == nil {
			break
		}
		if try == 50 {
			t.Fatalf("one that came in time: %v", err)
		}
	}
}

// part of T5: callers whom nobody knows have few calls whose message has not arrived; what
// arrives or ends makes room, and who is known is not among them.
func TestCallsOfOpenMethodsAreBounded(t *testing.T) {
	method := a2apb.A2AService_SubscribeToTask_FullMethodName
	a := &agent{get: func(context.Context) error { return nil }, sub: func(grpc.ServerStream) error { return nil }}
	conn := connected(t, serve(t, a, rpc.Options{Auth: authFunc(believe), Open: []string{method}}))
	client := a2apb.NewA2AServiceClient(conn)
	whole := func() error {
		s, err := client.SubscribeToTask(t.Context(), &a2apb.SubscribeToTaskRequest{Id: "t"})
		if err == nil {
			_, err = s.Recv()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	const most = 64
	var all []grpc.ClientStream
	ctx, cancel := context.WithCancel(t.Context())
	for range most {
		all = append(all, begin(ctx, t, conn, method))
	}
	if err := whole(); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("one more: %v", err)
	}
	if _, err := client.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: "t"}); err != nil {
		t.Errorf("one who is known: %v", err)
	}
	if err := errors.Join(all[0].SendMsg(&a2apb.SubscribeToTaskRequest{Id: "t"}), all[0].CloseSend()); err != nil {
		t.Fatal(err)
	}
	for whole() != nil && t.Context().Err() == nil {
	}
	cancel()
	for free := false; !free && t.Context().Err() == nil; { // all have room again
		ctx, cancel := context.WithCancel(t.Context())
		for range most - 1 {
			begin(ctx, t, conn, method)
		}
		free = whole() == nil
		cancel()
	}
}

// part of T5: what arrives whole makes room for what comes next, of a user whose messages
// together are more than may arrive at a time; and without a credential a message is small.
func TestAMessageThatArrivedMakesRoom(t *testing.T) {
	a := &agent{get: func(context.Context) error { return nil }, sub: func(grpc.ServerStream) error { return nil }}
	conn := connected(t, serve(t, a, rpc.Options{Auth: authFunc(believe), Open: []string{a2apb.A2AService_GetTask_FullMethodName}}))
	client := a2apb.NewA2AServiceClient(conn)
	for i := range 40 { // MiB, of which 16 may arrive at a time
		s, err := client.SubscribeToTask(t.Context(), &a2apb.SubscribeToTaskRequest{Id: strings.Repeat("t", 1<<20)})
		if err == nil {
			_, err = s.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	for size, want := range map[int]bool{8 << 10: true, 64 << 10: false} {
		if _, err := client.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: strings.Repeat("t", size)}); (err == nil) != want {
			t.Errorf("%d bytes without a credential: %v", size, err)
		}
	}
}

// part of T5: over a connection on which nobody has proved who it is, few calls are open.
func TestAConnectionOfStrangersHasFewCalls(t *testing.T) {
	method := a2apb.A2AService_SubscribeToTask_FullMethodName
	a := &agent{get: func(context.Context) error { return nil }, sub: func(s grpc.ServerStream) error {
		if err := s.SendHeader(nil); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}}
	conn := connected(t, serve(t, a, rpc.Options{Auth: authFunc(believe), Open: []string{method}}))
	client := a2apb.NewA2AServiceClient(conn)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := func() error {
		s, err := client.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: "t"})
		if err == nil {
			_, err = s.Header()
		}
		if err == nil && len(s.Trailer()) > 0 {
			_, err = s.Recv()
		}
		return err
	}
	for i := range 128 {
		if err := open(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	s, err := client.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: "t"})
	if err == nil {
		_, err = s.Recv()
	}
	if !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("one more: %v", err)
	}
	if _, err := client.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: "t"}); err != nil {
		t.Fatalf("one who is known: %v", err)
	}
	if err := open(); err != nil {
		t.Errorf("one more when somebody is known: %v", err)
	}
}
