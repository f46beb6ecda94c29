package admission

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

// WithOutput bounds what the log takes of one execution: its own events, and the output that
// those who dispatched it log of it. The default is the zero value, which has all the defaults.
func WithOutput(o limit.Output) Option { return func(c *Controller) { c.output = o } }

// fits checks that there is room for the event of the execution, which is x if the state has
// it, beside what the log has of it, what is on its way there, and what the request adds.
func (w *ruling) fits(i int, e *mesh.Event, x *thread.Execution) error {
	e.Size = proto.Size(eventpb.EventToProto(e)) // about what its record will have
	has, agent := w.adds[e.Execution].Plus(w.away.adds[e.Execution]), w.children[e.Execution].Agent
	if x != nil {
		has, agent = has.Plus(x.Logged), x.Agent
	}
	most := w.by.output.For(agent)
	if ends(e) {
		most = most.Ends()
	}
	trip := most.Check(has, e.Volume())
	if trip == nil && !ends(e) {
		trip = w.by.quotas.Room(w.grant.Tenant, int64(e.Size))
	}
	if trip != nil {
		err := trip.Err(w.op)
		err.Field = fmt.Sprintf("events[%d]", i)
		return err
	}
	w.adds[e.Execution] = w.adds[e.Execution].Plus(e.Volume())
	return nil
}

// ends reports whether the event is the end of something that was begun.
func ends(e *mesh.Event) bool {
	switch b := e.Body.(type) {
	case mesh.SkillReturned, mesh.DispatchSettled, mesh.ResultsDelivered:
		return true
	case mesh.TaskMoved:
		return mesh.Terminal(b.State)
	}
	return false
}
