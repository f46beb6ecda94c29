package cache

import (
	"sync"
	"sync/atomic"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// An entry is one folded thread, and what is on its way into it.
type entry struct {
	reading sync.Mutex // held while the log is read, and taken before mu
	users   int        // guarded by States.mu; an entry in use is not evicted

	mu    sync.Mutex // guards the rest; never held over the disk
	state *thread.State
	// pos is the position of the last event applied, of any thread with the key: those
	// of a thread that was deleted are before all of the next one.
	pos mesh.Pos
	// ahead has events that were appended here, until the state has those
	// before them: appends of one thread return in any order.
	ahead    map[mesh.Seq]*mesh.Event
	reserved Reserved
	queue    []*ticket // in the order in which they came
	placed   []*ticket // that left it for what they want has its place, and is not on disk
	alone    int       // how many of them must have something alone

	saved       mesh.Seq     // up to where the thread was saved
	cost, grown int          // bytes of what was saved last, and of the log since
	behind      atomic.Int64 // how many events came since
	waiting     atomic.Bool  // it is to be saved
}

// maxAhead bounds what waits in ahead. What does not is read.
const maxAhead = 1024

// end ends what the ticket wanted, however it ended.
func (e *entry) end(t *ticket) {
	if t.holds == nil { // it is in the queue no more; nobody else changes that
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leave(t)
}

func newEntry() *entry {
	return &entry{state: new(thread.State), ahead: map[mesh.Seq]*mesh.Event{}, reserved: Reserved{}}
}

// at returns which thread the state is of, and its last event.
func (e *entry) at() (first mesh.Pos, last mesh.Seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.First, e.state.Seq
}

// has reports whether the state is of the thread that info is about, and has what
// it had then.
func (e *entry) has(info threadlog.Info) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.First == info.FirstPos && (info.Last == 0 || e.pos >= info.LastPos)
}

// is reports whether the state has what the thread had when info was asked for,
// after the state was of the thread from. If it is of one that is there no more, it
// begins afresh.
func (e *entry) is(from mesh.Pos, info threadlog.Info) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if info.Last == 0 {
		if e.state.First == from {
			e.reset(e.pos)
		}
		return true
	}
	if e.state.First != 0 && e.state.First < info.FirstPos {
		e.reset(info.FirstPos - 1)
	}
	return e.state.First != 0 && e.pos >= info.LastPos
}

// take applies what was read.
func (e *entry) take(events []*mesh.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range events {
		e.apply(ev)
	}
}

// reset begins afresh, with what comes after pos. The caller holds mu.
func (e *entry) reset(pos mesh.Pos) {
	e.state, e.pos = new(thread.State), pos
	e.saved, e.cost, e.grown = 0, 0, 0
	e.behind.Store(0)
	e.dropAhead()
}

// dropAhead forgets what waits for events before it. The caller holds mu.
func (e *entry) dropAhead() {
	for _, ev := range e.ahead {
		delete(e.reserved, ev.ID)
	}
	clear(e.ahead)
}

// apply takes the event if it continues the state, and then those that wait for
// it. The caller holds mu.
func (e *entry) apply(ev *mesh.Event) {
	for ; ev != nil && ev.Seq == e.state.Seq+1 && ev.Pos > e.pos; ev = e.ahead[ev.Seq+1] {
		e.state.Apply(ev)
		e.pos = ev.Pos
		e.grown += ev.Size
		e.behind.Store(int64(ev.Seq - e.saved))
		e.passed(ev.Seq)
		delete(e.reserved, ev.ID)
	}
}

// passed forgets what waits at seq: of a thread that was deleted and begun anew meanwhile
// it is another event than the one that is there now. The caller holds mu.
func (e *entry) passed(seq mesh.Seq) {
	if ev := e.ahead[seq]; ev != nil {
		delete(e.reserved, ev.ID)
		delete(e.ahead, seq)
	}
}
