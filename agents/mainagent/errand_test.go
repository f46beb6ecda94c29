package mainagent_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

const errand = "Find my overdue tasks, then email the report to bob@example.com"

// A ledger is a store that tells of each append after which something waited, once
// that is on disk.
type ledger struct {
	threadlog.Backend
	mu   sync.Mutex
	told func(batch *threadlog.Batch) // or nil
}

func (l *ledger) over(b threadlog.Backend) threadlog.Backend {
	l.Backend = b
	return l
}

func (l *ledger) tell(told func(*threadlog.Batch)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = told
}

func (l *ledger) Append(ctx context.Context, key mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	at, err := l.Backend.Append(ctx, key, b)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && !b.Deferred && l.told != nil {
		l.told(b)
	}
	return at, err
}

// of says what is in a batch.
func of(t *testing.T, b *threadlog.Batch) string {
	t.Helper()
	var out []string
	for _, entry := range b.Entries {
		e, err := eventpb.Decode(entry.Data)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimPrefix(fmt.Sprintf("%T", e.Body), "mesh."))
	}
	return strings.Join(out, " ")
}

// overdue makes the task that an errand finds.
func overdue(t *testing.T, m *meshtest.Mesh) {
	t.Helper()
	if s := m.Say(mesh.NewThreadID(), `Create a task "Renew the certificate" due 2026-11-18`); s.State != completed {
		t.Fatalf("ended %v: %s", s.State, s.Text)
	}
}

// decisions are the events that somebody acts on: an agent is called, a skill has its
// effect, a user is answered. What is no output and none of these goes with one of them. A
// thread is claimed with a message, or with the first output if its last driver was still
// leaving.
var decisions = []string{"TaskOpened", "MessagePosted", "DispatchAccepted", "DispatchIssued", "DispatchSettled", "SkillCalled"}

// Intents and decisions alone are reasons to go to the disk, and output, which the user
// is about to see: how many commits that takes depends on how fast it comes. An errand of
// four agents dispatches three times, which is one commit for accepting the batch and one
// for each start.
func TestAnErrandWaitsForTheDiskForIntentsAndDecisionsAlone(t *testing.T) {
	if shared.Pair() {
		t.Skip("two nodes on one backend defer nothing")
	}
	const most = 15
	w, log := newWorld(t), new(ledger)
	m := meshtest.Start(t, w.all(), meshtest.Options{Store: log.over})
	overdue(t, m)
	var waited []string
	decided, intent := 0, false
	log.tell(func(b *threadlog.Batch) {
		what := of(t, b)
		waited = append(waited, what)
		kinds := strings.Fields(what)
		switch {
		case slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(decisions, k) }):
			decided++
		case !slices.ContainsFunc(kinds, func(k string) bool { return k == "TaskMoved" || k == "ArtifactAppended" }):
			t.Errorf("something waited for %s, which is neither a decision nor output", what)
		}
		intent = intent || slices.Contains(kinds, "SkillCalled")
	})
	thread := mesh.NewThreadID()
	asked, s := m.Say(thread, errand), m.Say(thread, "yes")
	log.tell(nil)
	if asked.State != input || s.State != completed || !strings.Contains(s.Text, "bob@example.com") {
		t.Fatalf("ended %v and %v: %s", asked.State, s.State, s.Text)
	}
	if decided > most {
		t.Errorf("an errand waited for %d commits of decisions, at most %d are needed", decided, most)
	}
	if !intent {
		t.Error("a mail was sent, and nobody waited for its intent")
	}
	if sent := strings.Count(w.files(".eml"), "\nTo: <bob@example.com>"); sent != 1 {
		t.Errorf("an errand sent %d mails", sent)
	}
	if t.Failed() || testing.Verbose() {
		t.Log(decided, "with decisions\n"+strings.Join(waited, "\n"))
	}
}

// A power cut right after any commit of an errand leaves what the log says: turns that
// began are over or wait for their user, no mail was sent that the log does not know
// of, and what goes on by itself sends one mail: or none, where it was about to be sent and
// nobody knows whether it was, which the user is told.
func TestAnErrandThatIsCutAfterAnyCommitIsNeitherLostNorDoubled(t *testing.T) {
	if shared.Pair() {
		t.Skip("two nodes on one backend defer nothing")
	}
	w, log := newWorld(t), new(ledger)
	m := meshtest.Start(t, w.all(), meshtest.Options{Store: log.over})
	overdue(t, m)
	type cut struct{ data, effects, what string }
	var cuts []cut
	log.tell(func(b *threadlog.Batch) {
		c := cut{t.TempDir(), t.TempDir(), of(t, b)}
		copyFiles(t, w.data, c.effects) // what had its effect before the log is copied is known to it
		copyFiles(t, m.Data, c.data)
		cuts = append(cuts, c)
	})
	thread := mesh.NewThreadID()
	m.Say(thread, errand)
	if s := m.Say(thread, "yes"); s.State != completed {
		t.Fatalf("ended %v: %s", s.State, s.Text)
	}
	log.tell(nil)
	m.Stop()
	for i, c := range cuts {
		t.Run(fmt.Sprintf("%d %s", i, c.what), func(t *testing.T) {
			w := newWorld(t)
			w.data = c.effects
			m := meshtest.Start(t, w.all(), meshtest.Options{Data: c.data})
			sent := func() int { return strings.Count(w.files(".eml"), "\nTo: <bob@example.com>") }
			events := m.Events(thread)
			limit := time.Now().Add(time.Minute)
			for ; !mesh.Terminal(rests(events)) && !mesh.Interrupted(rests(events)) && time.Now().Before(limit); events = m.Events(thread) {
				time.Sleep(10 * time.Millisecond) // an answer that no agent had yet is given to it
			}
			calls := bodies[mesh.SkillCalled](events)
			known := slices.ContainsFunc(calls, func(c mesh.SkillCalled) bool { return c.Skill == "mail.send" })
			if n := sent(); n > 1 || n == 1 && !known {
				t.Errorf("%d mails are sent, and the log has the calls %v", n, calls)
			}
			switch state := rests(events); {
			case state == input:
				if s := m.Say(thread, "yes"); s.State != completed || sent() != 1 {
					t.Errorf("after the yes it ended %v, with %d mails: %s", s.State, sent(), s.Text)
				}
			case mesh.Terminal(state):
				if state == completed && sent() != 1 && !unsettled(events, "mail.send") {
					t.Errorf("it ended %v, with %d mails", state, sent())
				}
			default:
				t.Errorf("after the start the turn is %v", state)
			}
		})
	}
}

// unsettled reports whether a call of the skill was announced and never returned, and the
// user was told of it at the end.
func unsettled(events []*mesh.Event, name string) bool {
	open, told := map[string]bool{}, ""
	for _, e := range events {
		switch b := e.Body.(type) {
		case mesh.SkillCalled:
			open[string(e.Execution)+b.Call] = b.Skill == name
		case mesh.SkillReturned:
			delete(open, string(e.Execution)+b.Call)
		case mesh.ArtifactAppended:
			if !b.Append {
				told = ""
			}
			told += a2a.ArtifactText(b.Artifact)
		}
	}
	for _, is := range open {
		if is {
			return strings.Contains(told, name)
		}
	}
	return false
}

// rests is the state of the thread's turn.
func rests(events []*mesh.Event) mesh.TaskState {
	var turn mesh.ExecutionID
	var state mesh.TaskState
	for _, e := range events {
		switch b := e.Body.(type) {
		case mesh.TaskOpened:
			turn = b.Execution.ID
		case mesh.TaskMoved:
			if e.Execution == turn {
				state = b.State
			}
		}
	}
	return state
}

// copyFiles copies a folder as it is, without what its files have not used yet.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(at, 0o750)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(at, bytes.TrimRight(data, "\x00"), 0o600); err != nil {
			return err
		}
		return os.Truncate(at, int64(len(data)))
	})
	if err != nil {
		t.Fatal(err)
	}
}
