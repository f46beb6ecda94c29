package turn

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/text"
)

// wayOut adds to a status in which the turn waits for its user, with an agent that it was
// handed over to, how that agent is left: for programs in the message's metadata, whatever
// the client speaks, and for people as its last paragraph, unless the question has no room for
// one. An agent whose card has words for it says so itself, if it is one that is trusted: nobody
// is kept by what a card says.
func (d *driver) wayOut(l *leg, moved mesh.TaskMoved) mesh.TaskMoved {
	if l.exec.Kind != mesh.KindHandoff || !mesh.Interrupted(moved.State) {
		return moved
	}
	own := registry.Params(l.entry.Card).ExitWords
	m := proto.CloneOf(moved.Message)
	if m == nil {
		m = mesh.Say("")
	}
	words := append([]string{mesh.ExitWord}, own...)
	if (len(own) == 0 || !l.entry.Trusted) && proto.Size(m) <= maxLeg {
		say(m, text.WayOut(words...))
	}
	list := &structpb.ListValue{}
	for _, w := range words {
		list.Values = append(list.Values, structpb.NewStringValue(w))
	}
	m.Metadata = a2a.SetExtension(m.Metadata, map[string]*structpb.Value{a2a.KeyExitWords: structpb.NewListValue(list)})
	moved.Message = m
	return moved
}

// say adds a paragraph to the message's last text.
func say(m *a2apb.Message, words string) {
	if n := len(m.Parts); n > 0 {
		if last, ok := m.Parts[n-1].GetContent().(*a2apb.Part_Text); ok {
			if last.Text != "" {
				last.Text += "\n\n"
			}
			last.Text += words
			return
		}
	}
	m.Parts = append(m.Parts, &a2apb.Part{Content: &a2apb.Part_Text{Text: words}})
}
