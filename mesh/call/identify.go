package call

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// What an agent sends without an id gets one here, on a copy: artifacts by their order,
// and messages by their content, so that the same one read twice is the same.

// identified returns the task with all ids that are the agent's to give.
func (r *reader) identified(t *a2apb.Task) *a2apb.Task {
	bare := func(a *a2apb.Artifact) bool { return a.GetArtifactId() == "" }
	if slices.ContainsFunc(t.GetArtifacts(), bare) || slices.ContainsFunc(t.GetHistory(), nameless) || nameless(t.GetStatus().GetMessage()) {
		t = &a2apb.Task{Id: t.GetId(), ContextId: t.GetContextId(), Status: withMessageID(t.GetStatus()), Metadata: t.GetMetadata(),
			Artifacts: slices.Clone(t.GetArtifacts()), History: slices.Clone(t.GetHistory())}
		n := 0
		for i, a := range t.Artifacts {
			if bare(a) {
				n++
				t.Artifacts[i] = withArtifactID(a, n)
			}
		}
		r.bare = max(r.bare, n)
		for i, m := range t.History {
			t.History[i] = withID(m)
		}
	}
	return t
}

// withArtifactID returns a copy of the artifact, which is the n-th without an id.
func withArtifactID(a *a2apb.Artifact, n int) *a2apb.Artifact {
	return &a2apb.Artifact{ArtifactId: "artifact-" + strconv.Itoa(n), Name: a.GetName(), Description: a.GetDescription(),
		Parts: a.GetParts(), Metadata: a.GetMetadata(), Extensions: a.GetExtensions()}
}

func nameless(m *a2apb.Message) bool {
	return m != nil && (m.GetMessageId() == "" || m.GetRole() == a2apb.Role_ROLE_UNSPECIFIED)
}

// withID returns the message with an id and a role.
func withID(m *a2apb.Message) *a2apb.Message {
	if !nameless(m) {
		return m
	}
	m = proto.CloneOf(m)
	if m.Role == a2apb.Role_ROLE_UNSPECIFIED {
		m.Role = a2apb.Role_ROLE_AGENT
	}
	if m.MessageId == "" {
		b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m) // it was unmarshaled before
		sum := sha256.Sum256(b)
		m.MessageId = hex.EncodeToString(sum[:8])
	}
	return m
}

// withMessageID returns the status with such a message.
func withMessageID(st *a2apb.TaskStatus) *a2apb.TaskStatus {
	if !nameless(st.GetMessage()) {
		return st
	}
	return &a2apb.TaskStatus{State: st.GetState(), Message: withID(st.GetMessage()), Timestamp: st.GetTimestamp()}
}
