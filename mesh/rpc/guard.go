package rpc

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/telemetry"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// A guard stands before the handlers of a server.
type guard struct {
	auth       Authenticator
	domain     string // of the SPIFFE IDs of agents
	stands     func(mesh.AgentID, *x509.Certificate) bool
	authorizer Authorizer // nil for none
	limiter    Limiter
	logins     *logins
	auditor    Auditor // nil for none
	logger     *slog.Logger
	telemetry  *telemetry.Telemetry // nil for none
	names      map[string]string    // of the methods that there are, as telemetry has them
	open       []string
	streams    *streams
	arrivals   *arrivals
	errors     ErrorTable
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	begun := time.Now()
	arrived(ctx, req)
	defer over(ctx)
	ctx, err = g.admit(ctx, info.FullMethod, req, begun)
	if err != nil {
		g.refused(ctx, info.FullMethod, req, err)
	} else if done, failed := g.act(ctx, info.FullMethod, req); failed != nil {
		err = failed
	} else {
		standing, forget := g.standing(ctx, info.FullMethod)
		resp, err = g.handle(standing, info.FullMethod, req, handler)
		g.acted(ctx, info.FullMethod, req, resp, err, done)
		err = cutBy(standing, err)
		forget()
	}
	g.report(ctx, info.FullMethod, begun, err)
	if err != nil {
		return nil, g.errors.ToStatus(err)
	}
	return resp, nil
}

func (g *guard) handle(ctx context.Context, method string, req any, handler grpc.UnaryHandler) (resp any, err error) {
	defer g.recovered(ctx, method, &err)
	return handler(ctx, req)
}

// stream has few and small frames where the handler waits: what a stream costs in which
// nothing happens is its stack, and that is halved when little of it is in use.
func (g *guard) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	begun := time.Now()
	s, acted, leave, err := g.begin(ss, info.FullMethod, begun)
	if err == nil {
		err = g.handleStream(srv, s, info.FullMethod, handler)
		leave()
		g.acted(s.ctx, info.FullMethod, nil, nil, err, acted)
		err = cutBy(s.ctx, err)
	}
	over(ss.Context())
	g.report(s.ctx, info.FullMethod, begun, err)
	return g.errors.ToStatus(err)
}

// begin admits the stream, has it recorded and returns it as its handler sees it. With an
// error, too, the stream has the call in its context, as far as that is known.
func (g *guard) begin(ss grpc.ServerStream, method string, begun time.Time) (s *serverStream, acted func(any, error), leave func(), err error) {
	ctx, leave, err := g.enter(ss.Context(), method, begun)
	if err != nil {
		g.refused(ctx, method, nil, err)
	} else if acted, err = g.act(ctx, method, nil); err != nil {
		leave()
	}
	return &serverStream{ss, ctx}, acted, leave, err
}

func (g *guard) handleStream(srv any, s *serverStream, method string, handler grpc.StreamHandler) (err error) {
	defer g.recovered(s.ctx, method, &err)
	return handler(srv, s)
}

// enter admits a stream as admit does, as one more that is open until done is called
// or what it was admitted under expires.
func (g *guard) enter(ctx context.Context, method string, begun time.Time) (_ context.Context, done func(), err error) {
	ctx, err = g.admit(ctx, method, nil, begun)
	if err != nil {
		return ctx, nil, err
	}
	leave, err := g.streams.enter(ctx, g.isOpen(method))
	if err != nil {
		return ctx, nil, err
	}
	ctx, forget := g.kept(ctx, method)
	return ctx, func() { forget(); leave() }, nil
}

// kept returns ctx, which ends with what the call was admitted under, until done is called.
func (g *guard) kept(ctx context.Context, method string) (_ context.Context, done func()) {
	ctx, cancel := whileProved(ctx)
	ctx, forget := g.streams.keep(ctx, method)
	return ctx, func() { forget(); cancel() }
}

// standing is kept for unary calls, which may wait for long: those with a credential. What
// agents call for their work does not wait.
func (g *guard) standing(ctx context.Context, method string) (_ context.Context, done func()) {
	if call, _ := mesh.CallFrom(ctx); call.Principal.Credential == "" || call.Principal.Grant != nil {
		return ctx, func() {}
	}
	return g.kept(ctx, method)
}

// ended is the cause with which the context of a call ends before its handler does.
type ended struct{ error }

// cutBy is why a call ended before its handler did, instead of the error that came of it.
func cutBy(ctx context.Context, err error) error {
	if why := (ended{}); err != nil && errors.As(context.Cause(ctx), &why) {
		return why.error
	}
	return err
}

// ErrEnded ends the calls of a credential that does not count any more.
var ErrEnded = &mesh.Error{Code: mesh.Unauthenticated, Op: "rpc.stream", Detail: "the credential of this call was revoked or has expired; call again with another one"}

// whileProved returns ctx, which ends with the grant or the credential that it was
// admitted under: who had one once does not listen for ever.
func whileProved(ctx context.Context) (context.Context, context.CancelFunc) {
	call, _ := mesh.CallFrom(ctx)
	p := call.Principal
	switch {
	case p.Grant != nil:
		return context.WithDeadline(ctx, time.Unix(p.Grant.Expires, 0))
	case p.Ended != nil:
		ctx, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(p.Ended, func() { cancel(ended{ErrEnded}) })
		return ctx, func() { stop(); cancel(nil) }
	case !p.Expires.IsZero():
		return context.WithDeadlineCause(ctx, p.Expires, ended{ErrEnded})
	}
	return ctx, func() {}
}

// A serverStream is a stream with the call in its context, where gRPC wants it.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg reads nothing that came after the end of what the stream was admitted under.
func (s *serverStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	arrived(s.ctx, m)
	return s.ctx.Err()
}

// tap finds out who calls when a call's headers have come, before any of its message is
// read: nobody sends one who is unknown. It does not wait for anything.
func (g *guard) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	begun := time.Now()
	call, err := g.identify(ctx, info.FullMethodName, begun)
	if err != nil {
		ctx = mesh.WithCall(ctx, call)
		g.refused(ctx, info.FullMethodName, nil, err)
		g.report(ctx, info.FullMethodName, begun, err)
		return ctx, g.errors.ToStatus(err)
	}
	if call.Room == 0 { // what clients of gRPC take that say nothing
		call.Room = mesh.MaxWire
	}
	if ctx, err = g.arrivals.begin(ctx, call, g.isOpen(info.FullMethodName), begun); err != nil {
		return ctx, g.errors.ToStatus(err)
	}
	return ctx, nil
}

// identify returns the call with the identity that its metadata proves; for an open
// method there is none.
func (g *guard) identify(ctx context.Context, method string, now time.Time) (mesh.Call, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	in, err := parse(md)
	if err != nil {
		return mesh.Call{}, err
	}
	call := in.call
	certificate := PeerCertificate(ctx)
	call.Peer = g.peerAgent(certificate)
	if g.isOpen(method) {
		call.GrantToken, call.TicketToken, call.Holder = "", "", "" // not checked, so not passed on
		return call, nil
	}
	if g.auth == nil {
		return call, mesh.Errorf(mesh.Unauthenticated, "rpc.admit", "this server accepts no callers; it was started without auth")
	}
	call.Principal, err = g.auth.Authenticate(ctx, Credentials{
		Method: method, Authorization: in.auth, Certificate: certificate, Grant: call.GrantToken, Ticket: call.TicketToken, Tenant: in.tenant,
		User: in.user, Thread: call.Thread, Execution: call.Execution,
	})
	if mesh.IsCode(err, mesh.Unauthenticated) {
		err = g.logins.refuse(ctx, method, err, now)
	}
	if err != nil {
		return call, mesh.Wrap("rpc.admit", err)
	}
	if gr := call.Principal.Grant; gr != nil {
		// What the grant says is proved; that it was said in clear as well
		// adds nothing.
		call.Thread, call.Execution = gr.Thread, gr.Execution
		if call.ParentTask == "" {
			call.ParentTask = string(gr.Parent)
		}
	} else if call.GrantToken != "" || call.TicketToken != "" {
		return call, mesh.Errorf(mesh.Unauthenticated, "rpc.admit", "grants are not accepted here; leave %s and %s out", KeyGrant, KeyTicket)
	}
	return call, nil
}

// admit returns ctx with the call's identity, or ctx as it is and why the call
// is refused.
func (g *guard) admit(ctx context.Context, method string, message any, now time.Time) (context.Context, error) {
	ctx = g.telemetry.In(ctx)
	if arrivalOf(ctx) == nil { // it came in the process
		call, err := g.identify(ctx, method, now)
		ctx = mesh.WithCall(ctx, call)
		if err != nil {
			return ctx, err
		}
	}
	if g.isOpen(method) {
		return ctx, nil
	}
	call, _ := mesh.CallFrom(ctx)
	if err := g.limit(call.Principal, now); err != nil || g.authorizer == nil {
		return ctx, err
	}
	policy, err := g.authorizer.Authorize(ctx, call.Principal, method, message)
	if policy != "" && err == nil {
		call.Policy = policy
		ctx = mesh.WithCall(ctx, call)
	}
	return ctx, mesh.Wrap("rpc.admit", err)
}

// limit applies the rate limit. Calls under a grant are the mesh's own work
// for a call that was counted.
func (g *guard) limit(p mesh.Principal, now time.Time) error {
	if g.limiter == nil || p.Grant != nil {
		return nil
	}
	wait, ok := g.limiter.Allow(string(p.Tenant)+"/"+p.User, now)
	if ok {
		return nil
	}
	most := int64(g.limiter.Burst())
	return limited(mesh.Errorf(mesh.Exhausted, "rpc.limit",
		"too many calls: the limit is %v for each user; try again in %v", g.limiter, roundUp(wait)),
		mesh.LimitTripped{Limit: "user.requests", Used: most, Most: most}, wait)
}

// limited makes e the refusal of what would exceed the limit, for programs too.
func limited(e *mesh.Error, l mesh.LimitTripped, wait time.Duration) *mesh.Error {
	e.Reason, e.Limit = "LIMIT:"+l.Limit, &l
	return WithRetryAfter(e, wait)
}

// roundUp makes d short to read without promising too early a success.
func roundUp(d time.Duration) time.Duration {
	const step = 100 * time.Millisecond
	return (d + step - 1).Truncate(step)
}

// recovered turns a panic of the handler that defers it into an error without a text.
func (g *guard) recovered(ctx context.Context, method string, err *error) {
	if p := recover(); p != nil {
		g.logger.ErrorContext(ctx, "panic in a handler", "method", method,
			"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = &mesh.Error{Code: mesh.Unknown, Op: "rpc.recovered", Err: fmt.Errorf("panic: %v", p)}
	}
}

// a2aService is the prefix of the methods by which agents are called.
const a2aService = "/lf.a2a.v1.A2AService/"

// report tells of a call, and writes its record: at debug, but at info when an agent
// calls an agent, and at error when the call failed by our own fault.
func (g *guard) report(ctx context.Context, method string, begun time.Time, err error) {
	if g.telemetry != nil && !g.isOpen(method) {
		g.telemetry.RPC(ctx, g.names[method], begun, status.Code(g.errors.ToStatus(err)).String())
	}
	call, _ := mesh.CallFrom(ctx)
	code := "ok"
	if err != nil {
		code = mesh.CodeOf(FromStatus(err)).String()
	}
	grant := call.Principal.Grant
	text, level := "call", slog.LevelDebug
	if grant != nil && strings.HasPrefix(method, a2aService) {
		text, level = "agent call", slog.LevelInfo
	}
	if code == mesh.Unknown.String() {
		level = slog.LevelError
	}
	if !g.logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("user", call.Principal.User),
		slog.String("code", code), slog.Duration("duration", time.Since(begun))}
	if grant != nil {
		attrs = append(attrs, slog.String("chain", strings.Join(grant.Agents(), " -> ")))
	}
	if err != nil {
		attrs = append(attrs, slog.String("err", err.Error()))
	}
	g.logger.LogAttrs(ctx, level, text, attrs...)
}
