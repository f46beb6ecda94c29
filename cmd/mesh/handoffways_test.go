package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	legacy "github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// ways are all by which a user hears of a turn. task is that which the message goes on with,
// or "".
var ways = map[string]func(t *testing.T, m *realMesh, thread, task, text string) heardTurn{
	"gRPC":            withoutTask(speakGRPC),
	"REST":            withoutTask(speakREST),
	"SSE":             withoutTask(speakSSE),
	"JSON-RPC":        speakJSONRPC,
	"v0.3":            speakV03,
	"late subscriber": speakLate,
	"webhook":         speakWebhook,
}

// withoutTask is a speaker that finds its task by the thread.
func withoutTask(say speaker) func(t *testing.T, m *realMesh, thread, task, text string) heardTurn {
	return func(t *testing.T, m *realMesh, thread, _, text string) heardTurn {
		t.Helper()
		return say(t, m, thread, text)
	}
}

// messageIn is a message in a task, or in none.
func messageIn(thread, task, text string) *a2apb.SendMessageRequest {
	req := userMessage(thread, text)
	req.Message.TaskId = task
	return req
}

// speakJSONRPC reads a stream of JSON-RPC, as a client that does not know our extension.
func speakJSONRPC(t *testing.T, m *realMesh, thread, task, text string) heardTurn {
	t.Helper()
	params, err := protojson.Marshal(messageIn(thread, task, text))
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": json.RawMessage(params)})
	if err != nil {
		t.Fatal(err)
	}
	resp := m.request(http.MethodPost, "/", http.Header{"Content-Type": {"application/json"}, "A2A-Version": {"1.0"}}, body)
	var h heardTurn
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var answer struct{ Result, Error json.RawMessage }
		u := new(a2apb.StreamResponse)
		if err := json.Unmarshal([]byte(data), &answer); err != nil || answer.Error != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if err := protojson.Unmarshal(answer.Result, u); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		h.hear(t, u, thread)
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return h
}

// speakV03 reads the stream of the official SDK's client of A2A v0.3.
func speakV03(t *testing.T, m *realMesh, thread, task, text string) heardTurn {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	msg := legacy.NewMessage(legacy.MessageRoleUser, legacy.TextPart{Text: text})
	msg.ContextID, msg.TaskID = thread, legacy.TaskID(task)
	var h heardTurn
	finals := 0
	state := func(s legacy.TaskState) {
		if ended(h.state) {
			t.Errorf("after the end of the turn came %v", s)
		}
		h.state = legacyState(s)
	}
	for e, err := range a2aclient.NewJSONRPCTransport("http://"+m.http+"/", web).SendStreamingMessage(timely(t), &legacy.MessageSendParams{Message: msg}) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case *legacy.Task:
			h.task = string(e.ID)
		case *legacy.TaskStatusUpdateEvent:
			if state(e.Status.State); e.Final {
				finals++
			}
			if e.Status.Message != nil {
				h.parts = append(h.parts, legacyParts(t, e.Status.Message.Parts)...)
			}
		case *legacy.TaskArtifactUpdateEvent:
			parts := legacyParts(t, e.Artifact.Parts)
			h.text, h.parts = h.text+partsText(parts), append(h.parts, parts...)
		}
	}
	if finals != 1 || !ended(h.state) {
		t.Errorf("%d final updates, and it ended %v", finals, h.state)
	}
	return h
}

func legacyState(s legacy.TaskState) mesh.TaskState {
	return mesh.TaskState(a2apb.TaskState_value["TASK_STATE_"+strings.ToUpper(strings.ReplaceAll(string(s), "-", "_"))])
}

// speakLate does not wait for the answer, and subscribes when the stream has changed hands:
// it hears all that was said since its message.
func speakLate(t *testing.T, m *realMesh, thread, task, text string) heardTurn {
	t.Helper()
	ctx := inThread(t, thread)
	before := mesh.Seq(0)
	if task != "" {
		before = mesh.Seq(len(m.log(thread)))
	}
	req := messageIn(thread, task, text)
	req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	sent, err := m.edge().SendMessage(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	h := heardTurn{task: sent.GetTask().GetId()}
	for follow := readerOf(ctx, m, thread); ; {
		e, err := follow()
		if err != nil {
			t.Fatal(err)
		}
		if e.GetHandoffStarted() != nil {
			break
		}
	}
	call := mesh.Call{Thread: thread, Extensions: []string{mesh.ExtensionURI}, AfterSeq: before, HasCursor: true}
	stream, err := m.edge().SubscribeToTask(mesh.WithCall(ctx, call), &a2apb.SubscribeToTaskRequest{Id: h.task})
	if err != nil {
		t.Fatal(err)
	}
	for first := true; !ended(h.state); first = false {
		u, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if first != (u.GetTask() != nil) {
			t.Errorf("the task must come first, and once: %v", u)
		}
		h.hear(t, u, thread)
	}
	return h
}

// readerOf reads the thread from its begin, and then what comes.
func readerOf(ctx context.Context, m *realMesh, thread string) func() (*meshv1.Event, error) {
	stream, err := meshv1.NewThreadServiceClient(m.dial()).FollowThread(ctx, &meshv1.FollowThreadRequest{ThreadId: thread})
	return func() (*meshv1.Event, error) {
		for err == nil {
			resp, failed := stream.Recv()
			if failed == nil {
				return resp.GetEvent(), nil
			}
			if err = failed; mesh.IsCode(rpc.FromStatus(err), mesh.NotFound) && ctx.Err() == nil { // nothing is said there yet
				time.Sleep(10 * time.Millisecond)
				stream, err = meshv1.NewThreadServiceClient(m.dial()).FollowThread(ctx, &meshv1.FollowThreadRequest{ThreadId: thread})
			}
		}
		return nil, err
	}
}

// speakWebhook does not wait for the answer: a webhook hears it.
func speakWebhook(t *testing.T, m *realMesh, thread, task, text string) heardTurn {
	t.Helper()
	w := &webhook{t: t, thread: thread, over: make(chan struct{})}
	server := httptest.NewServer(w)
	defer server.Close()
	req := messageIn(thread, task, text)
	req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true, TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{Id: mesh.NewEventID(), Url: server.URL}}
	sent, err := m.edge().SendMessage(inThread(t, thread), req)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.over:
	case <-timely(t).Done():
		t.Error("the webhook was not told of the end")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard.task != sent.GetTask().GetId() {
		t.Errorf("the webhook heard of the task %s, want %s", w.heard.task, sent.GetTask().GetId())
	}
	return w.heard
}

// A webhook is told of one turn.
type webhook struct {
	t      *testing.T
	thread string
	over   chan struct{} // closed when the turn has ended
	// again has what it was told, for one that may be told twice; nil for one that may not.
	again map[string]bool

	mu    sync.Mutex
	heard heardTurn
}

func (w *webhook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	u := new(a2apb.StreamResponse)
	if err == nil {
		err = protojson.Unmarshal(body, u)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.t.Errorf("the webhook got %s: %v", body, err)
		return
	}
	if w.again[string(body)] {
		return
	}
	if w.again != nil {
		w.again[string(body)] = true
	}
	if w.heard.task == "" {
		w.heard.task = u.GetStatusUpdate().GetTaskId() + u.GetArtifactUpdate().GetTaskId()
	}
	was := ended(w.heard.state)
	w.heard.hear(w.t, u, w.thread)
	if ended(w.heard.state) && !was {
		close(w.over)
	}
}
