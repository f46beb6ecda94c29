package cache

import (
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// A ticket is a place in the queue of those who want to append to a thread.
type ticket struct {
	// holds has the scopes in which it appends or that it depends on; true for
	// those that it must have alone.
	holds    map[mesh.Scope]bool
	alone    bool          // it must have one of them alone
	all      bool          // it must have the thread alone
	away     bool          // what it wants is on its way
	moved    chan struct{} // of those who wait for it; closed when its place changes
	reserved []string      // ids of what is on its way
}

// queued puts the ticket into the queue with what it wants now. It keeps the
// place that it has. The caller holds mu.
func (e *entry) queued(t *ticket, want map[mesh.Scope]bool) {
	if t.holds == nil {
		e.queue = append(e.queue, t)
	}
	before := t.alone
	t.holds, t.alone = want, t.all
	for _, alone := range want {
		t.alone = t.alone || alone
	}
	e.count(before, -1)
	e.count(t.alone, 1)
}

func (e *entry) count(alone bool, n int) {
	if alone {
		e.alone += n
	}
}

// leave takes the ticket out of the queue. The caller holds mu.
func (e *entry) leave(t *ticket) {
	if t.holds == nil {
		return
	}
	e.queue = slices.DeleteFunc(e.queue, func(o *ticket) bool { return o == t })
	e.count(t.alone, -1)
	t.holds, t.alone = nil, false
	t.wake()
}

// place takes the ticket out of the queue because what it wants has its place.
func (e *entry) place(t *ticket) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leave(t)
	e.placed = append(e.placed, t)
}

// landing returns what tells when something that has its place may be on disk; nil
// if all is.
func (e *entry) landing() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.placed) == 0 {
		return nil
	}
	return e.placed[0].waited()
}

// wake tells those who wait for the ticket that they may look again.
func (t *ticket) wake() {
	if t.moved != nil {
		close(t.moved)
		t.moved = nil
	}
}

func (t *ticket) waited() <-chan struct{} {
	if t.moved == nil {
		t.moved = make(chan struct{})
	}
	return t.moved
}

// blocking returns what tells when the ticket may look again, or nil if nothing is
// in its way: nothing that is on its way, and nothing that came before it and
// waits. The caller holds mu.
func (e *entry) blocking(t *ticket) <-chan struct{} {
	if e.alone == 0 { // as long as all share
		return nil
	}
	earlier := false
	for _, o := range slices.Backward(e.queue) {
		if o == t {
			earlier = true
		} else if (earlier || o.away) && t.clashes(o) {
			return o.waited()
		}
	}
	return nil
}

func (t *ticket) clashes(o *ticket) bool {
	if t.all || o.all {
		return true
	}
	if !t.alone && !o.alone {
		return false
	}
	for scope, alone := range t.holds {
		if others, holds := o.holds[scope]; holds && (alone || others) {
			return true
		}
	}
	return false
}

// decide calls f and reserves what it decides, to be appended under what it
// expects of the thread that the state is of; or it returns what the ticket has to wait for first.
func (e *entry) decide(t *ticket, f func(*thread.State, Reserved) (Decision, error)) (d Decision, opts threadlog.AppendOptions, first <-chan struct{}, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d, err = f(e.state, e.reserved); err != nil || len(d.Events) == 0 {
		return d, opts, nil, err
	}
	e.queued(t, holds(d))
	if first = e.blocking(t); first == nil {
		first = e.same(d)
	}
	if first != nil {
		return d, opts, first, nil
	}
	opts = threadlog.AppendOptions{Expect: make(map[mesh.Scope]mesh.Seq, len(t.holds)), First: e.state.First, Epoch: d.Epoch, Settled: d.Settled}
	for scope := range t.holds {
		opts.Expect[scope] = e.state.LastDecision(scope)
	}
	t.away = true
	for _, ev := range d.Events {
		if ev.ID != "" {
			copied := *ev // the log sets some of its fields meanwhile
			e.reserved[ev.ID] = &copied
			t.reserved = append(t.reserved, ev.ID)
		}
	}
	return d, opts, nil, nil
}

// land takes back what was reserved, if the append failed, and else what was
// appended into the state. It reports whether a later claim stands.
func (e *entry) land(t *ticket, d Decision, err error) (fenced bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range d.Events {
		if err == nil && ev.Pos > e.pos {
			e.passed(ev.Seq)
			e.ahead[ev.Seq] = ev
		} else { // it failed, or is there already
			delete(e.reserved, ev.ID)
		}
	}
	if next := e.ahead[e.state.Seq+1]; next != nil {
		e.apply(next)
	}
	if len(e.ahead) > maxAhead {
		e.dropAhead()
	}
	t.away, t.reserved = false, nil
	e.placed = slices.DeleteFunc(e.placed, func(o *ticket) bool { return o == t })
	if err == nil {
		e.leave(t)
	}
	t.wake()
	return d.Epoch != 0 && d.Epoch < e.state.Epoch
}

// close takes the thread, up to its event at last, for the ticket alone if f lets it,
// or returns what the ticket has to wait for first.
func (e *entry) close(t *ticket, f func(*thread.State) error) (last mesh.Pos, first <-chan struct{}, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := f(e.state); err != nil {
		return 0, nil, err
	}
	t.all = true
	e.queued(t, map[mesh.Scope]bool{})
	first = e.blocking(t)
	t.away = first == nil
	return e.pos, first, nil
}

// settled tells at once.
var settled = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// same returns what tells when an event of the decision, which is on its way
// already, has come or failed; nil if there is none.
func (e *entry) same(d Decision) <-chan struct{} {
	for _, ev := range d.Events {
		if e.reserved[ev.ID] == nil {
			continue
		}
		for _, o := range slices.Concat(e.queue, e.placed) {
			if slices.Contains(o.reserved, ev.ID) {
				return o.waited()
			}
		}
		return settled // it has come, and is to be read
	}
	return nil
}

// holds returns the scopes of a decision: a fact is appended beside others of its
// execution, and a decision alone in its scope and on what the thread is.
func holds(d Decision) map[mesh.Scope]bool {
	of := map[mesh.Scope]bool{}
	for _, ev := range d.Events {
		scope, alone := scopeOf(ev)
		of[scope] = of[scope] || alone
		if _, held := of[mesh.ThreadScope]; alone && !held {
			of[mesh.ThreadScope] = false
		}
	}
	for _, scope := range d.Scopes {
		if _, held := of[scope]; !held {
			of[scope] = false
		}
	}
	return of
}

// scopeOf returns the scope that the event is about, and whether it must be
// alone in it. A message is a fact that must: it is known as sent again by the
// one before, and the end of its task must know of it.
func scopeOf(ev *mesh.Event) (scope mesh.Scope, alone bool) {
	if scope, ok := mesh.ScopeOf(ev); ok {
		return scope, true
	}
	switch ev.Body.(type) {
	case mesh.ThreadClaimed:
		return mesh.ThreadScope, true
	case mesh.MessagePosted:
		return mesh.Scope(ev.Execution), true
	}
	return mesh.Scope(ev.Execution), false
}
