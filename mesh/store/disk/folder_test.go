package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
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
			wantRefused(t, path, name, "restore a copy", path+markSuffix, logPath(path))
			wantRefused(t, path, name)
			// What the message advises works.
			if err := errors.Join(os.Remove(path+markSuffix), os.RemoveAll(logPath(path))); err != nil {
				t.Fatal(err)
			}
			if recs, err := openAt(t, path).Scan(t.Context(), 0, 1); len(recs) != 0 || err != nil {
				t.Errorf("the new file has %v, %v", recs, err)
			}
		})
	}
}

// A log that is not the file's is not served, and not replaced.
func TestALogThatIsMissingOrAnothersIsRefused(t *testing.T) {
	path := filled(t)
	aside := logPath(path) + ".aside"
	if err := os.Rename(logPath(path), aside); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path, logPath(path), "missing", "restore a copy")
	other := filled(t)
	for _, name := range logFiles(t, other)[1:] {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(logPath(other), logPath(path)); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path, logPath(path), "damaged", "restore a copy")
	if err := errors.Join(os.RemoveAll(logPath(path)), os.Rename(aside, logPath(path))); err != nil {
		t.Fatal(err)
	}
	openAt(t, path)
}

func TestAnInterruptedFirstStartIsNoDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Mkdir(logPath(path)+newSuffix, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+newSuffix, []byte("half a page"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAt(t, path).Append(t.Context(), logtest.Key(1), fact("x")); err != nil {
		t.Error(err)
	}
}

// copyOf copies the folder and returns the path of its file: bbolt may keep one
// that was damaged locked until the process ends.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	for tries := 1; ; tries++ { // one in use may lose a file meanwhile
		err := os.CopyFS(filepath.Join(dir, fmt.Sprint(tries)), os.DirFS(filepath.Dir(path)))
		if err == nil {
			dir = filepath.Join(dir, fmt.Sprint(tries))
			break
		}
		if tries == 50 {
			t.Fatal(err)
		}
	}
	to := indexPath(filepath.Join(dir, filepath.Base(path)))
	if st, err := os.Lstat(to); err == nil && st.Mode()&fs.ModeSymlink != 0 { // a test has it elsewhere
		if err := errors.Join(os.Remove(to), copyFile(indexPath(path), to)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, filepath.Base(path))
}

// logFiles returns the files of the log.
func logFiles(t *testing.T, path string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(logPath(path), "*.seg"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

// filled makes a folder with records, ids and values in it, and returns its data
// file.
func filled(t *testing.T) (path string) { return filledWith(t, 'x') }

func filledWith(t *testing.T, data byte) (path string) {
	path = filepath.Join(t.TempDir(), "mesh.db")
	s, err := Open(path, Options{size: 200_000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		b := &threadlog.Batch{}
		for j := range 20 {
			b.Entries = append(b.Entries, threadlog.Entry{Data: bytes.Repeat([]byte{data}, 300), ID: fmt.Sprint(i, "/", j)})
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
	return path
}

// flipAll changes one bit at the offset from each place where what is in the
// file: bbolt leaves old copies behind, and which one counts cannot be seen.
func flipAll(b, what []byte, offset int) []byte {
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
	n := len(logFiles(t, good))
	for name, c := range map[string]struct {
		file   int // of the log, or its own
		damage func([]byte) []byte
	}{
		"text":               {-1, func([]byte) []byte { return bytes.Repeat([]byte("hello "), 10000) }},
		"short":              {-1, func(b []byte) []byte { return b[:100] }},
		"half":               {-1, func(b []byte) []byte { return b[:len(b)/2] }},
		"no heads":           {-1, func(b []byte) []byte { clear(b[:32768]); return b }},
		"a byte of a value":  {-1, func(b []byte) []byte { return flipAll(b, []byte("\x00k\x00"), 40) }},
		"not ours":           {-1, func([]byte) []byte { return alien(t) }},
		"no checkpoint":      {-1, func([]byte) []byte { return unmarked(t) }},
		"log: text":          {1, func([]byte) []byte { return bytes.Repeat([]byte("hello "), 10000) }},
		"log: short":         {1, func(b []byte) []byte { return b[:100] }},
		"log: half":          {0, func(b []byte) []byte { return b[:len(b)/2] }},
		"log: no last block": {n - 1, func(b []byte) []byte { n := len(bytes.TrimRight(b, "\x00")); clear(b[n-512 : n]); return b }},
		"log: no records":    {n - 1, func(b []byte) []byte { clear(b[20:]); return b }},
		"log: a hole":        {0, func(b []byte) []byte { clear(b[len(b)/2 : len(b)/2+4096]); return b }},
		"log: garbage":       {2, func(b []byte) []byte { flip(b[20000:], 7); return b }},
		"log: a byte":        {0, func(b []byte) []byte { return flipOne(b, bytes.Repeat([]byte{'x'}, 300), 150) }},
	} {
		t.Run(name, func(t *testing.T) {
			path := copyOf(t, good)
			if err := os.Remove(indexPath(path)); err != nil { // without it, all is read
				t.Fatal(err)
			}
			file := path
			if c.file >= 0 {
				file = logFiles(t, path)[c.file]
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, c.damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			bad := contents(t, path)
			wantRefused(t, path, filepath.Dir(path), filepath.Base(filepath.Dir(file)), "damaged", "restore a copy")
			wantRefused(t, path, "damaged") // nothing is left locked
			if !maps.EqualFunc(bad, contents(t, path), bytes.Equal) {
				t.Error("the folder was changed")
			}
		})
	}
	if recs, err := openAt(t, good).Scan(t.Context(), 0, 5000); err != nil || len(recs) != 2000 {
		t.Errorf("whole, it has %d events, %v", len(recs), err)
	}
}

// flipOne changes one bit at the offset from where what is first.
func flipOne(b, what []byte, offset int) []byte {
	b[bytes.Index(b, what)+offset] ^= 1
	return b
}

// contents returns the files of the folder but for that of the lock.
func contents(t *testing.T, path string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range append(logFiles(t, path), path) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	return files
}

func flip(b []byte, step int) {
	for i := 0; i < len(b); i += step {
		b[i] ^= 0xff
	}
}

// What is missing at the end of an old file leaves nothing behind that is wrong by
// itself.
func TestAFileWithoutItsLastEventIsRefused(t *testing.T) {
	path := old(t, 1)
	db, err := openFile(path, valuesPage, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(func(tx *bolt.Tx) error {
		k, _ := tx.Bucket(bucketLog).Cursor().Last()
		return tx.Bucket(bucketLog).Delete(k)
	}), db.Close()); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path, "mesh.db", "damaged")
}

// alien returns a bbolt file of another program.
func alien(t *testing.T) []byte {
	return made(t, func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("theirs"))
		return err
	})
}

// unmarked returns a file of this version whose checkpoint is missing.
func unmarked(t *testing.T) []byte {
	return made(t, func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketState} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return putNumber(tx, keyVersion, firstVersion)
	})
}

func made(t *testing.T, fill func(*bolt.Tx) error) []byte {
	path := filepath.Join(t.TempDir(), "made.db")
	db, err := openFile(path, valuesPage, false)
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
