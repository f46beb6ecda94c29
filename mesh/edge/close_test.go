package edge_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/edge"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/lease/leasetest"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/turn"
)

// Within the grace turns finish, also those that wait, and nothing new begins.
func TestCloseLetsTurnsFinishWithinTheGrace(t *testing.T) {
	texttest.Fixed(t)
	w := build(t)
	gate := make(chan struct{})
	w.agent("main", gated(gate))
	first, second := w.send("1"), w.send("2")
	w.until(first, func(h *heard) bool { return h.state == working })
	grace, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- w.Close(grace) }()
	for { // until it has begun to close
		_, err := w.cancel(string(mesh.NewExecutionID(w.thread)))
		if mesh.IsCode(err, mesh.Unavailable) {
			break
		}
		runtime.Gosched()
	}
	if _, err := w.Send(w.ctx(w.thread), say("3")); !mesh.IsCode(err, mesh.Unavailable) || !strings.Contains(mesh.DetailOf(err), "shutting down") {
		t.Errorf("a message while it closes: %v", err)
	}
	close(gate)
	if err := <-closed; err != nil || grace.Err() != nil {
		t.Errorf("close: %v, %v", err, grace.Err())
	}
	if a, b := w.hear(first), w.hear(second); a.text != "you said 1" || b.text != "you said 2" {
		t.Errorf("heard %v and %v", a, b)
	}
	if _, err := w.Send(w.ctx(w.thread), say("4")); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("a message afterwards: %v", err)
	}
	if n := len(w.fold().Turns()); n != 2 {
		t.Errorf("%d turns", n)
	}
}

// After the grace what runs is settled as interrupted, what waits for its user is
// kept, and so is what has not begun, for the next node to run; and the agents are
// told.
func TestCloseSettlesWhatDoesNotFinish(t *testing.T) {
	texttest.Fixed(t)
	w := build(t)
	main := w.agent("main", dispatcher(nil))
	asking := w.thread
	kept := w.send("ask")
	w.hear(kept)
	w.thread = mesh.NewThreadID()
	running := w.send("stay")
	w.until(running, func(h *heard) bool { return h.text != "" })
	queued := w.send("hello")
	if err := w.Close(stopNow()); err != nil {
		t.Fatal(err)
	}
	if x := w.fold().Execution(mesh.ExecutionID(queued.Task.Id)); x.State != submitted {
		t.Errorf("the turn that waited its turn is %v, %s", x.State, x.Reason)
	}
	for _, acc := range []string{running.Task.Id} {
		if x := w.fold().Turn(mesh.ExecutionID(acc)); x.State != failed || x.Reason != mesh.ReasonInterrupted ||
			!strings.Contains(textOf(x.Message.GetParts()), "stopped") {
			t.Errorf("turn %s is %v, %s, %v", acc, x.State, x.Reason, x.Message)
		}
	}
	if h := w.hear(running); h.text != "half of it" {
		t.Errorf("heard %v", h)
	}
	if got := main.asked(); len(got) != 1 || got[0] != string(w.fold().Executions()[1].ID) {
		t.Errorf("the agent was asked to cancel %v", got)
	}
	busy := w.thread
	w.thread = asking
	if s := w.fold(); s.Turns()[0].State != asks {
		t.Errorf("the task that waited is %v", s.Turns()[0].State)
	}
	next := rebuild(t, w.backend, "node-3")
	next.agent("main", dispatcher(nil))
	if n, err := next.recover(); n != 0 || err != nil {
		t.Errorf("the next node settled %d, %v", n, err)
	}
	next.thread = busy
	next.tend()
	if h := next.hear(queued); h.text != "ok hello" {
		t.Errorf("the turn that waited its turn: %v", h)
	}
}

// However it is timed, a stopped edge has left nothing that runs, and no turn
// that ended in a way that it did not: canceled by nobody, or failed for
// another reason.
func TestCloseAtAnyMomentSaysWhatIsSo(t *testing.T) {
	for i := range 40 {
		w := build(t)
		w.agent("main", gives)
		w.agent("smith", func(s *scene) {
			for range 5 * i {
				s.put("answer", "smith. ", true)
			}
			s.must(s.giveBack("x", int64(5*i)))
			s.move(completed, "")
		})
		ctx := w.ctx(w.thread)
		sent := make(chan struct{})
		go func() { // waited for below
			defer close(sent)
			for range 3 {
				if _, err := w.Send(ctx, say("go")); err != nil {
					return
				}
			}
		}()
		for range i * 20 {
			runtime.Gosched()
		}
		if err := w.Close(stopNow()); err != nil {
			t.Fatal(err)
		}
		<-sent
		for _, x := range w.fold().Turns() {
			if x.State != completed && x.State != submitted && (x.State != failed || x.Reason != mesh.ReasonInterrupted) {
				t.Fatalf("a turn is %v, %s, %v", x.State, x.Reason, x.Message)
			}
		}
	}
}

// A driver whose lease is lost stops: it settles its turn, if nobody else has
// claimed the thread, begins no other, and a driver comes back for those when
// the lease is to be had again.
func TestADriverThatLostItsLeaseStops(t *testing.T) {
	clock := leasetest.NewClock()
	leases := lease.NewLocal(clock.Now)
	w := buildOne(t, func(c *settings) { c.turn.Leases = leases })
	main := w.agent("main", dispatcher(nil))
	first := w.send("stay")
	w.until(first, func(h *heard) bool { return h.text != "" })
	second := w.send("hello")
	w.tend()
	clock.Advance(10 * time.Second)
	w.tend() // in time
	clock.Advance(10 * time.Second)
	if w.fold().Turns()[0].State != working {
		t.Fatalf("the turn is %v although its lease stands", w.fold().Turns()[0].State)
	}
	clock.Advance(10 * time.Second)
	theirs, err := leases.Acquire(t.Context(), w.key(), "node-2", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	w.tend()
	h := w.hear(first)
	if h.state != failed || h.reason() != mesh.ReasonInterrupted {
		t.Errorf("heard %v", h)
	}
	for w.busy(w.key()) {
		runtime.Gosched()
	}
	w.tend() // a driver tries, and may not
	for w.busy(w.key()) {
		runtime.Gosched()
	}
	if n := main.plays.Load(); n != 1 {
		t.Errorf("%d turns were begun, the second without a lease", n)
	}
	if err := leases.Release(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	w.tend()
	if h := w.hear(second); h.text != "ok hello" {
		t.Errorf("the second: %v", h)
	}
}

// A turn whose driver is gone, with an execution that nobody hears any more, is
// not run again: its user decides.
func TestATurnWithoutItsDriverIsNotRunTwice(t *testing.T) {
	w := build(t)
	main := w.agent("main", dispatcher(nil))
	acc := w.send("stay")
	w.until(acc, func(h *heard) bool { return h.text != "" })
	w.crash()
	next := rebuild(t, w.backend, "node-2") // and does not Recover
	other := next.agent("main", dispatcher(nil))
	next.thread = w.thread
	again := next.send("hello")
	if h := next.hear(acc); h.state != failed || h.reason() != mesh.ReasonInterrupted {
		t.Errorf("heard %v", h)
	}
	if h := next.hear(again); h.text != "ok hello" || main.plays.Load() != 1 || other.plays.Load() != 1 {
		t.Errorf("heard %v; %d and %d calls", h, main.plays.Load(), other.plays.Load())
	}
}

// Run does by the clock what tests do by hand, and ends with its context.
func TestRunEndsWithItsContext(t *testing.T) {
	w := build(t)
	if err := w.nodes[0].turns.Run(stopNow()); err != nil {
		t.Error(err)
	}
}

// An edge and a runner say what they lack.
func TestAnEdgeNeedsItsParts(t *testing.T) {
	w := build(t)
	for name, change := range map[string]func(*settings){
		"no log": func(c *settings) { c.edge.Log, c.turn.Log = nil, nil }, "no main agent": func(c *settings) { c.edge.Main, c.turn.Main = "", "" },
		"a main agent that is no name": func(c *settings) { c.edge.Main, c.turn.Main = "Main Agent", "Main Agent" },
	} {
		cfg := settings{w.nodes[0].Config, w.nodes[0].turns.Config}
		change(&cfg)
		if _, err := edge.New(cfg.edge); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("edge, %s: %v", name, err)
		}
		if _, err := turn.New(cfg.turn); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("turn, %s: %v", name, err)
		}
	}
	cfg := w.nodes[0].turns.Config
	cfg.Node = ""
	if _, err := turn.New(cfg); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("no node: %v", err)
	}
}
