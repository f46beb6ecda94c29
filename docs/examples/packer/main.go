// Command packer is an agent that says what to pack for a journey.
package main

import (
	"context"
	"fmt"
	"iter"
	"log"
	"os"
	"os/signal"
	"regexp"
	"strconv"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh/agent"
)

type packer struct{}

// Card is what the mesh and its agents know about this one. They choose it by these words.
func (packer) Card() *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name: "Packer", Description: "Writes packing lists for journeys.", Version: "1.0.0",
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{
			Id: "pack", Name: "Packing list", Description: "Says what to pack for so many days",
			Tags: []string{"packing", "journey", "luggage"},
		}},
	}
}

var number = regexp.MustCompile(`\d+`)

// Run answers one message. What it yields reaches the user at once.
func (packer) Run(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		days, err := strconv.Atoi(number.FindString(inv.Text()))
		if err != nil {
			yield(agent.Ask{Text: "For how many days?"}, nil) // the answer is another Run
			return
		}
		if !yield(agent.Progress{Text: "Opening the wardrobe"}, nil) {
			return // the user stopped it
		}
		for _, item := range []string{"shirts", "pairs of socks", "books"} {
			if !yield(agent.Text{Text: fmt.Sprintf("- %d %s\n", days, item)}, nil) {
				return
			}
		}
	}
}

// serve runs the agent until Ctrl-C.
func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return agent.Serve(ctx, agent.Options{
		Agent:    packer{},
		NodeAddr: "127.0.0.1:7420",
		Register: &agent.Registration{Name: "packer"},
		Ready:    func(at string) { fmt.Println("packer is in the mesh, at", at) },
	})
}

func main() {
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}
