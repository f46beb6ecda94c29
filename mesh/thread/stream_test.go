package thread_test

import (
	"testing"

	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// checkOneStream asks all that reads a log, after each of its events, whether the
// user of a turn would get what an execution says: the state, a view from the start
// and one that begins there, and a transcript from the start and one that begins
// there. They must agree (finding C7).
func checkOneStream(t rapid.TB, log []*mesh.Event) {
	t.Helper()
	var who []mesh.ExecutionID
	for _, x := range thread.Fold(log).Executions() {
		who = append(who, x.ID)
	}
	state, whole, views := new(thread.State), new(thread.Transcript), map[mesh.ExecutionID]*thread.View{}
	for _, e := range log {
		state.Apply(e)
		whole.Apply(e)
		for _, v := range views {
			v.Apply(e)
		}
		for _, turn := range state.Turns() {
			if views[turn.ID] == nil {
				views[turn.ID] = state.View("c", turn.ID, e.Seq, thread.Mode{})
			}
		}
		for _, id := range append(who, "nobody", "") {
			says := &mesh.Event{Seq: e.Seq, Execution: id, Body: mesh.ArtifactAppended{Artifact: artifact("probe", "words")}}
			heard := false
			for _, turn := range state.Turns() {
				leg := turn.Leg()
				has := leg != nil && leg.Execution == id
				heard = heard || has
				running := views[turn.ID].Apply(says) != nil
				begun := state.View("c", turn.ID, e.Seq, thread.Mode{}).Apply(says) != nil
				if running != has || begun != has {
					t.Fatalf("after %d (%T): has %q the stream of %s? the state: %v, a view: %v, one that begins there: %v", e.Seq, e.Body, id, turn.ID, has, running, begun)
				}
			}
			if read, begun := whole.Apply(says) != nil, state.Transcript(e.Seq).Apply(says) != nil; read != heard || begun != heard {
				t.Fatalf("after %d (%T): does %q speak to a user? the state: %v, a transcript: %v, one that begins there: %v", e.Seq, e.Body, id, heard, read, begun)
			}
		}
	}
}

func TestAllThatReadsALogAgreesOnWhoHasTheStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkOneStream(t, aLog(t)) })
}
