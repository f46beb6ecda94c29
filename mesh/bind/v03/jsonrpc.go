package v03

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	legacy "github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2apb/pbconv"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh/bind/jsonrpc"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc"
)

const jsonrpcVersion = "2.0"

// maxID bounds a request's id in bytes of JSON, which every event repeats.
const maxID = 1024

// rpcServer serves the JSON-RPC binding.
type rpcServer struct {
	*web
	methods map[string]method
	plain   bool // see Options.PlainRefusals
}

// NewJSONRPC returns the handler of the JSON-RPC binding of v0.3, for requests
// whose method has a slash in its name (see package jsonrpc). conn leads to the
// services. When ctx ends, open streams do. It refuses negative options with
// [mesh.Invalid].
func NewJSONRPC(ctx context.Context, conn rpc.Conn, opts Options) (http.Handler, error) {
	web, err := newWeb(ctx, "v03.NewJSONRPC", conn, opts)
	if err != nil {
		return nil, err
	}
	return &rpcServer{web: web, methods: methods(opts.ReturnEarly), plain: opts.PlainRefusals}, nil
}

// envelope is a JSON-RPC request object.
type envelope struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// parse reads a request, and what can be read of one that is wrong.
func parse(raw []byte) (envelope, *fault) {
	var e envelope
	err := json.Unmarshal(raw, &e)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return envelope{ID: json.RawMessage("null")}, faultOf(invalid("body", "is not JSON: %v (byte %d)", syntax, syntax.Offset)).as(jsonrpc.CodeParse)
	case !utf8.Valid(raw):
		return envelope{ID: json.RawMessage("null")}, faultOf(invalid("body", "is not JSON: it has bytes that are not UTF-8")).as(jsonrpc.CodeParse)
	case err != nil:
		return envelope{ID: json.RawMessage("null")}, faultOf(invalid("request", `must be an object with "jsonrpc", "id", "method" and "params"`)).as(jsonrpc.CodeInvalidRequest)
	}
	if len(e.ID) == 0 {
		e.ID = json.RawMessage("null")
	}
	if len(e.ID) > maxID || bytes.IndexByte([]byte("{[tf"), e.ID[0]) >= 0 {
		e.ID = json.RawMessage("null")
		return e, faultOf(invalid("id", "must be a string of at most %d bytes, a number or null", maxID)).as(jsonrpc.CodeInvalidRequest)
	}
	if e.Version != jsonrpcVersion {
		return e, faultOf(invalid("jsonrpc", "must be %q", jsonrpcVersion)).as(jsonrpc.CodeInvalidRequest)
	}
	return e, nil
}

func (e envelope) failed(f *fault) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"%s","id":%s,"error":%s}`, jsonrpcVersion, e.ID, f.json())
}

func (e envelope) before() string {
	return fmt.Sprintf(`{"jsonrpc":"%s","id":%s,"result":`, jsonrpcVersion, e.ID)
}

func (s *rpcServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		s.write(w, http.StatusMethodNotAllowed, envelope{ID: json.RawMessage("null")}.failed(
			faultOf(invalid("HTTP method", "must be POST")).as(jsonrpc.CodeInvalidRequest)))
		return
	}
	raw, code, bad := s.binding.ReadBody(w, r)
	if bad != nil {
		s.write(w, code, envelope{ID: json.RawMessage("null")}.failed(unread(bad)))
		return
	}
	req, fault := parse(raw)
	if fault != nil {
		s.write(w, http.StatusOK, req.failed(fault))
		return
	}
	m, ok := s.methods[req.Method]
	if !ok {
		s.write(w, http.StatusOK, req.failed(faultOf(invalid("method", "%q is not known; A2A 0.3 has methods such as message/send", clip(req.Method))).as(jsonrpc.CodeUnknownMethod)))
		return
	}
	s.call(w, r, m, req)
}

// call makes the call that the request is.
func (s *rpcServer) call(w http.ResponseWriter, r *http.Request, m method, req envelope) {
	refuse := func(st *status.Status) { s.refuse(w, r, m, req, st) }
	admitted, bad := s.admit(r)
	if bad != nil {
		refuse(bad)
		return
	}
	in, bad := m.decode(req.Params)
	if bad != nil {
		refuse(bad)
		return
	}
	w = legacyWriter{w}
	if m.streams {
		s.follow(w, admitted, rest.Call{Method: m.name, In: in, Out: eventType}, rest.Framing{
			Before: req.before(), After: "}",
			Message: func(b []byte, m proto.Message) ([]byte, error) {
				result, err := eventResult(m)
				if err != nil {
					return nil, err
				}
				return appendJSON(b, result)
			},
			Error:  func(st *status.Status) []byte { return req.failed(faultOf(st)) },
			Refuse: refuse,
		})
		return
	}
	out := m.out()
	if err := s.binding.Invoke(w, admitted, m.name, in, out); err != nil {
		refuse(status.Convert(err))
		return
	}
	result, err := m.encode(out)
	body := []byte(req.before())
	if err == nil {
		body, err = appendJSON(body, result)
	}
	if err != nil {
		refuse(s.untranslated(m.name, err))
		return
	}
	s.write(w, http.StatusOK, append(body, '}'))
}

func appendJSON(b []byte, v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(b, raw...), nil
}

// refuse answers a call that was not accepted. The HTTP code is 200 but for who
// may not call. A client that asked for a stream gets the error as its only
// event: the clients of v0.3 read nothing else.
func (s *rpcServer) refuse(w http.ResponseWriter, r *http.Request, m method, req envelope, st *status.Status) {
	f := faultOf(st)
	if m.cardOnly && f.Code == jsonrpc.CodeUnsupportedOperation {
		f.Code = jsonrpc.CodeNoExtendedCard // v0.3 has no other word for having none
	}
	body := req.failed(f)
	switch code := httpCodeOf(st); {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		f.head(w.Header(), code)
		s.write(w, code, body)
	case m.streams && !s.plain && wantsEvents(r):
		w.Header().Set("Content-Type", mimeEvents)
		w.Header().Set("Cache-Control", "no-cache")
		s.send(w, http.StatusOK, "data: "+string(body)+"\n\n")
	default:
		s.write(w, http.StatusOK, body)
	}
}

// write sends one JSON body.
func (h *web) write(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", mimeJSON)
	w.Header().Set("Cache-Control", "no-store")
	h.send(w, code, string(body)+"\n")
}

func (h *web) send(w http.ResponseWriter, code int, body string) {
	w.WriteHeader(code)
	if _, err := io.WriteString(w, body); err != nil { //nolint:gosec // G705: JSON or events, which browsers do not sniff
		h.logger.Debug("answer not delivered", "err", err)
	}
}

// clip shortens what a client sent for a message to the client.
func clip(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// params reads the params into v. They are checked as v1.0 checks its own, for
// depth and encoding, before they become Go values.
func params[T any](raw json.RawMessage) (*T, *status.Status) {
	v := new(T)
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		return nil, invalid("params", "must be an object")
	}
	if bad := rest.Decode(raw, &structpb.Struct{}); bad != nil {
		said := bad.Proto() // its line and column count within the params
		said.Message = "params: " + said.GetMessage()
		return nil, status.FromProto(said)
	}
	err := json.Unmarshal(raw, v)
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped):
		return nil, invalid("params."+mistyped.Field, "must not be a JSON %s", mistyped.Value)
	case err != nil:
		return nil, invalid("params", "%s", clip(err.Error()))
	}
	return v, nil
}

// sendParams translates the params of message/send and message/stream. What
// v0.3's own proto cannot say is taken from them: where the client does not say whether a
// message is waited for, it is unless early is set, and a history of 0 is none.
func sendParams(raw json.RawMessage, early bool) (proto.Message, *status.Status) {
	p, bad := params[legacy.MessageSendParams](raw)
	if bad != nil {
		return nil, bad
	}
	pb, err := pbconv.ToProtoSendMessageRequest(p)
	if err != nil {
		return nil, invalid("params.message", "%s", clip(err.Error()))
	}
	out := fromSend(pb, early)
	if c := out.GetConfiguration(); c != nil && p.Config != nil {
		if c.ReturnImmediately = early; p.Config.Blocking != nil {
			c.ReturnImmediately = !*p.Config.Blocking
		}
		if c.HistoryLength, bad = length(p.Config.HistoryLength); bad != nil {
			return nil, bad
		}
	}
	return out, nil
}

// length bounds a history length; v1.0 refuses negative ones.
func length(n *int) (*int32, *status.Status) {
	if n == nil {
		return nil, nil
	}
	v := int32(*n)
	if int(v) != *n {
		return nil, invalid("historyLength", "is out of range, and is %d", *n)
	}
	return &v, nil
}

var eventType = (&a2apb.StreamResponse{}).ProtoReflect().Type()

// eventResult is the result that an event is.
func eventResult(m proto.Message) (any, error) {
	r, ok := m.(*a2apb.StreamResponse)
	if !ok {
		return nil, fmt.Errorf("v03: a stream has events, not %T", m)
	}
	return pbconv.FromProtoStreamResponse(toEvent(r))
}
