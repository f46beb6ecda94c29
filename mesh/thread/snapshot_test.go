package thread_test

import (
	"slices"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// What the user answered is in the history of the task, between what they said before
// and the answer; what an agent said as it went on is in its status.
func TestTheHistoryHasTheQuestionBeforeItsAnswer(t *testing.T) {
	const input, working = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_WORKING
	said := func(id string) *a2apb.Message { return &a2apb.Message{MessageId: id} }
	for name, tt := range map[string]struct {
		moved   mesh.TaskMoved
		history []string
		status  string
	}{
		"a question":           {mesh.TaskMoved{State: input, Message: said("which?")}, []string{"go", "which?", "that one"}, ""},
		"one without words":    {mesh.TaskMoved{State: input}, []string{"go", "that one"}, ""},
		"progress":             {mesh.TaskMoved{State: working, Message: said("half")}, []string{"go", "that one"}, "half"},
		"nothing of its words": {mesh.TaskMoved{State: working}, []string{"go", "that one"}, ""},
	} {
		s := thread.NewSnapshot("c", "t")
		for i, b := range []mesh.Body{
			mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn}},
			mesh.MessagePosted{User: "ann", Message: said("go")}, tt.moved, mesh.MessagePosted{User: "ann", Message: said("that one")},
		} {
			s.Apply(&mesh.Event{Seq: mesh.Seq(i + 1), Execution: "t", Body: b})
		}
		task, _ := s.Task()
		var history []string
		for _, m := range task.History {
			history = append(history, m.GetMessageId())
		}
		if got := task.Status.Message.GetMessageId(); !slices.Equal(history, tt.history) || got != tt.status {
			t.Errorf("%s: history %q, status %q; want %q, %q", name, history, got, tt.history, tt.status)
		}
	}
}
