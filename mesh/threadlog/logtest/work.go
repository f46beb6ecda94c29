package logtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
)

func opening(data string) threadlog.Entry { return threadlog.Entry{Data: []byte(data), Opens: true} }

// settling is the batch that settles all up to the Seq.
func settling(upTo mesh.Seq, b *threadlog.Batch) *threadlog.Batch {
	b.Settled = upTo
	return b
}

// unfinished are the threads with something to do, in order, and at which Seq.
func unfinished(t *testing.T, s threadlog.Backend) (out []mesh.ThreadKey, open []mesh.Seq) {
	t.Helper()
	for after := mesh.Pos(0); ; {
		page, err := s.Unfinished(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return out, open
		}
		for _, u := range page {
			if u.Pos <= after {
				t.Fatalf("position %d comes after %d", u.Pos, after)
			}
			after = u.Pos
			out, open = append(out, u.Key), append(open, u.Open)
			if info, ok, err := s.Info(t.Context(), u.Key); err != nil || !ok || info.Open != u.Open {
				t.Errorf("info of %s says %+v, %v, %v, and the list %d", u.Key, info, ok, err, u.Open)
			}
		}
	}
}

func wantUnfinished(t *testing.T, s threadlog.Backend, want ...mesh.ThreadKey) []mesh.Seq {
	t.Helper()
	got, open := unfinished(t, s)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unfinished threads (-want +got):\n%s", diff)
	}
	return open
}

func testUnfinished(t *testing.T, s threadlog.Backend) {
	wantUnfinished(t, s)
	add(t, s, Key(1), batch(fact("a"), opening("b"), fact("c"))) // 1 to 3
	add(t, s, Key(2), batch(opening("a")))
	add(t, s, Key(3), batch(fact("nothing to do")))
	wantUnfinished(t, s, Key(1), Key(2))
	add(t, s, Key(1), batch(opening("more"))) // 4
	if open := wantUnfinished(t, s, Key(2), Key(1)); !cmp.Equal(open, []mesh.Seq{1, 4}) {
		t.Errorf("they are open at %v", open)
	}
	// Who knew the thread up to 3 has not settled what came at 4.
	add(t, s, Key(1), settling(3, batch(fact("done"))))
	wantUnfinished(t, s, Key(2), Key(1))
	add(t, s, Key(1), settling(4, batch(fact("done"))))
	wantUnfinished(t, s, Key(2))
	refused(t, s, Key(2), settling(1, decide("", 7))) // a batch that is refused settles nothing
	wantUnfinished(t, s, Key(2))
	// One batch may settle what was, and open something.
	add(t, s, Key(2), settling(1, batch(opening("next"))))
	if open := wantUnfinished(t, s, Key(2)); !cmp.Equal(open, []mesh.Seq{2}) {
		t.Errorf("it is open at %v", open)
	}
}

func testSettle(t *testing.T, s threadlog.Backend) {
	add(t, s, Key(1), batch(opening("a"), opening("b")))
	info, _, err := s.Info(t.Context(), Key(1))
	if err != nil {
		t.Fatal(err)
	}
	settle := func(k mesh.ThreadKey, upTo mesh.Seq) {
		t.Helper()
		if err := s.Settle(t.Context(), k, info.FirstPos, upTo); err != nil {
			t.Fatal(err)
		}
	}
	settle(Key(1), 1)
	settle(Key(2), 9) // there is no such thread
	wantUnfinished(t, s, Key(1))
	settle(Key(1), 2)
	wantUnfinished(t, s)
	if got := read(t, s, Key(1), 0); len(got) != 2 {
		t.Errorf("settling added to the thread: %v", got)
	}
	add(t, s, Key(1), batch(opening("c")))
	wantUnfinished(t, s, Key(1))
	if err := s.Delete(t.Context(), Key(1), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	wantUnfinished(t, s)
	add(t, s, Key(1), batch(opening("of the next one")))
	settle(Key(1), 3) // by who knows the one before
	wantUnfinished(t, s, Key(1))
}

func testIdle(t *testing.T, s threadlog.Backend) {
	for i := range 8 {
		add(t, s, Key(i), batch(fact("a")))
	}
	add(t, s, Key(0), batch(fact("b")))
	add(t, s, mesh.ThreadKey{Tenant: "zeta", ID: Key(1).ID}, batch(fact("a")))
	if err := s.Delete(t.Context(), Key(2), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	tenants, err := s.Tenants(t.Context())
	if diff := cmp.Diff(map[mesh.TenantID]int{"acme": 7, "zeta": 1}, tenants); diff != "" || err != nil {
		t.Errorf("tenants: %v %s", err, diff)
	}
	var got []mesh.ThreadKey
	var after mesh.Pos
	for page := 0; ; page++ {
		infos, err := s.Idle(t.Context(), "acme", after, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			got, after = append(got, info.Key), info.LastPos
		}
		switch {
		case len(infos) == 0:
			want := []mesh.ThreadKey{Key(1), Key(3), Key(4), Key(6), Key(7), Key(0), Key(5)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			return
		case page == 0: // what is touched between pages comes at the end
			add(t, s, Key(5), batch(fact("b")))
		}
	}
}
