package push_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/push"
	"agentmesh/mesh/security/egress"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/disk"
)

// idle returns a dispatcher that does not run, with a guard without exceptions.
func idle(t *testing.T, w *world) *push.Dispatcher {
	t.Helper()
	c := w.config()
	guard, err := egress.New(egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Guard = guard
	d, err := push.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// records counts what is kept of all configs.
func (w *world) records() (n int) {
	w.t.Helper()
	for _, kind := range []string{"push.config", "push.cursor"} {
		items, _, err := w.kv.List(w.t.Context(), state.Page{Kind: kind, Limit: state.MaxPage})
		if err != nil {
			w.t.Fatal(err)
		}
		n += len(items)
	}
	return n
}

func get(task, id string) *a2apb.GetTaskPushNotificationConfigRequest {
	return &a2apb.GetTaskPushNotificationConfigRequest{TaskId: task, Id: id}
}

func TestConfigsAreKeptReplacedAndDeleted(t *testing.T) {
	w := memory(t)
	d, task := idle(t, w), w.open()
	made := task.set(d, "https://example.com/a", secrets)
	if made.GetId() == "" {
		t.Error("no id was assigned")
	}
	got, err := d.Get(as("alice"), get(string(task.id), made.GetId()))
	if diff := cmp.Diff(made, got, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("Get: %v %s", err, diff)
	}
	task.set(d, "https://example.com/b", func(c *a2apb.TaskPushNotificationConfig) { c.Id = made.GetId() })
	got, err = d.Get(as("alice"), get(string(task.id), made.GetId()))
	if err != nil || got.GetUrl() != "https://example.com/b" || got.GetToken() != "" {
		t.Errorf("Get after the replacement = %v, %v", got, err)
	}
	for range 2 {
		err := d.Delete(as("alice"), &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: string(task.id), Id: made.GetId()})
		if err != nil {
			t.Errorf("Delete: %v", err)
		}
	}
	if _, err := d.Get(as("alice"), get(string(task.id), made.GetId())); reason(err) != "TASK_NOT_FOUND" {
		t.Errorf("Get after Delete: %v", err)
	}
	if n := w.records(); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func reason(err error) string {
	var e *mesh.Error
	if !errors.As(err, &e) || e.Code != mesh.NotFound {
		return ""
	}
	return e.Reason
}

func TestListsComeInPagesWithoutGapsOrRepeats(t *testing.T) {
	w := memory(t)
	d, task := idle(t, w), w.open()
	want := map[string]bool{}
	for i := range push.MaxPerTask {
		c := task.set(d, "https://example.com/", func(c *a2apb.TaskPushNotificationConfig) { c.Id = fmt.Sprint(i) })
		want[c.GetId()] = true
	}
	list := func(size int32, token string) *a2apb.ListTaskPushNotificationConfigsResponse {
		res, err := d.List(as("alice"), &a2apb.ListTaskPushNotificationConfigsRequest{
			TaskId: string(task.id), PageSize: size, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	got := map[string]bool{}
	pages, token := 0, ""
	for {
		res := list(5, token)
		pages++
		for _, c := range res.GetConfigs() {
			if got[c.GetId()] {
				t.Errorf("%s comes twice", c.GetId())
			}
			got[c.GetId()] = true
		}
		if token = res.GetNextPageToken(); token == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || pages != 4 {
		t.Errorf("%d pages: %s", pages, diff)
	}
	if all := list(0, ""); len(all.GetConfigs()) != push.MaxPerTask || all.GetNextPageToken() != "" {
		t.Errorf("a list without a size has %d and token %q", len(all.GetConfigs()), all.GetNextPageToken())
	}
	for _, bad := range []*a2apb.ListTaskPushNotificationConfigsRequest{
		{PageSize: -1}, {PageSize: push.MaxPage + 1}, {PageToken: "x"}, {PageToken: "../" + strings.Repeat("a", 29)},
	} {
		bad.TaskId = string(task.id)
		if _, err := d.List(as("alice"), bad); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%v: %v, want Invalid", bad, err)
		}
	}
	_, err := d.Create(as("alice"), &a2apb.TaskPushNotificationConfig{TaskId: string(task.id), Url: "https://example.com/"})
	if !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("one config too many: %v, want Exhausted", err)
	}
	task.set(d, "https://example.com/new", func(c *a2apb.TaskPushNotificationConfig) { c.Id = "0" }) // which is no more
}

// Whoever may not see the task, and whoever did not make the config, cannot
// tell it from nothing.
func TestConfigsOfOthersLookUnknown(t *testing.T) {
	w := memory(t)
	d, task := idle(t, w), w.open()
	c := task.set(d, "https://example.com/", secrets)
	id := string(task.id)
	elsewhere := string(mesh.NewExecutionID(mesh.NewThreadID()))
	sub := string(task.leg)

	foreign, foreignErr := d.Get(of("rival", "alice"), get(id, c.GetId()))
	_, unknownErr := d.Get(of("rival", "alice"), get(elsewhere, c.GetId()))
	if foreign != nil || foreignErr.Error() != unknownErr.Error() {
		t.Errorf("a foreign task gives %v, an unknown one %v", foreignErr, unknownErr)
	}
	for _, taskID := range []string{elsewhere, "nonsense", "", sub} {
		calls := map[string]error{}
		_, calls["Get"] = d.Get(as("alice"), get(taskID, "x"))
		_, calls["Create"] = d.Create(as("alice"), &a2apb.TaskPushNotificationConfig{TaskId: taskID, Url: "https://example.com"})
		_, calls["List"] = d.List(as("alice"), &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: taskID})
		calls["Delete"] = d.Delete(as("alice"), &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: taskID, Id: "x"})
		_, calls["Delivery"] = d.Delivery(as("alice"), taskID, "x")
		for name, err := range calls {
			if reason(err) != "TASK_NOT_FOUND" {
				t.Errorf("%s of task %q: %v, want TASK_NOT_FOUND", name, taskID, err)
			}
		}
	}

	_, others := d.Get(as("bob"), get(id, c.GetId()))
	_, none := d.Get(as("bob"), get(id, "none"))
	if reason(others) != "TASK_NOT_FOUND" || others.Error() != none.Error() {
		t.Errorf("another user's config gives %v, none %v", others, none)
	}
	if list, err := d.List(as("bob"), &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: id}); err != nil || len(list.GetConfigs()) != 0 {
		t.Errorf("bob's list = %v, %v", list, err)
	}
	if err := d.Delete(as("bob"), &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: id, Id: c.GetId()}); err != nil {
		t.Errorf("bob's Delete: %v", err)
	}
	if got, err := d.Get(as("alice"), get(id, c.GetId())); err != nil || got.GetToken() != "tok-secret" {
		t.Errorf("alice's config after all that: %v, %v", got, err)
	}

	// Who addresses an agent finds that agent's tasks alone.
	for name, known := range map[string]bool{"main": true, "smith": false} {
		call, _ := mesh.CallFrom(as("alice"))
		call.Agent = name
		ctx := mesh.WithCall(t.Context(), call)
		calls := map[string]error{}
		_, calls["Get"] = d.Get(ctx, get(id, c.GetId()))
		_, calls["Create"] = d.Create(ctx, &a2apb.TaskPushNotificationConfig{TaskId: id, Id: c.GetId(), Url: "https://example.com", Token: "tok-secret"})
		_, calls["List"] = d.List(ctx, &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: id})
		_, calls["Delivery"] = d.Delivery(ctx, id, c.GetId())
		calls["Delete"] = d.Delete(ctx, &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: id, Id: "none"})
		for what, err := range calls {
			if known && err != nil || !known && reason(err) != "TASK_NOT_FOUND" {
				t.Errorf("%s at %s: %v", what, name, err)
			}
		}
	}
}

func TestBadConfigsAreRefusedWithTheFieldNamed(t *testing.T) {
	w := memory(t)
	d, task := idle(t, w), w.open()
	for name, c := range map[string]struct {
		change func(*a2apb.TaskPushNotificationConfig)
		field  string
	}{
		"no URL":       {func(c *a2apb.TaskPushNotificationConfig) { c.Url = "" }, "url"},
		"http":         {func(c *a2apb.TaskPushNotificationConfig) { c.Url = "http://example.com" }, "url"},
		"this machine": {func(c *a2apb.TaskPushNotificationConfig) { c.Url = "https://127.0.0.1/" }, "url"},
		"a line break": {func(c *a2apb.TaskPushNotificationConfig) { c.Token = "a\r\nX: y" }, "token"},
		"a long token": {func(c *a2apb.TaskPushNotificationConfig) { c.Token = strings.Repeat("x", push.MaxSecret+1) }, "token"},
		"no scheme": {func(c *a2apb.TaskPushNotificationConfig) {
			c.Authentication = &a2apb.AuthenticationInfo{Credentials: "x"}
		}, "authentication.scheme"},
		"a scheme of two": {func(c *a2apb.TaskPushNotificationConfig) { c.Authentication = &a2apb.AuthenticationInfo{Scheme: "a b"} }, "authentication.scheme"},
		"secrets not ASCII": {func(c *a2apb.TaskPushNotificationConfig) {
			c.Authentication = &a2apb.AuthenticationInfo{Scheme: "Bearer", Credentials: "ü"}
		}, "authentication.credentials"},
		"secrets with blank": {func(c *a2apb.TaskPushNotificationConfig) {
			c.Authentication = &a2apb.AuthenticationInfo{Scheme: "Bearer", Credentials: " x"}
		}, "authentication.credentials"},
	} {
		conf := &a2apb.TaskPushNotificationConfig{TaskId: string(task.id), Url: "https://example.com/"}
		c.change(conf)
		_, err := d.Create(as("alice"), conf)
		var e *mesh.Error
		if !errors.As(err, &e) || e.Code != mesh.Invalid || e.Field != c.field {
			t.Errorf("%s: %v, want Invalid naming %s", name, err, c.field)
		}
		conf.TaskId = ""
		err = d.Check(as("alice"), sending("m", conf))
		if !errors.As(err, &e) || e.Code != mesh.Invalid || e.Field != "configuration.task_push_notification_config."+c.field {
			t.Errorf("%s, with a message: %v, want Invalid naming %s", name, err, c.field)
		}
	}
	if n := w.records(); n != 0 {
		t.Errorf("%d records are kept of what was refused", n)
	}
}

func sending(message string, c *a2apb.TaskPushNotificationConfig) *a2apb.SendMessageRequest {
	return &a2apb.SendMessageRequest{
		Message:       &a2apb.Message{MessageId: message},
		Configuration: &a2apb.SendMessageConfiguration{TaskPushNotificationConfig: c},
	}
}

// A config that comes with a message sees all that the message leads to, also
// when it is kept late, and a resend brings no second one.
func TestAConfigThatComesWithAMessageBeginsWithIt(t *testing.T) {
	w, h := memory(t), newHook(t)
	d, _ := w.dispatcher(w.config())
	task := w.open()
	task.say("one")
	req := sending("m1", &a2apb.TaskPushNotificationConfig{Url: h.URL})
	asSent := proto.CloneOf(req)
	if err := d.Check(as("alice"), req); err != nil {
		t.Fatal(err)
	}
	acc := &a2a.Accepted{Task: &a2apb.Task{Id: string(task.id)}, Cursor: 5}
	for range 3 {
		if err := d.Attach(as("alice"), req, acc); err != nil {
			t.Fatal(err)
		}
	}
	if list := task.configs(d); len(list) != 1 || list[0].GetTaskId() != string(task.id) {
		t.Errorf("List = %v, want one config", list)
	}
	task.complete()
	h.expect(t, "one", "COMPLETED")
	eventually(t, func() bool { return len(task.configs(d)) == 0 })
	if err := d.Attach(as("alice"), req, acc); err != nil { // delivered already
		t.Fatal(err)
	}
	if left := task.configs(d); len(left) != 0 {
		t.Errorf("a late resend sets %v, and delivers all again", left)
	}
	if diff := cmp.Diff(asSent, req, protocmp.Transform()); diff != "" {
		t.Errorf("the request was changed: %s", diff)
	}
	wrong := sending("m1", &a2apb.TaskPushNotificationConfig{Url: h.URL, TaskId: string(task.id)})
	if err := d.Check(as("alice"), wrong); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("a config for another task than the message's: %v, want Invalid", err)
	}
}

// Neither the file nor the log of a node tells a secret or a URL, which may be
// one.
func TestSecretsAreNeitherStoredNorLoggedInTheClear(t *testing.T) {
	h := newHook(t)
	h.Close() // every attempt fails
	path := filepath.Join(t.TempDir(), "mesh.db")
	store, err := disk.Open(path, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, store)
	c := w.config()
	c.Attempts = 1
	d, stop := w.dispatcher(c)
	task := w.open()
	conf := task.set(d, h.URL+"/path-secret?q=query-secret", secrets)
	task.say("one")
	eventually(t, func() bool { return task.delivery(d, conf.GetId()).Failed })
	told := task.delivery(d, conf.GetId()).LastError
	stop()
	other := c
	other.Box = box("another key of 16 bytes")
	blind, err := push.New(other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blind.Get(as("alice"), get(string(task.id), conf.GetId())); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("under another key: %v, want Precondition", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(file), "push.config") || !strings.Contains(w.logs.String(), "given up") {
		t.Fatal("the config is not in the file, or its failure not in the log")
	}
	for _, secret := range []string{"tok-secret", "cred-secret", "path-secret", "query-secret"} {
		for where, text := range map[string]string{"file": string(file), "log": w.logs.String(), "last error": told} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in the %s", secret, where)
			}
		}
	}
}

// A secret goes when another one has been there: what is read is sealed anew.
func TestConfigsOutliveTheirSecret(t *testing.T) {
	w := memory(t)
	c := w.config()
	task := w.open()
	id := ""
	for _, secrets := range [][]string{{"one"}, {"two", "one"}, {"two"}} {
		c.Box = box(secrets...)
		d, stop := w.dispatcher(c)
		if id == "" {
			id = task.set(d, "https://example.com/a").GetId()
		}
		if _, err := d.Get(as("alice"), get(string(task.id), id)); err != nil {
			t.Errorf("under %q: %v", secrets, err)
		}
		stop()
	}
}

// A record that is moved to another name cannot be read there.
func TestASealedConfigBelongsToItsName(t *testing.T) {
	w := memory(t)
	d, one, two := idle(t, w), w.open(), w.open()
	a := one.set(d, "https://example.com/a", secrets)
	b := two.set(d, "https://example.com/b", func(c *a2apb.TaskPushNotificationConfig) { c.Id = a.GetId() })
	items, _, err := w.kv.List(t.Context(), state.Page{Kind: "push.config", Limit: 10})
	if err != nil || len(items) != 2 {
		t.Fatal(len(items), err)
	}
	from := slices.IndexFunc(items, func(i state.Item) bool { return strings.Contains(i.Name, string(one.id)) })
	to := items[1-from]
	if _, err := w.kv.Put(t.Context(), state.Key{Kind: "push.config", Name: to.Name}, items[from].Data, to.Version); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(as("alice"), get(string(two.id), b.GetId())); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("a record of another task: %v, want Precondition", err)
	}
}

func TestNewRefusesWhatItCannotWorkWith(t *testing.T) {
	w := memory(t)
	for name, change := range map[string]func(*push.Config){
		"no log":           func(c *push.Config) { c.Log = nil },
		"no guard":         func(c *push.Config) { c.Guard = nil },
		"no box":           func(c *push.Config) { c.Box = nil },
		"negative workers": func(c *push.Config) { c.Workers = -1 },
	} {
		c := w.config()
		change(&c)
		if _, err := push.New(c); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}
