package meshclient_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/agenttest"
)

// Agents that begin while another append is on its way are appended together; each order has
// its own answer, also where one is refused or whoever ordered it has gone.
func TestAgentsThatBeginTogetherAreOneAppend(t *testing.T) {
	const agents = 20
	for name, tt := range map[string]struct {
		refuse   string // the agent that the node does not take
		leave    int    // how many give up before they are sent
		requests int    // 0 for any number
	}{
		"all":            {requests: 2},
		"one is refused": {refuse: "a7"},
		"some give up":   {leave: agents / 2},
	} {
		t.Run(name, func(t *testing.T) {
			n, g := agenttest.NewNode(t), agenttest.NewGrant()
			held, goOn := make(chan struct{}), make(chan struct{})
			n.Refuse = func(e *meshv1.Event) error {
				if e.GetStateNoted() != nil {
					close(held)
					<-goOn
				}
				if name := e.GetDispatchIssued().GetChild().GetAgent(); name != "" && name == tt.refuse {
					return mesh.Errorf(mesh.Exhausted, "node", "no room")
				}
				return nil
			}
			m := n.Client(t, g)
			var all sync.WaitGroup
			all.Go(func() {
				if err := m.Note(t.Context(), []byte("{}")); err != nil {
					t.Error(err)
				}
			})
			<-held
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			var errs [agents]error
			for i := range agents {
				all.Go(func() {
					under := t.Context()
					if i < tt.leave {
						under = ctx
					}
					agent, child := fmt.Sprint("a", i), mesh.NewExecutionID(agenttest.Thread)
					issued, err := m.Record(under, agenttest.Dispatch("", child, agent))
					if errs[i] = err; err == nil && issued[child].Ticket != "ticket for "+agent {
						t.Errorf("%s is called by %+v", agent, issued[child])
					}
				})
			}
			for m.Queued() < agents {
				runtime.Gosched()
			}
			leave()
			close(goOn)
			all.Wait()
			for i, err := range errs {
				switch {
				case fmt.Sprint("a", i) == tt.refuse:
					if !mesh.IsCode(err, mesh.Exhausted) {
						t.Errorf("who is refused gets %v", err)
					}
				case err != nil && (i >= tt.leave || !errors.Is(err, context.Canceled) && !mesh.IsCode(err, mesh.Canceled)):
					t.Errorf("agent %d: %v", i, err)
				}
			}
			if m.Queued() != 0 || tt.requests != 0 && n.Appended() != tt.requests {
				t.Errorf("%d requests were made, and %d are left", n.Appended(), m.Queued())
			}
			began := map[string]int{}
			for _, b := range n.Bodies(t, g.Execution) {
				if d, ok := b.(mesh.DispatchIssued); ok {
					began[d.Child.Agent]++
				}
			}
			for i, err := range errs {
				if n := began[fmt.Sprint("a", i)]; n > 1 || n == 0 && err == nil {
					t.Errorf("agent %d is %d times in the log: %v", i, n, err)
				}
			}
		})
	}
}
