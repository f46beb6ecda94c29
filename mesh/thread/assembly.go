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

// whole is an artifact under assembly. Where text was streamed in pieces of which the last part
// is made, that is in text, and the part is settled with what follows.
type whole struct {
	*a2apb.Artifact
	text strings.Builder
	size int // in bytes, as it is shown, or a few less
}

// add joins a piece to what is there; an unknown id begins an artifact, whether the piece
// continues one or not. It returns by how many bytes there is more than before, which may be less
// than none.
func (a *assembly) add(piece *a2apb.Artifact, continues bool) (more int) {
	at := a.at(piece.GetArtifactId())
	switch {
	case at < 0:
		w := newWhole(piece)
		a.whole = append(a.whole, w)
		return w.size
	case !continues:
		w := newWhole(piece)
		more, a.whole[at] = w.size-a.whole[at].size, w
		return more
	}
	w := a.whole[at]
	more = -w.size
	w.add(piece)
	return more + w.size
}

// drop takes out the artifact of that id, and returns how many bytes it had.
func (a *assembly) drop(id string) (bytes int) {
	if at := a.at(id); at >= 0 {
		bytes = a.whole[at].size
		a.whole = slices.Delete(a.whole, at, at+1)
	}
	return bytes
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
	w := &whole{Artifact: copyArtifact(a)}
	w.size = proto.Size(w.Artifact)
	return w
}

func copyArtifact(a *a2apb.Artifact) *a2apb.Artifact {
	c := &a2apb.Artifact{
		ArtifactId: a.GetArtifactId(), Name: a.GetName(), Description: a.GetDescription(),
		Parts: slices.Clone(a.GetParts()), Extensions: a.GetExtensions(),
	}
	if a.GetMetadata() != nil {
		c.Metadata = proto.CloneOf(a.Metadata)
	}
	return c
}

func (w *whole) add(piece *a2apb.Artifact) {
	for i, p := range piece.GetParts() {
		if n := len(w.Parts); i == 0 && n > 0 && plainText(p) && plainText(w.Parts[n-1]) {
			w.join(p.GetText())
			continue
		}
		w.settle()
		w.Parts = append(w.Parts, p)
		w.size += proto.Size(p) + 2 // with its tag and length, at least
	}
	for k, v := range piece.GetMetadata().GetFields() {
		if w.Metadata == nil {
			w.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		}
		w.size += fieldSize(k, v)
		if was, is := w.Metadata.Fields[k]; is {
			w.size -= fieldSize(k, was)
		}
		w.Metadata.Fields[k] = v
	}
}

// join goes on with the text of the last part.
func (w *whole) join(text string) {
	if w.text.Len() == 0 {
		w.text.WriteString(w.Parts[len(w.Parts)-1].GetText())
	}
	w.text.WriteString(text)
	w.size += len(text)
}

// settle has the last part have all of its text.
func (w *whole) settle() {
	if w.text.Len() > 0 {
		w.Parts[len(w.Parts)-1] = textPart(w.text.String())
		w.text.Reset()
	}
}

// joined returns the artifact with the text of streamed pieces in one part.
func (w *whole) joined() *a2apb.Artifact {
	a := copyArtifact(w.Artifact)
	if w.text.Len() > 0 {
		a.Parts[len(a.Parts)-1] = textPart(w.text.String())
	}
	return a
}

func textPart(text string) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Text{Text: text}}
}

// fieldSize is how many bytes of a struct the field has.
func fieldSize(name string, v *structpb.Value) int {
	return proto.Size(&structpb.Struct{Fields: map[string]*structpb.Value{name: v}})
}

// plainText reports whether a part is text and nothing else.
func plainText(p *a2apb.Part) bool {
	_, ok := p.GetContent().(*a2apb.Part_Text)
	return ok && p.Metadata == nil && p.Filename == "" && p.MediaType == "" && len(p.ProtoReflect().GetUnknown()) == 0
}

// Given is what an execution gave out, as far as there is room for it. Use NewGiven.
type Given struct {
	assembly
	by   mesh.ExecutionID
	room int
	left map[string]bool // by the artifact's id
}

// NewGiven returns what the execution gave out until now, which is nothing, with room for so
// many bytes. The thread's events from its begin on go to Apply, in order.
func NewGiven(by mesh.ExecutionID, room int) *Given {
	return &Given{by: by, room: room, left: map[string]bool{}}
}

// Apply adds the next event of the thread. An artifact for which there is no room is left out,
// whole.
func (g *Given) Apply(e *mesh.Event) {
	b, ok := e.Body.(mesh.ArtifactAppended)
	if !ok || e.Execution != g.by {
		return
	}
	id := b.Artifact.GetArtifactId()
	if !b.Append { // it begins, or begins anew where it was
		delete(g.left, id)
	}
	if g.left[id] {
		return
	}
	if g.room -= g.add(b.Artifact, b.Append); g.room < 0 {
		g.room += g.drop(id)
		g.left[id] = true
	}
}

// Artifacts are what was given, in the order in which they were begun, and how many are left
// out. They are the caller's, what they point to is not.
func (g *Given) Artifacts() (all []*a2apb.Artifact, left int) { return g.artifacts(), len(g.left) }
