package turn

import (
	"context"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// A watch tells the driver of decisions that others make about its turn.
type watch struct {
	signals chan *mesh.Event
	stop    func()
}

// watch follows the thread, from the leg on that has begun, if there is one, keeps
// its state caught up on the way, and passes on what a running leg must react to.
func (d *driver) watch(ctx context.Context, turn mesh.ExecutionID, begun *leg) (*watch, error) {
	var first mesh.Pos
	var from mesh.Seq
	if err := d.States.With(ctx, d.key, func(s *thread.State) error { first, from = s.First, s.Seq; return nil }); err != nil {
		return nil, err
	}
	if begun != nil {
		from = begun.from
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{signals: make(chan *mesh.Event, 16)}
	cur := d.Log.Cursor(d.key, first, from)
	d.stopCanceled(ctx, turn)
	var done sync.WaitGroup
	done.Go(func() {
		defer cur.Close()
		for {
			events, err := cur.Next(ctx)
			if err != nil {
				return
			}
			d.States.Feed(d.key, events)
			d.pulse.hear(events, d.Now())
			for _, ev := range events {
				if _, cancels := ev.Body.(mesh.CancelRequested); cancels && ev.Execution != turn {
					d.stopCanceled(ctx, turn)
				}
				if !concerns(ev, turn) {
					continue
				}
				select {
				case w.signals <- ev:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	w.stop = func() { cancel(); done.Wait() }
	return w, nil
}

// stopCanceled has the agents end those executions of the turn that are to end while it
// goes on.
func (d *driver) stopCanceled(ctx context.Context, turn mesh.ExecutionID) {
	var all []thread.Execution
	err := d.States.With(ctx, d.key, func(s *thread.State) error {
		for _, x := range s.Unfinished(turn) {
			if s.Dismissed(x) && !d.stopped[x.ID] {
				all = append(all, *x)
			}
		}
		return nil
	})
	if err != nil {
		d.Logger.WarnContext(ctx, "canceled executions not read", "err", err)
		return
	}
	for _, x := range all {
		if d.stopped == nil {
			d.stopped = map[mesh.ExecutionID]bool{}
		}
		d.stopped[x.ID] = true
	}
	if len(all) > 0 {
		d.runner.stop(ctx, d.key, all)
	}
}

func concerns(ev *mesh.Event, turn mesh.ExecutionID) bool {
	switch b := ev.Body.(type) {
	case mesh.HandoffStarted:
		return true
	case mesh.HandoffEnded:
		return !b.Stays
	case mesh.CancelRequested:
		return ev.Execution == turn
	}
	return false
}

// loses reports whether the handoff that the event starts or ends takes the stream away from
// the leg's agent. One that ends concerns the agent that had it: another one may be at work
// meanwhile, on the answer to what it asked in a task of its own.
func (d *driver) loses(ctx context.Context, l *leg, ev *mesh.Event) bool {
	end, ends := ev.Body.(mesh.HandoffEnded)
	loses := !ends
	err := d.States.With(ctx, d.key, func(s *thread.State) error {
		h := s.Handoff // a later one begins where nobody lost the stream
		loses = loses || h != nil && h.Seq == end.Started && h.To == l.exec.Agent
		return nil
	})
	return loses || err != nil // who drives on finds out
}

// drained waits until the agents that lost the user's stream have ended.
func (d *driver) drained() {
	for _, done := range d.drains {
		<-done
	}
	d.drains = nil
}

// interrupted waits for them, but no longer than until there is something to do, and
// then returns true.
func (d *driver) interrupted(ctx context.Context) bool {
	if len(d.drains) == 0 {
		return false
	}
	ctx, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	posted := make(chan struct{})
	following.Go(func() { // a message that another node took
		for ev, err := range d.Log.Follow(ctx, d.key, d.begins, d.seen) {
			if err == nil {
				if _, ok := ev.Body.(mesh.MessagePosted); !ok {
					continue
				}
			}
			if err == nil || mesh.IsCode(err, mesh.NotFound) { // or in the next thread of that name
				close(posted)
			}
			return
		}
	})
	for len(d.drains) > 0 {
		select {
		case <-d.drains[0]:
			d.drains = d.drains[1:]
		case <-posted:
			return true
		case <-d.wake:
			return true
		}
	}
	return false
}

// drain runs f beside the driver, which waits for it before it releases its lease.
func (d *driver) drain(f func()) {
	done := make(chan struct{})
	d.drains = append(d.drains, done)
	d.runner.wg.Go(func() {
		defer close(done)
		f()
	})
}
