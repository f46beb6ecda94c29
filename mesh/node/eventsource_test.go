package node_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// finding R8: who comes back to a task that is over and has had all of it is told so by 204,
// upon which an EventSource of a browser connects no more (HTML, 9.2.3), over every face with
// server-sent events. Who has not had the end gets it, and who never had anything is refused
// as A2A v1.0 §3.1.6 has it.
func TestAnEventSourceComesToAnEnd(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	stream, err := m.edge().SendStreamingMessage(plain(t), say("hi"))
	task := hear(t, stream, err).task.GetId()
	rpc := func(method string) string { return rpcBody(method, fmt.Sprintf(`{"id": %q}`, task)) }
	for name, f := range map[string]struct{ verb, path, body, version string }{
		"REST, GET":    {http.MethodGet, "/tasks/" + task + ":subscribe", "", "1.0"},
		"REST, POST":   {http.MethodPost, "/tasks/" + task + ":subscribe", "", "1.0"},
		"JSON-RPC":     {http.MethodPost, "/", rpc("SubscribeToTask"), "1.0"},
		"REST 0.3":     {http.MethodGet, "/v1/tasks/" + task + ":subscribe", "", ""},
		"JSON-RPC 0.3": {http.MethodPost, "/", rpc("tasks/resubscribe"), ""},
		"of an agent":  {http.MethodGet, "/agents/main/tasks/" + task + ":subscribe", "", "1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			ask := func(headers ...string) (code int, last, body string) {
				req, err := http.NewRequestWithContext(t.Context(), f.verb, "http://"+m.web()+f.path, strings.NewReader(f.body))
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(headers); i += 2 {
					req.Header.Set(headers[i], headers[i+1])
				}
				req.Header.Set("Accept", "text/event-stream")
				if f.version != "" {
					req.Header.Set("A2A-Version", f.version)
				}
				if f.body != "" {
					req.Header.Set("Content-Type", "application/json")
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				var all strings.Builder
				for lines := bufio.NewScanner(io.TeeReader(resp.Body, &all)); lines.Scan(); {
					if id, is := strings.CutPrefix(lines.Text(), "id: "); is {
						last = id
					}
				}
				return resp.StatusCode, last, all.String()
			}
			if _, _, body := ask(); !strings.Contains(body, "The task is over") {
				t.Errorf("subscribed without a cursor: %s", body)
			}
			code, last, body := ask("Last-Event-ID", "1")
			if code != http.StatusOK || last == "" || !strings.Contains(strings.ToUpper(body), "COMPLETED") {
				t.Fatalf("from the beginning: %d, the last event is %q: %s", code, last, body)
			}
			for _, header := range []string{"Last-Event-ID", "after-seq"} {
				if code, _, body := ask(header, last); code != http.StatusNoContent || body != "" {
					t.Errorf("from the end, by %s: %d %s", header, code, body)
				}
			}
		})
	}
	ctx := metadata.AppendToOutgoingContext(plain(t), "after-seq", fmt.Sprint(ended(t, m, task)))
	again, err := a2apb.NewA2AServiceClient(m.raw(t)).SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: task})
	if got := hear(t, again, err); got.task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED || got.text != "" {
		t.Errorf("gRPC, from the end: %v", got)
	}
}

// ended is the Seq with which the task ended.
func ended(t *testing.T, m *testMesh, task string) int64 {
	t.Helper()
	thread, _ := mesh.ExecutionID(task).ThreadID()
	at := int64(0)
	for _, e := range read(t, meshv1.NewThreadServiceClient(m.conn), thread) {
		if e.GetExecutionId() == task && mesh.Terminal(e.GetTaskMoved().GetState()) {
			at = e.GetSeq()
		}
	}
	return at
}
