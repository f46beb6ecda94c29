package threadlog

import (
	"math"
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
	all     line[held] // by Pos
	bytes   int
	threads map[mesh.ThreadKey]*line[*mesh.Event] // the same ones, by Seq
}

// A line is a queue in which hardly anybody cuts in: what leaves it makes room for
// what comes, so that it neither grows nor moves with each.
type line[T any] struct {
	slots []T
	gone  int // how many of slots have left
}

// here are those that are in the line. They are valid until it changes.
func (l *line[T]) here() []T { return l.slots[l.gone:] }

func (l *line[T]) insert(i int, v ...T) { l.slots = slices.Insert(l.slots, l.gone+i, v...) }

// shift takes out the first.
func (l *line[T]) shift() T {
	first := l.slots[l.gone]
	clear(l.slots[l.gone : l.gone+1])
	if l.gone++; 2*l.gone >= len(l.slots) {
		l.delete(func(T) bool { return false })
	}
	return first
}

// delete takes out those that f names.
func (l *line[T]) delete(f func(T) bool) {
	n := 0
	for _, v := range l.here() {
		if !f(v) {
			l.slots[n] = v
			n++
		}
	}
	clear(l.slots[n:])
	l.slots, l.gone = l.slots[:n], 0
}

// held is an event with its size in the store.
type held struct {
	Placed
	size int
}

// put adds events of the thread that were committed, with positions in a row. Writers
// publish in any order. The slice is put's from there on.
func (w *window) put(key mesh.ThreadKey, added []held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.threads == nil {
		w.threads = map[mesh.ThreadKey]*line[*mesh.Event]{}
	}
	placed := added[:0]
	for _, h := range added {
		if w.place(key, h.Event) {
			placed = append(placed, h)
			w.bytes += h.size
		}
	}
	if len(placed) > 0 {
		all := w.all.here()
		i := len(all)
		for i > 0 && all[i-1].Pos > placed[0].Pos {
			i--
		}
		w.all.insert(i, placed...)
	}
	for len(w.all.here()) > windowEvents || w.bytes > windowBytes {
		w.dropOldest()
	}
}

// place puts the event among those of its thread, where both Seq and Pos grow.
// Those that another node deleted, before the thread began anew, do not fit: it
// forgets them, and returns false for one that comes late.
func (w *window) place(key mesh.ThreadKey, e *mesh.Event) bool {
	in := w.threads[key]
	if in == nil {
		in = new(line[*mesh.Event])
		w.threads[key] = in
	}
	of := in.here()
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
	in.insert(i, e)
	return true
}

func (w *window) dropOldest() {
	h := w.all.shift()
	w.bytes -= h.size
	of := w.threads[h.Thread]
	if of.shift(); len(of.here()) == 0 {
		delete(w.threads, h.Thread)
	}
}

// of are the thread's events.
func (w *window) of(key mesh.ThreadKey) []*mesh.Event {
	if in := w.threads[key]; in != nil {
		return in.here()
	}
	return nil
}

// read returns the thread's events from the one after that Seq on, without a gap
// and at most limit; none if it does not have the first of them.
func (w *window) read(key mesh.ThreadKey, after mesh.Seq, limit int) []*mesh.Event {
	w.mu.RLock()
	defer w.mu.RUnlock()
	of := w.of(key)
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
	all := w.all.here()
	i, ok := slices.BinarySearchFunc(all, after+1, func(h held, pos mesh.Pos) int { return int(h.Pos - pos) })
	if !ok {
		return nil
	}
	out := make([]Placed, 0, min(max(limit, 0), len(all)-i))
	for n, h := range all[i:] {
		if n == limit || h.Pos != after+1+mesh.Pos(n) {
			break
		}
		out = append(out, h.Placed)
	}
	return out
}

// missing is how many positions after that Pos it has no events of, before the first
// that it has: of those that are being published, there may be a few.
func (w *window) missing(after mesh.Pos) int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	all := w.all.here()
	i, _ := slices.BinarySearchFunc(all, after+1, func(h held, pos mesh.Pos) int { return int(h.Pos - pos) })
	if i == len(all) || all[i].Pos == after+1 {
		return math.MaxInt
	}
	return int(all[i].Pos - after - 1)
}

// drop forgets a thread's events before the Pos.
func (w *window) drop(key mesh.ThreadKey, before mesh.Pos) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(key, before)
}

func (w *window) forget(key mesh.ThreadKey, before mesh.Pos) {
	stale := func(e *mesh.Event) bool { return e.Pos < before }
	in := w.threads[key]
	if in == nil {
		return
	}
	if in.delete(stale); len(in.here()) == 0 {
		delete(w.threads, key)
	}
	w.all.delete(func(h held) bool {
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
	if of := w.of(key); len(of) > 0 {
		return of[0].Pos
	}
	return 0
}
