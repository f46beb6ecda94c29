package thread

import (
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// MaxMedia is how many events with pictures and files of the conversation a State knows.
const MaxMedia = 20

// MediaOf are the pictures and files that somebody says with the event, those with bytes or
// a URL, as the parts that they are. They are shared with the event.
func MediaOf(e *mesh.Event) []*a2apb.Part {
	var parts, out []*a2apb.Part
	switch b := e.Body.(type) {
	case mesh.MessagePosted:
		parts = b.Message.GetParts()
	case mesh.ArtifactAppended:
		parts = b.Artifact.GetParts()
	case mesh.TaskMoved:
		parts = b.Message.GetParts()
	}
	for _, p := range parts {
		switch p.GetContent().(type) {
		case *a2apb.Part_Raw, *a2apb.Part_Url:
			out = append(out, p)
		}
	}
	return out
}

// A medium is an event with pictures or files, of the artifact if it is a piece of one.
type medium struct {
	seq       mesh.Seq
	execution mesh.ExecutionID
	artifact  *string
}

// Media returns the Seqs of the last events, at most [MaxMedia], oldest first, with which the
// users sent pictures or files or were shown some: see [MediaOf].
func (s *State) Media() []mesh.Seq {
	var out []mesh.Seq
	for _, m := range s.media {
		out = append(out, m.seq)
	}
	return out
}

// depict notes an event with pictures or files; an artifact that begins anew has none of those
// that it had.
func (s *State) depict(e *mesh.Event) {
	m := medium{seq: e.Seq, execution: e.Execution}
	if b, ok := e.Body.(mesh.ArtifactAppended); ok {
		id := b.Artifact.GetArtifactId()
		m.artifact = &id
		if !b.Append {
			s.media = slices.DeleteFunc(s.media, func(o medium) bool {
				return o.artifact != nil && *o.artifact == id && o.execution == e.Execution
			})
		}
	}
	if len(MediaOf(e)) == 0 || !s.reaches(e) {
		return
	}
	if len(s.media) == MaxMedia {
		s.media = slices.Delete(s.media, 0, 1)
	}
	s.media = append(s.media, m)
}

// reaches reports whether the users sent what the event says, or read it in their stream: of
// what an agent says of its state, that it works; the rest the turn says.
func (s *State) reaches(e *mesh.Event) bool {
	if _, posted := e.Body.(mesh.MessagePosted); posted || s.Turn(e.Execution) != nil {
		return true
	}
	x := s.execs[e.Execution]
	if x == nil {
		return false
	}
	t := s.Turn(x.Parent)
	b, moved := e.Body.(mesh.TaskMoved)
	return t != nil && t.Leg() != nil && t.Leg().Execution == x.ID && (!moved || b.State == a2apb.TaskState_TASK_STATE_WORKING)
}

// Files are the pictures and files that came with what was said, as [MediaOf] has them.
func (l *Line) Files() []*a2apb.Part {
	out := slices.Clone(l.files)
	for _, a := range l.texts {
		out = append(out, a.files...)
	}
	return out
}
