package jsonrpc_test

import (
	"errors"
	"iter"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"agentmesh/mesh/bind/jsonrpc"
)

// official returns the client of A2A's own SDK.
func official(t *testing.T, s *site) *a2aclient.Client {
	t.Helper()
	c, err := a2aclient.NewFromEndpoints(t.Context(),
		[]*a2a.AgentInterface{a2a.NewAgentInterface(s.url, a2a.TransportProtocolJSONRPC)}, a2aclient.WithJSONRPCTransport(s.client))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func message(text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))}
}

// S4-002, S4-054: a client that was not written for this server gets along.
func TestTheOfficialClientCallsUnaryMethods(t *testing.T) {
	c := official(t, start(t, jsonrpc.Options{}))
	sent, err := c.SendMessage(t.Context(), message("hi"))
	if err != nil {
		t.Fatal(err)
	}
	task, ok := sent.(*a2a.Task)
	if !ok || task.ID != "task-1" || len(task.Artifacts) != 1 || task.Artifacts[0].Parts[0].Text() != "hi" {
		t.Errorf("SendMessage: %+v", sent)
	}
	if got, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "task-1"}); err != nil || got.Status.State != a2a.TaskStateWorking {
		t.Errorf("GetTask: %+v, %v", got, err)
	}
	if got, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: "task-2"}); err != nil || got.Status.State != a2a.TaskStateCanceled {
		t.Errorf("CancelTask: %+v, %v", got, err)
	}
	if got, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{}); err != nil || got.Tasks == nil {
		t.Errorf("ListTasks: %+v, %v", got, err)
	}
	if got, err := c.CreateTaskPushConfig(t.Context(), &a2a.PushConfig{TaskID: "t", URL: "https://x.test"}); err != nil || got.URL != "https://x.test" {
		t.Errorf("CreateTaskPushConfig: %+v, %v", got, err)
	}
	if got, err := c.GetTaskPushConfig(t.Context(), &a2a.GetTaskPushConfigRequest{TaskID: "t", ID: "p"}); err != nil || got.ID != "p" {
		t.Errorf("GetTaskPushConfig: %+v, %v", got, err)
	}
	if got, err := c.ListTaskPushConfigs(t.Context(), &a2a.ListTaskPushConfigRequest{TaskID: "t"}); err != nil || len(got) != 1 {
		t.Errorf("ListTaskPushConfigs: %+v, %v", got, err)
	}
	if err := c.DeleteTaskPushConfig(t.Context(), &a2a.DeleteTaskPushConfigRequest{TaskID: "t", ID: "p"}); err != nil {
		t.Errorf("DeleteTaskPushConfig: %v", err)
	}
	if got, err := c.GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{}); err != nil || got.Name != "extended" {
		t.Errorf("GetExtendedAgentCard: %+v, %v", got, err)
	}
}

// S4-023: streams over the binding, by the same client.
func TestTheOfficialClientReadsStreams(t *testing.T) {
	c := official(t, start(t, jsonrpc.Options{}))
	for name, stream := range map[string]iter.Seq2[a2a.Event, error]{
		"SendStreamingMessage": c.SendStreamingMessage(t.Context(), message("hi")),
		"SubscribeToTask":      c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "task-1"}),
	} {
		var got []a2a.Event
		for e, err := range stream {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, e)
		}
		if len(got) != 4 {
			t.Fatalf("%s: %d events, want 4", name, len(got))
		}
		if _, ok := got[0].(*a2a.Task); !ok {
			t.Errorf("%s: first event %T, want the task", name, got[0])
		}
		if last, ok := got[3].(*a2a.TaskStatusUpdateEvent); !ok || last.Status.State != a2a.TaskStateCompleted {
			t.Errorf("%s: last event %+v, want COMPLETED", name, got[3])
		}
	}
}

func TestTheOfficialClientKnowsTheErrors(t *testing.T) {
	c := official(t, start(t, jsonrpc.Options{}))
	if _, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "none"}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("GetTask: %v, want %v", err, a2a.ErrTaskNotFound)
	}
	if _, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: "done"}); !errors.Is(err, a2a.ErrTaskNotCancelable) {
		t.Errorf("CancelTask: %v, want %v", err, a2a.ErrTaskNotCancelable)
	}
	empty := message("x")
	empty.Message.Parts = nil
	if _, err := c.SendMessage(t.Context(), empty); !errors.Is(err, a2a.ErrInvalidParams) {
		t.Errorf("SendMessage: %v, want %v", err, a2a.ErrInvalidParams)
	}
	for name, tt := range map[string]struct {
		stream iter.Seq2[a2a.Event, error]
		before int
		want   error
	}{
		"refused subscription": {c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "none"}), 0, a2a.ErrTaskNotFound},
		"refused message":      {c.SendStreamingMessage(t.Context(), message("unknown task")), 0, a2a.ErrTaskNotFound},
		"broken stream":        {c.SendStreamingMessage(t.Context(), message("break")), 1, a2a.ErrInternalError},
	} {
		events, failed := 0, error(nil)
		for _, err := range tt.stream {
			if err != nil {
				failed = err
				break
			}
			events++
		}
		if events != tt.before || !errors.Is(failed, tt.want) {
			t.Errorf("%s: %v after %d events, want %v after %d", name, failed, events, tt.want, tt.before)
		}
	}
}
