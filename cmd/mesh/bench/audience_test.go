//go:build linux

package bench_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/rpc"
)

// heard is what an answer before an audience took: processor time of the server,
// and the time until who asked had all of it, both in µs.
type heard struct{ cpu, done float64 }

// audiences measures what subscribers cost who listen to an answer, and whether
// anybody waits for one who never reads.
func (b *bench) audiences(ctx context.Context, r round, _ int) error {
	const readers = 10
	chunks := b.sizes[len(b.sizes)-1]
	var cpu, late []float64
	for range 3 {
		none, err := b.play(ctx, chunks, 0, false)
		if err != nil {
			return err
		}
		ten, err := b.play(ctx, chunks, readers, false)
		if err != nil {
			return err
		}
		stalled, err := b.play(ctx, chunks, 0, true)
		if err != nil {
			return err
		}
		cpu, late = append(cpu, (ten.cpu-none.cpu)/float64(readers*chunks)), append(late, stalled.done/none.done)
	}
	r["mesh heard cpu"], r["mesh stalled"] = median(cpu), median(late)
	return nil
}

// play asks for an answer that begins when the audience is there.
func (b *bench) play(ctx context.Context, chunks, readers int, stalled bool) (h heard, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := a2apb.NewA2AServiceClient(b.mesh.conn)
	stream, err := client.SendStreamingMessage(ctx, message(question{chunks: chunks, after: 200 * time.Millisecond}.String()))
	if err != nil {
		return h, err
	}
	first, err := stream.Recv()
	if err != nil {
		return h, err
	}
	subscribe := &a2apb.SubscribeToTaskRequest{Id: first.GetTask().GetId()}
	if stalled {
		const window = 64 << 10 // what it takes in before it stalls
		conn, err := grpc.NewClient(b.mesh.conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window))
		if err != nil {
			return h, err
		}
		defer func() { _ = conn.Close() }()
		if _, err := a2apb.NewA2AServiceClient(conn).SubscribeToTask(ctx, subscribe); err != nil {
			return h, err
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, readers)
	for i := range readers {
		reader, err := client.SubscribeToTask(ctx, subscribe)
		if err != nil {
			return h, err
		}
		wg.Go(func() { errs[i] = hear(reader, chunks, nil) })
	}
	before, err := b.mesh.cpu()
	if err != nil {
		return h, err
	}
	var begin time.Time
	err = hear(stream, chunks, func() { begin = time.Now() })
	h.done = us(time.Since(begin))
	wg.Wait()
	after, err2 := b.mesh.cpu()
	h.cpu = us(after - before)
	return h, errors.Join(err, err2, errors.Join(errs...))
}

// hear reads a stream that must have all chunks, and calls begun with the first.
func hear(stream grpc.ServerStreamingClient[a2apb.StreamResponse], chunks int, begun func()) error {
	c := &checked{chunks: chunks, size: smallest}
	err := drain(stream, func(text string) error {
		if c.seen == 0 && begun != nil {
			begun()
		}
		return c.next(text)
	})
	return errors.Join(err, c.all())
}

// crowdedTenant measures a turn of a tenant that has as many agents as one may
// have, and the same of one that has few, in turns.
func (b *bench) crowdedTenant(ctx context.Context, r round, _ int) error {
	const tenant = "crowded"
	if !b.crowded {
		agents := meshv1.NewRegistryServiceClient(b.mesh.conn)
		_, err := load(b.crowd, b.agents, func(i int) error {
			name := fmt.Sprintf("agent-%d", i)
			for {
				_, err := agents.RegisterAgent(as(ctx, tenant, ""), &meshv1.RegisterAgentRequest{
					Name: name, Card: plainCard(name, b.agent, "GRPC"), Endpoint: b.agent, Lease: durationpb.New(10 * time.Minute)})
				wait, later := rpc.RetryAfter(rpc.FromStatus(err))
				if !later {
					return err
				}
				time.Sleep(wait) // a caller may do so many administrative acts
			}
		})
		if err != nil {
			return err
		}
		b.crowded = true
	}
	var few, many []float64
	for range b.alone {
		for in, took := range map[string]*[]float64{"default": &few, tenant: &many} {
			begin := time.Now()
			if err := b.mesh.doors["grpc"].whole(as(ctx, in, ""), 1); err != nil {
				return err
			}
			*took = append(*took, us(time.Since(begin)))
		}
	}
	r["mesh crowded"] = median(many) / median(few)
	return nil
}
