package node_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"regexp"
	"strings"
	"testing"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// A large is a mesh whose main agent answers with a large file, and a user that sends one.
type large struct {
	*testMesh
	sent, given []byte
}

func startLarge(t *testing.T) *large {
	t.Helper()
	m := &large{sent: bytesOf("sent", 3*mesh.MaxEvent/2), given: bytesOf("given", 3*mesh.MaxEvent/2)}
	cfg := withWebhooks(config(t.TempDir()))
	cfg.Auth, cfg.Tokens = "tokens", adminsFile(t)
	m.testMesh = start(t, cfg, map[string]run{"main": func(context.Context, *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			part := &a2apb.Part{Content: &a2apb.Part_Raw{Raw: m.given}, Filename: "given.bin", MediaType: "application/x-test"}
			yield(agent.Artifact{Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: []*a2apb.Part{part}}}, nil)
		}
	}})
	return m
}

// post is what the user is answered to a body.
func (m *large) post(t *testing.T, path string, body []byte) string {
	t.Helper()
	resp, data := m.get(t, http.MethodPost, path, body, of("a", "Content-Type", "application/json")...)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s", path, resp.Status, mesh.Clip(string(data), 300))
	}
	return string(data)
}

// rpcCall is a request of JSON-RPC.
func rpcCall(method, params string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
}

// legacy is the user's message with the file, in the JSON of v0.3 for JSON-RPC, and what is beside it.
func (m *large) legacy(more string) string {
	return fmt.Sprintf(`{"message":{"kind":"message","messageId":%q,"role":"user","parts":[{"kind":"text","text":"look"},{"kind":"file","file":{"bytes":%q,"name":"a b.bin"}}]}%s}`,
		mesh.NewEventID(), base64.StdEncoding.EncodeToString(m.sent), more)
}

// message is the same for v1.0.
func (m *large) message(t *testing.T, hook string) string {
	t.Helper()
	req := with(mesh.NewThreadID(), &a2apb.Part{Content: &a2apb.Part_Raw{Raw: m.sent}, Filename: "a b.bin"})
	if hook != "" {
		req.Configuration = &a2apb.SendMessageConfiguration{TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{Url: hook}}
	}
	data, err := protojson.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// all are the messages of a stream, as JSON.
func all[M any, P interface {
	*M
	proto.Message
}](t *testing.T, stream grpc.ServerStreamingClient[M], err error) string {
	t.Helper()
	var out strings.Builder
	for err == nil {
		var msg P
		if msg, err = stream.Recv(); err == nil {
			out.WriteString(protojson.Format(msg))
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return out.String()
}

// finding R4: files above what is logged at once are a URL over every face, old and new, in
// answers, streams and webhooks, which who is told of it reads with the credential that it has.
func TestLargeFilesAreReadFromWhateverAFaceSays(t *testing.T) {
	m := startLarge(t)
	sent, hooks := m.post(t, "/", rpcCall("message/send", m.legacy(`,"configuration":{"blocking":true}`))), newHook(t)
	var answer struct{ Result struct{ ID string } }
	if err := json.Unmarshal([]byte(sent), &answer); err != nil || answer.Result.ID == "" {
		t.Fatal(mesh.Clip(sent, 300), err)
	}
	old, id := legacypb.NewA2AServiceClient(m.raw(t)), answer.Result.ID
	task, err := old.GetTask(as(plain(t), "a"), &legacypb.GetTaskRequest{Name: "tasks/" + id})
	if err != nil {
		t.Fatal(err)
	}
	_, rest := m.get(t, http.MethodGet, "/v1/tasks/"+id, nil, of("a")...)
	req := legacySay("look")
	req.Request.Parts = append(req.Request.Parts, &legacypb.Part{Part: &legacypb.Part_File{File: &legacypb.FilePart{File: &legacypb.FilePart_FileWithBytes{FileWithBytes: m.sent}}}})
	stream, err := old.SendStreamingMessage(as(plain(t), "a"), req)
	oldStream := all(t, stream, err)
	restBody, err := protojson.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	m.post(t, "/message:send", []byte(m.message(t, hooks.URL)))
	hooks.until(t, "TASK_STATE_COMPLETED")
	oldHooks := newHook(t)
	m.post(t, "/", rpcCall("message/send", m.legacy(`,"configuration":{"blocking":true,"pushNotificationConfig":{"url":"`+oldHooks.URL+`"}}`)))
	oldHooks.until(t, `"completed"`)

	for face, said := range map[string]string{
		"JSON-RPC 0.3, message/send": sent, "JSON-RPC 0.3, tasks/get": m.post(t, "/", rpcCall("tasks/get", `{"id":"`+id+`"}`)),
		"JSON-RPC 0.3, SSE": m.post(t, "/", rpcCall("message/stream", m.legacy(""))), "gRPC 0.3": protojson.Format(task), "gRPC 0.3, stream": oldStream,
		"REST 0.3": string(rest), "REST 0.3, SSE": m.post(t, "/v1/message:stream", restBody),
		"HTTP+JSON, SSE": m.post(t, "/message:stream", []byte(m.message(t, ""))), "JSON-RPC, SSE": m.post(t, "/", rpcCall("SendStreamingMessage", m.message(t, ""))),
		"webhook": hooks.text(t), "webhook 0.3": oldHooks.text(t),
	} {
		t.Run(face, func(t *testing.T) {
			wants := map[string][]byte{"sent": m.sent, "given": m.given}
			if face == "webhook" { // which hears what happens after the message
				delete(wants, "sent")
			}
			m.refersTo(t, said, wants)
		})
	}
}

// text is all that the webhook was told, as JSON.
func (h *hook) text(t *testing.T) string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	data, err := json.Marshal(h.got)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// refersTo checks that what a face said has URLs of the files, which the user reads and nobody else.
func (m *large) refersTo(t *testing.T, said string, files map[string][]byte) {
	t.Helper()
	if strings.Contains(said, mesh.BlobScheme) {
		t.Errorf("it shows what only the log has: %s", mesh.Clip(said[strings.Index(said, mesh.BlobScheme):], 100))
	}
	for name, want := range files {
		url := regexp.MustCompile(`http://[^"\\]*/blobs/` + hashOf(want) + `[^"\\]*`).FindString(said)
		if url == "" {
			t.Errorf("there is no URL of the file %s in %s", name, mesh.Clip(said, 600))
			continue
		}
		if resp, data := m.get(t, http.MethodGet, url, nil, of("a")...); resp.StatusCode != http.StatusOK || !bytes.Equal(data, want) {
			t.Errorf("%s has %d bytes: %s", url, len(data), resp.Status)
		}
		for user, code := range map[string]int{"b": http.StatusNotFound, "eve": http.StatusNotFound, "": http.StatusUnauthorized} {
			headers := of(user)
			if user == "" {
				headers = nil
			}
			if resp, _ := m.get(t, http.MethodGet, url, nil, headers...); resp.StatusCode != code {
				t.Errorf("%q reads %s: %s", user, url, resp.Status)
			}
		}
	}
}
