package main

import (
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

const buildsSkill = "I want to create a skill that sends Slack alerts"

// row is the thread's line of 'mesh threads list'.
func (p person) row(id string) string {
	p.t.Helper()
	for line := range strings.Lines(p.mesh("threads", "list").succeeds(p.t)) {
		if strings.HasPrefix(line, id) {
			return line
		}
	}
	p.t.Fatal("the thread is not listed")
	return ""
}

// wants checks that the text has each of the words.
func wants(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s: %q is not in\n%s", what, w, text)
		}
	}
}

// S4-036, S4-068, S4-082: only who takes part in a conversation leaves its session: to another tenant's
// user and to a stranger it is unknown, and who may read it is refused; none of them changes
// anything. One who takes part leaves it for all, though cat may not have skills made: main
// answers her, the other's task is over with words, and main offers to go on to whose session it was.
func TestWhoTakesPartLeavesASessionForAll(t *testing.T) {
	t.Parallel()
	ann, bob, _ := upWithTokens(t)
	cat := person{ann.realMesh, tokenOf("cat")}
	id := mesh.NewThreadID()
	ann.mesh("send", "--thread", id, buildsSkill).asks(t)
	wants(t, "active", ann.row(id), "skill-builder (handoff active)", "skill-builder 1/5 gathering requirements")
	before := ann.mesh("threads", "export", id).succeeds(t)
	unknown := cat.mesh("send", "--thread", id, "hello")
	if got := cat.mesh("send", "--thread", id, "exit"); got.code != exitNotFound || got.stdout != unknown.stdout || got.stderr != unknown.stderr {
		t.Errorf("a stranger leaves: %+v, and says hello: %+v", got, unknown)
	}
	bob.mesh("send", "--thread", id, "exit") // in a thread of his own with that id
	ann.mesh("threads", "share", id, "--readable").succeeds(t)
	if got := cat.mesh("send", "--thread", id, "exit"); got.code != exitDenied || !strings.Contains(got.stderr, "you may read this conversation and do not take part in it") {
		t.Errorf("a reader leaves: %+v", got)
	}
	if after := ann.mesh("threads", "export", id).succeeds(t); strings.Count(after, "\n") != strings.Count(before, "\n")+1 {
		t.Errorf("the log was\n%s\nand is\n%s", before, after)
	}
	wants(t, "still active", ann.row(id), "skill-builder (handoff active)")

	ann.mesh("threads", "share", id, "--with", "cat").succeeds(t)
	if got := cat.mesh("send", "--thread", id, "Exit.").succeeds(t); !strings.Contains(got, "You are back with me") {
		t.Errorf("cat read %q", got)
	}
	wants(t, "left", ann.row(id), "  main ", "skill-builder 1/5 gathering requirements, left")
	wants(t, "what ann reads", ann.mesh("threads", "show", id).succeeds(t),
		"■ canceled: cat left skill-builder for everybody in this conversation. You are back with the main assistant", "cat › Exit.", "main › You are back with me")
	if got := cat.mesh("send", "--thread", id, "What can you do?").succeeds(t); strings.Contains(got, "Would you like to continue?") {
		t.Errorf("cat is offered ann's session: %q", got)
	}
	if got := ann.mesh("send", "--thread", id, "What can you do?").succeeds(t); !strings.Contains(got, "you left the Skill Creation Assistant at step 1 of 5") {
		t.Errorf("ann read %q", got)
	}
}

// S4-036, S4-046, S4-064: who leaves with /exit is answered by main, is offered to go on with
// what was kept, and does, at the question that waited.
func TestAChatLeavesASessionAndComesBack(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	id := mesh.NewThreadID()
	p := chatAt(t, m, id)
	p.enter(buildsSkill + "\n")
	_, at := p.await(&p.stdout, 0, `\(/exit leaves\) › $`)
	p.enter("channel and text\n")
	_, at = p.await(&p.stdout, at, `What should the skill be called\?(?s:.*)\(/exit leaves\) › $`)
	p.enter("/exit\n")
	_, at = p.await(&p.stdout, at, `main › You are back with me, no problem. What you said there is kept.(?s:.*)\nyou › $`)
	p.enter("/exit\n")
	_, at = p.await(&p.stdout, at, `no agent has taken over; /quit leaves the chat\n(?s:.*)you › $`)
	p.enter("What can you do?\n")
	_, at = p.await(&p.stdout, at, `Would you like to continue\? Say “yes”.\n(?s:.*)you › $`)
	p.enter("yes\n")
	_, at = p.await(&p.stdout, at, `What should the skill be called\?(?s:.*)\(/exit leaves\) › $`)
	p.enter("/quit\n")
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d; stderr: %s", code, p.stderr.String())
	}
	var said []*meshv1.MessagePosted
	for _, e := range m.log(id) {
		if posted := e.GetMessagePosted(); posted != nil {
			said = append(said, posted)
		}
	}
	if len(said) != 5 || !said[2].GetExit() || at == 0 {
		t.Errorf("the log has %d messages: %v", len(said), said)
	}
	if got, want := ends(m.log(id)), "COMPLETED, COMPLETED"; got != want {
		t.Errorf("the turns ended %s, want %s", got, want)
	}
}
