package push_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/push"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/threadlog"
)

func secrets(c *a2apb.TaskPushNotificationConfig) {
	c.Token = "tok-secret"
	c.Authentication = &a2apb.AuthenticationInfo{Scheme: "Bearer", Credentials: "cred-secret"}
}

func TestUpdatesArriveInOrderAsA2AAsks(t *testing.T) {
	w, h := memory(t), newHook(t)
	d, _ := w.dispatcher(w.config())
	task := w.open()
	task.say("before")
	task.set(d, h.URL+"/hook?x=1", secrets)
	task.say("one", "two")
	md, err := structpb.NewStruct(map[string]any{mesh.ExtensionURI: map[string]any{"progress": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	task.add(task.leg, mesh.TaskMoved{State: working, Message: &a2apb.Message{MessageId: "s"}, Metadata: md})
	task.add(task.leg, mesh.SkillCalled{Call: "1", Skill: "mail.send"})
	task.complete()

	for i, r := range h.expect(t, "one", "two", "WORKING", "COMPLETED") {
		for name, want := range map[string]string{
			"Content-Type": "application/a2a+json", "Authorization": "Bearer cred-secret",
			"A2a-Notification-Token": "tok-secret", "X-A2a-Notification-Token": "tok-secret",
		} {
			if got := r.header.Get(name); got != want {
				t.Errorf("request %d: %s is %q, want %q", i, name, got, want)
			}
		}
		var id string
		var meta *structpb.Struct
		if a := r.update.GetArtifactUpdate(); a != nil {
			id, meta = a.GetTaskId(), a.GetMetadata()
		} else {
			id, meta = r.update.GetStatusUpdate().GetTaskId(), r.update.GetStatusUpdate().GetMetadata()
		}
		if id != string(task.id) || meta != nil {
			t.Errorf("request %d is for task %s with metadata %v, want %s without our extension", i, id, meta, task.id)
		}
	}
	eventually(t, func() bool { return len(task.configs(d)) == 0 })
}

// eventually waits for what follows a request that was seen.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !ok(); {
		if time.Now().After(end) {
			t.Fatal("it did not happen")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestFiftyTasksWithThreeWebhooksEachGetAllInOrder(t *testing.T) {
	w := memory(t)
	d, _ := w.dispatcher(w.config())
	hooks := []*hook{newHook(t), newHook(t), newHook(t)}
	var tasks []*task
	for range 50 {
		tasks = append(tasks, w.open())
	}
	for _, task := range tasks {
		for i, h := range hooks {
			task.set(d, h.URL, func(c *a2apb.TaskPushNotificationConfig) { c.Id = fmt.Sprint(i) })
		}
	}
	want := []string{"a", "b", "c", "d", "COMPLETED"}
	for _, text := range want[:4] {
		for _, task := range tasks {
			task.say(text)
		}
	}
	for _, task := range tasks {
		task.complete()
	}
	for i, h := range hooks {
		got := h.until(t, func(got []request) bool { return len(got) == len(tasks)*len(want) })
		byTask := map[string][]string{}
		for _, r := range got {
			id := r.update.GetArtifactUpdate().GetTaskId() + r.update.GetStatusUpdate().GetTaskId()
			byTask[id] = append(byTask[id], word(r.update))
		}
		for _, task := range tasks {
			if !slices.Equal(byTask[string(task.id)], want) {
				t.Errorf("webhook %d got %q of a task, want %q", i, byTask[string(task.id)], want)
			}
		}
	}
}

// A node that stops, or dies, in the middle of a delivery delivers the same
// update again when it is back, and what happened meanwhile after it.
func TestARestartLosesNothing(t *testing.T) {
	h := newHook(t)
	path := filepath.Join(t.TempDir(), "mesh.db")
	store, err := disk.Open(path, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, store)
	d, stop := w.dispatcher(w.config())
	first, idle := w.open(), w.open()
	first.set(d, h.URL)
	idle.set(d, h.URL)
	first.say("one", "two")
	h.expect(t, "one", "two")
	h.mu.Lock()
	h.answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	h.mu.Unlock()
	first.say("three")
	h.expect(t, "one", "two", "three")
	stop()
	first.say("four")
	later := w.open()
	later.set(d, h.URL) // made while it does not run
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	h.mu.Lock()
	h.answer, h.got = nil, nil
	h.mu.Unlock()
	if store, err = disk.Open(path, disk.Options{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	w2 := newWorld(t, store)
	first.w, idle.w, later.w = w2, w2, w2
	_, stop = w2.dispatcher(w2.config())
	defer stop()
	first.complete()
	h.expect(t, "three", "four", "COMPLETED")
	idle.say("idle")
	h.expect(t, "three", "four", "COMPLETED", "idle")
	later.say("later")
	h.expect(t, "three", "four", "COMPLETED", "idle", "later")
}

// More webhooks hang than there are places in both lanes, and stay: others get
// their updates all the same.
func TestWebhooksThatHangDelayNoOther(t *testing.T) {
	t.Parallel() // it waits until the others are known to be slow
	w, good := memory(t), newHook(t)
	c := w.config()
	// A busy machine answers within the patience: a prompt webhook stays one.
	c.Workers, c.Patience, c.Timeout = 2, time.Second, time.Hour
	d, _ := w.dispatcher(c)
	hung := make(chan struct{})
	var entered atomic.Int64
	var tasks []*task
	const slow = 8 // places, beside 2 fast ones
	for range slow + 2 {
		h := newHook(t)
		h.answer = func(_ http.ResponseWriter, r *http.Request) {
			entered.Add(1)
			select {
			case <-hung:
			case <-r.Context().Done():
			}
		}
		task := w.open()
		task.set(d, h.URL)
		tasks = append(tasks, task)
	}
	defer close(hung)
	for _, task := range tasks {
		task.say("stuck")
	}
	// Those that are cut off before they are entered are made again.
	eventually(t, func() bool { return entered.Load() >= slow })

	task := w.open()
	task.set(d, good.URL)
	var want []string
	for i := range 5 {
		task.say(fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
		good.expect(t, want...)
	}
}

// One webhook that hangs for one task does not hold up a prompt one of the same
// task.
func TestWebhooksOfOneTaskAreIndependent(t *testing.T) {
	w, good, bad := memory(t), newHook(t), newHook(t)
	release := make(chan struct{})
	defer close(release)
	bad.answer = func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	d, _ := w.dispatcher(w.config())
	task := w.open()
	task.set(d, bad.URL)
	task.set(d, good.URL)
	task.say("one", "two")
	task.complete()
	good.expect(t, "one", "two", "COMPLETED")
}

func TestADeletedConfigGetsNothingMoreAndARequestUnderWayIsCutOff(t *testing.T) {
	w, h, other := memory(t), newHook(t), newHook(t)
	cut := make(chan struct{})
	h.answer = func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(cut)
	}
	d, _ := w.dispatcher(w.config())
	task := w.open()
	c := task.set(d, h.URL)
	task.set(d, other.URL)
	task.say("one")
	h.expect(t, "one")
	for range 2 { // the second time there is none, which is fine
		if err := d.Delete(as("alice"), &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: string(task.id), Id: c.GetId()}); err != nil {
			t.Fatal(err)
		}
	}
	<-cut
	task.say("two")
	task.complete()
	other.expect(t, "one", "two", "COMPLETED")
	h.expect(t, "one")
}

// part of T3: who is left out of a conversation hears no more of it by webhook, nor of what
// was said before and not delivered yet; its owner does, and who reads it by a role.
func TestWhoIsLeftOutGetsNothingMore(t *testing.T) {
	w := memory(t)
	d, _ := w.dispatcher(w.config())
	task := w.open()
	task.add("", mesh.ThreadShared{Participants: []string{"bob"}})
	hooks := map[string]*hook{}
	for _, user := range []string{"alice", "bob", "carol"} {
		hooks[user] = newHook(t)
		ctx := as(user)
		if user == "bob" {
			ctx = mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: user, Roles: []mesh.Role{mesh.RoleUser}}})
		}
		if _, err := d.Create(ctx, &a2apb.TaskPushNotificationConfig{TaskId: string(task.id), Url: hooks[user].URL}); err != nil {
			t.Fatal(err)
		}
	}
	task.say("one")
	for _, h := range hooks {
		h.expect(t, "one")
	}
	task.add("", mesh.ThreadShared{})
	task.say("two")
	task.complete()
	for _, user := range []string{"alice", "carol"} {
		hooks[user].expect(t, "one", "two", "COMPLETED")
	}
	for end := time.Now().Add(patient); w.records() > 2; time.Sleep(time.Millisecond) { // what is left are the configs of the others
		if time.Now().After(end) {
			t.Fatalf("%d records are kept", w.records())
		}
	}
	hooks["bob"].expect(t, "one")

	// A new owner hears what the old one did not.
	task = w.open()
	old := newHook(t)
	ctx := mesh.WithCall(context.Background(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "alice"}})
	if _, err := d.Create(ctx, &a2apb.TaskPushNotificationConfig{TaskId: string(task.id), Url: old.URL}); err != nil {
		t.Fatal(err)
	}
	task.say("one")
	old.expect(t, "one")
	task.add("", mesh.ThreadShared{Owner: "dave"})
	last := newHook(t)
	ctx = mesh.WithCall(context.Background(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "dave"}})
	if _, err := d.Create(ctx, &a2apb.TaskPushNotificationConfig{TaskId: string(task.id), Url: last.URL}); err != nil {
		t.Fatal(err)
	}
	task.complete()
	last.expect(t, "COMPLETED")
	old.expect(t, "one")
}

func TestADeletedThreadIsForgotten(t *testing.T) {
	w, h := memory(t), newHook(t)
	d, _ := w.dispatcher(w.config())
	task, other := w.open(), w.open()
	task.set(d, h.URL)
	other.set(d, h.URL)
	if err := w.log.Delete(t.Context(), task.key, threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	w.states.Forget(task.key)
	if err := d.Forget(t.Context(), []mesh.ThreadKey{task.key}); err != nil {
		t.Fatal(err)
	}
	if n := w.records(); n != 2 {
		t.Errorf("%d records are kept, want the config and the cursor of the other thread", n)
	}
	other.say("one")
	h.expect(t, "one")
}

func TestSettingAConfigAgainReplacesItAndGoesOnWhereItWas(t *testing.T) {
	w, old, h := memory(t), newHook(t), newHook(t)
	d, _ := w.dispatcher(w.config())
	task := w.open()
	c := task.set(d, old.URL)
	task.say("one")
	old.expect(t, "one")
	task.set(d, h.URL, func(n *a2apb.TaskPushNotificationConfig) { n.Id = c.GetId() })
	task.say("two")
	h.until(t, func(got []request) bool { return slices.Contains(words(got), "two") })
	old.expect(t, "one")
}

// A counter is a log that counts who follows all of it.
type counter struct {
	push.Log
	follows atomic.Int64
}

func (c *counter) FollowAll(ctx context.Context, after mesh.Pos) iter.Seq2[threadlog.Placed, error] {
	c.follows.Add(1)
	return c.Log.FollowAll(ctx, after)
}

// A mesh without configs pays nothing for push notifications, and one scan
// serves all that there are, also those that come after it ended.
func TestTheLogIsScannedOnceAndOnlyForConfigs(t *testing.T) {
	w, h := memory(t), newHook(t)
	c := w.config()
	log := &counter{Log: w.log}
	c.Log = log
	d, stop := w.dispatcher(c)
	one, two, three := w.open(), w.open(), w.open()
	one.say("nobody hears this")
	stop()
	if n := log.follows.Load(); n != 0 {
		t.Errorf("%d scans without a config", n)
	}
	stop = w.run(d)
	defer stop()
	one.set(d, h.URL)
	two.set(d, h.URL)
	one.complete()
	h.expect(t, "COMPLETED")
	two.complete()
	h.expect(t, "COMPLETED", "COMPLETED")
	eventually(t, func() bool {
		return len(one.configs(d))+len(two.configs(d)) == 0
	})
	if n := log.follows.Load(); n != 1 {
		t.Errorf("%d scans for two configs, want 1", n)
	}
	three.say("this ends the scan")
	three.set(d, h.URL)
	three.say("heard")
	h.expect(t, "COMPLETED", "COMPLETED", "heard")
}

// A config that another node made, which delivers nothing itself, is delivered by;
// one that it removed is not.
func TestConfigsOfOtherNodesAreDeliveredBy(t *testing.T) {
	w, h := memory(t), newHook(t)
	c := w.config()
	c.Shared = true
	w.dispatcher(c)
	other, err := push.New(c)
	if err != nil {
		t.Fatal(err)
	}
	task := w.open()
	made := task.set(other, h.URL+"/hook")
	task.say("one")
	h.expect(t, "one")
	if err := other.Delete(as("alice"), &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: string(task.id), Id: made.GetId()}); err != nil {
		t.Fatal(err)
	}
	task.say("two")
	again := task.set(other, h.URL+"/hook")
	task.say("three")
	h.expect(t, "one", "three")
	if err := other.Delete(as("alice"), &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: string(task.id), Id: again.GetId()}); err != nil {
		t.Fatal(err)
	}
}

// finding T10: who is told by a webhook is told no more when the credential ends with which it
// was set; others are, and so is that one again when it sets the webhook anew.
func TestAWebhookEndsWithTheCredentialThatSetIt(t *testing.T) {
	w := memory(t)
	var ended atomic.Bool
	c := w.config()
	c.Standing = func(tenant mesh.TenantID, o push.Owner) bool {
		if tenant != "acme" || o.User != "alice" || o.At.IsZero() {
			t.Errorf("it is of %s: %+v", tenant, o)
		}
		return o.Credential != "token:phone" || !ended.Load()
	}
	d, _ := w.dispatcher(c)
	task := w.open()
	set := func(credential, url string) *a2apb.TaskPushNotificationConfig {
		t.Helper()
		call, _ := mesh.CallFrom(as("alice"))
		call.Principal.Credential = credential
		set, err := d.Create(mesh.WithCall(context.Background(), call), &a2apb.TaskPushNotificationConfig{TaskId: string(task.id), Id: credential[6:], Url: url})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	phone, laptop := newHook(t), newHook(t)
	first := set("token:phone", phone.URL)
	set("token:laptop", laptop.URL)
	task.say("one")
	phone.expect(t, "one")
	laptop.expect(t, "one")
	ended.Store(true)
	task.say("two")
	laptop.expect(t, "one", "two")
	for end := time.Now().Add(patient); !task.delivery(d, first.GetId()).Failed; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the webhook was not given up")
		}
	}
	phone.expect(t, "one")
	call, _ := mesh.CallFrom(as("alice"))
	call.Principal.Credential = "token:new"
	if _, err := d.Create(mesh.WithCall(context.Background(), call), first); err != nil {
		t.Fatal(err)
	}
	phone.expect(t, "one", "two")
}
