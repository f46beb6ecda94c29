// Package logtest is the conformance suite of threadlog.Store and
// threadlog.Catalog: what every driver must do.
//
// Drivers that keep data beyond the process run it with [Reopen] as well. What
// a damaged or vanished file does is for tests of their own.
package logtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
)

// Run tests the backends that open returns. Each call must yield an empty one;
// open registers its own cleanup with t.
func Run(t *testing.T, open func(t *testing.T) threadlog.Backend) {
	for _, c := range []struct {
		name string
		test func(*testing.T, threadlog.Backend)
	}{
		{"seqs are contiguous in each thread", testContiguous},
		{"a stale decision conflicts", testStale},
		{"one decider of a hundred wins", testOneWins},
		{"facts never conflict", testFacts},
		{"decisions of other scopes never conflict", testScopes},
		{"several decisions of a batch are based on what was before it", testManyDecisions},
		{"an epoch fences facts too", testFence},
		{"claims must rise", testClaims},
		{"a batch is for one thread of the key", testFirst},
		{"a claim counts for its own batch", testClaimAndWrite},
		{"one claimer of a hundred wins", testOneClaims},
		{"an id is added once", testIDs},
		{"an id is idempotent before it is stale", testIDsFirst},
		{"an id in a batch with new entries does not excuse them", testMixedIDs},
		{"an id twice in one batch is added once", testTwiceInBatch},
		{"ids belong to their thread", testIDsApart},
		{"the same id from many at once is added once", testSameID},
		{"a batch is added whole or not at all", testWhole},
		{"a batch has its positions in a row", testPositions},
		{"what comes after a batch has its place comes after it", testPlaced},
		{"bytes are copied", testCopied},
		{"large and empty records come back", testSizes},
		{"read keeps to its cursor and limit", testRead},
		{"scan has all threads in commit order", testScan},
		{"pages are bounded by size and never empty too soon", testPageSize},
		{"a deleted thread is gone and its id is free", testDelete},
		{"positions are not used again after a delete", testDeletePositions},
		{"a deletion is counted for its tenant", testDeletions},
		{"threads come last touched first, page by page", testThreads},
		{"idle threads come longest untouched first, page by page", testIdle},
		{"tenants do not see each other", testTenants},
		{"info follows the thread", testInfo},
		{"bytes of a tenant are counted", testBytes},
		{"a thread is unfinished until what it opened is settled", testUnfinished},
		{"a thread is settled without adding to it", testSettle},
		{"a context that ended does nothing", testEnded},
		{"everything at once adds up", testEverything},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open(t))
		})
	}
}

// Key returns the key of the n-th thread of tenant acme, for tests.
func Key(n int) mesh.ThreadKey {
	return mesh.ThreadKey{Tenant: "acme", ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n)}
}

func fact(data string) threadlog.Entry { return threadlog.Entry{Data: []byte(data)} }

func withID(id string) threadlog.Entry {
	return threadlog.Entry{Data: []byte("id " + id), ID: id}
}

func decision(scope mesh.Scope) threadlog.Entry {
	return threadlog.Entry{Data: []byte("decision"), Scope: scope, Decision: true}
}

func claim(e mesh.Epoch) threadlog.Entry {
	return threadlog.Entry{Data: []byte("claim"), Claim: e}
}

// decide is a batch of one decision that expects seq.
func decide(scope mesh.Scope, seq mesh.Seq) *threadlog.Batch {
	return &threadlog.Batch{Entries: []threadlog.Entry{decision(scope)}, Expect: []threadlog.Expect{{Scope: scope, Seq: seq}}}
}

func batch(entries ...threadlog.Entry) *threadlog.Batch { return &threadlog.Batch{Entries: entries} }

// under is the batch written under the epoch.
func under(e mesh.Epoch, b *threadlog.Batch) *threadlog.Batch {
	b.Epoch = e
	return b
}

func add(t *testing.T, s threadlog.Store, k mesh.ThreadKey, b *threadlog.Batch) threadlog.Appended {
	t.Helper()
	at, err := s.Append(t.Context(), k, b)
	if err != nil {
		t.Fatalf("append to %s: %v", k, err)
	}
	if len(at.Seqs) != len(b.Entries) || len(at.Pos) != len(b.Entries) {
		t.Fatalf("append of %d entries answers %v", len(b.Entries), at)
	}
	return at
}

func refused(t *testing.T, s threadlog.Store, k mesh.ThreadKey, b *threadlog.Batch) {
	t.Helper()
	at, err := s.Append(t.Context(), k, b)
	if !mesh.IsCode(err, mesh.Conflict) {
		t.Fatalf("append answers %v, %v; want a conflict", at, err)
	}
	if mesh.DetailOf(err) == "" {
		t.Errorf("conflict %v has no reason for the user", err)
	}
}

// read returns the thread's data after the cursor, and checks that its Seqs
// follow the cursor without a gap.
func read(t *testing.T, s threadlog.Store, k mesh.ThreadKey, after mesh.Seq) []string {
	t.Helper()
	var out []string
	for {
		recs, err := s.Read(t.Context(), k, after, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(recs) == 0 {
			return out
		}
		for _, r := range recs {
			if after++; r.Seq != after || r.Thread != k || r.Pos < 1 {
				t.Fatalf("record %d of %s has Seq %d, thread %s, Pos %d", after, k, r.Seq, r.Thread, r.Pos)
			}
			wantKind(t, r)
			out = append(out, string(r.Data))
		}
	}
}

func wantData(t *testing.T, s threadlog.Store, k mesh.ThreadKey, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, read(t, s, k, 0)); diff != "" {
		t.Errorf("thread %s (-want +got):\n%s", k, diff)
	}
}

func wantSeqs(t *testing.T, at threadlog.Appended, want ...mesh.Seq) {
	t.Helper()
	if diff := cmp.Diff(want, at.Seqs); diff != "" {
		t.Errorf("seqs (-want +got):\n%s", diff)
	}
}

// wantKind checks that a record of a decision, and no other, is told for one.
func wantKind(t *testing.T, r threadlog.Record) {
	t.Helper()
	if want := string(r.Data) == "decision"; r.Decision != want {
		t.Fatalf("the record %q is told for a decision: %v", r.Data, r.Decision)
	}
}

func scanAll(t *testing.T, s threadlog.Store) []threadlog.Record {
	t.Helper()
	var out []threadlog.Record
	var after mesh.Pos
	for {
		recs, err := s.Scan(t.Context(), after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(recs) == 0 {
			return out
		}
		for _, r := range recs {
			if r.Pos <= after {
				t.Fatalf("position %d comes after %d", r.Pos, after)
			}
			wantKind(t, r)
			after = r.Pos
		}
		out = append(out, recs...)
	}
}

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
