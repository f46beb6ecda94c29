// Package cache keeps folded threads in memory, caught up with the log, and
// appends decisions that were made on them.
//
// A [States] is a cache and nothing more: what it holds can be folded from the
// log again at any time. With checkpoints, it is not folded from the first event: a thread that
// nobody used for a while costs what came since it was saved. It guarantees that a decision is made on a state that
// has every event the decision depends on, or that it is made again: the log
// judges each by the scopes that it names, wherever the others were made.
//
// # What waits for what
//
// No lock is held while the log is written or read. What a callback wants
// appended is reserved, and then on its way while others read and decide. Facts
// of one execution are appended side by side, and share the disk's syncs; a
// decision waits for what this process has on its way in the scopes that it
// moves, and what comes later waits for it, in order. A reader waits for neither.
//
// All methods may be called concurrently. Callbacks run one at a time for a
// thread and must not call back into the States for the same thread.
package cache

import (
	"context"
	"log/slog"
	"maps"
	"runtime"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// A Log is what States reads and writes: a *threadlog.Log.
type Log interface {
	Append(ctx context.Context, key mesh.ThreadKey, events []*mesh.Event, opts threadlog.AppendOptions) ([]mesh.Seq, error)
	Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]*mesh.Event, error)
	Info(ctx context.Context, key mesh.ThreadKey) (threadlog.Info, bool, error)
	Delete(ctx context.Context, key mesh.ThreadKey, last mesh.Pos) error
	Settle(ctx context.Context, key mesh.ThreadKey, first mesh.Pos, upTo mesh.Seq) error
}

// States holds the folded states of the threads in use. Use New.
type States struct {
	log         Log
	most        int
	checkpoints Checkpoints // or nil
	logger      *slog.Logger
	due         chan saved
	every, last int64   // saveEvery and saveLast
	digests     Digests // or nil
	summaries   *summaries
	kept        Summaries // or nil

	mu   sync.Mutex
	held map[mesh.ThreadKey]*entry
}

// New returns States over log that keep up to most folded threads that nobody
// is using; 0 is 1024.
func New(log Log, most int, opts ...Option) *States {
	if most <= 0 {
		most = 1024
	}
	s := &States{log: log, most: most, held: map[mesh.ThreadKey]*entry{}, summaries: newSummaries()}
	for _, o := range opts {
		o(s)
	}
	return s
}

// With calls f with the thread's state, caught up with the log. f must neither
// change nor keep it. A thread without events has the zero State.
func (s *States) With(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) error) error {
	e := s.use(key)
	defer s.release(key, e)
	if err := s.catchUp(ctx, key, e); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return f(e.state)
}

// A Decision is what a callback of Decide wants appended.
type Decision struct {
	// Events may hold facts too. Without events nothing is appended.
	Events []*mesh.Event
	// Scopes are scopes that must not have moved, beside those of the events: of
	// a fact, its execution's; of a decision, its own and the thread's.
	Scopes []mesh.Scope
	// Epoch is the driver's claim, or 0 for those who do not drive.
	Epoch mesh.Epoch
	// Settled is what threadlog.AppendOptions has of it.
	Settled mesh.Seq
	// Placed, if set, has facts deferred, and is called when they have their place
	// in the log. They then keep nobody waiting, and are reserved until they are on
	// disk: decisions in their scopes are made without them, and come after them. It
	// is for logs to which this process alone writes: it, and not the log, sees to it
	// that no end of an execution was before its facts.
	Placed func()
}

// Reserved has, by their ids, the events of this process that are on their way
// into the thread and not in its state yet. Whatever counts adds them up with the
// state. Those whose append fails are gone again.
type Reserved map[string]*mesh.Event

// retries bounds how often a decision is made again after a conflict.
const retries = 16

// Decide calls f with the thread's state and appends what f decides, unless
// another decision came in between; then it catches up and calls f again. It
// returns f's error, or Conflict when others keep winning or a later claim of
// the thread stands.
func (s *States) Decide(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) (Decision, error)) error {
	return s.Reserve(ctx, key, func(st *thread.State, _ Reserved) (Decision, error) { return f(st) })
}

// Reserve is Decide for rules that count: f gets what is on its way too, and
// must neither change nor keep it. An event that is on its way already, by its
// id, is decided when that one has come or failed.
func (s *States) Reserve(ctx context.Context, key mesh.ThreadKey, f func(*thread.State, Reserved) (Decision, error)) error {
	e := s.use(key)
	defer s.release(key, e)
	t := new(ticket)
	defer e.end(t)
	for try := 0; ; {
		if err := s.catchUp(ctx, key, e); err != nil {
			return err
		}
		d, opts, first, err := e.decide(t, f)
		if first != nil {
			if err := wait(ctx, first); err != nil {
				return err
			}
			continue
		}
		if err != nil || len(d.Events) == 0 {
			return err
		}
		if d.Placed != nil {
			opts.Expect, opts.Deferred, opts.Placed = nil, true, func() { e.place(t); d.Placed() }
		}
		_, err = s.log.Append(ctx, key, d.Events, opts)
		fenced := e.land(t, d, err)
		if err == nil || !mesh.IsCode(err, mesh.Conflict) || fenced || try == retries {
			return err
		}
		try++
	}
}

// Land waits until what was placed in the thread before is on disk, or has failed.
func (s *States) Land(ctx context.Context, key mesh.ThreadKey) error {
	e := s.use(key)
	defer s.release(key, e)
	for asked := false; ; asked = true {
		first := e.landing()
		if first == nil {
			return nil
		}
		if !asked { // what is not deferred takes along what was before it
			if err := s.log.Settle(ctx, key, 0, 0); err != nil {
				return mesh.Wrap("cache.Land", err)
			}
		}
		if err := wait(ctx, first); err != nil {
			return err
		}
	}
}

// Delete removes the thread from the log while nothing is on its way into it that
// f, which gets its state, has not seen, unless f returns an error. What comes later
// finds the thread gone.
func (s *States) Delete(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) error) error {
	e := s.use(key)
	defer s.release(key, e)
	t := new(ticket)
	defer e.end(t)
	for try := 0; ; {
		if err := s.catchUp(ctx, key, e); err != nil {
			return err
		}
		last, first, err := e.close(t, f)
		if err != nil {
			return err
		}
		if first != nil {
			if err := wait(ctx, first); err != nil {
				return err
			}
			continue
		}
		if err = s.log.Delete(ctx, key, last); err == nil {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.reset(last)
			s.summaries.Remove(key)
			return nil
		}
		if !mesh.IsCode(err, mesh.Conflict) || try == retries {
			return mesh.Wrap("cache.Delete", err)
		}
		try++ // another process appended after f had looked
	}
}

func wait(ctx context.Context, first <-chan struct{}) error {
	select {
	case <-first:
		return nil
	case <-ctx.Done():
		return mesh.Wrap("cache.wait", ctx.Err())
	}
}

// Feed gives the States events that its caller follows anyway, so that they
// need not be read again. Events that do not continue the state are ignored.
func (s *States) Feed(key mesh.ThreadKey, events []*mesh.Event) {
	e := s.use(key)
	defer s.release(key, e)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range events {
		e.apply(ev)
	}
}

// Forget drops the state of a thread that was deleted.
func (s *States) Forget(key mesh.ThreadKey) {
	s.summaries.Remove(key)
	s.mu.Lock()
	e := s.held[key]
	s.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reset(0)
}

// page is how many events are read at a time.
const page = 512

// catchUp brings the state to where the log is now. The log is asked, and not
// read as long as it has nothing that the state has not: what this process
// appends and what it is fed need not be read again.
func (s *States) catchUp(ctx context.Context, key mesh.ThreadKey, e *entry) error {
	goal, _, err := s.log.Info(ctx, key)
	if err != nil {
		return mesh.Wrap("cache.catchUp", err)
	}
	if e.has(goal) {
		return nil
	}
	runtime.Gosched() // own appends that the log has may be about to land
	for {
		from, _ := e.at()
		info, _, err := s.log.Info(ctx, key)
		if err != nil {
			return mesh.Wrap("cache.catchUp", err)
		}
		if info.Last > 0 && info.FirstPos == goal.FirstPos { // what came meanwhile may be missing
			info = goal
		}
		if goal = info; e.is(from, info) {
			return nil
		}
		if err := s.read(ctx, key, e, info); err != nil {
			return mesh.Wrap("cache.catchUp", err)
		}
	}
}

// read brings the state to where the log was at info, if the thread is still the
// same.
func (s *States) read(ctx context.Context, key mesh.ThreadKey, e *entry, info threadlog.Info) error {
	e.reading.Lock()
	defer e.reading.Unlock()
	if err := s.load(ctx, key, e, info); err != nil {
		return err
	}
	for done := e.has(info); !done; {
		_, last := e.at()
		events, err := s.log.Read(ctx, key, last, page)
		if err != nil {
			return err
		}
		e.take(events)
		done = e.has(info) || len(events) < page
	}
	return nil
}

func (s *States) use(key mesh.ThreadKey) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.held[key]
	if e == nil {
		e = newEntry()
		s.held[key] = e
	}
	e.users++
	return e
}

// release lets go of an entry, and of some that nobody uses when there are
// too many.
func (s *States) release(key mesh.ThreadKey, e *entry) {
	s.later(key, e, s.every)
	if gone := s.evict(key, e); s.kept != nil {
		s.keepAll(gone)
	}
}

// evict lets go of the entry, and returns those that left memory.
func (s *States) evict(key mesh.ThreadKey, e *entry) map[mesh.ThreadKey]*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.users--
	if len(s.held) <= s.most {
		return nil
	}
	drop := len(s.held) - s.most + s.most/8
	gone := make(map[mesh.ThreadKey]*entry, drop)
	maps.DeleteFunc(s.held, func(k mesh.ThreadKey, old *entry) bool {
		if drop == 0 || old.users > 0 || k == key {
			return false
		}
		drop--
		s.later(k, old, s.last)
		gone[k] = old
		return true
	})
	return gone
}
