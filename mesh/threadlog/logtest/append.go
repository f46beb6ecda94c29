package logtest

import (
	"fmt"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
)

func testContiguous(t *testing.T, s threadlog.Backend) {
	wantSeqs(t, add(t, s, Key(1), batch(fact("a"))), 1)
	wantSeqs(t, add(t, s, Key(1), batch(fact("b"), fact("c"), fact("d"))), 2, 3, 4)
	wantSeqs(t, add(t, s, Key(2), batch(fact("x"))), 1)
	wantSeqs(t, add(t, s, Key(1), batch(fact("e"))), 5)
	wantData(t, s, Key(1), "a", "b", "c", "d", "e")
	wantData(t, s, Key(2), "x")
}

func testStale(t *testing.T, s threadlog.Backend) {
	refused(t, s, Key(1), decide("", 1)) // there is none yet
	add(t, s, Key(1), decide("", 0))
	refused(t, s, Key(1), decide("", 0))
	add(t, s, Key(1), batch(fact("between")))
	refused(t, s, Key(1), decide("", 2)) // a fact is not a decision
	wantSeqs(t, add(t, s, Key(1), decide("", 1)), 3)
	refused(t, s, Key(1), decide("", 1))
	wantSeqs(t, add(t, s, Key(1), decide("", 3)), 4)
	wantData(t, s, Key(1), "decision", "between", "decision", "decision")
}

// hundred appends what b returns a hundred times at once and returns how many
// were not refused.
func hundred(t *testing.T, s threadlog.Backend, b func(i int) *threadlog.Batch) (won int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			_, err := s.Append(t.Context(), Key(1), b(i))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case !mesh.IsCode(err, mesh.Conflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return won
}

func testOneWins(t *testing.T, s threadlog.Backend) {
	if won := hundred(t, s, func(int) *threadlog.Batch { return decide("x", 0) }); won != 1 {
		t.Errorf("%d won", won)
	}
	wantData(t, s, Key(1), "decision")
}

func testFacts(t *testing.T, s threadlog.Backend) {
	add(t, s, Key(1), decide("", 0))
	if won := hundred(t, s, func(int) *threadlog.Batch { return batch(fact("f")) }); won != 100 {
		t.Errorf("%d facts of 100 were added", won)
	}
	if got := len(read(t, s, Key(1), 0)); got != 101 {
		t.Errorf("the thread has %d records", got)
	}
}

func testScopes(t *testing.T, s threadlog.Backend) {
	won := hundred(t, s, func(i int) *threadlog.Batch { return decide(mesh.Scope(fmt.Sprint("e", i)), 0) })
	if won != 100 {
		t.Errorf("%d decisions of 100 scopes were added", won)
	}
	for i := range 100 {
		refused(t, s, Key(1), decide(mesh.Scope(fmt.Sprint("e", i)), 0))
	}
}

func testManyDecisions(t *testing.T, s threadlog.Backend) {
	b := batch(decision("a"), fact("f"), decision("a"), decision("b"))
	b.Expect = []threadlog.Expect{{Scope: "a", Seq: 0}, {Scope: "b", Seq: 0}}
	wantSeqs(t, add(t, s, Key(1), b), 1, 2, 3, 4)
	refused(t, s, Key(1), decide("a", 1))
	add(t, s, Key(1), decide("a", 3))
	// What is expected may be of scopes that nothing is decided in.
	b = batch(fact("g"))
	b.Expect = []threadlog.Expect{{Scope: "b", Seq: 3}}
	refused(t, s, Key(1), b)
	b.Expect[0].Seq = 4
	add(t, s, Key(1), b)
}

func testFence(t *testing.T, s threadlog.Backend) {
	refused(t, s, Key(1), under(1, batch(fact("nobody claimed"))))
	add(t, s, Key(1), batch(claim(1)))
	add(t, s, Key(1), under(1, batch(fact("first"))))
	add(t, s, Key(1), batch(claim(5)))
	refused(t, s, Key(1), under(1, batch(fact("late"))))
	refused(t, s, Key(1), under(4, batch(fact("never claimed"))))
	refused(t, s, Key(1), under(6, batch(fact("not yet claimed"))))
	add(t, s, Key(1), under(5, batch(fact("second"), decision(""))))
	add(t, s, Key(1), batch(fact("no driver")))
	refused(t, s, Key(1), under(5, decide("", 0))) // an epoch does not excuse what is expected
	wantData(t, s, Key(1), "claim", "first", "claim", "second", "decision", "no driver")
}

// What was meant for a thread does not come into the next one with its key, whoever
// has claimed it.
func testFirst(t *testing.T, s threadlog.Backend) {
	of := func(first mesh.Pos, b *threadlog.Batch) *threadlog.Batch { b.First = first; return b }
	first := func() mesh.Pos {
		info, _, err := s.Info(t.Context(), Key(1))
		if err != nil {
			t.Fatal(err)
		}
		return info.FirstPos
	}
	add(t, s, Key(1), under(1, batch(claim(1), withID("a"))))
	before := first()
	add(t, s, Key(1), of(before, under(1, batch(fact("of the first")))))
	if err := s.Delete(t.Context(), Key(1), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	refused(t, s, Key(1), of(before, batch(withID("a"))))
	wantData(t, s, Key(1))
	add(t, s, Key(1), under(1, batch(claim(1))))
	for _, late := range []*threadlog.Batch{batch(fact("f")), under(1, batch(fact("f"))), batch(claim(2)), batch(withID("a"))} {
		refused(t, s, Key(1), of(before, late))
	}
	add(t, s, Key(1), of(first(), batch(fact("of the second"))))
	wantData(t, s, Key(1), "claim", "of the second")
}

func testClaims(t *testing.T, s threadlog.Backend) {
	add(t, s, Key(1), batch(claim(3)))
	for _, e := range []mesh.Epoch{1, 2, 3} {
		refused(t, s, Key(1), batch(claim(e)))
	}
	add(t, s, Key(1), batch(claim(4)))
	refused(t, s, Key(1), batch(claim(6), claim(5)))
	add(t, s, Key(2), batch(claim(1)))
	wantData(t, s, Key(1), "claim", "claim")
}

func testClaimAndWrite(t *testing.T, s threadlog.Backend) {
	add(t, s, Key(1), under(1, batch(claim(1), fact("first"))))
	refused(t, s, Key(1), under(1, batch(claim(2), fact("old"))))
	refused(t, s, Key(1), under(3, batch(claim(2), fact("wrong"))))
	add(t, s, Key(1), under(2, batch(fact("before"), claim(2))))
	wantData(t, s, Key(1), "claim", "first", "before", "claim")
}

func testOneClaims(t *testing.T, s threadlog.Backend) {
	if won := hundred(t, s, func(int) *threadlog.Batch { return batch(claim(1)) }); won != 1 {
		t.Errorf("%d won", won)
	}
}

func testIDs(t *testing.T, s threadlog.Backend) {
	wantSeqs(t, add(t, s, Key(1), batch(withID("a"), fact("f"), withID("b"))), 1, 2, 3)
	at := add(t, s, Key(1), batch(withID("b"), withID("a")))
	wantSeqs(t, at, 3, 1)
	if at.Pos[0] != 0 || at.Pos[1] != 0 {
		t.Errorf("entries that were there have positions %v", at.Pos)
	}
	at = add(t, s, Key(1), batch(withID("c"), withID("a"), fact("g")))
	wantSeqs(t, at, 4, 1, 5)
	if at.Pos[0] == 0 || at.Pos[1] != 0 || at.Pos[2] != at.Pos[0]+1 {
		t.Errorf("positions of a new, an old and a new entry are %v", at.Pos)
	}
	wantData(t, s, Key(1), "id a", "f", "id b", "id c", "g")
}

func testIDsFirst(t *testing.T, s threadlog.Backend) {
	first := decide("", 0)
	first.Entries[0].ID = "d"
	add(t, s, Key(1), first)
	add(t, s, Key(1), under(1, batch(claim(1), withID("x"))))
	add(t, s, Key(1), batch(claim(2)))
	wantSeqs(t, add(t, s, Key(1), first), 1)
	wantSeqs(t, add(t, s, Key(1), under(1, batch(withID("x")))), 3)
	c := claim(1)
	c.ID = "claim"
	refused(t, s, Key(1), batch(c))
	c.Claim = 3
	add(t, s, Key(1), batch(c))
	wantSeqs(t, add(t, s, Key(1), batch(c)), 5)
}

func testMixedIDs(t *testing.T, s threadlog.Backend) {
	first := decide("", 0)
	first.Entries[0].ID = "d"
	add(t, s, Key(1), first)
	first.Entries = append(first.Entries, withID("new"))
	refused(t, s, Key(1), first)
	first.Expect[0].Seq = 1
	wantSeqs(t, add(t, s, Key(1), first), 1, 2)
}

func testTwiceInBatch(t *testing.T, s threadlog.Backend) {
	at := add(t, s, Key(1), batch(withID("a"), withID("b"), withID("a"), fact("f")))
	wantSeqs(t, at, 1, 2, 1, 3)
	if at.Pos[2] != 0 {
		t.Errorf("the second of an id has position %d", at.Pos[2])
	}
	wantData(t, s, Key(1), "id a", "id b", "f")
}

func testIDsApart(t *testing.T, s threadlog.Backend) {
	other := Key(1)
	other.Tenant = "zeta"
	for _, k := range []mesh.ThreadKey{Key(1), Key(2), other} {
		if at := add(t, s, k, batch(withID("a"))); at.Pos[0] == 0 {
			t.Errorf("thread %s has an id of another", k)
		}
	}
}

func testSameID(t *testing.T, s threadlog.Backend) {
	if won := hundred(t, s, func(int) *threadlog.Batch { return batch(withID("a")) }); won != 100 {
		t.Errorf("%d of 100 got an answer", won)
	}
	wantData(t, s, Key(1), "id a")
}

func testWhole(t *testing.T, s threadlog.Backend) {
	add(t, s, Key(1), under(1, batch(claim(1), decision(""))))
	before := read(t, s, Key(1), 0)
	stale := batch(withID("a"), fact("f"), decision("other"))
	stale.Expect = []threadlog.Expect{{Scope: "other", Seq: 0}, {Scope: "", Seq: 0}}
	refused(t, s, Key(1), stale)
	refused(t, s, Key(1), batch(fact("f"), claim(2), fact("g"), claim(1)))
	refused(t, s, Key(2), decide("", 9))
	wantData(t, s, Key(1), before...)
	wantData(t, s, Key(2))
	if _, ok, err := s.Info(t.Context(), Key(2)); ok || err != nil {
		t.Errorf("a refused batch made a thread: %v, %v", ok, err)
	}
	// Nothing of it is remembered either.
	wantSeqs(t, add(t, s, Key(1), decide("other", 0)), 3)
	wantSeqs(t, add(t, s, Key(1), batch(withID("a"))), 4)
	wantSeqs(t, add(t, s, Key(1), under(1, batch(fact("still mine")))), 5)
}

// Reopen tests that what decides about an append survives a restart. reopen
// closes the backend, if it is not nil, and opens the same one again.
func Reopen(t *testing.T, reopen func(t *testing.T, s threadlog.Backend) threadlog.Backend) {
	s := reopen(t, nil)
	add(t, s, Key(1), under(4, batch(claim(4), withID("a"), decision("x"), fact("f"))))
	add(t, s, Key(2), decide("", 0))
	add(t, s, Key(3), batch(fact("to be deleted")))
	last := add(t, s, Key(3), batch(fact("the last position"))).Pos[0]
	if err := s.Delete(t.Context(), Key(3), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	busy, idle := mesh.ThreadKey{Tenant: "emca", ID: "busy"}, mesh.ThreadKey{Tenant: "emca", ID: "idle"}
	add(t, s, idle, batch(opening("a"), fact("b")))
	add(t, s, busy, batch(opening("a")))
	add(t, s, idle, settling(2, batch(fact("c"), fact("d"))))
	before := scanAll(t, s)

	for range 2 {
		s = reopen(t, s)
		if got := scanAll(t, s); !equalRecords(before, got) {
			t.Fatalf("before: %v\nafter: %v", before, got)
		}
		wantSeqs(t, add(t, s, Key(1), batch(withID("a"))), 2)
		refused(t, s, Key(1), decide("x", 0))
		refused(t, s, Key(1), under(3, batch(fact("late"))))
		refused(t, s, Key(1), batch(claim(4)))
		wantUnfinished(t, s, busy)
		wantBytes(t, s, busy.Tenant, 5)
		infos, err := s.Threads(t.Context(), Key(0).Tenant, 0, 10)
		if err != nil || len(infos) != 2 || infos[0].Key != Key(2) || infos[1].Epoch != 4 || infos[1].Last != 4 {
			t.Fatalf("threads are %v, %v", infos, err)
		}
	}
	at := add(t, s, Key(1), under(4, decide("x", 3)))
	wantSeqs(t, at, 5)
	if at.Pos[0] <= last {
		t.Errorf("position %d was used before", at.Pos[0])
	}
}

func testPlaced(t *testing.T, s threadlog.Backend) {
	placed, done := make(chan struct{}), make(chan struct{})
	b := batch(fact("first"))
	b.Deferred, b.Placed = true, func() { close(placed) } // twice is a panic
	go func() {
		defer close(done)
		add(t, s, Key(1), b)
	}()
	<-placed
	add(t, s, Key(1), batch(fact("second")))
	<-done
	wantData(t, s, Key(1), "first", "second")
}
