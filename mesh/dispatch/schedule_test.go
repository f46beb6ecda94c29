package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
)

// nowhere is a node that keeps nothing of what it is told.
type nowhere struct{ grpc.ClientConnInterface }

func (nowhere) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return nil }

// scheduler is a dispatcher whose agents do as the function says, and which has no log.
func scheduler(t testing.TB, o Options, work func(r Result) Result) *Dispatcher {
	t.Helper()
	g := &mesh.Grant{Tenant: "acme", User: "ann", Thread: mesh.NewThreadID()}
	g.Execution = mesh.NewExecutionID(g.Thread)
	m, err := meshclient.New(nowhere{}, mesh.Call{Principal: mesh.Principal{Tenant: g.Tenant, Grant: g}})
	if err != nil {
		t.Fatal(err)
	}
	o.MaxAgents = -1
	d := New(t.Context(), &agent.Invocation{Execution: g.Execution, Thread: g.Key(), Grant: g, Mesh: m}, nil, o)
	d.run = func(_ context.Context, _ *job, r Result) Result { return work(r) }
	return d
}

// runAll dispatches a batch and waits for all of it.
func (d *Dispatcher) runAll(t testing.TB, batch []Order) []Result {
	t.Helper()
	jobs, bad := d.plan(t.Context(), batch)
	if bad != nil {
		t.Fatal(bad)
	}
	d.accept(jobs)
	got, err := d.Wait(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// S1-012: Close ends what is at work, also if who dispatched it was cut off before, and waits
// for half a minute at most.
func TestCloseWaitsForHalfAMinute(t *testing.T) {
	for name, tt := range map[string]struct {
		ends time.Duration // after it is told to
		want time.Duration
	}{"it ends": {10 * time.Second, 10 * time.Second}, "it does not": {time.Hour, 30 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := scheduler(t, Options{}, nil)
				d.run = func(ctx context.Context, _ *job, r Result) Result {
					<-ctx.Done()
					time.Sleep(tt.ends)
					return completed(r)
				}
				jobs, _ := d.plan(t.Context(), []Order{{AgentID: "a", Name: "worker", Mission: "work"}})
				d.accept(jobs)
				d.cancel(context.Canceled)
				begun := time.Now()
				d.Close()
				if got := time.Since(begun); got != tt.want {
					t.Errorf("it took %v, want %v", got, tt.want)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// graph is a batch where each order depends on those before it that the function names.
func graph(n int, after func(i int) []int) (batch []Order, deps [][]int) {
	for i := range n {
		o := Order{AgentID: fmt.Sprint("n", i), Name: "worker", Mission: "work"}
		deps = append(deps, after(i))
		for _, at := range deps[i] {
			o.DependsOn = append(o.DependsOn, fmt.Sprint("n", at))
		}
		batch = append(batch, o)
	}
	return batch, deps
}

func completed(r Result) Result {
	r.Status = StatusCompleted
	return r
}

// chained and random are shapes of graphs.
func chained(i int) []int { return []int{i - 1}[:min(i, 1)] }

func random(seed uint64) func(i int) []int {
	r := rand.New(rand.NewPCG(seed, 0))
	return func(i int) (deps []int) {
		for range min(i, r.IntN(4)) {
			deps = append(deps, r.IntN(i))
		}
		return deps
	}
}

// Where each order depends on two, which depend on the same two, there are more ways
// through the graph than anybody can go; all that it takes is looked at once.
func TestWaitingLooksAtEachOrderOnce(t *testing.T) {
	const layers = 200
	batch, _ := graph(2*layers, func(i int) []int {
		if i < 2 {
			return nil
		}
		return []int{i - i%2 - 2, i - i%2 - 1}
	})
	ask := func(r Result) Result {
		if r.Status = StatusCompleted; r.AgentID == "n1" {
			r.Status = StatusWaiting
		}
		return r
	}
	d := scheduler(t, Options{}, ask)
	defer d.Close()
	got := d.runAll(t, batch)
	if got[0].Status != StatusCompleted || got[1].Status != StatusWaiting || got[len(got)-1].Status != StatusPending {
		t.Errorf("%v, %v, ..., %v", got[0].Status, got[1].Status, got[len(got)-1].Status)
	}
	last, first := fmt.Sprint("n", 2*layers-1), "n0"
	if waiting := d.pause(t.Context(), []string{last}); len(waiting) != 1 || waiting[0] != "n1" {
		t.Errorf("the last one waits for %v", waiting)
	}
	if waiting := d.pause(t.Context(), []string{first}); waiting != nil {
		t.Errorf("who is done waits for %v", waiting)
	}
	if waiting, ok := d.Next(t.Context()); !ok || len(waiting) != 1 {
		t.Errorf("with one that is done and was not told of: %v, %v", waiting, ok)
	}
	d.Take()
	if waiting, ok := d.Next(t.Context()); ok || len(waiting) != 1 {
		t.Errorf("when nothing moves: %v, %v", waiting, ok)
	}
}

// Who is ready runs in the order of dispatch, in whichever order it became ready.
func TestWhatIsReadyRunsInTheOrderOfDispatch(t *testing.T) {
	// n1 to n9 let go of those that were ordered after them, whoever has more to wait for later.
	batch, _ := graph(100, func(i int) []int {
		switch {
		case i < 10:
			return nil
		}
		return []int{9 - i%10}
	})
	var mu sync.Mutex
	var ran []string
	d := scheduler(t, Options{MaxConcurrent: 1}, func(r Result) Result {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, r.AgentID)
		return completed(r)
	})
	defer d.Close()
	d.runAll(t, batch)
	for i, id := range ran {
		if id != batch[i].AgentID {
			t.Fatalf("they ran in the order %v", ran)
		}
	}
}

// BenchmarkScheduler is what an order costs that is planned, queued, started, ended and
// waited for, of an agent that does nothing, without a log; beside it is what the same graph
// costs when each node is a goroutine that waits for those before it (x-goroutine), and
// nothing is checked, limited or timed.
func BenchmarkScheduler(b *testing.B) {
	const n = 10_000
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // neither fills the heap that a mesh may have before it collects
	for name, after := range map[string]func(i int) []int{"chain": chained, "random": random(1), "wide": func(int) []int { return nil }} {
		b.Run(fmt.Sprintf("%s of %d", name, n), func(b *testing.B) {
			batch, deps := graph(n, after)
			var scheduled, spawned time.Duration
			for b.Loop() {
				d := scheduler(b, Options{}, completed)
				runtime.GC()
				begin := time.Now()
				got := d.runAll(b, batch)
				scheduled += time.Since(begin)
				if len(got) != n || got[n-1].Status != StatusCompleted {
					b.Fatal(len(got), got[n-1])
				}
				d.Close()
				runtime.GC()
				begin = time.Now()
				goroutines(deps)
				spawned += time.Since(begin)
			}
			b.ReportMetric(float64(scheduled)/float64(b.N*n), "ns/node")
			b.ReportMetric(float64(spawned)/float64(b.N*n), "ns/goroutine")
			b.ReportMetric(float64(scheduled)/float64(spawned), "x-goroutine")
		})
	}
}

// goroutines runs a graph of goroutines, each of which waits for those that it depends on.
func goroutines(deps [][]int) {
	done := make([]chan struct{}, len(deps))
	for i := range done {
		done[i] = make(chan struct{})
	}
	var all sync.WaitGroup
	for i, before := range deps {
		all.Go(func() {
			for _, at := range before {
				<-done[at]
			}
			close(done[i])
		})
	}
	all.Wait()
}
