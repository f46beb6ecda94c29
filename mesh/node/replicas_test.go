package node_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// A question is answered to the process that asked it, which knows what it asks about; when
// that has left, another one goes on, because what was done is in the thread.
func TestAnAnswerGoesToTheProcessThatAsked(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	var leave [3]func()
	for i := range leave {
		ctx, stop := context.WithCancel(context.Background())
		ready, done := make(chan struct{}), make(chan error, 1)
		asker := testAgent{"asker", func(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
			return func(yield func(agent.Output, error) bool) {
				if !inv.Resumed {
					yield(agent.Ask{Text: fmt.Sprintf("Which one? asks %d", i)}, nil)
					return
				}
				yield(agent.Text{Text: fmt.Sprintf("%s it is, says %d", inv.Text(), i)}, nil)
			}
		}}
		go func() {
			done <- agent.Serve(ctx, agent.Options{Agent: asker, NodeAddr: m.Any().GRPC, Register: &agent.Registration{Name: "asker", Replica: true},
				Ready: func(string) { close(ready) }})
		}()
		left := false
		leave[i] = func() {
			if stop(); !left {
				if err := <-done; err != nil {
					t.Errorf("process %d: %v", i, err)
				}
			}
			left = true
		}
		t.Cleanup(leave[i])
		<-ready
	}
	// asked begins a task and returns the number of the process that asks, and the task.
	tell := func(thread, text, task string) said {
		t.Helper()
		req := say(text)
		req.Message.ContextId, req.Message.TaskId = thread, task
		call, _ := mesh.CallFrom(in(t, thread))
		call.Agent = "asker"
		stream, err := m.edge().SendStreamingMessage(mesh.WithCall(in(t, thread), call), req)
		return hear(t, stream, err)
	}
	asks := func(thread string) (by int, task string) {
		t.Helper()
		h := tell(thread, "hi", "")
		if _, err := fmt.Sscanf(strings.Join(h.status, ""), "Which one? asks %d", &by); err != nil || h.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
			t.Fatalf("heard %q, %v", h.status, h.state)
		}
		return by, h.task.GetId()
	}
	for range 4 {
		thread := mesh.NewThreadID()
		by, task := asks(thread)
		if h := tell(thread, "blue", task); h.text != fmt.Sprintf("blue it is, says %d", by) {
			t.Errorf("asked by %d, heard %q", by, h.text)
		}
	}
	thread := mesh.NewThreadID()
	by, task := asks(thread)
	leave[by]()
	if h := tell(thread, "red", task); !strings.HasPrefix(h.text, "red it is, says ") || strings.HasSuffix(h.text, fmt.Sprint(by)) {
		t.Errorf("asked by %d, which has left: heard %q, %v %q", by, h.text, h.state, h.status)
	}
}
