package cache

import (
	"sync"

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
	// pos is that of the last event applied, of any thread with the key: those
	// of a thread that was deleted are before all of the next one.
	pos mesh.Pos
	// ahead has events that were appended here, until the state has those
	// before them: appends of one thread return in any order.
	ahead    map[mesh.Seq]*mesh.Event
	reserved Reserved
	queue    []*ticket // in the order in which they came
}

// maxAhead bounds what waits in ahead. What does not is read.
const maxAhead = 1024

// A place is a state's in the log.
type place struct {
	seq mesh.Seq
	pos mesh.Pos
}

func newEntry() *entry {
	return &entry{state: new(thread.State), ahead: map[mesh.Seq]*mesh.Event{}, reserved: Reserved{}}
}

func (e *entry) at() place {
	e.mu.Lock()
	defer e.mu.Unlock()
	return place{e.state.Seq, e.pos}
}

// has reports whether the state has all that the thread had when info was asked
// for. A thread that seems to be gone is not decided here.
func (e *entry) has(info threadlog.Info) bool {
	at := e.at()
	if info.Last == 0 || at.seq == 0 {
		return info.Last == at.seq
	}
	return info.LastPos <= at.pos
}

// continued applies what was read from the event at from on. If the thread does
// not have that one any more it is another, and the state begins afresh: false.
func (e *entry) continued(from place, events []*mesh.Event) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if from.seq > 0 && (len(events) == 0 || events[0].Seq != from.seq || events[0].Pos != from.pos) {
		e.reset()
		return false
	}
	for _, ev := range events {
		e.apply(ev)
	}
	return true
}

// reset begins afresh. The caller holds mu.
func (e *entry) reset() {
	e.state = new(thread.State)
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
		delete(e.ahead, ev.Seq)
		delete(e.reserved, ev.ID)
	}
}
