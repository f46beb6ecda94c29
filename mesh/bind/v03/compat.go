// Package v03 serves clients of A2A v0.3 beside those of v1.0: over gRPC as
// a2a.v1.A2AService ([NewServer]), over JSON-RPC by the methods with a slash in
// their name ([NewJSONRPC]), and over HTTP+JSON below /v1/ ([NewREST]).
//
// # How a call goes through
//
// Everything is translated to a call of the v1.0 service, which alone decides.
// Over gRPC that is a call in the same process, in the context in which the
// interceptors of package rpc put the caller: it is admitted, counted and
// logged once, as a2a.v1, and nothing about it is sent a second time. Over HTTP
// it is a call by [rpc.Conn] through [rest.Binding], as for every other binding:
// what the client says of itself passes as it came and is checked by the same
// interceptors. Neither way adds a claim, so this package
// can neither lose an identity nor forge one.
//
// The translation goes over the messages of the v0.3 proto: those are what gRPC
// sends, and the JSON of the other two bindings is made from them.
//
// # What it guarantees
//
// Answers have the shapes of v0.3 and nothing of v1.0: "kind", lower-case
// states and bare results in JSON-RPC; "content" and "final" in REST; errors
// whose "data" is an object. A stream ends with the event that is final: the
// one that ends the task or asks the user. That holds for resubscribing too,
// where v1.0 goes on. A stream that would end with a task, as for a message
// that was sent before, gets a final status of its own.
//
// The webhooks that it is told of are marked as those of v0.3, and [EncodePush]
// makes what they are sent.
//
// Events are translated one by one: a stream costs what its events do. Their
// ids in server-sent events are those of v1.0, so that Last-Event-ID works.
//
// Only errors have no exact counterpart everywhere: v0.3 has no code for a
// version or an extension that is not supported, which are "unsupported
// operation" there.
//
// # Concurrency
//
// All handlers are safe for concurrent use. Streams over HTTP have the goroutine
// of package rest; nothing else here starts any.
//
// # What it is not
//
// It is no client of v0.3 agents, and does not know what a task is: whatever
// v1.0 refuses is refused here.
package v03

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc"
)

// Version is the version of A2A that this package speaks.
const Version = "0.3"

// Options are the choices of the handlers for HTTP. The zero value of each has
// the default that it names.
type Options struct {
	// MaxBody is the longest request body in bytes; the default is that of
	// package rest.
	MaxBody int64
	// Heartbeat is how long a stream is silent before it sends a comment; the
	// default is that of package rest.
	Heartbeat time.Duration
	// ReturnEarly returns the task of a message at once where the message does not say
	// whether to wait for the answer; by default it is waited for.
	ReturnEarly bool
	// PlainRefusals is that of package jsonrpc.
	PlainRefusals bool
	// Logger gets what clients are not told; the default discards it.
	Logger *slog.Logger
}

// web is what the handlers for HTTP share.
type web struct {
	binding *rest.Binding
	logger  *slog.Logger
	// follow is the binding's Stream, which the handler's context ends.
	follow func(http.ResponseWriter, *http.Request, rest.Call, rest.Framing)
}

func newWeb(ctx context.Context, op string, conn rpc.Conn, opts Options) (*web, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	binding, err := rest.NewBinding(turns{conn}, rest.Options{MaxBody: opts.MaxBody, Heartbeat: opts.Heartbeat, Logger: opts.Logger})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	follow := func(w http.ResponseWriter, r *http.Request, c rest.Call, f rest.Framing) {
		binding.Stream(ctx, w, r, c, f)
	}
	return &web{binding: binding, logger: opts.Logger, follow: follow}, nil
}

// Headers of v0.3 and of v1.0.
const (
	headerLegacyExtensions = "X-A2A-Extensions"
	headerExtensions       = "A2A-Extensions"
	headerVersion          = "A2A-Version"
	keyLegacyExtensions    = "x-a2a-extensions"
)

// admit returns the request as the v1.0 service wants it, or what is wrong with
// its headers.
func (h *web) admit(r *http.Request) (*http.Request, *status.Status) {
	version := r.Header.Get(headerVersion)
	if version == "" {
		version = r.URL.Query().Get(headerVersion)
	}
	if !spoken(version) {
		return nil, status.Convert(rpc.ToStatus(versionError("v03.admit", version)))
	}
	inner := r.WithContext(r.Context())
	inner.Header = r.Header.Clone()
	inner.Header.Set(headerVersion, rpc.Version)
	inner.Header.Set(rpc.KeyPushShape, rpc.PushShapeV03)
	for _, v := range r.Header.Values(headerLegacyExtensions) {
		inner.Header.Add(headerExtensions, v)
	}
	inner.Header.Del(headerLegacyExtensions)
	return h.binding.Admit(inner)
}

// spoken reports whether a request that says this version means v0.3: how it
// came here says so already.
func spoken(version string) bool {
	return version == "" || version == Version || strings.HasPrefix(version, Version+".")
}

func versionError(op, version string) *mesh.Error {
	const most = 32
	if len(version) > most {
		version = strings.ToValidUTF8(version[:most], "") + "…"
	}
	return &mesh.Error{Code: mesh.Precondition, Op: op, Field: "a2a-version", Reason: "VERSION_NOT_SUPPORTED",
		Detail: "This is an address of A2A 0.3, and the request says A2A version " + version +
			"; say 0.3 or nothing, or use the methods of 1.0"}
}

// legacyWriter gives the header for extensions the name that it has in v0.3.
type legacyWriter struct{ http.ResponseWriter }

func (w legacyWriter) WriteHeader(code int) {
	h := w.Header()
	for _, v := range h.Values(headerExtensions) {
		h.Add(headerLegacyExtensions, v)
	}
	h.Del(headerExtensions)
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (w legacyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// untranslated is the error of an answer that has no form in v0.3.
func (h *web) untranslated(method string, err error) *status.Status {
	h.logger.Error("answer not translated", "method", method, "err", err)
	return status.New(codes.Internal, "the answer cannot be shown in A2A 0.3")
}
