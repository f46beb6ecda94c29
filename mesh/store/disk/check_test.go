package disk

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// small makes a folder with events of some threads, of which one is deleted, in several
// segments, and returns what the threads have.
func small(t *testing.T) (path string, want map[mesh.ThreadKey][]string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "mesh.db")
	s, err := Open(path, Options{disk: &testDisk{unsynced: true}, size: 3000})
	if err != nil {
		t.Fatal(err)
	}
	want = map[mesh.ThreadKey][]string{}
	for i := range 60 {
		key, data := logtest.Key(i%4), fmt.Sprintf("event %d %0*d", i, i%90, i)
		if _, err := s.Append(t.Context(), key, fact(data)); err != nil {
			t.Fatal(err)
		}
		want[key] = append(want[key], data)
		if i == 30 {
			if err := s.Delete(t.Context(), logtest.Key(3), threadlog.AnyPos); err != nil {
				t.Fatal(err)
			}
			delete(want, logtest.Key(3))
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, want
}

// served reads all threads, and returns those that are closed. What is served must be what was
// written.
func served(t *testing.T, s *Store, want map[mesh.ThreadKey][]string) (closed int) {
	t.Helper()
	for key, data := range want {
		var got []string
		var err error
		for after := mesh.Seq(0); err == nil; after = mesh.Seq(len(got)) {
			var recs []threadlog.Record
			if recs, err = s.Read(t.Context(), key, after, 4); len(recs) == 0 {
				break
			}
			for _, r := range recs {
				got = append(got, string(r.Data))
			}
		}
		switch {
		case mesh.IsCode(err, mesh.DataLoss):
			closed++
			_, err := s.Append(t.Context(), key, fact("more"))
			if !mesh.IsCode(err, mesh.DataLoss) {
				t.Errorf("a closed thread takes more: %v", err)
			}
			if !slices.Equal(got, data[:len(got)]) {
				t.Errorf("before it is closed, %s reads %q", key, got)
			}
		case err != nil:
			t.Errorf("%s: %v", key, err)
		case !slices.Equal(got, data):
			t.Errorf("%s reads %q, want %q", key, got, data)
		}
	}
	return closed
}

// wantFoundOrRefused opens the folder, of which something was changed, twice: whoever reads
// before anything was checked, and after the check, has what was written, or is told that it is
// lost. It returns whether anything was found.
func wantFoundOrRefused(t *testing.T, path string, want map[mesh.ThreadKey][]string) (found bool) {
	t.Helper()
	for _, unchecked := range []bool{true, false} {
		s, err := Open(copyOf(t, path), Options{disk: &testDisk{unsynced: true}, unchecked: unchecked, size: 3000})
		if err != nil {
			if !mesh.IsCode(err, mesh.Precondition) {
				t.Errorf("refused with %v", err)
			}
			return true
		}
		<-s.ended
		closed := served(t, s, want)
		d := s.Health().Damage
		if d == nil && closed > 0 {
			t.Errorf("%d threads are closed, and its health says nothing", closed)
		}
		recs, err := s.Scan(t.Context(), 0, 1000)
		if err != nil {
			t.Error(err)
		}
		for _, r := range recs {
			if all := want[r.Thread]; all == nil || int(r.Seq) > len(all) || all[r.Seq-1] != string(r.Data) {
				t.Errorf("a scan has event %d of %s as %q", r.Seq, r.Thread, r.Data)
			}
		}
		found = d != nil
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// finding C6: wherever a byte of a folder changes, it is refused when it is opened, or the
// threads that need it are closed, and who looks at its health is told; what is served is what
// was written.
func TestEveryByteOfTheFolderIsCheckedBeforeItIsServed(t *testing.T) {
	path, want := small(t)
	if wantFoundOrRefused(t, path, want) {
		t.Fatal("something is found in a whole folder")
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for _, file := range append(logFiles(t, path), indexPath(path)) {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		end := len(bytes.TrimRight(whole, "\x00"))
		for range 12 {
			at := r.IntN(end)
			b := bytes.Clone(whole)
			switch r.IntN(3) {
			case 0:
				b[at] ^= 1 << r.IntN(8)
			case 1:
				clear(b[at:min(at+1+r.IntN(600), end)])
			default:
				from := r.IntN(end)
				copy(b[at:end], whole[from:min(from+32, end)])
			}
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
			found := wantFoundOrRefused(t, path, want)
			if !found && file != indexPath(path) && !bytes.Equal(b[:end], whole[:end]) {
				t.Errorf("a change at byte %d of %d of %s is not found", at, end, filepath.Base(file))
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		if err := os.WriteFile(file, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// findings C6, T9: what somebody has changed in the log with all checksums is not served either:
// the chains of hashes do not fit, which who reads sees, or the check.
func TestAForgedLogIsNotServed(t *testing.T) {
	for name, change := range map[string]func([]segment.Record) []segment.Record{
		"an event":     func(r []segment.Record) []segment.Record { r[4].Data[len(r[4].Data)-1] ^= 1; return r },
		"its hash":     func(r []segment.Record) []segment.Record { r[4].Hash[3] ^= 1; return r },
		"a value":      func(r []segment.Record) []segment.Record { r[7].Data[len(r[7].Data)-1] ^= 1; return r },
		"a deletion":   func(r []segment.Record) []segment.Record { r[8].Data[len(r[8].Data)-1] ^= 1; return r },
		"two swapped":  func(r []segment.Record) []segment.Record { r[0], r[2] = r[2], r[0]; return r },
		"two threads'": func(r []segment.Record) []segment.Record { r[0], r[1] = r[1], r[0]; return r },
		"one dropped": func(r []segment.Record) []segment.Record {
			r[4] = segment.Record{Kind: kindEvent | segment.Dropped, Hash: r[4].Hash}
			return r
		},
		"one dropped without a hash": func(r []segment.Record) []segment.Record { r[2] = segment.Record{Kind: segment.Dropped}; return r },
		"a deletion dropped": func(r []segment.Record) []segment.Record {
			r[8] = segment.Record{Kind: kindDeleted | segment.Dropped, Hash: r[8].Hash}
			return r
		},
		"one taken out": func(r []segment.Record) []segment.Record { return slices.Delete(r, 2, 3) },
		"one added":     func(r []segment.Record) []segment.Record { return slices.Insert(r, 1, r[1]) },
		"an event and all hashes behind it": func(r []segment.Record) []segment.Record {
			r[1].Data[len(r[1].Data)-1] ^= 1
			return rehash(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "mesh.db")
			writeSmall(t, path)
			remake(t, path, change)
			if name != "an event and all hashes behind it" { // which one event does not tell
				readForged(t, copyOf(t, path))
			}
			s, err := Open(path, Options{})
			if err != nil {
				if !mesh.IsCode(err, mesh.Precondition) {
					t.Error(err)
				}
				return
			}
			<-s.ended
			// A value may have left the log before the check came by: mesh.db has it.
			if s.Health().Damage == nil && (name != "a value" || logHas(t, s, 8)) {
				t.Error("nothing is found")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// logHas reports whether the record is in the log, with its data.
func logHas(t *testing.T, s *Store, n int64) (has bool) {
	t.Helper()
	if err := s.log.Read([]int64{n}, func(int64, segment.Record) bool { has = true; return true }); err != nil {
		t.Fatal(err)
	}
	return has
}

// readForged reads threads of which nothing was checked: what is served is what writeSmall wrote.
func readForged(t *testing.T, path string) {
	t.Helper()
	s, err := Open(path, Options{unchecked: true})
	if err != nil {
		return
	}
	for key, want := range map[int][]string{1: {"an event", "an event", "an event", "the last but one", "the last"}, 2: {"an event", "an event"}} {
		for after := range want {
			recs, err := s.Read(t.Context(), logtest.Key(key), mesh.Seq(after), 1)
			if mesh.IsCode(err, mesh.DataLoss) {
				break
			}
			if err != nil || len(recs) != 1 || string(recs[0].Data) != want[after] {
				t.Errorf("event %d of thread %d is %v, %v", after+1, key, recs, err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// finding C6: what changes while the check is at work, it tells from damage: appends and
// deletions go on beside it.
func TestTheCheckGoesOnBesideWritersAndDeletions(t *testing.T) {
	path := filled(t)
	for round := range 4 {
		s, err := Open(path, Options{size: 20_000, disk: &testDisk{unsynced: true}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			b := fact(fmt.Sprintf("more %0200d", i))
			if _, err := s.Append(t.Context(), logtest.Key(i%9), b); err != nil {
				t.Fatal(err)
			}
			if i%20 == 19 {
				err := s.Delete(t.Context(), logtest.Key((i+round)%9), threadlog.AnyPos)
				if err != nil && !mesh.IsCode(err, mesh.NotFound) {
					t.Fatal(err)
				}
				s.wakeKeeper()
			}
		}
		<-s.ended
		if d := s.Health().Damage; d != nil {
			t.Fatalf("round %d: %v", round, d)
		}
		if done, all := s.Checked(); done != all || all == 0 {
			t.Errorf("it has checked %d of %d", done, all)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A check that is not done is no reason to wait when the store is closed, and a folder that it
// has not come to is whole all the same.
func TestACheckEndsWithItsStore(t *testing.T) {
	path, want := small(t)
	for range 6 {
		s, err := Open(path, Options{size: 3000})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if s := openAt(t, path); served(t, s, want) > 0 || errors.Is(s.Health().Damage, segment.ErrDamaged) {
		t.Error("it is damaged")
	}
}
