package a2a

import (
	"strings"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// TextPart returns a part that is text.
func TextPart(text string) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Text{Text: text}}
}

// DataPart returns a part that is a JSON value.
func DataPart(v *structpb.Value) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Data{Data: v}}
}

// NewMessage returns a message of one text part with a new message id.
func NewMessage(role a2apb.Role, text string) *a2apb.Message {
	return &a2apb.Message{
		MessageId: mesh.NewEventID(),
		Role:      role,
		Parts:     []*a2apb.Part{TextPart(text)},
	}
}

// TextOf is [mesh.TextOf].
func TextOf(m *a2apb.Message) string { return mesh.TextOf(m) }

// ArtifactText returns the artifact's text: its text parts put together as
// they are, since the parts of a streamed artifact are pieces of one text.
func ArtifactText(a *a2apb.Artifact) string {
	var b strings.Builder
	for _, p := range a.GetParts() {
		b.WriteString(p.GetText())
	}
	return b.String()
}

// TaskText returns the text of the task's artifacts, one after the other on
// lines of their own.
func TaskText(t *a2apb.Task) string {
	var texts []string
	for _, a := range t.GetArtifacts() {
		if s := ArtifactText(a); s != "" {
			texts = append(texts, s)
		}
	}
	return strings.Join(texts, "\n")
}

// StateOf returns the state that the update moves the task to; false for
// artifacts.
func StateOf(r *a2apb.StreamResponse) (mesh.TaskState, bool) {
	switch p := r.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		return p.Task.GetStatus().GetState(), true
	case *a2apb.StreamResponse_StatusUpdate:
		return p.StatusUpdate.GetStatus().GetState(), true
	}
	return a2apb.TaskState_TASK_STATE_UNSPECIFIED, false
}
