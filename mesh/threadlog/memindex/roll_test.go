package memindex

import (
	"fmt"
	"testing"

	"agentmesh/mesh"
)

// Who writes again what was written before a restart is found out, by the id, in a thread of any
// length; and nobody else is taken for it.
func TestARollHasTheIDsOfAllRecordsAndNoOthers(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 1_000, 20_000} {
		parts, named := make([]Part, 3), func(i int) ID { return hashID(fmt.Sprint("id", i)) }
		for i := range n {
			p := &parts[i%len(parts)]
			p.IDs = append(p.IDs, IDAt{named(i), mesh.Seq(i + 1)})
		}
		r := newRoll(parts)
		for i := range n {
			if got := r.find(named(i)); got != mesh.Seq(i+1) {
				t.Fatalf("of %d ids, the one of %d is that of %d", n, i+1, got)
			}
		}
		for i := n; i < 2*n+10; i++ {
			if got := r.find(named(i)); got != 0 {
				t.Fatalf("of %d ids, one that was not written is that of %d", n, got)
			}
		}
	}
}
