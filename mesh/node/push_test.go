package node_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
)

// hook is a webhook that notes what it is sent.
type hook struct {
	*httptest.Server
	mu   sync.Mutex
	got  []map[string]any
	auth []string
	more chan struct{}
}

func newHook(t testing.TB) *hook {
	h := &hook{more: make(chan struct{}, 100)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var update map[string]any
		if err != nil || json.Unmarshal(body, &update) != nil {
			t.Errorf("webhook got %q, %v", body, err)
		}
		h.mu.Lock()
		h.got, h.auth = append(h.got, update), append(h.auth, r.Header.Get("Authorization"))
		h.mu.Unlock()
		h.more <- struct{}{}
	}))
	t.Cleanup(h.Close)
	return h
}

// until waits until the webhook was told of the end of the task.
func (h *hook) until(t testing.TB, state string) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	for {
		h.mu.Lock()
		over := slices.ContainsFunc(h.got, func(u map[string]any) bool {
			data, _ := json.Marshal(u)
			return strings.Contains(string(data), state)
		})
		h.mu.Unlock()
		if over {
			return
		}
		select {
		case <-h.more:
		case <-deadline:
			t.Fatalf("the webhook was not told of %s; it got %v", state, h.got)
		}
	}
}

// withWebhooks allows webhooks on this machine.
func withWebhooks(cfg node.Config) node.Config {
	cfg.Egress = node.Egress{Allow: []string{"127.0.0.0/8"}, AllowHTTP: true}
	return cfg
}

// A webhook that was named with the message is told what a stream would have
// been, also when the node was restarted in between.
func TestAWebhookIsToldOfATaskAlsoAfterARestart(t *testing.T) {
	cfg := withWebhooks(config(t.TempDir()))
	h := newHook(t)
	m := start(t, cfg, map[string]run{"main": greeter, "builder": builder})
	id := mesh.NewThreadID()
	req := say("make a skill")
	req.Configuration = &a2apb.SendMessageConfiguration{TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{
		Url: h.URL, Authentication: &a2apb.AuthenticationInfo{Scheme: "Bearer", Credentials: "s3cret"}}}
	stream, err := m.edge().SendStreamingMessage(in(t, id), req)
	first := hear(t, stream, err)
	h.until(t, "TASK_STATE_INPUT_REQUIRED")
	m.Stop()

	m = start(t, cfg, map[string]run{"main": greeter, "builder": builder})
	next := say("x.y")
	next.Message.TaskId = first.task.GetId()
	stream, err = m.edge().SendStreamingMessage(in(t, id), next)
	hear(t, stream, err)
	h.until(t, "TASK_STATE_COMPLETED")
	for _, a := range h.auth {
		if a != "Bearer s3cret" {
			t.Errorf("authorization %q", a)
		}
	}
}

// Nobody makes the node call its own network.
func TestAWebhookOnAnInnerAddressIsRefused(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	req := say("hello")
	req.Configuration = &a2apb.SendMessageConfiguration{TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{Url: "https://127.0.0.1:1/hook"}}
	_, err := m.edge().SendMessage(in(t, mesh.NewThreadID()), req)
	if err = rpc.FromStatus(err); !mesh.IsCode(err, mesh.Invalid) && !mesh.IsCode(err, mesh.Denied) {
		t.Errorf("an inner webhook: %v", err)
	}
}
