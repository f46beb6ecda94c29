package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
)

// printer is a model that prints a word when it is asked to.
func printer(t *testing.T) *scriptedModel {
	return startScripted(t, func(req *modelRequest) modelReply {
		said, after := req.since()
		if len(after) > 0 || !strings.Contains(said, "print") {
			return modelReply{text: "You said: " + strings.Fields(said)[0]}
		}
		return modelReply{calls: []modelCall{useSkill("press.print", map[string]any{"word": "pier"})}}
	})
}

// Ctrl-C while a skill is at work ends the call and the turn, and the chat goes
// on; nothing is done again.
func TestCtrlCEndsASkillThatIsAtWork(t *testing.T) {
	t.Parallel()
	paper, model := startPress(t), printer(t)
	dir := withPress(t, paper)
	m := upWith(t, dir, model.env(), "--tool-mode", "single_loop")
	id := mesh.NewThreadID()
	p := chatAt(t, m, id)
	p.enter("print it\n")
	paper.work(t)
	at := p.stdout.len()
	p.signal(os.Interrupt)
	_, at = p.await(&p.stdout, at, `■ cancelled(?s:.*)you › $`)
	p.enter("hello\n")
	_, at = p.await(&p.stdout, at, `main › You said: hello\n`)
	p.await(&p.stdout, at, `you › $`)
	p.enter("/quit\n")
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d; stderr: %s", code, p.stderr.String())
	}
	log := m.log(id)
	if got := ends(log); got != "CANCELED, COMPLETED" {
		t.Errorf("the turns ended %s", got)
	}
	if printed, _ := paper.all(); len(printed) != 1 || len(madeCalls(log)) != 1 {
		t.Errorf("printed %q by the calls %q", printed, madeCalls(log))
	}
	for _, e := range log {
		if r := e.GetSkillReturned(); r != nil && !r.GetFailed() {
			t.Errorf("the call that was stopped returned %v", r)
		}
	}
}

// A mesh that is told to stop while a skill is at work waits for it as long as
// it may, and ends in good order: a call that comes to its end is settled, one
// that does not is known to have no outcome.
func TestAMeshThatStopsWaitsForSkillsAtWork(t *testing.T) {
	for name, hangs := range map[string]bool{"one that ends": false, "one that hangs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paper, model := startPress(t), printer(t)
			dir := withPress(t, paper)
			grace := "--grace=" + testTime.String()
			if hangs {
				grace = "--grace=300ms"
			}
			m := upWith(t, dir, model.env(), "--tool-mode", "single_loop", grace)
			id := mesh.NewThreadID()
			first := launch(t, dir, "mesh", []string{"MESH_ADDR=" + m.grpc}, "send", "--thread", id, "--timeout", "3s", "print it")
			paper.work(t)
			m.signal(os.Interrupt)
			m.await(&m.stderr, 0, `Stopping; running turns have`)
			if !hangs {
				paper.release()
			}
			if code := m.wait(); code != exitOK {
				t.Errorf("exit code %d: %s", code, m.stderr.String())
			}
			first.wait()
			paper.hurry()
			m = upWith(t, dir, model.env(), "--tool-mode", "single_loop")
			for limit := time.Now().Add(testTime); ends(m.log(id)) == "" && time.Now().Before(limit); {
				time.Sleep(20 * time.Millisecond) // it goes on by itself
			}
			got, shown := ends(m.log(id)), m.mesh("threads", "show", id).succeeds(t)
			if got != "COMPLETED" {
				t.Errorf("the turn ended %s", got)
			}
			// The call may still have told that it was stopped, or that its service was lost.
			if unknown := regexp.MustCompile(`outcome unknown: press\.print|unknown whether (it|the service)`).MatchString(shown); unknown != hangs {
				t.Errorf("of the effect is said:\n%s", shown)
			}
			if printed, _ := paper.all(); len(printed) != 1 {
				t.Errorf("printed %q", printed)
			}
		})
	}
}
