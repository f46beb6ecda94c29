package node_test

import (
	"fmt"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/rpc"
)

// finding N1: the memory is there after kill -9 of the agent's process, and of the mesh,
// between two turns; an agent whose memory died with it is told what it knew.
func TestAPlainAgentRemembersAfterKill9(t *testing.T) {
	data, book := t.TempDir(), t.TempDir()
	id := mesh.NewThreadID()
	for n, step := range []struct {
		folder, want string
		replaced     int
	}{{book, "0", 0}, {book, "0, 1", 0}, {book, "0, 1, 2", 0}, {"", "3", 1}} {
		at, kill := child(t, "diary-agent", "MESH_TEST_DIARY="+step.folder)
		where, end := child(t, "mesh", "MESH_TEST_DATA="+data, "MESH_TEST_MAIN=diary")
		conn := reached(t, where[0])
		joins(t, conn, "diary", at[0])
		if got := tells(t, conn, id, fmt.Sprint(n)); got != step.want {
			t.Errorf("it remembers %q, want %q", got, step.want)
		}
		if n := replacements(t, conn, id); n != step.replaced {
			t.Errorf("its context was replaced %d times, want %d", n, step.replaced)
		}
		kill()
		end()
	}
}

// A question of an agent that knows nothing of any mesh is answered after kill -9 of the
// mesh, in the agent's own task; when it was the agent that died, and its task with it, the
// user is told so, and the conversation goes on.
func TestAQuestionOfAPlainAgentAfterKill9(t *testing.T) {
	data := t.TempDir()
	id := mesh.NewThreadID()
	at, kill := child(t, "diary-agent")
	where, end := child(t, "mesh", "MESH_TEST_DATA="+data, "MESH_TEST_MAIN=diary")
	conn := reached(t, where[0])
	joins(t, conn, "diary", at[0])
	asked := replied(t, conn, id, "", asksBack)
	if asked.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
		t.Fatalf("ended %v: %v", asked.state, asked.status)
	}

	end()
	where, end = child(t, "mesh", "MESH_TEST_DATA="+data, "MESH_TEST_MAIN=diary")
	conn = reached(t, where[0])
	joins(t, conn, "diary", at[0])
	got := replied(t, conn, id, asked.task.GetId(), "seven")
	if got.state != a2apb.TaskState_TASK_STATE_COMPLETED || got.text != asksBack+", seven" || got.task.GetId() != asked.task.GetId() {
		t.Errorf("after the mesh was killed, task %s of %s ended %v, and said %q: %v", got.task.GetId(), asked.task.GetId(), got.state, got.text, got.status)
	}

	asked = replied(t, conn, id, "", asksBack)
	kill()
	at, _ = child(t, "diary-agent")
	joins(t, conn, "diary", at[0])
	got = replied(t, conn, id, asked.task.GetId(), "eight")
	if got.state != a2apb.TaskState_TASK_STATE_FAILED || len(got.status) == 0 || lastReason(t, conn, id) != call.ReasonTaskNotFound {
		t.Errorf("after the agent was killed, the answer ended %v with %v (%s)", got.state, got.status, lastReason(t, conn, id))
	}
	if got := tells(t, conn, id, "nine"); got != "nine" {
		t.Errorf("the agent that died remembers %q", got)
	}
	if n := replacements(t, conn, id); n != 1 {
		t.Errorf("its context was replaced %d times, want once", n)
	}
	end()
}

// reached is a connection to the mesh at the address.
func reached(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.Dial(address, rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// replied says something in the thread, to a task if it has an id, and hears all of it.
func replied(t *testing.T, conn grpc.ClientConnInterface, thread, task, words string) said {
	t.Helper()
	req := say(words)
	req.Message.TaskId = task
	if task != "" {
		req.Message.ContextId = thread
	}
	stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(in(t, thread), req)
	return hear(t, stream, err)
}

// lastReason is why the last task that the thread tells of failed.
func lastReason(t *testing.T, conn grpc.ClientConnInterface, thread string) (reason string) {
	t.Helper()
	for _, e := range read(t, meshv1.NewThreadServiceClient(conn), thread) {
		if m := e.GetTaskMoved(); m.GetState() == a2apb.TaskState_TASK_STATE_FAILED {
			reason = m.GetReason()
		}
	}
	return reason
}
