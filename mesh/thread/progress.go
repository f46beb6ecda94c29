package thread

import (
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
)

// Progress is how far a turn is: who is at work on it, and how many of the agents that
// were dispatched since the user's last message are done. Agents that only wait for those
// that they dispatched are not counted.
type Progress struct {
	State   mesh.TaskState
	Working []*Execution // at work, in order; the agent that answers, if it works alone
	Done    int
	Total   int
	Since   time.Time // of the user's last message
}

// Progress returns that of the turn.
func (s *State) Progress(turn *Execution) Progress {
	p := Progress{State: turn.State, Since: turn.Asked}
	if p.Since.IsZero() {
		p.Since = turn.Started
	}
	busy := map[mesh.ExecutionID]bool{}    // with somebody below at work
	parents := map[mesh.ExecutionID]bool{} // with somebody below
	for _, x := range s.order {
		parents[x.Parent] = true
		if x.Kind != mesh.KindTurn && x.Status() == StatusRunning {
			for up := range s.Up(x.Parent) {
				busy[up.ID] = true
			}
		}
	}
	for _, x := range s.order {
		if x.Kind == mesh.KindTurn || !s.below(x.ID, turn.ID) {
			continue
		}
		if x.Status() == StatusRunning && !busy[x.ID] {
			p.Working = append(p.Working, x)
		}
		if over := mesh.Terminal(x.State); s.Sub(x) && !parents[x.ID] && (!over || x.Opened > turn.LastPost()) {
			if p.Total++; over {
				p.Done++
			}
		}
	}
	return p
}

// Names are those of who is at work, as people know them.
func (p Progress) Names() []string {
	names := make([]string, len(p.Working))
	for i, x := range p.Working {
		if names[i] = x.Label; names[i] == "" {
			names[i] = x.Agent
		}
	}
	return names
}

// maxWorking bounds how many agents at work are named in [Progress.Data].
const maxWorking = 32

// Data is the progress as extension data, at the time.
func (p Progress) Data(now time.Time, slow bool) *structpb.Struct {
	working := &structpb.ListValue{}
	for _, x := range p.Working[:min(len(p.Working), maxWorking)] {
		working.Values = append(working.Values, structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"id": structpb.NewStringValue(string(x.ID)), "agent": structpb.NewStringValue(x.Agent), "label": structpb.NewStringValue(x.Label),
			"seconds": structpb.NewNumberValue(max(0, now.Sub(x.Started).Truncate(time.Second).Seconds()))}}))
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"working": structpb.NewListValue(working), "done": structpb.NewNumberValue(float64(p.Done)), "total": structpb.NewNumberValue(float64(p.Total)),
		"seconds": structpb.NewNumberValue(max(0, now.Sub(p.Since).Truncate(time.Second).Seconds())), "slow": structpb.NewBoolValue(slow),
	}}
}
