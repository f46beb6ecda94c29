package threadlog

import (
	"sync"

	"agentmesh/mesh"
)

// lives keep the deletion of a thread apart from appends to it, and from nothing
// else: an append holds the thread's life for reading until its events are
// published, so that nothing of a deleted thread reaches the followers of a
// later one with the same id. The zero value is ready.
type lives struct {
	mu sync.Mutex
	of map[mesh.ThreadKey]*life
}

// A life is there as long as somebody holds it, or waits for it.
type life struct {
	sync.RWMutex
	users int // guarded by lives.mu
}

// get returns the thread's life, which the caller gives back with put.
func (l *lives) get(key mesh.ThreadKey) *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	it := l.of[key]
	if it == nil {
		if l.of == nil {
			l.of = map[mesh.ThreadKey]*life{}
		}
		it = new(life)
		l.of[key] = it
	}
	it.users++
	return it
}

func (l *lives) put(key mesh.ThreadKey, it *life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if it.users--; it.users == 0 {
		delete(l.of, key)
	}
}
