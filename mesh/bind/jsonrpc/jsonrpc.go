// Package jsonrpc serves the JSON-RPC 2.0 binding of A2A (A2A v1.0 §9): all
// methods of the service, unary ones as one JSON answer and streaming ones as
// server-sent events.
//
// # What it guarantees
//
// Methods have their gRPC names (SendMessage) and are found in the service's
// descriptor, so that no method is treated in a way of its own. Headers, the
// call to the node, cursors, heartbeats and the end of streams are those of
// package rest, through [rest.Binding]: the bindings do not drift apart.
//
// Every answer carries the id of its request, a string, a number or null,
// written as it came. A request without an id is answered with id null: A2A has
// no notifications. Batches are refused. Errors have the codes of A2A v1.0.1
// §5.4 and always an ErrorInfo in their data. The HTTP code is 200, but 401 and
// 403 for who may not call, and 405, 408, 413 and 415 for what was not read.
//
// # Concurrency
//
// The handler is safe for concurrent use. A stream has a goroutine beside the
// request's own while it writes, which ends before the request does.
//
// # What it is not
//
// It does not look at paths, so it can be mounted anywhere, and knows neither
// tasks nor agents. It does not speak A2A v0.3, whose method names contain a
// slash; see [Options].
package jsonrpc

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc"
)

// Options are the choices of a handler. The zero value of each has the default
// that it names.
type Options struct {
	// V03 serves requests whose method name contains a slash, as those of A2A
	// v0.3 do ("message/send"). It gets them with their body unread. Without
	// V03 they are unknown methods.
	V03 http.Handler
	// PlainRefusals answers a streaming call that is not accepted with
	// application/json also to a client that asks for text/event-stream. The
	// conformance kit of A2A expects that; by default such a client gets the
	// error as its stream's only event, see refuse.
	PlainRefusals bool
	// MaxBody is the longest request body in bytes; the default is that of
	// package rest.
	MaxBody int64
	// Heartbeat is how long a stream is silent before it sends a comment; the
	// default is that of package rest.
	Heartbeat time.Duration
	// Logger gets what clients are not told; the default discards it.
	Logger *slog.Logger
}

// method is one RPC of the service.
type method struct {
	name    string // as gRPC wants it: "/lf.a2a.v1.A2AService/SendMessage"
	in, out protoreflect.MessageType
	streams bool
}

// handler is what the requests share.
type handler struct {
	binding *rest.Binding
	opts    Options
	methods map[string]method
}

// New returns the handler of JSON-RPC requests over conn, which leads to the
// services. When ctx ends, open streams end with an error, so that a server can
// shut down; other requests go on. It refuses negative options with [mesh.Invalid].
func New(ctx context.Context, conn rpc.Conn, opts Options) (http.Handler, error) {
	const op = "jsonrpc.New"
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	binding, err := rest.NewBinding(conn, rest.Options{MaxBody: opts.MaxBody, Heartbeat: opts.Heartbeat, Logger: opts.Logger})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	methods, err := methodsOf(a2apb.File_a2av1_proto.Services().ByName("A2AService"))
	if err != nil {
		return nil, mesh.Errorf(mesh.Unknown, op, "the service is not linked in: %w", err)
	}
	h := &handler{binding: binding, opts: opts, methods: methods}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(ctx, w, r) }), nil
}

func methodsOf(service protoreflect.ServiceDescriptor) (map[string]method, error) {
	all := map[string]method{}
	for i := range service.Methods().Len() {
		d := service.Methods().Get(i)
		in, err := protoregistry.GlobalTypes.FindMessageByName(d.Input().FullName())
		if err != nil {
			return nil, err
		}
		out, err := protoregistry.GlobalTypes.FindMessageByName(d.Output().FullName())
		if err != nil {
			return nil, err
		}
		name := "/" + string(service.FullName()) + "/" + string(d.Name())
		all[string(d.Name())] = method{name, in, out, d.IsStreamingServer()}
	}
	return all, nil
}

// serve answers one request. The name of the method is looked at before
// anything else that it says, and its headers before its params.
func (h *handler) serve(closing context.Context, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		h.write(w, http.StatusMethodNotAllowed, noID.failed(envelopeFault("HTTP method", "must be POST")))
		return
	}
	// Who names no version is more often of the older one, which refuses in its own words.
	if h.opts.V03 != nil && r.Header.Get("A2A-Version") == "" && h.binding.Known(r) != nil {
		h.opts.V03.ServeHTTP(w, r)
		return
	}
	raw, code, bad := h.binding.ReadBody(w, r)
	if bad != nil {
		h.write(w, code, noID.failed(unread(bad)))
		return
	}
	req, fault := parse(raw)
	if h.opts.V03 != nil && strings.Contains(req.method, "/") {
		inner := r.WithContext(r.Context()) // a copy, whose body can be read again
		inner.Body = io.NopCloser(bytes.NewReader(raw))
		h.opts.V03.ServeHTTP(w, inner)
		return
	}
	if fault != nil {
		h.write(w, http.StatusOK, req.id.failed(fault))
		return
	}
	m, ok := h.methods[req.method]
	if !ok {
		h.write(w, http.StatusOK, req.id.failed(unknownMethod(req.method)))
		return
	}
	h.call(closing, w, r, m, req)
}

// call makes the call that the request is.
func (h *handler) call(closing context.Context, w http.ResponseWriter, r *http.Request, m method, req request) {
	refuse := func(st *status.Status) { h.refuse(w, r, m, req.id, st) }
	admitted, bad := h.binding.Admit(r)
	if bad != nil {
		refuse(bad)
		return
	}
	in := m.in.New().Interface()
	if bad := req.decode(in); bad != nil {
		refuse(bad)
		return
	}
	if m.streams {
		h.binding.Stream(closing, w, admitted, rest.Call{Method: m.name, In: in, Out: m.out}, rest.Framing{
			Before: req.id.before(),
			After:  after,
			Error:  func(st *status.Status) []byte { return req.id.failed(faultOf(st)) },
			Refuse: refuse,
		})
		return
	}
	out := m.out.New().Interface()
	if err := h.binding.Invoke(w, admitted, m.name, in, out); err != nil {
		refuse(status.Convert(err))
		return
	}
	body, err := rest.AppendMessage([]byte(req.id.before()), out)
	if err != nil {
		h.opts.Logger.Error("answer not shown", "method", m.name, "err", err)
		refuse(status.New(codes.Internal, "the answer cannot be shown as JSON"))
		return
	}
	h.write(w, http.StatusOK, append(body, after...))
}

// refuse answers a call that was not accepted.
//
// A2A v1.0 §9 has such an answer as application/json. But a client that asked
// for a stream (Accept: text/event-stream) may read nothing else: the official
// one for Go takes JSON for a stream without events, and no error, and the one
// for JavaScript for a broken server. Both understand the error as the only
// event of a stream, and so does the one for Python, so that is what they get.
// A client that did not ask for a stream gets JSON, and so does everyone whose
// answer has an HTTP code of its own, which all of them look at first.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, m method, id id, st *status.Status) {
	body := id.failed(faultOf(st))
	switch code := httpCode(st); {
	case code != http.StatusOK:
		if code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		h.write(w, code, body)
	case m.streams && !h.opts.PlainRefusals && wantsEvents(r):
		h.send(w, http.StatusOK, "text/event-stream", "no-cache", "data: "+string(body)+"\n\n")
	default:
		h.write(w, code, body)
	}
}

// wantsEvents reports whether the client names the type of event streams among
// those that it accepts.
func wantsEvents(r *http.Request) bool {
	for _, line := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(one, ";")
			if strings.EqualFold(strings.TrimSpace(name), "text/event-stream") {
				return true
			}
		}
	}
	return false
}

// write sends one JSON-RPC response.
func (h *handler) write(w http.ResponseWriter, code int, body []byte) {
	h.send(w, code, "application/json", "no-store", string(body)+"\n")
}

func (h *handler) send(w http.ResponseWriter, code int, contentType, cacheControl, body string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", cacheControl)
	w.WriteHeader(code)
	if _, err := io.WriteString(w, body); err != nil {
		h.opts.Logger.Debug("answer not delivered", "err", err)
	}
}
