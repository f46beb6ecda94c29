package v03_test

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
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"
)

// asTenant is the context of a client that sends the tenant's token.
func asTenant(t testing.TB, tenant string) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return metadata.NewOutgoingContext(ctx, metadata.Pairs("authorization", "Bearer "+tenant))
}

// withToken sends what a gRPC client has in its metadata as HTTP headers.
type withToken struct{ http.RoundTripper }

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if md, ok := metadata.FromOutgoingContext(r.Context()); ok {
		for k, v := range md {
			r.Header[http.CanonicalHeaderKey(k)] = v
		}
	}
	return w.RoundTripper.RoundTrip(r)
}

// legacyClients are the clients of the official SDK for v0.3.
func legacyClients(w *world) map[string]a2aclient.Transport {
	return map[string]a2aclient.Transport{
		"JSON-RPC": a2aclient.NewJSONRPCTransport(w.http, &http.Client{Transport: withToken{w.web.Transport}}),
		"gRPC":     a2aclient.NewGRPCTransportFromClient(legacypb.NewA2AServiceClient(w.dial())),
	}
}

func legacySay(text string) *legacy.MessageSendParams {
	return &legacy.MessageSendParams{Message: legacy.NewMessage(legacy.MessageRoleUser, legacy.TextPart{Text: text})}
}

// heard is what a stream told: the task's id, "STATE" and "STATE!" for those
// that are final, and the text.
type heard struct {
	task   legacy.TaskID
	thread string
	states []string
	text   string
}

func hear(t *testing.T, stream iter.Seq2[legacy.Event, error]) heard {
	t.Helper()
	var h heard
	for e, err := range stream {
		if err != nil {
			t.Fatalf("stream broke after %+v: %v", h, err)
		}
		h.add(e)
	}
	return h
}

func (h *heard) add(e legacy.Event) {
	switch e := e.(type) {
	case *legacy.Task:
		h.task, h.thread = e.ID, e.ContextID
		h.states = append(h.states, "task "+string(e.Status.State))
		for _, a := range e.Artifacts {
			h.text += partsText(a.Parts)
		}
	case *legacy.TaskStatusUpdateEvent:
		mark := ""
		if e.Final {
			mark = "!"
		}
		h.states = append(h.states, string(e.Status.State)+mark)
	case *legacy.TaskArtifactUpdateEvent:
		h.text += partsText(e.Artifact.Parts)
	}
}

func partsText(parts legacy.ContentParts) string {
	out := ""
	for _, p := range parts {
		if text, ok := p.(legacy.TextPart); ok {
			out += text.Text
		}
	}
	return out
}

// Clients of v0.3 that nobody here wrote do all they can do with a task, and
// get the errors that they know (S4-002, S4-054, S4-077).
func TestClientsOfV03Converse(t *testing.T) {
	w := newWorld(t)
	for name, client := range legacyClients(w) {
		t.Run(name, func(t *testing.T) {
			ctx := asTenant(t, "a")
			result, err := client.SendMessage(ctx, legacySay("hello there"))
			task, ok := result.(*legacy.Task)
			if err != nil || !ok || task.Status.State != legacy.TaskStateCompleted || partsText(task.Artifacts[0].Parts) != "hello there" {
				t.Fatalf("SendMessage: %+v, %v", result, err)
			}

			asked := hear(t, client.SendStreamingMessage(ctx, legacySay("ask")))
			if want := []string{"task submitted", "working", "input-required!"}; !slices.Equal(asked.states, want) {
				t.Errorf("the question took %v, want %v", asked.states, want)
			}
			answer := legacySay("the red one")
			answer.Message.TaskID, answer.Message.ContextID = asked.task, asked.thread
			done := hear(t, client.SendStreamingMessage(ctx, answer))
			if done.task != asked.task || done.text != "the red one" || done.states[len(done.states)-1] != "completed!" {
				t.Errorf("the answer: %+v", done)
			}
			one := 1
			task, err = client.GetTask(ctx, &legacy.TaskQueryParams{ID: asked.task, HistoryLength: &one})
			if err != nil || task.Status.State != legacy.TaskStateCompleted || len(task.History) != 1 || partsText(task.History[0].Parts) != "the red one" {
				t.Errorf("GetTask: %+v, %v", task, err)
			}

			waiting := hear(t, client.SendStreamingMessage(ctx, legacySay("ask")))
			task, err = client.CancelTask(ctx, &legacy.TaskIDParams{ID: waiting.task})
			if err != nil || task.Status.State != legacy.TaskStateCanceled {
				t.Errorf("CancelTask: %+v, %v", task, err)
			}
		})
	}
}

func TestErrorsAreThoseThatClientsOfV03Know(t *testing.T) {
	w := newWorld(t)
	for name, client := range legacyClients(w) {
		t.Run(name, func(t *testing.T) {
			ctx := asTenant(t, "a")
			done := hear(t, client.SendStreamingMessage(ctx, legacySay("hello")))
			unknown := &legacy.TaskIDParams{ID: "no-such-task"}
			empty := legacySay("")
			empty.Message.Parts = nil
			fails := func(_ any, err error) error { return err }
			first := func(stream iter.Seq2[legacy.Event, error]) error {
				for _, err := range stream {
					return err
				}
				return nil
			}
			for what, c := range map[string]struct{ got, want error }{
				"GetTask of none":                 {fails(client.GetTask(ctx, &legacy.TaskQueryParams{ID: unknown.ID})), legacy.ErrTaskNotFound},
				"CancelTask of none":              {fails(client.CancelTask(ctx, unknown)), legacy.ErrTaskNotFound},
				"CancelTask too late":             {fails(client.CancelTask(ctx, &legacy.TaskIDParams{ID: done.task})), legacy.ErrTaskNotCancelable},
				"resubscribe to none":             {first(client.ResubscribeToTask(ctx, unknown)), legacy.ErrTaskNotFound},
				"resubscribe to what is over":     {first(client.ResubscribeToTask(ctx, &legacy.TaskIDParams{ID: done.task})), legacy.ErrUnsupportedOperation},
				"a message without parts":         {fails(client.SendMessage(ctx, empty)), legacy.ErrInvalidParams},
				"a stream without parts":          {first(client.SendStreamingMessage(ctx, empty)), legacy.ErrInvalidParams},
				"a push config of none":           {fails(client.GetTaskPushConfig(ctx, &legacy.GetTaskPushConfigParams{TaskID: done.task, ConfigID: "x"})), legacy.ErrTaskNotFound},
				"a task of another tenant":        {fails(client.GetTask(asTenant(t, "b"), &legacy.TaskQueryParams{ID: done.task})), legacy.ErrTaskNotFound},
				"a stream of another tenant":      {first(client.ResubscribeToTask(asTenant(t, "b"), &legacy.TaskIDParams{ID: done.task})), legacy.ErrTaskNotFound},
				"to go on in another's task":      {fails(client.SendMessage(asTenant(t, "b"), into(legacySay("hi"), done))), legacy.ErrTaskNotFound},
				"to cancel a task of another":     {fails(client.CancelTask(asTenant(t, "b"), &legacy.TaskIDParams{ID: done.task})), legacy.ErrTaskNotFound},
				"a push config of another's task": {fails(client.SetTaskPushConfig(asTenant(t, "b"), pushConfig(done.task))), legacy.ErrTaskNotFound},
			} {
				if !errors.Is(c.got, c.want) {
					t.Errorf("%s: %v, want %v", what, c.got, c.want)
				}
			}
		})
	}
}

func into(p *legacy.MessageSendParams, h heard) *legacy.MessageSendParams {
	p.Message.TaskID, p.Message.ContextID = h.task, h.thread
	return p
}

func pushConfig(task legacy.TaskID) *legacy.TaskPushConfig {
	return &legacy.TaskPushConfig{TaskID: task, Config: legacy.PushConfig{ID: "mine", URL: "https://hook.test", Token: "t",
		Auth: &legacy.PushAuthInfo{Schemes: []string{"Bearer"}, Credentials: "c"}}}
}

func TestClientsOfV03ManagePushConfigs(t *testing.T) {
	w := newWorld(t)
	for name, client := range legacyClients(w) {
		t.Run(name, func(t *testing.T) {
			ctx := asTenant(t, "a")
			task := hear(t, client.SendStreamingMessage(ctx, legacySay("ask"))).task
			set, err := client.SetTaskPushConfig(ctx, pushConfig(task))
			if err != nil || set.TaskID != task || set.Config.ID != "mine" || set.Config.Auth.Schemes[0] != "Bearer" {
				t.Fatalf("set: %+v, %v", set, err)
			}
			got, err := client.GetTaskPushConfig(ctx, &legacy.GetTaskPushConfigParams{TaskID: task, ConfigID: "mine"})
			if err != nil || got.Config.URL != "https://hook.test" || got.Config.Token != "t" {
				t.Errorf("get: %+v, %v", got, err)
			}
			if err := client.DeleteTaskPushConfig(ctx, &legacy.DeleteTaskPushConfigParams{TaskID: task, ConfigID: "mine"}); err != nil {
				t.Errorf("delete: %v", err)
			}
			withConfig := legacySay("hello")
			withConfig.Config = &legacy.MessageSendConfig{PushConfig: &pushConfig(task).Config}
			result, err := client.SendMessage(ctx, withConfig)
			if err != nil {
				t.Fatal(err)
			}
			listed, err := client.ListTaskPushConfig(ctx, &legacy.ListTaskPushConfigParams{TaskID: result.TaskInfo().TaskID})
			if err != nil || len(listed) != 1 || listed[0].Config.ID != "mine" {
				t.Errorf("the list after a message with a config: %+v, %v", listed, err)
			}
			if listed, err = client.ListTaskPushConfig(ctx, &legacy.ListTaskPushConfigParams{TaskID: task}); err != nil || len(listed) != 0 {
				t.Errorf("the list after the deletion: %+v, %v", listed, err)
			}
		})
	}
}

// A client that drops a stream and resubscribes hears the rest, and the stream
// ends when the task asks its user, where v1.0 would go on.
func TestResubscribingEndsWithTheFinalEvent(t *testing.T) {
	w := newWorld(t)
	for name, client := range legacyClients(w) {
		t.Run(name, func(t *testing.T) {
			ctx := asTenant(t, "a")
			var first heard
			for e, err := range client.SendStreamingMessage(ctx, legacySay("slow")) {
				if err != nil {
					t.Fatal(err)
				}
				first.add(e)
				break
			}
			w.desk.let(string(first.task), func(j *job) []*a2apb.StreamResponse { return j.say("one ", "two ") })
			var again heard
			for e, err := range client.ResubscribeToTask(ctx, &legacy.TaskIDParams{ID: first.task}) {
				if err != nil {
					t.Fatal(err)
				}
				if again.add(e); len(again.states) == 1 && again.text == "one two " {
					w.desk.let(string(first.task), func(j *job) []*a2apb.StreamResponse {
						return append(j.say("three"), j.status(a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, ""))
					})
				}
			}
			if want := []string{"task working", "input-required!"}; !slices.Equal(again.states, want) || again.text != "one two three" {
				t.Errorf("heard %+v, want %v", again, want)
			}
		})
	}
}

// A message that was sent before answers with its task; v0.3 still ends the
// stream with a final event.
func TestAStreamThatEndsWithATaskGetsAFinalEvent(t *testing.T) {
	w := newWorld(t)
	for name, client := range legacyClients(w) {
		t.Run(name, func(t *testing.T) {
			m := legacySay("hello")
			hear(t, client.SendStreamingMessage(asTenant(t, "a"), m))
			again := hear(t, client.SendStreamingMessage(asTenant(t, "a"), m))
			if want := []string{"task completed", "completed!"}; !slices.Equal(again.states, want) {
				t.Errorf("heard %v, want %v", again.states, want)
			}
		})
	}
}

// Whoever does not want to wait does not, and whoever does not say waits.
func TestBlockingIsWhatV03Means(t *testing.T) {
	w := newWorld(t)
	for name, client := range legacyClients(w) {
		t.Run(name, func(t *testing.T) {
			no := false
			m := legacySay("slow")
			m.Config = &legacy.MessageSendConfig{Blocking: &no}
			result, err := client.SendMessage(asTenant(t, "a"), m)
			if task, ok := result.(*legacy.Task); err != nil || !ok || task.Status.State.Terminal() {
				t.Errorf("not blocking: %+v, %v", result, err)
			}
			yes := true
			m = legacySay("hello")
			m.Config = &legacy.MessageSendConfig{Blocking: &yes}
			result, err = client.SendMessage(asTenant(t, "a"), m)
			if task, ok := result.(*legacy.Task); err != nil || !ok || !task.Status.State.Terminal() {
				t.Errorf("blocking: %+v, %v", result, err)
			}
		})
	}
}

// Parts of all kinds reach clients of v0.3 and come back as they were.
func TestPartsOfAllKindsTravel(t *testing.T) {
	w := newWorld(t)
	for name, client := range legacyClients(w) {
		t.Run(name, func(t *testing.T) {
			ctx := asTenant(t, "a")
			result, err := client.SendMessage(ctx, legacySay("file"))
			if err != nil {
				t.Fatal(err)
			}
			parts := result.(*legacy.Task).Artifacts[0].Parts
			var kinds []string
			for _, p := range parts {
				switch p := p.(type) {
				case legacy.TextPart:
					kinds = append(kinds, "text")
				case legacy.DataPart:
					kinds = append(kinds, "data")
				case legacy.FilePart:
					switch f := p.File.(type) {
					case legacy.FileBytes:
						kinds = append(kinds, "bytes "+f.Bytes+" "+f.MimeType+" "+f.Name)
					case legacy.FileURI:
						kinds = append(kinds, "uri "+f.URI)
					}
				}
			}
			if want := "text, bytes AAH/ application/octet-stream f.bin, uri http://x.test/f, data, data"; strings.Join(kinds, ", ") != want {
				t.Errorf("parts %v, want %s", kinds, want)
			}
			back, err := client.SendMessage(ctx, &legacy.MessageSendParams{Message: legacy.NewMessage(legacy.MessageRoleUser, parts...)})
			if err != nil {
				t.Fatal(err)
			}
			w.desk.mu.Lock()
			defer w.desk.mu.Unlock()
			got := w.desk.jobs["a/"+string(back.TaskInfo().TaskID)].history[0].GetParts()
			if diff := diffParts(allParts(), got); diff != "" {
				t.Errorf("what came back (-want +got):\n%s", diff)
			}
		})
	}
}
