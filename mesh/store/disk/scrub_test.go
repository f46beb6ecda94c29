package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// finding R9: what was deleted is in no file of the folder once that was opened again: not in
// the log, and not in free pages of what bbolt keeps. The rest is as it was, also where an earlier
// try was cut off, or cannot be made.
func TestWhatWasDeletedIsInNoFileAfterTheNextStart(t *testing.T) {
	for name, before := range map[string]func(path string) error{
		"at once":           func(string) error { return nil },
		"after a kill":      func(path string) error { return os.WriteFile(path+newSuffix, []byte("half"), 0o600) },
		"when that fails":   func(path string) error { return os.MkdirAll(filepath.Join(path+newSuffix, "full"), 0o700) },
		"of rows that fail": func(path string) error { return os.MkdirAll(filepath.Join(rowsPath(path)+newSuffix, "full"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "mesh.db")
			words := []byte("what nobody may read any more")
			s, _, _, _ := begun(t, path, Options{unchecked: true})
			all := []error{s.Rows().Write(0, map[string][]byte{"words": words, "others": []byte("theirs")})}
			appendTo(t, s, logtest.Key(1), string(words))
			appendTo(t, s, logtest.Key(2), "theirs")
			for i := range 50 {
				data := fmt.Appendf(nil, "theirs %d", i)
				if i%5 == 0 {
					data = bytes.Repeat(words, 20)
				}
				_, err := s.PutState(t.Context(), state.Key{Kind: "k", Name: fmt.Sprint(i)}, data, 0)
				all = append(all, err)
			}
			s.checkpoint()
			for i := 0; i < 50; i += 5 {
				all = append(all, s.DeleteState(t.Context(), state.Key{Kind: "k", Name: fmt.Sprint(i)}, state.AnyVersion))
			}
			all = append(all, s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos))
			s.index.RLock()
			last := s.book.Last()
			s.index.RUnlock()
			all = append(all, s.Rows().Write(last, map[string][]byte{"words": nil}), s.Close(), before(path))
			if err := errors.Join(all...); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the log is rewritten while it is open
				s, upTo, _, _ := begun(t, path, Options{unchecked: true})
				others, err := s.Rows().Get("others")
				if upTo == 0 || string(others) != "theirs" {
					t.Errorf("rows are up to %d, with %q, %v", upTo, others, err)
				}
				for i := range 50 {
					v, err := s.GetState(t.Context(), state.Key{Kind: "k", Name: fmt.Sprint(i)})
					if (err == nil) != (i%5 > 0) || err == nil && string(v.Data) != fmt.Sprint("theirs ", i) {
						t.Errorf("value %d is %q, %v", i, v.Data, err)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
			if err != nil {
				t.Fatal(err)
			}
			logs, err := filepath.Glob(filepath.Join(logPath(path), "*"))
			if err != nil {
				t.Fatal(err)
			}
			stays := map[string]string{"when that fails": path, "of rows that fail": rowsPath(path)}[name]
			for _, file := range append(files, logs...) {
				if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, words) && file != stays {
					t.Errorf("%s has it still", filepath.Base(file))
				}
			}
		})
	}
}
