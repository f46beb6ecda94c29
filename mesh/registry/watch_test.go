package registry

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"

	"github.com/google/go-cmp/cmp"
)

func tell(c Change) string {
	switch c.Kind {
	case Put:
		return fmt.Sprintf("put %s live=%v", c.Entry.Name, c.Entry.Live)
	case Removed:
		return "removed " + c.Entry.Name
	default:
		return "synced"
	}
}

func TestWatchTellsWhatIsThenThatItIsAllThenEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, newNetwork(), nil)
		start(t, r)
		builtin(t, r, nil)
		register(t, r, principal(globex), "foreign", "h:3")
		register(t, r, principal(acme), "courier", "h:7")

		ctx, stop := context.WithCancel(t.Context())
		next, end := iter.Pull2(r.Watch(ctx, acme))
		defer end()
		var got []string
		see := func(n int) {
			for range n {
				c, err, _ := next()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, tell(c))
			}
		}
		see(3)
		time.Sleep(10*time.Second + lapsedKept)
		register(t, r, principal(globex), "foreign", "h:3")
		r.RemoveBuiltin("mail")
		register(t, r, principal(acme), "zeta", "h:2")
		see(3)
		want := []string{"put courier live=true", "put mail live=true", "synced", "removed courier", "removed mail", "put zeta live=true"}
		if got[3] == "removed mail" {
			got[3], got[4] = got[4], got[3]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		stop()
		if _, err, ok := next(); !ok || !mesh.IsCode(err, mesh.Canceled) {
			t.Errorf("the end of the watch says %v, %v; want that it was canceled", err, ok)
		}
	})
}

func TestWatchersAreToldOfExpiryInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, newNetwork(), nil)
		start(t, r)
		begun := time.Now()
		register(t, r, principal(acme), "courier", "h:1")
		for c, err := range r.Watch(t.Context(), acme) {
			if err != nil {
				t.Fatal(err)
			}
			if c.Kind == Put && !c.Entry.Live {
				break
			}
		}
		if after := time.Since(begun); after != 10*time.Second {
			t.Errorf("told %v after the lease began, want 10s", after)
		}
	})
}

// Whatever happens while they read, watchers end with what List says.
func TestWatchersLoseNoChange(t *testing.T) {
	const watchers, writers, rounds = 4, 4, 100
	r := open(t, newNetwork(), nil)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var reading, writing sync.WaitGroup
	for range watchers {
		reading.Go(func() {
			view := map[string]Entry{}
			for c, err := range r.Watch(ctx, acme) {
				switch {
				case err != nil:
					t.Errorf("canceled before the last change was seen; view has %d agents", len(view))
					return
				case c.Kind == Put:
					view[c.Entry.Name] = c.Entry
				case c.Kind == Removed:
					delete(view, c.Entry.Name)
				}
				if _, last := view["last"]; last {
					break
				}
			}
			want := map[string]Entry{}
			for _, e := range r.List(acme, Filter{}) {
				want[e.Name] = e
			}
			// All other names come before "last", so nothing is still to be told.
			if !maps.EqualFunc(want, view, same) {
				t.Errorf("watcher ended with %v, there is %v", view, want)
			}
		})
	}
	for w := range writers {
		writing.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(w)))
			for range rounds {
				name := fmt.Sprintf("a%d", rnd.IntN(5)*writers+w)
				if rnd.IntN(3) == 0 {
					_ = r.Deregister(ctx, principal(acme), name, "", false)
				} else {
					register(t, r, principal(acme), name, "h:1")
				}
			}
		})
	}
	writing.Wait()
	register(t, r, principal(acme), "last", "h:1")
	reading.Wait()
}

func TestFiltersHoldTogether(t *testing.T) {
	r := open(t, newNetwork(), nil)
	for _, name := range []string{"mail", "calendar", "tasks"} {
		if err := r.RegisterBuiltin(name, card(name), "h:1", "secret"); err != nil {
			t.Fatal(err)
		}
	}
	e, _ := r.Get(acme, "tasks")
	r.ReportDown(e, nil)
	for name, tt := range map[string]struct {
		f    Filter
		want []string
	}{
		"none":                      {Filter{}, []string{"calendar", "mail", "tasks"}},
		"skill id":                  {Filter{Skill: "mail.do"}, []string{"mail"}},
		"part of a skill id":        {Filter{Skill: "mail"}, nil},
		"tag in any case":           {Filter{Tag: "DOING"}, []string{"calendar", "mail", "tasks"}},
		"unknown tag":               {Filter{Tag: "do"}, nil},
		"words":                     {Filter{Query: "THINGS mail"}, []string{"mail"}},
		"words that miss":           {Filter{Query: "mail calendar"}, nil},
		"live":                      {Filter{Live: true}, []string{"calendar", "mail"}},
		"live and a skill not live": {Filter{Live: true, Skill: "tasks.do"}, nil},
	} {
		var got []string
		for _, e := range r.List(acme, tt.f) {
			got = append(got, e.Name)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
