package push_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh/state"
)

// finding R9: a config is there as long as its task: one whose task is over and delivered is
// unknown, and so is one that was given up, when its task is over.
func TestAConfigEndsWithItsTask(t *testing.T) {
	w, h, bad := memory(t), newHook(t), newHook(t)
	bad.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }
	d, _ := w.dispatcher(w.config())
	task, other := w.open(), w.open()
	good, refused := task.set(d, h.URL), task.set(d, bad.URL)
	other.set(d, h.URL)
	task.say("one")
	h.expect(t, "one")
	eventually(t, func() bool { return task.delivery(d, refused.GetId()).Failed })
	if n := len(task.configs(d)); n != 2 {
		t.Errorf("%d configs while the task goes on, want 2", n)
	}
	task.complete()
	h.expect(t, "one", "COMPLETED")
	eventually(t, func() bool { return len(task.configs(d)) == 0 })
	for _, c := range []*a2apb.TaskPushNotificationConfig{good, refused} {
		if _, err := d.Get(as("alice"), get(string(task.id), c.GetId())); reason(err) != "TASK_NOT_FOUND" {
			t.Errorf("Get after the end: %v", err)
		}
	}
	if n := len(other.configs(d)); n != 1 {
		t.Errorf("another task has %d configs, want 1", n)
	}
}

// One that is set when its task is over sends nothing, and is there for an hour, for who
// reads what it has set. After that nothing at all is kept of it, nor of the others.
func TestAConfigForATaskThatIsOverIsKeptForAnHourAndSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memory(t)
		conf, tr := w.config(), &wire{begin: time.Now()}
		conf.Transport = tr
		d, stop := w.dispatcher(conf)
		defer func() { stop() }()
		over, live := w.open(), w.open()
		over.complete()
		c := over.set(d, "https://hook.test/")
		live.set(d, "https://hook.test/")
		live.complete()
		synctest.Wait()
		if got, err := d.Get(as("alice"), get(string(over.id), c.GetId())); err != nil || got.GetUrl() != c.GetUrl() {
			t.Errorf("Get = %v, %v", got, err)
		}
		stop()
		stop = w.run(d) // also over a restart
		time.Sleep(50 * time.Minute)
		if n := len(over.configs(d)); n != 1 {
			t.Errorf("%d configs after less than an hour", n)
		}
		over.set(d, "https://hook.test/", func(n *a2apb.TaskPushNotificationConfig) { n.Id = c.GetId() })
		time.Sleep(50 * time.Minute)
		if n := len(over.configs(d)); n != 1 {
			t.Errorf("%d configs after it was set again", n)
		}
		time.Sleep(time.Hour)
		if n := w.records(); n != 0 {
			t.Errorf("%d records are left", n)
		}
		if got := tr.was(); !slices.Equal(got, []string{"0s COMPLETED"}) {
			t.Errorf("sent is %q", got)
		}
	})
}

// A process that was killed after the last delivery and before the config went leaves it to
// the next one, which sends nothing again; so do programs that kept what was delivered.
func TestWhatAKillLeavesOfAConfigThatIsOverGoesAtTheStart(t *testing.T) {
	w, h := memory(t), newHook(t)
	d, stop := w.dispatcher(w.config())
	var names []state.Item
	tasks := []*task{w.open(), w.open(), w.open()}
	for _, task := range tasks {
		task.set(d, h.URL)
	}
	names, _, err := w.kv.List(t.Context(), state.Page{Kind: "push.config", Limit: 10})
	if err != nil || len(names) != 3 {
		t.Fatal(len(names), err)
	}
	for _, task := range tasks {
		task.complete()
	}
	h.expect(t, "COMPLETED", "COMPLETED", "COMPLETED")
	eventually(t, func() bool { return len(tasks[0].configs(d))+len(tasks[1].configs(d))+len(tasks[2].configs(d)) == 0 })
	stop()
	for i, it := range names {
		if _, err := w.kv.Put(t.Context(), state.Key{Kind: "push.config", Name: it.Name}, it.Data, 0); err != nil {
			t.Fatal(err)
		}
		if i == 0 { // of a program that had no cursor then
			if err := w.kv.Delete(t.Context(), state.Key{Kind: "push.cursor", Name: it.Name}, state.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, stop = w.dispatcher(w.config())
	defer stop()
	live := w.open()
	live.set(d, h.URL)
	eventually(t, func() bool { return len(tasks[0].configs(d))+len(tasks[1].configs(d))+len(tasks[2].configs(d)) == 0 })
	h.expect(t, "COMPLETED", "COMPLETED", "COMPLETED")
}
