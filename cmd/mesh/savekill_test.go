package main

import (
	"strings"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// A save is a conversation with the skill builder up to the user's yes with which the save
// begins, that is cut off, and what must be in the one file that there is then.
type save struct {
	name  string
	lines []string // the last is the yes
	words string   // of the skill
	says  string   // of the handoff's end
}

// saves are those of a new skill, and of a change.
func saves() []save {
	const first = "to=skill-builder "
	made := []string{first + skillTalks[1].lines[0], skillTalks[1].lines[1], skillTalks[1].lines[2]}
	return []save{
		{"new", append(made[:3:3], savesIt), "--amount", "Your skill 'money.convert' is now active."},
		{"changed", append(made[:3:3], "yes", first+skillTalks[1].lines[0], "change it", "inputs: amount, urgency", savesIt), "urgency",
			"Your skill 'money.convert' is changed, and active as it is now."},
	}
}

// savesIt is the yes that is counted from.
const savesIt = "yes, save it"

// A save of the skill builder that kill -9 of the mesh cuts off before or after any append
// is neither lost nor made twice: the skill is there once, as its user saw it, and the
// conversation comes to its end, after another yes at most.
func TestASaveSurvivesKill9AtEveryAppend(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	for _, s := range saves() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, at := range moments(t, s.run(t, moment{"never", 0, savesIt}), 2, savesIt) {
				t.Run(at.String(), func(t *testing.T) { s.run(t, at) })
			}
		})
	}
}

// run has it on a mesh that is killed then. It returns how many appends there are of one that
// is not.
func (s save) run(t *testing.T, at moment) int {
	t.Helper()
	k := upUntil(t, "lead", at)
	k.cast(t, castLead, "lead")
	id := mesh.NewThreadID()
	var h heardTurn
	for _, line := range s.lines {
		if h.state.String() != stateInput {
			h = heardTurn{}
		}
		h = k.answer(t, id, line, h)
	}
	again := 0
	for ; h.state.String() == stateInput && again < 3; again++ { // it asks anew what it cannot know
		h = k.answer(t, id, "yes", h)
	}
	if at.n == 0 && again > 0 {
		t.Errorf("a yes was not enough")
	}
	if at.n > 0 {
		select {
		case <-k.again:
		case <-k.ended: // it is about to be
			<-k.again
		case <-time.After(2 * time.Second):
			t.Logf("it did not die: there are fewer appends")
		}
	}
	var log []*meshv1.Event
	for ctx := timely(t); len(log) == 0 && ctx.Err() == nil; { // it may be about to take calls again
		log = readAll(inThread(t, id), meshv1.NewThreadServiceClient(k.dial()), id)
	}
	if h.state.String() != stateComplete {
		t.Errorf("it ended %v: %q %q", h.state, h.text, h.status)
	}
	var last *meshv1.HandoffEnded
	for _, e := range log {
		if e.GetHandoffEnded() != nil {
			last = e.GetHandoffEnded()
		}
	}
	if last.GetSummary() != s.says {
		t.Errorf("the handoff ended with %v, want %q", last, s.says)
	}
	if files := k.files("tenant-skills/default/*/[^.]*"); len(files) != 1 || !strings.Contains(readFile(t, files[0]), s.words) {
		t.Errorf("the skills are %q", files)
	}
	listed, err := meshv1.NewSkillServiceClient(k.dial()).ListSkills(inThread(t, id), &meshv1.ListSkillsRequest{Patterns: []string{"money.*"}})
	if err != nil || len(listed.GetSkills()) != 1 || listed.GetSkills()[0].GetName() != "money.convert" {
		t.Errorf("listed are %v, %v", listed.GetSkills(), err)
	}
	if t.Failed() {
		t.Log(short(log))
		t.Log(k.stderr.String())
	}
	if at.n > 0 {
		return 0
	}
	return k.appends(t)
}

// answer says one thing more in the task that was heard of, or a new one.
func (k *killed) answer(t *testing.T, thread, line string, h heardTurn) heardTurn {
	t.Helper()
	return k.hear(t, byGRPC, messageIn(thread, h.task, line), h)
}
