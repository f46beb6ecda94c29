package thread

import (
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
)

// An assembly joins the pieces of artifacts. The zero assembly has none.
type assembly struct{ whole []*whole }

// whole is an artifact under assembly. A part whose seam is set continues the
// part before it: they are the end and the beginning of two streamed pieces.
type whole struct {
	*a2apb.Artifact
	seam []bool
}

// add joins a piece to what is there; an unknown id begins an artifact, whether the piece
// continues one or not.
func (a *assembly) add(piece *a2apb.Artifact, continues bool) {
	at := a.at(piece.GetArtifactId())
	switch {
	case at < 0:
		a.whole = append(a.whole, newWhole(piece))
	case !continues:
		a.whole[at] = newWhole(piece)
	default:
		a.whole[at].add(piece)
	}
}

// drop takes out the artifact of that id.
func (a *assembly) drop(id string) {
	if at := a.at(id); at >= 0 {
		a.whole = slices.Delete(a.whole, at, at+1)
	}
}

func (a *assembly) at(id string) int {
	return slices.IndexFunc(a.whole, func(w *whole) bool { return w.ArtifactId == id })
}

// artifacts are those that there are, with the text of streamed pieces in one part. They are
// the caller's, what they point to is not.
func (a *assembly) artifacts() (all []*a2apb.Artifact) {
	for _, w := range a.whole {
		all = append(all, w.joined())
	}
	return all
}

// newWhole copies what add changes; parts are shared.
func newWhole(a *a2apb.Artifact) *whole {
	w := &whole{seam: make([]bool, len(a.GetParts())), Artifact: &a2apb.Artifact{
		ArtifactId: a.GetArtifactId(), Name: a.GetName(), Description: a.GetDescription(),
		Parts: slices.Clone(a.GetParts()), Extensions: a.GetExtensions(),
	}}
	if a.GetMetadata() != nil {
		w.Metadata = proto.CloneOf(a.Metadata)
	}
	return w
}

func (w *whole) add(piece *a2apb.Artifact) {
	for i, p := range piece.GetParts() {
		n := len(w.Parts)
		w.seam = append(w.seam, i == 0 && n > 0 && plainText(p) && plainText(w.Parts[n-1]))
		w.Parts = append(w.Parts, p)
	}
	for k, v := range piece.GetMetadata().GetFields() {
		if w.Metadata == nil {
			w.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		}
		w.Metadata.Fields[k] = v
	}
}

// joined returns the artifact with the text of streamed pieces in one part.
func (w *whole) joined() *a2apb.Artifact {
	a := newWhole(w.Artifact).Artifact
	a.Parts = a.Parts[:0]
	for i := 0; i < len(w.Parts); {
		end := i + 1
		for end < len(w.Parts) && w.seam[end] {
			end++
		}
		if end == i+1 {
			a.Parts = append(a.Parts, w.Parts[i])
		} else {
			var text strings.Builder
			for _, p := range w.Parts[i:end] {
				text.WriteString(p.GetText())
			}
			a.Parts = append(a.Parts, &a2apb.Part{Content: &a2apb.Part_Text{Text: text.String()}})
		}
		i = end
	}
	return a
}

// plainText reports whether a part is text and nothing else.
func plainText(p *a2apb.Part) bool {
	_, ok := p.GetContent().(*a2apb.Part_Text)
	return ok && p.Metadata == nil && p.Filename == "" && p.MediaType == "" && len(p.ProtoReflect().GetUnknown()) == 0
}

// Given is what an execution gave out, as far as there is room for it. Use NewGiven.
type Given struct {
	assembly
	by    mesh.ExecutionID
	room  int
	sizes map[string]int // by the artifact's id, in bytes
	left  map[string]bool
}

// NewGiven returns what the execution gave out until now, which is nothing, with room for so
// many bytes. The thread's events from its begin on go to Apply, in order.
func NewGiven(by mesh.ExecutionID, room int) *Given {
	return &Given{by: by, room: room, sizes: map[string]int{}, left: map[string]bool{}}
}

// Apply adds the next event of the thread. An artifact for which there is no room is left out,
// whole.
func (g *Given) Apply(e *mesh.Event) {
	b, ok := e.Body.(mesh.ArtifactAppended)
	if !ok || e.Execution != g.by {
		return
	}
	id, size := b.Artifact.GetArtifactId(), proto.Size(b.Artifact)
	if !b.Append { // it begins, or begins anew where it was
		g.forget(id)
	}
	switch {
	case g.left[id]:
	case size > g.room:
		g.forget(id)
		g.drop(id)
		g.left[id] = true
	default:
		g.room, g.sizes[id] = g.room-size, g.sizes[id]+size
		g.add(b.Artifact, b.Append)
	}
}

// forget makes room for what takes the artifact's place.
func (g *Given) forget(id string) {
	g.room += g.sizes[id]
	delete(g.sizes, id)
	delete(g.left, id)
}

// Artifacts are what was given, in the order in which they were begun, and how many are left
// out. They are the caller's, what they point to is not.
func (g *Given) Artifacts() (all []*a2apb.Artifact, left int) { return g.artifacts(), len(g.left) }
