package rpc

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// Bounds of calls of which the headers have come and nothing else, perhaps.
const (
	// arriveTime is how long the first message of a call may take to arrive.
	arriveTime = 30 * time.Second
	// maxOpen bounds the calls of open methods, whose callers nobody knows, maxArriving
	// those of them whose message has not arrived, and maxStranger those of a connection
	// over which nobody has proved who it is.
	maxOpen     = 1024
	maxArriving = 64
	maxStranger = 128
	// maxOpenMessage bounds what comes for a call of an open method, in bytes.
	maxOpenMessage = 16 << 10
)

// What is counted for a call that waits for its message, and for a frame beside its
// buffer; and the bytes before a message, which are its length.
const (
	callCost      = 4 << 10
	frameCost     = 64
	messagePrefix = 5
)

// frameRoom is what a frame of n bytes has in memory: gRPC keeps each in a buffer of one
// of a few sizes.
func frameRoom(n int) int64 {
	for _, size := range []int{4 << 10, 16 << 10} {
		if n > 1<<10 && n <= size {
			return int64(size) + frameCost
		}
	}
	return int64(n) + frameCost
}

// arrivals watch over calls until their messages have arrived.
type arrivals struct {
	within     time.Duration
	unfinished *Unfinished

	mu       sync.Mutex
	pending  []*arrival // by when they began; those that arrived or ended stay until the next sweep
	sweepAt  int        // the number of pending ones at which they are swept
	timed    bool       // a timer will sweep
	open     int        // calls of open methods
	arriving int        // those of them whose message has not arrived
}

// An arrival is the context of a call whose headers have come over the network. It has
// the call, and can be ended. There is one for each, so it is all that a call needs.
type arrival struct {
	context.Context //nolint:containedctx // it is one
	end             context.CancelCauseFunc
	of              *arrivals
	begun           time.Time
	open            bool
	done            atomic.Bool
	user            streamUser
	conn            *inbound
	stream          uint32

	// Guarded by of.mu. room and held are what came and was not read has in memory, and
	// what is counted of it; stop has gRPC's end of the call not told, and is nil when it has.
	bytes, room, held int64
	over              bool
	stop              func() bool
}

type arrivalKey struct{}

// Value implements context.Context.
func (a *arrival) Value(key any) any {
	if key == (arrivalKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// arrivalOf returns the arrival of the call in ctx, or nil if it was made in the process.
func arrivalOf(ctx context.Context) *arrival {
	a, _ := ctx.Value(arrivalKey{}).(*arrival)
	return a
}

// begin returns the context of a call as long as its messages arrive in time and there is
// room for them, or refuses the call. It is called in the tap.
func (a *arrivals) begin(ctx context.Context, call mesh.Call, open bool, now time.Time) (context.Context, error) {
	conn := inboundOf(ctx)
	one := &arrival{of: a, begun: now, open: open, user: streamUser{call.Principal.Tenant, call.Principal.User}, conn: conn, stream: conn.last}
	inner, end := context.WithCancelCause(ctx)
	one.Context, one.end = mesh.WithCall(inner, call), end
	a.mu.Lock()
	defer a.mu.Unlock()
	if open && (a.open >= maxOpen || a.arriving >= maxArriving || !conn.known && conn.open >= maxStranger) {
		end(nil)
		return ctx, WithRetryAfter(mesh.Errorf(mesh.Exhausted, "rpc.arrivals",
			"the server has as many calls without credentials as it may have; try again in %v", streamRetry), streamRetry)
	}
	if !one.recount() {
		end(nil)
		return ctx, errUnfinished()
	}
	if conn.calls[one.stream] = one; open {
		a.open++
		a.arriving++
		conn.open++
	} else {
		conn.known = true
	}
	one.stop = context.AfterFunc(ctx, one.leave) // when gRPC has let go of it, and not when it is cut
	a.watch(one)
	return one, nil
}

// errLate ends calls whose message does not come.
var errLate = &mesh.Error{Code: mesh.Timeout, Op: "rpc.arrivals", Detail: "the call's message has not arrived in time; send it again"}

// data counts bytes that come for the call, and cuts it when there is no room for them;
// then it is false.
func (a *arrivals) data(conn *inbound, stream uint32, n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := conn.calls[stream]
	if one == nil {
		return true
	}
	one.bytes += int64(n)
	one.room += frameRoom(n)
	switch {
	case one.open && one.room > maxOpenMessage+frameCost:
		one.end(ended{mesh.Errorf(mesh.Exhausted, "rpc.arrivals", "the message is too large; without a credential it may have %d bytes", maxOpenMessage)})
	case !one.recount():
		one.end(ended{errUnfinished()})
	default:
		return true
	}
	return false
}

// minPending is how many calls there are before those that arrived are looked for among
// them.
const minPending = 64

// watch ends the call unless its message arrives in time. There is one timer for all, and
// not one for each, which nearly all calls would only stop again. Called with mu held.
func (a *arrivals) watch(one *arrival) {
	if len(a.pending) >= max(a.sweepAt, minPending) {
		a.sweep(one.begun)
		a.sweepAt = 2 * len(a.pending) // so that sweeping costs each call the same
	}
	a.pending = append(a.pending, one)
	a.timer(a.within)
}

// timer has the pending calls swept after a time, if nothing else does. Called with mu held.
func (a *arrivals) timer(after time.Duration) {
	if a.timed {
		return
	}
	a.timed = true
	time.AfterFunc(after, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		now := time.Now()
		a.sweep(now)
		if a.timed = false; len(a.pending) > 0 {
			a.timer(a.pending[0].begun.Add(a.within).Sub(now))
		}
	})
}

// sweep ends those that are late, and forgets those with which nothing is to be done any
// more. Called with mu held.
func (a *arrivals) sweep(now time.Time) {
	a.pending = slices.DeleteFunc(a.pending, func(one *arrival) bool {
		if one.done.Load() || one.Err() != nil {
			return true
		}
		late := now.Sub(one.begun) >= a.within
		if late {
			one.end(errLate)
		}
		return late
	})
}

// arrived says that the call in ctx has read a message, if it came over the network. From
// then on over is called when it ends.
func arrived(ctx context.Context, message any) {
	one := arrivalOf(ctx)
	if one == nil {
		return
	}
	size := messagePrefix
	if m, ok := message.(proto.Message); ok {
		size += proto.Size(m)
	}
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	one.came()
	if one.stop != nil {
		one.stop()
		one.stop = nil // it would be held as long as the call
	}
	if left := one.bytes - int64(size); left <= 0 {
		one.bytes, one.room = 0, 0
	} else { // more of a stream has come
		one.bytes, one.room = left, one.room*left/one.bytes
	}
	one.recount()
}

// came notes that the first message has arrived, or will not.
func (a *arrival) came() {
	if !a.done.Swap(true) && a.open {
		a.of.arriving--
	}
}

// over says that the call in ctx has ended, if it came over the network.
func over(ctx context.Context) {
	if one := arrivalOf(ctx); one != nil {
		one.leave()
	}
}

// leave forgets the call.
func (a *arrival) leave() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if a.over {
		return
	}
	a.came()
	a.over = true
	a.recount()
	delete(a.conn.calls, a.stream)
	if a.open {
		a.of.open--
		a.conn.open--
	}
}

// recount counts what the call has in memory now; false if there is no room for it.
func (a *arrival) recount() bool {
	want := int64(0)
	if !a.over {
		if want = a.room; !a.done.Load() {
			want += callCost
		}
	}
	if !a.of.unfinished.add(a.user, a.conn.name, want-a.held) {
		return false
	}
	a.held = want
	return true
}
