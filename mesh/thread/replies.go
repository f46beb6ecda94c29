package thread

import (
	"slices"

	"agentmesh/mesh"
)

// A Reply is one whole reply of an execution's model, and what came of its calls.
type Reply struct {
	mesh.ModelReplied
	Seq     mesh.Seq
	Results map[string]Result // by the id of the call; calls without one have not ended
	// Told are the messages by which the model was told, after the results and before
	// its next reply, what came of agents.
	Told []Delivery
	// Read are the instructions that the model read after them.
	Read []Instruction
}

// A Result is what a call in a Reply came to: as a skill returned it or, of what
// ran no skill, as the model was told.
type Result struct {
	Text     string
	Failed   bool
	Cause    mesh.Cause // why there is no other result, of tools
	Skill    bool
	Metadata string // what the skill says for programs, a JSON object, or ""
}

// A Delivery is a message that tells a model what came of agents, or what they need.
type Delivery struct {
	mesh.ResultsDelivered
	// Needs has what those of the executions asked that were not over: they waited for
	// help.
	Needs map[mesh.ExecutionID]string
}

// Waits reports whether the reply asks the user, or calls of it have not ended.
func (r *Reply) Waits() bool { return r.Finish == mesh.FinishAsk || len(r.Results) < len(r.Tools) }

// replies are those of one execution, in order.
type replies []*Reply

// apply adds the next event of the execution, and returns the reply if it is one.
func (rs *replies) apply(e *mesh.Event) *Reply {
	switch b := e.Body.(type) {
	case mesh.ModelReplied:
		r := &Reply{ModelReplied: b, Seq: e.Seq}
		*rs = append(*rs, r)
		return r
	case mesh.SkillReturned:
		rs.settle(b.Call, Result{Text: b.Content, Failed: b.Failed, Skill: true, Metadata: b.Metadata})
	case mesh.ResultsDelivered:
		if n := len(*rs); n > 0 {
			last := (*rs)[n-1]
			last.Told = append(last.Told, Delivery{ResultsDelivered: b})
		}
	case mesh.ToolReturned:
		rs.settle(b.Call, Result{Text: b.Content, Failed: b.Failed, Cause: b.Cause})
	}
	return nil
}

// settle notes what a call came to, at the last reply that made a call of that id
// and by the first word on it: what a skill returned comes before what was told of
// it.
func (rs *replies) settle(call string, result Result) {
	for _, r := range slices.Backward(*rs) {
		if !slices.ContainsFunc(r.Tools, func(u mesh.ToolUse) bool { return u.ID == call }) {
			continue
		}
		if r.Results == nil {
			r.Results = map[string]Result{}
		}
		if _, twice := r.Results[call]; !twice {
			r.Results[call] = result
		}
		return
	}
}

func (rs *replies) waits() bool { return len(*rs) > 0 && (*rs)[len(*rs)-1].Waits() }
