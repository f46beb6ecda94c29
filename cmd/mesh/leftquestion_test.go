package main

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/skills"
)

// plainly says something over gRPC as a client that does not know our extension:
// without a task the message opens one, whatever waits.
func plainly(t *testing.T, m *realMesh, thread, task, text string) heardTurn {
	t.Helper()
	req := userMessage(thread, text)
	req.Message.TaskId = task
	stream, err := m.edge().SendStreamingMessage(timely(t), req)
	if err != nil {
		t.Fatal(err)
	}
	var h heardTurn
	for {
		u, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return h
		}
		if err != nil {
			t.Fatal(err)
		}
		h.hear(t, u, thread)
	}
}

// A question that waits is still there after another task of the same thread: a
// yes to its task makes the call, once, in every mode, and also in a mesh that was
// killed meanwhile (S3-044, S3-114).
func TestAQuestionOutlivesAnotherTaskOfItsThread(t *testing.T) {
	page, err := fs.ReadFile(skills.FS, "tasks/create.md")
	if err != nil {
		t.Fatal(err)
	}
	asks := strings.Replace(string(page), "\naccess: write\n", "\naccess: write\nconfirm: Create this task?\n", 1)
	for _, way := range []struct{ mode, face string }{{"multi_agent", "cli"}, {"multi_agent", "json"}, {"single_loop", "json"}, {"single_loop", "cli"}, {"direct", "json"}} {
		for _, why := range []string{"approval", "limit"} {
			t.Run(way.mode+" "+way.face+" "+why, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				want := `tasks.create {"title":"Call Ann"}`
				request := "Create a task to call Ann"
				if why == "approval" {
					writeFile(t, filepath.Join(dir, "skills", "tasks", "create.md"), asks)
				} else {
					writeFile(t, filepath.Join(dir, "mesh.yaml"), "limits: {turn_calls: 1}\n")
					want += "\n" + `tasks.create {"title":"Call Bob"}`
					request += " and create a task to call Bob"
				}
				m := up(t, dir, "--tool-mode", way.mode, "--skill-interface", way.face)
				id := mesh.NewThreadID()
				first := plainly(t, m, id, "", request)
				if first.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
					t.Fatalf("ended %v: %s %q", first.state, first.text, first.status)
				}
				other := plainly(t, m, id, "", "Which of my tasks are overdue?")
				if other.state != a2apb.TaskState_TASK_STATE_COMPLETED || other.task == first.task {
					t.Fatalf("task %s ended %v: %s %q", other.task, other.state, other.text, other.status)
				}
				if way.face == "json" {
					m.kill9()
					m = up(t, dir, "--tool-mode", way.mode, "--skill-interface", way.face)
				}
				last := plainly(t, m, id, first.task, "yes")
				if last.task != first.task || last.state != a2apb.TaskState_TASK_STATE_COMPLETED {
					t.Errorf("task %s after %s ended %v: %s %q", last.task, first.task, last.state, last.text, last.status)
				}
				var created []string
				for _, call := range madeCalls(m.log(id)) {
					if strings.HasPrefix(call, "tasks.create ") {
						created = append(created, call)
					}
				}
				slices.Sort(created) // agents work at the same time
				if got := strings.Join(created, "\n"); got != want {
					t.Errorf("called\n%s\nwant\n%s\nand said %q", got, want, last.text)
				}
			})
		}
	}
}
