package v03_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	v10 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

func restSay(text string) string {
	return fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER","content":[{"text":%q}]}}`, mesh.NewEventID(), text)
}

// The REST binding has the JSON of the v0.3 proto: content, final and the enums
// of the proto.
func TestRESTHasTheShapesOfV03(t *testing.T) {
	w := newWorld(t)
	answer := w.read(w.do(http.MethodPost, "/v1/message:send", restSay("hello")))
	id := get(answer, "task.id").(string)
	for path, want := range map[string]any{
		"task.status.state": "TASK_STATE_COMPLETED", "task.history.0.content.0.text": "hello",
		"task.history.0.role": "ROLE_USER", "task.artifacts.0.parts.0.text": "hello",
	} {
		if got := get(answer, path); got != want {
			t.Errorf("message:send: %s is %v, want %v", path, got, want)
		}
	}
	if got := get(w.read(w.do(http.MethodGet, "/v1/tasks/"+id+"?historyLength=1", "")), "id"); got != id {
		t.Errorf("the task has the id %v, want %v", got, id)
	}
	var seen []string
	for e := range w.events(w.do(http.MethodPost, "/v1/message:stream", restSay("ask"))) {
		seen = append(seen, strings.Join(keys(e.data), " "))
	}
	want := []string{
		"content contextId history id messageId role state status task text",
		"contextId state status statusUpdate taskId",
		"content contextId final message messageId role state status statusUpdate taskId text",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("members of the events (-want +got):\n%s", diff)
	}
	canceled := w.read(w.do(http.MethodPost, "/v1/message:send", strings.Replace(restSay("slow"), `{"message"`, `{"configuration":{"blocking":false},"message"`, 1)))
	canceled = w.read(w.do(http.MethodPost, "/v1/tasks/"+get(canceled, "task.id").(string)+":cancel", "{}"))
	if got := get(canceled, "status.state"); got != "TASK_STATE_CANCELLED" {
		t.Errorf("the state is %v, want TASK_STATE_CANCELLED, as v0.3 spells it", got)
	}
}

// A body that says nothing of waiting waits.
func TestRESTWaitsUnlessToldNotTo(t *testing.T) {
	w := newWorld(t)
	body := strings.Replace(restSay("hello"), `{"message"`, `{"configuration":{"historyLength":1},"message"`, 1)
	if got := get(w.read(w.do(http.MethodPost, "/v1/message:send", body)), "task.status.state"); got != "TASK_STATE_COMPLETED" {
		t.Errorf("the state is %v, want TASK_STATE_COMPLETED", got)
	}
}

func TestRESTErrors(t *testing.T) {
	w := newWorld(t)
	done := get(w.read(w.do(http.MethodPost, "/v1/message:send", restSay("hello"))), "task.id").(string)
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		http               int
		code               float64
	}{
		"no such task":         {"GET", "/v1/tasks/none", "", nil, 404, -32001},
		"another's task":       {"GET", "/v1/tasks/" + done, "", []string{"Authorization", "Bearer b"}, 404, -32001},
		"another's tenant":     {"GET", "/v1/tasks/" + done, "", []string{"Tenant-Id", "b"}, 403, -31403},
		"nobody":               {"GET", "/v1/tasks/" + done, "", []string{"Authorization", ""}, 401, -31401},
		"a task that is over":  {"POST", "/v1/tasks/" + done + ":cancel", "", nil, 400, -32002},
		"a stream that is":     {"POST", "/v1/tasks/" + done + ":subscribe", "", nil, 400, -32004},
		"no JSON":              {"POST", "/v1/message:send", "{", nil, 400, -32602},
		"no message":           {"POST", "/v1/message:stream", "{}", nil, 400, -32602},
		"no number":            {"GET", "/v1/tasks/" + done + "?historyLength=x", "", nil, 400, -32602},
		"no state":             {"GET", "/v1/tasks?status=x", "", nil, 400, -32602},
		"no path":              {"GET", "/v1/nothing", "", nil, 404, -32001},
		"no path in a task":    {"GET", "/v1/tasks/x/y", "", nil, 404, -32001},
		"another action":       {"POST", "/v1/tasks/x:y", "", nil, 404, -32001},
		"another method":       {"PUT", "/v1/tasks/x", "", nil, 405, -32601},
		"another version":      {"GET", "/v1/tasks/" + done + "?A2A-Version=1.0", "", nil, 400, -32004},
		"another content type": {"POST", "/v1/message:send", "{}", []string{"Content-Type", "text/plain"}, 415, -32005},
		"no push config":       {"POST", "/v1/tasks/" + done + "/pushNotificationConfigs", "{}", nil, 400, -32602},
	} {
		t.Run(name, func(t *testing.T) {
			resp := w.do(c.method, c.path, c.body, c.headers...)
			body := w.read(resp)
			if resp.StatusCode != c.http || body["code"] != c.code || get(body, "error.code") != float64(c.http) {
				t.Errorf("%d %v, want %d and the code %v", resp.StatusCode, body, c.http, c.code)
			}
			if known := body["type"] == "TaskNotFoundError"; known != (c.code == -32001) {
				t.Errorf("the type is %v", body["type"])
			}
			if _, isObject := body["data"].(map[string]any); !isObject || body["message"] == "" {
				t.Errorf("the body is %v, want a message and data that is an object", body)
			}
			if (resp.StatusCode == 401) != (resp.Header.Get("WWW-Authenticate") != "") || (resp.StatusCode == 405) != (resp.Header.Get("Allow") != "") {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
}

// The card is the one for everybody where there is no extended one, in the
// words of v0.3 and with its addresses of v0.3 alone.
func TestCardsAreThoseOfV03(t *testing.T) {
	w := newWorld(t)
	check := func(what string, card any, scheme string) {
		t.Helper()
		for path, want := range map[string]any{
			"name": "desk", "protocolVersion": "0.3.0", "url": "http://desk.test/v03", "preferredTransport": "JSONRPC",
			"additionalInterfaces.0.url": "http://desk.test/v03", "skills.0.id": "echo", scheme: "bearer",
		} {
			if got := get(card, path); got != want {
				t.Errorf("%s: %s is %v, want %v", what, path, got, want)
			}
		}
		if k := keys(card); slices.Contains(k, "supportedInterfaces") || slices.Contains(k, "securityRequirements") || slices.Contains(k, "signatures") {
			t.Errorf("%s: members %v", what, k)
		}
		if get(card, "security") == nil || get(card, "additionalInterfaces.1") != nil {
			t.Errorf("%s: %v", what, card)
		}
	}
	check("REST", w.read(w.do(http.MethodGet, "/v1/card", "")), "securitySchemes.bearer.httpAuthSecurityScheme.scheme")
	w.desk.extended = proto.CloneOf(w.desk.card)
	w.desk.extended.Signatures = []*v10.AgentCardSignature{{Protected: "x", Signature: "y"}}
	w.desk.extended.Skills[0].SecurityRequirements = w.desk.card.SecurityRequirements
	w.desk.extended.Capabilities.ExtendedAgentCard = proto.Bool(true)
	check("REST, extended", w.read(w.do(http.MethodGet, "/v1/card", "")), "securitySchemes.bearer.httpAuthSecurityScheme.scheme")
	card := w.rpc("agent/getAuthenticatedExtendedCard", "null")["result"]
	check("JSON-RPC, extended", card, "securitySchemes.bearer.scheme")
	if get(card, "supportsAuthenticatedExtendedCard") != true || get(card, "securitySchemes.bearer.type") != "http" || get(card, "skills.0.security.0.bearer") == nil {
		t.Errorf("the extended card is %v", card)
	}
}

// The client of the official SDK for v0.3 over REST does all it can.
func TestTheRESTClientOfTheSDKConverses(t *testing.T) {
	w := newWorld(t)
	ctx := asTenant(t, "a")
	client, err := a2av0.NewRESTTransport(a2av0.RESTTransportConfig{URL: w.http, Client: &http.Client{Transport: withToken{w.web.Transport}}})
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string, to a2a.TaskInfo) *a2a.SendMessageRequest {
		m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
		m.TaskID, m.ContextID = to.TaskID, to.ContextID
		return &a2a.SendMessageRequest{Message: m}
	}
	result, err := client.SendMessage(ctx, nil, say("hello", a2a.TaskInfo{}))
	if task, ok := result.(*a2a.Task); err != nil || !ok || task.Status.State != a2a.TaskStateCompleted || task.Artifacts[0].Parts[0].Text() != "hello" {
		t.Fatalf("SendMessage: %+v, %v", result, err)
	}
	var info a2a.TaskInfo
	var states []a2a.TaskState
	for e, err := range client.SendStreamingMessage(ctx, nil, say("ask", info)) {
		if err != nil {
			t.Fatal(err)
		}
		info = e.TaskInfo()
		if s, ok := e.(*a2a.TaskStatusUpdateEvent); ok {
			states = append(states, s.Status.State)
		}
	}
	if want := []a2a.TaskState{a2a.TaskStateWorking, a2a.TaskStateInputRequired}; !slices.Equal(states, want) {
		t.Errorf("states %v, want %v", states, want)
	}
	task, err := client.GetTask(ctx, nil, &a2a.GetTaskRequest{ID: info.TaskID})
	if err != nil || len(task.History) != 1 || task.History[0].Parts[0].Text() != "ask" {
		t.Errorf("GetTask: %+v, %v", task, err)
	}
	for e, err := range client.SubscribeToTask(ctx, nil, &a2a.SubscribeToTaskRequest{ID: info.TaskID}) {
		if err != nil || e.TaskInfo() != info {
			t.Errorf("SubscribeToTask: %+v, %v", e, err)
		}
		break
	}
	set, err := client.CreateTaskPushConfig(ctx, nil, &a2a.PushConfig{TaskID: info.TaskID, ID: "mine", URL: "https://hook.test"})
	if err != nil || set.ID != "mine" || set.TaskID != info.TaskID {
		t.Errorf("CreateTaskPushConfig: %+v, %v", set, err)
	}
	if got, err := client.GetTaskPushConfig(ctx, nil, &a2a.GetTaskPushConfigRequest{TaskID: info.TaskID, ID: "mine"}); err != nil || got.URL != "https://hook.test" {
		t.Errorf("GetTaskPushConfig: %+v, %v", got, err)
	}
	if all, err := client.ListTaskPushConfigs(ctx, nil, &a2a.ListTaskPushConfigRequest{TaskID: info.TaskID}); err != nil || len(all) != 1 {
		t.Errorf("ListTaskPushConfigs: %+v, %v", all, err)
	}
	if err := client.DeleteTaskPushConfig(ctx, nil, &a2a.DeleteTaskPushConfigRequest{TaskID: info.TaskID, ID: "mine"}); err != nil {
		t.Errorf("DeleteTaskPushConfig: %v", err)
	}
	if task, err = client.CancelTask(ctx, nil, &a2a.CancelTaskRequest{ID: info.TaskID}); err != nil || task.Status.State != a2a.TaskStateCanceled {
		t.Errorf("CancelTask: %+v, %v", task, err)
	}
	if _, err = client.CancelTask(ctx, nil, &a2a.CancelTaskRequest{ID: info.TaskID}); !errors.Is(err, a2a.ErrTaskNotCancelable) {
		t.Errorf("CancelTask again: %v", err)
	}
	if _, err = client.GetTask(ctx, nil, &a2a.GetTaskRequest{ID: "none"}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("GetTask of none: %v", err)
	}
}
