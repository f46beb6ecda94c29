package push

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentmesh/mesh"
)

// bench is a dispatcher whose lanes a property test drives by hand.
type bench struct {
	*Dispatcher
	running []*sub
}

func newBench(workers int) *bench {
	d := &Dispatcher{Config: Config{Workers: workers}, kick: make(chan struct{}, 1), scan: make(chan struct{}, 1)}
	d.reset()
	return &bench{Dispatcher: d}
}

// check fails if a place was lost or is there twice, or if a host that has work
// and may have a place is not in line for one.
func (b *bench) check(t *rapid.T) {
	var busy [2]int
	for _, s := range b.running {
		busy[s.lane]++
	}
	for i, capacity := range []int{b.Workers, slowPlaces * b.Workers} {
		if b.lanes[i].free+busy[i] != capacity {
			t.Fatalf("lane %d has %d places free and %d taken of %d", i, b.lanes[i].free, busy[i], capacity)
		}
	}
	for _, h := range b.hosts {
		l := &b.lanes[h.lane]
		lined := 0
		for i := range b.lanes {
			for _, o := range b.lanes[i].hosts {
				if o == h {
					lined++
				}
			}
		}
		if len(h.queue) > 0 && h.busy[h.lane] < l.perHost && (lined != 1 || !slices.Contains(l.hosts, h)) {
			t.Fatalf("host %s in lane %d has work and is in line %d times", h.name, h.lane, lined)
		}
		for _, s := range h.queue {
			if s.phase != queued || s.host != h {
				t.Fatalf("a sub of host %s is in the queue of %s", s.host.name, h.name)
			}
		}
	}
}

func TestNoPlaceAndNoHostIsEverLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(rapid.IntRange(1, 4).Draw(t, "workers"))
		name := func() string { return fmt.Sprint("sub", rapid.IntRange(0, 9).Draw(t, "sub")) }
		one := func() *sub { return b.subs[name()] }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				b.mu.Lock()
				defer b.mu.Unlock()
				h := fmt.Sprint("host", rapid.IntRange(0, 4).Draw(t, "host"))
				b.wake(b.add(name(), mesh.ThreadKey{}, "", h), true)
			},
			"wake": func(*rapid.T) {
				if s := one(); s != nil {
					b.wake(s, false)
				}
			},
			"forget": func(*rapid.T) {
				if s := one(); s != nil {
					b.forget(s)
				}
			},
			"start": func(*rapid.T) {
				for s := b.next(); s != nil; s = b.next() {
					s.cancel = func() {}
					b.running = append(b.running, s)
				}
			},
			"demote": func(t *rapid.T) {
				if n := len(b.running); n > 0 {
					b.demote(b.running[rapid.IntRange(0, n-1).Draw(t, "running")])
				}
			},
			"finish": func(t *rapid.T) {
				n := len(b.running)
				if n == 0 {
					return
				}
				i := rapid.IntRange(0, n-1).Draw(t, "running")
				s := b.running[i]
				b.running = slices.Delete(b.running, i, i+1)
				b.finish(s, outcome{
					kind:  result(rapid.IntRange(int(more), int(gone)).Draw(t, "kind")),
					speed: speed(rapid.IntRange(int(unknownSpeed), int(tardy)).Draw(t, "speed")),
					pause: time.Hour,
				})
			},
			"time passes": func(*rapid.T) { b.due(time.Now().Add(2 * time.Hour)) },
			"":            b.check,
		})
	})
}
