package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// wantRefused checks that Open refuses with words that say what to do.
func wantRefused(t *testing.T, path string, words ...string) {
	t.Helper()
	s, err := Open(path, Options{})
	if err == nil {
		_ = s.Close()
		t.Fatal("it was opened")
	}
	if !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("got %v, want a Precondition error", err)
	}
	for _, w := range words {
		if !strings.Contains(mesh.DetailOf(err), w) {
			t.Errorf("%q does not say %q", mesh.DetailOf(err), w)
		}
	}
}

func TestASecondOpenLearnsWhoHoldsTheFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	first, err := Open(path, Options{Address: "127.0.0.1:7420"})
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path, filepath.Dir(path), fmt.Sprint("process ", os.Getpid()), "127.0.0.1:7420", "since 2", "stop it", "--data")
	if err := os.WriteFile(path+lockSuffix, []byte("not yet written"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path, "another process", "--data")
	if _, err := first.Append(t.Context(), logtest.Key(1), fact("the first goes on")); err != nil {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, path)
}

func TestAFolderThatCannotBeWrittenIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("a file stands in its place", func(t *testing.T) {
		wantRefused(t, filepath.Join(file, "data", "mesh.db"), "cannot be written", "--data")
	})
	t.Run("no permission", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root may write anywhere")
		}
		closed := filepath.Join(dir, "closed")
		if err := os.Mkdir(closed, 0o500); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, filepath.Join(closed, "mesh.db"), "cannot be written", "permission denied", "--data")
	})
}

func TestAFileThatWasThereIsNotReplacedByAnEmptyOne(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"missing": os.Remove,
		"empty":   func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "mesh.db")
			s := openAt(t, path)
			if _, err := s.Append(t.Context(), logtest.Key(1), fact("x")); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, path, name, "restore a copy", path+markSuffix)
			wantRefused(t, path, name)
			// What the message advises works.
			if err := os.Remove(path + markSuffix); err != nil {
				t.Fatal(err)
			}
			if recs, err := openAt(t, path).Scan(t.Context(), 0, 1); len(recs) != 0 || err != nil {
				t.Errorf("the new file has %v, %v", recs, err)
			}
		})
	}
}

func TestAnInterruptedFirstStartIsNoDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	for _, name := range []string{path, path + newSuffix} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path+newSuffix, []byte("half a page"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAt(t, path).Append(t.Context(), logtest.Key(1), fact("x")); err != nil {
		t.Error(err)
	}
}

// filled returns the bytes of a file with records, ids and values in it.
func filled(t *testing.T) []byte {
	path := filepath.Join(t.TempDir(), "mesh.db")
	s := openAt(t, path)
	for i := range 100 {
		b := &threadlog.Batch{}
		for j := range 20 {
			b.Entries = append(b.Entries, threadlog.Entry{Data: bytes.Repeat([]byte{'x'}, 300), ID: fmt.Sprint(i, "/", j)})
		}
		if _, err := s.Append(t.Context(), logtest.Key(i%7), b); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		if _, err := s.PutState(t.Context(), state.Key{Kind: "k", Name: fmt.Sprint(i)}, make([]byte, 300), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// change changes one bit at the offset from each place where what is in the
// file: bbolt leaves old copies behind, and which one counts cannot be seen.
func change(b, what []byte, offset int) []byte {
	for at := 0; ; {
		i := bytes.Index(b[at:], what)
		if i < 0 || at+i+offset >= len(b) {
			return b
		}
		b[at+i+offset] ^= 1
		at += i + max(len(what), offset+1)
	}
}

func TestADamagedFileIsRefusedAndLeftAsItIs(t *testing.T) {
	good := filled(t)
	for name, damage := range map[string]func([]byte) []byte{
		"text":               func([]byte) []byte { return bytes.Repeat([]byte("hello "), 10000) },
		"short":              func(b []byte) []byte { return b[:100] },
		"half":               func(b []byte) []byte { return b[:len(b)/2] },
		"no heads":           func(b []byte) []byte { clear(b[:32768]); return b },
		"a hole":             func(b []byte) []byte { clear(b[len(b)/2 : len(b)/2+65536]); return b },
		"garbage all over":   func(b []byte) []byte { flip(b[65536:], 7); return b },
		"a byte of a record": func(b []byte) []byte { return change(b, bytes.Repeat([]byte{'x'}, 300), 150) },
		"a byte of a value":  func(b []byte) []byte { return change(b, []byte("\x00k\x00"), 40) },
		"not ours":           func([]byte) []byte { return alien(t) },
		"another's version":  func([]byte) []byte { return future(t) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "mesh.db")
			bad := damage(slices.Clone(good))
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, path, path, "damaged", "restore a copy")
			wantRefused(t, path, "damaged") // nothing is left locked
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(bad, after) {
				t.Errorf("the file was changed, %v", err)
			}
		})
	}
}

func flip(b []byte, step int) {
	for i := 0; i < len(b); i += step {
		b[i] ^= 0xff
	}
}

// What is missing at the end leaves nothing behind that is wrong by itself.
func TestAFileWithoutItsLastEventIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	if err := os.WriteFile(path, filled(t), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := openFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(func(tx *bolt.Tx) error {
		k, _ := tx.Bucket(bucketLog).Cursor().Last()
		return tx.Bucket(bucketLog).Delete(k)
	}), db.Close()); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path, path, "damaged")
}

// alien returns a bbolt file of another program.
func alien(t *testing.T) []byte {
	return made(t, func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("theirs"))
		return err
	})
}

// future returns a file of a later version of this program.
func future(t *testing.T) []byte {
	return made(t, func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketLog, bucketState} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		b := []byte{0, 0, 0, 0, format + 1, 0, 0}
		seal(keyTotals, b)
		return tx.Bucket(bucketMeta).Put(keyTotals, b)
	})
}

func made(t *testing.T, fill func(*bolt.Tx) error) []byte {
	path := filepath.Join(t.TempDir(), "made.db")
	db, err := openFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fill), db.Close()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Wherever a block of a file is lost, the file is refused, or nothing was in
// that block: it never opens with less in it.
func TestNoDamageOpensWithLessInIt(t *testing.T) {
	good := filled(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	refused := 0
	for range 30 {
		path := filepath.Join(t.TempDir(), "mesh.db")
		bad := slices.Clone(good)
		from := 32768 + r.IntN(len(bad)-32768-4096)
		if r.IntN(2) == 0 {
			clear(bad[from : from+4096])
		} else {
			flip(bad[from:from+4096], 1+r.IntN(64))
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path, Options{})
		if err != nil {
			refused++
			continue
		}
		if got := s.book.Records(); got != 2000 {
			t.Errorf("seed %d: opened with %d events", seed, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if refused == 0 {
		t.Errorf("seed %d: nothing was refused", seed)
	}
}
