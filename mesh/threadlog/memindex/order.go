package memindex

import (
	"slices"

	"agentmesh/mesh"
)

// A tenant has its threads in the order in which they were touched, which is that of their
// LastPos.
type tenant struct {
	threads        map[string]*thread
	newest, oldest *thread // the ends of a list
	bytes          int64   // of all records
	// touches are what the list is found by from the midst on: each time a thread was touched,
	// but for some that it was since. As many as threads are stale at most, about.
	touches []touch
}

// A touch is stale when the thread was touched since, or deleted.
type touch struct {
	pos mesh.Pos
	t   *thread
}

func (x touch) stale() bool { return x.t.LastPos != x.pos || x.t.dead }

// touch makes the thread, whose LastPos is above all others, the newest.
func (tn *tenant) touch(t *thread) {
	if n := len(tn.touches); n > 0 && tn.touches[n-1].t == t {
		tn.touches[n-1].pos = t.LastPos
		return // it is the newest
	}
	if t.newer != nil || t.older != nil || tn.newest == t {
		tn.remove(t)
	}
	tn.pushFront(t)
	if len(tn.touches) > 2*len(tn.threads)+64 {
		tn.touches = slices.DeleteFunc(tn.touches, touch.stale)
	}
	tn.touches = append(tn.touches, touch{t.LastPos, t})
}

func (tn *tenant) pushFront(t *thread) {
	t.newer, t.older = nil, tn.newest
	if tn.newest != nil {
		tn.newest.newer = t
	} else {
		tn.oldest = t
	}
	tn.newest = t
}

func (tn *tenant) remove(t *thread) {
	if t.newer != nil {
		t.newer.older = t.older
	} else {
		tn.newest = t.older
	}
	if t.older != nil {
		t.older.newer = t.newer
	} else {
		tn.oldest = t.newer
	}
}

// find is the first touch at that position or above.
func (tn *tenant) find(pos mesh.Pos) int {
	i, _ := slices.BinarySearchFunc(tn.touches, pos, func(x touch, pos mesh.Pos) int { return int(min(max(x.pos-pos, -1), 1)) })
	return i
}

// before is the newest thread with a LastPos below pos, or of all if that is 0; nil if there is none.
func (tn *tenant) before(pos mesh.Pos) *thread {
	if pos == 0 {
		return tn.newest
	}
	for _, x := range slices.Backward(tn.touches[:tn.find(pos)]) {
		if !x.stale() {
			return x.t
		}
	}
	return nil
}

// after is the oldest thread with a LastPos above pos, nil if there is none.
func (tn *tenant) after(pos mesh.Pos) *thread {
	if pos < 1 {
		return tn.oldest
	}
	for _, x := range tn.touches[tn.find(pos+1):] {
		if !x.stale() {
			return x.t
		}
	}
	return nil
}
