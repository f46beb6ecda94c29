package call

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// reconcile returns what a task says beyond what was read before. Content that
// was rewritten in between begins anew; content that the task leaves out was
// read and stays. Words of the agent that only its history has are progress.
func (r *reader) reconcile(t *a2apb.Task) []mesh.Body {
	if !r.begun && !r.seen {
		return r.read(Response{StreamResponse: &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: t}}})
	}
	if !r.ours(t.GetId(), t.GetContextId()) {
		return nil
	}
	t = r.identified(t)
	r.begun, r.seen = true, true
	var out []mesh.Body
	st := t.GetStatus()
	for _, m := range t.GetHistory() {
		id := m.GetMessageId()
		if m.GetRole() != a2apb.Role_ROLE_AGENT || id == "" || r.said[id] || id == st.GetMessage().GetMessageId() {
			continue
		}
		r.said[id] = true
		out = append(out, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Message: m})
	}
	for _, a := range t.GetArtifacts() {
		out = append(out, r.missing(a, mesh.Terminal(st.GetState()))...)
		r.known[a.GetArtifactId()] = true
	}
	if r.moved(st) {
		r.rests = nil
		out = append(out, r.move(st, mesh.TaskMoved{})...)
	}
	return r.take(out)
}

// moved reports whether the status is another one than the last that was read.
func (r *reader) moved(st *a2apb.TaskStatus) bool {
	m, waits := st.GetMessage(), st.GetState() == a2apb.TaskState_TASK_STATE_AUTH_REQUIRED
	switch {
	case m != nil && !r.said[m.GetMessageId()], waits != r.auth:
		return true
	}
	return !waits && (mesh.Terminal(st.GetState()) || mesh.Interrupted(st.GetState()))
}

// missing returns what was not taken of the artifact, a part at a time: all of
// it may be more than one event holds.
func (r *reader) missing(a *a2apb.Artifact, last bool) []mesh.Body {
	parts, more := a.GetParts(), false
	if was := r.taken[a.GetArtifactId()]; was != nil {
		if parts, more = was.rest(parts); len(parts) == 0 {
			return nil
		}
	}
	out := make([]mesh.Body, 0, len(parts))
	for i, p := range parts {
		piece := &a2apb.Artifact{ArtifactId: a.GetArtifactId(), Name: a.GetName(), Description: a.GetDescription(),
			Metadata: a.GetMetadata(), Extensions: a.GetExtensions(), Parts: []*a2apb.Part{p}}
		out = append(out, mesh.ArtifactAppended{Artifact: piece, Append: more || i > 0, LastChunk: last && i == len(parts)-1})
	}
	return out
}

// grown returns what the artifact has beyond what was taken, if it goes on from that:
// within a stream, what is told in pieces counts.
func (r *reader) grown(a *a2apb.Artifact, last bool) []mesh.Body {
	was := r.taken[a.GetArtifactId()]
	if was == nil {
		return nil
	}
	if _, more := was.rest(a.GetParts()); !more {
		return nil
	}
	return r.missing(a, last)
}

// count adds content to what was taken of an artifact.
func (r *reader) count(a *a2apb.Artifact, more bool) {
	t := r.taken[a.GetArtifactId()]
	if t == nil || !more {
		t = newTally()
		r.taken[a.GetArtifactId()] = t
	}
	for _, p := range a.GetParts() {
		t.add(content(p))
	}
}

// A tally tells whether content goes on from what was counted, without keeping
// it. Text counts by its bytes, however it is cut into parts.
type tally struct {
	hash  hash.Hash
	bytes int
}

func newTally() *tally { return &tally{hash: sha256.New()} }

func (t *tally) add(b []byte) {
	_, _ = t.hash.Write(b) // never fails
	t.bytes += len(b)
}

// content is how a part counts.
func content(p *a2apb.Part) []byte {
	if plain(p) {
		return []byte(p.GetText())
	}
	// A part cannot fail to be marshaled that was unmarshaled before.
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	return append(binary.AppendUvarint([]byte{0}, uint64(len(b))), b...)
}

func plain(p *a2apb.Part) bool {
	_, text := p.GetContent().(*a2apb.Part_Text)
	return text && p.GetFilename() == "" && len(p.GetMetadata().GetFields()) == 0
}

// rest returns what the parts have beyond what was counted, and true; all of
// them and false if they do not begin with that; and none if they have less.
func (t *tally) rest(parts []*a2apb.Part) (rest []*a2apb.Part, more bool) {
	seen := newTally()
	for i, p := range parts {
		b := content(p)
		left := t.bytes - seen.bytes
		switch {
		case left == 0:
			return t.follows(seen, parts, parts[i:])
		case len(b) <= left:
			seen.add(b)
		case !plain(p):
			return parts, false
		default:
			seen.add(b[:left])
			tail := proto.CloneOf(p)
			tail.Content = &a2apb.Part_Text{Text: string(b[left:])}
			return t.follows(seen, parts, append([]*a2apb.Part{tail}, parts[i+1:]...))
		}
	}
	if seen.bytes < t.bytes {
		return nil, true
	}
	return t.follows(seen, parts, nil)
}

func (t *tally) follows(seen *tally, all, rest []*a2apb.Part) ([]*a2apb.Part, bool) {
	if !bytes.Equal(t.hash.Sum(nil), seen.hash.Sum(nil)) {
		return all, false
	}
	return rest, true
}
