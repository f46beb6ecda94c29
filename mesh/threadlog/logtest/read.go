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
