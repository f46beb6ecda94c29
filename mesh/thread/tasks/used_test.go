package tasks_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/threadlog"
)

// used is what the index says at that second, and what one says that begins afresh.
func (w *world) used(tenant mesh.TenantID, user string, second int) (ofUser, ofTenant limit.Used) {
	w.t.Helper()
	now := begin.Add(time.Duration(second) * time.Second)
	if err := w.index.Catch(context.Background(), tenant); err != nil {
		w.t.Fatal(err)
	}
	ofUser, ofTenant, _ = w.index.Used(tenant, user, now)
	return ofUser, ofTenant
}

func (w *world) wantUsed(what string, user string, second int, ofUser, ofTenant limit.Quota) {
	w.t.Helper()
	for _, restarted := range []string{"", ", after a restart"} {
		u, t := w.used("a", user, second)
		if diff := cmp.Diff([]limit.Quota{ofUser, ofTenant}, []limit.Quota{u.Quota, t.Quota}); diff != "" {
			w.t.Errorf("%s%s (-want +got):\n%s", what, restarted, diff)
		}
		w.log = threadlog.New(w.store, threadlog.WithClock(func() time.Time { return begin.Add(time.Duration(second) * time.Second) }))
		w.index = w.newIndex(key)
	}
}

// Users have threads, agents at work and what was used within a day, as the log says,
// whatever became of the index meanwhile.
func TestTheIndexCountsWhatUsersHave(t *testing.T) {
	w := newWorld(t)
	k := mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}
	turn := w.open(k, 0) // bob's
	child := func(of mesh.ExecutionID, name string) mesh.ExecutionID {
		id := mesh.NewExecutionID(k.ID)
		w.add(k, 1, of, mesh.DispatchIssued{Child: mesh.Execution{ID: id, Parent: of, Kind: mesh.KindAgent, Agent: name, User: "bob"}})
		return id
	}
	main := child(turn, "main")
	w.wantUsed("the agent of the turn is none that was dispatched", "bob", 2, limit.Quota{Threads: 1}, limit.Quota{Threads: 1})
	worker, mailer := child(main, "worker"), child(main, "mailer")
	w.add(k, 3, worker, mesh.ModelReplied{Usage: mesh.Usage{Prompt: 10, Completion: 5, Cost: 0.25}})
	w.add(k, 3, main, mesh.ModelReplied{Usage: mesh.Usage{Prompt: 100}})
	all := limit.Quota{Threads: 1, Agents: 2, Dispatches: 2, Tokens: 115, Cost: 250_000}
	w.wantUsed("two are at work", "bob", 4, all, all)
	w.wantUsed("another user", "ann", 4, limit.Quota{}, all)

	w.add(k, 5, worker, mesh.TaskMoved{State: input})
	all.Agents = 1
	w.wantUsed("one waits", "bob", 5, all, all)
	w.add(k, 5, worker, mesh.TaskMoved{State: working})
	w.add(k, 6, main, mesh.DispatchSettled{Child: mailer, State: completed})
	w.wantUsed("one is over, one goes on", "bob", 6, all, all)
	w.add(k, 7, turn, mesh.TaskMoved{State: completed})
	all.Agents = 0
	w.wantUsed("nothing goes on after its turn", "bob", 7, all, all)

	day := 24 * 3600
	if u, _ := w.used("a", "bob", 8); !u.Free.Equal(begin.Add(24 * time.Hour)) {
		t.Errorf("there is room again at %v", u.Free)
	}
	w.wantUsed("a day later", "bob", day+8, limit.Quota{Threads: 1}, limit.Quota{Threads: 1})

	w.add(k, 8, turn, mesh.ThreadShared{Owner: "ann"})
	w.wantUsed("it is another's", "ann", day+9, limit.Quota{Threads: 1}, limit.Quota{Threads: 1})
	if err := w.log.Delete(t.Context(), k, threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	w.wantUsed("it is deleted", "ann", day+9, limit.Quota{}, limit.Quota{})
}
