package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// A speaker says something in a thread, and hears the turn to its end, over one
// of the ways into the mesh.
type speaker func(t *testing.T, m *realMesh, thread, text string) heardTurn

// speakers are the ways. Those of HTTP know nothing of our extension.
var speakers = map[string]speaker{
	"gRPC":       speakGRPC,
	"REST":       speakREST,
	"SSE":        speakSSE,
	"broken SSE": speakBrokenSSE,
}

// heardTurn is what a client heard of a turn, read as any A2A client would.
type heardTurn struct {
	task    string
	state   mesh.TaskState
	text    string        // of the turn's artifacts
	status  []string      // texts of status messages
	parts   []*a2apb.Part // of artifacts and status messages, in their order
	handoff bool          // our extension told of a handoff
	seq     mesh.Seq      // of the last update, for who counts them
	// shown are the artifacts as a client keeps them: what comes of one anew replaces it.
	shown []*a2apb.Artifact
}

// hear adds an update of a stream, and checks that it belongs there.
func (h *heardTurn) hear(t *testing.T, u *a2apb.StreamResponse, thread string) {
	t.Helper()
	if ended(h.state) && u.GetTask() == nil {
		t.Errorf("after the end of the turn came %v", u)
	}
	id, in := "", ""
	switch p := u.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		id, in = p.Task.GetId(), p.Task.GetContextId()
		if h.task == "" {
			h.task = id
		}
	case *a2apb.StreamResponse_StatusUpdate:
		id, in, h.state = p.StatusUpdate.GetTaskId(), p.StatusUpdate.GetContextId(), p.StatusUpdate.GetStatus().GetState()
		if msg := p.StatusUpdate.GetStatus().GetMessage(); msg != nil {
			h.status, h.parts = append(h.status, partsText(msg.GetParts())), append(h.parts, msg.GetParts()...)
		}
		ext := p.StatusUpdate.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue()
		h.handoff = h.handoff || ext.GetFields()["handoff"] != nil
	case *a2apb.StreamResponse_ArtifactUpdate:
		id, in = p.ArtifactUpdate.GetTaskId(), p.ArtifactUpdate.GetContextId()
		h.text += partsText(p.ArtifactUpdate.GetArtifact().GetParts())
		h.parts = append(h.parts, p.ArtifactUpdate.GetArtifact().GetParts()...)
		h.keep(p.ArtifactUpdate)
	}
	if id != h.task || in != thread {
		t.Errorf("an update of task %q in %q, want %q in %q", id, in, h.task, thread)
	}
}

// keep takes what the update has of an artifact.
func (h *heardTurn) keep(u *a2apb.TaskArtifactUpdateEvent) {
	i := slices.IndexFunc(h.shown, func(a *a2apb.Artifact) bool { return a.GetArtifactId() == u.GetArtifact().GetArtifactId() })
	switch {
	case i < 0:
		h.shown = append(h.shown, proto.CloneOf(u.GetArtifact()))
	case u.GetAppend():
		h.shown[i].Parts = append(h.shown[i].Parts, u.GetArtifact().GetParts()...)
	default:
		h.shown[i] = proto.CloneOf(u.GetArtifact())
	}
}

// ended reports whether the user has the next word.
func ended(s mesh.TaskState) bool { return mesh.Terminal(s) || mesh.Interrupted(s) }

// userMessage is what a client sends: the thread alone says where it belongs.
func userMessage(thread, text string) *a2apb.SendMessageRequest {
	return &a2apb.SendMessageRequest{Message: &a2apb.Message{MessageId: mesh.NewEventID(), ContextId: thread,
		Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}}
}

// speakGRPC knows our extension.
func speakGRPC(t *testing.T, m *realMesh, thread, text string) heardTurn {
	t.Helper()
	stream, err := m.edge().SendStreamingMessage(inThread(t, thread), userMessage(thread, text))
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

// speakREST gets the task when the turn is over, and once more by its id.
func speakREST(t *testing.T, m *realMesh, thread, text string) heardTurn {
	t.Helper()
	before := 0 // what earlier turns of the same task said
	if open := openTask(m, thread); open != "" {
		before = len(taskText(getTask(t, m, open)))
	}
	var sent a2apb.SendMessageResponse
	readJSON(t, post(t, m, "/message:send", userMessage(thread, text), ""), &sent)
	task := getTask(t, m, sent.GetTask().GetId())
	if d := cmp.Diff(taskText(task), taskText(sent.GetTask())); d != "" {
		t.Errorf("-GET +POST\n%s", d)
	}
	if task.GetContextId() != thread || !ended(task.GetStatus().GetState()) {
		t.Errorf("the task is %v in %q, want an end in %q", task.GetStatus().GetState(), task.GetContextId(), thread)
	}
	h := heardTurn{task: task.GetId(), state: task.GetStatus().GetState(), text: taskText(task)[before:], parts: artifactParts(task)}
	if msg := task.GetStatus().GetMessage(); msg != nil {
		h.status, h.parts = []string{partsText(msg.GetParts())}, append(h.parts, msg.GetParts()...)
	}
	return h
}

// speakSSE reads the stream to its end.
func speakSSE(t *testing.T, m *realMesh, thread, text string) heardTurn {
	t.Helper()
	var h heardTurn
	events := &sse{t: t, lines: bufio.NewScanner(post(t, m, "/message:stream", userMessage(thread, text), ""))}
	for u := events.next(); u != nil; u = events.next() {
		h.hear(t, u, thread)
	}
	return h
}

// speakBrokenSSE loses the connection after two updates and goes on from the
// last event's id, as a browser does: nothing is missed or heard twice.
func speakBrokenSSE(t *testing.T, m *realMesh, thread, text string) heardTurn {
	t.Helper()
	var h heardTurn
	body := post(t, m, "/message:stream", userMessage(thread, text), "")
	events := &sse{t: t, lines: bufio.NewScanner(body)}
	for range 3 { // the task and two updates
		u := events.next()
		if u == nil {
			t.Fatal("the stream ended at once")
		}
		h.hear(t, u, thread)
	}
	_ = body.Close()
	again := &sse{t: t, last: events.last - 1, // the task comes with the id that was asked for
		lines: bufio.NewScanner(post(t, m, "/tasks/"+h.task+":subscribe", nil, strconv.FormatInt(events.last, 10)))}
	for first := true; !ended(h.state); first = false {
		u := again.next()
		if u == nil {
			t.Fatalf("the resumed stream ended before the turn; heard %+v", h)
		}
		if first != (u.GetTask() != nil) {
			t.Errorf("the task must come first, and once: %v", u)
		}
		h.hear(t, u, thread)
	}
	return h
}

// An sse reads server-sent events.
type sse struct {
	t     *testing.T
	lines *bufio.Scanner
	last  int64 // id of the last event that had one
}

// next returns the next update, or nil at the end of the stream.
func (s *sse) next() *a2apb.StreamResponse {
	s.t.Helper()
	var u *a2apb.StreamResponse
	for s.lines.Scan() {
		line := s.lines.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil || n <= s.last {
				s.t.Errorf("event id %q after %d", id, s.last)
			}
			s.last = n
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			u = &a2apb.StreamResponse{}
			if err := protojson.Unmarshal([]byte(data), u); err != nil {
				s.t.Fatalf("%v in %s", err, data)
			}
		}
		if line == "" && u != nil {
			return u
		}
	}
	if err := s.lines.Err(); err != nil {
		s.t.Fatal(err)
	}
	return nil
}

// post sends msg as JSON, or nothing for nil, and returns the body of the answer.
func post(t *testing.T, m *realMesh, path string, msg proto.Message, lastEvent string) io.ReadCloser {
	t.Helper()
	var body []byte
	if msg != nil {
		var err error
		if body, err = protojson.Marshal(msg); err != nil {
			t.Fatal(err)
		}
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if lastEvent != "" {
		header.Set("Last-Event-ID", lastEvent)
	}
	resp := m.request(http.MethodPost, path, header, body)
	if resp.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s %s", path, resp.Status, data)
	}
	return resp.Body
}

// request makes an HTTP request; the body of the answer is closed when the test
// ends.
func (m *realMesh) request(method, path string, header http.Header, body []byte) *http.Response {
	m.t.Helper()
	req, err := http.NewRequestWithContext(timely(m.t), method, "http://"+m.at().HTTP+path, bytes.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// readJSON reads a message.
func readJSON(t *testing.T, body io.Reader, msg proto.Message) {
	t.Helper()
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(data, msg); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}

// get reads the JSON at path as a client without our types does.
func (m *realMesh) get(path string) map[string]any {
	m.t.Helper()
	resp := m.request(http.MethodGet, path, nil, nil)
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		m.t.Fatalf("%s: %s %v", path, resp.Status, err)
	}
	return out
}

func getTask(t *testing.T, m *realMesh, id string) *a2apb.Task {
	t.Helper()
	resp := m.request(http.MethodGet, "/tasks/"+id, nil, nil)
	task := &a2apb.Task{}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET /tasks/%s: %s", id, resp.Status)
	}
	readJSON(t, resp.Body, task)
	return task
}

// taskText is what the task's artifacts say.
func taskText(task *a2apb.Task) string {
	var b strings.Builder
	for _, a := range task.GetArtifacts() {
		b.WriteString(partsText(a.GetParts()))
	}
	return b.String()
}

// openTask returns the thread's task that waits for the user, or "".
func openTask(m *realMesh, thread string) string {
	m.t.Helper()
	resp := m.request(http.MethodGet, "/mesh/v1/threads/"+thread, nil, nil)
	if resp.StatusCode == http.StatusNotFound {
		return ""
	}
	var out struct {
		Thread struct {
			Executions []struct {
				Execution struct{ ID, Kind string }
				State     string
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		m.t.Fatal(err)
	}
	for _, x := range out.Thread.Executions {
		if x.Execution.Kind == string(mesh.KindTurn) && x.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED.String() {
			return x.Execution.ID
		}
	}
	return ""
}
