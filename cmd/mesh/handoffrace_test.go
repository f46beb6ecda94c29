package main

import (
	"regexp"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// Of a hundred handoffs that start at once, by an agent in a process of its own, one stands,
// and the others learn who has the conversation.
func TestOfAHundredHandoffsAtOnceOneStands(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir(), "--main", "lead")
	lead := m.cast(t, castLead, "lead")
	for _, name := range []string{"anvil", "bellows"} {
		m.cast(t, castOurs, name)
	}
	id := mesh.NewThreadID()
	speaker(speakGRPC).asked(t, m, id, "to=anvil-or-bellows act=race")
	lead.shows("raced")
	got := map[string]int{}
	for _, r := range regexp.MustCompile(`(?m)^racer (.*)$`).FindAllStringSubmatch(lead.stdout.String(), -1) {
		got[r[1]]++
	}
	resp, err := meshv1.NewHandoffServiceClient(m.dial()).GetHandoff(inThread(t, id), &meshv1.GetHandoffRequest{ThreadId: id})
	if err != nil {
		t.Fatal(err)
	}
	has := resp.GetHandoff().GetTargetAgentId()
	told := 0
	for outcome, n := range got {
		if strings.HasPrefix(outcome, "precondition: "+has+" has the conversation already") {
			told += n
		}
	}
	if got["won"] != 1 || told != racers-1 {
		t.Errorf("%s has the conversation; of those who started one: %v", has, got)
	}
	if all := handoffs(m.log(id)); len(all) != 1 || all[0] != "agent:lead to "+has {
		t.Errorf("in the log: %q", all)
	}
}
