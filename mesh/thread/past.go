package thread

import (
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// A Past is what an execution that has the stream of its turn was told and said. The events
// from its own on go to Apply, in order. Use NewPast.
type Past struct {
	// Message is the one that it works on, with all that the user had said by then. First
	// says that it began with that, and has not asked since.
	Message *a2apb.Message
	First   bool
	// Said are its outputs, and its words of its state.
	Said []mesh.Body

	turn, own mesh.ExecutionID
	posts     []*a2apb.Message // of the user, that it did not have yet
}

// NewPast returns the past of an execution of the turn.
func NewPast(turn, own mesh.ExecutionID) *Past { return &Past{turn: turn, own: own, First: true} }

// Apply adds the next event.
func (p *Past) Apply(e *mesh.Event) {
	switch b := e.Body.(type) {
	case mesh.DispatchIssued:
		if b.Child.ID == p.own {
			p.Message, p.posts = b.Message, nil
		}
	case mesh.MessagePosted:
		if e.Execution == p.turn {
			p.posts = append(p.posts, b.Message)
		}
	case mesh.ArtifactAppended:
		if e.Execution == p.own {
			p.Said = append(p.Said, b)
		}
	case mesh.TaskMoved:
		switch {
		case e.Execution != p.own:
		case b.Reason == mesh.ReasonDelivered:
			p.deliver()
		case b.Message != nil:
			p.Said = append(p.Said, b)
		}
	}
}

// deliver makes the message one of what the user has said.
func (p *Past) deliver() {
	for i, posted := range p.posts {
		if i == 0 {
			p.Message, p.First = proto.CloneOf(posted), false
			continue
		}
		p.Message.MessageId = posted.MessageId
		p.Message.Parts = append(p.Message.Parts, posted.Parts...)
	}
	p.posts = nil
}
