package thread

import (
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// explain gives an execution that was canceled the reason for it, where whoever ended it
// did not know: that somebody asked for the end of it or of what it works for.
func (s *State) explain(x *Execution) {
	if x.State != a2apb.TaskState_TASK_STATE_CANCELED || x.Reason == mesh.ReasonHandedOff || x.Reason == mesh.ReasonAsked || x.Reason == mesh.ReasonDependency {
		return
	}
	if s.Ending(x) {
		x.Reason = mesh.ReasonCanceled
	}
}

// Ending reports whether somebody asked for the end of the execution, or of what it works for.
func (s *State) Ending(x *Execution) bool {
	for at := range s.Up(x.ID) {
		if at.Canceled {
			return true
		}
	}
	return false
}

// Dismissed reports whether somebody asked for the end of the execution, or of one above it,
// below its turn.
func (s *State) Dismissed(x *Execution) bool {
	for at := range s.Up(x.ID) {
		if at.Kind != mesh.KindTurn && at.Canceled {
			return true
		}
	}
	return false
}

// Sub reports whether an agent dispatched the execution: it is neither a turn nor has it
// the stream of one.
func (s *State) Sub(x *Execution) bool { return x.Kind != mesh.KindTurn && s.Turn(x.Parent) == nil }

// A Total is what an execution and all below it came to.
type Total struct {
	Usage      mesh.Usage
	SkillCalls int
	ToolCalls  int // of tools that are no skills
	Below      int // executions below it, at any depth
	Depth      int // how far below its turn it is; 0 for that itself
}

// Totals has those of all executions.
func (s *State) Totals() map[mesh.ExecutionID]Total {
	all := make(map[mesh.ExecutionID]Total, len(s.order))
	for _, x := range s.order { // parents come first
		t := Total{}
		if p, ok := all[x.Parent]; ok {
			t.Depth = p.Depth + 1
		}
		all[x.ID] = t
	}
	for _, x := range slices.Backward(s.order) {
		t := all[x.ID]
		t.Usage, t.SkillCalls, t.ToolCalls = t.Usage.Add(x.Usage), t.SkillCalls+x.SkillCalls, t.ToolCalls+x.ToolCalls
		all[x.ID] = t
		if p, ok := all[x.Parent]; ok {
			p.Usage, p.SkillCalls, p.ToolCalls = p.Usage.Add(t.Usage), p.SkillCalls+t.SkillCalls, p.ToolCalls+t.ToolCalls
			p.Below += t.Below + 1
			all[x.Parent] = p
		}
	}
	return all
}

// An Instruction is what an agent at work was told beside its task.
type Instruction struct {
	ID, By, Text string
	Seq          mesh.Seq
}

// MaxInstructions bounds what waits for an execution to be read.
const MaxInstructions = 16

// MaxTold bounds what an execution is told in all, so that one that is sent again is known
// however late that is.
const MaxTold = 1000

// instruct notes what the execution is told, or that it has read it.
func (x *Execution) instruct(e *mesh.Event, b mesh.InstructionPosted) {
	if b.Read {
		x.Instructions = slices.DeleteFunc(slices.Clone(x.Instructions), func(i Instruction) bool { return i.ID == b.ID }) // readers may hold the one before
		return
	}
	if len(x.Instructions) < MaxInstructions && len(x.Told) < MaxTold && !slices.Contains(x.Told, b.ID) {
		x.Instructions = append(x.Instructions[:len(x.Instructions):len(x.Instructions)], Instruction{ID: b.ID, By: b.By, Text: b.Text, Seq: e.Seq})
		x.Told = append(x.Told[:len(x.Told):len(x.Told)], b.ID)
	}
}
