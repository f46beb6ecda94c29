package node_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	legacy "github.com/a2aproject/a2a-go/a2a"

	"agentmesh/mesh"
)

// A webhook that a client of A2A v0.3 names with its message is sent the task
// in the shapes of v0.3, to the end, over JSON-RPC, gRPC and REST.
func TestAWebhookOfV03IsSentTheTaskInItsShapes(t *testing.T) {
	m := start(t, withWebhooks(config(t.TempDir())), map[string]run{"main": echo})
	check := func(t *testing.T, h *hook) {
		h.until(t, `"state":"completed"`)
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, u := range h.got {
			data, err := json.Marshal(u)
			if err != nil || u["kind"] != "task" || u["id"] == "" || strings.Contains(string(data), "TASK_STATE_") || strings.Contains(string(data), "statusUpdate") {
				t.Errorf("the webhook got %s", data)
			}
		}
	}
	for name, client := range v03Clients(t, m) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			h := newHook(t)
			params := v03Say("hello", nil)
			params.Config = &legacy.MessageSendConfig{PushConfig: &legacy.PushConfig{URL: h.URL, Token: "t0ken"}}
			if _, err := client.SendMessage(ctx, params); err != nil {
				t.Fatal(err)
			}
			check(t, h)
		})
	}
	t.Run("REST", func(t *testing.T) {
		h := newHook(t)
		body := `{"message":{"messageId":"` + mesh.NewEventID() + `","role":"ROLE_USER","content":[{"text":"hello"}]},` +
			`"configuration":{"pushNotification":{"url":"` + h.URL + `"}}}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+m.web()+"/v1/message:send", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		web := &http.Client{Transport: &http.Transport{}}
		defer web.CloseIdleConnections()
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("message:send: %s, %v", resp.Status, err)
		}
		check(t, h)
	})
}
