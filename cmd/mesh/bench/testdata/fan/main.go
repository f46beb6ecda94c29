// Command fan is an agent of the mesh at the address in BENCH_TO that has others work: it
// dispatches as many orders to the agent bench as it is asked for, all at once, and then asks
// the same of that agent at the address in BENCH_AGENT, by streams with nothing around them. It
// says how many µs each took. It ends with its input.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/rpc"
)

type fan struct {
	conns *rpc.Pool
	bare  a2apb.A2AServiceClient
}

func (*fan) Card() *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name: "fan", Description: "Has others work", Version: "1.0.0",
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: "fan", Name: "Fan", Description: "Has others work", Tags: []string{"fan"}}},
	}
}

// Run answers "fan N: WHAT", where WHAT is what each is asked for.
func (f *fan) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		said, err := f.measure(ctx, inv)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(agent.Text{Text: said}, nil)
	}
}

func (f *fan) measure(ctx context.Context, inv *agent.Invocation) (string, error) {
	var n int
	head, what, _ := strings.Cut(inv.Text(), ": ")
	if _, err := fmt.Sscanf(head, "fan %d", &n); err != nil {
		return "", err
	}
	orders := make([]dispatch.Order, n)
	for i := range orders {
		orders[i] = dispatch.Order{AgentID: fmt.Sprint("n", i), Name: "bench", Mission: what}
	}
	d := dispatch.New(ctx, inv, f.conns, dispatch.Options{MaxAgents: -1, MaxConcurrent: max(1, n)})
	defer d.Close()
	begin := time.Now()
	if n > 0 {
		if errs := d.Dispatch(ctx, orders); errs != nil {
			return "", errors.Join(errs...)
		}
	}
	results, err := d.Wait(ctx, nil)
	took := time.Since(begin)
	for _, r := range results {
		if err == nil && r.Status != dispatch.StatusCompleted {
			err = fmt.Errorf("%s is %s: %s", r.AgentID, r.Status, r.Result)
		}
	}
	if err != nil {
		return "", err
	}
	begin = time.Now()
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { errs[i] = f.ask(ctx, what) })
	}
	all.Wait()
	return fmt.Sprintf("took %.1f bare %.1f", float64(took)/1e3, float64(time.Since(begin))/1e3), errors.Join(errs...)
}

// ask asks the agent over a stream with nothing around it.
func (f *fan) ask(ctx context.Context, what string) error {
	stream, err := f.bare.SendStreamingMessage(ctx, &a2apb.SendMessageRequest{Message: mesh.Say(what)})
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	conn, err := grpc.NewClient(os.Getenv("BENCH_AGENT"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	f := &fan{conns: rpc.NewPool(rpc.DialOptions{}), bare: a2apb.NewA2AServiceClient(conn)}
	ready := func(endpoint string) { fmt.Printf("ready %s\n", endpoint) }
	if err := agent.Serve(ctx, agent.Options{Agent: f, NodeAddr: os.Getenv("BENCH_TO"), Register: &agent.Registration{Name: "fan"}, Ready: ready}); err != nil {
		log.Fatal(err)
	}
}
