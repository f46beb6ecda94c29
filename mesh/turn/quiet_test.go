package turn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// told are the words of the node about the thread's turn, each with the seconds after the
// message, and the data that programs read.
func told(t *testing.T, r *Runner, key mesh.ThreadKey) (words, data []string) {
	t.Helper()
	events, err := r.Log.Read(context.Background(), key, 0, 1000)
	must(t, err)
	for _, e := range events {
		b, ok := e.Body.(mesh.TaskMoved)
		if !ok || e.Actor != "node" || b.Message == nil || b.State != working {
			continue
		}
		words = append(words, fmt.Sprintf("%.0f s: %s", e.Time.Sub(events[0].Time).Seconds(), mesh.TextOf(b.Message)))
		p := a2a.Extension(b.Metadata).GetFields()[a2a.KeyProgress].GetStructValue().GetFields()
		data = append(data, fmt.Sprintf("%d %v/%v %v", len(p["working"].GetListValue().GetValues()), p["done"].GetNumberValue(), p["total"].GetNumberValue(), p["slow"].GetBoolValue()))
	}
	return words, data
}

// quietly has the runner work on a turn whose agent plays, with a ticker.
func quietly(t *testing.T, quiet, most time.Duration, play func(r *Runner, say func(*a2apb.StreamResponse))) *Runner {
	t.Helper()
	return quietlyOn(t, &ledger{Backend: mem.Open()}, quiet, most, play)
}

// quietlyOn is quietly with its log in the store.
func quietlyOn(t *testing.T, store *ledger, quiet, most time.Duration, play func(r *Runner, say func(*a2apb.StreamResponse))) *Runner {
	t.Helper()
	texttest.Fixed(t)
	a := &agent{canceled: make(chan string, 8)}
	r := runner(t, store, a)
	a.play = func(say func(*a2apb.StreamResponse)) { play(r, say) }
	r.Quiet, r.Limits.Time, r.Limits.Silence = quiet, most, time.Hour
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { must(t, r.Run(ctx)) })
	t.Cleanup(func() { stop(); running.Wait() })
	post(t, r, "t1")
	return r
}

// note has somebody log something of the thread.
func note(t *testing.T, r *Runner, events ...*mesh.Event) {
	t.Helper()
	must(t, r.States.Decide(context.Background(), key, func(*thread.State) (cache.Decision, error) { return cache.Decision{Events: events}, nil }))
}

// finding O3, S4-067: while a turn's agents say nothing, its user is told who is at work and how
// many are done, every 30 s, and after a while that it takes longer than expected; the
// end of the turn ends that.
func TestAQuietTurnTellsWhoIsAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := quietly(t, 30*time.Second, 0, func(r *Runner, say func(*a2apb.StreamResponse)) {
			say(task("own"))
			time.Sleep(40 * time.Second)
			var leg mesh.ExecutionID
			must(t, r.States.With(t.Context(), key, func(s *thread.State) error { leg = s.Turn("t1").Leg().Execution; return nil }))
			for _, label := range []string{"A", "B", "C"} {
				note(t, r, &mesh.Event{Execution: leg, Actor: "agent:main", Body: mesh.DispatchIssued{Child: mesh.Execution{
					ID: mesh.ExecutionID("x" + label), Parent: leg, Kind: mesh.KindAgent, Agent: "worker", Label: label}}})
			}
			note(t, r, &mesh.Event{Execution: leg, Actor: "agent:main", Body: mesh.DispatchSettled{Child: "xB", State: failed}})
			time.Sleep(90 * time.Second)
			say(piece("own", "the answer"))
			time.Sleep(20 * time.Second) // it is not quiet
			say(status("own", completed))
		})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		words, data := told(t, r, key)
		if diff := cmp.Diff([]string{
			"30 s: Still working: main.", "60 s: Still working: A, C; 1 of 3 done.", "90 s: Still working: A, C; 1 of 3 done.",
			"120 s: This is taking longer than expected; still working: A, C; 1 of 3 done.",
		}, words); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"1 0/0 false", "2 1/3 false", "2 1/3 false", "2 1/3 true"}, data); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}
		if r.Drives(key) {
			t.Error("an idle thread has a driver")
		}
		must(t, r.Close(t.Context()))
	})
}

// Who wants it not is told nothing, and a turn that waits for its user or talks is not
// quiet.
func TestWhatIsNotQuietIsNotTold(t *testing.T) {
	talks := func(_ *Runner, say func(*a2apb.StreamResponse)) {
		say(task("own"))
		for range 20 {
			time.Sleep(25 * time.Second)
			say(piece("own", "more"))
		}
		say(status("own", asks))
	}
	still := silent(func(int64) time.Duration { return 5 * time.Minute })
	for name, tt := range map[string]struct {
		quiet time.Duration
		play  func(*Runner, func(*a2apb.StreamResponse))
	}{"it talks, and then asks": {30 * time.Second, talks}, "switched off": {-1, still}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := quietly(t, tt.quiet, 0, tt.play)
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				if words, _ := told(t, r, key); len(words) > 0 {
					t.Errorf("told %q", words)
				}
				must(t, r.Close(t.Context()))
			})
		})
	}
}

// An agent with less time takes longer than expected after half of it.
func TestAnAgentWithLittleTimeIsLateSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := quietly(t, 10*time.Second, time.Minute, func(_ *Runner, say func(*a2apb.StreamResponse)) {
			say(task("own"))
			time.Sleep(35 * time.Second)
			say(status("own", completed))
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		words, data := told(t, r, key)
		if len(words) != 3 || data[1] != "1 0/0 false" || data[2] != "1 0/0 true" {
			t.Errorf("told %q %q", words, data)
		}
		must(t, r.Close(t.Context()))
	})
}

// another is the key of another thread.
func another(i int) mesh.ThreadKey {
	return mesh.ThreadKey{Tenant: key.Tenant, ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i+10)}
}

// silent is an agent that does not say anything until its time is over, which most says of
// its calls.
func silent(most func(call int64) time.Duration) func(*Runner, func(*a2apb.StreamResponse)) {
	var calls atomic.Int64
	return func(_ *Runner, say func(*a2apb.StreamResponse)) {
		n := calls.Add(1)
		own := fmt.Sprint("own", n)
		say(task(own))
		time.Sleep(most(n))
		say(status(own, completed))
	}
}

// S4-067: turns that begin on the node do not put off what the user of a quiet one is told.
func TestAQuietTurnIsToldOfOnABusyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := quietly(t, 30*time.Second, 0, silent(func(call int64) time.Duration {
			if call == 1 {
				return 100 * time.Second
			}
			return 0
		}))
		for i := range 100 {
			time.Sleep(time.Second)
			must(t, r.Take(t.Context(), another(i), opening("t1")))
		}
		synctest.Wait()
		words, _ := told(t, r, key)
		if diff := cmp.Diff([]string{"30 s: Still working: main.", "60 s: Still working: main.", "90 s: Still working: main."}, words); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		must(t, r.Close(t.Context()))
	})
}

// The words of many quiet turns are written together: where the disk takes a second for
// each, the last user is told as soon as the first.
func TestManyQuietTurnsAreToldOfAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := quietlyOn(t, &ledger{Backend: mem.Open(), takes: time.Second}, 30*time.Second, 0,
			silent(func(int64) time.Duration { return 50 * time.Second }))
		for i := range maxTelling - 1 {
			go func() { must(t, r.Take(t.Context(), another(i), opening("t1"))) }() // the bubble waits
		}
		time.Sleep(5 * time.Minute)
		want, _ := told(t, r, another(0))
		if len(want) != 1 {
			t.Fatalf("told %q", want)
		}
		for i := range maxTelling - 1 {
			words, _ := told(t, r, another(i))
			if diff := cmp.Diff(want, words); diff != "" {
				t.Errorf("turn %d was told (-want +got):\n%s", i, diff)
			}
		}
		must(t, r.Close(t.Context()))
	})
}
