// Giver is an agent of the mesh at the address in BENCH_TO that says one thing and hands
// the stream over. It is built with the sources of the mesh that it joins, and ends with
// its input.
package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log"
	"os"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/agent"
)

type giver struct{}

func (giver) Card() *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name: "giver", Description: "Hands over", Version: "1.0.0",
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: "give", Name: "Give", Description: "Hands over", Tags: []string{"give"}}},
	}
}

func (giver) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if !yield(agent.Text{Text: "giver"}, nil) {
			return
		}
		if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "bench"}); err != nil {
			yield(nil, err)
		}
	}
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	err := agent.Serve(ctx, agent.Options{Agent: giver{}, NodeAddr: os.Getenv("BENCH_TO"), Register: &agent.Registration{Name: "giver"},
		Ready: func(endpoint string) { fmt.Printf("ready %s\n", endpoint) }})
	if err != nil {
		log.Fatal(err)
	}
}
