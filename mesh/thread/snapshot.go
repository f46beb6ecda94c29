package thread

import (
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agentmesh/mesh"
)

// A Snapshot assembles the A2A Task of a turn from the thread's events: its
// status, its artifacts with all pieces joined, and its history.
type Snapshot struct {
	view  *View
	task  *a2apb.Task
	whole assembly
	seq   mesh.Seq

	bounded, full bool
	room          int // for more of artifacts, in bytes, if it is bounded
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
		if s.full {
			return
		}
		more := s.whole.add(r.ArtifactUpdate.Artifact, r.ArtifactUpdate.Append)
		if s.bounded {
			s.room -= more
			s.full = s.room <= 0
		}
	}
}

// Within has the snapshot put artifacts together until they have as many bytes, as they are
// shown, as there is room for: what is full is never less than that. It is called before Apply, and returns the snapshot.
func (s *Snapshot) Within(room int) *Snapshot {
	s.bounded, s.room, s.full = true, room, room <= 0
	return s
}

// Full reports whether the snapshot takes no more of artifacts: then no event is of use that is
// output alone.
func (s *Snapshot) Full() bool { return s.full }

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

// Task returns the task as it stands, marked if it was full, and the Seq of the last event that it
// includes. The task is the caller's, what it points to is not.
func (s *Snapshot) Task() (*a2apb.Task, mesh.Seq) {
	t := &a2apb.Task{Id: s.task.Id, ContextId: s.task.ContextId, Status: s.task.Status, History: slices.Clone(s.task.History),
		Artifacts: s.whole.artifacts()}
	if s.full && len(t.Artifacts) > 0 {
		t.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{mesh.KeyTruncated: structpb.NewStructValue(&structpb.Struct{})}}
	}
	return t, s.seq
}
