package segment

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

var rounds = flag.Int("rounds", 0, "how many places are damaged; by default a sample")

// unsynced is a disk for tests in which no power goes.
type unsynced struct{ realDisk }

func (unsynced) Sync(*os.File) error { return nil }

// written makes a log of many records with a last frame of that data, closes it
// and returns where that begins in the last file, and what is in the log.
func written(t *testing.T, opts Options, more int, last []Record) (dir, path string, at int64, want map[int64]Record) {
	t.Helper()
	l := newTestLog(t, opts)
	r := rand.New(rand.NewPCG(1, 2))
	want = map[int64]Record{}
	add := func(recs []Record) {
		first := appendTo(t, l, recs...)
		for i, rec := range recs {
			want[first+int64(i)] = rec
		}
	}
	for range more {
		add(some(r, 2000))
	}
	seg := l.segs[len(l.segs)-1]
	at = seg.end
	add(last)
	if seg = l.segs[len(l.segs)-1]; seg.end == frameSize(last)+int64(fileHead) {
		at = int64(fileHead)
	}
	path = seg.path
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.dir, path, at, want
}

// without returns want less the records of the last frame.
func less(want map[int64]Record, last []Record) map[int64]Record {
	out := map[int64]Record{}
	for n, r := range want {
		if n <= int64(len(want)-len(last)) {
			out[n] = r
		}
	}
	return out
}

// Wherever power cut the last frame off, what was there before it is there, and
// the log goes on; but if the frame had been acknowledged, the log is refused.
func TestATornFrameIsDropped(t *testing.T) {
	for _, last := range [][]Record{
		{{Kind: 1, Data: bytes.Repeat([]byte("x"), 1700)}, {Kind: 2, Data: make([]byte, 1500)}, {Kind: 3, Data: []byte("end")}},
		{{Kind: 1, Data: nil}},
	} {
		for shift := range 4 { // so that the frame lies differently over sectors
			dir, path, at, want := written(t, Options{Size: 1 << 15, Disk: unsynced{}}, 3, append([]Record{{Kind: 9, Data: make([]byte, 170*shift)}}, last...))
			last := append([]Record{{Kind: 9, Data: nil}}, last...)
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			end := at + int64(len(bytes.TrimRight(whole[at:], "\x00")))
			for cut := at; cut < end; cut++ {
				// A sample: about the ends of header, sectors and frame, and some.
				if near := (cut+20)%chunk < 40 || cut < at+50 || cut > end-20 || cut%37 == 0; *rounds == 0 && !near {
					continue
				}
				torn := bytes.Clone(whole)
				clear(torn[cut:])
				checkTorn(t, dir, path, torn, want, less(want, last))
			}
		}
	}
}

// A disk writes the sectors of a frame in any order.
func TestAFrameWithoutSomeOfItsSectorsIsDropped(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	last := []Record{{Kind: 1, Data: bytes.Repeat([]byte("x"), 1700)}, {Kind: 2, Data: make([]byte, 1500)}, {Kind: 3, Data: bytes.Repeat([]byte("y"), 700)}}
	last[1].Data[700] = 0x10 // a faint chunk
	for shift := range 20 {
		last := append([]Record{{Kind: 9, Data: bytes.Repeat([]byte("z"), 13*shift)}}, last...)
		dir, path, at, want := written(t, Options{Size: 1 << 15, Disk: unsynced{}}, 3, last)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		end := at + frameSize(last)
		for range 30 {
			torn, lost, faint := bytes.Clone(whole), 0, 0
			for from := at; from < end; {
				to := min(from/chunk*chunk+chunk, end)
				if n := ones(torn[from:to]); n > 0 && r.IntN(4) == 0 {
					clear(torn[from:to])
					if lost++; n == 1 {
						faint++
					}
				}
				from = to
			}
			if lost > 0 && !(lost == 1 && faint == 1) {
				checkTorn(t, dir, path, torn, want, less(want, last))
			}
		}
	}
}

func checkTorn(t *testing.T, dir, path string, torn []byte, all, want map[int64]Record) {
	t.Helper()
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tryOpen(dir, Options{AtLeast: int64(len(all)), Disk: unsynced{}}); !errors.Is(err, ErrDamaged) {
		t.Fatalf("it had been acknowledged: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, torn) {
		t.Fatalf("what was refused was changed, %v", err)
	}
	l, got := reopen(t, dir, Options{AtLeast: int64(len(want)), Disk: unsynced{}})
	wantSame(t, "before the torn frame", want, got)
	if first := appendTo(t, l, Record{Kind: 1, Data: []byte("more")}); first != int64(len(want))+1 {
		t.Fatalf("record %d follows %d", first, len(want))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, got, err := tryOpen(dir, Options{Disk: unsynced{}})
	if err != nil || len(got) != len(want)+1 {
		t.Fatalf("after it, %d records of %d, %v", len(got), len(want)+1, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// Wherever one bit changes, the log is refused as it is, or nothing was there: it
// never opens with less or something else in it.
func TestNoChangedBitIsServedOrLosesARecord(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	last := []Record{{Kind: 1, Data: make([]byte, 2000)}, {Kind: 2, Data: bytes.Repeat([]byte("last"), 400)}}
	last[0].Data[1000] = 4 // a faint chunk
	dir, path, at, want := written(t, Options{Size: 1 << 15, Disk: unsynced{}}, 60, last)
	files := content(t, dir)
	end := at + frameSize(last)
	n := max(*rounds, 300)
	refused := 0
	check := func(name string, i int64, bit int) {
		b := bytes.Clone(files[name])
		b[i] ^= 1 << bit
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, got, err := tryOpen(dir, Options{Disk: unsynced{}})
		switch {
		case errors.Is(err, ErrDamaged):
			refused++
			if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, b) {
				t.Fatalf("seed %d: what was refused was changed, %v", seed, err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			wantSame(t, "opened all the same", want, got)
			wantSame(t, "read", want, all(t, l))
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if file == path && i < end {
				t.Fatalf("seed %d: bit %d of byte %d of %s, which is used, is not noticed", seed, bit, i, name)
			}
		}
		if err := os.WriteFile(file, files[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := names(files)
	for range n {
		name := all[r.IntN(len(all))]
		check(name, int64(r.IntN(len(files[name]))), r.IntN(8))
	}
	for range n {
		check(filepath.Base(path), at+r.Int64N(end-at), r.IntN(8))
	}
	for bit := range 8 { // of the faint chunk, so that it has none
		check(filepath.Base(path), int64(bytes.Index(files[filepath.Base(path)][at:], make([]byte, 300)))+at, bit)
		i := bytes.IndexByte(files[filepath.Base(path)][at+headerSize+recordSize:], 4)
		check(filepath.Base(path), at+headerSize+recordSize+int64(i), bit)
	}
	if refused < n {
		t.Errorf("seed %d: %d of %d were refused", seed, refused, 2*n)
	}
	t.Logf("seed %d: %d of %d changes were refused", seed, refused, 2*n+16)
}

// A hole in the last file that a frame follows was not torn there, since frames are
// written one after the other.
func TestWhatIsBeforeAFrameIsNotTorn(t *testing.T) {
	dir, path, at, _ := written(t, Options{Disk: unsynced{}}, 40, []Record{{Kind: 1, Data: []byte("last")}})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		b := bytes.Clone(whole)
		from := int64(fileHead) + r.Int64N(at-int64(fileHead))
		if n := min(from+1+r.Int64N(5000), at); len(bytes.Trim(b[from:n], "\x00")) == 0 {
			continue
		} else {
			clear(b[from:n])
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := tryOpen(dir, Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("with zeros from byte %d on: %v", from, err)
		}
	}
}

// Damage that happens while the log is open is found when it is read.
func TestDamageIsFoundBeforeItIsServed(t *testing.T) {
	l := newTestLog(t, Options{})
	n := appendTo(t, l, Record{Kind: 1, Data: []byte("as it was")}, Record{Kind: 1, Data: []byte("whole")})
	b, err := os.ReadFile(l.segs[0].path)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, []byte("as it was"))] ^= 1
	if err := os.WriteFile(l.segs[0].path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	served := func(number int64, r Record) bool { t.Errorf("record %d is served as %q", number, r.Data); return true }
	if err := l.Read([]int64{n}, served); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
	if err := l.Read([]int64{n + 1}, func(_ int64, r Record) bool { return string(r.Data) == "whole" }); err != nil {
		t.Errorf("the one beside it: %v", err)
	}
	l.Drop([]int64{n + 1}, true)
	if err := errors.Join(l.Seal(), l.Sweep()); !errors.Is(err, ErrDamaged) {
		t.Errorf("a sweep copies it: %v", err)
	}
}

// What somebody has written in a record is not taken for a frame, whatever it is.
func TestARecordThatLooksLikeAFrameIsNone(t *testing.T) {
	l := newTestLog(t, Options{})
	var f frame
	fake, _ := f.build(0, 100, 0, []Record{{Kind: 1, Data: []byte("a frame of another segment")}})
	appendTo(t, l, Record{Kind: 1, Data: []byte("before")})
	at := l.segs[0].end
	appendTo(t, l, Record{Kind: 1, Data: bytes.Clone(fake)}, Record{Kind: 1, Data: []byte("after")})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := segPath(l.dir, 1)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(b[at+int64(headerSize+recordSize+len(fake)):])
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, got := reopen(t, l.dir, Options{}); len(got) != 1 {
		t.Errorf("%d records are left", len(got))
	}
}
