package rpc

import (
	"context"
	"sync"
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
	open     int // calls of open methods
	arriving int // those of them whose message has not arrived
}

// An arrival is a call whose headers have come. Its fields below timer are guarded by
// of.mu.
type arrival struct {
	of     *arrivals
	conn   *inbound
	stream uint32
	user   streamUser
	open   bool
	cut    context.CancelCauseFunc
	timer  *time.Timer

	bytes, room int64 // that came and were not read, and what they have in memory
	held        int64 // what is counted of it
	arrived     bool  // the first message
	over        bool
}

type arrivalKey struct{}

// begin returns ctx, the call's as long as its messages arrive in time and there is room
// for them, or refuses the call. It is called in the tap.
func (a *arrivals) begin(ctx context.Context, call mesh.Call, open bool) (context.Context, error) {
	conn := inboundOf(ctx)
	one := &arrival{of: a, conn: conn, stream: conn.last, user: streamUser{call.Principal.Tenant, call.Principal.User}, open: open}
	a.mu.Lock()
	defer a.mu.Unlock()
	if open && (a.open >= maxOpen || a.arriving >= maxArriving || !conn.known && conn.open >= maxStranger) {
		return ctx, WithRetryAfter(mesh.Errorf(mesh.Exhausted, "rpc.arrivals",
			"the server has as many calls without credentials as it may have; try again in %v", streamRetry), streamRetry)
	}
	if !one.recount() {
		return ctx, errUnfinished()
	}
	if conn.calls[one.stream] = one; open {
		a.open++
		a.arriving++
		conn.open++
	} else {
		conn.known = true
	}
	context.AfterFunc(ctx, one.end) // when gRPC has let go of it, and not when it is cut
	ctx, one.cut = context.WithCancelCause(ctx)
	one.timer = time.AfterFunc(a.within, func() { one.cut(errLate) })
	return context.WithValue(ctx, arrivalKey{}, one), nil
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
		one.cut(mesh.Errorf(mesh.Exhausted, "rpc.arrivals", "the message is too large; without a credential it may have %d bytes", maxOpenMessage))
	case !one.recount():
		one.cut(errUnfinished())
	default:
		return true
	}
	return false
}

// arrived says that the call in ctx has read a message, if it came over the network.
func arrived(ctx context.Context, message any) {
	one, ok := ctx.Value(arrivalKey{}).(*arrival)
	if !ok {
		return
	}
	size := messagePrefix
	if m, ok := message.(proto.Message); ok {
		size += proto.Size(m)
	}
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	one.came()
	if one.bytes -= int64(size); one.bytes <= 0 {
		one.bytes, one.room = 0, 0
	}
	one.recount()
}

// came notes that the first message has arrived, or will not.
func (one *arrival) came() {
	if one.arrived {
		return
	}
	one.arrived = true
	one.timer.Stop()
	if one.open {
		one.of.arriving--
	}
}

// end forgets the call.
func (one *arrival) end() {
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	one.came()
	one.over = true
	one.recount()
	delete(one.conn.calls, one.stream)
	if one.open {
		one.of.open--
		one.conn.open--
	}
}

// recount counts what the call has in memory now; false if there is no room for it.
func (one *arrival) recount() bool {
	want := int64(0)
	if !one.over {
		if want = one.room; !one.arrived {
			want += callCost
		}
	}
	if !one.of.unfinished.add(one.user, one.conn.name, want-one.held) {
		return false
	}
	one.held = want
	return true
}
