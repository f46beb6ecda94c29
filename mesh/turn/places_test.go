package turn

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// Who waits for a place is told at which when the message is accepted, in the same append,
// and then as often as anybody is told something, if it has moved up.
func TestWhoWaitsIsToldOfMovingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		store := &ledger{Backend: mem.Open()}
		r := runner(t, store, &agent{play: func(say func(*a2apb.StreamResponse)) {
			say(task("own"))
			<-next
			say(status("own", completed))
		}})
		r.Quiet = 10 * time.Second
		r.Places = Places{Running: 1}
		r.line.Most = 1
		threads := make([]mesh.ThreadKey, 4)
		for i := range threads {
			threads[i] = mesh.ThreadKey{Tenant: "acme", ID: fmt.Sprintf("00000000-0000-4000-9000-%012d", i)}
			must(t, r.Take(t.Context(), threads[i], opening(mesh.NewExecutionID(threads[i].ID))))
			synctest.Wait()
		}
		told := func(of mesh.ThreadKey) (places []float64) {
			t.Helper()
			events, err := r.Log.Read(t.Context(), of, 0, 100)
			must(t, err)
			for _, e := range events {
				if m, ok := e.Body.(mesh.TaskMoved); ok && m.Reason == mesh.ReasonQueued {
					places = append(places, a2a.Extension(m.Metadata).GetFields()[a2a.KeyPlace].GetNumberValue())
				}
			}
			return places
		}
		if n := len(store.batches) - 1; n != len(threads) { // without what the agent said that is at work
			t.Errorf("%d messages were accepted in %d appends", len(threads), n)
		}
		time.Sleep(2 * r.Quiet)
		r.tellAll(t.Context()) // nothing has changed
		next <- struct{}{}
		synctest.Wait()
		r.tellAll(t.Context()) // they were told too little ago
		time.Sleep(r.Quiet)
		r.tellAll(t.Context())
		r.tellAll(t.Context())
		for i, want := range []string{"[]", "[1]", "[2 1]", "[3 2]"} {
			if got := fmt.Sprint(told(threads[i])); got != want {
				t.Errorf("thread %d was told of places %s, want %s", i, got, want)
			}
		}
		for range threads[1:] {
			next <- struct{}{}
		}
		synctest.Wait()
		if n := r.Running() + r.Waiting(); n != 0 {
			t.Errorf("%d are left", n)
		}
		must(t, r.Close(t.Context()))
	})
}

// A thread that waits here and is worked on elsewhere meanwhile is told nothing, and costs
// nothing when its turn comes.
func TestWhoWaitsIsFoundByAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		r := runner(t, &ledger{Backend: mem.Open()}, &agent{play: func(say func(*a2apb.StreamResponse)) {
			say(task("own"))
			<-next
			say(status("own", completed))
		}})
		r.Quiet, r.Places = 10*time.Second, Places{Running: 1}
		r.line.Most = 1
		post(t, r, mesh.NewExecutionID(key.ID))
		synctest.Wait()
		other := mesh.ThreadKey{Tenant: "acme", ID: "00000000-0000-4000-9000-000000000001"}
		turn := mesh.NewExecutionID(other.ID)
		must(t, r.Take(t.Context(), other, opening(turn)))
		synctest.Wait()
		elsewhere, err := r.Leases.Acquire(t.Context(), other, "another", time.Hour)
		must(t, err)
		move := func(state mesh.TaskState) {
			must(t, r.States.Decide(t.Context(), other, func(s *thread.State) (cache.Decision, error) {
				return cache.Decision{Events: []*mesh.Event{r.event(turn, "node", mesh.TaskMoved{State: state})}}, nil
			}))
		}
		move(working)
		var at mesh.Seq
		seq := func() (seq mesh.Seq) {
			must(t, r.States.With(t.Context(), other, func(s *thread.State) error { seq = s.Seq; return nil }))
			return seq
		}
		at = seq()
		time.Sleep(2 * r.Quiet)
		r.waiting[other].place = 7 // as if it had moved up
		r.tellAll(t.Context())
		if seq() != at {
			t.Error("who is worked on elsewhere is told that it waits")
		}
		next <- struct{}{}
		synctest.Wait()
		if n := r.Running() + r.Waiting(); n != 0 {
			t.Errorf("%d are left, when it is driven elsewhere", n)
		}
		move(completed)
		must(t, r.Leases.Release(t.Context(), elsewhere))
		must(t, r.Close(t.Context()))
	})
}
