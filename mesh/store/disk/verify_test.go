package disk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh/state"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// signedHead is what a checkpoint has of a log.
type signedHead struct {
	first, last int64
	sum         [32]byte
}

// writeSmall makes a folder with events of three threads, of which one is deleted, and a
// value, and returns what a checkpoint would have signed at its end.
func writeSmall(t testing.TB, path string) (at signedHead) {
	t.Helper()
	s, err := Open(path, Options{disk: &testDisk{unsynced: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []int{1, 2, 1, 3, 2, 1, 3} { // positions 1 to 7
		if _, err := s.Append(t.Context(), logtest.Key(key), fact("an event")); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.PutState(t.Context(), state.Key{Kind: "k", Name: "x"}, []byte("value"), 0) // 8
	if err := errors.Join(err, s.Delete(t.Context(), logtest.Key(3), threadlog.AnyPos)); err != nil {
		t.Fatal(err)
	}
	two := &threadlog.Batch{Entries: []threadlog.Entry{{Data: []byte("the last but one"), ID: "a"}, {Data: []byte("the last"), ID: "b"}}}
	if _, err := s.Append(t.Context(), logtest.Key(1), two); err != nil { // 10 and 11
		t.Fatal(err)
	}
	at.first, at.last, at.sum = s.Head()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return at
}

// foundAt returns where something is found, the place of the checkpoint last.
func foundAt(t testing.TB, path string, signed signedHead) (places []string) {
	t.Helper()
	v, err := Verify(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range v.Findings {
		places = append(places, f.Where)
	}
	if first, sum, ok := v.Head(signed.last); !ok || first != signed.first || sum != signed.sum {
		places = append(places, "checkpoint")
	}
	return places
}

// remake makes the log again with what change makes of its records, with checksums and
// all, as who has no key can.
func remake(t testing.TB, path string, change func([]segment.Record) []segment.Record) {
	t.Helper()
	var recs []segment.Record
	dir := logPath(path)
	l, err := segment.Open(dir, segment.Options{ReadOnly: true}, func(n int64, r segment.Record) error {
		for len(recs) < int(n)-1 {
			recs = append(recs, segment.Record{Kind: segment.Dropped})
		}
		recs = append(recs, segment.Record{Kind: r.Kind, Data: bytes.Clone(r.Data), Hash: bytes.Clone(r.Hash)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), os.RemoveAll(dir), segment.Create(dir, segment.Options{})); err != nil {
		t.Fatal(err)
	}
	if l, err = segment.Open(dir, segment.Options{}, nil); err == nil {
		_, err = l.Append(change(recs))
	}
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
}

// rehash chains the records anew, as who changed one would.
func rehash(recs []segment.Record) []segment.Record {
	links := map[string][32]byte{}
	for i, r := range recs {
		if rec, err := decode(r.Data); r.Kind == kindEvent && err == nil {
			id := rec.key.String()
			links[id], _ = linkEvent(nil, links[id], r.Data[:len(r.Data)-len(rec.Data)], rec.Data)
			link := links[id]
			recs[i].Hash = link[:]
		}
	}
	return recs
}

const thread1, thread2 = "thread acme/00000000-0000-4000-8000-000000000001", "thread acme/00000000-0000-4000-8000-000000000002"

// finding T9: whoever lacks the key changes, drops or reorders no record of the log
// unseen, and the place is told.
func TestEveryChangeOfTheLogIsFound(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func([]segment.Record) []segment.Record
		where  string // the first place
	}{
		{"nothing", func(r []segment.Record) []segment.Record { return r }, ""},
		{"an event's data", func(r []segment.Record) []segment.Record { r[2].Data[len(r[2].Data)-1] ^= 1; return r }, thread1 + " event 2 (position 3)"},
		{"an event's flags", func(r []segment.Record) []segment.Record { r[4].Data[0] ^= 1; return r }, thread2 + " event 2 (position 5)"},
		{"a hash", func(r []segment.Record) []segment.Record { r[2].Hash[5] ^= 1; return r }, thread1 + " event 2 (position 3)"},
		{"an event and all hashes behind it", func(r []segment.Record) []segment.Record {
			r[2].Data[len(r[2].Data)-1] ^= 1
			return rehash(r)
		}, "checkpoint"},
		{"an event and its own hash", func(r []segment.Record) []segment.Record {
			r[2].Data[len(r[2].Data)-1] ^= 1
			copy(r[2].Hash, rehash(slices.Clone(r))[2].Hash)
			return r
		}, thread1 + " event 3 (position 6)"},
		{"a value", func(r []segment.Record) []segment.Record { r[7].Data[len(r[7].Data)-1] ^= 1; return r }, "position 8"},
		{"an event is taken out", func(r []segment.Record) []segment.Record { return slices.Delete(r, 2, 3) }, "the log after "},
		{"an event is dropped", func(r []segment.Record) []segment.Record {
			r[2] = segment.Record{Kind: segment.Dropped}
			return r
		}, "position 3"},
		{"an event is dropped, with its hash", func(r []segment.Record) []segment.Record {
			r[2] = segment.Record{Kind: kindEvent | segment.Dropped, Hash: r[2].Hash}
			return r
		}, "position 3"},
		{"the last events of a thread are dropped, with their hashes", func(r []segment.Record) []segment.Record {
			r[4] = segment.Record{Kind: kindEvent | segment.Dropped, Hash: r[4].Hash}
			return r
		}, "position 5"},
		{"two changed places", func(r []segment.Record) []segment.Record { r[0], r[1] = r[1], r[0]; return r }, "checkpoint"},
		{"two of one thread changed places", func(r []segment.Record) []segment.Record { r[0], r[2] = r[2], r[0]; return r }, "event 2 (position 1)"},
		{"a deletion is dropped", func(r []segment.Record) []segment.Record {
			r[8] = segment.Record{Kind: kindDeleted | segment.Dropped, Hash: r[8].Hash}
			return r
		}, "position 9"},
		{"a deletion names another thread", func(r []segment.Record) []segment.Record {
			r[8].Data = bytes.Replace(r[8].Data, []byte("0003"), []byte("0002"), 1)
			return r
		}, "position 9"},
		{"one is added", func(r []segment.Record) []segment.Record { return slices.Insert(r, 1, r[1]) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "mesh.db")
			signed := writeSmall(t, path)
			remake(t, path, tt.change)
			found := foundAt(t, path, signed)
			if tt.name == "nothing" && len(found) > 0 || tt.name != "nothing" && (len(found) == 0 || !strings.Contains(strings.Join(found, "; "), tt.where)) {
				t.Errorf("found at %q, want it at %q", found, tt.where)
			}
		})
	}
}

// finding T9: no bit of the log's file can change unseen, up to what was signed.
func TestEveryByteOfTheLogCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	signed := writeSmall(t, path)
	files, err := filepath.Glob(filepath.Join(logPath(path), "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		end := len(bytes.TrimRight(whole, "\x00"))
		const step = 13 // another sample each time
		for at := rand.IntN(step); at < end; at += step {
			b := bytes.Clone(whole)
			b[at] ^= 1 << (at % 8)
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if len(foundAt(t, path, signed)) == 0 {
				t.Fatalf("byte %d of %d is changed, and nothing is found", at, end)
			}
		}
		for cut := end - 1; cut > 0; cut /= 2 {
			if err := os.WriteFile(file, append(bytes.Clone(whole[:cut]), make([]byte, len(whole)-cut)...), 0o600); err != nil {
				t.Fatal(err)
			}
			if len(foundAt(t, path, signed)) == 0 {
				t.Fatalf("%d bytes of %d are left, and nothing is found", cut, end)
			}
		}
		if err := os.WriteFile(file, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What is deleted and swept leaves hashes that still prove the rest, also after
// restarts, and the chain goes on where it was.
func TestTheChainOutlivesDeletionsAndRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	signed := writeSmall(t, path)
	for range 2 { // the second start finds the deleted events out of the files
		s := openAt(t, path)
		if first, last, sum := s.Head(); first != signed.first || last != signed.last || sum != signed.sum {
			t.Fatalf("after a start the chain is at %d to %d", first, last)
		}
		if s.LastHash(logtest.Key(1)) == ([32]byte{}) || s.LastHash(logtest.Key(3)) != ([32]byte{}) {
			t.Error("a thread has no last hash, or a deleted one has")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := openAt(t, path)
	if _, err := s.Append(t.Context(), logtest.Key(2), fact("more")); err != nil {
		t.Fatal(err)
	}
	first, last, sum := s.Head()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if found := append(foundAt(t, path, signed), foundAt(t, path, signedHead{first, last, sum})...); len(found) > 0 {
		t.Errorf("found at %q", found)
	}
}

// A log of before there were hashes is taken as it is, and chained from its next record
// on.
func TestALogWithoutHashesGoesOnWithThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	writeSmall(t, path)
	remake(t, path, func(recs []segment.Record) []segment.Record {
		for i := range recs {
			recs[i].Hash = nil
			if recs[i].Kind == kindDeleted {
				recs[i].Data = encodeKey(logtest.Key(3))
			}
			if recs[i].Kind&segment.Dropped != 0 {
				recs[i] = segment.Record{Kind: segment.Dropped}
			}
		}
		return recs
	})
	s := openAt(t, path)
	if _, err := s.Append(t.Context(), logtest.Key(1), fact("the first with a hash")); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), logtest.Key(2), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	var signed signedHead
	signed.first, signed.last, signed.sum = s.Head()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if found := foundAt(t, path, signed); len(found) > 0 || signed.first != 12 || signed.last != 13 {
		t.Errorf("found at %q, chained from %d to %d", found, signed.first, signed.last)
	}
	remake(t, path, func(recs []segment.Record) []segment.Record { recs[12].Hash = nil; return recs })
	if _, err := Open(path, Options{}); !strings.Contains(err.Error(), "has no hash") {
		t.Errorf("a record without a hash behind one with it: %v", err)
	}
}
