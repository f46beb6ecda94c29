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

// A soloist is an agent that has its chunks ready, sends them when it is told
// to, and says how long that took it.
type soloist struct {
	begin chan struct{}
	took  chan time.Duration // buffered: nobody need be there
}

func newSoloist() *soloist {
	return &soloist{begin: make(chan struct{}), took: make(chan time.Duration, 1)}
}

func (w *soloist) run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		select {
		case <-w.begin:
		case <-ctx.Done():
			yield(nil, ctx.Err())
			return
		}
		at := time.Now()
		chunker(ctx, inv)(yield)
		w.took <- time.Since(at)
	}
}

// An audience is who subscribes to a task.
type audience struct {
	readers int
	stalled bool // and one who opens the stream and never reads
}

// One round of one task: ns for each event of the writer and of its readers.
// Without readers, read is 0.
type heard struct{ wrote, read float64 }

func (h heard) of(one heard) (wrote, read float64) { return h.wrote / one.wrote, h.read / one.read }

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
func (a audience) play(b *testing.B, m *testMesh, w *soloist, s shape) heard {
	b.Helper()
	req := say(s.String())
	req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	resp, err := m.edge().SendMessage(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	task := resp.GetTask()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if a.stalled {
		client, conn := dialStalled(b, m.GRPC)
		defer func() { _ = conn.Close() }()
		subscribe(ctx, b, client, task)
	}
	var open []grpc.ServerStreamingClient[a2apb.StreamResponse]
	for range a.readers {
		open = append(open, subscribe(ctx, b, m.edge(), task))
	}
	if b.Failed() {
		b.FailNow()
	}
	w.begin <- struct{}{}
	at := time.Now()
	took := make([]time.Duration, len(open))
	var wg sync.WaitGroup
	for i, stream := range open {
		wg.Go(func() {
			drink(b, s, stream, nil)
			took[i] = time.Since(at)
		})
	}
	wg.Wait()
	h := heard{read: float64(median(took, itself)) / float64(s.chunks)}
	select {
	case d := <-w.took:
		h.wrote = float64(d) / float64(s.chunks)
	case <-ctx.Done():
		b.Fatal("the writer does not come to its end")
	}
	settled(ctx, b, m, task)
	return h
}

// settled waits until the task is completed.
func settled(ctx context.Context, b *testing.B, m *testMesh, task *a2apb.Task) {
	b.Helper()
	for {
		got, err := m.edge().GetTask(ctx, &a2apb.GetTaskRequest{Id: task.GetId()})
		if err != nil {
			b.Fatal(err)
		}
		if got.GetStatus().GetState() == a2apb.TaskState_TASK_STATE_COMPLETED {
			return
		}
		time.Sleep(time.Millisecond)
	}
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
// with so many subscribers at a time: ns for each event, of the agent that
// writes and of the reader in the middle, and how much that is of the same with
// one subscriber (x-one-writer, x-one). A reader is through when all readers
// have had their share of the processors, so x-one grows with their number;
// x-one/reader is that for each of them. stalled is one who reads and one who
// never does: both figures are 1 where nobody waits for that one. The figures
// of subscribers=1 say what is noise.
func BenchmarkReaders(b *testing.B) {
	w := newSoloist()
	m := start(b, config(b.TempDir()), map[string]run{"main": w.run})
	s := shape{chunks: 400, size: 2048} // many times the window
	one := audience{readers: 1}
	one.play(b, m, w, s) // connections, and what else is made once
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
			var wrote, read []float64
			for b.Loop() {
				for range rounds {
					base := one.play(b, m, w, s)
					this := kind.play(b, m, w, s)
					x, y := this.of(base)
					all, wrote, read = append(all, this), append(wrote, x), append(read, y)
				}
			}
			noneLeft(b, before)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(all, func(h heard) float64 { return h.wrote }), "writer-ns/event")
			b.ReportMetric(median(wrote, itself), "x-one-writer")
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
