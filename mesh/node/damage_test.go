package node_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// finding C6: a node starts without reading all that ever happened. Where that is damaged, it
// finds out later, and says so: the conversation that needs it answers DATA_LOSS with the place,
// also to who would write, the node is not ready, and other conversations go on.
func TestADamagedConversationIsClosedAndOthersGoOn(t *testing.T) {
	data := t.TempDir()
	agents := map[string]run{"main": echo}
	m := start(t, config(data), agents)
	ill, well := mesh.NewThreadID(), mesh.NewThreadID()
	say1 := func(m *testMesh, thread, text string) (*a2apb.SendMessageResponse, error) {
		return m.edge().SendMessage(in(t, thread), say(text))
	}
	lost := ""
	for i, thread := range []string{ill, well, well, well, well} { // more than the first segment has room for
		resp, err := say1(m, thread, "as it was "+strings.Repeat("word ", 40_000))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			lost = resp.GetTask().GetId()
		}
	}
	m.Stop()
	name := filepath.Join(data, "mesh.log", "0000000000000000001.seg")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, []byte("as it was"))+2] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	m = start(t, config(data), agents)
	eventually(t, func() error {
		if resp, text := fetch(t, m.web(), func(r *http.Request) { r.URL.Path = "/readyz" }); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, `"warnings":["data"]`) {
			return errors.New(text)
		}
		return nil
	})
	_, sendErr := say1(m, ill, "more")
	_, getErr := m.edge().GetTask(in(t, ill), &a2apb.GetTaskRequest{Id: lost})
	threads := meshv1.NewThreadServiceClient(m.conn)
	_, readErr := threads.ReadThread(in(t, ill), &meshv1.ReadThreadRequest{ThreadId: ill})
	for what, err := range map[string]error{"to send": sendErr, "a task": getErr, "to read": readErr} {
		err = rpc.FromStatus(err)
		if !mesh.IsCode(err, mesh.DataLoss) || !strings.Contains(mesh.DetailOf(err), filepath.Base(name)+", byte ") {
			t.Errorf("%s answers %v", what, err)
		}
	}
	if resp, err := say1(m, well, "hello"); err != nil || resp.GetTask().GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("another conversation: %v, %v", resp.GetTask().GetStatus(), err)
	}
	if _, err := m.edge().ListTasks(plain(t), &a2apb.ListTasksRequest{ContextId: well}); err != nil {
		t.Errorf("its tasks: %v", err)
	}
	if list, err := threads.ListThreads(plain(t), &meshv1.ListThreadsRequest{}); err != nil || len(list.GetThreads()) != 2 {
		t.Errorf("a list of conversations: %v, %v", list, err)
	} else {
		for _, th := range list.GetThreads() {
			if bad := th.GetThreadId() == ill; th.GetDamaged() != bad || th.GetSeq() == 0 {
				t.Errorf("a conversation is listed as %v", th)
			}
		}
	}
	all, err := m.edge().ListTasks(plain(t), &a2apb.ListTasksRequest{})
	if err != nil || len(all.GetTasks()) != int(all.GetTotalSize()) {
		t.Errorf("a list of tasks: %v", err)
	}
	there := slices.IndexFunc(all.GetTasks(), func(task *a2apb.Task) bool { return task.GetId() == lost })
	if _, err := os.Stat(filepath.Join(data, "mesh.rows")); err == nil && there < 0 { // where rows are made of the log, that has lost it
		t.Errorf("the task that cannot be read is not among %d", len(all.GetTasks()))
	}
	if there >= 0 && all.GetTasks()[there].GetContextId() != ill {
		t.Errorf("the task that cannot be read is shown as %v", all.GetTasks()[there])
	}
}
