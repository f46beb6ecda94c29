//go:build unix

package node_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	"agentmesh/mesh/agent"
)

// A soloist is an agent that says which task it has, and sends its chunks when
// it is told to.
type soloist struct {
	task  chan string
	begin chan struct{}
}

func (w soloist) run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		w.task <- string(inv.Grant.Turn) // the case takes it
		select {
		case <-w.begin:
			chunker(ctx, inv)(yield)
		case <-ctx.Done():
			yield(nil, ctx.Err())
		}
	}
}

// An audience is who subscribes to a task.
type audience struct {
	readers int
	stalled bool // and one who opens the stream and never reads
}

// heard is what one task took, in ns for each event: until the sender of its
// message had the completed task, and until the reader in the middle had all
// of the stream; 0 if there is none.
type heard struct{ done, read float64 }

// window is what a stalled stream's client takes in before it stalls.
const window = 64 << 10

// dialStalled returns a client whose streams take in one window, and no more
// until they are read.
func dialStalled(b *testing.B, addr string) (a2apb.A2AServiceClient, *grpc.ClientConn) {
	b.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecureCredentials()),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window))
	if err != nil {
		b.Fatal(err)
	}
	return a2apb.NewA2AServiceClient(conn), conn
}

// play runs one task before the audience. When it returns, all have left.
func (a audience) play(b *testing.B, m *testMesh, w soloist, s shape) heard {
	b.Helper()
	runtime.GC() // what others left behind is not charged here
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	var end time.Time
	wg.Go(func() {
		resp, err := m.edge().SendMessage(ctx, say(s.String()))
		end = time.Now()
		if state := resp.GetTask().GetStatus().GetState(); err != nil || state != a2apb.TaskState_TASK_STATE_COMPLETED {
			b.Errorf("the task is %v: %v", state, err)
		}
	})
	task := &a2apb.Task{}
	select {
	case task.Id = <-w.task:
	case <-ctx.Done():
		b.Fatal("the agent does not begin")
	}
	if a.stalled {
		client, conn := dialStalled(b, m.GRPC)
		defer func() { _ = conn.Close() }()
		subscribe(ctx, b, client, task)
	}
	open := make([]grpc.ServerStreamingClient[a2apb.StreamResponse], a.readers)
	for i := range open {
		open[i] = subscribe(ctx, b, m.edge(), task)
	}
	if b.Failed() {
		b.FailNow()
	}
	took := make([]time.Duration, len(open))
	at := time.Now()
	w.begin <- struct{}{}
	for i, stream := range open {
		wg.Go(func() {
			drink(b, s, stream, nil)
			took[i] = time.Since(at)
		})
	}
	wg.Wait()
	n := float64(s.chunks)
	return heard{done: float64(end.Sub(at)) / n, read: float64(median(took, itself)) / n}
}

// atRest returns how many goroutines there are when those that are on their way
// out are gone.
func atRest() int {
	fewest := runtime.NumGoroutine()
	for range 100 {
		time.Sleep(time.Millisecond)
		fewest = min(fewest, runtime.NumGoroutine())
	}
	return fewest
}

// noneLeft checks that there are no more goroutines than there were, once
// those that are on their way out had time for it.
func noneLeft(b *testing.B, before int) {
	b.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		now := runtime.NumGoroutine()
		if now <= before {
			return
		}
		if time.Now().After(end) {
			b.Errorf("%d goroutines, and %d before anyone read", now, before)
			return
		}
	}
}

// BenchmarkReaders measures a task's stream, durable in the default store,
// with so many subscribers at a time. It reports, for each event,
//
//	done-ns/event, x-one-done  until the sender had the completed task, and as
//	                           a multiple of that with one subscriber
//	ns/event, x-one            the same for the reader in the middle
//	x-one/reader               x-one for each reader: they share the processors
//
// stalled is one subscriber who reads and one who never does: its multiples are
// about 1 where nobody waits for that one. Those of subscribers=1 are noise.
func BenchmarkReaders(b *testing.B) {
	w := soloist{task: make(chan string), begin: make(chan struct{})}
	m := start(b, config(b.TempDir()), map[string]run{"main": w.run})
	s := shape{chunks: 800, size: 2048} // many times the window
	one := audience{readers: 1}
	one.play(b, m, w, s)   // connections, and what else is made once
	before := atRest() + 1 // that of the case itself
	for _, kind := range []struct {
		name string
		audience
	}{
		{"subscribers=0", audience{}},
		{"subscribers=1", one},
		{"subscribers=10", audience{readers: 10}},
		{"subscribers=100", audience{readers: 100}},
		{"stalled", audience{readers: 1, stalled: true}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			var all []heard
			var done, read []float64 // multiples
			for b.Loop() {
				for i := range 2 * rounds {
					var base, this heard
					if i%2 == 0 { // neither is always the one that comes after the other
						base, this = one.play(b, m, w, s), kind.play(b, m, w, s)
					} else {
						this, base = kind.play(b, m, w, s), one.play(b, m, w, s)
					}
					all = append(all, this)
					done, read = append(done, this.done/base.done), append(read, this.read/base.read)
				}
			}
			noneLeft(b, before)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(all, func(h heard) float64 { return h.done }), "done-ns/event")
			b.ReportMetric(median(done, itself), "x-one-done")
			if kind.readers > 0 {
				x := median(read, itself)
				b.ReportMetric(median(all, func(h heard) float64 { return h.read }), "ns/event")
				b.ReportMetric(x, "x-one")
				b.ReportMetric(x/float64(kind.readers), "x-one/reader")
			}
		})
	}
}

// BenchmarkTasks measures reading tasks of a tenant that has 1,000: one of
// them, a first page of the default size, and all of them page by page.
func BenchmarkTasks(b *testing.B) {
	const tasks, workers = 1_000, 16
	m := start(b, config(b.TempDir()), map[string]run{"main": echo})
	ids := make([]string, tasks)
	atOnce(workers, tasks, func(i int) {
		resp, err := m.edge().SendMessage(b.Context(), say(fmt.Sprint("hello ", i)))
		if err != nil {
			b.Error(err)
		}
		ids[i] = resp.GetTask().GetId()
	})
	if b.Failed() {
		return
	}
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			id := ids[i%tasks]
			if got, err := m.edge().GetTask(b.Context(), &a2apb.GetTaskRequest{Id: id}); err != nil || got.GetId() != id {
				b.Fatalf("got task %q for %q: %v", got.GetId(), id, err)
			}
		}
	})
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			page, err := m.edge().ListTasks(b.Context(), &a2apb.ListTasksRequest{})
			if err != nil || page.GetTotalSize() != tasks || len(page.GetTasks()) == 0 || page.GetNextPageToken() == "" {
				b.Fatalf("a page of %d of %d tasks: %v", len(page.GetTasks()), page.GetTotalSize(), err)
			}
		}
	})
	b.Run("list=all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			found := map[string]bool{}
			for req := (&a2apb.ListTasksRequest{}); ; {
				page, err := m.edge().ListTasks(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				for _, t := range page.GetTasks() {
					found[t.GetId()] = true
				}
				if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
					break
				}
			}
			if len(found) != tasks {
				b.Fatalf("%d tasks on all pages, want %d", len(found), tasks)
			}
		}
	})
}
