package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what is served over HTTP.
const (
	maxRequest  = 1 << 20          // of a request, in bytes
	maxSessions = 4096             // at a time; who comes then is served without one
	idleSession = 30 * time.Minute // until a session is forgotten
)

// stateless is the first version of the protocol that has no sessions.
const stateless = "2026-07-28"

// Headers of the protocol.
const (
	headerVersion = "MCP-Protocol-Version"
	headerSession = "Mcp-Session-Id"
)

// A Handler is the server over streamable HTTP. It has to be closed.
//
// It authenticates nobody and refuses no web site: mount it behind what does,
// and have that put the identity into the request's context. Each request is
// served under its own identity.
//
// Since 2026-07-28 the protocol has no sessions. To clients of older versions,
// a session gives what needs more than one request: cancelling a call, being
// asked, and hearing an answer again that got lost. It is in this process, and of
// whoever began it. A request of a session that is not here, because another
// process has it or it was forgotten, is served for itself, without those.
type Handler struct {
	server           *server
	caller           func(ctx context.Context) (string, error)
	sessions         *sdk.Server
	alone, told, had http.Handler // without a session: in one piece, as a stream; with one
	closed           atomic.Bool
}

// NewHandler returns the server of the backend over HTTP. Caller says who the
// context of a request is of, as a text that no other caller has: sessions are
// their own callers'.
func NewHandler(b Backend, caller func(ctx context.Context) (string, error), o HandlerOptions) *Handler {
	s := newServer(b, o)
	h := &Handler{server: s, caller: caller, sessions: s.sdk()}
	one := s.sdk()
	get := func(of *sdk.Server) func(*http.Request) *sdk.Server {
		return func(*http.Request) *sdk.Server { return of }
	}
	serve := func(of *sdk.Server, o sdk.StreamableHTTPOptions) http.Handler {
		o.MaxRequestBodyBytes, o.PropagateRequestCancellation = maxRequest, true
		return h.identified(sdk.NewStreamableHTTPHandler(get(of), &o))
	}
	h.alone = serve(one, sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	h.told = serve(one, sdk.StreamableHTTPOptions{Stateless: true})
	h.had = serve(h.sessions, sdk.StreamableHTTPOptions{SessionTimeout: idleSession, EventStore: sdk.NewMemoryEventStore(nil)})
	return h
}

// Close ends all sessions, and what runs in them; no more begin.
func (h *Handler) Close() {
	h.closed.Store(true)
	for s := range h.sessions.Sessions() {
		_ = s.Close()
	}
}

// Wait returns when no call runs any more. No request may come meanwhile.
func (h *Handler) Wait() { h.server.running.Wait() }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(w, "the request is longer than 1 MiB; send less", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, "the request did not arrive as a whole", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var is struct {
		Method string
		Params struct {
			Meta struct {
				ProgressToken json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		}
	}
	_ = json.Unmarshal(body, &is) // what is none is refused below
	switch {
	case r.Header.Get(headerVersion) < stateless && (h.knows(r.Header.Get(headerSession)) || is.Method == "initialize" && h.room()):
		h.had.ServeHTTP(w, r)
	case len(is.Params.Meta.ProgressToken) > 0, strings.HasPrefix(is.Method, "subscriptions/"):
		h.told.ServeHTTP(w, r)
	default:
		h.alone.ServeHTTP(w, r)
	}
}

// knows reports whether there is a session of that id here.
func (h *Handler) knows(id string) bool {
	if id == "" {
		return false
	}
	for s := range h.sessions.Sessions() {
		if s.ID() == id {
			return true
		}
	}
	return false
}

// room reports whether there may be one session more.
func (h *Handler) room() bool {
	n := 0
	for range h.sessions.Sessions() {
		n++
	}
	return n < maxSessions && !h.closed.Load()
}

// inContext is the key of a request's context in what the SDK is told of its
// caller: a session outlives the requests, and serves each as who made it.
const inContext = "request"

// identified tells the SDK who makes a request, so that it lets nobody else into
// a session.
func (h *Handler) identified(next http.Handler) http.Handler {
	verify := func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		who, err := h.caller(ctx)
		if err != nil {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: who, Extra: map[string]any{inContext: ctx}}, nil
	}
	checked := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer known") // the credentials are in the context
		checked.ServeHTTP(w, r)
	})
}

// as returns ctx with the values of the request's context.
func as(ctx context.Context, extra *sdk.RequestExtra) (context.Context, context.CancelFunc) {
	if extra != nil && extra.TokenInfo != nil {
		if of, ok := extra.TokenInfo.Extra[inContext].(context.Context); ok {
			ctx = identity{ctx, of}
		}
	}
	// Why it ended is asked of this one, and not of the request's.
	return context.WithCancel(ctx)
}

// An identity is a context with the values of another one.
type identity struct {
	context.Context                 //nolint:containedctx // it is one
	of              context.Context //nolint:containedctx // that of a request
}

func (i identity) Value(key any) any {
	if v := i.of.Value(key); v != nil {
		return v
	}
	return i.Context.Value(key)
}
