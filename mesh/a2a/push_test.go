package a2a_test

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// drawer is a Pusher that keeps configs by id and notes what it is asked.
type drawer struct {
	mu      sync.Mutex
	configs map[string]*a2apb.TaskPushNotificationConfig
	asked   []string
	refuse  error // of Check
	fail    error // of Attach
}

func (d *drawer) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, what)
}

func (d *drawer) Create(_ context.Context, c *a2apb.TaskPushNotificationConfig) (*a2apb.TaskPushNotificationConfig, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.configs[c.GetId()] = c
	return c, nil
}

func (d *drawer) Get(_ context.Context, r *a2apb.GetTaskPushNotificationConfigRequest) (*a2apb.TaskPushNotificationConfig, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.configs[r.GetId()]; c != nil {
		return c, nil
	}
	return nil, mesh.TaskNotFound("drawer.Get")
}

func (d *drawer) List(context.Context, *a2apb.ListTaskPushNotificationConfigsRequest) (*a2apb.ListTaskPushNotificationConfigsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	res := new(a2apb.ListTaskPushNotificationConfigsResponse)
	for _, c := range d.configs {
		res.Configs = append(res.Configs, c)
	}
	return res, nil
}

func (d *drawer) Delete(_ context.Context, r *a2apb.DeleteTaskPushNotificationConfigRequest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.configs, r.GetId())
	return nil
}

func (d *drawer) Check(context.Context, *a2apb.SendMessageRequest) error {
	d.note("check")
	return d.refuse
}

func (d *drawer) Attach(_ context.Context, _ *a2apb.SendMessageRequest, acc *a2a.Accepted) error {
	d.note("attach " + acc.Task.GetId())
	return d.fail
}

func newDrawer() *drawer {
	return &drawer{configs: map[string]*a2apb.TaskPushNotificationConfig{}}
}

func TestPushConfigsGoToThePusher(t *testing.T) {
	client := serve(t, newShelf(), a2a.WithPusher(newDrawer()))
	ctx := t.Context()
	made, err := client.CreateTaskPushNotificationConfig(ctx, &a2apb.TaskPushNotificationConfig{TaskId: taskID, Id: "c", Url: "https://example.com"})
	if err != nil || made.GetId() != "c" {
		t.Fatalf("Create = %v, %v", made, err)
	}
	got, err := client.GetTaskPushNotificationConfig(ctx, &a2apb.GetTaskPushNotificationConfigRequest{TaskId: taskID, Id: "c"})
	if err != nil || got.GetUrl() != "https://example.com" {
		t.Errorf("Get = %v, %v", got, err)
	}
	list, err := client.ListTaskPushNotificationConfigs(ctx, &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: taskID})
	if err != nil || len(list.GetConfigs()) != 1 {
		t.Errorf("List = %v, %v", list, err)
	}
	for range 2 {
		if _, err := client.DeleteTaskPushNotificationConfig(ctx, &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: taskID, Id: "c"}); err != nil {
			t.Errorf("Delete: %v", err)
		}
	}
	_, err = client.GetTaskPushNotificationConfig(ctx, &a2apb.GetTaskPushNotificationConfigRequest{TaskId: taskID, Id: "c"})
	if e := errorOf(t, err); e.Reason != "TASK_NOT_FOUND" {
		t.Errorf("Get after Delete: %v", err)
	}
}

func TestPushConfigsWithBadIDsAreRefused(t *testing.T) {
	client := serve(t, newShelf(), a2a.WithPusher(newDrawer()))
	ctx := t.Context()
	for name, c := range map[string]struct {
		call  func() error
		code  mesh.Code
		field string
	}{
		"create without a task": {func() error {
			_, err := client.CreateTaskPushNotificationConfig(ctx, &a2apb.TaskPushNotificationConfig{Url: "https://example.com"})
			return err
		}, mesh.Invalid, "task_id"},
		"create with a path as id": {func() error {
			_, err := client.CreateTaskPushNotificationConfig(ctx, &a2apb.TaskPushNotificationConfig{TaskId: taskID, Id: "a/b"})
			return err
		}, mesh.Invalid, "id"},
		"get without a task": {func() error {
			_, err := client.GetTaskPushNotificationConfig(ctx, &a2apb.GetTaskPushNotificationConfigRequest{Id: "c"})
			return err
		}, mesh.Invalid, "task_id"},
		"list without a task": {func() error {
			_, err := client.ListTaskPushNotificationConfigs(ctx, &a2apb.ListTaskPushNotificationConfigsRequest{})
			return err
		}, mesh.Invalid, "task_id"},
		"delete without a task": {func() error {
			_, err := client.DeleteTaskPushNotificationConfig(ctx, &a2apb.DeleteTaskPushNotificationConfigRequest{Id: "c"})
			return err
		}, mesh.Invalid, "task_id"},
		"another tenant": {func() error {
			_, err := client.GetTaskPushNotificationConfig(ctx, &a2apb.GetTaskPushNotificationConfigRequest{Tenant: "rival", TaskId: taskID, Id: "c"})
			return err
		}, mesh.NotFound, "tenant"},
		"get without an id": {func() error { // of v1.0, where it is required
			_, err := client.GetTaskPushNotificationConfig(ctx, &a2apb.GetTaskPushNotificationConfigRequest{TaskId: taskID})
			return err
		}, mesh.Invalid, "id"},
	} {
		if e := errorOf(t, c.call()); e.Code != c.code || e.Field != c.field {
			t.Errorf("%s: %v, want %v naming %s", name, e, c.code, c.field)
		}
	}
}

// pushing is a message with a config.
func pushing() *a2apb.SendMessageRequest {
	req := hello()
	req.Configuration = &a2apb.SendMessageConfiguration{
		ReturnImmediately:          true,
		TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{Url: "https://example.com"},
	}
	return req
}

// The config of a message is attached before the caller hears of the task, by
// both operations, and a bad one keeps the message from being taken.
func TestAMessageBringsItsPushConfig(t *testing.T) {
	s, d := newShelf(), newDrawer()
	client := serve(t, s, a2a.WithPusher(d))
	if _, err := client.SendMessage(t.Context(), pushing()); err != nil {
		t.Fatal(err)
	}
	s.write(status(completed))
	stream, err := client.SendStreamingMessage(t.Context(), pushing())
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	attach := "attach " + taskID
	if want := []string{"check", attach, "check", attach}; !slices.Equal(d.asked, want) {
		t.Errorf("the pusher was asked %q, want %q", d.asked, want)
	}

	d.refuse = mesh.InvalidField("drawer", "url", "is bad")
	_, err = client.SendMessage(t.Context(), pushing())
	if e := errorOf(t, err); e.Code != mesh.Invalid || s.sent != 2 {
		t.Errorf("a bad config: %v, with %d messages taken, want Invalid and 2", err, s.sent)
	}
	d.refuse, d.fail = nil, mesh.Errorf(mesh.Unavailable, "drawer", "is stuck")
	_, err = client.SendMessage(t.Context(), pushing())
	if e := errorOf(t, err); e.Code != mesh.Unavailable {
		t.Errorf("a config that cannot be kept: %v, want Unavailable", err)
	}
	if _, err := client.SendMessage(t.Context(), hello()); err != nil {
		t.Errorf("a message without a config: %v", err)
	}
}
