package cache_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// finding C5: lists read no thread that has not changed since they were made last, and do not
// put those in use out of memory.
func TestAListReadsWhatChangedAlone(t *testing.T) {
	log := newTap()
	s := cache.New(log, 4)
	must(t, add(t.Context(), s, key(0), open("in use", "")))
	for i := 1; i < 50; i++ {
		log.write(t, key(i), 0, open("t", fmt.Sprint("title ", i)), fact("t"))
	}
	list := func() (seqs mesh.Seq) {
		for i := range 50 {
			st, err := s.Summary(t.Context(), key(i))
			must(t, err)
			seqs += st.Seq
		}
		return seqs
	}
	if got := list(); got != 99 {
		t.Errorf("first it lists %d events", got)
	}
	log.read.Store(0)
	if got, read := list(), log.read.Load(); got != 99 || read != 0 {
		t.Errorf("then it lists %d events, and reads %d", got, read)
	}
	if turns(t, s, key(0)); log.read.Load() != 0 {
		t.Error("the thread in use was put out of memory")
	}
	log.write(t, key(7), 0, fact("t"))
	if got, read := list(), log.read.Load(); got != 100 || read > 3 {
		t.Errorf("after an event it lists %d events, and reads %d", got, read)
	}
	must(t, s.Delete(t.Context(), key(7), func(*thread.State) error { return nil }))
	if st, err := s.Summary(t.Context(), key(7)); err != nil || st.Seq != 0 {
		t.Errorf("a deleted thread is at %d, %v", st.Seq, err)
	}
}

// kept are summaries that outlive a States.
type kept struct {
	mu  sync.Mutex
	all map[mesh.ThreadKey][]byte
}

func (k *kept) KeepSummary(key mesh.ThreadKey, data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all[key] = data
}

func (k *kept) Summary(key mesh.ThreadKey) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[key]
}

// finding C5: what leaves memory, was listed, or is there at the stop, is listed after the next
// start without the log being read; what cannot be used is folded.
func TestSummariesAreKeptAcrossAStart(t *testing.T) {
	log, k := newTap(), &kept{all: map[mesh.ThreadKey][]byte{}}
	s := cache.New(log, 4, cache.WithSummaries(k))
	for i := range 40 {
		must(t, add(t.Context(), s, key(i), open("t", fmt.Sprint("title ", i)), fact("t")))
	}
	s.KeepSummaries()
	list := func(changed int) {
		t.Helper()
		log.read.Store(0)
		s = cache.New(log, 4, cache.WithSummaries(k))
		for i := range 40 {
			st, err := s.Summary(t.Context(), key(i))
			must(t, err)
			if st.Seq < 2 {
				t.Errorf("listed is %v", st)
			}
		}
		if read := log.read.Load(); read > 0 != (changed > 0) || read > int64(3*changed) {
			t.Errorf("%d events were read, of %d threads that changed", read, changed)
		}
	}
	list(0)
	k.all[key(3)], k.all[key(4)] = []byte("spoiled"), nil
	log.write(t, key(5), 0, fact("t"))
	list(3)
	list(0)
}

// A summary is that of the state, whatever was listed before, and kept.
func TestASummaryIsThatOfTheState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log, kept := threadlog.New(mem.Open()), &kept{all: map[mesh.ThreadKey][]byte{}}
		s := cache.New(log, 1, cache.WithSummaries(kept))
		for n := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			k := key(rapid.IntRange(1, 3).Draw(rt, "thread"))
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 5:
				s = cache.New(log, 1, cache.WithSummaries(kept))
			case 0:
				if err := s.Delete(t.Context(), k, func(*thread.State) error { return nil }); err != nil && !mesh.IsCode(err, mesh.NotFound) {
					rt.Fatal(err)
				}
			case 1, 2:
				must(rt, add(t.Context(), s, k, open(fmt.Sprint("t", n), "words"), reply(fmt.Sprint("r", n), fmt.Sprint("t", n))))
			default:
				got, err := s.Summary(t.Context(), k)
				must(rt, err)
				must(rt, s.With(t.Context(), k, func(st *thread.State) error {
					want := st.Summary()
					if d := cmp.Diff([]any{want.Seq, want.Title, want.Usage, want.Created, want.Updated, want.Access}, []any{got.Seq, got.Title, got.Usage, got.Created, got.Updated, got.Access}); d != "" {
						rt.Fatal(d)
					}
					return nil
				}))
			}
		}
	})
}
