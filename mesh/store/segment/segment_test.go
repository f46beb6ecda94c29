package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLog makes a log in a new folder and opens it.
func newTestLog(t testing.TB, opts Options) *Log {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	if err := Create(dir, opts); err != nil {
		t.Fatal(err)
	}
	l, _ := reopen(t, dir, opts)
	return l
}

// reopen opens the log and returns what is in it, by number.
func reopen(t testing.TB, dir string, opts Options) (*Log, map[int64]Record) {
	t.Helper()
	l, got, err := tryOpen(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // some tests close it first
	return l, got
}

func tryOpen(dir string, opts Options) (*Log, map[int64]Record, error) {
	got := map[int64]Record{}
	l, err := Open(dir, opts, func(n int64, r Record) error {
		got[n] = Record{Kind: r.Kind, Data: bytes.Clone(r.Data)}
		return nil
	})
	return l, got, err
}

func appendTo(t testing.TB, l *Log, recs ...Record) int64 {
	t.Helper()
	first, err := l.Append(recs)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// all reads the log with Read.
func all(t testing.TB, l *Log) map[int64]Record {
	t.Helper()
	got := map[int64]Record{}
	for after := int64(0); ; {
		numbers, err := l.After(after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(numbers) == 0 {
			return got
		}
		err = l.Read(numbers, func(n int64, r Record) bool {
			got[n] = r
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		after = numbers[len(numbers)-1]
	}
}

func wantSame(t testing.TB, what string, want, got map[int64]Record) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%s: there are %d records, want %d", what, len(got), len(want))
	}
	for n, w := range want {
		if g := got[n]; g.Kind != w.Kind || !bytes.Equal(g.Data, w.Data) {
			t.Fatalf("%s: record %d has %d bytes of kind %d, want %d of %d", what, n, len(g.Data), g.Kind, len(w.Data), w.Kind)
		}
	}
}

// some returns records as a log may have them: text, random bytes, zeros.
func some(r *rand.Rand, most int) []Record {
	recs := make([]Record, 1+r.IntN(5))
	for i := range recs {
		data := make([]byte, r.IntN(most))
		switch r.IntN(4) {
		case 0:
			for j := range data {
				data[j] = byte(r.Uint32())
			}
		case 1:
			copy(data, bytes.Repeat([]byte("some text "), len(data)/10+1))
		case 2:
			for range len(data) / 700 {
				data[r.IntN(len(data))] = 1 << r.IntN(8)
			}
		}
		recs[i] = Record{Kind: byte(r.IntN(kindMask + 1)), Data: data}
	}
	return recs
}

// Whatever is appended, dropped, swept and opened again, the log has what a map
// has.
func TestALogIsAMapThatForgetsWhatIsDropped(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	opts := Options{Size: 20_000, Disk: unsynced{}}
	dir := filepath.Join(t.TempDir(), "log")
	if err := Create(dir, opts); err != nil {
		t.Fatal(err)
	}
	l, _ := reopen(t, dir, opts)
	want, last := map[int64]Record{}, int64(0)
	for range 600 {
		switch r.IntN(12) {
		case 0:
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			opts.AtLeast = last
			var got map[int64]Record
			l, got = reopen(t, dir, opts)
			for n := range got { // what is dropped is told again
				if _, ok := want[n]; !ok {
					l.Drop([]int64{n}, true)
					delete(got, n)
				}
			}
			wantSame(t, "opened again", want, got)
		case 1:
			var gone []int64
			for n := range want {
				if len(gone) < 9 {
					gone = append(gone, n)
					delete(want, n)
				}
			}
			l.Drop(gone, r.IntN(2) == 0)
			if err := errors.Join(l.Seal(), l.Sweep()); err != nil {
				t.Fatal(err)
			}
		default:
			recs := some(r, 3000)
			if r.IntN(50) == 0 {
				recs = some(r, 60_000) // more than a segment
			}
			first := appendTo(t, l, recs...)
			if first != last+1 {
				t.Fatalf("record %d follows %d", first, last)
			}
			for i, rec := range recs {
				last = first + int64(i)
				want[last] = rec
			}
		}
		if l.Last() != last {
			t.Fatalf("the last record is %d, want %d", l.Last(), last)
		}
	}
	wantSame(t, "read", want, all(t, l))
}

// What is to be erased is in no file after a sweep, and one that is cut off is
// done when it is begun again; what is only dropped goes where it is much.
func TestASweepErases(t *testing.T) {
	l := newTestLog(t, Options{Size: 4000})
	secret, spent := bytes.Repeat([]byte("secret"), 20), bytes.Repeat([]byte("spent"), 20)
	var erased, dropped []int64
	want := map[int64]Record{}
	for i := range 100 {
		erased = append(erased, appendTo(t, l, Record{Kind: 1, Data: secret}))
		if i >= 50 {
			dropped = append(dropped, appendTo(t, l, Record{Kind: 2, Data: spent}))
			continue
		}
		want[appendTo(t, l, Record{Kind: 3, Data: []byte("stays")})] = Record{Kind: 3, Data: []byte("stays")}
	}
	l.Drop(dropped, false)
	if err := l.Sweep(); err != nil {
		t.Fatal(err)
	}
	for _, n := range erased {
		want[n] = Record{Kind: 1, Data: secret}
	}
	wantSame(t, "with what is not dropped", want, all(t, l))
	l.Drop(erased, true)
	for _, n := range erased {
		delete(want, n)
	}
	wantSame(t, "dropped, and not swept", want, all(t, l))
	if err := errors.Join(l.Seal(), l.Sweep()); err != nil {
		t.Fatal(err)
	}
	wantSame(t, "swept", want, all(t, l))
	files, err := filepath.Glob(filepath.Join(l.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil || bytes.Contains(b, []byte("secret")) || bytes.Contains(b, []byte("spent")) {
			t.Errorf("%s has what was erased, %v", filepath.Base(path), err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, got := reopen(t, l.dir, l.options())
	wantSame(t, "opened again", want, got)
}

func (l *Log) options() Options { return Options{Size: l.size} }

// A sweep that fails leaves whole segments as they were, and is begun again.
func TestAnInterruptedSweepIsBegunAgain(t *testing.T) {
	for calls := range 60 {
		d := &faulty{}
		l := newTestLog(t, Options{Size: 2000, Disk: d})
		var numbers []int64
		want := map[int64]Record{}
		for i := range 60 {
			n := appendTo(t, l, Record{Kind: 1, Data: make([]byte, 100)})
			if i%7 == 0 {
				want[n] = Record{Kind: 1, Data: make([]byte, 100)}
				continue
			}
			numbers = append(numbers, n)
		}
		l.Drop(numbers, true)
		if err := l.Seal(); err != nil {
			t.Fatal(err)
		}
		d.failAt(calls)
		failed := l.Sweep()
		d.failAt(-1)
		check := func(left bool) {
			t.Helper()
			wantSame(t, "live", want, all(t, l))
			other, got, err := tryOpen(l.dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if (len(got) > len(want)) != left {
				t.Errorf("after %d calls %d records are left, %v", calls, len(got), failed)
			}
			for n, w := range want {
				if !bytes.Equal(got[n].Data, w.Data) {
					t.Errorf("after %d calls record %d is lost", calls, n)
				}
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
		}
		check(failed != nil)
		if err := l.Sweep(); err != nil {
			t.Fatal(err)
		}
		check(false)
		if failed == nil {
			return
		}
	}
	t.Error("no sweep was whole")
}

// Readers see whole records while others are appended, dropped and swept.
func TestReadersMeetWholeRecords(t *testing.T) {
	l := newTestLog(t, Options{Size: 10_000, Disk: unsynced{}})
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				var after int64
				for numbers, _ := l.After(0, 50); len(numbers) > 0; numbers, _ = l.After(after, 50) {
					after = numbers[len(numbers)-1]
					err := l.Read(numbers, func(n int64, r Record) bool {
						if want := fmt.Sprint("record ", n); string(r.Data) != want {
							t.Errorf("%q, want %q", r.Data, want)
						}
						return true
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for n := int64(1); n < 1500; n += 2 {
		appendTo(t, l, Record{Kind: 1, Data: fmt.Append(nil, "record ", n)}, Record{Kind: 1, Data: fmt.Append(nil, "record ", n+1)})
		if n%100 == 1 && n > 1 {
			l.Drop([]int64{n - 50, n - 30}, true)
			if err := l.Sweep(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(done)
	wg.Wait()
}

func TestALogThatMissesASegmentIsRefused(t *testing.T) {
	l := newTestLog(t, Options{Size: 3000})
	for range 60 {
		appendTo(t, l, Record{Kind: 1, Data: make([]byte, 150)})
	}
	last := l.Last()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(l.dir, "*"+suffix))
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for i, path := range files {
		aside := path + ".aside"
		if err := os.Rename(path, aside); err != nil {
			t.Fatal(err)
		}
		if _, _, err := tryOpen(l.dir, Options{AtLeast: last}); !errors.Is(err, ErrDamaged) {
			t.Errorf("without segment %d of %d: %v", i, len(files), err)
		}
		if err := os.Rename(aside, path); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, st.Size()-1); err != nil {
			t.Fatal(err)
		}
		if _, _, err := tryOpen(l.dir, Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("with a short segment %d of %d: %v", i, len(files), err)
		}
		if err := os.Truncate(path, st.Size()); err != nil {
			t.Fatal(err)
		}
	}
	if _, got := reopen(t, l.dir, Options{AtLeast: last}); int64(len(got)) != last {
		t.Errorf("%d of %d records are there", len(got), last)
	}
}

// content returns the log's files.
func content(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = b
	}
	return files
}

func names(files map[string][]byte) []string {
	var out []string
	for name := range files {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
