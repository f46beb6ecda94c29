package thread

import (
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// Continues reports whether the event is more of a piece of output that the log has before.
func Continues(e *mesh.Event) bool {
	b, ok := e.Body.(mesh.ArtifactAppended)
	return ok && b.Append
}

// An Output gathers what is said in a piece of output, which comes in many events. Use
// NewOutput.
type Output struct {
	// Said is as in [Deed], and Open says that its last text may go on.
	Said []string
	Open bool

	execution mesh.ExecutionID
	artifact  string
	bytes     int
}

// NewOutput returns the output that begins with the event, and whether there may be more of
// it; nil for an event that is none.
func NewOutput(e *mesh.Event) (o *Output, more bool) {
	b, ok := e.Body.(mesh.ArtifactAppended)
	if !ok {
		return nil, false
	}
	o = &Output{execution: e.Execution, artifact: b.Artifact.GetArtifactId()}
	o.take(b.Artifact.GetParts())
	return o, !b.LastChunk
}

// Bytes is how much it is.
func (o *Output) Bytes() int { return o.bytes }

// Add takes the next event of the thread, and reports whether there may be more.
func (o *Output) Add(e *mesh.Event) (more bool) {
	switch b := e.Body.(type) {
	case mesh.ArtifactAppended:
		if e.Execution != o.execution || b.Artifact.GetArtifactId() != o.artifact {
			return true
		}
		if !b.Append { // it begins anew
			return false
		}
		o.take(b.Artifact.GetParts())
		return !b.LastChunk
	case mesh.TaskMoved:
		return e.Execution != o.execution || !mesh.Terminal(b.State)
	case mesh.DispatchSettled:
		return b.Child != o.execution
	}
	return true
}

func (o *Output) take(parts []*a2apb.Part) {
	for _, p := range parts {
		text := partWords(p)
		_, isText := p.GetContent().(*a2apb.Part_Text)
		if o.bytes += len(text); isText && o.Open {
			o.Said[len(o.Said)-1] += text
		} else {
			o.Said = append(o.Said, text)
		}
		o.Open = isText
	}
}
