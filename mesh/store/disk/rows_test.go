package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// begun opens the folder, and returns what its rows begin with, and what was said.
func begun(t *testing.T, path string, opts Options) (s *Store, upTo mesh.Pos, gone []mesh.ThreadKey, said string) {
	t.Helper()
	var b strings.Builder
	opts.Logger = slog.New(slog.NewTextHandler(&b, nil))
	s, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	upTo, gone = s.Rows().Begin()
	return s, upTo, gone, b.String()
}

// someRows makes a folder with ten events, of which rows have as many.
func someRows(t *testing.T, text string, events int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mesh.db")
	s, _, _, _ := begun(t, path, Options{unchecked: true})
	for i := range 10 {
		appendTo(t, s, logtest.Key(i%3), fmt.Sprint(text, i))
		if i+1 == events {
			if err := s.Rows().Write(mesh.Pos(events), map[string][]byte{"a": []byte(text), "b": bytes.Repeat([]byte("b"), 9000), "c": []byte("c")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func appendTo(t *testing.T, s *Store, key mesh.ThreadKey, text string) {
	t.Helper()
	if _, err := s.Append(context.Background(), key, &threadlog.Batch{Entries: []threadlog.Entry{{Data: []byte(text)}}}); err != nil {
		t.Fatal(err)
	}
}

// finding C6: rows are as they were written last, with what was deleted since; those that are
// missing, damaged, of another log or ahead of it are begun afresh, and it is said why.
func TestRowsAreAsTheyWereWrittenOrBegunAfresh(t *testing.T) {
	good := someRows(t, "x", 7)
	ahead := someRows(t, "x", 10)
	other := someRows(t, "y", 7)
	for name, tt := range map[string]struct {
		change func(path string) error
		says   string
	}{
		"as they were":   {func(string) error { return nil }, ""},
		"missing":        {os.Remove, "there are none yet"},
		"empty":          {func(path string) error { return os.Truncate(path, 0) }, "because="},
		"cut":            {func(path string) error { return os.Truncate(path, 9000) }, "because="},
		"of another log": {func(path string) error { return copyFile(rowsPath(other), path) }, "it is of another log"},
		"damaged": {func(path string) error {
			return rewrite(path, func(tx *bolt.Tx) error {
				b := bytes.Clone(tx.Bucket(bucketMeta).Get(keyRows))
				b[len(b)-1] ^= 1
				return tx.Bucket(bucketMeta).Put(keyRows, b)
			})
		}, "checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			path := copyOf(t, good)
			if err := errors.Join(copyFile(rowsPath(good), rowsPath(path)), tt.change(rowsPath(path))); err != nil {
				t.Fatal(err)
			}
			s, upTo, _, said := begun(t, path, Options{unchecked: true})
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			if told := strings.Contains(said, "rows of lists are made of the log"); told != (tt.says != "") || !strings.Contains(said, tt.says) || told != (upTo == 0) {
				t.Errorf("up to %d, and it says %s", upTo, said)
			}
			want := map[string]string{}
			if tt.says == "" {
				want = map[string]string{"a": "x", "b": strings.Repeat("b", 9000), "c": "c"}
			}
			got := map[string]string{}
			for _, key := range []string{"a", "b", "c", "d"} {
				if b, err := s.Rows().Get(key); err != nil || b != nil {
					got[key] = string(b)
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("it has %v", got)
			}
		})
	}
	t.Run("ahead", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "mesh.db")
		s, _, _, _ := begun(t, path, Options{unchecked: true})
		appendTo(t, s, logtest.Key(0), "x0")
		if err := errors.Join(s.Close(), copyFile(rowsPath(ahead), rowsPath(path))); err != nil {
			t.Fatal(err)
		}
		s, upTo, _, said := begun(t, path, Options{unchecked: true})
		if err := s.Close(); err != nil || upTo != 0 || !strings.Contains(said, "it is of another log") {
			t.Errorf("up to %d, %v, and it says %s", upTo, err, said)
		}
	})
}

// A start is told which threads were deleted after the rows were written, also that of the
// events by which the log was known.
func TestRowsAreToldWhatWasDeletedSince(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	s, _, _, _ := begun(t, path, Options{unchecked: true})
	for i := range 6 {
		appendTo(t, s, logtest.Key(i), "x")
		if err := s.Rows().Write(mesh.Pos(i+1), map[string][]byte{"a": []byte("a")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{5, 2} {
		if err := s.Delete(t.Context(), logtest.Key(i), threadlog.AnyPos); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // also when what was deleted has left the files
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var upTo mesh.Pos
		var gone []mesh.ThreadKey
		var said string
		s, upTo, gone, said = begun(t, path, Options{unchecked: true})
		if upTo != 6 || len(gone) != 2 || gone[0] != logtest.Key(5) || gone[1] != logtest.Key(2) {
			t.Errorf("up to %d, without %v: %s", upTo, gone, said)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, upTo, _, said := begun(t, path, Options{unchecked: true, Rebuild: true})
	if err := s.Close(); err != nil || upTo != 0 || !strings.Contains(said, "that was asked for") {
		t.Errorf("up to %d: %v: %s", upTo, err, said)
	}
}

// An offline look finds rows that are damaged, or of another log, and says that nothing is lost.
func TestVerifyFindsRowsThatAreNotThoseThatWereWritten(t *testing.T) {
	good, other := someRows(t, "x", 7), someRows(t, "y", 7)
	for name, tt := range map[string]struct {
		change func(path string) error
		found  string
	}{
		"as they were":   {func(string) error { return nil }, ""},
		"missing":        {os.Remove, ""},
		"of another log": {func(path string) error { return copyFile(rowsPath(other), path) }, "it is of another log"},
		"damaged": {func(path string) error {
			return rewrite(path, func(tx *bolt.Tx) error {
				b := bytes.Clone(tx.Bucket(bucketRows).Get([]byte("b")))
				b[len(b)-1] ^= 1
				return tx.Bucket(bucketRows).Put([]byte("b"), b)
			})
		}, "the page \"b\""},
	} {
		path := copyOf(t, good)
		if err := tt.change(rowsPath(path)); err != nil {
			t.Fatal(err)
		}
		v, err := Verify(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.found == "" && len(v.Findings) > 0 || tt.found != "" && (len(v.Findings) != 1 || v.Findings[0].Where != "mesh.rows" || !strings.Contains(v.Findings[0].What, tt.found)) {
			t.Errorf("%s: %v", name, v.Findings)
		}
	}
}

// finding C6: values that can be made again lengthen no start: they are verified when they are
// read, and one that is damaged has nothing then, and can be written and deleted. All others are
// verified at start, as those are by an offline look.
func TestValuesThatAreMadeAgainAreVerifiedWhenTheyAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	opts := Options{Remade: []string{"cache"}, unchecked: true}
	s, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	keys := []state.Key{{Kind: "cach", Name: "a"}, {Kind: "cache", Name: "a"}, {Kind: "cache", Name: "b"}, {Kind: "caches", Name: "a"}, {Tenant: "acme", Kind: "cache", Name: "a"}}
	for _, key := range keys {
		if _, err := s.PutState(t.Context(), key, []byte("data"), state.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		path := copyOf(t, path)
		err := rewrite(path, func(tx *bolt.Tx) error {
			b := bytes.Clone(tx.Bucket(bucketState).Get(stateKey(key)))
			b[len(b)-1] ^= 1
			return tx.Bucket(bucketState).Put(stateKey(key), b)
		})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := Verify(path, nil); err != nil || len(v.Findings) != 1 {
			t.Errorf("%v: an offline look finds %v, %v", key, v, err)
		}
		s, err := Open(path, opts)
		if again := i == 1 || i == 2; !again {
			if !mesh.IsCode(err, mesh.Precondition) {
				t.Errorf("%v is damaged: %v", key, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%v is damaged: %v", key, err)
		}
		v, err := s.GetState(t.Context(), key)
		items, _, listErr := s.ListState(t.Context(), state.Page{Kind: "cache", Limit: 10})
		if err != nil || len(v.Data) > 0 || listErr != nil || len(items) != 2 {
			t.Errorf("%v is read as %q, %v; listed are %v, %v", key, v.Data, err, items, listErr)
		}
		_, putErr := s.PutState(t.Context(), key, []byte("again"), state.AnyVersion)
		v, err = s.GetState(t.Context(), key)
		if err := errors.Join(putErr, err, s.DeleteState(t.Context(), key, state.AnyVersion), s.Close()); err != nil || string(v.Data) != "again" {
			t.Errorf("%v is then %q, %v", key, v.Data, err)
		}
	}
}
