package turn

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// Turns that another node drives are not recovered: it is alive. Those of a node that
// is gone are.
func TestRecoverLeavesWhatIsDrivenElsewhere(t *testing.T) {
	store := &ledger{Backend: mem.Open()}
	r := runner(t, store, &agent{})
	r.Interrupt = true
	defer func() { _ = r.Close(t.Context()) }()
	r.write(t, opened("t1"), posted("t1"), begins("t1", "a1", "main"))
	l, err := r.Leases.Acquire(t.Context(), key, "other", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	stored := func(want int) {
		t.Helper()
		if n, err := r.Recover(t.Context()); n != want || err != nil {
			t.Errorf("%d turns of the store are ended, %v; want %d", n, err, want)
		}
	}
	all := func(want int) {
		t.Helper()
		if n, err := r.RecoverAll(t.Context(), []mesh.ThreadKey{key}); n != want || err != nil {
			t.Errorf("%d turns are ended, %v; want %d", n, err, want)
		}
	}
	stored(0)
	all(0)
	if err := r.Leases.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	store.fill(true)
	if _, err := r.Recover(t.Context()); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("what could not be logged: %v", err)
	}
	store.fill(false)
	stored(1)
	stored(0)
	all(0)
	if got := story(t, r); got[len(got)-1] != "TaskMoved TASK_STATE_FAILED "+mesh.ReasonInterrupted {
		t.Errorf("the log: %q", got)
	}
}

// A thread that is deleted while its agent is being called has no turn any more.
func TestATurnOfAThreadThatWasDeletedIsNotFound(t *testing.T) {
	d := &driver{Config: runner(t, &ledger{Backend: mem.Open()}, &agent{}).Config, key: key}
	if err := d.address(t.Context(), &leg{turn: "t1"}, nil); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("what the user said last: %v", err)
	}
	if err := d.address(t.Context(), &leg{turn: "t1"}, []mesh.Seq{2}); err == nil {
		t.Error("an agent gets what is there no more")
	}
	if _, err := d.begin(t.Context(), "t1"); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("its first leg: %v", err)
	}
	d.write(t, opened("t2"), posted("t2"))
	if _, err := d.announce(t.Context(), &leg{turn: "t1"}); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("its leg in a thread that began anew: %v", err)
	}
}

// Who watches a turn is told what happens from then on, and not what the turn's first
// leg was made of.
func TestAWatchBeginsWhereTheThreadIs(t *testing.T) {
	d := &driver{Config: runner(t, &ledger{Backend: mem.Open()}, &agent{}).Config, key: key}
	d.write(t, opened("t1"), posted("t1"), begins("t1", "a1", "main"), gives("a1", "main", "smith"))
	w, err := d.watch(t.Context(), "t1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.stop()
	d.write(t, givesBack("t1", 4))
	if ev := <-w.signals; ev.Seq != 5 {
		t.Errorf("told of event %d: %T", ev.Seq, ev.Body)
	}
}

// A turn that nobody woke a driver for, because its node is gone, is found by and by,
// at once when the node starts, for as long as it runs.
func TestRunFindsWhatIsUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agent{play: func(say func(*a2apb.StreamResponse)) {
			say(task("own"))
			say(status("own", completed))
		}}
		r := runner(t, &ledger{Backend: mem.Open()}, a)
		defer func() { _ = r.Close(t.Context()) }()
		ended := func(id mesh.ExecutionID) (over bool) {
			synctest.Wait()
			if err := r.States.With(t.Context(), key, func(s *thread.State) error { over = s.Turn(id).State == completed; return nil }); err != nil {
				t.Fatal(err)
			}
			return over
		}
		ctx, cancel := context.WithCancel(t.Context())
		r.write(t, opened("t1"), posted("t1"))
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		if !ended("t1") {
			t.Error("what was there before is not worked on")
		}
		r.write(t, opened("t2"), posted("t2"))
		if ended("t2") {
			t.Error("it was woken")
		}
		time.Sleep(leaseTTL)
		if !ended("t2") {
			t.Error("what came later is not worked on")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A claim that lost, and with which nothing is said then, was never made.
func TestAClaimThatIsNotInTheLogIsNone(t *testing.T) {
	d := &driver{Config: runner(t, &ledger{Backend: mem.Open()}, &agent{}).Config, key: key}
	d.write(t, opened("t1"), posted("t1"))
	tries := 0
	err := d.decide(t.Context(), func(s *thread.State, dec *cache.Decision) error {
		if tries++; tries > 1 {
			return nil
		}
		dec.Events = append(dec.Events, moved("t1", working))
		_, err := d.Log.Append(t.Context(), key, []*mesh.Event{moved("t1", canceled)}, threadlog.AppendOptions{Expect: map[mesh.Scope]mesh.Seq{"t1": s.LastDecision("t1"), mesh.ThreadScope: s.LastDecision(mesh.ThreadScope)}})
		return err
	})
	if err != nil || tries != 2 || d.epoch != 0 {
		t.Errorf("after %d tries the claim is %d, %v", tries, d.epoch, err)
	}
	if err := d.decide(t.Context(), func(_ *thread.State, dec *cache.Decision) error {
		dec.Events = append(dec.Events, opened("t2"))
		return nil
	}); err != nil || d.epoch != 1 {
		t.Errorf("then the claim is %d, %v", d.epoch, err)
	}
}

// A driver that waits for agents to end takes up the next message at once, also one that
// another node took, and nothing less.
func TestAMessageInterruptsTheWaitForAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{Config: runner(t, &ledger{Backend: mem.Open()}, &agent{}).Config, key: key, wake: make(chan struct{}, 1)}
		for name, tt := range map[string]struct {
			happens func(at chan struct{})
			want    []bool // what is returned; nothing while it waits
		}{
			"a message":      {func(chan struct{}) { d.write(t, opened("t1"), posted("t1")) }, []bool{true}},
			"something else": {func(chan struct{}) { d.write(t, opened("t2")) }, nil},
			"it is woken":    {func(chan struct{}) { d.wake <- struct{}{} }, []bool{true}},
			"the agent ends": {func(at chan struct{}) { close(at) }, []bool{false}},
		} {
			if err := d.States.With(t.Context(), key, func(s *thread.State) error { d.seen = s.Seq; return nil }); err != nil {
				t.Fatal(err)
			}
			at := make(chan struct{})
			d.drains = []chan struct{}{at}
			var got []bool
			done := make(chan struct{})
			go func() { got = append(got, d.interrupted(t.Context())); close(done) }()
			synctest.Wait()
			tt.happens(at)
			synctest.Wait()
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s: returned %v, want %v", name, got, tt.want)
			}
			if len(tt.want) == 0 {
				close(at)
			}
			<-done
		}
	})
}

// The agent that takes over reads the last that was said, as far as there is room.
func TestTheLastThatWasSaidGoesAlong(t *testing.T) {
	d := &driver{Config: runner(t, &ledger{Backend: mem.Open()}, &agent{}).Config, key: key}
	d.write(t, opened("t1"), posted("t1"), moved("t1", completed), opened("t2"), posted("t2"), moved("t2", completed), opened("t3"), posted("t3"))
	before, err := d.before(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := recentOf(before, 9, 1<<20)
	if len(all) != 3 {
		t.Fatalf("%d things were said", len(all))
	}
	one := proto.Size(all[0])
	for name, tt := range map[string]struct{ n, room, want int }{
		"fewer":      {2, 1 << 20, 2},
		"none":       {0, 1 << 20, 0},
		"just fit":   {9, 2 * one, 2},
		"do not fit": {9, 2*one - 1, 1},
		"no room":    {9, 0, 0},
	} {
		if got := recentOf(before, tt.n, tt.room); len(got) != tt.want {
			t.Errorf("%s: %d go along, want %d", name, len(got), tt.want)
		}
	}
}

// write appends as whoever takes messages does, and wakes nobody.
func (c *Config) write(t *testing.T, events ...*mesh.Event) {
	t.Helper()
	err := c.States.Decide(t.Context(), key, func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: events}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
