package rpc

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/peer"

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
