package node_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// A wire is how an HTTP binding writes a call and reads what comes of it.
type wire interface {
	request(base, method string, in proto.Message) (*http.Request, error)
	// result returns the message in an answer or event, or its error.
	result(data []byte) (json.RawMessage, error)
}

// overHTTP makes the calls of generated gRPC clients over an HTTP binding, so
// that a test is written once for all of them.
type overHTTP struct {
	base func() string
	wire wire
}

var _ grpc.ClientConnInterface = overHTTP{}

// do makes the request with the call's metadata as headers.
func (o overHTTP) do(ctx context.Context, method string, in any, accept string) (*http.Response, error) {
	req, err := o.wire.request(o.base(), method[strings.LastIndexByte(method, '/')+1:], in.(proto.Message))
	if err != nil {
		return nil, err
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	for key, values := range md {
		for _, v := range values {
			req.Header.Add(key, v)
		}
	}
	req.Header.Set("Accept", accept)
	return http.DefaultClient.Do(req.WithContext(ctx))
}

// Invoke implements grpc.ClientConnInterface.
func (o overHTTP) Invoke(ctx context.Context, method string, in, out any, _ ...grpc.CallOption) error {
	resp, err := o.do(ctx, method, in, "application/json")
	if err != nil {
		return err
	}
	return o.read(resp, out)
}

func (o overHTTP) read(resp *http.Response, out any) error {
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return o.decode(data, out)
}

func (o overHTTP) decode(data []byte, out any) error {
	raw, err := o.wire.result(data)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(raw, out.(proto.Message)) // strict: unknown fields are errors
}

// NewStream implements grpc.ClientConnInterface.
func (o overHTTP) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return &eventStream{o: o, ctx: ctx, method: method}, nil
}

// An eventStream is a server-streaming call over server-sent events.
type eventStream struct {
	grpc.ClientStream
	o      overHTTP
	ctx    context.Context
	method string
	resp   *http.Response
	lines  *bufio.Scanner
}

func (s *eventStream) Context() context.Context { return s.ctx }
func (s *eventStream) CloseSend() error         { return nil }

func (s *eventStream) SendMsg(in any) (err error) {
	if s.resp, err = s.o.do(s.ctx, s.method, in, "text/event-stream"); err == nil {
		s.lines = bufio.NewScanner(s.resp.Body)
		s.lines.Buffer(nil, 4<<20)
		context.AfterFunc(s.ctx, func() { _ = s.resp.Body.Close() })
	}
	return err
}

func (s *eventStream) RecvMsg(out any) error {
	if !strings.HasPrefix(s.resp.Header.Get("Content-Type"), "text/event-stream") {
		if err := s.o.read(s.resp, out); err != nil {
			return err
		}
		return fmt.Errorf("a stream was answered with %s", s.resp.Header.Get("Content-Type"))
	}
	for s.lines.Scan() {
		if data, ok := bytes.CutPrefix(s.lines.Bytes(), []byte("data: ")); ok {
			return s.o.decode(data, out)
		}
	}
	_ = s.resp.Body.Close()
	if err := s.lines.Err(); err != nil {
		return err
	}
	return io.EOF
}

// restWire is HTTP+JSON (A2A v1.0 §11.3).
type restWire struct{}

// restRoutes are written down from the specification, not taken from what the
// gateway serves. Names in braces are fields of the request; verbs other than
// POST with a body have the other fields in their query.
var restRoutes = map[string]string{
	"SendMessage":                      "POST /message:send *",
	"SendStreamingMessage":             "POST /message:stream *",
	"GetTask":                          "GET /tasks/{id}",
	"ListTasks":                        "GET /tasks",
	"CancelTask":                       "POST /tasks/{id}:cancel *",
	"SubscribeToTask":                  "POST /tasks/{id}:subscribe",
	"CreateTaskPushNotificationConfig": "POST /tasks/{taskId}/pushNotificationConfigs *",
	"GetTaskPushNotificationConfig":    "GET /tasks/{taskId}/pushNotificationConfigs/{id}",
	"ListTaskPushNotificationConfigs":  "GET /tasks/{taskId}/pushNotificationConfigs",
	"DeleteTaskPushNotificationConfig": "DELETE /tasks/{taskId}/pushNotificationConfigs/{id}",
	"GetExtendedAgentCard":             "GET /extendedAgentCard",
}

func (restWire) request(base, method string, in proto.Message) (*http.Request, error) {
	raw, err := protojson.Marshal(in)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	route := strings.Fields(restRoutes[method])
	path := route[1]
	for name, value := range fields {
		if strings.Contains(path, "{"+name+"}") {
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(fmt.Sprint(value)))
			delete(fields, name)
		}
	}
	if len(route) == 2 {
		query := url.Values{}
		for name, value := range fields {
			query.Set(name, fmt.Sprint(value))
		}
		return http.NewRequest(route[0], base+path+"?"+query.Encode(), http.NoBody)
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(route[0], base+path, bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

func (restWire) result(data []byte) (json.RawMessage, error) {
	var body struct {
		Error *struct {
			Status, Message string
			Details         []json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &body); err != nil || body.Error == nil {
		return data, err
	}
	return nil, statusOf(codes.Code(code.Code_value[body.Error.Status]), body.Error.Message, body.Error.Details)
}

// rpcWire is JSON-RPC 2.0 (A2A v1.0 §9).
type rpcWire struct{}

func (rpcWire) request(base, method string, in proto.Message) (*http.Request, error) {
	params, err := protojson.Marshal(in)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "call-1", "method": method, "params": json.RawMessage(params)})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodPost, base+"/", bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// rpcCodes are what the codes of A2A v1.0.1 §5.4 are over gRPC.
var rpcCodes = map[int]codes.Code{
	-32001: codes.NotFound, -32002: codes.FailedPrecondition, -32003: codes.FailedPrecondition, -32004: codes.FailedPrecondition,
	-32005: codes.InvalidArgument, -32006: codes.Internal, -32007: codes.FailedPrecondition, -32008: codes.FailedPrecondition,
	-32009: codes.FailedPrecondition, -32602: codes.InvalidArgument,
}

func (rpcWire) result(data []byte) (json.RawMessage, error) {
	var body struct {
		JSONRPC, ID string
		Result      json.RawMessage
		Error       *struct {
			Code    int
			Message string
			Data    []json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return nil, err
	}
	if body.JSONRPC != "2.0" || body.ID != "call-1" || (body.Result == nil) == (body.Error == nil) {
		return nil, fmt.Errorf("not a response: %s", data)
	}
	if body.Error == nil {
		return body.Result, nil
	}
	c, known := rpcCodes[body.Error.Code]
	if !known {
		c = codes.Unknown
	}
	if c == codes.InvalidArgument && bytes.Contains(bytes.Join(rawDetails(body.Error.Data), nil), []byte(`"reason":"NOT_FOUND"`)) {
		c = codes.NotFound // of what the params name, and is no task
	}
	return nil, statusOf(c, body.Error.Message, body.Error.Data)
}

// rawDetails are the details without blanks.
func rawDetails(all []json.RawMessage) (out [][]byte) {
	for _, raw := range all {
		var b bytes.Buffer
		if json.Compact(&b, raw) == nil {
			out = append(out, b.Bytes())
		}
	}
	return out
}

// statusOf makes the gRPC error that an HTTP error stands for.
func statusOf(c codes.Code, message string, details []json.RawMessage) error {
	st := &spb.Status{Code: int32(c), Message: message}
	for _, raw := range details {
		d := new(anypb.Any)
		if err := protojson.Unmarshal(raw, d); err != nil {
			return fmt.Errorf("detail %s: %w", raw, err)
		}
		st.Details = append(st.Details, d)
	}
	return status.FromProto(st).Err()
}

// bindings are connections to the mesh, by the name of the binding.
func (m *testMesh) bindings(t testing.TB) map[string]grpc.ClientConnInterface {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	base := func() string { return "http://" + m.web() }
	return map[string]grpc.ClientConnInterface{
		"gRPC": m.raw(t), "HTTP+JSON": overHTTP{base, restWire{}}, "JSON-RPC": overHTTP{base, rpcWire{}},
	}
}
