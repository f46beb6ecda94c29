package api

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

// BenchmarkFactsOnOneThread measures what 8 and 32 writers append to one thread
// on disk: through AppendEvents (x_api), through the cache's Decide (x_decide, and
// x_decide_of_one if all is about one execution) and by the log alone, to which
// the ratios are. The four take turns, so that a busy disk is busy for all.
func BenchmarkFactsOnOneThread(b *testing.B) {
	const turns = 8
	kinds := []struct {
		name string
		how  func(*library, []*mesh.Grant) func(int, *mesh.Event) error
	}{{"bare", (*library).bare}, {"x_decide", (*library).decided}, {"x_decide_of_one", (*library).decidedOfOne}, {"x_api", (*library).served}}
	for _, writers := range []int{8, 32} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			took := make([]time.Duration, len(kinds))
			adds, grants := make([]func(int, *mesh.Event) error, len(kinds)), make([][]*mesh.Grant, len(kinds))
			for k, kind := range kinds {
				l := onDisk(b)
				turn := l.post(b)
				for range writers {
					grants[k] = append(grants[k], l.run(b, turn, "writer"))
				}
				adds[k] = kind.how(l, grants[k])
			}
			n := max(b.N/turns, 4*writers)
			b.ResetTimer()
			for range turns {
				for k := range kinds {
					took[k] += timeOf(b, n, writers, adds[k], grants[k])
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(n*turns)/took[0].Seconds(), "bare/s")
			for k, kind := range kinds[1:] {
				b.ReportMetric(float64(took[0])/float64(took[k+1]), kind.name)
			}
		})
	}
}

func onDisk(b *testing.B) *library {
	s, err := disk.Open(filepath.Join(b.TempDir(), "mesh.db"), disk.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	log := threadlog.New(s)
	states := cache.New(log, 0)
	return &library{
		Threads: NewThreads(log, states, admission.New(log, states, nil), Tickets{}, "main"), states: states,
		key: mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()},
	}
}

func (l *library) bare([]*mesh.Grant) func(int, *mesh.Event) error {
	return func(_ int, e *mesh.Event) error {
		_, err := l.log.Append(context.Background(), l.key, []*mesh.Event{e}, threadlog.AppendOptions{})
		return err
	}
}

func (l *library) decided([]*mesh.Grant) func(int, *mesh.Event) error {
	return func(_ int, e *mesh.Event) error { return l.decide(context.Background(), e) }
}

func (l *library) decidedOfOne(grants []*mesh.Grant) func(int, *mesh.Event) error {
	return func(_ int, e *mesh.Event) error {
		e.Execution = grants[0].Execution
		return l.states.Decide(context.Background(), l.key, func(*thread.State) (cache.Decision, error) {
			return cache.Decision{Events: []*mesh.Event{e}}, nil
		})
	}
}

func (l *library) served(grants []*mesh.Grant) func(int, *mesh.Event) error {
	return func(w int, e *mesh.Event) error {
		g := grants[w]
		ctx := mesh.WithCall(context.Background(), mesh.Call{Thread: g.Thread, Principal: mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g}})
		_, err := l.AppendEvents(ctx, &meshv1.AppendEventsRequest{ThreadId: g.Thread, Events: []*meshv1.Event{eventpb.EventToProto(e)}})
		return err
	}
}

// timeOf returns how long the writers take to append n facts.
func timeOf(b *testing.B, n, writers int, add func(w int, e *mesh.Event) error, grants []*mesh.Grant) time.Duration {
	text := strings.Repeat("x", 200)
	var left atomic.Int64
	left.Store(int64(n))
	start := time.Now()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				e := &mesh.Event{ID: mesh.NewEventID(), Execution: grants[w].Execution, Body: mesh.ModelReplied{Text: text}}
				if err := add(w, e); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}
