package thread_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// checkpoint is that of the state: all of it, in an order that does not depend on chance.
func checkpoint(t rapid.TB, s *thread.State) []byte {
	t.Helper()
	b, err := s.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// finding C6: what is folded from a checkpoint at any place and the events after it is what is
// folded from all events, in everything that a state has.
func TestAFoldThatBeginsAtACheckpointIsTheFoldOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := aLog(t)
		if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
			log = aTalk(t)
		}
		want := checkpoint(t, thread.Fold(log))
		for range 3 {
			cut := rapid.IntRange(0, len(log)).Draw(t, "cut")
			s, err := thread.Restore(checkpoint(t, thread.Fold(log[:cut])))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range log[cut:] {
				s.Apply(e)
			}
			if got := checkpoint(t, s); !bytes.Equal(got, want) {
				t.Fatalf("cut at %d of %d, it is another state", cut, len(log))
			}
		}
	})
}

// What the fold makes of events is part of the format of checkpoints: one that another fold
// made would be gone on with as if this one had made it. This tells when the fold, or how it is
// encoded, has changed: raise checkpointFormat then, and run it with -update.
func TestTheFormatOfCheckpointsIsRaisedWithTheFold(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sum := sha256.New()
	format := byte(0)
	for range 300 {
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(random.UintN(256))
		}
		log := aTeller(data).tell(60)
		for _, e := range log {
			if b, posted := e.Body.(mesh.MessagePosted); posted && b.Message != nil {
				b.Message.MessageId = fmt.Sprint("m", e.Seq)
			}
			if b, moved := e.Body.(mesh.TaskMoved); moved && b.Message != nil {
				b.Message.MessageId = fmt.Sprint("m", e.Seq)
			}
		}
		b := checkpoint(t, thread.Fold(log))
		format = b[0]
		sum.Write(b[1 : len(b)-4])
	}
	const golden = "testdata/checkpoint.golden"
	now := fmt.Sprintf("format %d\nfold %x\n", format, sum.Sum(nil))
	was, err := os.ReadFile(golden)
	if *update {
		if err := os.WriteFile(golden, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	switch before, _, _ := strings.Cut(string(was), "\n"); {
	case string(was) == now:
	case before == fmt.Sprint("format ", format):
		t.Errorf("the fold, or how a state is encoded, has changed: raise checkpointFormat, so that nobody goes on from what was folded before, and run this test with -update")
	default:
		t.Errorf("the format is %d, and %s has another: run this test with -update", format, golden)
	}
}
