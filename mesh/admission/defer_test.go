package admission

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread/cache/cachetest"
	"agentmesh/mesh/threadlog"
)

// A laggard is a store that keeps what is deferred until it is let go, and fails to
// write it as often as it is told to.
type laggard struct {
	threadlog.Backend
	mu    sync.Mutex
	gone  chan struct{}
	fails atomic.Int32
}

func newLaggard() *laggard { return &laggard{Backend: mem.Open(), gone: make(chan struct{})} }

func (l *laggard) Append(ctx context.Context, key mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	if b.Deferred {
		select {
		case <-l.gone: // what comes from here on comes after it
			l.mu.Lock()
			defer l.mu.Unlock()
		default:
		}
		b.Placed()
		b.Placed = nil
		<-l.gone
		if l.fails.Add(-1) >= 0 {
			return threadlog.Appended{}, mesh.Errorf(mesh.Unavailable, "laggard", "the disk is full")
		}
	}
	if !b.Deferred {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	return l.Backend.Append(ctx, key, b)
}

func (l *laggard) letGo() { close(l.gone) }

func (l *library) accept(ctx context.Context, g *mesh.Grant, bodies ...mesh.Body) (Admitted, error) {
	var events []*mesh.Event
	for _, b := range bodies {
		events = append(events, &mesh.Event{ID: mesh.NewEventID(), Execution: g.Execution, Body: b})
	}
	return l.Accept(ctx, g, events)
}

// Facts are answered for when they have their place, and what decisions are made on
// when that is written; and so are all where nothing is deferred.
func TestFactsAreAcceptedBeforeTheyAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLaggard()
		l := over(&cachetest.Store{Backend: s}, WithDeferral(slog.New(slog.DiscardHandler)))
		turn := l.post(t)
		mine := l.run(t, turn, "main", "*")
		begun, err := l.log.Tail(t.Context(), l.key)
		if err != nil {
			t.Fatal(err)
		}
		s.fails.Store(100) // for a while the disk is full
		got, err := l.accept(t.Context(), mine, mesh.SkillCalled{Call: "1", Skill: "tasks.search"})
		if err != nil || got.Seq != begun+1 {
			t.Fatalf("an intent is at %d, %v", got.Seq, err)
		}
		got, err = l.accept(t.Context(), mine, mesh.SkillReturned{Call: "1"}, mesh.ModelReplied{Text: "done"})
		if err != nil || got.Seq != 0 {
			t.Fatalf("accepted at %d, %v", got.Seq, err)
		}
		if _, err := l.accept(t.Context(), mine, mesh.SkillReturned{Call: "1"}); !mesh.IsCode(err, mesh.Denied) {
			t.Errorf("it has returned twice: %v", err)
		}
		if _, err := l.accept(t.Context(), mine, mesh.SkillReturned{Call: "2"}); !mesh.IsCode(err, mesh.Denied) {
			t.Errorf("a call that was not made has returned: %v", err)
		}
		if got, err = l.accept(t.Context(), mine, mesh.ApprovalAsked{Call: "3", Skill: "mail.send", Text: "?"}); err != nil || got.Seq != begun+2 {
			t.Errorf("a question is at %d, %v", got.Seq, err)
		}
		s.letGo()
		time.Sleep(time.Minute)
		if err := l.states.Land(t.Context(), l.key); err != nil {
			t.Fatal(err)
		}
		if tail, err := l.log.Tail(t.Context(), l.key); err != nil || tail != begun+4 {
			t.Errorf("the log has %d events more, %v; want 4", tail-begun, err)
		}
		plain := over(&cachetest.Store{Backend: mem.Open()})
		mine = plain.run(t, plain.post(t), "main", "*")
		if got, err := plain.accept(t.Context(), mine, mesh.ModelReplied{}); err != nil || got.Seq == 0 {
			t.Errorf("where nothing is deferred it is at %d, %v", got.Seq, err)
		}
	})
}

// An execution that is over has nothing accepted, and what was accepted before it was
// comes before its end.
func TestNothingIsAcceptedAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLaggard()
		l := over(&cachetest.Store{Backend: s}, WithDeferral(slog.New(slog.DiscardHandler)))
		turn := l.post(t)
		mine := l.run(t, turn, "main", "*")
		s.letGo()
		if _, err := l.accept(t.Context(), mine, mesh.ModelReplied{Text: "last"}); err != nil {
			t.Fatal(err)
		}
		if err := l.decide(t.Context(), &mesh.Event{Execution: turn, Body: mesh.DispatchSettled{Child: mine.Execution, State: completed}}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.accept(t.Context(), mine, mesh.ModelReplied{Text: "late"}); !mesh.IsCode(err, mesh.Precondition) {
			t.Errorf("late words are accepted: %v", err)
		}
		events, err := l.log.Read(t.Context(), l.key, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		last, _ := events[len(events)-2].Body.(mesh.ModelReplied)
		if _, ends := events[len(events)-1].Body.(mesh.DispatchSettled); last.Text != "last" || !ends {
			t.Errorf("the log has %v", events)
		}
	})
}
