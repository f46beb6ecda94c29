package dispatch_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
)

// quick is an agent that answers at once, and the client of a bare stream to it.
func quick(b *testing.B, w *world) a2apb.A2AServiceClient {
	w.page = 1000 // a node's
	w.agent("worker", func(m *mission) error { return m.done("done") })
	conn, err := w.pool.Get(w.agents["worker"].GetEndpoint())
	if err != nil {
		b.Fatal(err)
	}
	return a2apb.NewA2AServiceClient(conn)
}

// bare asks the agent over a stream with nothing around it.
func bare(b *testing.B, c a2apb.A2AServiceClient) {
	stream, err := c.SendStreamingMessage(b.Context(), &a2apb.SendMessageRequest{Message: &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER, Parts: parts("do it")}})
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		b.Fatal(err)
	}
}

// orders are n orders for the worker, each after those that the function names.
func orders(n int, after func(i int) []string) []dispatch.Order {
	all := make([]dispatch.Order, n)
	for i := range all {
		all[i] = order(fmt.Sprint("n", i), after(i)...)
	}
	return all
}

func alone(int) []string { return nil }

// BenchmarkSubAgent is what a sub-agent costs that is dispatched and waited for, among so
// many at a time, and how often as long as a bare gRPC stream to the same agent takes
// (x-stream): found, ticketed, called, followed and logged by a node beside it.
func BenchmarkSubAgent(b *testing.B) {
	for _, n := range []int{1, 32, 128} {
		b.Run(fmt.Sprint(n, " at once"), func(b *testing.B) {
			w := newWorld(b)
			c := quick(b, w)
			var bares time.Duration
			for b.Loop() {
				d, _ := w.dispatcher(dispatch.Options{MaxAgents: n, MaxConcurrent: n})
				for id, r := range run(b, d, orders(n, alone)...) {
					if r.Status != dispatch.StatusCompleted {
						b.Fatal(id, r)
					}
				}
				b.StopTimer()
				begin := time.Now()
				var all sync.WaitGroup
				for range n {
					all.Go(func() { bare(b, c) })
				}
				all.Wait()
				bares += time.Since(begin)
				d.Close()
				b.StartTimer()
			}
			each := float64(b.Elapsed()) / float64(b.N*n)
			b.ReportMetric(each/1e3, "µs/agent")
			b.ReportMetric(each/(float64(bares)/float64(b.N*n)), "x-stream")
		})
	}
}

// BenchmarkGraph is what a node of a graph costs with its log: the first fails, all others are
// skipped because of it, one after the other. Beside it is what it costs when each node is a
// goroutine that waits for the one before it and logs the same over the same connection
// (x-goroutine): what the scheduler costs alone BenchmarkScheduler tells.
func BenchmarkGraph(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n, " nodes"), func(b *testing.B) {
			w := newWorld(b)
			batch := orders(n, func(i int) []string {
				if i == 0 {
					return nil
				}
				return []string{fmt.Sprint("n", i-1)}
			})
			var took, goroutines time.Duration
			for b.Loop() {
				inv := w.orchestrator()
				d := dispatch.New(b.Context(), inv, w.pool, dispatch.Options{MaxAgents: n})
				runtime.GC()
				begin := time.Now()
				if got := run(b, d, batch...); got["n1"].Status != dispatch.StatusSkipped || len(got) != n {
					b.Fatalf("%d results, %v", len(got), got["n1"])
				}
				d.Close() // with it all is logged
				took += time.Since(begin)
				inv = w.orchestrator()
				runtime.GC()
				begin = time.Now()
				chain(b, inv, n)
				goroutines += time.Since(begin)
			}
			b.ReportMetric(float64(took)/float64(b.N*n), "ns/node")
			b.ReportMetric(float64(goroutines)/float64(b.N*n), "ns/goroutine")
			b.ReportMetric(float64(took)/float64(goroutines), "x-goroutine")
		})
	}
}

// chain has n goroutines, of which each waits for the one before it, log what a dispatcher
// does of a batch whose first agent is not there.
func chain(b *testing.B, inv *agent.Invocation, n int) {
	b.Helper()
	nodes := make([]mesh.Execution, n)
	accepted, skipped := make([]*mesh.Event, n), make([]*mesh.Event, n)
	for i := range nodes {
		nodes[i] = mesh.Execution{ID: mesh.NewExecutionID(inv.Thread.ID), Parent: inv.Execution, Kind: mesh.KindAgent, Agent: "worker", User: inv.User, Label: fmt.Sprint("n", i), Text: fmt.Sprint("do n", i)}
		if i > 0 {
			nodes[i].DependsOn = []mesh.ExecutionID{nodes[i-1].ID}
		}
		accepted[i] = &mesh.Event{Body: mesh.DispatchAccepted{Child: nodes[i], Wave: i + 1}}
		skipped[i] = &mesh.Event{Body: mesh.DispatchSettled{Child: nodes[i].ID, State: a2apb.TaskState_TASK_STATE_REJECTED, Result: "Skipped because of another one.", Reason: mesh.ReasonDependency}}
	}
	if _, err := inv.Mesh.Record(b.Context(), accepted...); err != nil {
		b.Fatal(err)
	}
	before := make(chan struct{})
	close(before)
	for i := range n {
		done, after := make(chan struct{}), before
		go func() { // the last one is waited for, which waits for all
			defer close(done)
			<-after
			if err := inv.Mesh.Keep(b.Context(), skipped[i]); err != nil {
				b.Error(err)
			}
		}()
		before = done
	}
	<-before
	if err := inv.Mesh.Flush(b.Context()); err != nil {
		b.Error(err)
	}
}
