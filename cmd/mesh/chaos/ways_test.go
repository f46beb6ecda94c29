//go:build unix

package chaos_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// A stream is updates of one task, the task first. next returns io.EOF at its
// end; any other error says that it broke.
type stream struct {
	next  func() (*a2apb.StreamResponse, error)
	close func()
}

// A refusal is an answer of the mesh that is no.
type refusal struct {
	code codes.Code
	text string
}

func (r *refusal) Error() string { return fmt.Sprintf("%v: %s", r.code, r.text) }

// refused returns the code of an answer, or Unavailable for a call that broke.
func refused(err error) codes.Code {
	var r *refusal
	if errors.As(err, &r) {
		return r.code
	}
	return codes.Unavailable
}

// A way is how a client reaches the mesh. after is a cursor, or below 0.
type way interface {
	send(ctx context.Context, at *address, req *a2apb.SendMessageRequest) (*stream, error)
	subscribe(ctx context.Context, at *address, task string, after int64) (*stream, error)
}

type overGRPC struct{}

func outgoing(ctx context.Context, thread string, more ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, append(more, "thread-id", thread, "a2a-extensions", mesh.ExtensionURI)...)
}

// answered makes a refusal of a gRPC error, unless the call broke.
func answered(err error) error {
	switch s := status.Convert(err); {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case s.Code() == codes.Unavailable || s.Code() == codes.Canceled || s.Code() == codes.DeadlineExceeded || s.Code() == codes.Aborted:
		return err
	default:
		return &refusal{s.Code(), s.Message()}
	}
}

func (overGRPC) send(ctx context.Context, at *address, req *a2apb.SendMessageRequest) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	s, err := a2apb.NewA2AServiceClient(at.conn).SendStreamingMessage(outgoing(ctx, req.Message.ContextId), req)
	return received(s, err, cancel)
}

func (overGRPC) subscribe(ctx context.Context, at *address, task string, after int64) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	id, _ := mesh.ExecutionID(task).ThreadID()
	s, err := a2apb.NewA2AServiceClient(at.conn).SubscribeToTask(outgoing(ctx, id, "after-seq", strconv.FormatInt(after, 10)), &a2apb.SubscribeToTaskRequest{Id: task})
	return received(s, err, cancel)
}

func received(s interface {
	Recv() (*a2apb.StreamResponse, error)
}, err error, cancel func()) (*stream, error) {
	if err != nil {
		cancel()
		return nil, answered(err)
	}
	return &stream{close: cancel, next: func() (*a2apb.StreamResponse, error) {
		u, err := s.Recv()
		return u, answered(err)
	}}, nil
}

// overREST sends and reads server-sent events.
type overREST struct{}

func (overREST) send(ctx context.Context, at *address, req *a2apb.SendMessageRequest) (*stream, error) {
	return post(ctx, at.http+"/message:stream", req, "")
}

func (overREST) subscribe(ctx context.Context, at *address, task string, after int64) (*stream, error) {
	return post(ctx, at.http+"/tasks/"+task+":subscribe", nil, strconv.FormatInt(after, 10))
}

func post(ctx context.Context, url string, msg proto.Message, cursor string) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	var body []byte
	if msg != nil {
		var err error
		if body, err = protojson.Marshal(msg); err != nil {
			cancel()
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2A-Extensions", mesh.ExtensionURI)
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &stream{close: func() { cancel(); _ = resp.Body.Close() }}
	if resp.StatusCode == http.StatusNoContent { // all was seen
		s.next = func() (*a2apb.StreamResponse, error) { return nil, io.EOF }
		return s, nil
	}
	if resp.StatusCode != http.StatusOK {
		defer s.close()
		text, _ := io.ReadAll(resp.Body) // what there is of it
		return nil, failedWith(resp.StatusCode, string(text))
	}
	lines := bufio.NewReader(resp.Body)
	s.next = func() (*a2apb.StreamResponse, error) { return nextEvent(lines) }
	return s, nil
}

// nextEvent returns the update of the next server-sent event.
func nextEvent(lines *bufio.Reader) (*a2apb.StreamResponse, error) {
	var name string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, io.ErrUnexpectedEOF // a stream that is over says so before it ends, by its last update
		}
		line = strings.TrimSuffix(line, "\n")
		if n, ok := strings.CutPrefix(line, "event: "); ok {
			name = n
		}
		data, ok := strings.CutPrefix(line, "data: ")
		switch {
		case !ok:
		case name == "error" || strings.HasPrefix(data, `{"error"`):
			return nil, fmt.Errorf("the stream broke: %s", data)
		default:
			u := new(a2apb.StreamResponse)
			return u, protojson.Unmarshal([]byte(data), u)
		}
	}
}

// failedWith is the error for an answer over HTTP.
func failedWith(code int, text string) error {
	for http, grpc := range map[int]codes.Code{400: codes.InvalidArgument, 404: codes.NotFound, 409: codes.FailedPrecondition, 429: codes.ResourceExhausted} {
		if code == http {
			return &refusal{grpc, text}
		}
	}
	if code == 500 {
		return &refusal{codes.Internal, text}
	}
	return fmt.Errorf("%d %s", code, text) // 503 and the like: it is going away
}
