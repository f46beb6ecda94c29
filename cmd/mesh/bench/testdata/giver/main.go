// Command giver is two agents of the mesh at the address in BENCH_TO: giver says one thing and hands
// the stream over, and own says what it is asked for. It is built with the sources of the
// mesh that it joins, and ends with its input.
package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log"
	"os"
	"strconv"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/agent"
)

func card(name string) *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name: name, Description: "Is measured", Version: "1.0.0",
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: name, Name: name, Description: "Is measured", Tags: []string{name}}},
	}
}

type giver struct{}

func (giver) Card() *a2apb.AgentCard { return card("giver") }

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

// An own agent answers in so many chunks as it is asked for, of a size that the runtime does
// not put together.
type own struct{}

func (own) Card() *a2apb.AgentCard { return card("own") }

func (own) Run(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		_, asked, _ := strings.Cut(inv.Text(), "chunks=")
		number, _, _ := strings.Cut(asked, " ")
		chunks, err := strconv.Atoi(number)
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range chunks {
			if !yield(agent.Text{Text: fmt.Sprintf("%08d ", i) + strings.Repeat(".", 2<<10-9)}, nil) {
				return
			}
		}
	}
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	serve := func(a agent.Agent, ready func(string)) {
		name := a.Card().GetName()
		if err := agent.Serve(ctx, agent.Options{Agent: a, NodeAddr: os.Getenv("BENCH_TO"), Register: &agent.Registration{Name: name}, Ready: ready}); err != nil {
			log.Fatal(err)
		}
	}
	serve(own{}, func(string) {
		go serve(giver{}, func(endpoint string) { fmt.Printf("ready %s\n", endpoint) }) // ends with the process
	})
}
