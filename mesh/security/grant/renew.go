package grant

import (
	"time"

	"agentmesh/mesh"
)

// Renew returns a grant for an execution that the parent's execution opened
// before, at started, and that goes on after it waited for the user. It is the
// one that [Narrow] makes of the execution as it was opened, with the same
// refusals, but for its time: that begins anew, is as long as the execution had
// at first, and ends with the parent's grant at the latest.
func Renew(parent *mesh.Grant, child mesh.Execution, started, now time.Time) (mesh.Grant, error) {
	if !child.Deadline.IsZero() {
		child.Deadline = now.Add(max(child.Deadline.Sub(started), time.Second))
	}
	g, err := Narrow(parent, child, child.Agent, child.Skills, now)
	return g, mesh.Wrap("grant.Renew", err)
}
