package memindex_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/memindex"
)

// finding C5: pages of threads are those of all threads in the order of their last record, from
// wherever one begins, whatever was written, in one commit or several, and deleted.
func TestAPageOfThreadsBeginsAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b memindex.Book
		last := map[mesh.ThreadKey]mesh.Pos{}
		key := func() mesh.ThreadKey {
			return mesh.ThreadKey{Tenant: "acme", ID: fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "thread"))}
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			if k := key(); last[k] > 0 && rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
				b.Delete(k)
				delete(last, k)
				continue
			}
			d := b.Draft()
			for range rapid.IntRange(1, 4).Draw(t, "batches") {
				k := key()
				at, err := d.Add(k, &threadlog.Batch{Entries: make([]threadlog.Entry, rapid.IntRange(1, 3).Draw(t, "entries"))})
				if err != nil {
					t.Fatal(err)
				}
				last[k] = at.Pos[len(at.Pos)-1]
			}
			d.Commit()
		}
		var all []mesh.Pos
		for _, pos := range last {
			all = append(all, pos)
		}
		slices.Sort(all)
		from := mesh.Pos(rapid.IntRange(0, int(b.Last())+2).Draw(t, "from"))
		limit := rapid.IntRange(1, 30).Draw(t, "limit")
		var up, down []mesh.Pos
		for _, pos := range all {
			if pos > from {
				up = append(up, pos)
			}
			if from == 0 || pos < from {
				down = append([]mesh.Pos{pos}, down...)
			}
		}
		check(t, b.Idle("acme", from, limit), up[:min(len(up), limit)])
		check(t, b.Threads("acme", from, limit), down[:min(len(down), limit)])
	})
}

func check(t *rapid.T, got []threadlog.Info, want []mesh.Pos) {
	t.Helper()
	var is []mesh.Pos
	for _, info := range got {
		is = append(is, info.LastPos)
	}
	if !slices.Equal(is, want) {
		t.Fatalf("the page has %v, want %v", is, want)
	}
}
