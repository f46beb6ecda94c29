package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// asksIn begins a session with a target of the kind, which asks, and returns its task.
func asksIn(t *testing.T, m *realMesh, thread, kind string) (target, task string) {
	t.Helper()
	target, line := kind, "to="+kind+" act=ask"
	if kind == castBuiltin {
		target, line = "skill-builder", "to=skill-builder act=ask Help me build a skill for converting currencies"
	}
	h := speakGRPC(t, m, thread, line)
	if h.state.String() != stateInput {
		t.Fatalf("ended %v: %q %q", h.state, h.text, h.status)
	}
	return target, h.task
}

// left checks that the thread's session with the target ended as its user wanted, in its task,
// and that the lead said what is back.
func left(t *testing.T, m *realMesh, thread, kind, target, task, back string) {
	t.Helper()
	c := cell{"leaving", kind, ending{"exit", stateComplete, back, "user:local cancelled"}}
	c.check(t, m, thread, target, task, taskText(getTask(t, m, task)), 2)
	th, err := meshv1.NewThreadServiceClient(m.dial()).GetThread(inThread(t, thread), &meshv1.GetThreadRequest{ThreadId: thread})
	if err != nil {
		t.Fatal(err)
	}
	if at := th.GetThread().GetSession(); at.GetAgent() != target || at.GetResumable() != (kind == castBuiltin) || th.GetThread().GetActiveAgent() != "lead" {
		t.Errorf("the session is %v, and %s has the conversation; want what was noted kept, and the lead", at, th.GetThread().GetActiveAgent())
	}
	for _, e := range m.log(thread) {
		if d := e.GetDispatchSettled(); d != nil && whoseExecution(m.log(thread), d.GetChild()) == target &&
			(d.GetState().String() != stateCanceled || d.GetReason() != mesh.ReasonHandedOff) {
			t.Errorf("%s ended %v %s", target, d.GetState(), d.GetReason())
		}
	}
}

// S4-036: whatever way its user has into the mesh, the whole message "exit" leaves whatever kind of
// agent in a process of its own that asks: one task with legal states, main has the last word in it,
// and what the agent noted is kept.
func TestTheUserLeavesWhateverAgentByWhateverWay(t *testing.T) {
	t.Parallel()
	m := meshOf(t, "agent_return: 10m", "egress: {allow: [127.0.0.0/8], allow_http: true}\n")
	for _, kind := range castKinds {
		m.cast(t, kind, kind)
	}
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		for _, kind := range append([]string{castBuiltin}, castKinds...) {
			t.Run(way+", "+kind, func(t *testing.T) {
				t.Parallel()
				id := mesh.NewThreadID()
				target, task := asksIn(t, m, id, kind)
				if h := ways[way](t, m, id, task, "exit"); h.task != task || h.state.String() != stateComplete || h.text != "Back: cancelled." {
					t.Errorf("heard %v in %s: %q %q, want main in %s", h.state, h.task, h.text, h.status, task)
				}
				left(t, m, id, kind, target, task, "Back: cancelled.")
			})
		}
	}
	for _, way := range slices.Sorted(maps.Keys(buttons)) {
		for _, kind := range []string{castBuiltin, castV03} {
			t.Run(way+" with data, "+kind, func(t *testing.T) {
				t.Parallel()
				id := mesh.NewThreadID()
				target, task := asksIn(t, m, id, kind)
				buttons[way](t, m, id, task, true)
				left(t, m, id, kind, target, task, "Lead heard: I have no time for that")
			})
		}
	}
	t.Run("with data that is none", func(t *testing.T) {
		t.Parallel()
		id := mesh.NewThreadID()
		_, task := asksIn(t, m, id, castStreaming)
		before := len(m.log(id))
		for _, way := range slices.Sorted(maps.Keys(buttons)) {
			if got := buttons[way](t, m, id, task, "yes"); !strings.Contains(got, "message.metadata."+mesh.ExtensionURI+".exit") || !strings.Contains(got, "must be true or false") {
				t.Errorf("%s: answered %s", way, got)
			}
		}
		if log := m.log(id); len(log) != before {
			t.Errorf("the log has %d events more", len(log)-before)
		}
	})
}

// buttons send a message that leaves by data, as a program's button does, and says more; they
// return all that comes back.
var buttons = map[string]func(t *testing.T, m *realMesh, thread, task string, exit any) string{
	"REST": func(t *testing.T, m *realMesh, thread, task string, exit any) string {
		return pushed(t, m, "/message:send", "", thread, task, exit)
	},
	"SSE": func(t *testing.T, m *realMesh, thread, task string, exit any) string {
		return pushed(t, m, "/message:stream", "", thread, task, exit)
	},
	"JSON-RPC": func(t *testing.T, m *realMesh, thread, task string, exit any) string {
		return pushed(t, m, "/", "SendStreamingMessage", thread, task, exit)
	},
	"v0.3": func(t *testing.T, m *realMesh, thread, task string, exit any) string {
		return pushed(t, m, "/", "message/stream", thread, task, exit)
	},
}

// pushed posts the message to the path, by the method of JSON-RPC if there is one.
func pushed(t *testing.T, m *realMesh, path, method, thread, task string, exit any) string {
	t.Helper()
	header := http.Header{"Content-Type": {"application/json"}}
	header.Set("A2A-Version", "1.0")
	part, msg := map[string]any{"text": "I have no time for that"}, map[string]any{
		"messageId": mesh.NewEventID(), "contextId": thread, "taskId": task, "role": a2apb.Role_ROLE_USER.String(),
		"metadata": map[string]any{mesh.ExtensionURI: map[string]any{"exit": exit}},
	}
	if method == "message/stream" {
		part["kind"], msg["kind"], msg["role"] = "text", "message", "user"
		header.Del("A2A-Version")
	}
	msg["parts"] = []any{part}
	body := map[string]any{"message": msg}
	if method != "" {
		body = map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": body}
	}
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp := m.request(http.MethodPost, path, header, data)
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", string(all))
}
