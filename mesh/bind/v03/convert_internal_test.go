package v03

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// The translation takes states and roles by their numbers.
func TestStatesAndRolesHaveTheSameNumbers(t *testing.T) {
	for n, name := range a2apb.TaskState_name {
		name = strings.Replace(name, "CANCELED", "CANCELLED", 1) // spelled otherwise in v0.3
		if got := legacypb.TaskState_name[n]; got != name {
			t.Errorf("state %d is %s in v0.3, want %s", n, got, name)
		}
	}
	for n, name := range a2apb.Role_name {
		if got := legacypb.Role_name[n]; got != name {
			t.Errorf("role %d is %s in v0.3, want %s", n, got, name)
		}
	}
}

func TestNamesOfTasksAndConfigs(t *testing.T) {
	for name, want := range map[string][3]string{
		"tasks/x":                             {"x", "", "ok"},
		"tasks/x/pushNotificationConfigs":     {"x", "", "ok"},
		"tasks/x/pushNotificationConfigs/c":   {"x", "c", "ok"},
		"tasks/":                              {"", "", ""},
		"":                                    {"", "", ""},
		"x":                                   {"", "", ""},
		"threads/x":                           {"", "", ""},
		"tasks/x/y":                           {"", "", ""},
		"tasks/x/pushNotificationConfigs/c/d": {"", "", ""},
	} {
		task, config, err := fromName("test", "name", name)
		if task != want[0] || config != want[1] || (err == nil) != (want[2] == "ok") {
			t.Errorf("%q is task %q and config %q: %v", name, task, config, err)
		}
	}
}

// What v0.3 has no form for is left out, and does not break the stream.
func TestWhatAgentsGetWrongIsStillShown(t *testing.T) {
	for name, event := range map[string]*a2apb.StreamResponse{
		"a part without content": {Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
			TaskId: "t", Artifact: &a2apb.Artifact{Parts: []*a2apb.Part{{}, {Content: &a2apb.Part_Text{Text: "x"}}}}}}},
		"a task without status": {Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{Id: "t"}}},
		"data that is null":     {Payload: &a2apb.StreamResponse_Message{Message: &a2apb.Message{Parts: []*a2apb.Part{{Content: &a2apb.Part_Data{}}}}}},
		"an update of nothing":  {Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{}}},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := eventResult(event)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(result)
			if err != nil || !bytes.HasPrefix(raw, []byte(`{"kind":`)) {
				t.Errorf("JSON-RPC: %s, %v", raw, err)
			}
			shape, err := newProtoJSON()
			if err != nil {
				t.Fatal(err)
			}
			if raw, err = shape.append(nil, toEvent(event)); err != nil || !json.Valid(raw) {
				t.Errorf("REST: %s, %v", raw, err)
			}
		})
	}
}

// A stream ends once, and only where v0.3 says.
func TestTurnsEndOnce(t *testing.T) {
	task := func(s a2apb.TaskState) *a2apb.StreamResponse {
		return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{Id: "t", Status: &a2apb.TaskStatus{State: s}}}}
	}
	update := func(s a2apb.TaskState) *a2apb.StreamResponse {
		return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{Status: &a2apb.TaskStatus{State: s}}}}
	}
	for name, c := range map[string]struct {
		seen   []*a2apb.StreamResponse
		over   bool
		ending bool
	}{
		"nothing":              {nil, false, false},
		"a task at work":       {[]*a2apb.StreamResponse{task(a2apb.TaskState_TASK_STATE_WORKING)}, false, false},
		"a task that is over":  {[]*a2apb.StreamResponse{task(a2apb.TaskState_TASK_STATE_FAILED)}, false, true},
		"a task that asks":     {[]*a2apb.StreamResponse{task(a2apb.TaskState_TASK_STATE_INPUT_REQUIRED)}, false, true},
		"an update that asks":  {[]*a2apb.StreamResponse{task(a2apb.TaskState_TASK_STATE_WORKING), update(a2apb.TaskState_TASK_STATE_INPUT_REQUIRED)}, true, false},
		"a wait for a sign-in": {[]*a2apb.StreamResponse{task(a2apb.TaskState_TASK_STATE_WORKING), update(a2apb.TaskState_TASK_STATE_AUTH_REQUIRED)}, false, false},
	} {
		var turn turn
		for _, r := range c.seen {
			turn.saw(r)
		}
		over := turn.over
		last := turn.ending()
		if over != c.over || (last != nil) != c.ending || turn.ending() != nil {
			t.Errorf("%s: over %v, ending %v", name, over, last)
		}
		if last != nil && !toEvent(last).GetStatusUpdate().GetFinal() {
			t.Errorf("%s: the ending %v is not final", name, last)
		}
	}
}

// Whatever comes in is a message or refused, and what is a message is the same
// when it has been to the wire.
func FuzzSendParams(f *testing.F) {
	f.Add([]byte(`{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"x"}]}}`))
	f.Add([]byte(`{"message":{"parts":[{"kind":"file","file":{"bytes":"AAE=","name":"n","mimeType":"m"}},{"kind":"data","data":{"value":[1]},"metadata":{"data_part_compat":true}}]},"configuration":{"blocking":false,"historyLength":0,"pushNotificationConfig":{"url":"u","authentication":{"schemes":[]}}}}`))
	f.Add([]byte(`{"message":null}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, bad := sendParams(raw, false)
		if bad != nil {
			if bad.Message() == "" {
				t.Error("refused without a word")
			}
			return
		}
		wire, err := proto.Marshal(m)
		if err != nil {
			t.Fatalf("cannot be sent: %v", err)
		}
		back := &a2apb.SendMessageRequest{}
		if err := proto.Unmarshal(wire, back); err != nil || !proto.Equal(m, back) {
			t.Errorf("sent %v, arrived %v: %v", m, back, err)
		}
	})
}

// Whatever a request is, it can be answered with JSON that has its id.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","method":"message/send","params":{}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":{}}`))
	f.Add([]byte(`[]`))
	f.Add([]byte("{\"id\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, fault := parse(raw)
		if fault == nil {
			fault = faultOf(invalid("x", "y"))
		}
		if out := e.failed(fault); !json.Valid(out) || bytes.ContainsAny(out, "\n\r") {
			t.Errorf("the answer %q is not JSON on one line", out)
		}
	})
}

// Whatever the body of a REST request is, it is a message or refused.
func FuzzRESTBody(f *testing.F) {
	shape, err := newProtoJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"message":{"messageId":"m","role":"ROLE_USER","content":[{"text":"x"},{"file":{"fileWithBytes":"QUFFPQ=="}},{"data":{"data":{"a":1}}}]}}`))
	f.Add([]byte(`{"message":{"parts":[{}]},"configuration":{"blocking":true}}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := &legacypb.SendMessageRequest{}
		if bad := shape.read(raw, in); bad != nil {
			return
		}
		if _, err := proto.Marshal(fromSend(in, false)); err != nil {
			t.Errorf("cannot be sent: %v", err)
		}
	})
}
