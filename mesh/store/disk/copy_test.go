package disk

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// written writes the copy to a folder, and returns the file of values in it.
func written(t testing.TB, c Copy) (path string) {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, r io.Reader) {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			_, err = io.Copy(f, r)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, c.LogName), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Log {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		put(filepath.Join(c.LogName, f.Name), r)
		if st, err := os.Stat(filepath.Join(dir, c.LogName, f.Name)); err != nil || st.Size() != f.Size {
			t.Fatalf("%s has %d bytes, want %d, %v", f.Name, st.Size(), f.Size, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	put("mesh.db", c.Values)
	return filepath.Join(dir, "mesh.db")
}

// sound fails unless nothing is found in the copy, and returns it open.
func sound(t testing.TB, path string) *Store {
	t.Helper()
	v, err := Verify(path, nil)
	if err != nil || len(v.Findings) > 0 {
		t.Fatalf("the copy is not sound: %v, %v", v, err)
	}
	s, err := Open(path, Options{disk: &testDisk{unsynced: true}, size: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// finding U5: whatever is asked of a store, and also while it is copied, a copy is what the
// store was at the moment when it was begun, and is sound; what is deleted meanwhile is
// taken out of the files after that.
func TestACopyIsTheStoreAsItWas(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	s, err := Open(filepath.Join(t.TempDir(), "mesh.db"), Options{disk: &testDisk{unsynced: true}, size: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	some := func() {
		for range r.IntN(60) {
			step(t, r)(s)
			if r.IntN(20) == 0 {
				s.checkpoint()
				if err := s.log.Sweep(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	for range 12 {
		some()
		var want []any
		var path string
		err := s.Copy(t.Context(), func(c Copy) error {
			want = append(want, everything(t, s))
			some()
			path = written(t, c)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		is := sound(t, path)
		if diff := cmp.Diff(want[0], any(everything(t, is)), butPositions); diff != "" {
			t.Fatal(diff)
		}
		if err := is.Close(); err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(s.path + copySuffix + "*"); left != nil {
			t.Fatalf("%v is left", left)
		}
	}
}

// finding U5: of many who append, change values and delete at once, a copy has all that was
// acknowledged before it was begun.
func TestACopyHasWhatWasAcknowledgedBefore(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "mesh.db"), Options{disk: &testDisk{unsynced: true}, size: 200_000})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	events, values := map[mesh.ThreadKey]mesh.Seq{}, map[string]int64{}
	end := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				default:
				}
				key, name := logtest.Key(w), fmt.Sprint("v", w, "-", i%50)
				at, err := s.Append(t.Context(), key, fact(fmt.Sprint("event ", i)))
				v, err2 := s.PutState(t.Context(), state.Key{Kind: "k", Name: name}, make([]byte, 200), state.AnyVersion)
				gone := logtest.Key(100 + w)
				_, err3 := s.Append(t.Context(), gone, fact("to be deleted"))
				if err := errors.Join(err, err2, err3, s.Delete(t.Context(), gone, threadlog.AnyPos)); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				events[key], values[name] = at.Seqs[0], v
				mu.Unlock()
				if i%100 == 50 {
					s.wakeKeeper()
				}
			}
		})
	}
	for range 4 {
		mu.Lock()
		before, had := map[mesh.ThreadKey]mesh.Seq{}, map[string]int64{}
		for k, v := range events {
			before[k] = v
		}
		for k, v := range values {
			had[k] = v
		}
		mu.Unlock()
		var path string
		if err := s.Copy(t.Context(), func(c Copy) error { path = written(t, c); return nil }); err != nil {
			t.Fatal(err)
		}
		is := sound(t, path)
		for key, seq := range before {
			if info, _, err := is.Info(t.Context(), key); err != nil || info.Last < seq {
				t.Errorf("%v ends at %d, %v; %d was acknowledged", key, info.Last, err, seq)
			}
		}
		for name, version := range had {
			if v, err := is.GetState(t.Context(), state.Key{Kind: "k", Name: name}); err != nil || v.Version < version {
				t.Errorf("%s is of version %d, %v; %d was acknowledged", name, v.Version, err, version)
			}
		}
		if err := is.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(end)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A folder that somebody uses is not copied as one that nobody uses, nor looked at.
func TestAFolderInUseIsNotTakenForUnused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	writeSmall(t, path)
	none := func(Copy) error { return nil }
	s, err := Open(path, Options{Address: "127.0.0.1:9"})
	if err != nil {
		t.Fatal(err)
	}
	if err := CopyUnused(path, none); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("a copy of a folder in use: %v", err)
	}
	if err := Unused(path); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("a folder in use: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var copied string
	err = errors.Join(Unused(path), CopyUnused(path, func(c Copy) error { copied = written(t, c); return nil }))
	if err != nil {
		t.Fatal(err)
	}
	if err := sound(t, copied).Close(); err != nil {
		t.Error(err)
	}
	if err := CopyUnused(filepath.Join(t.TempDir(), "mesh.db"), none); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// What appends cost while the store is copied, again and again, against what they cost alone.
func BenchmarkAppendWhileCopied(b *testing.B) {
	for _, copied := range []bool{false, true} {
		b.Run(fmt.Sprint("copied=", copied), func(b *testing.B) {
			s := openNew(b)
			for i := range 2000 {
				key := state.Key{Kind: "k", Name: fmt.Sprint(i)}
				if _, err := s.PutState(b.Context(), key, make([]byte, 8<<10), 0); err != nil {
					b.Fatal(err)
				}
			}
			s.checkpoint()
			end := make(chan struct{})
			var wg sync.WaitGroup
			if copied {
				wg.Go(func() {
					for {
						select {
						case <-end:
							return
						default:
						}
						err := s.Copy(b.Context(), func(c Copy) error {
							_, err := io.Copy(io.Discard, c.Values)
							return err
						})
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Append(b.Context(), logtest.Key(1), fact("an event")); err != nil {
					b.Fatal(err)
				}
				if _, err := s.GetState(b.Context(), state.Key{Kind: "k", Name: "7"}); err != nil {
					b.Fatal(err)
				}
			}
			close(end)
			wg.Wait()
		})
	}
}
