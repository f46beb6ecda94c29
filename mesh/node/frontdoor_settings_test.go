package node_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

func no() *bool { return new(bool) }

// finding P7: what an operator does not offer, cards do not, and calls are refused as the
// specification says.
func TestSettingsOfWhatIsOfferedAreOnCardsAndKept(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.A2A.Streaming, cfg.A2A.Push = no(), no()
	m := start(t, cfg, map[string]run{"main": echo})
	for _, path := range []string{ownCard, "/agents/main" + ownCard} {
		_, text := get(t, m, path)
		if c := readCard(t, text).GetCapabilities(); c.GetStreaming() || c.GetPushNotifications() {
			t.Errorf("%s offers %v", path, c)
		}
	}
	m.each(t, func(p *play) {
		task := p.send("send", p.say("ask"))
		p.refused("stream", p.streamed(p.say("hi")), codes.FailedPrecondition, "UNSUPPORTED_OPERATION", "")
		s, err := p.client.SubscribeToTask(p.ctx(), &a2apb.SubscribeToTaskRequest{Id: task.GetId()})
		if err == nil {
			_, err = s.Recv()
		}
		p.refused("subscribe", err, codes.FailedPrecondition, "UNSUPPORTED_OPERATION", "")
		const reason = "PUSH_NOTIFICATION_NOT_SUPPORTED"
		_, err = p.client.CreateTaskPushNotificationConfig(p.ctx(), &a2apb.TaskPushNotificationConfig{TaskId: task.GetId(), Url: "https://example.com/"})
		p.refused("create", err, codes.FailedPrecondition, reason, "")
		_, err = p.client.GetTaskPushNotificationConfig(p.ctx(), &a2apb.GetTaskPushNotificationConfigRequest{TaskId: task.GetId(), Id: "c"})
		p.refused("get", err, codes.FailedPrecondition, reason, "")
		_, err = p.client.ListTaskPushNotificationConfigs(p.ctx(), &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: task.GetId()})
		p.refused("list", err, codes.FailedPrecondition, reason, "")
		_, err = p.client.DeleteTaskPushNotificationConfig(p.ctx(), &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: task.GetId(), Id: "c"})
		p.refused("delete", err, codes.FailedPrecondition, reason, "")
		req := p.say("hi")
		req.Configuration = &a2apb.SendMessageConfiguration{TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{Url: "https://example.com/"}}
		_, err = p.client.SendMessage(p.ctx(), req)
		p.refused("with a message", err, codes.FailedPrecondition, reason, "")
	})
	said := `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}}`
	if _, code := rpcV03(t, m, "message/stream", said); code != -32004 {
		t.Errorf("v0.3, stream: %v", code)
	}
	if _, code := rpcV03(t, m, "tasks/pushNotificationConfig/list", `{"id":"x"}`); code != -32003 {
		t.Errorf("v0.3, push: %v", code)
	}
}

// finding P7: an extension that the operator requires is on cards, and who does not say
// that it is supported is refused, whatever is asked.
func TestSettingsOfExtensionsAreRequiredOfEveryCall(t *testing.T) {
	const uri = "https://example.com/ext/v1"
	cfg := config(t.TempDir())
	cfg.A2A.RequiredExtensions = []string{uri}
	m := start(t, cfg, map[string]run{"main": echo})
	_, text := get(t, m, ownCard)
	required := map[string]bool{}
	for _, x := range readCard(t, text).GetCapabilities().GetExtensions() {
		required[x.GetUri()] = x.GetRequired()
	}
	if want := map[string]bool{uri: true, mesh.ExtensionURI: false}; fmt.Sprint(required) != fmt.Sprint(want) {
		t.Errorf("the card has %v, want %v", required, want)
	}
	m.each(t, func(p *play) {
		const reason, field = "EXTENSION_SUPPORT_REQUIRED", "a2a-extensions"
		_, err := p.client.SendMessage(p.ctx(), p.say("hi"))
		p.refused("send", err, codes.FailedPrecondition, reason, field)
		p.refused("stream", p.streamed(p.say("hi")), codes.FailedPrecondition, reason, field)
		_, err = p.client.ListTasks(p.ctx(), &a2apb.ListTasksRequest{})
		p.refused("list", err, codes.FailedPrecondition, reason, field)
		if _, err := p.client.SendMessage(p.ctx("a2a-extensions", uri), p.say("hi")); err != nil {
			p.t.Errorf("with it: %v", err)
		}
	})
	said := `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}}`
	if _, code := rpcV03(t, m, "message/send", said); code != -32004 {
		t.Errorf("v0.3: %v", code)
	}
	if task, code := rpcV03(t, m, "message/send", said, "X-A2A-Extensions", uri); task["kind"] != "task" {
		t.Errorf("v0.3 with it: %v, %v", task, code)
	}
	cfg.A2A.RequiredExtensions = []string{"no uri"}
	if err := cfg.Fill(); mesh.FieldOf(err) != "a2a.required_extensions" {
		t.Errorf("what is no URI: %v", err)
	}
}

// finding P7: where plain refusals are chosen, a stream that is refused is JSON, also to
// clients that ask for events; otherwise these get an event.
func TestSettingsOfRefusalsArePlainWhereTheOperatorSaysSo(t *testing.T) {
	for chosen, want := range map[bool]string{false: "text/event-stream", true: "application/json"} {
		cfg := config(t.TempDir())
		cfg.A2A.PlainRefusals = chosen
		m := start(t, cfg, map[string]run{"main": echo})
		for _, method := range []string{"SendStreamingMessage", "message/stream"} {
			resp, text := post(t, m, "/", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"message":{"messageId":"m"}}}`, "Accept", "text/event-stream")
			if got := resp.Header.Get("Content-Type"); got != want || !strings.Contains(text, "-32602") {
				t.Errorf("plain: %v, %s: %s %s, want %s", chosen, method, got, text, want)
			}
		}
	}
}

// finding P7: whether a message of v0.3 is waited for that does not say so is the
// operator's choice; one that says so is, or is not.
func TestSettingsOfV03SayWhetherMessagesAreWaitedFor(t *testing.T) {
	for _, waits := range []bool{true, false} {
		cfg := config(t.TempDir())
		cfg.A2A.V03Blocking = &waits
		release := make(chan struct{})
		m := start(t, cfg, map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
			return func(yield func(agent.Output, error) bool) {
				if !waits && inv.Text() != "soon" {
					select {
					case <-release:
					case <-ctx.Done():
					}
				}
				yield(agent.Text{Text: "done"}, nil)
			}
		}})
		over := func(state any) bool { return state == "completed" || state == "TASK_STATE_COMPLETED" }
		for name, config := range map[string]string{"nothing": "", "no word of it": `,"configuration":{"historyLength":1}`} {
			task, code := rpcV03(t, m, "message/send", `{"message":{"kind":"message","messageId":"`+mesh.NewEventID()+`","role":"user","parts":[{"kind":"text","text":"hi"}]}`+config+`}`)
			st, _ := task["status"].(map[string]any)
			if over(st["state"]) != waits {
				t.Errorf("waits: %v, %s over JSON-RPC: %v, %v", waits, name, task, code)
			}
			_, text := post(t, m, "/v1/message:send", `{"message":{"messageId":"`+mesh.NewEventID()+`","role":"ROLE_USER","content":[{"text":"hi"}]}`+config+`}`)
			if strings.Contains(text, "TASK_STATE_COMPLETED") != waits {
				t.Errorf("waits: %v, %s over REST: %s", waits, name, text)
			}
		}
		bare := legacySay("hi")
		bare.Configuration = nil
		res, err := legacypb.NewA2AServiceClient(m.raw(t)).SendMessage(plain(t), bare)
		if err != nil || over(res.GetTask().GetStatus().GetState().String()) != waits {
			t.Errorf("waits: %v, nothing over gRPC: %v, %v", waits, res, err)
		}
		task, _ := rpcV03(t, m, "message/send", `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"soon"}]},"configuration":{"blocking":true}}`)
		if st, _ := task["status"].(map[string]any); !over(st["state"]) {
			t.Errorf("waits: %v, told to wait: %v", waits, task)
		}
		close(release)
	}
}
