package call

import (
	"strconv"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
)

// maxBody is how much of an event is the agent's, in bytes; the rest is ours.
const maxBody = mesh.MaxEvent - 4096

// reader turns the responses of one stream into event bodies.
type reader struct {
	req   Request
	task  string          // the agent's task id, once known
	known map[string]bool // artifact ids
	heard bool            // whether anything was read
	begun bool            // whether the task was seen in this stream
	seen  bool            // whether anything of the task was
	done  bool
	auth  bool              // the last state was that it waits for credentials
	waits mesh.TaskMoved    // the one that said so
	last  mesh.Body         // of what read returned
	rests *mesh.TaskMoved   // where the task stood before our message, if it waited
	taken map[string]*tally // by artifact id, what was taken of its content
	said  map[string]bool   // message ids
	bare  int               // artifacts without an id of their own
	stray *a2apb.TaskStatus // of the last response: that a task failed which is not ours
	// placed says that the agent's context is known. ids are those of its own that are
	// still to be told.
	placed bool
	ids    mesh.TaskMoved
}

func newReader(req Request) *reader {
	return &reader{req: req, task: req.RemoteTask, known: map[string]bool{}, taken: map[string]*tally{}, said: map[string]bool{}}
}

// read returns what a response says. Nothing follows what ends the stream.
func (r *reader) read(resp Response) []mesh.Body {
	r.heard, r.stray = true, nil
	return r.take(r.bodies(resp))
}

// failure is what a stream tells that is over and ended with the failure of a task that
// is not ours: the SDK for JavaScript makes up an id when an agent throws, and its
// GetTask says for ever that ours is at work.
func (r *reader) failure() []mesh.Body {
	if r.done || r.stray == nil {
		return nil
	}
	return r.take(r.move(r.stray, mesh.TaskMoved{}))
}

// take remembers what is returned to the caller, as far as it may be.
func (r *reader) take(out []mesh.Body) []mesh.Body {
	if r.ids.RemoteTask != "" || r.ids.RemoteContext != "" {
		out = r.introduce(out)
	}
	for i := range out {
		out[i] = believed(out[i])
		b := out[i]
		if _, n := mesh.BodySize(b); n > maxBody {
			r.done = true
			r.req.logger().Warn("agent sent more than an event can have", "agent", r.req.Agent, "bytes", n)
			return append(out[:i:i], failed(mesh.ReasonIllegal, text.AgentSentTooMuch(n, maxBody)))
		}
		switch b := b.(type) {
		case mesh.ArtifactAppended:
			r.count(b.Artifact, b.Append)
		case mesh.TaskMoved:
			r.said[b.Message.GetMessageId()] = true
		}
		r.last = b
	}
	return out
}

// introduce adds the agent's own ids to what it says, before anything that ends or waits.
func (r *reader) introduce(out []mesh.Body) []mesh.Body {
	ids := r.ids
	r.ids = mesh.TaskMoved{}
	if n := len(out); n > 0 {
		if m, ok := out[n-1].(mesh.TaskMoved); ok && m.State == a2apb.TaskState_TASK_STATE_WORKING {
			m.RemoteTask, m.RemoteContext = ids.RemoteTask, ids.RemoteContext
			out[n-1] = m
			return out
		}
	}
	ids.State = a2apb.TaskState_TASK_STATE_WORKING
	return append([]mesh.Body{ids}, out...)
}

func (r *reader) bodies(resp Response) []mesh.Body {
	switch p := resp.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		return r.readTask(r.identified(p.Task))
	case *a2apb.StreamResponse_ArtifactUpdate:
		if b := r.readArtifact(p.ArtifactUpdate, resp.Wire); b != nil {
			return []mesh.Body{b}
		}
		return nil
	case *a2apb.StreamResponse_StatusUpdate:
		u := p.StatusUpdate
		if !r.ours(u.GetTaskId(), u.GetContextId()) {
			if u.GetStatus().GetState() == a2apb.TaskState_TASK_STATE_FAILED {
				r.stray = u.GetStatus()
			}
			return nil
		}
		r.seen, r.rests = true, nil
		return r.move(withMessageID(u.GetStatus()), mesh.TaskMoved{Metadata: u.GetMetadata()})
	case *a2apb.StreamResponse_Message:
		return r.readMessage(p.Message)
	}
	r.done = true
	r.req.logger().Warn("agent sent an answer without content", "agent", r.req.Agent)
	return []mesh.Body{failed(mesh.ReasonIllegal, text.AgentSentNothing())}
}

// ours learns the agent's ids of the task and its context from the first event that has
// them, and tells events of other tasks.
func (r *reader) ours(task, context string) bool {
	if r.task == "" && task != "" {
		if r.task = task; task != string(r.req.Execution) {
			r.ids.RemoteTask = task
		}
	}
	if task != "" && task != r.task {
		return false
	}
	if !r.placed && context != "" {
		if r.placed = true; context != r.req.Message.GetContextId() {
			r.ids.RemoteContext = context
		}
	}
	return true
}

// readTask takes a task: its artifacts that were not streamed, and its state.
// The first task of a stream that continues one has what was streamed before.
func (r *reader) readTask(t *a2apb.Task) []mesh.Body {
	first, again := !r.begun, r.req.RemoteTask != "" && !r.begun && !r.req.Unary
	if !r.ours(t.GetId(), t.GetContextId()) {
		return nil
	}
	r.begun, r.seen = true, true
	var out []mesh.Body
	state := t.GetStatus().GetState()
	for _, a := range t.GetArtifacts() {
		switch fresh := !r.known[a.GetArtifactId()]; {
		case fresh && (!again || mesh.Terminal(state)) && len(a.GetParts()) > 0:
			out = append(out, mesh.ArtifactAppended{Artifact: a, LastChunk: true, Wire: mesh.WireOf(a)})
		case fresh:
			r.count(a, false)
		case !first: // it may have grown since the last time
			out = append(out, r.grown(a, mesh.Terminal(state))...)
		}
		r.known[a.GetArtifactId()] = true
	}
	for _, m := range t.GetHistory() {
		r.said[m.GetMessageId()] = true
	}
	if again && mesh.Interrupted(state) { // before our message, if more follows
		r.rests = &mesh.TaskMoved{State: state, Message: t.GetStatus().GetMessage()}
		return out
	}
	r.rests = nil
	waited := r.auth
	if moved := r.move(t.GetStatus(), mesh.TaskMoved{}); first || r.done || r.auth != waited {
		out = append(out, moved...)
	}
	return out
}

// move takes a status. Anything but an end counts as working.
func (r *reader) move(st *a2apb.TaskStatus, m mesh.TaskMoved) []mesh.Body {
	m.State, m.Message = st.GetState(), st.GetMessage()
	r.auth = m.State == a2apb.TaskState_TASK_STATE_AUTH_REQUIRED
	switch {
	case mesh.Terminal(m.State):
		r.done = true
	case m.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED:
		r.done = true
	case r.auth:
		r.waits = m // but may go on without another message (A2A v1.0 §7.6)
	default:
		m.State = a2apb.TaskState_TASK_STATE_WORKING
	}
	return []mesh.Body{m}
}

func (r *reader) readArtifact(u *a2apb.TaskArtifactUpdateEvent, response []byte) mesh.Body {
	a := u.GetArtifact()
	if !r.ours(u.GetTaskId(), u.GetContextId()) || len(a.GetParts()) == 0 {
		return nil
	}
	r.seen, r.rests = true, nil
	if a.GetArtifactId() == "" {
		if r.bare == 0 || !u.GetAppend() {
			r.bare++
		}
		a, response = withArtifactID(a, r.bare), nil
	}
	b := mesh.ArtifactAppended{Artifact: a, Append: u.GetAppend() && r.known[a.GetArtifactId()], LastChunk: u.GetLastChunk(),
		Metadata: u.GetMetadata(), Wire: mesh.WireIn(response, a, fieldUpdate, fieldArtifact)}
	r.known[a.GetArtifactId()] = true
	return b
}

// word is believed for a state.
func word(m mesh.TaskMoved) mesh.TaskMoved {
	m.Metadata = mesh.FromAgent(m.Metadata)
	if md := mesh.FromAgent(m.Message.GetMetadata()); md != m.Message.GetMetadata() {
		m.Message = proto.CloneOf(m.Message)
		m.Message.Metadata = md
	}
	return m
}

// believed returns what the agent says without what is not an agent's to say: its own cursor,
// which means nothing in our log, and all that is the mesh's word.
func believed(b mesh.Body) mesh.Body {
	switch b := b.(type) {
	case mesh.ArtifactAppended:
		b.Metadata = mesh.FromAgent(b.Metadata)
		if md := mesh.FromAgent(b.Artifact.GetMetadata()); md != b.Artifact.GetMetadata() {
			b.Artifact = proto.CloneOf(b.Artifact)
			b.Artifact.Metadata = md
			b.Wire = mesh.WireOf(b.Artifact)
		}
		return b
	case mesh.TaskMoved:
		return word(b)
	}
	return b
}

// readMessage takes a message. An agent that answers with nothing else has
// completed; a message within a task is output like any other.
func (r *reader) readMessage(m *a2apb.Message) []mesh.Body {
	alone, task := !r.seen, m.GetTaskId()
	if alone { // there is none
		task = ""
	}
	if !r.ours(task, m.GetContextId()) {
		return nil
	}
	own := m.GetMessageId() != ""
	m = withID(m)
	r.rests, r.said[m.GetMessageId()] = nil, true
	var out []mesh.Body
	if len(m.GetParts()) > 0 {
		id := "message-" + m.GetMessageId()
		for n := 2; !own && r.known[id]; n++ { // the same words again
			id = "message-" + m.GetMessageId() + "-" + strconv.Itoa(n)
		}
		out = append(out, mesh.ArtifactAppended{LastChunk: true, Metadata: m.GetMetadata(),
			Artifact: &a2apb.Artifact{ArtifactId: id, Name: "message", Parts: m.GetParts()}})
		r.known[id] = true
	}
	if alone {
		r.done = true
		out = append(out, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_COMPLETED})
	}
	return out
}
