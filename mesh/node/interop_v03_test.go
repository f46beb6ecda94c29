package node_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	legacy "github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	legacypb "github.com/a2aproject/a2a-go/a2apb"

	"agentmesh/mesh"
)

// v03Clients are the official SDK's clients of A2A v0.3, which know nothing of
// v1.0 or of the mesh.
func v03Clients(t *testing.T, m *testMesh) map[string]a2aclient.Transport {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(web.CloseIdleConnections)
	return map[string]a2aclient.Transport{
		"JSON-RPC": a2aclient.NewJSONRPCTransport("http://"+m.web()+"/", web),
		"gRPC":     a2aclient.NewGRPCTransportFromClient(legacypb.NewA2AServiceClient(m.raw(t))),
	}
}

func v03Say(text string, to *v03Said) *legacy.MessageSendParams {
	m := legacy.NewMessage(legacy.MessageRoleUser, legacy.TextPart{Text: text})
	if to != nil {
		m.TaskID, m.ContextID = to.task, to.thread
	}
	return &legacy.MessageSendParams{Message: m}
}

// v03Said is what a stream told a client of v0.3.
type v03Said struct {
	task   legacy.TaskID
	thread string
	states []legacy.TaskState // each once
	finals int
	last   bool // the last event was a final one
	text   string
}

func v03Hear(t *testing.T, stream iter.Seq2[legacy.Event, error], each func(v03Said)) v03Said {
	t.Helper()
	var s v03Said
	for event, err := range stream {
		if err != nil {
			t.Fatalf("stream broke after %+v: %v", s, err)
		}
		s.last = false
		switch e := event.(type) {
		case *legacy.Task:
			s.task, s.thread = e.ID, e.ContextID
			s.states = append(s.states, e.Status.State)
			for _, a := range e.Artifacts {
				s.text += v03Text(a)
			}
		case *legacy.TaskStatusUpdateEvent:
			if e.Status.State != s.states[len(s.states)-1] {
				s.states = append(s.states, e.Status.State)
			}
			if s.last = e.Final; e.Final {
				s.finals++
			}
		case *legacy.TaskArtifactUpdateEvent:
			s.text += v03Text(e.Artifact)
		}
		if each != nil {
			each(s)
		}
	}
	return s
}

func v03Text(a *legacy.Artifact) string {
	text := ""
	for _, p := range a.Parts {
		if t, ok := p.(legacy.TextPart); ok {
			text += t.Text
		}
	}
	return text
}

// The official SDK's clients of v0.3 do all they can do with a task, across a
// handoff, over JSON-RPC and gRPC (S4-002, S4-054).
func TestInteropTheOfficialGoSDKOfV03Converses(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": greeter, "builder": builder})
	for name, client := range v03Clients(t, m) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			result, err := client.SendMessage(ctx, v03Say("hello", nil))
			task, ok := result.(*legacy.Task)
			if err != nil || !ok || task.Status.State != legacy.TaskStateCompleted || v03Text(task.Artifacts[0]) != "[main] hello" {
				t.Fatalf("SendMessage: %+v, %v", result, err)
			}

			// It is asked something, across a handoff, and answers.
			asked := v03Hear(t, client.SendStreamingMessage(ctx, v03Say("make a skill", nil)), nil)
			want := []legacy.TaskState{legacy.TaskStateSubmitted, legacy.TaskStateWorking, legacy.TaskStateInputRequired}
			if !slices.Equal(asked.states, want) || asked.finals != 1 || !asked.last {
				t.Errorf("the question: %+v, want the states %v and one final event, the last", asked, want)
			}
			done := v03Hear(t, client.SendStreamingMessage(ctx, v03Say("x.y", &asked)), nil)
			if done.task != asked.task || done.states[len(done.states)-1] != legacy.TaskStateCompleted || done.finals != 1 || !done.last {
				t.Errorf("the answer: %+v", done)
			}
			task, err = client.GetTask(ctx, &legacy.TaskQueryParams{ID: asked.task})
			if err != nil || task.Status.State != legacy.TaskStateCompleted || len(task.History) != 3 {
				t.Errorf("GetTask: %+v, %v", task, err)
			}

			waiting := v03Hear(t, client.SendStreamingMessage(ctx, v03Say("make a skill", nil)), nil)
			task, err = client.CancelTask(ctx, &legacy.TaskIDParams{ID: waiting.task})
			if err != nil || task.Status.State != legacy.TaskStateCanceled {
				t.Errorf("CancelTask: %+v, %v", task, err)
			}
			if _, err = client.CancelTask(ctx, &legacy.TaskIDParams{ID: waiting.task}); !errors.Is(err, legacy.ErrTaskNotCancelable) {
				t.Errorf("CancelTask again: %v", err)
			}
			if _, err = client.GetTask(ctx, &legacy.TaskQueryParams{ID: "no-such-task"}); !errors.Is(err, legacy.ErrTaskNotFound) {
				t.Errorf("GetTask of none: %v", err)
			}
		})
	}
}

// The official SDK's clients of v0.3 leave a stream in the middle and
// resubscribe: what they hear then is the whole answer.
func TestInteropTheOfficialGoSDKOfV03Resubscribes(t *testing.T) {
	for _, name := range []string{"JSON-RPC", "gRPC"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			g := newGate(t, 6)
			m := start(t, config(t.TempDir()), map[string]run{"main": g.run})
			client := v03Clients(t, m)[name]
			var id legacy.TaskID
			for event, err := range client.SendStreamingMessage(ctx, v03Say("slowly", nil)) {
				if err != nil {
					t.Fatal(err)
				}
				id = event.TaskInfo().TaskID
				break
			}
			g.let(3)
			n := 0
			again := v03Hear(t, client.ResubscribeToTask(ctx, &legacy.TaskIDParams{ID: id}), func(v03Said) {
				if n++; n == 1 {
					g.let(3)
				}
			})
			if again.text != g.whole("slowly") || again.states[len(again.states)-1] != legacy.TaskStateCompleted || !again.last {
				t.Errorf("heard %+v", again)
			}
		})
	}
}

// The card that gRPC clients of v0.3 ask for is there, and what they say
// reaches the same threads as with v1.0.
func TestInteropV03AndV10ShareTheirThreads(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": recall})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	thread := mesh.NewThreadID()
	for name, client := range v03Clients(t, m) {
		params := v03Say("over "+name, nil)
		params.Message.ContextID = thread
		if _, err := client.SendMessage(ctx, params); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	req := say("over v1.0")
	req.Message.ContextId = thread
	stream, err := m.edge().SendStreamingMessage(plain(t), req)
	heard := hear(t, stream, err)
	for _, want := range []string{"over JSON-RPC", "over gRPC", "over v1.0"} {
		if !strings.Contains(heard.text, "user: "+want+";") {
			t.Errorf("%q is not in the thread: %q", want, heard.text)
		}
	}
	card, err := v03Clients(t, m)["gRPC"].GetAgentCard(ctx)
	if err != nil || card.Name != "agentmesh" || card.ProtocolVersion != "0.3.0" || card.URL == "" {
		t.Errorf("the card: %+v, %v", card, err)
	}
}
