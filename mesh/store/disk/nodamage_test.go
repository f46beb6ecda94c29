package disk

import (
	"math/rand/v2"
	"os"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog/logtest"
)

// Wherever a block of a file is lost, the folder is refused, or it is all there, or the
// threads that need the block are closed: it never serves less than was in it.
func TestNoDamageOpensWithLessInIt(t *testing.T) {
	good := filled(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	refused, found := 0, 0
	for i := range 60 {
		path := copyOf(t, good)
		files := append(logFiles(t, path), path, indexPath(path))
		name := files[i%len(files)]
		bad, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		from := r.IntN(len(bad) - 4096)
		if r.IntN(2) == 0 {
			clear(bad[from : from+4096])
		} else {
			flip(bad[from:from+4096], 1+r.IntN(64))
		}
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path, Options{})
		if err != nil {
			refused++
			continue
		}
		<-s.ended
		events, closed := readThreads(t, s, 7)
		if got := s.book.Records(); got != 2000 || events != 2000 && closed == 0 || closed > 0 && s.Health().Damage == nil {
			t.Errorf("seed %d: opened with %d events, of which %d are read, %d threads are closed, %v", seed, got, events, closed, s.Health().Damage)
		}
		if closed > 0 {
			found++
		}
		items, _, err := s.ListState(t.Context(), state.Page{Kind: "k", Limit: 100})
		if err != nil || len(items) != 50 {
			t.Errorf("seed %d: opened with %d values, %v", seed, len(items), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	// Two of three files are of the log, and most of their blocks have events. Whether one of
	// the others must be refused is luck: the tests of each kind of damage show that.
	if found == 0 {
		t.Errorf("seed %d: %d were refused, and in none threads were closed", seed, refused)
	}
	t.Logf("seed %d: %d of 60 were refused, and in %d threads were closed", seed, refused, found)
}

// readThreads returns how many events the threads have that can be read, which they have whole,
// and how many are closed.
func readThreads(t *testing.T, s *Store, threads int) (events, closed int) {
	t.Helper()
	for i := range threads {
		info, ok, err := s.Info(t.Context(), logtest.Key(i))
		if err != nil || !ok {
			t.Fatalf("thread %d: %v, %v", i, ok, err)
		}
		n := 0
		for after := mesh.Seq(0); ; {
			recs, err := s.Read(t.Context(), logtest.Key(i), after, 100)
			if mesh.IsCode(err, mesh.DataLoss) {
				closed++
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(recs) == 0 {
				if after != info.Last {
					t.Errorf("thread %d has %d events, and should have %d", i, after, info.Last)
				}
				events += n
				break
			}
			n += len(recs)
			after = recs[len(recs)-1].Seq
		}
	}
	return events, closed
}
