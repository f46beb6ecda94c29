package peer

import (
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// reader turns the responses of one stream into event bodies.
type reader struct {
	req   Request
	task  string          // the agent's task id, once known
	known map[string]bool // artifact ids
	begun bool            // whether the task was seen in this stream
	done  bool
}

func newReader(req Request) *reader {
	return &reader{req: req, task: req.RemoteTask, known: map[string]bool{}}
}

func (r *reader) read(resp *a2apb.StreamResponse) []mesh.Body {
	switch p := resp.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		return r.readTask(p.Task)
	case *a2apb.StreamResponse_ArtifactUpdate:
		if b := r.readArtifact(p.ArtifactUpdate); b != nil {
			return []mesh.Body{b}
		}
		return nil
	case *a2apb.StreamResponse_StatusUpdate:
		u := p.StatusUpdate
		if !r.ours(u.GetTaskId()) {
			return nil
		}
		return r.move(u.GetStatus(), mesh.TaskMoved{Metadata: u.GetMetadata()})
	case *a2apb.StreamResponse_Message:
		return r.readMessage(p.Message)
	}
	r.done = true
	return []mesh.Body{failed(mesh.ReasonIllegal, "The agent sent an empty answer.")}
}

// ours learns the agent's task id from the first event that has one, and
// tells events of other tasks.
func (r *reader) ours(task string) bool {
	if r.task == "" {
		r.task = task
	}
	return task == "" || task == r.task
}

// readTask takes a task: its artifacts that were not streamed, and its state.
// The first task of a stream that continues one has what was streamed before.
func (r *reader) readTask(t *a2apb.Task) []mesh.Body {
	first, again := !r.begun, r.req.RemoteTask != "" && !r.begun && !r.req.Unary
	if !r.ours(t.GetId()) {
		return nil
	}
	r.begun = true
	var out []mesh.Body
	move := mesh.TaskMoved{}
	if first && !again && t.GetId() != string(r.req.Execution) {
		move.RemoteTask = t.GetId()
	}
	if first && !again && t.GetContextId() != r.req.Thread {
		move.RemoteContext = t.GetContextId()
	}
	state := t.GetStatus().GetState()
	if first && (move.RemoteTask != "" || move.RemoteContext != "") && (mesh.Terminal(state) || mesh.Interrupted(state)) {
		out = append(out, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, RemoteTask: move.RemoteTask, RemoteContext: move.RemoteContext})
	}
	for _, a := range t.GetArtifacts() {
		if fresh := !r.known[a.GetArtifactId()]; fresh && !again && len(a.GetParts()) > 0 {
			out = append(out, mesh.ArtifactAppended{Artifact: a, LastChunk: true})
		}
		r.known[a.GetArtifactId()] = true
	}
	if again && mesh.Interrupted(state) {
		return out // the state before our message
	}
	if moved := r.move(t.GetStatus(), move); first || r.done {
		out = append(out, moved...)
	}
	return out
}

// move takes a status. Anything but an end counts as working.
func (r *reader) move(st *a2apb.TaskStatus, m mesh.TaskMoved) []mesh.Body {
	m.State, m.Message = st.GetState(), st.GetMessage()
	switch {
	case mesh.Terminal(m.State):
		r.done = true
	case m.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED:
		r.done = true
	case m.State == a2apb.TaskState_TASK_STATE_AUTH_REQUIRED:
		// The agent may go on without another message (A2A v1.0 §7.6).
	default:
		m.State = a2apb.TaskState_TASK_STATE_WORKING
	}
	return []mesh.Body{m}
}

func (r *reader) readArtifact(u *a2apb.TaskArtifactUpdateEvent) mesh.Body {
	a := u.GetArtifact()
	if !r.ours(u.GetTaskId()) || len(a.GetParts()) == 0 {
		return nil
	}
	b := mesh.ArtifactAppended{Artifact: a, Append: u.GetAppend() && r.known[a.GetArtifactId()], LastChunk: u.GetLastChunk(), Metadata: u.GetMetadata()}
	r.known[a.GetArtifactId()] = true
	return b
}

// readMessage takes a message. An agent that answers with nothing else has
// completed; a message within a task is output like any other.
func (r *reader) readMessage(m *a2apb.Message) []mesh.Body {
	var out []mesh.Body
	if len(m.GetParts()) > 0 {
		id := "message-" + m.GetMessageId()
		out = append(out, mesh.ArtifactAppended{LastChunk: true, Metadata: m.GetMetadata(),
			Artifact: &a2apb.Artifact{ArtifactId: id, Name: "message", Parts: m.GetParts()}})
		r.known[id] = true
	}
	if r.task == "" {
		r.done = true
		out = append(out, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_COMPLETED})
	}
	return out
}
