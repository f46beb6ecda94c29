package a2a

import (
	"maps"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// Values of KeyContinues: whether the message began the task, or answered what its agent
// had asked.
const (
	ContinuesFirst  = "first"
	ContinuesAnswer = "answer"
)

// Names of what our extension puts into metadata, below its URI.
const (
	KeySeq           = "seq"            // number: the update's cursor
	KeyHandoff       = "handoff"        // object: the handoff that begins here
	KeyHandoffReturn = "handoff_return" // object: the handoff that ended
	KeyHandoffParked = "handoff_parked" // object: the handoff whose session was parked, and of which nobody was told yet
	KeyUpdates       = "updates"        // number: artifact updates that the task has had
	KeyContinues     = "continues"      // string: the work on the message was cut off, and goes on: ContinuesFirst or ContinuesAnswer
	KeyReason        = "reason"         // string: why the task ended, as mesh.ReasonTimeout
	KeyLack          = "lack"           // object: the permission for want of which the task was refused, and the agent that requires it
	KeyStep          = "step"           // number: which step the agent is at
	KeySteps         = "steps"          // number: how many there are
	KeyState         = "state"          // string: the agent's own workflow state
	KeyProgress      = "progress"       // object: who is at work on the task, and how many are done; of a message, true asks for it
	KeyPlace         = "place"          // number: at which place the task waits until it is worked on
	KeyDetail        = "detail"         // bool, of a message: what agents below say is wanted too
	KeyExit          = "exit"           // bool, of a message: it leaves the agent that the conversation was handed over to
	KeyExitWords     = "exit_words"     // list, of the message of a status: what to say to leave who asks
	KeyResume        = "resume"         // object: a session that was left and can be gone on with
)

// Extension returns what metadata holds under our extension's URI, or nil.
// The result is part of md.
func Extension(md *structpb.Struct) *structpb.Struct {
	return md.GetFields()[mesh.ExtensionURI].GetStructValue()
}

// SetExtension returns metadata like md with the fields added below our
// extension's URI. It copies what it changes: md, which may be nil, stays.
func SetExtension(md *structpb.Struct, fields map[string]*structpb.Value) *structpb.Struct {
	old := Extension(md).GetFields()
	ext := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(old)+len(fields))}
	maps.Copy(ext.Fields, old)
	maps.Copy(ext.Fields, fields)
	return withField(md, mesh.ExtensionURI, structpb.NewStructValue(ext))
}

// withField returns metadata like md, which may be nil and stays, with the field.
func withField(md *structpb.Struct, name string, v *structpb.Value) *structpb.Struct {
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(md.GetFields())+1)}
	maps.Copy(out.Fields, md.GetFields())
	out.Fields[name] = v
	return out
}

// SetSeq returns metadata like md with the cursor below our extension's URI.
func SetSeq(md *structpb.Struct, seq mesh.Seq) *structpb.Struct {
	if md == nil { // as for every piece of a stream: copy nothing
		ext := &structpb.Struct{Fields: map[string]*structpb.Value{KeySeq: structpb.NewNumberValue(float64(seq))}}
		return &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(ext)}}
	}
	return SetExtension(md, map[string]*structpb.Value{KeySeq: structpb.NewNumberValue(float64(seq))})
}

// WithSeq returns the update with its cursor. It shares all else with r, which
// stays as it is.
func WithSeq(r *a2apb.StreamResponse, seq mesh.Seq) *a2apb.StreamResponse {
	u := r.GetArtifactUpdate()
	if u == nil {
		return r
	}
	return ArtifactResponse(&a2apb.TaskArtifactUpdateEvent{
		TaskId: u.TaskId, ContextId: u.ContextId, Artifact: u.Artifact,
		Append: u.Append, LastChunk: u.LastChunk, Metadata: SetSeq(u.Metadata, seq),
	})
}

// SeqOf returns the cursor in the update's metadata; false if there is none.
func SeqOf(r *a2apb.StreamResponse) (mesh.Seq, bool) {
	v, ok := Extension(MetadataOf(r)).GetFields()[KeySeq].GetKind().(*structpb.Value_NumberValue)
	if !ok {
		return 0, false
	}
	return mesh.Seq(v.NumberValue), true
}

// WithoutExtension returns metadata like md without what our extension put
// there; nil if nothing is left.
func WithoutExtension(md *structpb.Struct) *structpb.Struct {
	if _, ok := md.GetFields()[mesh.ExtensionURI]; !ok {
		return md
	}
	if len(md.GetFields()) == 1 {
		return nil
	}
	out := &structpb.Struct{Fields: maps.Clone(md.GetFields())}
	delete(out.Fields, mesh.ExtensionURI)
	return out
}

// MetadataOf returns the metadata of the task, message or update.
func MetadataOf(r *a2apb.StreamResponse) *structpb.Struct {
	switch p := r.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		return p.Task.GetMetadata()
	case *a2apb.StreamResponse_Message:
		return p.Message.GetMetadata()
	case *a2apb.StreamResponse_StatusUpdate:
		return p.StatusUpdate.GetMetadata()
	case *a2apb.StreamResponse_ArtifactUpdate:
		return p.ArtifactUpdate.GetMetadata()
	}
	return nil
}

// Plain returns the update without what our extension put there, for callers
// that did not activate it. It shares all else with r, which stays as it is.
func Plain(r *a2apb.StreamResponse) *a2apb.StreamResponse {
	md := MetadataOf(r)
	bare := WithoutExtension(md)
	if md == bare {
		return r
	}
	switch p := r.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		return TaskResponse(copyTask(p.Task, bare))
	case *a2apb.StreamResponse_StatusUpdate:
		u := p.StatusUpdate
		return StatusResponse(&a2apb.TaskStatusUpdateEvent{
			TaskId: u.TaskId, ContextId: u.ContextId, Status: u.Status, Metadata: bare,
		})
	case *a2apb.StreamResponse_ArtifactUpdate:
		u := p.ArtifactUpdate
		return ArtifactResponse(&a2apb.TaskArtifactUpdateEvent{
			TaskId: u.TaskId, ContextId: u.ContextId, Artifact: u.Artifact,
			Append: u.Append, LastChunk: u.LastChunk, Metadata: bare,
		})
	}
	return r
}

// TaskResponse wraps a task for a stream.
func TaskResponse(t *a2apb.Task) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: t}}
}

// StatusResponse wraps a status update for a stream.
func StatusResponse(u *a2apb.TaskStatusUpdateEvent) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: u}}
}

// ArtifactResponse wraps an artifact update for a stream.
func ArtifactResponse(u *a2apb.TaskArtifactUpdateEvent) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: u}}
}

func copyTask(t *a2apb.Task, md *structpb.Struct) *a2apb.Task {
	return &a2apb.Task{
		Id: t.Id, ContextId: t.ContextId, Status: t.Status,
		Artifacts: t.Artifacts, History: t.History, Metadata: md,
	}
}
