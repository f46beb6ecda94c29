package segment

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// opened opens the log from that record on, and returns what was visited.
func opened(t *testing.T, dir string, opts Options) (*Log, map[int64]Record) {
	t.Helper()
	l, got := reopen(t, dir, opts)
	for n := range got {
		if n < opts.From {
			t.Fatalf("record %d is visited, before %d", n, opts.From)
		}
	}
	return l, got
}

// finding C6: a log that is opened from somewhere on has all that is in it, reads nothing
// before that until it is asked, and forgets what is dropped, whenever that was read.
func TestALogThatIsOpenedFromSomewhereHasAllOfIt(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	l := newTestLog(t, Options{Size: 1 << 14, Disk: unsynced{}})
	want, erased := map[int64]Record{}, map[int64]bool{}
	sweep := func() {
		t.Helper()
		unswept := l.Unswept()
		if err := errors.Join(l.Seal(), l.Sweep()); err != nil {
			t.Fatal(err)
		}
		for _, n := range unswept {
			erased[n] = true
		}
	}
	for range 60 {
		recs := some(r, 900)
		first := appendTo(t, l, recs...)
		for i, rec := range recs {
			want[first+int64(i)] = rec
		}
		if r.IntN(4) == 0 {
			drop := drawn(r, want, 5)
			l.Drop(drop, r.IntN(2) == 0)
			for _, n := range drop {
				delete(want, n)
			}
		}
		if r.IntN(8) > 0 {
			continue
		}
		if r.IntN(2) == 0 {
			sweep()
		}
		unswept := l.Unswept()
		// What is dropped and not erased comes back with the file, as what is spent.
		spent := func(n int64, _ byte) bool { _, ok := want[n]; return !ok && !slices.Contains(unswept, n) }
		last := l.Last()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		from := 1 + r.Int64N(last+1)
		again, got := opened(t, l.dir, Options{Size: 1 << 14, Disk: unsynced{}, From: from, Spent: spent})
		l = again
		for i, seg := range l.segs {
			if before := i+1 < len(l.segs) && l.segs[i+1].first <= from; before != (seg.unread > 0) {
				t.Errorf("opened from %d of %d, it has read the segment of %d: %v", from, last, seg.first, !before)
			}
		}
		for n := range got {
			if erased[n] {
				t.Errorf("record %d was swept, and is there", n)
			}
			if spent(n, 0) { // as whoever opens it does
				l.Drop([]int64{n}, false)
			}
		}
		if l.Drop(unswept, true); r.IntN(2) == 0 {
			sweep()
		}
		if r.IntN(2) == 0 {
			wantSame(t, "from somewhere on", want, all(t, l))
		}
	}
	wantSame(t, "in the end", want, all(t, l))
}

// manySegments makes a log of several full segments, and returns what is in it, by number.
func manySegments(t *testing.T) (dir string, want map[int64]Record) {
	t.Helper()
	l := newTestLog(t, Options{Size: 1 << 12, Disk: unsynced{}})
	want = map[int64]Record{}
	for len(l.segs) < 5 {
		rec := Record{Kind: 1, Data: bytes.Repeat([]byte{byte(l.last)}, 400)}
		want[appendTo(t, l, rec)] = rec
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.dir, want
}

// finding C6: what was not read since the log was opened is in a copy of it all the same.
func TestACopyHasWhatWasNotReadYet(t *testing.T) {
	from, want := manySegments(t)
	l, _ := opened(t, from, Options{Size: 1 << 12, Disk: unsynced{}, From: int64(len(want))})
	files, _ := l.Files()
	dir := t.TempDir()
	for _, f := range files {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close(), os.WriteFile(filepath.Join(dir, f.Name), b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if l.segs[0].unread == 0 {
		t.Error("the first segment was read before it was copied")
	}
	is, _ := reopen(t, dir, Options{Size: 1 << 12, Disk: unsynced{}})
	wantSame(t, "the copy", want, all(t, is))
}

// finding C6: a record is dropped from a segment that was not read, while a sweep reads another
// one: what is beside it stays.
func TestASweepTakesNothingFromWhatWasNotRead(t *testing.T) {
	dir, want := manySegments(t)
	var l *Log
	drop := func(n int64) {
		l.Drop([]int64{n}, true)
		delete(want, n)
	}
	dropped := false
	l, _ = opened(t, dir, Options{Size: 1 << 12, Disk: unsynced{}, From: int64(len(want)), Spent: func(int64, byte) bool {
		if !dropped { // the sweep reads the first segment
			dropped = true
			drop(l.segs[1].first)
		}
		return false
	}})
	drop(1)
	for range 2 {
		if err := l.Sweep(); err != nil {
			t.Fatal(err)
		}
		wantSame(t, "after a sweep", want, all(t, l))
		if left := l.Unswept(); len(left) > 1 {
			t.Errorf("left is %v", left)
		}
	}
	if left := l.Unswept(); !dropped || left != nil {
		t.Errorf("in the end is left: %v", left)
	}
}

// drawn returns some of the numbers, ascending.
func drawn(r *rand.Rand, of map[int64]Record, n int) (out []int64) {
	for _, k := range slices.Sorted(maps.Keys(of)) {
		if r.IntN(len(of)) < n {
			out = append(out, k)
		}
	}
	return out
}

// finding C6: whatever bit changes in a segment that is not read when the log is opened, what
// is served is what was written; what is not served is told with its place, by who reads it
// and by who checks, and the records beside it are served.
func TestWhatWasNotReadIsNeverServedDamaged(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	dir, _, _, want := written(t, Options{Size: 1 << 15, Disk: unsynced{}}, 60, []Record{{Kind: 1, Data: []byte("last")}})
	files := content(t, dir)
	all := names(files)
	found := 0
	for i := range max(*rounds, 80) {
		name := all[r.IntN(len(all)-1)]
		b := bytes.Clone(files[name])
		switch at := r.IntN(len(b)); i % 3 {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			clear(b[at:min(at+1+r.IntN(6000), len(b))])
		default:
			_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(b[at:min(at+1+r.IntN(300), len(b))])
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, _, err := tryOpen(dir, Options{Disk: unsynced{}, From: int64(len(want))})
		switch {
		case err == nil:
			if bad := compare(t, l, want); len(bad) > 0 {
				found++
				wantChecked(t, l, bad)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		case !errors.Is(err, ErrDamaged):
			t.Fatal(err)
		}
		if err := os.WriteFile(file, files[name], 0o600); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d, %s", seed, i, name)
		}
	}
	if found == 0 {
		t.Error("nothing was found")
	}
	t.Logf("seed %d: %d found after opening", seed, found)
}

// compare reads each record alone, and returns those that are refused.
func compare(t *testing.T, l *Log, want map[int64]Record) (bad []int64) {
	t.Helper()
	for _, n := range slices.Sorted(maps.Keys(want)) {
		served := false
		err := l.Read([]int64{n}, func(_ int64, r Record) bool {
			served = r.Kind == want[n].Kind && bytes.Equal(r.Data, want[n].Data)
			return true
		})
		var d *Damage
		switch {
		case errors.As(err, &d) && d.First <= n && n <= d.Last && errors.Is(err, ErrDamaged):
			bad = append(bad, n)
		case err != nil || !served:
			t.Errorf("record %d reads wrong, %v", n, err)
		}
	}
	return bad
}

// wantChecked checks that Check finds these records damaged, and visits the others.
func wantChecked(t *testing.T, l *Log, bad []int64) {
	t.Helper()
	var found []int64
	seen := int64(0)
	for at := int64(1); at <= l.Last(); {
		next, err := l.Check(at, func(int64, Record) error { seen++; return nil }, func(d *Damage) {
			for n := d.First; n <= d.Last; n++ {
				found = append(found, n)
			}
		})
		if err != nil || next <= at {
			t.Fatal(next, err)
		}
		at = next
	}
	if !slices.Equal(found, bad) || seen+int64(len(found)) != l.Last() {
		t.Errorf("found %v, and %d others; want %v of %d", found, seen, bad, l.Last())
	}
}
