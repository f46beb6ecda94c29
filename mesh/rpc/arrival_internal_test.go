package rpc

import (
	"context"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"agentmesh/mesh"
)

// part of T5: calls that ended or arrived are not kept, however many there are, while some
// are still awaited.
func TestCallsThatEndedAreForgotten(t *testing.T) {
	a := &arrivals{within: time.Hour, unfinished: NewUnfinished(0)}
	conn := &inbound{of: a, calls: map[uint32]*arrival{}}
	from := peer.NewContext(t.Context(), &peer.Peer{Addr: inboundAddr{address("there:1"), conn}})
	var waiting []context.Context
	for i := range 10_000 {
		conn.last = uint32(i)
		ctx, cancel := context.WithCancel(from)
		ctx, err := a.begin(ctx, mesh.Call{}, false, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case i%100 == 0:
			waiting = append(waiting, ctx)
		case i%2 == 0:
			arrived(ctx, nil)
		}
		if i%100 != 0 {
			cancel()
			over(ctx)
		} else {
			t.Cleanup(cancel)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if held := a.unfinished.all; held != int64(len(waiting))*callCost || len(conn.calls) != len(waiting) {
		t.Errorf("%d bytes of %d calls are counted, of which %d are awaited", held, len(conn.calls), len(waiting))
	}
	if most := 4 * len(waiting); len(a.pending) < len(waiting) || len(a.pending) > most {
		t.Errorf("%d calls are kept, of which %d are awaited", len(a.pending), len(waiting))
	}
	a.sweep(time.Now().Add(2 * time.Hour))
	for _, ctx := range waiting {
		if context.Cause(ctx) != errLate {
			t.Fatalf("one that is late: %v", context.Cause(ctx))
		}
	}
	if len(a.pending) > 0 {
		t.Errorf("%d are kept after all were late", len(a.pending))
	}
}

// finding R12: a stream in which nothing happens holds little here beside the call that it is.
func TestACallThatHasArrivedHoldsLittle(t *testing.T) {
	a := &arrivals{within: time.Hour, unfinished: NewUnfinished(0)}
	conn := &inbound{of: a, calls: map[uint32]*arrival{}}
	from := peer.NewContext(t.Context(), &peer.Peer{Addr: inboundAddr{address("there:1"), conn}})
	const n = 4096
	calls := make([]context.Context, n)
	one := func() context.Context {
		ctx, cancel := context.WithCancel(from)
		t.Cleanup(cancel)
		return ctx
	}
	for i := range calls {
		calls[i] = one() //nolint:fatcontext // each is one of its own
	}
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	for i := range calls {
		conn.last = uint32(i)
		begun, err := a.begin(calls[i], mesh.Call{}, false, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		arrived(begun, nil)
		calls[i] = begun //nolint:fatcontext // likewise
	}
	if each := int64(held()-before) / n; each > mostHeld {
		t.Errorf("each holds %d bytes, and may hold %d", each, mostHeld)
	}
	runtime.KeepAlive(calls)
}

// mostHeld is what the call itself takes, some 450 bytes, and what ends it, with room to spare.
const mostHeld = 1250

// finding R4: of a stream whose messages are read as they come, any number of bytes may come: only
// what was not read counts.
func TestWhatWasReadOfAStreamIsNotCounted(t *testing.T) {
	a := &arrivals{within: time.Hour, unfinished: NewUnfinished(0)}
	conn := &inbound{of: a, calls: map[uint32]*arrival{}}
	ctx, err := a.begin(peer.NewContext(t.Context(), &peer.Peer{Addr: inboundAddr{address("there:1"), conn}}), mesh.Call{}, false, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	message := wrapperspb.Bytes(make([]byte, 256<<10))
	frame := proto.Size(message) + messagePrefix
	ahead := 4 // messages that have come and were not read
	for range ahead {
		a.data(conn, conn.last, frame)
	}
	for n := 0; n < 2*maxConnUnfinished; n += frame {
		if !a.data(conn, conn.last, frame) {
			t.Fatalf("after %d bytes: %v", n, context.Cause(ctx))
		}
		arrived(ctx, message)
	}
	if held := a.unfinished.all; held < int64(ahead*frame) || held > int64(2*ahead*frame) {
		t.Errorf("%d bytes are counted, and %d were not read", held, ahead*frame)
	}
	over(ctx)
	if a.unfinished.all != 0 {
		t.Errorf("in the end %d bytes are counted", a.unfinished.all)
	}
}
