package roster

import (
	"cmp"
	"time"

	"agentmesh/mesh/limit"
	"agentmesh/mesh/node"
)

// longest is the most that anything may take: nobody has a user's stream for longer.
const longest = 24 * time.Hour

// Time is how long the agent may take when another one dispatches it; 0 for what its
// dispatcher says. Who has others work has the time of all of them: a chain that of its
// stages, and a stage that of the agent that may take the longest, as often as its agents
// take turns, and of the synthesis.
func (r *Roster) Time(a *Agent) time.Duration {
	switch {
	case a.Timeout > 0:
		return a.Timeout
	case a.Type == node.TypeOrchestrator:
		return cmp.Or(a.MaxBudget, limit.DefaultDispatching) + limit.Concluding
	case a.Type != TypeChain:
		return 0
	}
	var sum time.Duration
	for _, s := range a.Stages {
		var most time.Duration
		for _, ref := range s.Agents {
			most = max(most, r.turn(ref.Agent))
		}
		turns := (len(s.Agents) + limit.DefaultConcurrent - 1) / limit.DefaultConcurrent
		if sum += most * time.Duration(turns); s.Synthesis != "" {
			sum += r.turn(s.Synthesis)
		}
		if sum >= longest {
			return longest
		}
	}
	return sum
}

// turn is how long an agent of a chain may take. Chains are in no circle: an agent that would
// close one is refused, and not among those of its stage.
func (r *Roster) turn(name string) time.Duration {
	if a := r.Get(name); a != nil {
		if t := r.Time(a); t > 0 {
			return t
		}
	}
	return limit.DefaultAgentTime // as package dispatch has it for agents of which nothing is known
}
