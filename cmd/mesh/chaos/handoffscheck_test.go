//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// check looks at all that was said and done, of a mesh that was killed once more.
func (c *troupe) check(ctx context.Context, t *testing.T, files []string) {
	t.Helper()
	if err := errors.Join(c.m.end(syscall.SIGKILL), c.m.start(0)); err != nil {
		t.Error(err)
		return
	}
	at, err := c.m.use(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	// A mesh that has just begun anew does not know agents that have not registered again.
	for lead := false; !lead; time.Sleep(50 * time.Millisecond) {
		got, err := meshv1.NewRegistryServiceClient(at.conn).GetAgent(outgoing(ctx, mesh.NewThreadID()), &meshv1.GetAgentRequest{Name: "lead"})
		if lead = err == nil && got.GetAgent().GetLive(); ctx.Err() != nil {
			t.Errorf("the main agent is not back: %v", err)
			return
		}
	}
	struck, built := c.struck(), c.built()
	k := checker{c.m, c.l}
	tasks := k.listed(ctx, at)
	for i, file := range files {
		p, err := remember(file, "", "c"+fmt.Sprint(i))
		if err != nil {
			t.Error(err)
			return
		}
		if !p.done || len(p.l.wrong) > 0 {
			c.l.fault("conversation %d (done: %v): %s", i, p.done, strings.Join(p.l.wrong, "; "))
			continue
		}
		r := record{k: k, at: at, p: p, name: fmt.Sprintf("conversation %d", i)}
		r.thread(ctx, tasks)
		r.did(struck)
		r.saved(built)
		r.goesOn(ctx)
	}
}

// struck counts the effects of the agents, by their words, and who had them.
func (c *troupe) struck() map[string]int {
	data, err := os.ReadFile(c.effects)
	if err != nil {
		c.l.fault("%v", err)
	}
	had := map[string]int{}
	for line := range strings.Lines(string(data)) {
		had[strings.Fields(line)[1]]++
		had[strings.TrimSpace(line)]++
	}
	return had
}

var whatFor = regexp.MustCompile(`for converting (\w+)|[Cc]onverts? (\w+)`)

// built counts the skills that were built, by what they are for.
func (c *troupe) built() map[string]int {
	had := map[string]int{}
	err := filepath.WalkDir(filepath.Join(c.m.dir, "data", "tenant-skills"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && (d.IsDir() || strings.HasPrefix(d.Name(), ".")) {
			return nil // what is hidden was left by a mesh that died while it wrote: the next start removes it
		}
		if err == nil {
			var text []byte
			if text, err = os.ReadFile(path); err == nil {
				m := whatFor.FindStringSubmatch(string(text))
				if m == nil {
					return fmt.Errorf("for what is %s: %s", path, text)
				}
				had[m[1]+m[2]]++
			}
		}
		return err
	})
	if err != nil {
		c.l.fault("%v", err)
	}
	return had
}

// A record is a conversation that is over.
type record struct {
	k    checker
	at   *address
	p    *person
	name string
	id   string
	log  []*meshv1.Event
}

func (r *record) fault(format string, args ...any) {
	r.k.l.fault("%s (thread %s): %s", r.name, r.id, fmt.Sprintf(format, args...))
}

// thread checks the log by what the client knows of its tasks.
func (r *record) thread(ctx context.Context, tasks map[string]*a2apb.Task) {
	known := map[string]bool{}
	for _, t := range r.p.turns {
		id, _ := mesh.ExecutionID(t.task).ThreadID()
		r.id, t.thread, known[t.task] = id, id, true
	}
	var err error
	if r.log, err = r.k.thread(ctx, r.id); err != nil {
		r.fault("cannot be read: %v", err)
		return
	}
	r.k.ended(r.id, r.log)
	for _, t := range r.p.turns {
		r.k.posted(t, r.log)
		r.k.replayed(ctx, r.at, t)
		r.k.read(ctx, r.at, t, tasks[t.task])
		r.k.l.count("messages", len(t.messages))
	}
	r.k.l.count("tasks", len(r.p.turns))
	opened := 0
	for _, e := range r.log {
		if e.GetTaskOpened() != nil {
			opened++
		}
		if e.GetTaskOpened() != nil && !known[e.GetExecutionId()] {
			r.fault("task %s is of no exchange", e.GetExecutionId())
		}
	}
	if opened != len(r.p.turns) {
		r.fault("%d tasks of %d exchanges", opened, len(r.p.turns))
	}
	r.handoffs(ctx)
}

// follows are the states that may follow one of a handoff.
var follows = map[mesh.HandoffState]string{
	"":                    "pending active returning completed cancelled error",
	mesh.HandoffPending:   "active returning completed cancelled error",
	mesh.HandoffActive:    "returning completed cancelled error",
	mesh.HandoffReturning: "completed cancelled error",
}

// handoffs checks the handoffs of the log, and the states that its client read of them.
func (r *record) handoffs(ctx context.Context) {
	var open, last int64
	begun, ends := map[int64]bool{}, map[int64]string{}
	for _, e := range r.log {
		switch {
		case e.GetHandoffStarted() != nil && open != 0:
			r.fault("handoff %d began while %d was open", e.GetSeq(), open)
		case e.GetHandoffStarted() != nil:
			open, last, begun[e.GetSeq()] = e.GetSeq(), e.GetSeq(), true
			r.k.l.count("handoffs", 1)
			r.k.l.count("handoffs to "+e.GetHandoffStarted().GetTo(), 1)
		case e.GetHandoffEnded() != nil && open == 0:
			r.fault("at %d a handoff ended, and none was open", e.GetSeq())
		case e.GetHandoffEnded() != nil:
			ends[open], open = e.GetHandoffEnded().GetOutcome(), 0
			r.k.l.count("handoffs "+ends[last], 1)
		}
	}
	was := entry{}
	for _, s := range r.p.states {
		r.k.l.count("states of handoffs", 1)
		if s.Handoff != was.Handoff {
			was.Is = ""
		}
		legal := strings.Contains(" "+follows[mesh.HandoffState(was.Is)]+" ", " "+s.Is+" ") || s.Is == was.Is
		if !legal || s.Handoff < was.Handoff || !begun[s.Handoff] {
			r.fault("handoff %d was read as %q, and then %d as %q", was.Handoff, was.Is, s.Handoff, s.Is)
		}
		if over := mesh.HandoffState(s.Is); !over.Stands() && over != mesh.HandoffReturning && s.Is != ends[s.Handoff] {
			r.fault("handoff %d was read as %q, and ended %q", s.Handoff, s.Is, ends[s.Handoff])
		}
		was = s
	}
	if last == 0 {
		return
	}
	resp, err := meshv1.NewHandoffServiceClient(r.at.conn).GetHandoff(outgoing(ctx, r.id), &meshv1.GetHandoffRequest{ThreadId: r.id})
	if h := resp.GetHandoff(); err != nil || h.GetSeq() != last || mesh.HandoffState(h.GetState()).Stands() != (open != 0) {
		r.fault("the log has the handoff %d (open: %v), and GetHandoff says %v, %v", last, open != 0, h, err)
	}
}

// did checks the effects: each message's at most once; once, where the log says that it was
// had; and none that was not announced, of who announces them.
func (r *record) did(struck map[string]int) {
	called, back := map[string]int{}, map[string]bool{}
	for _, e := range r.log {
		if c := e.GetSkillCalled(); c.GetSkill() == forge {
			called[c.GetCall()]++
		}
		if b := e.GetSkillReturned(); b != nil && !b.GetFailed() {
			back[b.GetCall()] = true
		}
	}
	for _, e := range r.log {
		word := found(inWords, mesh.TextOf(e.GetMessagePosted().GetMessage()))
		n := struck[word]
		r.k.l.count("effects", n)
		if n > 1 || called[word] > 1 || back[word] && n != 1 || struck["smith "+word] > called[word] {
			r.fault("%s was announced %d times, returned: %v, and was had %d times", word, called[word], back[word], n)
		}
	}
}

// saved checks the skills: each is there once, if the log says that it was saved, and not
// unless it was to be.
func (r *record) saved(built map[string]int) {
	calls, back := map[string][]string{}, map[string]bool{}
	for _, e := range r.log {
		if c := e.GetSkillCalled(); c.GetSkill() == mesh.CallCreateSkill {
			what := whatFor.FindStringSubmatch(c.GetArgs())
			if what == nil {
				r.fault("for what is %s", c.GetArgs())
				continue
			}
			calls[what[1]+what[2]] = append(calls[what[1]+what[2]], e.GetExecutionId()+c.GetCall())
		}
		if b := e.GetSkillReturned(); b != nil && !b.GetFailed() {
			back[e.GetExecutionId()+b.GetCall()] = true
		}
	}
	for _, t := range r.p.turns {
		what := thing(t.plan)
		n, saved := built[what], slices.ContainsFunc(calls[what], func(c string) bool { return back[c] })
		r.k.l.count("skills built", n)
		if n > 1 || n == 1 && len(calls[what]) == 0 || n == 0 && saved {
			r.fault("of the skill for %s there are %d, announced: %q, returned: %v", what, n, calls[what], saved)
		}
	}
}

// goesOn checks that the client can go on: who has the conversation has the next message or
// is left, and then main answers; and that nothing that was begun is left open.
func (r *record) goesOn(ctx context.Context) {
	c := &client{m: r.k.m, l: r.k.l, name: r.name, life: ctx, chance: rand.New(rand.NewPCG(1, 1))}
	for _, text := range []string{"exit", "hello"} {
		t := &turn{thread: r.id, plan: r.name, seen: map[int64]uint64{}}
		if !c.say(ctx, t, text) {
			return
		}
		for c.follow(ctx, t) { // the target of a handoff asks
			r.fault("after %q somebody asks", text)
			return
		}
		task, err := a2apb.NewA2AServiceClient(r.at.conn).GetTask(outgoing(ctx, r.id), &a2apb.GetTaskRequest{Id: t.task})
		said := ""
		for _, a := range task.GetArtifacts() {
			for _, p := range a.GetParts() {
				said += p.GetText()
			}
		}
		if text == "hello" && (err != nil || said != heard+text) {
			r.fault("to %q is said %q (%v, %v)", text, said, task.GetStatus(), err)
		}
	}
	log, err := r.k.thread(ctx, r.id)
	for begun := time.Now(); err == nil && unsettled(log) != "" && time.Since(begun) < patient; log, err = r.k.thread(ctx, r.id) {
		time.Sleep(50 * time.Millisecond)
	}
	if what := unsettled(log); err != nil || what != "" {
		r.fault("at the end: %s, %v", what, err)
	}
}

// unsettled says what of the log was begun and has not ended, once.
func unsettled(log []*meshv1.Event) string {
	issued, settled, open := map[string]int{}, map[string]int{}, 0
	for _, e := range log {
		switch {
		case e.GetDispatchIssued() != nil:
			issued[e.GetDispatchIssued().GetChild().GetId()]++
		case e.GetDispatchSettled() != nil:
			settled[e.GetDispatchSettled().GetChild()]++
		case e.GetHandoffStarted() != nil:
			open++
		case e.GetHandoffEnded() != nil:
			open--
		}
	}
	for id, n := range issued {
		if n != 1 || settled[id] != 1 {
			return fmt.Sprintf("execution %s was begun %d times and ended %d times", id, n, settled[id])
		}
	}
	if open != 0 {
		return "a handoff is open"
	}
	return ""
}
