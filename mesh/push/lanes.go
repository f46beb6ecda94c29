package push

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"agentmesh/mesh"
)

// There are two lanes, each with so many places: the fast one for webhooks that
// answer promptly, as far as is known, and the slow one for the others. Hosts
// take turns in a lane and have a part of its places at most. A request that
// takes longer than the dispatcher's patience moves to the slow lane with its
// host, or ends and waits there when it is full. So however many webhooks hang,
// those that answer wait for no more than one patience of newcomers.
const (
	fast = 0
	slow = 1

	slowPlaces = 4 // times those of the fast lane
)

type lane struct {
	free    int
	perHost int
	hosts   []*host // that have work and may have another place
}

// A host is what webhooks have in common: their URL's scheme, name and port.
type host struct {
	name    string
	subs    int
	lane    int
	busy    [2]int // places by lane
	queue   []*sub
	waiting bool // is in its lane's hosts
}

// A phase is what a sub is doing.
type phase uint8

const (
	resting phase = iota // until its thread moves
	queued
	running
	pausing // until it is due
	removed
)

// A sub is a config that has, or will have, something to deliver. Its fields
// are guarded by Dispatcher.mu, but for the first three, which do not change.
type sub struct {
	name string
	key  mesh.ThreadKey
	task mesh.ExecutionID

	host   *host
	phase  phase
	again  bool // its thread moved while it was running
	hurry  bool // its config was replaced while it was running
	due    time.Time
	at     *host // while running: where its place is
	lane   int
	cancel context.CancelFunc
}

// waiting are subs by when they are due. Entries of subs that were woken
// meanwhile stay until then.
type waiting []pause

type pause struct {
	due time.Time
	sub *sub
}

func (w *waiting) Len() int           { return len(*w) }
func (w *waiting) Less(i, j int) bool { return (*w)[i].due.Before((*w)[j].due) }
func (w *waiting) Swap(i, j int)      { (*w)[i], (*w)[j] = (*w)[j], (*w)[i] }
func (w *waiting) Push(x any)         { *w = append(*w, x.(pause)) }
func (w *waiting) Pop() any {
	last := len(*w) - 1
	p := (*w)[last]
	(*w)[last] = pause{}
	*w = (*w)[:last]
	return p
}

// reset forgets all subs.
func (d *Dispatcher) reset() {
	d.subs = map[string]*sub{}
	d.threads = map[mesh.ThreadKey]map[*sub]bool{}
	d.hosts = map[string]*host{}
	d.waiting, d.scanning, d.from = nil, false, 0
	d.lanes[fast] = lane{free: d.Workers, perHost: max(1, d.Workers/2)}
	d.lanes[slow] = lane{free: slowPlaces * d.Workers, perHost: max(1, slowPlaces*d.Workers/8)}
}

// What follows needs d.mu.

// add makes a sub known, or gives it another host.
func (d *Dispatcher) add(name string, key mesh.ThreadKey, task mesh.ExecutionID, hostName string) *sub {
	s := d.subs[name]
	if s == nil {
		s = &sub{name: name, key: key, task: task}
		d.subs[name] = s
		if d.threads[key] == nil {
			d.threads[key] = map[*sub]bool{}
		}
		d.threads[key][s] = true
	} else {
		if s.phase == queued {
			s.host.queue = slices.DeleteFunc(s.host.queue, func(o *sub) bool { return o == s })
			s.phase = resting
		}
		d.leave(s.host)
	}
	h := d.hosts[hostName]
	if h == nil {
		h = &host{name: hostName}
		d.hosts[hostName] = h
	}
	h.subs++
	s.host = h
	return s
}

// forget makes the dispatcher unaware of the sub, and stops what it does.
func (d *Dispatcher) forget(s *sub) {
	if s.phase == queued {
		s.host.queue = slices.DeleteFunc(s.host.queue, func(o *sub) bool { return o == s })
	}
	if s.cancel != nil {
		s.cancel()
	}
	s.phase = removed
	delete(d.subs, s.name)
	delete(d.threads[s.key], s)
	if len(d.threads[s.key]) == 0 {
		delete(d.threads, s.key)
	}
	d.leave(s.host)
}

func (d *Dispatcher) leave(h *host) {
	if h.subs--; h.subs == 0 {
		delete(d.hosts, h.name)
	}
}

// wake sets the sub to work, also one that pauses if hurry is set.
func (d *Dispatcher) wake(s *sub, hurry bool) {
	switch s.phase {
	case running:
		s.again, s.hurry = true, s.hurry || hurry
	case pausing:
		if hurry {
			d.enqueue(s)
		}
	case resting:
		d.enqueue(s)
	case queued, removed:
	}
}

func (d *Dispatcher) enqueue(s *sub) {
	s.phase = queued
	s.host.queue = append(s.host.queue, s)
	d.line(s.host)
	d.signal()
}

// line puts the host into its lane if it has work and may have a place.
func (d *Dispatcher) line(h *host) {
	l := &d.lanes[h.lane]
	if !h.waiting && len(h.queue) > 0 && h.busy[h.lane] < l.perHost {
		h.waiting = true
		l.hosts = append(l.hosts, h)
	}
}

// move puts the host into the lane.
func (d *Dispatcher) move(h *host, to int) {
	if h.lane == to {
		return
	}
	if h.waiting {
		l := &d.lanes[h.lane]
		l.hosts = slices.DeleteFunc(l.hosts, func(o *host) bool { return o == h })
		h.waiting = false
	}
	h.lane = to
	d.line(h)
	d.signal()
}

// next takes the next sub that may run, or returns nil.
func (d *Dispatcher) next() *sub {
	for i := range d.lanes {
		l := &d.lanes[i]
		for l.free > 0 && len(l.hosts) > 0 {
			h := l.hosts[0]
			l.hosts = slices.Delete(l.hosts, 0, 1)
			h.waiting = false
			if len(h.queue) == 0 {
				continue
			}
			s := h.queue[0]
			h.queue = slices.Delete(h.queue, 0, 1)
			l.free--
			h.busy[i]++
			d.line(h)
			s.phase, s.again, s.hurry, s.at, s.lane = running, false, false, h, i
			return s
		}
	}
	return nil
}

// demote gives a running sub's place back and takes one in the slow lane, with
// its host. It returns false if the slow lane has none.
func (d *Dispatcher) demote(s *sub) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.move(s.at, slow)
	if s.lane == slow {
		return true
	}
	if d.lanes[slow].free == 0 {
		return false
	}
	d.release(s)
	s.lane = slow
	s.at.busy[slow]++
	d.lanes[slow].free--
	return true
}

// release gives the place of a running sub back.
func (d *Dispatcher) release(s *sub) {
	s.at.busy[s.lane]--
	d.lanes[s.lane].free++
	d.line(s.at)
	d.signal()
}

// due wakes the subs whose pause is over, and returns when the next one is.
func (d *Dispatcher) due(now time.Time) (time.Time, bool) {
	for len(d.waiting) > 0 {
		p := d.waiting[0]
		if p.sub.phase == pausing && p.sub.due.Equal(p.due) {
			if p.due.After(now) {
				return p.due, true
			}
			d.enqueue(p.sub)
		}
		heap.Pop(&d.waiting)
	}
	return time.Time{}, false
}

// signal tells Run that there may be something to do.
func (d *Dispatcher) signal() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}
