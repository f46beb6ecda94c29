package threadlog

import (
	"slices"
	"sync"

	"agentmesh/mesh"
)

// Bounds of a window: what happened a moment ago, which most readers want, and not
// more than a machine has to spare.
const (
	windowEvents = 2048
	windowBytes  = 4 << 20 // as in the store
)

// A window has the newest events of all threads that were appended here, as they
// were given: whoever reads what has just happened decodes nothing, and shares it
// with all others who do. What is not in it is in the store.
type window struct {
	mu      sync.RWMutex
	all     []held // by Pos
	bytes   int
	threads map[mesh.ThreadKey][]*mesh.Event // the same ones, by Seq
}

// held is an event with its size in the store.
type held struct {
	Placed
	size int
}

// put adds events of the thread that were committed. Writers publish in any order.
func (w *window) put(key mesh.ThreadKey, added []held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.threads == nil {
		w.threads = map[mesh.ThreadKey][]*mesh.Event{}
	}
	for _, h := range added {
		if !w.place(key, h.Event) {
			continue
		}
		i := len(w.all)
		for i > 0 && w.all[i-1].Pos > h.Pos {
			i--
		}
		w.all = slices.Insert(w.all, i, h)
		w.bytes += h.size
	}
	for len(w.all) > windowEvents || w.bytes > windowBytes {
		w.dropOldest()
	}
}

// place puts the event among those of its thread, where both Seq and Pos grow.
// Those that another node deleted, before the thread began anew, do not fit: it
// forgets them, and returns false for one that comes late.
func (w *window) place(key mesh.ThreadKey, e *mesh.Event) bool {
	of := w.threads[key]
	i := len(of)
	for i > 0 && of[i-1].Seq >= e.Seq {
		i--
	}
	if i < len(of) && of[i].Pos < e.Pos {
		w.forget(key, e.Pos)
		return w.place(key, e)
	}
	if i > 0 && of[i-1].Pos > e.Pos {
		return false
	}
	w.threads[key] = slices.Insert(of, i, e)
	return true
}

func (w *window) dropOldest() {
	h := w.all[0]
	w.all[0] = held{}
	w.all, w.bytes = w.all[1:], w.bytes-h.size
	if of := w.threads[h.Thread]; len(of) > 1 {
		of[0] = nil
		w.threads[h.Thread] = of[1:]
	} else {
		delete(w.threads, h.Thread)
	}
}

// read returns the thread's events from the one after that Seq on, without a gap
// and at most limit; none if it does not have the first of them.
func (w *window) read(key mesh.ThreadKey, after mesh.Seq, limit int) []*mesh.Event {
	w.mu.RLock()
	defer w.mu.RUnlock()
	of := w.threads[key]
	i, ok := slices.BinarySearchFunc(of, after+1, func(e *mesh.Event, seq mesh.Seq) int { return int(e.Seq - seq) })
	if !ok {
		return nil
	}
	n := i
	for n < len(of) && n-i < limit && of[n].Seq == after+1+mesh.Seq(n-i) {
		n++
	}
	return slices.Clone(of[i:n])
}

// scan returns the events of all threads from the one after that Pos on, without a
// gap and at most limit; none if it does not have the first of them.
func (w *window) scan(after mesh.Pos, limit int) []Placed {
	w.mu.RLock()
	defer w.mu.RUnlock()
	i, ok := slices.BinarySearchFunc(w.all, after+1, func(h held, pos mesh.Pos) int { return int(h.Pos - pos) })
	if !ok {
		return nil
	}
	var out []Placed
	for n, h := range w.all[i:] {
		if n == limit || h.Pos != after+1+mesh.Pos(n) {
			break
		}
		out = append(out, h.Placed)
	}
	return out
}

// drop forgets a thread's events before the Pos.
func (w *window) drop(key mesh.ThreadKey, before mesh.Pos) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(key, before)
}

func (w *window) forget(key mesh.ThreadKey, before mesh.Pos) {
	stale := func(e *mesh.Event) bool { return e.Pos < before }
	of := slices.DeleteFunc(w.threads[key], stale)
	if len(of) > 0 {
		w.threads[key] = of
	} else {
		delete(w.threads, key)
	}
	w.all = slices.DeleteFunc(w.all, func(h held) bool {
		if h.Thread != key || !stale(h.Event) {
			return false
		}
		w.bytes -= h.size
		return true
	})
}

// first is the Pos of the thread's first event in the window; 0 if there is none.
func (w *window) first(key mesh.ThreadKey) mesh.Pos {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if of := w.threads[key]; len(of) > 0 {
		return of[0].Pos
	}
	return 0
}
