package edge_test

import (
	"sync"
	"testing"

	"agentmesh/mesh"
)

// The trace context of a client is in the log, and goes to every agent of its turn: as it
// is, or, where spans of executions are told of, with the agent's span.
func TestTheTraceOfATurnReachesEachOfItsAgents(t *testing.T) {
	const came = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, traced := range map[string]bool{"passed on": false, "told of": true} {
		t.Run(name, func(t *testing.T) {
			w := build(t, func(c *settings) { c.turn.Traced = traced })
			var mu sync.Mutex
			got := map[string]string{}
			hears := func(agent string, play func(*scene)) {
				w.agent(agent, func(s *scene) {
					mu.Lock()
					got[agent] = s.call.Traceparent
					mu.Unlock()
					play(s)
				})
			}
			hears("main", gives)
			hears("smith", echo)
			acc := w.post(w.call(func(c *mesh.Call) { c.Traceparent = "01" + came[2:] + "-later" }), say("go"))
			w.hear(acc)
			st := w.fold()
			turn := st.Turns()[0]
			if turn.Traceparent != came {
				t.Errorf("the log has %q of the client, want %q", turn.Traceparent, came)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, x := range st.Executions() {
				want := came
				if traced {
					want = mesh.Under(came, x.ID)
				}
				if x != turn && (x.Traceparent != want || got[x.Agent] != want) {
					t.Errorf("%s was called with %q, and the log has %q; want %q", x.Agent, got[x.Agent], x.Traceparent, want)
				}
			}
			if len(got) != 2 {
				t.Errorf("called were %v", got)
			}
		})
	}
}
