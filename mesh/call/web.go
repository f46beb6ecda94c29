package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2apb/v0/pbjson"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"agentmesh/mesh"
)

const (
	eventStream = "text/event-stream"
	// maxRefusal bounds what is read of an answer that says no, in bytes.
	maxRefusal = 64 << 10
	// maxWrapped is how often a result may be within another one, as gateways make it.
	maxWrapped = 2
)

// webClient speaks A2A over HTTP, as JSON-RPC or HTTP+JSON. It says what the version
// says, and reads whatever can be understood.
type webClient struct {
	http    *http.Client
	at      *url.URL
	jsonRPC bool
	tenant  string // the agent's own
	old     bool   // v0.3

	deviation func(string) // or nil
}

// An operation is one of A2A's, as both bindings have it.
type operation struct {
	method, old string // of JSON-RPC, by version
	verb        string // of HTTP+JSON
	action      string // the end of the path there
	stream      bool
}

var (
	opSend      = operation{"SendMessage", "message/send", http.MethodPost, "message:send", false}
	opStream    = operation{"SendStreamingMessage", "message/stream", http.MethodPost, "message:stream", true}
	opGet       = operation{"GetTask", "tasks/get", http.MethodGet, "", false}
	opCancel    = operation{"CancelTask", "tasks/cancel", http.MethodPost, ":cancel", false}
	opSubscribe = operation{"SubscribeToTask", "", http.MethodPost, ":subscribe", true}
)

func (c webClient) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	resp, err := c.one(ctx, opSend, "", req)
	if err != nil {
		return nil, err
	}
	switch p := resp.GetPayload().(type) {
	case *a2apb.StreamResponse_Message:
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Message{Message: p.Message}}, nil
	case *a2apb.StreamResponse_Task:
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: p.Task}}, nil
	case *a2apb.StreamResponse_StatusUpdate: // which says what there is to say of the task
		u := p.StatusUpdate
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{
			Task: &a2apb.Task{Id: u.GetTaskId(), ContextId: u.GetContextId(), Status: u.GetStatus()}}}, nil
	case *a2apb.StreamResponse_ArtifactUpdate:
		u := p.ArtifactUpdate
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{
			Task: &a2apb.Task{Id: u.GetTaskId(), ContextId: u.GetContextId(), Artifacts: []*a2apb.Artifact{u.GetArtifact()}}}}, nil
	}
	return &a2apb.SendMessageResponse{}, nil
}

func (c webClient) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[Response, error] {
	return c.stream(ctx, opStream, "", req)
}

func (c webClient) GetTask(ctx context.Context, task string) (*a2apb.Task, error) {
	resp, err := c.one(ctx, opGet, task, nil)
	if err == nil && resp.GetTask() == nil {
		err = misreadError(&unreadable{offset: 0, want: "a task"})
	}
	return resp.GetTask(), err
}

// CancelTask takes any answer that is no refusal.
func (c webClient) CancelTask(ctx context.Context, task string) error {
	_, err := c.one(ctx, opCancel, task, nil)
	if u := (*unreadable)(nil); errors.As(err, &u) {
		return nil
	}
	return err
}

// SubscribeToTask is not asked of v0.3 agents: their streams begin with what
// happens next, so that nobody could tell what was missed.
func (c webClient) SubscribeToTask(ctx context.Context, task string) iter.Seq2[Response, error] {
	if c.old {
		return only(mesh.Errorf(mesh.Unsupported, "call.SubscribeToTask", "A2A v0.3 cannot resume a stream"))
	}
	return c.stream(ctx, opSubscribe, task, nil)
}

// one makes a call that has one answer.
func (c webClient) one(ctx context.Context, op operation, task string, req *a2apb.SendMessageRequest) (*a2apb.StreamResponse, error) {
	for resp, err := range c.stream(ctx, op, task, req) {
		return resp.StreamResponse, err
	}
	return nil, notJSON(nil, io.ErrUnexpectedEOF)
}

// stream makes a call and reads its answers, of which there may be one alone.
func (c webClient) stream(ctx context.Context, op operation, task string, req *a2apb.SendMessageRequest) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) {
		id := uuid.NewString()
		resp, err := c.do(ctx, op, id, task, req)
		if err != nil {
			yield(Response{}, fromWeb(err))
			return
		}
		defer func() {
			if kindOf(resp.Header.Get("Content-Type")) != eventStream { // the connection can be used again
				_, _ = io.CopyN(io.Discard, resp.Body, maxExcerpt)
			}
			_ = resp.Body.Close()
		}()
		for raw, err := range values(resp) {
			var ev *a2apb.StreamResponse
			if err == nil {
				ev, err = c.read(raw, op)
				if err == nil && c.deviation != nil {
					c.compare(resp, raw, ev, op, id)
				}
			}
			if err != nil {
				yield(Response{}, fromWeb(err))
				return
			}
			if !yield(Response{StreamResponse: ev}, nil) {
				return
			}
		}
	}
}

// do sends the request, under the id, and returns an answer that is not a refusal.
func (c webClient) do(ctx context.Context, op operation, id, task string, msg *a2apb.SendMessageRequest) (*http.Response, error) {
	req, err := c.request(ctx, op, id, task, msg)
	if err != nil {
		return nil, err
	}
	headers, err := params(ctx, c.old)
	if err != nil {
		return nil, err
	}
	for key, values := range headers {
		for _, v := range values {
			req.Header.Add(key, v)
		}
	}
	req.Header.Set("Accept", "application/json")
	if op.stream {
		req.Header.Set("Accept", eventStream)
	}
	if a := attached(ctx); a != nil {
		a.To(req)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what there is of it
	return nil, refusal(body, resp.StatusCode, resp.Header.Get("Content-Type"), c.jsonRPC)
}

func (c webClient) request(ctx context.Context, op operation, id, task string, msg *a2apb.SendMessageRequest) (*http.Request, error) {
	if c.jsonRPC {
		payload, err := c.params(task, msg)
		if err != nil {
			return nil, err
		}
		method := op.method
		if c.old {
			method = op.old
		}
		body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": json.RawMessage(payload)})
		if err != nil {
			return nil, mesh.Wrap("call.request", err)
		}
		return post(ctx, http.MethodPost, c.at.String(), body)
	}
	path, u := op.action, c.at
	if task != "" {
		path = "tasks/" + url.PathEscape(task) + op.action
	}
	switch {
	case c.old:
		u = u.JoinPath("v1")
	case c.tenant != "":
		u = u.JoinPath(url.PathEscape(c.tenant))
	}
	var body []byte
	if msg != nil {
		var err error
		if body, err = c.params("", msg); err != nil {
			return nil, err
		}
	}
	return post(ctx, op.verb, u.JoinPath(path).String(), body)
}

func post(ctx context.Context, verb, at string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, verb, at, bytes.NewReader(body))
	if err != nil {
		return nil, mesh.Errorf(mesh.Invalid, "call.request", "The agent's address is not a URL: %w", err)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// params are what is sent, in the words of the version.
func (c webClient) params(task string, msg *a2apb.SendMessageRequest) ([]byte, error) {
	if !c.old {
		var m proto.Message = &a2apb.GetTaskRequest{Tenant: c.tenant, Id: task} // in JSON all of them are like that
		if msg != nil {
			m = routed(msg, c.tenant)
		}
		b, err := protojson.Marshal(m)
		return b, unsendable(err)
	}
	if msg == nil {
		b, err := json.Marshal(map[string]string{"id": task})
		return b, unsendable(err)
	}
	req, err := sdkRequest(msg, c.tenant)
	if err != nil {
		return nil, err
	}
	if !c.jsonRPC {
		b, err := pbjson.ToProtoSendMessageRequest(req)
		return b, unsendable(err)
	}
	b, err := json.Marshal(a2av0.FromV1SendMessageRequest(req))
	return b, unsendable(err)
}

func unsendable(err error) error {
	if err == nil {
		return nil
	}
	return &mesh.Error{Code: mesh.Invalid, Op: "call.request", Detail: "The message cannot be sent to this agent", Err: err}
}

// read reads one answer.
func (c webClient) read(raw []byte, op operation) (*a2apb.StreamResponse, error) {
	tree, err := parse(raw)
	if err != nil {
		return nil, notJSON(raw, err)
	}
	at := []string{}
	obj, _ := tree.(map[string]any)
	if obj["error"] != nil {
		return nil, fault(obj, raw, 0, c.jsonRPC)
	}
	for inner, wrapped := obj["result"]; wrapped && len(at) < maxWrapped; inner, wrapped = obj["result"] {
		tree, at = inner, append(at, "result")
		obj, _ = inner.(map[string]any)
	}
	if tree == nil && op == opCancel {
		return nil, nil
	}
	into := &a2apb.StreamResponse{}
	target := into.ProtoReflect()
	if op == opGet || op == opCancel {
		if task, ok := obj["task"].(map[string]any); ok {
			tree = task
		}
		t := &a2apb.Task{}
		into.Payload = &a2apb.StreamResponse_Task{Task: t}
		target = t.ProtoReflect()
	}
	if err := c.lenient(tree, target); err != nil {
		u := (*unreadable)(nil)
		if !errors.As(err, &u) {
			return nil, err
		}
		u.path = append(at, u.path...)
		u.offset = locate(raw, u.path)
		return nil, misreadError(u)
	}
	return into, nil
}

func (c webClient) lenient(tree any, m protoreflect.Message) error {
	return lenient{v03Proto: c.old && !c.jsonRPC}.message(tree, m)
}

// kindOf is the media type of an answer.
func kindOf(contentType string) string {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = strings.Cut(contentType, ";")
	}
	return strings.ToLower(strings.TrimSpace(kind))
}
