package node_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// sdkClient is a client of the official Go SDK that knows nothing of the mesh
// but where its card is, over the transport.
func sdkClient(ctx context.Context, t *testing.T, m *testMesh, transport sdk.TransportProtocol) *a2aclient.Client {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(web.CloseIdleConnections)
	card, err := agentcard.NewResolver(web).Resolve(ctx, "http://"+m.web())
	if err != nil {
		t.Fatal(err)
	}
	client, err := a2aclient.NewFromCard(ctx, card,
		a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []sdk.TransportProtocol{transport}}),
		a2aclient.WithRESTTransport(web), a2agrpc.WithGRPCTransport(grpc.WithTransportCredentials(insecureCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Destroy() })
	return client
}

// sdkSaid is what a stream told a client of the SDK.
type sdkSaid struct {
	task   sdk.TaskInfo
	states []sdk.TaskState
	text   string
}

// sdkHear reads a stream and calls each, if there is one, after every update.
func sdkHear(t *testing.T, stream iter.Seq2[sdk.Event, error], each func(sdkSaid)) sdkSaid {
	t.Helper()
	var s sdkSaid
	for event, err := range stream {
		if err != nil {
			t.Fatalf("stream broke after %+v: %v", s, err)
		}
		switch e := event.(type) {
		case *sdk.Task:
			s.task = e.TaskInfo()
			s.states = append(s.states, e.Status.State)
			s.text += sdkText(e.Artifacts...)
		case *sdk.TaskStatusUpdateEvent:
			if e.Status.State != s.states[len(s.states)-1] {
				s.states = append(s.states, e.Status.State)
			}
		case *sdk.TaskArtifactUpdateEvent:
			s.text += sdkText(e.Artifact)
		}
		if each != nil {
			each(s)
		}
	}
	return s
}

func sdkText(artifacts ...*sdk.Artifact) string {
	text := ""
	for _, a := range artifacts {
		for _, p := range a.Parts {
			text += p.Text()
		}
	}
	return text
}

func sdkSay(text string, to *sdkSaid) *sdk.SendMessageRequest {
	m := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))
	if to != nil {
		m.TaskID, m.ContextID = to.task.TaskID, to.task.ContextID
	}
	return &sdk.SendMessageRequest{Message: m}
}

// The official SDK's client finds the mesh by its card and does all it can do
// with a task, over gRPC and over REST, without knowing what the mesh is.
func TestInteropTheOfficialGoSDKConverses(t *testing.T) {
	for _, transport := range []sdk.TransportProtocol{sdk.TransportProtocolGRPC, sdk.TransportProtocolHTTPJSON} {
		t.Run(string(transport), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			m := start(t, config(t.TempDir()), map[string]run{"main": greeter, "builder": builder})
			client := sdkClient(ctx, t, m, transport)

			result, err := client.SendMessage(ctx, sdkSay("hello", nil))
			task, ok := result.(*sdk.Task)
			if err != nil || !ok || task.Status.State != sdk.TaskStateCompleted || sdkText(task.Artifacts...) != "[main] hello" {
				t.Fatalf("SendMessage: %+v, %v", result, err)
			}

			// It is asked something, across a handoff, and answers.
			asked := sdkHear(t, client.SendStreamingMessage(ctx, sdkSay("make a skill", nil)), nil)
			if want := []sdk.TaskState{sdk.TaskStateSubmitted, sdk.TaskStateWorking, sdk.TaskStateInputRequired}; !slices.Equal(asked.states, want) {
				t.Errorf("the question took %v, want %v", asked.states, want)
			}
			done := sdkHear(t, client.SendStreamingMessage(ctx, sdkSay("x.y", &asked)), nil)
			if done.task != asked.task || done.states[len(done.states)-1] != sdk.TaskStateCompleted {
				t.Errorf("the answer: %+v", done)
			}
			task, err = client.GetTask(ctx, &sdk.GetTaskRequest{ID: asked.task.TaskID})
			if err != nil || task.Status.State != sdk.TaskStateCompleted || len(task.History) != 3 {
				t.Errorf("GetTask: %+v, %v", task, err)
			}

			waiting := sdkHear(t, client.SendStreamingMessage(ctx, sdkSay("make a skill", nil)), nil)
			task, err = client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: waiting.task.TaskID})
			if err != nil || task.Status.State != sdk.TaskStateCanceled {
				t.Errorf("CancelTask: %+v, %v", task, err)
			}
			if _, err = client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: waiting.task.TaskID}); !errors.Is(err, sdk.ErrTaskNotCancelable) {
				t.Errorf("CancelTask again: %v", err)
			}
			if _, err = client.GetTask(ctx, &sdk.GetTaskRequest{ID: "no-such-task"}); !errors.Is(err, sdk.ErrTaskNotFound) {
				t.Errorf("GetTask of none: %v", err)
			}
		})
	}
}

// The official SDK's client leaves a stream in the middle and subscribes to
// the task again: the snapshot and what follows are the whole answer.
func TestInteropTheOfficialGoSDKSubscribes(t *testing.T) {
	for _, transport := range []sdk.TransportProtocol{sdk.TransportProtocolGRPC, sdk.TransportProtocolHTTPJSON} {
		t.Run(string(transport), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			g := newGate(t, 6)
			m := start(t, config(t.TempDir()), map[string]run{"main": g.run})
			client := sdkClient(ctx, t, m, transport)
			var first sdkSaid
			for event, err := range client.SendStreamingMessage(ctx, sdkSay("slowly", nil)) {
				if err != nil {
					t.Fatal(err)
				}
				first.task = event.TaskInfo()
				break
			}
			g.let(3)
			n := 0
			again := sdkHear(t, client.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: first.task.TaskID}), func(sdkSaid) {
				if n++; n == 1 {
					g.let(3)
				}
			})
			if again.text != g.whole("slowly") || again.states[len(again.states)-1] != sdk.TaskStateCompleted {
				t.Errorf("heard %q, ended %v", again.text, again.states)
			}
		})
	}
}

// Tools that know nothing find out what the node offers and whether it serves.
func TestInteropReflectionAndHealth(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	conn := raw(t, m.GRPC)
	want := []string{"a2a.v1.A2AService", "lf.a2a.v1.A2AService", "mesh.v1.AccessService", "mesh.v1.AuditService", "mesh.v1.BlobService", "mesh.v1.ExecutionService", "mesh.v1.GrantService", "mesh.v1.HandoffService", "mesh.v1.IdentityService", "mesh.v1.NodeService", "mesh.v1.RegistryService", "mesh.v1.SkillService", "mesh.v1.StateService", "mesh.v1.ThreadService"}
	got := services(t, conn)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	resp, err := healthpb.NewHealthClient(conn).Check(plain(t), &healthpb.HealthCheckRequest{})
	if err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", resp, err)
	}
}
