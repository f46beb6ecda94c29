package thread_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentmesh/mesh/thread"
)

// finding C5: a summary tells of a thread what lists tell of it, as its whole state would.
func TestASummarySaysWhatTheStateSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := thread.Fold(aLog(t))
		sum := s.Summary()
		for _, after := range []time.Duration{0, time.Hour, 1000 * time.Hour} {
			now := s.Updated.Add(after)
			told := func(s *thread.State) []any {
				session, there := s.Session(now)
				return []any{s.Seq, s.Created, s.Updated, s.Title, s.Access, s.Usage, s.ActiveAgent("main"), s.HandoffAt(now), session, there}
			}
			if diff := cmp.Diff(told(s), told(sum)); diff != "" {
				t.Fatalf("(-state +summary)\n%s", diff)
			}
			b, err := s.EncodeSummary()
			if err != nil {
				t.Fatal(err)
			}
			again, err := thread.DecodeSummary(b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(told(s), told(again)); diff != "" {
				t.Fatalf("(-state +decoded)\n%s", diff)
			}
		}
		if len(sum.Executions()) > 0 {
			t.Fatal("it has executions")
		}
	})
}

// What cannot be read as a summary, or as what lists have of a thread, is an error.
func TestWhatIsNoSummaryIsRefused(t *testing.T) {
	for _, b := range [][]byte{nil, {0}, {2, 99, 0, 0, 0, 0}, {0xff}} {
		if _, err := thread.DecodeSummary(b); err == nil {
			t.Errorf("%v is a summary", b)
		}
		if _, err := thread.DecodeListed(b); err == nil {
			t.Errorf("%v is of a thread", b)
		}
	}
}
