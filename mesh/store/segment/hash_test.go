package segment

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// withHashes opens the log read-only and returns its records, and the numbers of those
// that are broken.
func withHashes(t *testing.T, dir string) (got map[int64]Record, broken []int64) {
	t.Helper()
	got = map[int64]Record{}
	l, err := Open(dir, Options{ReadOnly: true, Broken: func(n int64, _ Record) { broken = append(broken, n) }}, func(n int64, r Record) error {
		got[n] = Record{Kind: r.Kind, Data: bytes.Clone(r.Data), Hash: bytes.Clone(r.Hash)}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return got, broken
}

func TestAHashOutlivesTheRecordsBytes(t *testing.T) {
	l := newTestLog(t, Options{})
	hash := bytes.Repeat([]byte{7}, HashSize)
	n := appendTo(t, l, Record{Kind: 1, Data: []byte("gone"), Hash: hash}, Record{Kind: 2, Data: []byte("stays"), Hash: hash}, Record{Kind: 3, Data: []byte("plain")})
	l.Drop([]int64{n, n + 2}, true)
	if err := l.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := l.Sweep(); err != nil {
		t.Fatal(err)
	}
	var read []Record
	if err := l.Read([]int64{n, n + 1, n + 2}, func(_ int64, r Record) bool { read = append(read, r); return true }); err != nil {
		t.Fatal(err)
	}
	stays := Record{Kind: 2, Data: []byte("stays"), Hash: hash}
	if len(read) != 1 || !bytes.Equal(read[0].Data, stays.Data) || !bytes.Equal(read[0].Hash, hash) {
		t.Errorf("it reads %v", read)
	}
	got, broken := withHashes(t, l.dir)
	if r := got[n]; len(broken) > 0 || r.Kind != 1|Dropped || !bytes.Equal(r.Hash, hash) || len(r.Data) > 0 {
		t.Errorf("the dropped one is %v, broken are %v", r, broken)
	}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, []int64{n, n + 1}) {
		t.Errorf("visited were %v", keys)
	}
}

// Who only looks is told of each broken record, and changes nothing.
func TestWhoOnlyReadsSeesWhatIsBroken(t *testing.T) {
	l := newTestLog(t, Options{})
	for _, text := range []string{"one", "two", "three"} {
		appendTo(t, l, Record{Kind: 1, Data: []byte(text)})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(l.dir, filepath.Base(segPath(l.dir, 1)))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, []byte("two"))] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	got, broken := withHashes(t, l.dir)
	if !slices.Equal(broken, []int64{2}) || len(got) != 2 {
		t.Errorf("broken are %v, and these are not: %v", broken, got)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, b) {
		t.Errorf("the file was changed (%v)", err)
	}
	if _, _, err := tryOpen(l.dir, Options{}); err == nil {
		t.Error("who writes opens it all the same")
	}
}
