package push_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
)

// asV03 is a call of a user who came with A2A v0.3.
func asV03(user string) context.Context {
	ctx := as(user)
	call, _ := mesh.CallFrom(ctx)
	call.PushV03 = true
	return mesh.WithCall(ctx, call)
}

// encodeFake writes a task as "state: text".
func encodeFake(t *a2apb.Task) ([]byte, error) {
	text := ""
	for _, a := range t.GetArtifacts() {
		text += a2a.ArtifactText(a)
	}
	return []byte(strings.TrimPrefix(t.GetStatus().GetState().String(), "TASK_STATE_") + ": " + text), nil
}

func bodies(got []request) []string {
	var out []string
	for _, r := range got {
		out = append(out, r.body)
	}
	return out
}

// A webhook of A2A v0.3 gets the whole task as each update left it, also from
// before the config and from before a restart, beside others that get updates.
func TestAWebhookOfV03GetsTheTaskAsEachUpdateLeftIt(t *testing.T) {
	w, old, current := memory(t), newHook(t), newHook(t)
	c := w.config()
	c.EncodeV03 = encodeFake
	d, stop := w.dispatcher(c)
	task := w.open()
	task.say("a")
	task.set(d, current.URL)
	set, err := d.Create(asV03("alice"), &a2apb.TaskPushNotificationConfig{TaskId: string(task.id), Url: old.URL, Token: "tok-secret"})
	if err != nil {
		t.Fatal(err)
	}
	task.say("b")
	old.until(t, func(got []request) bool { return len(got) == 1 })
	current.expect(t, "b")
	stop()
	task.say("c")
	d, _ = w.dispatcher(c)
	read, err := d.Get(as("alice"), &a2apb.GetTaskPushNotificationConfigRequest{TaskId: string(task.id), Id: set.GetId()})
	if err != nil || read.GetUrl() != old.URL {
		t.Errorf("the config reads %v, %v", read, err)
	}
	task.complete()

	// What a stop cuts off comes again.
	got := old.until(t, func(got []request) bool { return strings.HasPrefix(got[len(got)-1].body, "COMPLETED") })
	if want := []string{"SUBMITTED: ab", "SUBMITTED: abc", "COMPLETED: abc"}; !slices.Equal(slices.Compact(bodies(got)), want) {
		t.Errorf("the webhook of v0.3 got %q, want %q", bodies(got), want)
	}
	for _, r := range got {
		if r.header.Get("Content-Type") != "application/json" || r.header.Get("X-A2A-Notification-Token") != "tok-secret" {
			t.Errorf("headers %v", r.header)
		}
	}
	got = current.until(t, func(got []request) bool { return word(got[len(got)-1].update) == "COMPLETED" })
	if want := []string{"b", "c", "COMPLETED"}; !slices.Equal(slices.Compact(words(got)), want) {
		t.Errorf("the webhook of v1.0 got %q, want %q", words(got), want)
	}
}

// Whoever sets a config again decides what its webhook gets from then on.
func TestAConfigThatIsSetAgainGetsTheFormatOfWhoSetIt(t *testing.T) {
	w, h := memory(t), newHook(t)
	c := w.config()
	c.EncodeV03 = encodeFake
	d, _ := w.dispatcher(c)
	task := w.open()
	config := &a2apb.TaskPushNotificationConfig{Id: "c", TaskId: string(task.id), Url: h.URL}
	if _, err := d.Create(asV03("alice"), config); err != nil {
		t.Fatal(err)
	}
	task.say("one")
	h.until(t, func(got []request) bool { return len(got) == 1 })
	if _, err := d.Create(as("alice"), config); err != nil {
		t.Fatal(err)
	}
	task.say("two")
	got := h.until(t, func(got []request) bool { return len(got) == 2 })
	if got[0].body != "SUBMITTED: one" || got[0].update != nil || word(got[1].update) != "two" {
		t.Errorf("the webhook got %q", bodies(got))
	}
}

// A task that cannot be written is a failure like any other.
func TestATaskThatCannotBeWrittenInV03IsGivenUp(t *testing.T) {
	w, h := memory(t), newHook(t)
	c := w.config()
	c.Attempts = 1
	c.EncodeV03 = func(*a2apb.Task) ([]byte, error) { return nil, errors.New("no form") }
	d, _ := w.dispatcher(c)
	task := w.open()
	set, err := d.Create(asV03("alice"), &a2apb.TaskPushNotificationConfig{TaskId: string(task.id), Url: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	task.say("one")
	eventually(t, func() bool { return task.delivery(d, set.GetId()).Failed })
	if out := task.delivery(d, set.GetId()); !strings.Contains(out.LastError, "no form") || len(h.requests()) != 0 {
		t.Errorf("delivery %+v after %d requests", out, len(h.requests()))
	}
}
