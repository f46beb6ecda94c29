package main

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

var everyHandoff = flag.Bool("everyhandoff", false, "every way, target and end of a handoff, and a kill at each of its appends, and not only a sample")

// meshOf is a mesh whose main agent is the lead, in a process of its own.
func meshOf(t *testing.T, limits string, more ...string) *realMesh {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, dir+"/mesh.yaml", "main: lead\nlimits: {"+limits+"}\n"+strings.Join(more, ""))
	m := up(t, dir)
	m.cast(t, castLead, "lead")
	return m
}

// A breakdown is how the target of a handoff fails, and what is heard then.
type breakdown struct {
	kind, act string
	words     string // that it said before, "" for none
	reason    string // with which its execution ends
}

const castWords = "Here is %s. I do it. "

// S4-062, S4-063: however the target of a handoff fails, control returns to who gave it away,
// in the same task: what was said stays, the lead is told, and has the next message. A target
// that fails is not waited for: who is gone may be away for ten minutes here, and work for
// ten, and the test would not end.
func TestControlReturnsHoweverTheTargetFails(t *testing.T) {
	t.Parallel()
	m := meshOf(t, "agent_return: 10m, agent_time: 10m, agent_silence: 1s")
	all := []breakdown{
		{castOurs, "kill", "", mesh.ReasonUnavailable}, {castOurs, "fail", castWords, mesh.ReasonHandedOff}, {castOurs, "panic", castWords, mesh.ReasonHandedOff},
		{castStreaming, "die", castWords, mesh.ReasonUnavailable}, {castUnary, "die", castWords, mesh.ReasonUnavailable}, {castV03, "die", castWords, mesh.ReasonUnavailable},
		{castRogue, "garble", "", mesh.ReasonIllegal}, {castRogue, "empty", "", mesh.ReasonNoAnswer}, {castRogue, "nothing", "", mesh.ReasonIllegal},
		{castRogue, "foreign", "", mesh.ReasonNoAnswer}, {castRogue, "forget", "I do it. ", mesh.ReasonNoAnswer}, {castRogue, "twice", "I do it. ", mesh.ReasonHandedOff},
	}
	for _, kind := range []string{castStreaming, castUnary, castV03} {
		all = append(all, breakdown{kind, "kill", "", mesh.ReasonUnavailable}, breakdown{kind, "die-first", "", mesh.ReasonUnavailable}, breakdown{kind, "fail", castWords, mesh.ReasonHandedOff})
	}
	if *everyHandoff { // who is frozen is asked twice, for a quarter of a minute each time
		all = append(all, breakdown{castStreaming, "stop", "", mesh.ReasonUnavailable}, breakdown{castV03, "stop", "", mesh.ReasonUnavailable})
	}
	for _, f := range all {
		t.Run(f.kind+" "+f.act, func(t *testing.T) {
			t.Parallel()
			p, id := f.play(t, m)
			if f.act != "kill" {
				return
			}
			// Now it is known to be down.
			h := speaker(speakGRPC).complete(t, m, mesh.NewThreadID(), fmt.Sprintf("to=%s act=done", p.name))
			if !strings.HasPrefix(h.text, "One moment. Refused: unavailable: ") {
				t.Errorf("to one that is known to be down: %q", h.text)
			}
			if got := handoffs(m.log(id)); len(got) != 2 { // and no more
				t.Errorf("the handoff: %q", got)
			}
		})
	}
}

// S4-067: a target that never answers has its time, in which the user hears that it is at
// work, and that it takes longer than expected; one of ours that is gone has the time to
// return. Then control returns as from any other.
func TestControlReturnsFromATargetThatNeverAnswers(t *testing.T) {
	t.Parallel()
	m := meshOf(t, "agent_return: 1s, agent_time: 4s, agent_silence: 1s, quiet: 1s")
	for _, f := range []breakdown{
		{castOurs, "silent", "", mesh.ReasonTimeout}, {castOurs, "hang", castWords, mesh.ReasonTimeout},
		{castStreaming, "mute", "", mesh.ReasonTimeout}, {castStreaming, "silent", "", mesh.ReasonTimeout}, {castUnary, "mute", "", mesh.ReasonTimeout}, {castUnary, "hang", castWords, mesh.ReasonTimeout},
		{castV03, "mute", "", mesh.ReasonTimeout}, {castV03, "hang", castWords, mesh.ReasonTimeout},
		{castOurs, "die-first", "", mesh.ReasonUnavailable}, {castOurs, "die", castWords, mesh.ReasonUnavailable},
	} {
		t.Run(f.kind+" "+f.act, func(t *testing.T) {
			t.Parallel()
			f.play(t, m)
		})
	}
}

// play has the lead hand over to who fails, and checks what becomes of it.
func (f breakdown) play(t *testing.T, m *realMesh) (*castMember, string) {
	t.Helper()
	name := f.kind + "-" + f.act
	p := m.cast(t, f.kind, name)
	switch f.act {
	case "kill":
		p.kill9()
	case "stop":
		p.signal(suspends)
	}
	id := mesh.NewThreadID()
	h := speaker(speakGRPC).complete(t, m, id, fmt.Sprintf("to=%s act=%s", name, f.act))
	words := f.words
	if words == castWords {
		words = fmt.Sprintf(castWords, name)
	}
	if want := "One moment. " + words + "Back: error."; h.text != want {
		t.Errorf("heard %q, want %q", h.text, want)
	}
	if task := getTask(t, m, h.task); taskText(task) != h.text {
		t.Errorf("the task has %q, and its user heard %q", taskText(task), h.text)
	}
	log := m.log(id)
	if got := strings.Join(handoffs(log), ", "); got != "agent:lead to "+name+", node error" {
		t.Errorf("the handoff: %s", got)
	}
	var reason string
	for _, d := range log {
		if s := d.GetDispatchSettled(); s != nil && whoseExecution(log, s.GetChild()) == name {
			reason += s.GetReason()
		}
	}
	if reason != f.reason {
		t.Errorf("%s ended with the reason %q, want %q", name, reason, f.reason)
	}
	slow := f.reason == mesh.ReasonTimeout
	if told := strings.Join(h.status, " "); slow && (!strings.Contains(told, "Still working: "+name) || !strings.Contains(told, "taking longer than expected")) {
		t.Errorf("the user heard %q", h.status)
	}
	if next := speaker(speakGRPC).complete(t, m, id, "hello"); next.text != "Lead heard: hello" {
		t.Errorf("then it was heard %q", next.text)
	}
	return p, id
}

// A specialist of ours that dies in its work and is back is given its message again, and the
// user's stream goes on in the same task.
func TestATargetThatComesBackGoesOn(t *testing.T) {
	t.Parallel()
	m := meshOf(t, "agent_return: 1m")
	p := m.cast(t, castOurs, "ours")
	id := mesh.NewThreadID()
	heard := make(chan heardTurn, 1)
	go func() { heard <- speakGRPC(t, m, id, "to=ours act=die-once") }() // it is received below
	p.gone()
	p.up(t, m)
	h := <-heard
	if !strings.HasSuffix(h.text, "Here is ours. I do it. Back: completed.") || taskText(getTask(t, m, h.task)) != "One moment. Here is ours. I do it. Back: completed." {
		t.Errorf("ended %v: %q", h.state, h.text)
	}
	if got := strings.Join(handoffs(m.log(id)), ", "); got != "agent:lead to ours, agent:ours completed" {
		t.Errorf("the handoff: %s", got)
	}
}

// handoffs are who gave control away and back, and how.
func handoffs(log []*meshv1.Event) (all []string) {
	for _, e := range log {
		switch {
		case e.GetHandoffStarted() != nil:
			all = append(all, e.GetActor()+" to "+e.GetHandoffStarted().GetTo())
		case e.GetHandoffEnded() != nil:
			all = append(all, e.GetActor()+" "+e.GetHandoffEnded().GetOutcome())
		}
	}
	return all
}

// whoseExecution is the agent of an execution.
func whoseExecution(log []*meshv1.Event, id string) string {
	for _, e := range log {
		if d := e.GetDispatchIssued(); d.GetChild().GetId() == id {
			return d.GetChild().GetAgent()
		}
	}
	return ""
}
