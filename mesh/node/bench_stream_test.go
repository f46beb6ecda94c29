//go:build unix

package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// streams is how many streams are open at a time.
const streams = 8

// A path is one way to the same agent.
type path struct {
	client  a2apb.A2AServiceClient
	prepare func(context.Context) context.Context // of each call
	costs   []cost
	spent   time.Duration
}

func direct(ctx context.Context) context.Context { return ctx }

// run measures n streams of the shape.
func (p *path) run(b *testing.B, s shape, n int) {
	begin := time.Now()
	p.costs = append(p.costs, measure(b, n*s.chunks, func() {
		atOnce(min(streams, n), n, func(int) {
			ctx, cancel := context.WithTimeout(p.prepare(b.Context()), 5*time.Minute)
			defer cancel()
			stream, err := p.client.SendStreamingMessage(ctx, say(s.String()))
			drink(b, s, stream, err)
		})
	}))
	p.spent += time.Since(begin)
}

// BenchmarkStream measures streams of an agent through the whole node, durable
// in the default store, and at the same time the same chunks through other
// paths. It reports, for each chunk,
//
//	x-bare-cpu, x-bare-time   our cost as a multiple of two hops of grpc-go and
//	                          generated types, which keep nothing
//	x-first-cpu               our cost as a multiple of that of the shortest
//	                          stream: not above 1 where cost is linear
//	us-cpu/added              what each chunk costs by which the stream is
//	                          longer than the one before: that is flat
//	x-agent-bare-time         time of our agent runtime alone as a multiple of
//	                          one such hop
//	a2asrv-x-cpu, -time       how many times as much as our runtime the same
//	                          agent on a2a-go's server package costs
//	a2asrv-x-edge-cpu         how many times as much as our whole durable path
//	                          a2a-go's server package alone costs
//
// Chunks of text have the 2 KiB at which our runtime sends what it has put
// together; pieces have 100 bytes. extended is a client that activated our
// extension and so gets a cursor with every chunk.
func BenchmarkStream(b *testing.B) {
	m := start(b, config(b.TempDir()), map[string]run{"main": chunker})
	inner, granted := runtimeOf(b, m, "main")
	bareDirect, bareHop := serveAgent(b, bareAgent{})
	sdkDirect := serveSDK(b)
	extended := func(ctx context.Context) context.Context {
		return mesh.WithCall(ctx, mesh.Call{Thread: mesh.NewThreadID(), Extensions: []string{mesh.ExtensionURI}})
	}
	for _, kind := range []struct {
		name    string
		shape   shape
		prepare func(context.Context) context.Context
		slow    bool // with a2a-go's server package
	}{
		{"text", shape{size: 2048}, direct, true},
		{"pieces", shape{size: 100, pieces: true}, direct, true},
		{"extended", shape{size: 100, pieces: true}, extended, false},
	} {
		var first, before float64 // cost of a chunk, and of the whole stream before
		shorter := 0
		for _, chunks := range []int{10, 100, 800} {
			kind.shape.chunks = chunks
			b.Run(fmt.Sprintf("%s/chunks=%d", kind.name, chunks), func(b *testing.B) {
				edge, agent := &path{client: m.edge(), prepare: kind.prepare}, &path{client: inner, prepare: granted}
				hop, one, sdk := &path{client: bareHop, prepare: direct}, &path{client: bareDirect, prepare: direct}, &path{client: sdkDirect, prepare: direct}
				for b.Loop() {
					for range rounds {
						race(b, kind.shape, edge, agent, hop, one)
						if kind.slow {
							sdk.runSlow(b, kind.shape)
						}
					}
				}
				each := median(edge.costs, cpu)
				if first == 0 {
					first = each
				}
				added := (each*float64(chunks) - before) / float64(chunks-shorter)
				before, shorter = each*float64(chunks), chunks
				report(b, edge.costs)
				b.ReportMetric(ratio(edge.costs, hop.costs, cpu), "x-bare-cpu")
				b.ReportMetric(ratio(edge.costs, hop.costs, wall), "x-bare-time")
				b.ReportMetric(each/first, "x-first-cpu")
				b.ReportMetric(added/1e3, "us-cpu/added")
				b.ReportMetric(ratio(agent.costs, one.costs, wall), "x-agent-bare-time")
				if kind.slow {
					b.ReportMetric(ratio(sdk.costs, agent.costs, cpu), "a2asrv-x-cpu")
					b.ReportMetric(ratio(sdk.costs, agent.costs, wall), "a2asrv-x-time")
					b.ReportMetric(ratio(sdk.costs, edge.costs, cpu), "a2asrv-x-edge-cpu")
				}
			})
		}
	}
}

// race runs the paths in turn.
func race(b *testing.B, s shape, paths ...*path) {
	for _, p := range paths {
		p.run(b, s, max(streams, 3200/s.chunks))
	}
}

// runSlow runs a path whose cost grows with the square of the stream's length:
// fewer streams, and no more often than a figure takes.
func (p *path) runSlow(b *testing.B, s shape) {
	if p.spent < 2*time.Second {
		p.run(b, s, max(1, 400/s.chunks))
	}
}

// BenchmarkUnary measures SendMessage through the whole node, which is durable
// and waits for the agent's answer, and through two bare hops: one call after
// the other (p50) and 16 at a time (cost of a call).
func BenchmarkUnary(b *testing.B) {
	m := start(b, config(b.TempDir()), map[string]run{"main": echo})
	_, hop := serveAgent(b, bareAgent{})
	clients := []a2apb.A2AServiceClient{m.edge(), hop}
	ask := func(c a2apb.A2AServiceClient) {
		resp, err := c.SendMessage(b.Context(), say("hello"))
		if state := resp.GetTask().GetStatus().GetState(); err != nil || state != a2apb.TaskState_TASK_STATE_COMPLETED {
			b.Errorf("the task is %v: %v", state, err)
		}
	}
	const alone, crowd, workers = 40, 320, 16
	p50s, costs := make([][]float64, len(clients)), make([][]cost, len(clients))
	for b.Loop() {
		for range rounds {
			for i, c := range clients {
				var took []time.Duration
				for range alone {
					begin := time.Now()
					ask(c)
					took = append(took, time.Since(begin))
				}
				p50s[i] = append(p50s[i], float64(median(took, itself)))
				costs[i] = append(costs[i], measure(b, crowd, func() { atOnce(workers, crowd, func(int) { ask(c) }) }))
			}
		}
	}
	report(b, costs[0])
	ours, bare := median(p50s[0], itself), median(p50s[1], itself)
	b.ReportMetric(ours/1e3, "us-p50")
	b.ReportMetric(ours/bare, "x-bare-p50")
	b.ReportMetric((ours-bare)/syncTime(b), "added-fdatasyncs")
	b.ReportMetric(ratio(costs[0], costs[1], cpu), "x-bare-cpu")
	b.ReportMetric(ratio(costs[0], costs[1], wall), "x-bare-time")
}
