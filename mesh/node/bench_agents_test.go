//go:build unix

package node_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/registry"
)

// BenchmarkSendAmongAgents measures how long a whole send takes where 8 agents
// are registered, and as many as a tenant may have: x-8-agents is the second as
// a multiple of the first, which take turns. Finding C4: it was 140.
func BenchmarkSendAmongAgents(b *testing.B) {
	sizes := []int{8, registry.MaxAgents}
	var meshes []*testMesh
	for _, size := range sizes {
		m := start(b, config(b.TempDir()), map[string]run{"main": echo})
		m.populate(b, size)
		meshes = append(meshes, m)
	}
	took := make([][]time.Duration, len(sizes))
	for b.Loop() {
		for range 20 {
			for i, m := range meshes {
				begin := time.Now()
				if _, err := m.edge().SendMessage(b.Context(), say("hello")); err != nil {
					b.Fatal(err)
				}
				took[i] = append(took[i], time.Since(begin))
			}
		}
	}
	few, many := float64(median(took[0], itself)), float64(median(took[1], itself))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(few/1e3, "us-8-agents")
	b.ReportMetric(many/1e3, "us-1000-agents")
	b.ReportMetric(many/few, "x-8-agents")
}

// populate registers that many agents, all of which answer at the node's port.
func (m *testMesh) populate(t testing.TB, size int) {
	t.Helper()
	agents := meshv1.NewRegistryServiceClient(m.conn)
	for i := range size {
		name := fmt.Sprintf("agent-%d", i)
		if _, err := agents.RegisterAgent(t.Context(), &meshv1.RegisterAgentRequest{
			Name: name, Card: card(name), Endpoint: m.GRPC, Lease: durationpb.New(registry.MaxLease)}); err != nil {
			t.Fatal(err)
		}
	}
}
