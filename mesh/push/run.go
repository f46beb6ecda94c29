package push

import (
	"container/heap"
	"context"
	"net/url"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/state"
	"agentmesh/mesh/thread"
)

// Run delivers until ctx is done: first what is owed since the last time, then
// what happens. When it returns, nothing that it started is left; requests that
// were under way are cut off and made again next time. It returns nil for an
// orderly stop, and an error if what is owed cannot be read.
func (d *Dispatcher) Run(ctx context.Context) error {
	const op = "push.Run"
	d.mu.Lock()
	if d.running {
		d.mu.Unlock()
		return mesh.Errorf(mesh.Precondition, op, "The dispatcher runs already")
	}
	d.running = true
	d.mu.Unlock()

	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer func() {
		stop()
		work.Wait()
		d.mu.Lock()
		d.running = false
		d.reset()
		d.mu.Unlock()
		d.idle()
	}()
	err := d.expire(ctx)
	if err == nil {
		err = d.load(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return mesh.Wrap(op, err)
	}
	work.Go(func() { d.scanLog(ctx) })
	work.Go(func() { d.clear(ctx) })
	if d.Shared {
		work.Go(func() { d.join(ctx) })
	}
	d.dispatch(ctx, &work)
	return nil
}

// dispatch starts the deliveries whose turn it is.
func (d *Dispatcher) dispatch(ctx context.Context, work *sync.WaitGroup) {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.kick:
		case <-alarm.C:
		}
		d.mu.Lock()
		now := time.Now()
		if next, ok := d.due(now); ok {
			alarm.Reset(next.Sub(now))
		}
		for s := d.next(); s != nil; s = d.next() {
			var runCtx context.Context
			runCtx, s.cancel = context.WithCancel(ctx)
			work.Go(func() { d.finish(s, d.deliver(runCtx, s)) })
		}
		d.mu.Unlock()
	}
}

// finish takes the sub's place back and sees to what is next for it.
func (d *Dispatcher) finish(s *sub, out outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.cancel()
	s.cancel = nil
	d.move(s.at, out.lane(s.at.lane))
	d.release(s)
	switch {
	case s.phase == removed:
	case out.kind == gone && !s.again:
		d.forget(s)
	case out.kind == pauses && !s.hurry: // whatever the thread did meanwhile
		s.phase, s.due = pausing, time.Now().Add(out.pause)
		heap.Push(&d.waiting, pause{s.due, s})
		d.signal()
	case out.kind == caughtUp && !s.again:
		s.phase = resting
	default:
		d.enqueue(s)
	}
}

// lookEvery is how often configs are looked for that others made.
const lookEvery = time.Second

// join takes up the configs that others made, until ctx is done.
func (d *Dispatcher) join(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := d.load(ctx); ctx.Err() == nil {
			d.Alarms.Report(ctx, alarm.Source{Setting: "push", Of: "of other nodes"}, "the push notifications that were known go on", err)
		}
	}
}

// load makes the dispatcher aware of all configs that have something to deliver, or will,
// and that it does not know.
//
// The log is scanned from the last position of any of their threads: what they
// are owed from before is read when they are woken, which is after.
func (d *Dispatcher) load(ctx context.Context) error {
	type owed struct{ name, host string }
	var all []owed
	var from mesh.Pos
	err := d.each(ctx, kindCursor, "", func(it state.Item) error {
		cur, err := decodeCursor(it.Value)
		if err != nil || !cur.Over.IsZero() || d.knows(it.Name) {
			return err
		}
		key, _, ok := parseName(it.Name)
		if !ok {
			return d.drop(ctx, kindCursor, it.Name)
		}
		host, ok, err := d.owed(ctx, it.Name, key, cur)
		if err != nil || !ok {
			return err
		}
		info, _, err := d.Log.Info(ctx, key)
		if err != nil {
			return err
		}
		from = max(from, info.LastPos)
		all = append(all, owed{it.Name, host})
		return nil
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range all {
		d.begin(o.name, o.host, from)
	}
	return nil
}

func (d *Dispatcher) knows(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.subs[name] != nil
}

// makes is how long somebody who has written the cursor of a config may take to write that.
const makes = time.Minute

// owed returns the host of the config of a cursor; false if there is no config.
func (d *Dispatcher) owed(ctx context.Context, name string, key mesh.ThreadKey, cur cursor) (host string, ok bool, err error) {
	defer d.lock(key)()
	c, err := d.config(ctx, name)
	switch {
	case err == nil:
		return hostOf(c.GetUrl()), true, nil
	case mesh.IsCode(err, mesh.NotFound) && d.Shared && cur.By != nil && time.Since(cur.By.At) < makes: // another is about to make it
		return "", false, nil
	case mesh.IsCode(err, mesh.NotFound): // left by one that could not be made
		return "", false, d.drop(ctx, kindCursor, name)
	case mesh.IsCode(err, mesh.Precondition): // it waits for the end of its task
		d.Logger.ErrorContext(ctx, "push notification config cannot be read", "thread", key, "err", err)
		return "", true, nil
	}
	return "", false, err
}

// activate sets a config to work that was made or replaced, if Run runs.
func (d *Dispatcher) activate(ctx context.Context, name string, c *a2apb.TaskPushNotificationConfig) error {
	key, _, _ := parseName(name)
	info, _, err := d.Log.Info(ctx, key)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running {
		d.begin(name, hostOf(c.GetUrl()), info.LastPos)
	}
	return nil
}

// begin wakes the config's sub, and has the log scanned after from if it is not
// yet: what is before, the sub reads by itself. It needs d.mu.
func (d *Dispatcher) begin(name, host string, from mesh.Pos) {
	key, task, _ := parseName(name)
	d.wake(d.add(name, key, task, host), true)
	if d.scanning {
		return
	}
	d.scanning, d.from = true, from
	select {
	case d.scan <- struct{}{}:
	default:
	}
}

// deactivate stops the work for a config.
func (d *Dispatcher) deactivate(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.subs[name]; s != nil {
		d.forget(s)
	}
}

// scanLog wakes the subs of threads that move. It reads the log only while
// there are subs.
func (d *Dispatcher) scanLog(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.scan:
		}
		for d.scanOnce(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}
}

// scanOnce scans until there are no subs. It returns true if the log could not
// be read; the scan then goes on where it was.
func (d *Dispatcher) scanOnce(ctx context.Context) bool {
	d.mu.Lock()
	from := d.from
	d.mu.Unlock()
	for e, err := range d.Log.FollowAll(ctx, from) {
		if err != nil {
			if ctx.Err() == nil {
				d.Logger.ErrorContext(ctx, "push notifications cannot read the log", "err", err)
			}
			return true
		}
		d.mu.Lock()
		d.from = e.Pos
		if thread.MayUpdate(e.Body) {
			for s := range d.threads[e.Thread] {
				d.wake(s, false)
			}
		}
		over := len(d.subs) == 0
		d.scanning = !over
		d.mu.Unlock()
		if over {
			return false
		}
	}
	return true
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
