package tasks_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
)

const daySeconds = 24 * 3600

// works opens a turn of the user's on which the agent works, and returns its execution.
func (w *world) works(k mesh.ThreadKey, second int, user, agent string) mesh.ExecutionID {
	w.made++
	turn, child := mesh.NewExecutionID(k.ID), mesh.NewExecutionID(k.ID)
	w.add(k, second, turn, mesh.TaskOpened{Execution: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Agent: agent, User: user}})
	w.add(k, second, turn, mesh.DispatchIssued{Child: mesh.Execution{ID: child, Parent: turn, Kind: mesh.KindAgent, Agent: agent, User: user}})
	return child
}

func (w *world) replies(k mesh.ThreadKey, second int, x mesh.ExecutionID, model string, u mesh.Usage) {
	w.add(k, second, x, mesh.ModelReplied{Model: model, Usage: u})
}

// sums are those of the first ten days, of all users of the tenant.
func sums(t rapid.TB, x *tasks.Index, by string) map[string]tasks.Sum {
	t.Helper()
	all, err := x.Sums(context.Background(), tasks.Sums{Tenant: "a", All: true, First: begin, Last: begin.AddDate(0, 0, 9), By: by})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var allBy = []string{tasks.ByDay, tasks.ByUser, tasks.ByAgent, tasks.ByModel, tasks.ByThread, tasks.ByTenant}

// finding U4: what models used is counted once as events commit, by day, user, agent, model and
// thread: whenever rows are kept and processes are killed, sums are those of all replies, and
// those that are made of the log again.
func TestSumsAreThoseOfAllReplies(t *testing.T) {
	keys := make([]mesh.ThreadKey, 3)
	for i := range keys {
		keys[i] = mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}
	}
	rapid.Check(t, func(rt *rapid.T) {
		f, want := newFolder(rt), map[string]map[string]tasks.Sum{}
		for _, by := range allBy {
			want[by] = map[string]tasks.Sum{}
		}
		work := map[string]mesh.ExecutionID{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				if err := f.keep(); err != nil {
					rt.Fatal(err)
				}
			case 1:
				f.open() // after a kill
			default:
				k, user, agent := rapid.SampledFrom(keys).Draw(rt, "thread"), rapid.SampledFrom([]string{"ann", "bob"}).Draw(rt, "user"), rapid.SampledFrom([]string{"main", "smith"}).Draw(rt, "agent")
				day, model := rapid.IntRange(0, 9).Draw(rt, "day"), rapid.SampledFrom([]string{"m", "n"}).Draw(rt, "model")
				at := day*daySeconds + 60
				x := work[k.ID+user+agent]
				if x == "" {
					x = f.works(k, at, user, agent)
					work[k.ID+user+agent] = x
				}
				n := int64(rapid.IntRange(1, 1000).Draw(rt, "tokens"))
				f.replies(k, at, x, model, mesh.Usage{Prompt: n, Completion: 1, Cost: float64(n) / 1e7, Unpriced: n % 2})
				one := tasks.Sum{Replies: 1, Prompt: n, Completion: 1, Nanos: n * 100, Unpriced: n % 2}
				for by, of := range map[string]string{tasks.ByDay: begin.AddDate(0, 0, day).Format(time.DateOnly), tasks.ByUser: user, tasks.ByAgent: agent,
					tasks.ByModel: model, tasks.ByThread: k.ID, tasks.ByTenant: "a"} {
					want[by][of] = want[by][of].Add(one)
				}
			}
		}
		for _, x := range []*tasks.Index{f.index, f.newIndex(key)} {
			for _, by := range allBy {
				if diff := cmp.Diff(want[by], sums(rt, x, by)); diff != "" {
					rt.Fatalf("by %s (-want +got):\n%s", by, diff)
				}
			}
		}
	})
}

// What was used in a thread that is deleted stays in sums, but for that of the thread; a user who
// is erased has no name in any, and is not found a second time, also after a kill.
func TestSumsOutliveTheirThreadsAndForgetUsers(t *testing.T) {
	f := newFolder(t)
	k, other := mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}, mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}
	f.replies(k, 1, f.works(k, 0, "ann", "main"), "m", mesh.Usage{Prompt: 10, Cost: 0.5})
	f.replies(k, 1, f.works(k, 0, "bob", "main"), "m", mesh.Usage{Prompt: 5, Cost: 0.25})
	f.replies(other, 1, f.works(other, 0, "ann", "smith"), "m", mesh.Usage{Prompt: 1})
	want := func(what string, by map[string]map[string]int64) {
		t.Helper()
		for range 2 {
			for by, want := range by {
				got := map[string]int64{}
				for of, s := range sums(t, f.index, by) {
					got[of] = s.Prompt
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, by %s (-want +got):\n%s", what, by, diff)
				}
			}
			f.open()
		}
	}
	day := begin.Format(time.DateOnly)
	want("at first", map[string]map[string]int64{tasks.ByThread: {k.ID: 15, other.ID: 1}, tasks.ByUser: {"ann": 11, "bob": 5}, tasks.ByDay: {day: 16}})

	sums(t, f.index, tasks.ByDay) // which has read it before it goes
	if err := f.log.Delete(t.Context(), other, threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	if err := f.index.Forget(t.Context(), []mesh.ThreadKey{other}); err != nil {
		t.Fatal(err)
	}
	want("one is deleted", map[string]map[string]int64{tasks.ByThread: {k.ID: 15}, tasks.ByUser: {"ann": 11, "bob": 5}, tasks.ByDay: {day: 16}})

	ann := mesh.Owner{Tenant: "a", User: "ann"}
	for i, counted := range []int{3, 3, 0} { // by day twice, by thread once
		held, err := f.index.Erase(t.Context(), ann, i == 0)
		n := 0
		for _, h := range held {
			n += h.Count
		}
		if err != nil || n != counted {
			t.Errorf("erased %v, %v, want %d", held, err, counted)
		}
	}
	want("one is erased", map[string]map[string]int64{tasks.ByThread: {k.ID: 15}, tasks.ByUser: {"": 11, "bob": 5}, tasks.ByDay: {day: 16}})
	if err := f.log.Delete(t.Context(), k, threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	want("all are deleted", map[string]map[string]int64{tasks.ByThread: {}, tasks.ByUser: {"": 11, "bob": 5}})
}

// Sums are kept for so many days, and those of one user are no other's.
func TestSumsHaveAnEnd(t *testing.T) {
	f := newFolder(t)
	k := mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}
	x := f.works(k, 0, "ann", "main")
	for _, day := range []int{0, 1, tasks.SumDays} {
		f.replies(k, day*daySeconds, x, "m", mesh.Usage{Prompt: 1})
	}
	at := begin
	f.log = threadlog.New(f.store, threadlog.WithClock(func() time.Time { return at }))
	index, err := tasks.New(f.log, key, nil, tasks.WithPages(f.backend.pages))
	if err != nil {
		t.Fatal(err)
	}
	days := func(by, user string) (all []string) {
		got, err := index.Sums(t.Context(), tasks.Sums{Tenant: "a", User: user, First: begin, Last: begin.AddDate(2, 0, 0), By: by})
		if err != nil {
			t.Fatal(err)
		}
		for of, s := range got {
			all = append(all, fmt.Sprint(of, " ", s.Prompt))
		}
		slices.Sort(all)
		return all
	}
	if got := days(tasks.ByDay, "ann"); len(got) != 3 || len(days(tasks.ByDay, "an")) != 0 {
		t.Errorf("at first %q, and of another %q", got, days(tasks.ByDay, "an"))
	}
	at = begin.AddDate(0, 0, tasks.SumDays)
	f.replies(k, tasks.SumDays*daySeconds, x, "m", mesh.Usage{Prompt: 1}) // by which it looks
	if got := days(tasks.ByDay, "ann"); !slices.Equal(got, []string{"2026-01-02 1", "2027-02-05 2"}) {
		t.Errorf("later there is %q", got)
	}
	if got := days(tasks.ByThread, "ann"); !slices.Equal(got, []string{k.ID + " 3"}) {
		t.Errorf("of the thread there is %q", got)
	}
}

// An agent that makes up names of models has so many sums and no more; nothing of what it used is
// missing.
func TestNamesOfModelsAreBounded(t *testing.T) {
	f := newFolder(t)
	k := mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}
	x := f.works(k, 0, "ann", "main")
	for i := range 100 {
		f.replies(k, 0, x, fmt.Sprint("model ", i), mesh.Usage{Prompt: 1})
	}
	by := sums(t, f.index, tasks.ByModel)
	if len(by) != 65 || by[""].Prompt != 36 || sums(t, f.index, tasks.ByAgent)["main"].Prompt != 100 {
		t.Errorf("there are %d, of which without a name %+v", len(by), by[""])
	}
}
