//go:build linux

package bench_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"agentmesh/mesh"
)

// A conversation that goes on has an answer of so many chunks, one every so often, and then
// asks the next.
const (
	talkChunks = 4
	talkEvery  = 250 * time.Millisecond
)

// handoffs measures what a turn with a handoff costs the node beside a turn of each of two such
// agents, and how long its user waits for the word of the next agent while many others have conversations, beside a
// round trip among the same: from a message to the first word of the answer.
func (b *bench) handoffs(ctx context.Context, r round, _ int) error {
	d := b.mesh.doors["grpc"]
	for name, do := range map[string]func(int) error{
		"mesh handoff": func(int) error { _, err := d.gap(ctx); return err },
		"mesh of each": func(int) error {
			return errors.Join(d.wholeOf(as(ctx, "default", "own"), question{chunks: 1, size: piece}), d.whole(ctx, 1))
		},
	} {
		if err := b.timed(r, name, b.mesh, b.crowd, do); err != nil {
			return err
		}
	}
	if err := b.count(r, b.mesh, counted{"handoff", 1, b.alone, func(int) error { _, err := d.gap(ctx); return err }}); err != nil {
		return err
	}
	others, err := b.talk(ctx)
	if err != nil {
		return err
	}
	var gap, open []float64
	var failed error
	before, begin := others.turns.Load(), time.Now()
	cpu, err := b.mesh.cpu()
	for range max(b.alone, 20) {
		one, err := d.gap(ctx)
		trip, err2 := d.open(ctx)
		if failed = errors.Join(err, err2); failed != nil {
			break
		}
		gap, open = append(gap, one), append(open, trip)
	}
	used, err2 := b.mesh.cpu()
	wall := time.Since(begin)
	r["mesh talks"] = float64(others.turns.Load()-before) / wall.Seconds()
	r["mesh busy amid"] = 100 * float64(used-cpu) / float64(wall)
	if err := errors.Join(failed, err, err2, others.stop()); err != nil {
		return err
	}
	r["mesh gap amid"], r["mesh open amid"] = median(gap), median(open)
	r["mesh gap amid p95"], r["mesh open amid p95"] = quantile(gap, 0.95), quantile(open, 0.95)
	r["mesh gap amid p95 of 1 s"] = r["mesh gap amid p95"] / us(time.Second)
	return nil
}

// talks are conversations that go on until they are stopped.
type talks struct {
	over  chan struct{}
	all   sync.WaitGroup
	turns atomic.Int64 // that are over
	errs  []error
}

// stop lets every conversation end its turn, so that nothing of it is left at work.
func (t *talks) stop() error {
	close(t.over)
	t.all.Wait()
	return errors.Join(t.errs...)
}

// talk begins the conversations, spread over the time that one answer takes, and returns when
// each is in its second turn. They have a connection of their own.
func (b *bench) talk(ctx context.Context) (*talks, error) {
	conn, err := grpc.NewClient(b.mesh.conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	t := &talks{over: make(chan struct{}), errs: make([]error, b.talks)}
	var going sync.WaitGroup
	going.Add(b.talks)
	for i := range b.talks {
		t.all.Go(func() {
			second := sync.OnceFunc(going.Done)
			defer second() // also of one that fails
			time.Sleep(talkChunks * talkEvery * time.Duration(i) / time.Duration(b.talks))
			for thread, n := mesh.NewThreadID(), 0; ; n++ {
				if n == 1 {
					second()
				}
				select {
				case <-t.over:
					return
				default:
				}
				if t.errs[i] = say(ctx, conn, thread); t.errs[i] != nil {
					return
				}
				t.turns.Add(1)
			}
		})
	}
	go func() { // ends with the conversations, for which stop waits
		t.all.Wait()
		_ = conn.Close()
	}()
	going.Wait()
	return t, nil
}

// say has one turn of the conversation, and checks its answer.
func say(ctx context.Context, conn *grpc.ClientConn, thread string) error {
	req := message(question{chunks: talkChunks, every: talkEvery}.String())
	req.Message.ContextId = thread
	stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(metadata.AppendToOutgoingContext(ctx, "a2a-version", "1.0"), req)
	if err != nil {
		return fmt.Errorf("one of many conversations: %w", err)
	}
	return hear(stream, talkChunks, nil)
}

// quantile is the value below which so much of the values is.
func quantile(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}
