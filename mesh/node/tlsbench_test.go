package node_test

import (
	"context"
	"io"
	"iter"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
)

// benchEvents are the events of an answer.
const benchEvents = 500

// BenchmarkEventOverMutualTLS streams answers over mutual TLS and in clear by turns, and
// tells what an event takes of each, from the agent over the log to the user.
func BenchmarkEventOverMutualTLS(b *testing.B) {
	many := func(context.Context, *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			for range benchEvents {
				if !yield(agent.Data{Name: "word", Value: "word"}, nil) {
					return
				}
			}
		}
	}
	secured := config(b.TempDir())
	secured.TLS = node.TLS{Mode: node.TLSAuto}
	open, m := start(b, config(b.TempDir()), map[string]run{"main": many}), start(b, secured, map[string]run{"main": many})
	s := holder(b, m)
	ways := []a2apb.A2AServiceClient{a2apb.NewA2AServiceClient(dialed(b, open.GRPC, rpc.DialOptions{})),
		a2apb.NewA2AServiceClient(dialed(b, mesh.SecureScheme+m.GRPC, rpc.DialOptions{TLS: s.Client}))}
	var took [2]time.Duration
	var events [2]int
	rounds := 0
	for b.Loop() {
		for i := range ways {
			way := (i + rounds) % 2 // each is first in turn
			begun := time.Now()
			stream, err := ways[way].SendStreamingMessage(b.Context(), say("go"))
			for err == nil {
				if _, err = stream.Recv(); err == nil {
					events[way]++
				}
			}
			if err != io.EOF {
				b.Fatal(err)
			}
			took[way] += time.Since(begun)
		}
		rounds++
	}
	clearly, secretly := float64(took[0].Nanoseconds())/float64(events[0]), float64(took[1].Nanoseconds())/float64(events[1])
	b.ReportMetric(clearly, "plain-ns/event")
	b.ReportMetric(secretly, "mtls-ns/event")
	b.ReportMetric(secretly/clearly, "mtls/plain")
	b.ReportMetric(float64(events[1])/float64(rounds), "events/answer")
}
