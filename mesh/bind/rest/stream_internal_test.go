package rest

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh/a2a"
)

// A client that went away without a word leaves a connection that takes
// nothing: its stream ends when the patience does, and the call with it.
func TestAClientThatTakesNothingIsGivenUp(t *testing.T) {
	ended := make(chan error, 1)
	var canceled atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := &eventWriter{w: w, rc: http.NewResponseController(w), patience: 20 * time.Millisecond, heartbeat: time.Hour,
			gone: func() { canceled.Store(true) }}
		err := out.Header(nil)
		for err == nil {
			err = out.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{Id: strings.Repeat("x", 1000)}}}, 0)
		}
		if last := out.end(nil); !errors.Is(last, errWrite) {
			t.Errorf("the end is %v, want %v", last, errWrite)
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
	if !canceled.Load() {
		t.Error("the call goes on")
	}
}

// Updates are shared by all who follow a thread: who shows less of one leaves it as
// it is.
func TestWhatIsStreamedIsNotChanged(t *testing.T) {
	update := &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: "t", Metadata: a2a.SetSeq(nil, 7)}}}
	before := proto.CloneOf(update)
	for strip, want := range map[bool]string{true: `"taskId":"t"}}`, false: `"seq":7}}}}`} {
		w := httptest.NewRecorder()
		out := &eventWriter{w: w, rc: http.NewResponseController(w), patience: time.Minute, heartbeat: time.Hour, strip: strip, gone: func() {}}
		if err := errors.Join(out.Header(nil), out.Send(update, 0), out.end(nil)); err != nil {
			t.Fatal(err)
		}
		if got := w.Body.String(); !strings.HasPrefix(got, "id: 7\n") || !strings.HasSuffix(got, want+"\n\n") {
			t.Errorf("strip %v: %q", strip, got)
		}
		if !proto.Equal(before, update) {
			t.Errorf("strip %v: the update became %v", strip, update)
		}
	}
}

// A slow is a client that takes its time for each write.
type slow struct {
	*httptest.ResponseRecorder
	writes, most int
}

func (s *slow) Write(b []byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	s.writes++
	s.most = max(s.most, len(b))
	return s.ResponseRecorder.Write(b)
}

// A call waits for the client: what was sent and not taken is bounded. And what is
// there is written together.
func TestACallWaitsForASlowClient(t *testing.T) {
	const events, size = 500, 1000
	client := &slow{ResponseRecorder: httptest.NewRecorder()}
	out := &eventWriter{w: client, rc: http.NewResponseController(client), patience: time.Minute, heartbeat: time.Hour, gone: func() {}}
	err := out.Header(nil)
	for range events {
		err = errors.Join(err, out.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{Id: strings.Repeat("x", size)}}}, 0))
	}
	if err = errors.Join(err, out.end(nil)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(client.Body.String(), "data: "); got != events {
		t.Errorf("%d events were written, want %d", got, events)
	}
	if most := writeSize + 2*size; client.most > most {
		t.Errorf("a write had %d bytes, and so many waited; want at most %d", client.most, most)
	}
	if client.writes > events/10 {
		t.Errorf("%d events took %d writes", events, client.writes)
	}
}
