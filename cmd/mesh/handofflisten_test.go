package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	legacy "github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// An arrival is an update that came, and where in the log it is; 0 where that is not said.
type arrival struct {
	*a2apb.StreamResponse
	seq mesh.Seq
}

// A listener is how a client hears of a turn on a mesh that dies meanwhile: it sends the
// message, as often as it takes and always the same, and goes on with its task where it broke
// off. A client that cannot say where that is begins anew with the task as it is then.
type listener struct {
	send   func(ctx context.Context, k *killed, h heardTurn, req *a2apb.SendMessageRequest) iter.Seq2[arrival, error]
	resume func(ctx context.Context, k *killed, h heardTurn) iter.Seq2[arrival, error]
	anew   bool
}

const byGRPC = "gRPC"

// listeners are all ways of it but the webhook, which listens by itself.
var listeners = map[string]listener{
	byGRPC:            {send: sendGRPC, resume: resumeGRPC},
	"SSE":             {send: sendSSE, resume: resumeSSE},
	"JSON-RPC":        {send: sendRPC, resume: resumeRPC},
	"v0.3":            {send: sendV03, resume: resumeV03, anew: true},
	"late subscriber": {send: sendAndWait, resume: resumeGRPC},
}

// hear sends a message and hears what comes, to the end of the turn.
func (k *killed) hear(t *testing.T, way string, req *a2apb.SendMessageRequest, h heardTurn) heardTurn {
	t.Helper()
	thread := req.GetMessage().GetContextId()
	ctx := inThread(t, thread)
	h.state = 0
	l, listens := listeners[way]
	if !listens {
		return k.hearWebhook(t, ctx, req, h)
	}
	for acked := false; !ended(h.state) && ctx.Err() == nil; {
		updates := l.send(ctx, k, h, req)
		resumed := acked
		if resumed {
			updates = l.resume(ctx, k, h)
		}
		first := true
		for u, err := range updates {
			if err != nil {
				time.Sleep(50 * time.Millisecond)
				break
			}
			if acked = acked || u.GetTask() != nil; first && u.GetTask() != nil {
				first, h.task = false, u.GetTask().GetId()
				if s := u.GetTask().GetStatus().GetState(); resumed && l.anew {
					if h.shown = u.GetTask().GetArtifacts(); ended(s) {
						h.state = s
					}
				}
				continue
			}
			first = false
			if u.seq > 0 {
				if u.seq <= h.seq {
					t.Errorf("update %d after %d", u.seq, h.seq)
				}
				h.seq = u.seq
			}
			if h.hear(t, u.StreamResponse, thread); ended(h.state) { // who subscribes hears more of a task that waits
				break
			}
		}
	}
	return h
}

// received are the updates of a stream of gRPC.
func received(stream interface {
	Recv() (*a2apb.StreamResponse, error)
}, err error) iter.Seq2[arrival, error] {
	return func(yield func(arrival, error) bool) {
		for err == nil {
			var u *a2apb.StreamResponse
			if u, err = stream.Recv(); err == nil && !yield(arrival{u, seqOf(u)}, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(arrival{}, err)
		}
	}
}

func sendGRPC(ctx context.Context, k *killed, _ heardTurn, req *a2apb.SendMessageRequest) iter.Seq2[arrival, error] {
	return received(k.edge().SendStreamingMessage(ctx, req))
}

func resumeGRPC(ctx context.Context, k *killed, h heardTurn) iter.Seq2[arrival, error] {
	call, _ := mesh.CallFrom(ctx)
	call.AfterSeq, call.HasCursor = h.seq, true
	return received(k.edge().SubscribeToTask(mesh.WithCall(ctx, call), &a2apb.SubscribeToTaskRequest{Id: h.task}))
}

// sendAndWait does not wait for the answer, and hears nothing of it until the stream has
// changed hands.
func sendAndWait(ctx context.Context, k *killed, _ heardTurn, req *a2apb.SendMessageRequest) iter.Seq2[arrival, error] {
	return func(yield func(arrival, error) bool) {
		req := proto.CloneOf(req)
		req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
		sent, err := k.edge().SendMessage(ctx, req)
		if err != nil {
			yield(arrival{}, err)
			return
		}
		for started := false; !started && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			for _, e := range readAll(ctx, meshv1.NewThreadServiceClient(k.dial()), req.GetMessage().GetContextId()) {
				started = started || e.GetHandoffStarted() != nil
			}
		}
		yield(arrival{StreamResponse: &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: sent.GetTask()}}}, nil)
	}
}

// events are the updates of server-sent events; in says where in their data they are.
func events(ctx context.Context, k *killed, path string, body []byte, after mesh.Seq, in func([]byte) ([]byte, error)) iter.Seq2[arrival, error] {
	return func(yield func(arrival, error) bool) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+k.http+path, bytes.NewReader(body))
		if err != nil {
			yield(arrival{}, err)
			return
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
		if after > 0 {
			req.Header.Set("Last-Event-ID", strconv.FormatInt(int64(after), 10))
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			yield(arrival{}, err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			yield(arrival{}, errors.New(resp.Status))
			return
		}
		u, lines := arrival{}, bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				n, _ := strconv.ParseInt(id, 10, 64) // what is no number is before all
				u.seq = mesh.Seq(n)
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				u.StreamResponse = new(a2apb.StreamResponse)
				raw, err := in([]byte(data))
				if err == nil {
					err = protojson.Unmarshal(raw, u.StreamResponse)
				}
				if err != nil {
					yield(arrival{}, fmt.Errorf("%w in %s", err, data))
					return
				}
			}
			if lines.Text() == "" && u.StreamResponse != nil {
				if !yield(u, nil) {
					return
				}
				u = arrival{}
			}
		}
		if lines.Err() != nil {
			yield(arrival{}, lines.Err())
		}
	}
}

func itself(data []byte) ([]byte, error) { return data, nil }

func sendSSE(ctx context.Context, k *killed, _ heardTurn, req *a2apb.SendMessageRequest) iter.Seq2[arrival, error] {
	return events(ctx, k, "/message:stream", bodyOf(req), 0, itself)
}

func resumeSSE(ctx context.Context, k *killed, h heardTurn) iter.Seq2[arrival, error] {
	return events(ctx, k, "/tasks/"+h.task+":subscribe", nil, max(h.seq, 1), itself) // the first update is later
}

func bodyOf(m proto.Message) []byte {
	data, err := protojson.Marshal(m)
	if err != nil {
		panic(err) // nothing of it has no JSON form
	}
	return data
}

// called is a call of JSON-RPC.
func called(method string, params proto.Message) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, bodyOf(params))
}

// result is that of an answer of JSON-RPC.
func result(data []byte) ([]byte, error) {
	var answer struct{ Result, Error json.RawMessage }
	err := json.Unmarshal(data, &answer)
	if err == nil && answer.Error != nil {
		err = errors.New(string(answer.Error))
	}
	return answer.Result, err
}

func sendRPC(ctx context.Context, k *killed, _ heardTurn, req *a2apb.SendMessageRequest) iter.Seq2[arrival, error] {
	return events(ctx, k, "/", called("SendStreamingMessage", req), 0, result)
}

func resumeRPC(ctx context.Context, k *killed, h heardTurn) iter.Seq2[arrival, error] {
	return events(ctx, k, "/", called("SubscribeToTask", &a2apb.SubscribeToTaskRequest{Id: h.task}), max(h.seq, 1), result)
}

// legacyUpdates are those of the official SDK's client of A2A v0.3.
func legacyUpdates(all iter.Seq2[legacy.Event, error]) iter.Seq2[arrival, error] {
	return func(yield func(arrival, error) bool) {
		for e, err := range all {
			u := new(a2apb.StreamResponse)
			switch e := e.(type) {
			case *legacy.Task:
				u.Payload = &a2apb.StreamResponse_Task{Task: legacyTask(e)}
			case *legacy.TaskStatusUpdateEvent:
				status := legacyStatus(e.Status)
				u.Payload = &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{TaskId: string(e.TaskID), ContextId: e.ContextID, Status: status}}
			case *legacy.TaskArtifactUpdateEvent:
				artifact := &a2apb.Artifact{ArtifactId: string(e.Artifact.ID), Parts: legacyTexts(e.Artifact.Parts)}
				u.Payload = &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{TaskId: string(e.TaskID), ContextId: e.ContextID, Artifact: artifact, Append: e.Append}}
			}
			if !yield(arrival{StreamResponse: u}, err) || err != nil {
				return
			}
		}
	}
}

func legacyTask(task *legacy.Task) *a2apb.Task {
	out := &a2apb.Task{Id: string(task.ID), ContextId: task.ContextID, Status: legacyStatus(task.Status)}
	for _, a := range task.Artifacts {
		out.Artifacts = append(out.Artifacts, &a2apb.Artifact{ArtifactId: string(a.ID), Parts: legacyTexts(a.Parts)})
	}
	return out
}

func legacyStatus(s legacy.TaskStatus) *a2apb.TaskStatus {
	out := &a2apb.TaskStatus{State: legacyState(s.State)}
	if s.Message != nil {
		out.Message = &a2apb.Message{Parts: legacyTexts(s.Message.Parts)}
	}
	return out
}

// legacyTexts are the texts among the parts.
func legacyTexts(parts legacy.ContentParts) (all []*a2apb.Part) {
	for _, p := range parts {
		if text, ok := p.(legacy.TextPart); ok {
			all = append(all, &a2apb.Part{Content: &a2apb.Part_Text{Text: text.Text}})
		}
	}
	return all
}

func (k *killed) v03() a2aclient.Transport {
	return a2aclient.NewJSONRPCTransport("http://"+k.http+"/", &http.Client{Transport: &http.Transport{DisableKeepAlives: true}})
}

func sendV03(ctx context.Context, k *killed, h heardTurn, req *a2apb.SendMessageRequest) iter.Seq2[arrival, error] {
	msg := legacy.NewMessage(legacy.MessageRoleUser, legacy.TextPart{Text: mesh.TextOf(req.GetMessage())})
	msg.ID, msg.ContextID, msg.TaskID = req.GetMessage().GetMessageId(), req.GetMessage().GetContextId(), legacy.TaskID(h.task)
	return legacyUpdates(k.v03().SendStreamingMessage(ctx, &legacy.MessageSendParams{Message: msg}))
}

// resumeV03 reads the task, and subscribes to one that goes on.
func resumeV03(ctx context.Context, k *killed, h heardTurn) iter.Seq2[arrival, error] {
	return func(yield func(arrival, error) bool) {
		task, err := k.v03().GetTask(ctx, &legacy.TaskQueryParams{ID: legacy.TaskID(h.task)})
		if err != nil {
			yield(arrival{}, err)
			return
		}
		if over := legacyTask(task); ended(over.GetStatus().GetState()) {
			yield(arrival{StreamResponse: &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: over}}}, nil)
			return
		}
		for u, err := range legacyUpdates(k.v03().ResubscribeToTask(ctx, &legacy.TaskIDParams{ID: legacy.TaskID(h.task)})) {
			if !yield(u, err) {
				return
			}
		}
	}
}

// hearWebhook is hear for a webhook, which is told again what the mesh does not know to be told.
func (k *killed) hearWebhook(t *testing.T, ctx context.Context, req *a2apb.SendMessageRequest, h heardTurn) heardTurn {
	t.Helper()
	w := &webhook{t: t, thread: req.GetMessage().GetContextId(), over: make(chan struct{}), again: map[string]bool{}}
	w.heard.shown = h.shown
	server := httptest.NewServer(w)
	defer server.Close()
	req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true, TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{Id: mesh.NewEventID(), Url: server.URL}}
	for acked := false; !acked && ctx.Err() == nil; {
		sent, err := k.edge().SendMessage(ctx, req)
		if acked = err == nil; acked {
			h.task = sent.GetTask().GetId()
		} else {
			time.Sleep(50 * time.Millisecond)
		}
	}
	select {
	case <-w.over:
	case <-ctx.Done():
		t.Error("the webhook was not told of the end")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard.task != h.task {
		t.Errorf("the webhook heard of the task %s, want %s", w.heard.task, h.task)
	}
	h.state, h.shown, h.status = w.heard.state, w.heard.shown, append(h.status, w.heard.status...)
	return h
}
