package thread

import (
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// A Link says where a blob of the thread is read, which is a file of that name, as clients of A2A are told; nil leaves what the
// log has.
type Link func(b mesh.Blob, filename string) string

// Task puts links into the task, whose artifacts and history are the caller's, what they point to
// is not.
func (at Link) Task(t *a2apb.Task) {
	if at == nil {
		return
	}
	for i, a := range t.GetArtifacts() {
		t.Artifacts[i] = at.artifact(a)
	}
	for i, m := range t.GetHistory() {
		t.History[i] = at.message(m)
	}
	if m := t.GetStatus().GetMessage(); m != nil {
		if linked := at.message(m); linked != m {
			t.Status = &a2apb.TaskStatus{State: t.Status.GetState(), Message: linked, Timestamp: t.Status.GetTimestamp()}
		}
	}
}

// update puts links into the update, which is the caller's alone, what it points to is not.
func (at Link) update(r *a2apb.StreamResponse) {
	if at == nil {
		return
	}
	switch p := r.GetPayload().(type) {
	case *a2apb.StreamResponse_ArtifactUpdate:
		p.ArtifactUpdate.Artifact = at.artifact(p.ArtifactUpdate.GetArtifact())
	case *a2apb.StreamResponse_StatusUpdate:
		if s := p.StatusUpdate.GetStatus(); s.GetMessage() != nil {
			s.Message = at.message(s.GetMessage())
		}
	}
}

func (at Link) artifact(a *a2apb.Artifact) *a2apb.Artifact {
	if parts, changed := mesh.Linked(a.GetParts(), at); changed {
		return mesh.ArtifactWith(a, parts)
	}
	return a
}

func (at Link) message(m *a2apb.Message) *a2apb.Message {
	if parts, changed := mesh.Linked(m.GetParts(), at); changed {
		return mesh.MessageWith(m, parts)
	}
	return m
}

// Sent is the message that the event has a user say, or an agent be asked with; nil for other
// events.
func Sent(e *mesh.Event) *a2apb.Message {
	switch b := e.Body.(type) {
	case mesh.MessagePosted:
		return b.Message
	case mesh.DispatchIssued:
		return b.Message
	}
	return nil
}
