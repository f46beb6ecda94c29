package node

import (
	"cmp"

	"agentmesh/mesh/limit"
	"agentmesh/mesh/turn"
)

// Turns bounds the turns of a node.
type Turns struct {
	// Running is in how many conversations the node works on a turn at once: by default one
	// for each MiB of a quarter of the memory that the process may have, 16 to 1024; -1 for
	// no limit. Who waits for its user is not among them.
	Running int `yaml:"running"`
	// Queued is how many conversations may wait until there is room; default 64 for each of
	// Running, -1 for no limit. A message that would have one more wait is refused.
	Queued int `yaml:"queued"`
}

// Bounds of Turns.
const (
	maxTurns     = 100_000
	maxQueued    = 10_000_000
	turnMemory   = 1 << 20 // of a turn that is worked on, with its streams and agents: about twice what is measured
	turnShare    = 4       // the part of the memory that is for turns
	leastTurns   = 16
	mostTurns    = 1024 // that are derived: more are no faster
	usualTurns   = 256  // where it is not known how much memory there is
	queuedToTurn = 64   // so many wait for each that may be worked on
)

func (t Turns) check() error {
	if t.Running < limit.Unlimited || t.Running > maxTurns {
		return invalid("turns.running", "must be 1 to %d, and is %d; leave it out for what the memory allows, or make it -1 for no limit", maxTurns, t.Running)
	}
	if t.Queued < limit.Unlimited || t.Queued > maxQueued {
		return invalid("turns.queued", "must be 1 to %d, and is %d; leave it out for %d for each of turns.running, or make it -1 for no limit", maxQueued, t.Queued, queuedToTurn)
	}
	return nil
}

// places are in how many conversations turns are worked on at a time by a process that may
// have so many bytes; 0 is not known.
func (c *Config) places(memory int64) turn.Places {
	derived := usualTurns
	if memory > 0 {
		derived = int(min(max(memory/turnShare/turnMemory, leastTurns), mostTurns))
	}
	running, q := cmp.Or(c.Turns.Running, derived), c.quotas()
	queued := cmp.Or(c.Turns.Queued, max(running, 0)*queuedToTurn)
	return turn.Places{Running: max(running, 0), OfUser: int(max(q.User.Turns, 0)), OfTenant: int(max(q.Tenant.Turns, 0)), Waiting: max(queued, 0)}
}
