package rpc

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"agentmesh/mesh"
)

// A StreamLimit bounds how many streaming calls are open at a time. 0 is no
// limit.
type StreamLimit struct {
	// PerUser is the most of one user of a tenant.
	PerUser int
	// Total is the most of all users together.
	Total int
}

// streamRetry is what a refused caller is told to wait: it cannot be known when
// a stream ends.
const streamRetry = 5 * time.Second

// streams counts the streaming calls that are open.
type streams struct {
	limit StreamLimit

	mu    sync.Mutex
	open  map[*stream]struct{}
	total int
	users map[streamUser]int // without zeros
}

// A stream is one that is open, or a unary call that may wait, with the call in its
// context, and what ends it.
type stream struct {
	ctx    context.Context //nolint:containedctx // the stream's
	method string
	end    context.CancelCauseFunc
}

type streamUser struct {
	tenant mesh.TenantID
	name   string
}

func newStreams(limit StreamLimit) *streams {
	return &streams{limit: limit, users: map[streamUser]int{}, open: map[*stream]struct{}{}}
}

// keep returns ctx for a call of the caller in it, which end may end until done is
// called.
func (s *streams) keep(ctx context.Context, method string) (_ context.Context, done func()) {
	kept := &stream{ctx: ctx, method: method}
	forget := func() {} // gRPC ends the context of a call that came
	if a := arrivalOf(ctx); a != nil {
		kept.end = a.end
	} else {
		ctx, kept.end = context.WithCancelCause(ctx)
		forget = func() { kept.end(nil) }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[kept] = struct{}{}
	return ctx, func() {
		forget()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, kept)
	}
}

// end ends the open streams for which over has an error, with that.
func (s *streams) end(over func(ctx context.Context, method string) error) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, one := range all {
		if err := over(one.ctx, one.method); err != nil {
			one.end(ended{err})
		}
	}
}

// enter counts a stream of the caller in ctx, or refuses it. The caller calls
// the function that it returns when the stream has ended. Streams under a grant
// are the mesh's own work, and those of open methods nobody's: they are not
// counted.
func (s *streams) enter(ctx context.Context, open bool) (func(), error) {
	const op = "rpc.streams"
	call, _ := mesh.CallFrom(ctx)
	if open || call.Principal.Grant != nil || s.limit == (StreamLimit{}) {
		return func() {}, nil
	}
	u := streamUser{call.Principal.Tenant, call.Principal.User}
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := s.limit.PerUser; most > 0 && s.users[u] >= most {
		return nil, limited(mesh.Errorf(mesh.Exhausted, op,
			"too many open streams: the limit is %d for each user; end one that you do not need, or poll with GetTask", most),
			mesh.LimitTripped{Limit: "user.streams", Used: int64(s.users[u]), Most: int64(most)}, streamRetry)
	}
	if most := s.limit.Total; most > 0 && s.total >= most {
		return nil, WithRetryAfter(mesh.Errorf(mesh.Exhausted, op,
			"the server has as many open streams as it may have; try again in %v, or poll with GetTask", streamRetry), streamRetry)
	}
	s.total++
	s.users[u]++
	return func() { s.leave(u) }, nil
}

func (s *streams) leave(u streamUser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.users[u]--; s.users[u] == 0 {
		delete(s.users, u)
	}
}
