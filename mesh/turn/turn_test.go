package turn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

// What turns do with agents, handoffs and cancels is tested through package edge; here
// is what the parts do by themselves.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	working   = a2apb.TaskState_TASK_STATE_WORKING
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	failed    = a2apb.TaskState_TASK_STATE_FAILED
	canceled  = a2apb.TaskState_TASK_STATE_CANCELED
	asks      = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	auth      = a2apb.TaskState_TASK_STATE_AUTH_REQUIRED
)

var key = mesh.ThreadKey{Tenant: "acme", ID: "00000000-0000-4000-8000-000000000001"}

// A ledger is a store that remembers what was appended at once, takes its time, and can
// fail.
type ledger struct {
	threadlog.Backend
	takes   time.Duration // each append
	mu      sync.Mutex
	batches []int // how many events each append had
	kinds   []string
	settled []mesh.Seq
	full    bool
}

func (l *ledger) Append(ctx context.Context, k mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	l.mu.Lock()
	full := l.full
	l.batches, l.settled = append(l.batches, len(b.Entries)), append(l.settled, b.Settled)
	var kinds []string
	for _, e := range b.Entries {
		ev, err := eventpb.Decode(e.Data)
		if err != nil {
			panic(err)
		}
		kinds = append(kinds, eventpb.KindOf(eventpb.EventToProto(ev)))
	}
	l.kinds = append(l.kinds, strings.Join(kinds, " "))
	l.mu.Unlock()
	time.Sleep(l.takes)
	if full {
		return threadlog.Appended{}, mesh.Errorf(mesh.Unavailable, "ledger", "the disk is full")
	}
	return l.Backend.Append(ctx, k, b)
}

func (l *ledger) fill(full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = full
}

// An agent is every agent there is: it says the lines, and ends.
type agent struct {
	call.Client
	play     func(say func(*a2apb.StreamResponse))
	canceled chan string
}

func (a *agent) Resolve(_ mesh.TenantID, name string) (registry.Entry, error) {
	yes := true
	return registry.Entry{Name: name, Live: true, Trusted: true, Card: &a2apb.AgentCard{Name: name, Capabilities: &a2apb.AgentCapabilities{Streaming: &yes}}}, nil
}

func (a *agent) ReportDown(registry.Entry, error) {}

func (a *agent) Dial(call.Target) (call.Client, error) { return a, nil }

func (a *agent) SendStreamingMessage(_ context.Context, _ *a2apb.SendMessageRequest) iter.Seq2[call.Response, error] {
	return func(yield func(call.Response, error) bool) {
		goes := true
		a.play(func(r *a2apb.StreamResponse) { goes = goes && yield(call.Response{StreamResponse: r}, nil) })
	}
}

func (a *agent) CancelTask(_ context.Context, task string) error {
	a.canceled <- task
	return nil
}

func task(id string) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{Id: id, ContextId: "c", Status: &a2apb.TaskStatus{State: working}}}}
}

func status(id string, state mesh.TaskState) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{TaskId: id, Status: &a2apb.TaskStatus{State: state}}}}
}

func piece(id, words string) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{TaskId: id,
		Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}}}}}}
}

// runner works on the turns of a store in which each agent is a.
func runner(t *testing.T, store *ledger, a *agent) *Runner {
	t.Helper()
	signer, err := grant.NewSigner(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	log := threadlog.New(store)
	r, err := New(Config{Log: log, States: cache.New(log, 0), Leases: lease.NewLocal(nil), Directory: a, Dialer: a, Signer: signer, Main: "main", Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// opening has the user open a turn, as package edge does.
func opening(id mesh.ExecutionID) func(*thread.State) (cache.Decision, error) {
	return func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: []*mesh.Event{opened(id), posted(id)}}, nil
	}
}

// post has the user say something that is worked on, as package edge does.
func post(t *testing.T, r *Runner, id mesh.ExecutionID) {
	t.Helper()
	if err := r.Take(t.Context(), key, opening(id)); err != nil {
		t.Fatal(err)
	}
}

// story is the log after the message, one line for each event.
func story(t *testing.T, r *Runner) (out []string) {
	t.Helper()
	events, err := r.Log.Read(context.Background(), key, 2, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		line := strings.TrimPrefix(fmt.Sprintf("%T", e.Body), "mesh.")
		switch b := e.Body.(type) {
		case mesh.TaskMoved:
			line += " " + b.State.String() + " " + b.Reason
		case mesh.DispatchSettled:
			line += " " + b.State.String() + " " + b.Reason
		case mesh.ThreadClaimed:
			line += fmt.Sprint(" ", b.Epoch)
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

// Another node's claim, lease or turn makes a message one that waits, and nothing is
// said twice or lost.
func TestAMessageBeginsItsTurnOnlyInAThreadAtRest(t *testing.T) {
	over := func(say func(*a2apb.StreamResponse)) { say(task("own")); say(status("own", completed)) }
	add := func(r *Runner, events ...*mesh.Event) {
		if err := r.States.Decide(context.Background(), key, func(*thread.State) (cache.Decision, error) { return cache.Decision{Events: events}, nil }); err != nil {
			t.Error(err)
		}
	}
	for name, tt := range map[string]struct {
		before func(r *Runner)
		meant  func(r *Runner) // while the message is being decided, once
		want   []int           // the first appends, by their events
	}{
		"at rest":                   {func(*Runner) {}, nil, []int{5}},
		"a turn waits":              {func(r *Runner) { add(r, opened("t0"), posted("t0")) }, nil, []int{2, 2, 3}},
		"a turn waits for its user": {func(r *Runner) { add(r, opened("t0"), posted("t0"), begins("t0", "a0", "main"), moved("t0", asks)) }, nil, []int{4, 5}},
		"another message comes in":  {func(*Runner) {}, func(r *Runner) { add(r, opened("t0"), posted("t0")) }, []int{2, 5, 2, 3}}, // the 5 are refused
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &ledger{Backend: mem.Open()}
				r := runner(t, store, &agent{play: over})
				defer func() { _ = r.Close(t.Context()) }()
				tt.before(r)
				tries := 0
				err := r.Take(t.Context(), key, func(s *thread.State) (cache.Decision, error) {
					if tries++; tries == 1 && tt.meant != nil {
						other := &Runner{Config: r.Config}
						other.States = cache.New(r.Log, 0)
						tt.meant(other)
					}
					return opening("t1")(s)
				})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if diff := cmp.Diff(tt.want, store.batches[:min(len(store.batches), len(tt.want))]); diff != "" {
					t.Errorf("appended at once (-want +got):\n%s", diff)
				}
				must(t, r.States.With(t.Context(), key, func(s *thread.State) error {
					for _, x := range s.Turns() {
						if x.State != completed && x.State != asks {
							t.Errorf("turn %s is %v", x.ID, x.State)
						}
						if len(x.Legs) != 1 {
							t.Errorf("turn %s had %d legs", x.ID, len(x.Legs))
						}
					}
					return nil
				}))
				if r.Drives(key) {
					t.Error("an idle thread has a driver")
				}
			})
		})
	}
}

// A thread that is driven elsewhere gets the message all the same, and a caller who
// is refused hears why.
func TestAMessageIsTakenWhoeverDrivesItsThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &ledger{Backend: mem.Open()}
		r := runner(t, store, &agent{play: func(say func(*a2apb.StreamResponse)) { say(status("own", completed)) }})
		defer func() { _ = r.Close(t.Context()) }()
		l, err := r.Leases.Acquire(t.Context(), key, "other", time.Hour)
		must(t, err)
		post(t, r, "t1")
		synctest.Wait()
		if diff := cmp.Diff([]int{2}, store.batches); diff != "" || r.Drives(key) {
			t.Errorf("appended at once (-want +got):\n%s", diff)
		}
		must(t, r.Leases.Release(t.Context(), l))
		refused := mesh.Errorf(mesh.Exhausted, "test", "too many")
		err = r.Take(t.Context(), key, func(*thread.State) (cache.Decision, error) { return cache.Decision{}, refused })
		if !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What an agent said just before its last word is in the log with that and with the
// end of the turn, and that nothing is left to do, or not at all.
func TestTheEndOfATurnIsOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &ledger{Backend: mem.Open(), takes: time.Second}
		a := &agent{play: func(say func(*a2apb.StreamResponse)) {
			say(task("own"))
			time.Sleep(time.Second / 2) // it is being logged
			say(piece("own", "the answer"))
			say(status("own", completed))
		}}
		r := runner(t, store, a)
		defer func() { _ = r.Close(t.Context()) }()
		post(t, r, "t1")
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{
			"ThreadClaimed 1", "TaskMoved TASK_STATE_WORKING", "DispatchIssued", // once a lease
			"TaskMoved TASK_STATE_WORKING",
			"ArtifactAppended", "DispatchSettled TASK_STATE_COMPLETED", "TaskMoved TASK_STATE_COMPLETED",
		}
		if diff := cmp.Diff(want, story(t, r)); diff != "" {
			t.Errorf("the log (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{5, 1, 3}, store.batches); diff != "" {
			t.Errorf("appended at once (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]mesh.Seq{0, 0, 6}, store.settled); diff != "" { // or every thread is looked at after a restart
			t.Errorf("nothing was left to do up to (-want +got):\n%s", diff)
		}
		if r.Drives(key) {
			t.Error("an idle thread has a driver")
		}
	})
}

// A log that cannot be written to ends the turn, as soon as that can be written, and
// the agent's stream is not read on.
func TestATurnWhoseOutputCannotBeLoggedEndsSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &ledger{Backend: mem.Open()}
		a := &agent{play: func(say func(*a2apb.StreamResponse)) {
			store.fill(true)
			say(task("own"))
			time.Sleep(time.Second)
			store.fill(false)
			say(piece("own", "the answer"))
			say(status("own", completed))
		}}
		r := runner(t, store, a)
		defer func() { _ = r.Close(t.Context()) }()
		post(t, r, "t1")
		time.Sleep(time.Minute)
		synctest.Wait()
		got := story(t, r)
		if last := got[len(got)-1]; last != "TaskMoved TASK_STATE_FAILED "+call.ReasonLog {
			t.Errorf("the turn ended with %q", last)
		}
		for _, line := range got {
			if line == "ArtifactAppended" {
				t.Errorf("output was logged after what could not be: %q", got)
			}
		}
	})
}

// A driver that is woken while it leaves looks once more, and one that could not
// settle its thread gives way to another.
func TestADriverThatIsWokenDoesNotLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runner(t, &ledger{Backend: mem.Open()}, &agent{})
		defer func() { _ = r.Close(t.Context()) }()
		d := &driver{Config: r.Config, runner: r, key: key, wake: make(chan struct{}, 1)}
		r.drivers[key] = d
		r.Wake(key)
		if r.leave(d, true) || !r.Drives(key) {
			t.Error("it left although it was woken")
		}
		if !r.leave(d, true) || r.Drives(key) {
			t.Error("it stays although nothing woke it")
		}
		r.drivers[key] = d
		r.Wake(key)
		if !r.leave(d, false) {
			t.Error("it stays with a thread that it could not settle")
		}
		synctest.Wait()
		if r.Drives(key) {
			t.Error("a thread without turns has a driver")
		}
	})
}

// Close waits for the agents that were asked to end their tasks, and those are asked
// by their own ids.
func TestCloseWaitsForTheCourtesy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agent{canceled: make(chan string)}
		r := runner(t, &ledger{Backend: mem.Open()}, a)
		r.EndTasks(t.Context(), key, []thread.Execution{{Execution: mesh.Execution{ID: "x", Agent: "main"}, RemoteTask: "own"}})
		closed := make(chan struct{})
		go func() { defer close(closed); _ = r.Close(t.Context()) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close did not wait")
		default:
		}
		if got := <-a.canceled; got != "own" {
			t.Errorf("asked to cancel %q", got)
		}
		<-closed
	})
}

// Agents that are to end their tasks, and of which nothing is heard, are told once more when
// their executions are over: they may not have had the message. Those that ended are not.
func TestWhoIsNotHeardOfIsToldToEndOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agent{canceled: make(chan string, 8)}
		r := runner(t, &ledger{Backend: mem.Open()}, a)
		r.write(t, opened("t1"), posted("t1"), begins("t1", "a1", "main"), begins("a1", "quick", "smith"), begins("a1", "late", "smith"))
		var all []thread.Execution
		must(t, r.States.With(t.Context(), key, func(s *thread.State) error {
			all = append(all, *s.Execution("quick"), *s.Execution("late"))
			return nil
		}))
		r.stop(t.Context(), key, all)
		synctest.Wait()
		r.write(t, moved("quick", canceled))
		must(t, r.Close(t.Context()))
		close(a.canceled)
		told := map[string]int{}
		for id := range a.canceled {
			told[id]++
		}
		if told["quick"] != 1 || told["late"] != 2 {
			t.Errorf("told to end: %v", told)
		}
		must(t, r.States.With(t.Context(), key, func(s *thread.State) error {
			if x := s.Execution("late"); x.State != canceled || x.Reason != mesh.ReasonCanceled {
				t.Errorf("it is %s for %s", x.State, x.Reason)
			}
			return nil
		}))
	})
}
