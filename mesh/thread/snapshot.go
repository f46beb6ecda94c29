package thread

import (
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agentmesh/mesh"
)

// A Snapshot assembles the A2A Task of a turn from the thread's events: its
// status, its artifacts with all pieces joined, and its history.
type Snapshot struct {
	view  *View
	task  *a2apb.Task
	whole []*whole
	seq   mesh.Seq
}

// whole is an artifact under assembly. A part whose seam is set continues the
// part before it: they are the end and the beginning of two streamed pieces.
type whole struct {
	*a2apb.Artifact
	seam []bool
}

// NewSnapshot returns the snapshot of a turn that begins with the event after
// which it was opened, as it is shown with the context id. The thread's events from then
// on go to Apply, in order.
func NewSnapshot(context string, turn mesh.ExecutionID) *Snapshot {
	return &Snapshot{
		view: &View{stream: stream{turn: turn}, ctx: context},
		task: &a2apb.Task{Id: string(turn), ContextId: context,
			Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_SUBMITTED}},
	}
}

// Apply adds the next event of the thread.
func (s *Snapshot) Apply(e *mesh.Event) {
	s.seq = e.Seq
	if e.Execution == s.view.turn {
		switch b := e.Body.(type) {
		case mesh.TaskOpened:
			s.task.Status.Timestamp = timestamppb.New(e.Time)
		case mesh.MessagePosted:
			if m := s.task.Status.Message; m != nil && mesh.Interrupted(s.task.Status.State) { // what the user answers to
				s.task.History = append(s.task.History, m)
				s.task.Status.Message = nil
			}
			s.task.History = append(s.task.History, s.view.address(b.Message))
		}
	}
	switch r := s.view.Apply(e).GetPayload().(type) {
	case *a2apb.StreamResponse_StatusUpdate:
		s.task.Status = r.StatusUpdate.Status
	case *a2apb.StreamResponse_ArtifactUpdate:
		s.artifact(r.ArtifactUpdate)
	}
}

// artifact joins a piece to what is there; an unknown id begins an artifact,
// whether the piece says append or not.
func (s *Snapshot) artifact(u *a2apb.TaskArtifactUpdateEvent) {
	at := slices.IndexFunc(s.whole, func(w *whole) bool { return w.ArtifactId == u.Artifact.GetArtifactId() })
	switch {
	case at < 0:
		s.whole = append(s.whole, newWhole(u.Artifact))
	case !u.Append:
		s.whole[at] = newWhole(u.Artifact)
	default:
		s.whole[at].add(u.Artifact)
	}
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

// InContext returns the task as it is shown with the context id. It shares what does not
// name it.
func InContext(t *a2apb.Task, context string) *a2apb.Task {
	if t.GetContextId() == context {
		return t
	}
	v := &View{stream: stream{turn: mesh.ExecutionID(t.GetId())}, ctx: context}
	out := &a2apb.Task{Id: t.Id, ContextId: context, Artifacts: t.Artifacts, Metadata: t.Metadata,
		Status: &a2apb.TaskStatus{State: t.Status.GetState(), Message: v.address(t.Status.GetMessage()), Timestamp: t.Status.GetTimestamp()}}
	for _, m := range t.History {
		out.History = append(out.History, v.address(m))
	}
	return out
}

// Task returns the task as it stands and the Seq of the last event that it
// includes. The task is the caller's, what it points to is not.
func (s *Snapshot) Task() (*a2apb.Task, mesh.Seq) {
	t := &a2apb.Task{Id: s.task.Id, ContextId: s.task.ContextId, Status: s.task.Status, History: slices.Clone(s.task.History)}
	for _, w := range s.whole {
		t.Artifacts = append(t.Artifacts, w.joined())
	}
	return t, s.seq
}
