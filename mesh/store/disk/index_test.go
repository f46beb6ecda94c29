package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
	"agentmesh/mesh/threadlog/memindex"
)

// A whole is all that the index knows.
type whole struct {
	Threads    map[mesh.ThreadKey]memindex.Part
	Links      map[mesh.ThreadKey]memindex.Link
	Infos      []threadlog.Info
	Unfinished []threadlog.Unfinished
	Last       mesh.Pos
	Records    int
	Chain      memindex.Link
	Unswept    bool
}

// keptUpTo is up to where the index file has the log.
func keptUpTo(s *Store) mesh.Pos {
	s.saving.Lock() // a checkpoint may be at work
	defer s.saving.Unlock()
	return s.threads.has.upTo
}

// indexOf brings the index of the store into its file, and reads it there.
func indexOf(t *testing.T, s *Store) whole {
	t.Helper()
	s.checkpoint()
	if has := keptUpTo(s); has != s.book.Last() {
		t.Fatalf("the index file has %d of %d", has, s.book.Last())
	}
	w := whole{Threads: map[mesh.ThreadKey]memindex.Part{}, Links: map[mesh.ThreadKey]memindex.Link{}, Last: s.book.Last(),
		Records: s.book.Records(), Chain: s.chain.sum, Unfinished: s.book.Unfinished(0, 1<<20)}
	for tenant := range s.book.Tenants() {
		w.Infos = append(w.Infos, s.book.Idle(tenant, 0, 1<<20)...)
	}
	for _, info := range w.Infos {
		parts, err := s.threads.parts(info.FirstPos, 0, info.Last, true)
		if err != nil {
			t.Fatal(err)
		}
		all := memindex.Part{Decisions: map[mesh.Scope]mesh.Seq{}}
		for _, p := range parts {
			all.Positions = append(all.Positions, p.Positions...)
			maps.Copy(all.Decisions, p.Decisions)
			all.IDs = append(all.IDs, p.IDs...)
		}
		slices.SortFunc(all.IDs, func(a, b memindex.IDAt) int { return int(a.Seq - b.Seq) })
		w.Threads[info.Key], w.Links[info.Key] = all, s.book.Link(info.Key)
	}
	return w
}

// wantIndex checks that the folder opens with the same index from the index file as from its
// log alone.
func wantIndex(t *testing.T, path string) {
	t.Helper()
	var got [2]whole
	for i, rebuild := range []bool{false, true} {
		s, err := Open(copyOf(t, path), Options{Rebuild: rebuild, disk: &testDisk{unsynced: true}})
		if err != nil {
			t.Fatal(err)
		}
		got[i] = indexOf(t, s)
		<-s.ended
		if d := s.Health().Damage; d != nil {
			t.Error(d)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(got[1], got[0]); diff != "" {
		t.Fatalf("from the log (-) and from the index (+): %s", diff)
	}
}

// finding C6: whatever was appended, deleted and settled, and whenever checkpoints were made
// and the process killed: what is opened from the index is what the log says, and the store
// answers as the one in memory does.
func TestWhatIsOpenedFromTheIndexIsWhatTheLogSays(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	path := filepath.Join(t.TempDir(), "mesh.db")
	opts := Options{disk: &testDisk{unsynced: true}, size: 10_000}
	s, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	model := mem.Open()
	for range 300 {
		do := step(t, r)
		if diff := cmp.Diff(do(model), do(s)); diff != "" {
			t.Fatal(diff)
		}
		switch r.IntN(40) {
		case 0, 1:
			s.checkpoint()
			continue
		case 2: // as a kill would leave it
			s.saving.Lock()
			path = copyOf(t, path)
			s.saving.Unlock()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		case 3:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		default:
			continue
		}
		wantIndex(t, path)
		if s, err = Open(path, opts); err != nil {
			t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			<-s.ended
		}
		if diff := cmp.Diff(everything(t, model), everything(t, s), butPositions); diff != "" {
			t.Fatal(diff)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// finding C6: an index file that is missing, damaged, of another form, of another log or ahead
// of it, is made of the log, and nothing else is lost; whatever is in it, nothing is served
// that is not what was written.
func TestAnIndexThatCannotBeUsedIsMadeOfTheLog(t *testing.T) {
	good := filled(t)
	older := copyOf(t, good)
	want := indexOf(t, openAt(t, copyOf(t, older)))
	s := openAt(t, good)
	for i := range 30 {
		if _, err := s.Append(t.Context(), logtest.Key(i%7), fact("more")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(path string) error{
		"missing":  os.Remove,
		"empty":    func(path string) error { return os.Truncate(path, 0) },
		"short":    func(path string) error { return os.Truncate(path, 40_000) },
		"text":     func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("hello "), 20_000), 0o600) },
		"a folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"ahead":    func(path string) error { return copyFile(indexPath(good), path) },
		"of another": func(path string) error {
			return copyFile(indexPath(filledWith(t, 'y')), path)
		},
		"of another form": func(path string) error {
			return rewrite(path, func(tx *bolt.Tx) error {
				b := bytes.Clone(tx.Bucket(bucketMeta).Get(keyIndex))
				b[4]++
				seal(keyIndex, b)
				return tx.Bucket(bucketMeta).Put(keyIndex, b)
			})
		},
		"without a thread": func(path string) error {
			return rewrite(path, func(tx *bolt.Tx) error {
				k, _ := tx.Bucket(bucketHeads).Cursor().First()
				return tx.Bucket(bucketHeads).Delete(k)
			})
		},
		"with a thread of before": func(path string) error {
			return rewrite(path, func(tx *bolt.Tx) error {
				k, v := tx.Bucket(bucketHeads).Cursor().Last()
				var h memindex.Head
				err := decodeHead(&h, k, v, new(string))
				h.Epoch++
				return errors.Join(err, tx.Bucket(bucketHeads).Put(k, encodeHead(k, h)))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := copyOf(t, older)
			if err := spoil(indexPath(path)); err != nil {
				t.Fatal(err)
			}
			s := openAt(t, path)
			if events, closed := readThreads(t, s, 7); events != 2000 || closed > 0 {
				t.Errorf("%d events are there, and %d threads closed", events, closed)
			}
			if diff := cmp.Diff(want, indexOf(t, s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	return errors.Join(err, os.WriteFile(to, b, 0o600))
}

// rewrite changes an index file.
func rewrite(path string, fn func(*bolt.Tx) error) error {
	db, err := openFile(path, indexPage, false)
	if err != nil {
		return err
	}
	return errors.Join(db.Update(fn), db.Close())
}

// finding C6: rows of the index that turn out to be damaged, or missing, close the threads that
// need them; the next start makes the index of the log.
func TestARowOfTheIndexThatIsDamagedClosesItsThreadUntilTheNextStart(t *testing.T) {
	good := filled(t)
	for name, spoil := range map[string]func(*bolt.Bucket, []byte, []byte) error{
		"damaged": func(b *bolt.Bucket, k, v []byte) error { v = bytes.Clone(v); v[len(v)-1] ^= 1; return b.Put(k, v) },
		"missing": func(b *bolt.Bucket, k, _ []byte) error { return b.Delete(k) },
	} {
		t.Run(name, func(t *testing.T) {
			path := copyOf(t, good)
			err := rewrite(indexPath(path), func(tx *bolt.Tx) error {
				b := tx.Bucket(bucketParts)
				k, v := b.Cursor().First()
				return spoil(b, bytes.Clone(k), v)
			})
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(path, Options{unchecked: true})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Append(t.Context(), logtest.Key(0), fact("more")) // the first of the file
			_, readErr := s.Read(t.Context(), logtest.Key(0), 0, 9)
			for _, err := range []error{err, readErr} {
				if !mesh.IsCode(err, mesh.DataLoss) {
					t.Errorf("got %v", err)
				}
			}
			if _, closed := readThreads(t, s, 7); closed != 1 || s.Health().Damage == nil {
				t.Errorf("%d threads are closed, and its health is %v", closed, s.Health().Damage)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if events, closed := readThreads(t, openAt(t, path), 7); events != 2000 || closed > 0 {
				t.Errorf("%d events are there, and %d threads closed", events, closed)
			}
		})
	}
}

// indexEnv makes the test binary a process that appends, deletes and makes checkpoints, until
// it is killed.
const indexEnv = "DISK_TEST_INDEX"

func indexChild(path string) int {
	s, err := Open(path, Options{size: 20_000})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("open")
	go func() {
		for {
			s.checkpoint()
		}
	}()
	for i := 0; ; i++ {
		b := &threadlog.Batch{Entries: []threadlog.Entry{{Data: make([]byte, i%700), ID: fmt.Sprint(os.Getpid(), i), Decision: i%3 == 0, Opens: i%5 == 0}}}
		_, err := s.Append(context.Background(), logtest.Key(i%6), b)
		if i%17 == 0 {
			err = errors.Join(err, s.Delete(context.Background(), logtest.Key(i%6), threadlog.AnyPos))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

// finding C6: a kill -9 in the midst of checkpoints, sweeps and the check leaves an index that
// is what the log says.
func TestAKillInTheMidstOfACheckpointLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 6 {
		more := time.Duration(r.IntN(60)) * time.Millisecond // wherever that is
		killed(t, []string{indexEnv + "=" + path}, more, func(said string) bool { return said == "open" })
		if wantIndex(t, path); t.Failed() {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
}

// An index of a copy of the folder that went on otherwise is another's, too: all events up to the
// last are the same, and what it has of deletions since is not.
func TestAnIndexOfACopyThatWentOnOtherwiseIsNotUsed(t *testing.T) {
	here := filled(t)
	there := copyOf(t, here)
	s := openAt(t, here)
	if _, err := s.PutState(t.Context(), state.Key{Kind: "k", Name: "n"}, []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	want := indexOf(t, s)
	other := openAt(t, there)
	if err := other.Delete(t.Context(), logtest.Key(3), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), other.Close(), copyFile(indexPath(there), indexPath(here))); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, here)
	if _, closed := readThreads(t, s, 7); closed > 0 {
		t.Errorf("%d threads are closed", closed)
	}
	if diff := cmp.Diff(want, indexOf(t, s)); diff != "" {
		t.Error(diff)
	}
}
