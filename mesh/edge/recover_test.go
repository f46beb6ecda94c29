package edge_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// dispatcher is an agent that does as it is told.
func dispatcher(gate <-chan struct{}) func(*scene) {
	return func(s *scene) {
		switch word, _, _ := strings.Cut(s.text(), " "); word {
		case "stay":
			s.say("half of it")
			s.until(gate)
			s.move(completed, "")
		case "ask":
			s.say("I need more. ")
			s.move(asks, "Which?")
		case "give":
			s.ensure()
			s.must(s.give("smith", 0))
			s.move(completed, "")
		default:
			s.answer("ok " + s.text())
		}
	}
}

// What a dead node left is settled by the next one: once, and no more than
// must be.
func TestRecoverSettlesWhatADeadNodeLeft(t *testing.T) {
	texttest.Fixed(t)
	w := buildOne(t)
	gate := make(chan struct{})
	w.agent("main", dispatcher(gate))
	threadOf := map[string]string{}
	sent := map[string]*a2a.Accepted{}
	for _, name := range []string{"stay", "ask", "done"} {
		w.thread = mesh.NewThreadID()
		threadOf[name], sent[name] = w.thread, w.send(name)
		w.until(sent[name], func(h *heard) bool { return h.text != "" && (name == "stay" || h.state == asks) })
	}
	w.thread = threadOf["stay"]
	sent["queued"] = w.send("done")
	w.crash()

	next := rebuild(t, w.backend, "node-2")
	next.agent("main", dispatcher(nil))
	n, err := next.recover()
	if err != nil || n != 1 {
		t.Fatalf("settled %d turns, %v, want 1", n, err)
	}
	next.thread = threadOf["stay"]
	if h := next.hear(sent["stay"]); h.state != failed || h.reason() != mesh.ReasonInterrupted || !strings.Contains(h.lastWords(), "send the message again") {
		t.Errorf("the turn that had begun: %v", h)
	}
	next.tend()
	if h := next.hear(sent["queued"]); h.text != "ok done" { // what was accepted and not begun is run
		t.Errorf("the turn that had not begun: %v", h)
	}
	for next.busy(next.key()) {
		runtime.Gosched()
	}
	before := len(next.logs()[next.key()])
	if n, err := next.recover(); n != 0 || err != nil {
		t.Errorf("the second time: %d, %v", n, err)
	}
	if n, err := rebuild(t, w.backend, "node-3").recover(); n != 0 || err != nil { // nothing is left for it
		t.Errorf("a third node: %d, %v", n, err)
	}
	if after := len(next.logs()[next.key()]); after != before {
		t.Errorf("settling nothing wrote %d events", after-before)
	}
	if h := next.hear(next.send("hello")); h.text != "ok hello" {
		t.Errorf("afterwards: %v", h)
	}
	next.thread = threadOf["ask"] // S4-064: what waited for its user waits still
	if task := next.snapshot(sent["ask"].Task.Id); task.Status.State != asks {
		t.Fatalf("the task that waited is %v", task.Status)
	}
	cont := next.send("this")
	if h := next.hear(cont); cont.Task.Id != sent["ask"].Task.Id || h.state != completed || h.text != "ok this" {
		t.Errorf("it went on in %s with %v", cont.Task.Id, h)
	}
}

// A turn that was cut off says what its calls did, and to send the message again
// only if there are none: doing as told must not have effects twice.
func TestWhatWasCutOffSaysWhatItsCallsDid(t *testing.T) {
	texttest.Fixed(t)
	const args = `{"title":"Call\nAnn","tags":["a"]}`
	again := "send the message again"
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprint("notes.add", i+10)
	}
	tests := map[string]struct {
		done, failed, open []string
		args               string
		want, not          []string
	}{
		"nothing": {nil, nil, nil, "", []string{again}, []string{"Done"}},
		"done": {[]string{"tasks.create"}, nil, nil, args,
			[]string{`Done before that: tasks.create(tags: ["a"], title: Call Ann).`, "Ask only for what is missing"}, []string{again, "not known", "Failed"}},
		"failed": {nil, []string{"mail.send"}, nil, "", []string{"Failed before that: mail.send."}, []string{again, "not known", "Done"}},
		"done and open": {[]string{"tasks.create"}, nil, []string{"mail.send"}, "{}",
			[]string{"Done before that: tasks.create.", "It is not known whether this had its effect: mail.send.", "Find that out"}, []string{again, "Failed"}},
		"many": {many, nil, nil, "not JSON", []string{"notes.add17; and 4 more."}, []string{"notes.add18"}},
		"long": {[]string{"mail.send"}, nil, nil, `{"text":"` + strings.Repeat("x", 50_000) + `"}`, []string{"mail.send(text: xxx"}, []string{again}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := buildOne(t)
			w.agent("main", dispatcher(nil))
			w.hear(w.send("hello")) // a turn before, whose calls are its own
			s := w.fold()
			w.called(s.Turns()[0].ID, "x.before", args, &mesh.SkillReturned{})
			acc := w.send("stay")
			w.until(acc, func(h *heard) bool { return h.text != "" })
			var own mesh.ExecutionID
			for _, x := range w.fold().Executions() {
				if x.Parent == mesh.ExecutionID(acc.Task.Id) {
					own = x.ID
				}
			}
			for _, skill := range tt.done {
				w.called(own, skill, tt.args, &mesh.SkillReturned{Content: "ok"})
			}
			for _, skill := range tt.failed {
				w.called(own, skill, tt.args, &mesh.SkillReturned{Content: "no", Failed: true})
			}
			for _, skill := range tt.open {
				w.called(own, skill, tt.args, nil)
			}
			w.crash()
			next := rebuild(t, w.backend, "node-2")
			next.thread = w.thread
			if n, err := next.recover(); n != 1 || err != nil {
				t.Fatalf("settled %d turns, %v, want 1", n, err)
			}
			h := next.hear(acc)
			said := h.lastWords()
			if h.state != failed || h.reason() != mesh.ReasonInterrupted || !strings.HasPrefix(said, "The mesh was restarted while this was running") || len(said) > 2000 {
				t.Errorf("heard %v", h)
			}
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q is not said: %s", want, said)
				}
			}
			for _, not := range append(tt.not, "x.before", "\n") {
				if strings.Contains(said, not) {
					t.Errorf("%q is said: %s", not, said)
				}
			}
		})
	}
}

// called logs a call, and what it returned unless that is nil. It returns the call's id.
func (w *world) called(x mesh.ExecutionID, skill, args string, returned *mesh.SkillReturned) (call string) {
	w.t.Helper()
	call = mesh.NewEventID()
	events := []*mesh.Event{{Execution: x, Actor: "agent:main", Body: mesh.SkillCalled{Call: call, Skill: skill, Args: args, Source: mesh.SourceCommand}}}
	if returned != nil {
		returned.Call = call
		events = append(events, &mesh.Event{Execution: x, Actor: "agent:main", Body: *returned})
	}
	if _, err := w.log.Append(w.t.Context(), w.key(), events, threadlog.AppendOptions{}); err != nil {
		w.t.Fatal(err)
	}
	return call
}

// S4-029, S4-064: a handoff stands when the node does not.
func TestAHandoffOutlivesTheNode(t *testing.T) {
	w := buildOne(t)
	w.agent("main", dispatcher(nil))
	w.agent("smith", func(s *scene) { s.say("smith. "); s.move(asks, "Which?") })
	first := w.send("give")
	w.hear(first)
	w.crash()
	next := rebuild(t, w.backend, "node-2")
	next.agent("main", dispatcher(nil))
	next.agent("smith", func(s *scene) { s.answer("smith: " + s.text()) })
	if n, err := next.recover(); n != 0 || err != nil {
		t.Errorf("settled %d, %v", n, err)
	}
	next.thread = w.thread
	acc := next.send("that")
	if h := next.hear(acc); acc.Task.Id != first.Task.Id || h.text != "smith: that" {
		t.Errorf("heard %v in %s", h, acc.Task.Id)
	}
}

// A node that was only slow cannot write beside its successor, nor take the
// thread back with what it still hears.
func TestANodeCannotWriteAfterItsSuccessorClaimedTheThread(t *testing.T) {
	w := buildOne(t)
	gate := make(chan struct{})
	w.agent("main", func(s *scene) {
		s.say("before")
		s.until(gate)
		s.put("answer", "after", true)
		s.move(completed, "")
	})
	acc := w.send("go")
	w.until(acc, func(h *heard) bool { return h.text != "" })
	next := rebuild(t, w.backend, "node-2")
	next.thread = w.thread
	if n, err := next.recover(); n != 1 || err != nil {
		t.Fatalf("settled %d, %v", n, err)
	}
	events := len(w.logs()[w.key()])
	close(gate)
	w.close() // waits for the driver
	if now := len(w.logs()[w.key()]); now != events {
		t.Errorf("the old node wrote %d events", now-events)
	}
	if h := next.hear(acc); h.state != failed || h.text != "before" || h.reason() != mesh.ReasonInterrupted {
		t.Errorf("heard %v", h)
	}
	if s := w.fold(); s.Node != "node-2" || s.Epoch != 2 {
		t.Errorf("driven by %s in epoch %d", s.Node, s.Epoch)
	}
}

// Nor can it when its successor has done no more than to claim the thread.
func TestANodeDoesNotTakeAThreadBack(t *testing.T) {
	w := buildOne(t)
	gate := make(chan struct{})
	w.agent("main", gated(gate))
	acc := w.send("go")
	w.until(acc, func(h *heard) bool { return h.state == working })
	w.await("the leg began", func(s *thread.State) bool { return len(s.Executions()) == 2 })
	claim := []*mesh.Event{{Actor: "node", Body: mesh.ThreadClaimed{Epoch: 2, Node: "node-2"}}}
	at, err := w.log.Append(t.Context(), w.key(), claim, threadlog.AppendOptions{Epoch: 2})
	if err != nil {
		t.Fatal(err)
	}
	close(gate)
	for w.busy(w.key()) {
		runtime.Gosched()
	}
	w.close() // which parks nothing that is another's
	for _, ev := range w.logs()[w.key()][at[0]:] {
		t.Errorf("the old node wrote %T", ev.Body)
	}
}

// However many send at once, the store knows of each thread with a turn that is
// unfinished, at any moment, and so the next node finds them all; when all is quiet
// it knows of none.
func TestTheStoreKnowsWhatIsUnfinished(t *testing.T) {
	for seed := range uint64(3) {
		w := buildOne(t)
		w.agent("main", dispatcher(nil))
		ids := make([]string, 6)
		for i := range ids {
			ids[i] = mesh.NewThreadID()
		}
		w.storm(ids, []string{"hello", "hello", "ask"}, 2*seed)
		for key := range w.logs() {
			for w.busy(key) {
				runtime.Gosched()
			}
		}
		if left := w.open(); len(left) > 0 {
			t.Errorf("unfinished when all is quiet: %v", left)
		}
		w.storm(ids, []string{"hello", "hello", "hello", "hello", "stay"}, 2*seed+1)
		w.crash()
		want, open := 0, w.open()
		for key, events := range w.logs() {
			if next := thread.Fold(events).NextTurn(); next != nil {
				if want++; !open[key] {
					t.Errorf("the store does not know of turn %s", next.ID)
				}
			}
		}
		next := rebuild(t, w.backend, "node-3")
		next.agent("main", echo)
		n, err := next.recover()
		if err != nil || want == 0 || n == 0 {
			t.Errorf("settled %d turns of %d threads, %v", n, want, err)
		}
		next.tend()
		for len(next.open()) > 0 {
			runtime.Gosched()
		}
		for key, events := range next.logs() {
			if left := thread.Fold(events).NextTurn(); left != nil {
				t.Errorf("turn %s of %v is left", left.ID, key)
			}
		}
	}
}

// open are the threads that the store says are unfinished.
func (w *world) open() map[mesh.ThreadKey]bool {
	w.t.Helper()
	list, err := w.backend.Unfinished(context.Background(), 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[mesh.ThreadKey]bool{}
	for _, u := range list {
		out[u.Key] = true
	}
	return out
}

// storm sends the words from all sides to the threads; those that stay have a
// thread of their own.
func (w *world) storm(ids, words []string, seed uint64) {
	var wg sync.WaitGroup
	for g := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, g))
		wg.Go(func() {
			for i := range 12 {
				word, id := words[rnd.IntN(len(words))], ids[rnd.IntN(len(ids))]
				if word == "stay" {
					id = mesh.NewThreadID()
				}
				acc, err := w.Send(w.ctx(id), say(fmt.Sprint(word, " ", i)))
				if err != nil {
					w.t.Errorf("send: %v", err)
					return
				}
				if word != "stay" && rnd.IntN(2) == 0 {
					w.hear(acc)
				}
			}
		})
	}
	wg.Wait()
}
