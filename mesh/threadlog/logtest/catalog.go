package logtest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
)

func testDelete(t *testing.T, s threadlog.Backend) {
	last := add(t, s, Key(1), under(7, batch(claim(7), withID("a"), decision("")))).Pos[2]
	add(t, s, Key(2), batch(fact("stays")))
	for _, other := range []mesh.Pos{0, last - 1, last + 1} {
		if err := s.Delete(t.Context(), Key(1), other); !mesh.IsCode(err, mesh.Conflict) {
			t.Errorf("delete of a thread that ends elsewhere than at %d: %v", other, err)
		}
	}
	wantData(t, s, Key(1), "claim", "id a", "decision")
	if err := s.Delete(t.Context(), Key(1), last); err != nil {
		t.Fatal(err)
	}
	wantData(t, s, Key(1))
	if _, ok, err := s.Info(t.Context(), Key(1)); ok || err != nil {
		t.Errorf("info of a deleted thread: %v, %v", ok, err)
	}
	if got := scanAll(t, s); len(got) != 1 || got[0].Thread != Key(2) {
		t.Errorf("scan has %v", got)
	}
	for _, k := range []mesh.ThreadKey{Key(1), Key(9)} {
		if err := s.Delete(t.Context(), k, threadlog.AnyPos); !mesh.IsCode(err, mesh.NotFound) {
			t.Errorf("delete of what is not there: %v", err)
		}
	}
	b := decide("", 0)
	b.Entries = append(b.Entries, withID("a"), claim(1))
	wantSeqs(t, add(t, s, Key(1), b), 1, 2, 3)
	wantData(t, s, Key(1), "decision", "id a", "claim")
}

// As long as the number stays, whoever knows threads need not look for those that are gone;
// and then learns which.
func testDeletions(t *testing.T, s threadlog.Backend) {
	other := mesh.ThreadKey{Tenant: "globex", ID: Key(1).ID}
	deleted := func(since int64) ([]mesh.ThreadKey, int64) {
		keys, now, all, err := s.Deleted(t.Context(), since)
		if err != nil || !all {
			t.Fatalf("all: %v, %v", all, err)
		}
		return keys, now
	}
	for range 2 { // also of a tenant whose last thread went
		add(t, s, Key(1), batch(fact("a")))
		add(t, s, other, batch(fact("b")))
		_, before := deleted(0)
		add(t, s, Key(1), batch(fact("more")))
		if err := s.Delete(t.Context(), Key(2), threadlog.AnyPos); !mesh.IsCode(err, mesh.NotFound) {
			t.Errorf("delete of what is not there: %v", err)
		}
		if keys, now := deleted(before); now != before || len(keys) > 0 {
			t.Errorf("%v were deleted, %d after %d, and nothing was", keys, now, before)
		}
		for _, key := range []mesh.ThreadKey{Key(1), other} {
			if err := s.Delete(t.Context(), key, threadlog.AnyPos); err != nil {
				t.Fatal(err)
			}
		}
		if keys, now := deleted(before); now == before || !slices.Equal(keys, []mesh.ThreadKey{Key(1), other}) {
			t.Errorf("%v were deleted, %d after %d", keys, now, before)
		}
	}
}

func testDeletePositions(t *testing.T, s threadlog.Backend) {
	var top mesh.Pos
	for range 3 {
		at := add(t, s, Key(1), batch(fact("a"), fact("b")))
		if at.Pos[0] <= top {
			t.Errorf("position %d was used before", at.Pos[0])
		}
		top = at.Pos[1]
		if err := s.Delete(t.Context(), Key(1), threadlog.AnyPos); err != nil {
			t.Fatal(err)
		}
	}
}

func testThreads(t *testing.T, s threadlog.Backend) {
	for i := range 10 {
		add(t, s, Key(i), batch(fact("a")))
	}
	add(t, s, Key(3), batch(fact("b")))
	add(t, s, Key(5), batch(fact("b")))
	if err := s.Delete(t.Context(), Key(7), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	var got []mesh.ThreadKey
	var before mesh.Pos
	for {
		page, err := s.Threads(t.Context(), "acme", before, 4)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, info := range page {
			got = append(got, info.Key)
			before = info.LastPos
		}
		add(t, s, Key(8), batch(fact("between pages"))) // comes on no page twice
	}
	want := []mesh.ThreadKey{Key(5), Key(3), Key(9), Key(8), Key(6), Key(4), Key(2), Key(1), Key(0)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if first, err := s.Threads(t.Context(), "acme", 0, 1); err != nil || first[0].Key != Key(8) {
		t.Errorf("first is %v, %v", first, err)
	}
	if none, err := s.Threads(t.Context(), "acme", 0, 0); len(none) != 0 || err != nil {
		t.Errorf("limit 0 gives %v, %v", none, err)
	}
}

// testTenants proves S4-068: a key of one tenant reaches nothing of another.
func testTenants(t *testing.T, s threadlog.Backend) {
	mine, theirs := Key(1), Key(1)
	theirs.Tenant = "zeta"
	add(t, s, mine, batch(claim(3), withID("a"), decision("")))
	if recs := read(t, s, theirs, 0); recs != nil {
		t.Errorf("read %v", recs)
	}
	if _, ok, err := s.Info(t.Context(), theirs); ok || err != nil {
		t.Errorf("info: %v, %v", ok, err)
	}
	if infos, err := s.Threads(t.Context(), "zeta", 0, 10); len(infos) != 0 || err != nil {
		t.Errorf("threads: %v, %v", infos, err)
	}
	if err := s.Delete(t.Context(), theirs, threadlog.AnyPos); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("delete: %v", err)
	}
	b := decide("", 0)
	b.Entries = append(b.Entries, withID("a"), claim(1))
	wantSeqs(t, add(t, s, theirs, b), 1, 2, 3)
	wantData(t, s, mine, "claim", "id a", "decision")
}

func testInfo(t *testing.T, s threadlog.Backend) {
	want := threadlog.Info{Key: Key(1)}
	for i, b := range []*threadlog.Batch{batch(fact("a"), fact("b")), batch(claim(3)), under(3, batch(fact("c")))} {
		at := add(t, s, Key(1), b)
		want.Last, want.LastPos = at.Seqs[len(at.Seqs)-1], at.Pos[len(at.Pos)-1]
		if i == 0 {
			want.FirstPos = at.Pos[0]
		}
		if i > 0 {
			want.Epoch = 3
		}
		for _, e := range b.Entries {
			want.Bytes += int64(len(e.Data))
		}
		add(t, s, Key(2), batch(fact("other")))
		info, ok, err := s.Info(t.Context(), Key(1))
		if diff := cmp.Diff(want, info); diff != "" || !ok || err != nil {
			t.Errorf("%v, %v: %s", ok, err, diff)
		}
	}
}

// testBytes: what is kept of a tenant is counted as it comes, what is there already once, and
// what goes no more.
func testBytes(t *testing.T, s threadlog.Backend) {
	other := mesh.ThreadKey{Tenant: "globex", ID: Key(1).ID}
	wantBytes(t, s, "acme", 0)
	named := batch(fact("four"))
	named.Entries[0].ID = "id"
	add(t, s, Key(1), named)
	add(t, s, Key(1), named)
	add(t, s, Key(2), batch(fact("six!!!"), fact("7......")))
	add(t, s, other, batch(fact("other")))
	wantBytes(t, s, "acme", 17)
	wantBytes(t, s, "globex", 5)
	if err := s.Delete(t.Context(), Key(2), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	wantBytes(t, s, "acme", 4)
	add(t, s, Key(2), batch(fact("a")))
	wantBytes(t, s, "acme", 5)
	if err := s.Delete(t.Context(), other, threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	wantBytes(t, s, "globex", 0)
}

func wantBytes(t *testing.T, s threadlog.Backend, tenant mesh.TenantID, want int64) {
	t.Helper()
	if n, err := s.Bytes(t.Context(), tenant); err != nil || n != want {
		t.Errorf("%s has %d bytes, want %d: %v", tenant, n, want, err)
	}
}
