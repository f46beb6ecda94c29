package node_test

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

func TestAMessageIsAnsweredInOneStream(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("hello"))
	s := hear(t, stream, err)
	if s.text != "You said: hello" || s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("heard %q, ended %v; %v", s.text, s.state, s.all)
	}
	if s.task.GetContextId() != id {
		t.Errorf("context %q, want the thread id %q", s.task.GetContextId(), id)
	}
}
