package edge_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
)

// chatter says pieces of so many bytes until its stream ends.
func chatter(bytes int) func(*scene) {
	words := strings.Repeat("x", bytes)
	return func(s *scene) {
		for i := 0; s.ctx.Err() == nil; i++ {
			s.put("answer", words, i > 0)
		}
	}
}

// finding R5: what an agent says on its stream is bounded in events and in bytes, however it
// says it. Beyond, its task fails for a reason and it is told to end; what it had said stays,
// and nobody else is concerned.
func TestAnAgentThatSaysTooMuchIsStopped(t *testing.T) {
	texttest.Fixed(t)
	bound := limit.Output{Events: 1000, Bytes: 8 << 20, Agents: map[string]limit.Output{"smith": {Events: 20}}}
	tests := map[string]struct {
		agent  string
		play   func(*scene)
		opts   []as
		events int64
	}{
		"that streams for ever":       {"main", chatter(1), nil, 1000},
		"that sends 100 MB":           {"main", func(s *scene) { chatter(100 << 10)(s) }, nil, 1000},
		"whose events are large":      {"main", chatter(mesh.MaxEvent - 8<<10), nil, 20},
		"of somebody else":            {"main", chatter(1), []as{foreign}, 1000},
		"that does not heed":          {"main", chatter(1), []as{deaf}, 1000},
		"that has a bound of its own": {"smith", chatter(1), nil, 20},
		"that says for ever that it is at it": {"main", func(s *scene) {
			for i := 0; s.ctx.Err() == nil; i++ {
				s.move(working, fmt.Sprint("at ", i))
			}
		}, nil, 1000},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := build(t, func(c *settings) { c.turn.Output = bound })
			neighbor, loud := w.agent("neighbor", echo), w.agent(tt.agent, tt.play, tt.opts...)
			acc := w.post(w.call(func(c *mesh.Call) { c.Agent = tt.agent }), say("go"))
			w.until(acc, func(h *heard) bool { return len(h.all) > 3 })
			beside := w.hear(w.post(mesh.WithCall(w.ctx(""), func() mesh.Call {
				c, _ := mesh.CallFrom(w.ctx(mesh.NewThreadID()))
				c.Agent = neighbor.name
				return c
			}()), say("hello")))
			h := w.hear(acc)
			if h.state != failed || h.reason() != mesh.ReasonOutput || !strings.Contains(h.lastWords(), "more than is kept") {
				t.Errorf("it ends with %v %s: %s", h.state, h.reason(), h.lastWords())
			}
			if beside.state != completed {
				t.Errorf("its neighbor: %v", beside)
			}
			s := w.fold()
			x := s.Executions()[1]
			if x.State != failed || x.Logged.Events < 7 || x.Logged.Events > tt.events+2 || x.Logged.Bytes > bound.Bytes+2*mesh.MaxEvent {
				t.Errorf("its execution is %v with %+v", x.State, x.Logged)
			}
			if len(h.all) < 7 {
				t.Errorf("the user has %d updates of it", len(h.all))
			}
			for w.busy(w.key()) { // until it was told
				runtime.Gosched()
			}
			if len(loud.asked()) == 0 {
				t.Error("it is not told to end")
			}
		})
	}
}

// An agent that never ends, and says nothing, has its time.
func TestAnAgentThatNeverEndsHasItsTime(t *testing.T) {
	w := build(t, func(c *settings) {
		c.turn.Limits.Time = 50 * time.Millisecond
		c.turn.CancelGrace = 50 * time.Millisecond
	})
	w.agent("main", func(s *scene) { s.ensure(); <-s.ctx.Done() }, deaf)
	if h := w.hear(w.send("go")); h.state != failed || h.reason() != mesh.ReasonTimeout {
		t.Errorf("heard %v", h)
	}
}

// finding R5: what an execution has said is counted from the log: neither a restart nor the
// answer to a question lets it say as much again.
func TestARestartDoesNotForgetWhatWasSaid(t *testing.T) {
	texttest.Fixed(t)
	bounded := func(c *settings) {
		c.turn.Output = limit.Output{Events: 1000}
		c.turn.CancelGrace = 50 * time.Millisecond
	}
	w := buildOne(t, bounded)
	w.agent("main", func(s *scene) {
		for range 800 {
			s.say("x")
		}
		s.move(asks, "More?")
	})
	acc := w.send("go")
	if h := w.hear(acc); h.state != asks {
		t.Fatalf("heard %v", h)
	}
	w.crash()

	next := rebuild(t, w.backend, "node-2", bounded)
	next.thread = w.thread
	next.agent("main", chatter(1))
	h := next.hear(next.post(next.ctx(next.thread), to(say("yes"), acc.Task.Id)))
	if h.state != failed || h.reason() != mesh.ReasonOutput {
		t.Errorf("it ends with %v %s", h.state, h.reason())
	}
	var x *thread.Execution
	for _, x = range next.fold().Executions() {
	}
	if x.Logged.Events < 800 || x.Logged.Events > 1000+4 {
		t.Errorf("it has %+v", x.Logged)
	}
}
