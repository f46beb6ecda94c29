package api

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/checkpoint"
	"agentmesh/mesh/threadlog"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// converse adds so many events to the thread: turns of as many pieces of output each, with
// what begins and ends them.
func converse(b *testing.B, states *cache.States, key mesh.ThreadKey, events, pieces int) {
	b.Helper()
	done := a2apb.TaskState_TASK_STATE_COMPLETED
	for n := 0; n < events; n += pieces + 5 {
		turn, leg := mesh.NewExecutionID(key.ID), mesh.NewExecutionID(key.ID)
		said := &a2apb.Message{MessageId: mesh.NewEventID(), Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "a question of some words"}}}}
		all := []*mesh.Event{
			{Execution: turn, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Agent: "main", User: "ann"}}},
			{Execution: turn, Body: mesh.MessagePosted{User: "ann", Message: said}},
			{Execution: turn, Body: mesh.DispatchIssued{Child: mesh.Execution{ID: leg, Parent: turn, Kind: mesh.KindAgent, Agent: "main", User: "ann"}, Message: said}},
		}
		for i := range pieces {
			all = append(all, &mesh.Event{Execution: leg, Body: mesh.ArtifactAppended{Append: i > 0, Artifact: &a2apb.Artifact{
				ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "some of these words, and "}}}}}})
		}
		all = append(all, &mesh.Event{Execution: turn, Body: mesh.DispatchSettled{Child: leg, State: done}}, &mesh.Event{Execution: turn, Body: mesh.TaskMoved{State: done}})
		for len(all) > 0 {
			some := all[:min(len(all), 1000)]
			all = all[len(some):]
			err := states.Decide(context.Background(), key, func(*thread.State) (cache.Decision, error) { return cache.Decision{Events: some}, nil })
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// stored is how many bytes of values are kept of checkpoints.
func stored(b *testing.B, s state.Store) (n int) {
	b.Helper()
	items, _, err := s.ListState(b.Context(), state.Page{Kind: "thread.checkpoint", Limit: state.MaxPage})
	if err != nil {
		b.Fatal(err)
	}
	for _, it := range items {
		n += len(it.Data)
	}
	return n
}

// BenchmarkColdThread is what the first reader of a thread waits for, of one turn (long) and of
// turns of 25 events (turns): folded from its log, and from a checkpoint.
func BenchmarkColdThread(b *testing.B) {
	for _, shape := range []string{"long", "turns"} {
		for _, events := range []int{1_000, 10_000, 100_000} {
			store, err := disk.Open(filepath.Join(b.TempDir(), "mesh.db"), disk.Options{})
			if err != nil {
				b.Fatal(err)
			}
			key, pieces := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}, 20
			if shape == "long" {
				pieces = events - 5
			}
			kept := checkpoint.New(state.New(store))
			saves := cache.WithCheckpoints(kept, slog.New(slog.DiscardHandler))
			states := cache.New(threadlog.New(store), 0, saves)
			ctx, stop := context.WithCancel(b.Context())
			done := make(chan error)
			go func() { done <- states.Run(ctx) }()
			converse(b, states, key, events, pieces)
			stop()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			saved, err := kept.Load(b.Context(), key)
			if err != nil {
				b.Fatal(err)
			}
			for name, opts := range map[string][]cache.Option{"log": nil, "checkpoint": {saves}} {
				b.Run(fmt.Sprintf("%s/%d/%s", shape, events, name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if err := cache.New(threadlog.New(store), 0, opts...).With(b.Context(), key, func(*thread.State) error { return nil }); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(len(saved)), "saved-B")
					b.ReportMetric(float64(stored(b, store)), "stored-B")
				})
			}
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkListThreads is a page of 50 of so many threads of 25 events, deep in the list, of
// which no state is in memory: the first time, and again.
func BenchmarkListThreads(b *testing.B) {
	for _, threads := range []int{1_000, 20_000} {
		log := threadlog.New(mem.Open())
		writer := cache.New(log, 1)
		for range threads {
			converse(b, writer, mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}, 25, 20)
		}
		ctx := mesh.WithCall(b.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "ann"}})
		page := func(b *testing.B, s *Threads) {
			res, err := s.ListThreads(ctx, &meshv1.ListThreadsRequest{PageToken: strconv.FormatInt(20_000, 36)})
			if err != nil || len(res.GetThreads()) != 50 {
				b.Fatalf("%d threads, %v", len(res.GetThreads()), err)
			}
		}
		access := func(context.Context, mesh.ThreadKey) (thread.Access, error) { return thread.Access{Owner: "ann"}, nil }
		fresh := func() *Threads { return NewThreads(log, cache.New(log, 1), nil, Tickets{}, "main").WithAccess(access) }
		b.Run(fmt.Sprintf("%d/first", threads), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page(b, fresh())
			}
		})
		b.Run(fmt.Sprintf("%d/again", threads), func(b *testing.B) {
			s := fresh()
			page(b, s)
			b.ReportAllocs()
			for b.Loop() {
				page(b, s)
			}
		})
	}
}
