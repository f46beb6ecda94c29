package rest

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// endless is a call that always has another event until it is canceled.
type endless struct {
	grpc.ClientStream
	canceled atomic.Bool
}

var errCanceled = errors.New("canceled")

func (e *endless) RecvMsg(m any) error {
	if e.canceled.Load() {
		return errCanceled
	}
	m.(*a2apb.StreamResponse).Payload = &a2apb.StreamResponse_Task{Task: &a2apb.Task{Id: string(make([]byte, 1000))}}
	return nil
}

// A client that went away without a word leaves a connection that takes
// nothing: its stream ends when the patience does, and the call with it.
func TestAClientThatTakesNothingIsGivenUp(t *testing.T) {
	ended := make(chan error, 1)
	call := &endless{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := &eventWriter{w: w, rc: http.NewResponseController(w), patience: 20 * time.Millisecond}
		err := out.begin(nil)
		if err == nil {
			err = out.relay(call, (&a2apb.StreamResponse{}).ProtoReflect().Type(), time.Hour, func() { call.canceled.Store(true) })
		}
		ended <- err
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errWrite) {
		t.Errorf("the stream ended with %v, want %v", err, errWrite)
	}
	if !call.canceled.Load() {
		t.Error("the call goes on")
	}
}
