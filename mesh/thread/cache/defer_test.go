package cache_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// A late log gives what is deferred its place, and appends it when something else
// is asked of it.
type late struct {
	*gate
	asked chan struct{}
}

func (l *late) Append(ctx context.Context, k mesh.ThreadKey, events []*mesh.Event, opts threadlog.AppendOptions) ([]mesh.Seq, error) {
	if opts.Deferred {
		opts.Placed()
		opts.Placed = nil
		<-l.asked
	}
	return l.gate.Append(ctx, k, events, opts)
}

func (l *late) Settle(context.Context, mesh.ThreadKey, mesh.Pos, mesh.Seq) error {
	close(l.asked)
	return nil
}

// Facts that have their place keep nobody waiting, are reserved until they have landed,
// and whoever needs them waits for that.
func TestFactsThatHaveTheirPlaceKeepNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &late{newGate(), make(chan struct{})}
		s := cache.New(log, 0)
		must(t, add(t.Context(), s, key(1), open("t", "")))
		placed := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			must(t, s.Decide(t.Context(), key(1), func(*thread.State) (cache.Decision, error) {
				return cache.Decision{Events: []*mesh.Event{reply("fact", "t")}, Placed: func() { close(placed) }}, nil
			}))
		})
		<-placed
		reserved := func() (is bool) {
			must(t, s.Reserve(t.Context(), key(1), func(_ *thread.State, on cache.Reserved) (cache.Decision, error) {
				is = on["fact"] != nil
				return cache.Decision{}, nil
			}))
			return is
		}
		must(t, add(t.Context(), s, key(1), moved("t"))) // would wait for a fact on its way
		if !reserved() {
			t.Error("the fact is not reserved")
		}
		all.Go(func() { must(t, add(t.Context(), s, key(1), reply("fact", "t"))) }) // is sent again
		synctest.Wait()
		must(t, s.Land(t.Context(), key(1)))
		all.Wait() // what was sent again is reserved for a moment, too
		if reserved() {
			t.Error("the fact has landed, and is reserved")
		}
		must(t, s.With(t.Context(), key(1), func(st *thread.State) error {
			if n := st.Execution("t").Usage.Prompt; n != 1 || st.Seq != 3 {
				t.Errorf("the state has %d, of %d events", n, st.Seq)
			}
			return nil
		}))
		must(t, s.Land(t.Context(), key(1))) // nothing is left: the log is not asked
	})
}
