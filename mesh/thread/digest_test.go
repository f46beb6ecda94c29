package thread_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// A task is the same by its digest, taken at any places, as by all its events.
func TestATaskIsTheSameByItsDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := aTalk(t)
		s := thread.Fold(log)
		last := mesh.Seq(rapid.IntRange(5, len(log)).Draw(t, "last"))
		for _, turn := range s.Turns() {
			whole, short := thread.NewSnapshot("c", turn.ID), thread.NewSnapshot("c", turn.ID)
			d := thread.NewDigest(turn.ID, "", "")
			for i, e := range log[turn.Opened-1 : last] {
				whole.Apply(e)
				if d.Apply(e); rapid.IntRange(0, 99).Draw(t, "take") == 0 || i == int(last-turn.Opened) {
					for _, e := range d.Take() {
						short.Apply(e)
					}
					has, agent := d.Stream()
					d = thread.NewDigest(turn.ID, has, agent)
				}
			}
			want, _ := whole.Task()
			got, _ := short.Task()
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}
