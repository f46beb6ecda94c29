package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// A slowModel is an endpoint that speaks the chat completions protocol. Asked
// for something slow it begins to answer and does not end; else it says what it
// was told. left tells when a caller has gone.
type slowModel struct {
	*httptest.Server
	left chan struct{}
}

func startModel(t *testing.T) *slowModel {
	t.Helper()
	m := &slowModel{left: make(chan struct{}, 10)}
	stopping, stop := context.WithCancel(context.Background())
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		said := ""
		for _, msg := range slices.Backward(req.Messages) {
			if msg.Role == "user" {
				said = msg.Content
				break
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := func(delta, finish string) {
			_, _ = fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"model\":\"slow\","+
				"\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":%s}]}\n\n", delta, finish)
			_ = http.NewResponseController(w).Flush()
		}
		if !strings.Contains(said, "slow") {
			chunk("You said: hello", "null")
			chunk("", `"stop"`)
			_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
			return
		}
		chunk("Counting sheep ", "null")
		select {
		case <-r.Context().Done():
			m.left <- struct{}{}
		case <-stopping.Done():
		}
	}))
	t.Cleanup(func() { stop(); m.Close() })
	return m
}

func (m *slowModel) env() []string {
	return []string{"MESH_LLM_URL=" + m.URL + "/v1", "MESH_LLM_KEY=key", "MESH_LLM_MODEL=slow"}
}

// chatAt opens a chat as a person at a terminal has it.
func chatAt(t *testing.T, m *realMesh, id string) *process {
	t.Helper()
	p := launch(t, m.dir, "mesh-terminal", []string{"MESH_ADDR=" + m.grpc}, "chat", "--thread", id)
	p.shows(`you › $`)
	return p
}

// ends are the states in which the thread's tasks ended, with the reasons.
func ends(log []*meshv1.Event) string {
	var all []string
	var turns []string
	for _, e := range log {
		if x := e.GetTaskOpened().GetExecution(); x != nil {
			turns = append(turns, x.GetId())
		}
		if moved := e.GetTaskMoved(); mesh.Terminal(moved.GetState()) && slices.Contains(turns, e.GetExecutionId()) {
			all = append(all, strings.TrimSpace(strings.TrimPrefix(moved.GetState().String(), "TASK_STATE_")+" "+moved.GetReason()))
		}
	}
	return strings.Join(all, ", ")
}

// silence has nobody answer at an address until release is called: else a server of
// another test may be given it, and answer.
func silence(t *testing.T, addr string) (release func()) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = c.Close()
		}
	}()
	release = sync.OnceFunc(func() { _ = l.Close(); <-done })
	t.Cleanup(release)
	return release
}

// A mesh that stays away: the chat says so, with how to go on, and does not end;
// when the mesh is back, so is the conversation.
func TestAChatOutlivesAMeshThatStaysAway(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	id := mesh.NewThreadID()
	p := chatAt(t, m, id)
	p.enter("hello\n")
	_, at := p.await(&p.stdout, 0, `main › Hello\.(?s:.*)you › $`)
	m.kill9()
	release := silence(t, m.grpc)
	p.enter("thanks\n")
	p.await(&p.stderr, 0, `mesh: lost the connection to `+m.grpc+`; .*\n|mesh: .*cannot be reached.*\n`)
	_, at = p.await(&p.stdout, at, `you › $`)
	release()
	again := up(t, m.dir, "--grpc", m.grpc)
	p.enter("thanks\n")
	p.await(&p.stdout, at, `main › You are welcome\.(?s:.*)you › $`)
	_ = p.stdin.Close() // Ctrl-D
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d; stderr: %s", code, p.stderr.String())
	}
	if got := ends(again.log(id)); got != "COMPLETED, COMPLETED" {
		t.Errorf("the turns ended %s", got)
	}
}

// The model behind the mesh goes away: the turn fails with words, and the chat
// goes on.
func TestAModelThatIsAwayFailsTheTurnInWords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "model: {url: \"http://127.0.0.1:1/v1\", name: none, retries: -1}\n")
	m := up(t, dir)
	f := m.mesh("send", "hello")
	if f.code != exitFailure || !strings.Contains(f.stderr, "✗ failed: ") || strings.Contains(f.stderr, "goroutine") {
		t.Errorf("exit code %d, stderr %q", f.code, f.stderr)
	}
	if got, _, _ := strings.Cut(f.stderr, "\n"); !strings.HasPrefix(got, "thread: ") || ends(m.log(strings.TrimPrefix(got, "thread: "))) != "FAILED" {
		t.Errorf("%q: the turn did not end as FAILED", got)
	}
}
