package thread

import (
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// An Utterance is one thing that was said to or by the user of a thread.
type Utterance struct {
	Role  string // "user" or "agent"
	Agent string // who said it, for agents
	Text  string
	Time  time.Time
}

// Said returns the conversation in the events, oldest first: the user's
// messages, the text that agents put into the user's stream, and what they
// asked. The events may begin anywhere in the thread; an agent whose leg began
// before them is known by the actor.
func Said(events []*mesh.Event) []Utterance {
	var out []Utterance
	hidden := map[mesh.ExecutionID]bool{} // not, or no longer, in the user's stream
	legs := map[mesh.ExecutionID]bool{}
	for _, e := range events {
		agent := strings.TrimPrefix(e.Actor, "agent:")
		switch b := e.Body.(type) {
		case mesh.MessagePosted:
			out = append(out, Utterance{Role: "user", Text: partsText(b.Message.GetParts()), Time: e.Time})
		case mesh.DispatchIssued: // the node gives the stream, agents ask each other
			legs[b.Child.ID] = e.Actor == "node"
			hidden[b.Child.ID] = e.Actor != "node"
		case mesh.HandoffStarted:
			hidden[e.Execution] = true
		case mesh.ArtifactAppended:
			if hidden[e.Execution] {
				continue
			}
			text := partsText(b.Artifact.GetParts())
			if n := len(out) - 1; b.Append && n >= 0 && out[n].Role == "agent" && out[n].Agent == agent {
				out[n].Text += text
			} else if text != "" {
				out = append(out, Utterance{Role: "agent", Agent: agent, Text: text, Time: e.Time})
			}
		case mesh.TaskMoved:
			if legs[e.Execution] && mesh.Interrupted(b.State) && b.Message != nil {
				out = append(out, Utterance{Role: "agent", Agent: agent, Text: partsText(b.Message.Parts), Time: e.Time})
			}
		}
	}
	return out
}

func partsText(parts []*a2apb.Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.GetText())
	}
	return b.String()
}
