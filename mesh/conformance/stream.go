package conformance

import (
	"fmt"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// An oddity is what A2A wants otherwise, of an answer that was understood. Its kind is
// what it is, wherever it is.
type oddity struct{ kind, cause, remedy string }

// kindOpen is the kind of a stream that does not end with its task.
const kindOpen = "open"

// A stricture compares the events of a stream with what A2A says (v1.0 §3.1.2 and §3.5.2):
// a task first or one message alone, events of that task alone and nothing after its end.
type stricture struct {
	streamed      bool
	begun         bool // the task need not be told first
	task, context string
	state         a2apb.TaskState
	alone         bool            // a message was the whole answer
	chunks        map[string]bool // by artifact, whether its last piece came
	found         []oddity
}

func (s *stricture) odd(n int, kind, remedy string) {
	at := "the answer"
	if s.streamed {
		at = fmt.Sprintf("event %d", n)
	}
	s.found = append(s.found, oddity{kind, at + " " + kind, remedy})
}

// oddities are those of the exchange.
func (x *exchange) oddities(version string) []oddity {
	s := &stricture{streamed: x.streamed, begun: x.continues || version == "0.3", chunks: map[string]bool{}}
	for i, resp := range x.answers {
		s.event(i+1, resp)
	}
	waits := mesh.Terminal(s.state) || mesh.Interrupted(s.state)
	if x.streamed && len(x.answers) > 0 && !s.alone {
		switch {
		case x.open:
			s.found = append(s.found, oddity{kindOpen, fmt.Sprintf("the stream stays open for %v after the task's last event", lingerTime), "close it after a terminal state or input_required"})
		case !waits && s.task != "":
			s.found = append(s.found, oddity{"unended", fmt.Sprintf("the stream ends while the task is %s; the mesh asked for it then", stateName(s.state)), "keep the stream open until the task is over"})
		}
	}
	return s.found
}

func (s *stricture) event(n int, resp *a2apb.StreamResponse) {
	if s.alone || mesh.Terminal(s.state) {
		s.odd(n, "comes after the end", "send nothing after a terminal state, or after a message alone")
		return
	}
	switch p := resp.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		s.ids(n, p.Task.GetId(), p.Task.GetContextId())
		s.status(n, p.Task.GetStatus())
		for _, a := range p.Task.GetArtifacts() {
			s.artifact(n, a)
			if _, known := s.chunks[a.GetArtifactId()]; !known {
				s.chunks[a.GetArtifactId()] = false
			}
		}
	case *a2apb.StreamResponse_Message:
		if s.alone = s.task == ""; !s.alone {
			s.odd(n, "is a message in the stream of a task", "put it into the task's status")
		}
		s.message(n, p.Message)
	case *a2apb.StreamResponse_StatusUpdate:
		s.begins(n)
		s.ids(n, p.StatusUpdate.GetTaskId(), p.StatusUpdate.GetContextId())
		s.status(n, p.StatusUpdate.GetStatus())
	case *a2apb.StreamResponse_ArtifactUpdate:
		s.begins(n)
		u := p.ArtifactUpdate
		s.ids(n, u.GetTaskId(), u.GetContextId())
		s.artifact(n, u.GetArtifact())
		last, known := s.chunks[u.GetArtifact().GetArtifactId()]
		switch {
		case u.GetAppend() && !known:
			s.odd(n, "is appended to an artifact that has not begun", "begin an artifact with append false")
		case u.GetAppend() && last:
			s.odd(n, "is appended to an artifact whose last piece has come", "say lastChunk with the last piece alone")
		}
		s.chunks[u.GetArtifact().GetArtifactId()] = u.GetLastChunk()
	default:
		s.odd(n, "is empty", "send a task, a message, or an update")
	}
}

// begins is asked of updates: in v1.0 a task stands before them that is new.
func (s *stricture) begins(n int) {
	if n == 1 && !s.begun {
		s.odd(n, "is an update before its task", "begin the stream with the task")
	}
}

func (s *stricture) ids(n int, task, context string) {
	switch {
	case task == "":
		s.odd(n, "has no task id", "send it with each task and update")
	case s.task == "":
		s.task = task
	case task != s.task:
		s.odd(n, "is of another task, and passed over", "send events of one task in a stream")
	}
	switch {
	case context == "":
		s.odd(n, "has no context id", "send it with each task and update")
	case s.context == "":
		s.context = context
	case context != s.context:
		s.odd(n, "is of another context", "keep the context of a task")
	}
}

func (s *stricture) status(n int, st *a2apb.TaskStatus) {
	if s.state = st.GetState(); s.state == a2apb.TaskState_TASK_STATE_UNSPECIFIED {
		s.odd(n, "has no state", "send the state of the task in its status")
	}
	if st.GetMessage() != nil {
		s.message(n, st.GetMessage())
	}
}

func (s *stricture) message(n int, m *a2apb.Message) {
	if m.GetMessageId() == "" {
		s.odd(n, "has a message without an id", "send messageId with each message")
	}
	if m.GetRole() != a2apb.Role_ROLE_AGENT {
		s.odd(n, "has a message whose role is not that of an agent", "send ROLE_AGENT (v0.3: agent) as role")
	}
}

func (s *stricture) artifact(n int, a *a2apb.Artifact) {
	if a.GetArtifactId() == "" {
		s.odd(n, "has an artifact without an id", "send artifactId with each artifact and each piece of it")
	}
	if len(a.GetParts()) == 0 {
		s.odd(n, "has an artifact without parts, and is passed over", "send at least one part")
	}
}
