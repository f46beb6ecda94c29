package logtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
)

func equalRecords(a, b []threadlog.Record) bool {
	return slices.EqualFunc(a, b, func(a, b threadlog.Record) bool {
		return a.Seq == b.Seq && a.Pos == b.Pos && a.Thread == b.Thread && bytes.Equal(a.Data, b.Data)
	})
}

func testPositions(t *testing.T, s threadlog.Backend) {
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for range 10 {
				at, err := s.Append(t.Context(), Key(w%3), batch(fact("a"), fact("b"), fact("c")))
				if err != nil {
					t.Error(err)
					return
				}
				for i := range 2 {
					if at.Pos[i+1] != at.Pos[i]+1 || at.Seqs[i+1] != at.Seqs[i]+1 {
						t.Errorf("a batch was torn: %v", at)
					}
				}
			}
		})
	}
	wg.Wait()
}

func testCopied(t *testing.T, s threadlog.Backend) {
	data := []byte("before")
	add(t, s, Key(1), batch(threadlog.Entry{Data: data}))
	copy(data, "XXXXXX")
	wantData(t, s, Key(1), "before")
	// What was read stays as it is, whatever is written or deleted afterwards.
	recs, err := s.Read(t.Context(), Key(1), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	scanned := scanAll(t, s)
	if err := s.Delete(t.Context(), Key(1), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		add(t, s, Key(2), batch(fact(strings.Repeat("Y", 5000))))
	}
	if string(recs[0].Data) != "before" || string(scanned[0].Data) != "before" {
		t.Errorf("what was read became %q and %q", recs[0].Data, scanned[0].Data)
	}
}

func testSizes(t *testing.T, s threadlog.Backend) {
	want := []string{"", "x", strings.Repeat("l", mesh.MaxEvent), "\x00\xff"}
	for _, data := range want {
		add(t, s, Key(1), batch(fact(data)))
	}
	wantData(t, s, Key(1), want...)
}

func testRead(t *testing.T, s threadlog.Backend) {
	for i := range 10 {
		add(t, s, Key(1), batch(fact(fmt.Sprint(i+1))))
		add(t, s, Key(2), batch(fact("other")))
	}
	for _, c := range []struct {
		after mesh.Seq
		limit int
		want  []string
	}{
		{0, 3, []string{"1", "2", "3"}}, {3, 2, []string{"4", "5"}}, {8, 5, []string{"9", "10"}},
		{10, 5, nil}, {99, 5, nil}, {-1, 1, []string{"1"}}, {0, 0, nil}, {0, -1, nil},
	} {
		recs, err := s.Read(t.Context(), Key(1), c.after, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range recs {
			got = append(got, string(r.Data))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("after %d limit %d: %s", c.after, c.limit, diff)
		}
	}
	if recs, err := s.Read(t.Context(), Key(9), 0, 10); len(recs) != 0 || err != nil {
		t.Errorf("a thread that is not there reads %v, %v", recs, err)
	}
}

func testScan(t *testing.T, s threadlog.Backend) {
	type at struct {
		key mesh.ThreadKey
		seq mesh.Seq
		pos mesh.Pos
	}
	var want []at
	for i := range 30 {
		k := Key(i % 4)
		a := add(t, s, k, batch(fact("a"), fact("b")))
		want = append(want, at{k, a.Seqs[0], a.Pos[0]}, at{k, a.Seqs[1], a.Pos[1]})
	}
	var got []at
	for _, r := range scanAll(t, s) {
		got = append(got, at{r.Thread, r.Seq, r.Pos})
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(at{})); diff != "" {
		t.Error(diff)
	}
	for _, limit := range []int{0, -1} {
		if recs, err := s.Scan(t.Context(), 0, limit); len(recs) != 0 || err != nil {
			t.Errorf("limit %d gives %d records, %v", limit, len(recs), err)
		}
	}
	if recs, err := s.Scan(t.Context(), want[59].pos, 5); len(recs) != 0 || err != nil {
		t.Errorf("beyond the end there are %d records, %v", len(recs), err)
	}
}

func testPageSize(t *testing.T, s threadlog.Backend) {
	big := strings.Repeat("x", mesh.MaxEvent)
	for range 12 {
		add(t, s, Key(1), batch(fact(big)))
	}
	recs, err := s.Read(t.Context(), Key(1), 0, 12)
	if err != nil || len(recs) == 0 || len(recs) > 8 {
		t.Errorf("one page has %d MiB, %v", len(recs), err)
	}
	if got := len(read(t, s, Key(1), 0)); got != 12 {
		t.Errorf("pages add up to %d records", got)
	}
	if got := len(scanAll(t, s)); got != 12 {
		t.Errorf("scans add up to %d records", got)
	}
}

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

func testEnded(t *testing.T, s threadlog.Backend) {
	add(t, s, Key(1), batch(fact("a")))
	ctx := ended(t)
	_, appendErr := s.Append(ctx, Key(1), batch(fact("b")))
	_, readErr := s.Read(ctx, Key(1), 0, 1)
	_, scanErr := s.Scan(ctx, 0, 1)
	_, threadsErr := s.Threads(ctx, "acme", 0, 1)
	_, _, infoErr := s.Info(ctx, Key(1))
	for _, err := range []error{appendErr, readErr, scanErr, threadsErr, infoErr, s.Delete(ctx, Key(1), threadlog.AnyPos)} {
		if !mesh.IsCode(err, mesh.Canceled) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	}
	wantData(t, s, Key(1), "a")
}

// testEverything runs all operations at once over a few threads and then holds
// what was acknowledged against what is there.
func testEverything(t *testing.T, s threadlog.Backend) {
	seed := rand.Uint64()
	const writers, each, threads = 16, 40, 4
	type ack struct {
		key  mesh.ThreadKey
		seq  mesh.Seq
		pos  mesh.Pos
		data string
	}
	acks := make([][]ack, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := range each {
				k := Key(r.IntN(threads))
				b := batch(threadlog.Entry{Data: fmt.Appendf(nil, "%d/%d", w, i), ID: fmt.Sprintf("%d/%d", w, i)})
				if r.IntN(3) == 0 {
					b = decide(mesh.Scope(fmt.Sprint(r.IntN(3))), mesh.Seq(r.IntN(20)))
				}
				at, err := s.Append(t.Context(), k, b)
				if err == nil {
					acks[w] = append(acks[w], ack{k, at.Seqs[0], at.Pos[0], string(b.Entries[0].Data)})
				} else if !mesh.IsCode(err, mesh.Conflict) {
					t.Error(err)
				}
				_, readErr := s.Read(t.Context(), k, mesh.Seq(r.IntN(10)), 5)
				_, scanErr := s.Scan(t.Context(), mesh.Pos(r.IntN(10)), 5)
				_, threadsErr := s.Threads(t.Context(), "acme", 0, 3)
				if err := errors.Join(readErr, scanErr, threadsErr); err != nil {
					t.Error(err)
				}
				if i%10 == 9 { // a thread of its own that comes and goes
					own := Key(100 + w)
					if _, err := s.Append(t.Context(), own, batch(fact("x"))); err != nil {
						t.Error(err)
					}
					if err := s.Delete(t.Context(), own, threadlog.AnyPos); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	got := map[mesh.Pos]ack{}
	for _, r := range scanAll(t, s) {
		got[r.Pos] = ack{r.Thread, r.Seq, r.Pos, string(r.Data)}
	}
	n := 0
	for _, list := range acks {
		for _, a := range list {
			n++
			if got[a.pos] != a {
				t.Errorf("seed %d: acknowledged %v, there is %v", seed, a, got[a.pos])
			}
		}
	}
	if n != len(got) {
		t.Errorf("seed %d: %d acknowledged, %d there", seed, n, len(got))
	}
	for i := range threads {
		read(t, s, Key(i), 0) // checks that Seqs are contiguous
	}
}
