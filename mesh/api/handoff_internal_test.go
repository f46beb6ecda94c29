package api

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// S4-031: a handoff tells how many messages went along, and not how many might have.
func TestAHandoffTellsWhatWentAlong(t *testing.T) {
	h := &thread.Handoff{HandoffStarted: mesh.HandoffStarted{RecentMessages: 20}, Along: 3}
	if n := handoffToProto(mesh.ThreadKey{}, h).GetConversationHistoryCount(); n != 3 {
		t.Errorf("it tells %d", n)
	}
}
