package registry

import (
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
)

// two returns two registries on one store, as two nodes have them.
func two(t *testing.T, n *network, s *shelf) (a, b *Registry) {
	t.Helper()
	var both [2]*Registry
	for i := range both {
		r, err := New(t.Context(), Options{Probe: n.probe, Fetch: n.fetch, Store: s, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		start(t, r)
		both[i] = r
	}
	return both[0], both[1]
}

// live returns the names of the agents that acme may call.
func live(r *Registry) string {
	var names []string
	for _, e := range r.List(acme, Filter{Live: true}) {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func TestWhatIsRegisteredAtOneNodeIsFoundAtTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.serve("http://far/card", published("far", "h:9"))
		a, b := two(t, n, newShelf())
		next, end := iter.Pull2(b.Watch(t.Context(), acme))
		defer end()
		if c, err, _ := next(); err != nil || c.Kind != Synced {
			t.Fatal(c, err)
		}
		reg := register(t, a, principal(acme), "courier", "h:1")
		if _, err := a.Register(t.Context(), operator, Request{Name: "far", CardURL: "http://far/card", Shared: true}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"courier", "far"} {
			if _, err := b.Resolve(acme, name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := b.Get(globex, "courier")
		wantCode(t, err, mesh.NotFound)
		if c, err, _ := next(); err != nil || c.Kind != Put || c.Entry.Name != "courier" {
			t.Errorf("watched was %v, %v", c, err)
		}
		if got := live(b); got != "courier far" {
			t.Errorf("listed are %v", got)
		}

		time.Sleep(5 * time.Second)
		if _, err := b.KeepAlive(principal(acme), "courier", reg.LeaseID); err != nil {
			t.Fatal(err)
		}
		_, err = b.KeepAlive(principal(acme), "courier", "guess")
		wantCode(t, err, mesh.NotFound)
		time.Sleep(6 * time.Second)
		if got := live(a); got != "courier far" {
			t.Errorf("it was kept alive at the other node, and is live here: %v", got)
		}
		if err := b.Deregister(t.Context(), principal(acme), "courier", reg.LeaseID, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lookEvery)
		_, err = a.Get(acme, "courier")
		wantCode(t, err, mesh.NotFound)
		_, err = a.KeepAlive(principal(acme), "courier", reg.LeaseID)
		wantCode(t, err, mesh.NotFound)
	})
}

func TestALeaseThatRanOutAtOneNodeIsLookedUpBeforeThatIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		a, err := New(t.Context(), Options{Probe: newNetwork().probe, Store: s, Shared: true}) // which does not run
		if err != nil {
			t.Fatal(err)
		}
		b, _ := two(t, newNetwork(), s)
		reg := register(t, a, principal(acme), "courier", "h:1")
		time.Sleep(8 * time.Second)
		if _, err := b.KeepAlive(principal(acme), "courier", reg.LeaseID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if _, err := a.Resolve(acme, "courier"); err != nil {
			t.Errorf("the other node knew better: %v", err)
		}
		time.Sleep(5 * time.Second)
		_, err = a.Resolve(acme, "courier")
		wantCode(t, err, mesh.Unavailable, "has not renewed")
		if _, err := b.KeepAlive(principal(acme), "courier", reg.LeaseID); err != nil { // late
			t.Fatal(err)
		}
		if _, err := a.Resolve(acme, "courier"); err != nil {
			t.Errorf("it was renewed late: %v", err)
		}
	})
}

func TestALeaseIsWrittenRarelyAndItsIDNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		a, b := two(t, newNetwork(), s)
		reg := register(t, a, principal(acme), "courier", "h:1") // for 10 s
		for range 60 {
			time.Sleep(time.Second)
			if _, err := a.KeepAlive(principal(acme), "courier", reg.LeaseID); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Resolve(acme, "courier"); err != nil {
				t.Fatal(err)
			}
		}
		if s.swaps > 12 || s.rev != 1 {
			t.Errorf("%d writes and %d changes for a minute of a lease of 10 s", s.swaps, s.rev)
		}
		if data := string(s.all["acme/courier"]); data == "" || strings.Contains(data, reg.LeaseID) {
			t.Errorf("the store has %s", data)
		}
	})
}

// A lone node writes nothing for leases.
func TestALoneNodeKeepsNoLeases(t *testing.T) {
	s := newShelf()
	r := open(t, newNetwork(), s)
	reg := register(t, r, principal(acme), "courier", "h:1")
	if _, err := r.KeepAlive(principal(acme), "courier", reg.LeaseID); err != nil {
		t.Fatal(err)
	}
	if len(s.all) != 0 || s.rev != 0 {
		t.Errorf("the store has %v", s.all)
	}
}

// A node that starts takes over leases that still run, and asks their agents.
func TestANodeThatStartsKnowsTheLeasesThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newShelf(), newNetwork()
		a, _ := two(t, n, s)
		register(t, a, principal(acme), "up", "h:1")
		register(t, a, principal(acme), "gone", "h:2")
		time.Sleep(time.Second)
		n.kill("h:2")
		c, _ := two(t, n, s)
		synctest.Wait()
		if _, err := c.Resolve(acme, "up"); err != nil {
			t.Errorf("its lease runs and it answers: %v", err)
		}
		_, err := c.Resolve(acme, "gone")
		wantCode(t, err, mesh.Unavailable)
		time.Sleep(3 * lapsedKept)
		d, _ := two(t, n, s)
		_, err = d.Get(acme, "up")
		wantCode(t, err, mesh.NotFound)
		if len(s.all) != 0 {
			t.Errorf("the store still has %d leases that ran out", len(s.all))
		}
	})
}

func TestANameIsTakenOnceOnAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := two(t, newNetwork(), newShelf())
		reg := register(t, a, principal(acme), "courier", "h:1")
		_, err := b.Register(t.Context(), principal(acme), Request{Name: "courier", Card: card("courier"), Endpoint: "h:2"})
		wantCode(t, err, mesh.Precondition, "live")
		again, err := b.Register(t.Context(), principal(acme), Request{Name: "courier", Card: card("courier"), Endpoint: "h:2", LeaseID: reg.LeaseID})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lookEvery)
		if e, err := a.Resolve(acme, "courier"); err != nil || e.Endpoint != "h:2" {
			t.Errorf("%+v, %v", e, err)
		}
		_, err = a.KeepAlive(principal(acme), "courier", reg.LeaseID)
		wantCode(t, err, mesh.NotFound)
		if _, err := a.KeepAlive(principal(acme), "courier", again.LeaseID); err != nil {
			t.Error(err)
		}
	})
}

func TestABuiltinAgentIsItsNodesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := two(t, newNetwork(), newShelf())
		if err := a.RegisterBuiltin("mail", card("mail"), "h:3", "secret"); err != nil {
			t.Fatal(err)
		}
		_, err := b.Get(acme, "mail")
		wantCode(t, err, mesh.NotFound)
		if _, err := b.Register(t.Context(), operator, Request{Name: "mail", Card: card("mail"), Endpoint: "h:4", Shared: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * readEvery)
		if e, err := a.Get(acme, "mail"); err != nil || !e.Builtin || e.Endpoint != "h:3" {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// A store that fails takes nobody away, and is not mistaken for one that has nothing.
func TestAStoreThatFailsTakesNoAgentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		a, b := two(t, newNetwork(), s)
		reg := register(t, a, principal(acme), "courier", "h:1")
		time.Sleep(6 * time.Second)
		broken := errors.New("disk on fire")
		s.mu.Lock()
		s.fail = broken
		s.mu.Unlock()
		if _, err := a.KeepAlive(principal(acme), "courier", reg.LeaseID); err != nil {
			t.Errorf("KeepAlive: %v", err)
		}
		if _, err := a.Resolve(acme, "courier"); err != nil {
			t.Errorf("Resolve: %v", err)
		}
		if _, err := b.Get(acme, "nobody"); !errors.Is(err, broken) {
			t.Errorf("Get of an unknown name: %v", err)
		}
	})
}
