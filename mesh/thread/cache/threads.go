// Package cache keeps folded threads in memory, caught up with the log, and
// appends decisions that were made on them.
//
// A [States] is a cache and nothing more: what it holds can be folded from the
// log again at any time. It guarantees that a decision is made on a state that
// has every event the decision depends on, or that it is made again.
//
// All methods may be called concurrently. Callbacks run one at a time for a
// thread and must not call back into the States for the same thread.
package cache

import (
	"context"
	"maps"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// A Log is what States reads and writes: a *threadlog.Log.
type Log interface {
	Append(ctx context.Context, key mesh.ThreadKey, events []*mesh.Event, opts threadlog.AppendOptions) ([]mesh.Seq, error)
	Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]*mesh.Event, error)
}

// States holds the folded states of the threads in use. Use New.
type States struct {
	log  Log
	most int

	mu   sync.Mutex
	held map[mesh.ThreadKey]*entry
}

type entry struct {
	mu    sync.Mutex
	state *thread.State
	pos   mesh.Pos // of the last event in it
	users int      // guarded by States.mu; an entry in use is not evicted
}

// New returns States over log that keep up to most folded threads that nobody
// is using; 0 is 1024.
func New(log Log, most int) *States {
	if most <= 0 {
		most = 1024
	}
	return &States{log: log, most: most, held: map[mesh.ThreadKey]*entry{}}
}

// With calls f with the thread's state, caught up with the log. f must neither
// change nor keep it. A thread without events has the zero State.
func (s *States) With(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) error) error {
	e := s.use(key)
	defer s.release(key, e)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := s.catchUp(ctx, key, e); err != nil {
		return err
	}
	return f(e.state)
}

// A Decision is what a callback of Decide wants appended.
type Decision struct {
	// Events may hold facts too. Without events nothing is appended.
	Events []*mesh.Event
	// Scopes are scopes that must not have moved, beside those that the events
	// decide in and the thread's own.
	Scopes []mesh.Scope
	// Epoch is the driver's claim, or 0 for those who do not drive.
	Epoch mesh.Epoch
	// Settled is what threadlog.AppendOptions has of it.
	Settled mesh.Seq
}

// retries bounds how often a decision is made again after a conflict.
const retries = 16

// Decide calls f with the thread's state and appends what f decides, unless
// another decision came in between; then it catches up and calls f again. It
// returns f's error, or Conflict when others keep winning or a later claim of
// the thread stands.
func (s *States) Decide(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) (Decision, error)) error {
	e := s.use(key)
	defer s.release(key, e)
	e.mu.Lock()
	defer e.mu.Unlock()
	for try := 0; ; try++ {
		if err := s.catchUp(ctx, key, e); err != nil {
			return err
		}
		d, err := f(e.state)
		if err != nil || len(d.Events) == 0 {
			return err
		}
		_, err = s.log.Append(ctx, key, d.Events, threadlog.AppendOptions{Expect: expect(e.state, d), Epoch: d.Epoch, Settled: d.Settled})
		if err == nil {
			e.feed(d.Events) // what was appended need not be read again
		}
		fenced := d.Epoch != 0 && d.Epoch < e.state.Epoch
		if err == nil || !mesh.IsCode(err, mesh.Conflict) || fenced || try == retries {
			return err
		}
	}
}

func expect(s *thread.State, d Decision) map[mesh.Scope]mesh.Seq {
	want := map[mesh.Scope]mesh.Seq{mesh.ThreadScope: s.LastDecision(mesh.ThreadScope)}
	for _, e := range d.Events {
		if scope, ok := mesh.ScopeOf(e); ok {
			want[scope] = s.LastDecision(scope)
		}
	}
	for _, scope := range d.Scopes {
		want[scope] = s.LastDecision(scope)
	}
	return want
}

// Feed gives the States events that its caller follows anyway, so that they
// need not be read again. Events that do not continue the state are ignored.
func (s *States) Feed(key mesh.ThreadKey, events []*mesh.Event) {
	e := s.use(key)
	defer s.release(key, e)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.feed(events)
}

// feed applies events that continue the state. The caller holds mu.
func (e *entry) feed(events []*mesh.Event) {
	for _, ev := range events {
		if ev.Seq == e.state.Seq+1 {
			e.state.Apply(ev)
			e.pos = ev.Pos
		}
	}
}

// Forget drops the state of a thread that was deleted.
func (s *States) Forget(key mesh.ThreadKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, key)
}

// page is how many events are read at a time.
const page = 512

// catchUp reads what the entry does not have. It begins with the last event that it
// has: another node may have deleted the thread, and begun it anew, and then the log
// has another one there, or none.
func (s *States) catchUp(ctx context.Context, key mesh.ThreadKey, e *entry) error {
	for {
		events, err := s.log.Read(ctx, key, max(e.state.Seq, 1)-1, page)
		if err != nil {
			return mesh.Wrap("cache.catchUp", err)
		}
		if e.state.Seq > 0 {
			if len(events) == 0 || events[0].Pos != e.pos {
				e.state, e.pos = new(thread.State), 0
				continue
			}
			events = events[1:]
		}
		if len(events) == 0 {
			return nil
		}
		e.feed(events)
	}
}

func (s *States) use(key mesh.ThreadKey) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.held[key]
	if e == nil {
		e = &entry{state: new(thread.State)}
		s.held[key] = e
	}
	e.users++
	return e
}

// release lets go of an entry, and of some that nobody uses when there are
// too many.
func (s *States) release(key mesh.ThreadKey, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.users--
	if len(s.held) <= s.most {
		return
	}
	drop := len(s.held) - s.most + s.most/8
	maps.DeleteFunc(s.held, func(k mesh.ThreadKey, old *entry) bool {
		if drop == 0 || old.users > 0 || k == key {
			return false
		}
		drop--
		return true
	})
}
