package push

import (
	"context"
	"errors"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/thread"
)

// An outcome says how a run of a sub ended, and whether its host was prompt.
type outcome struct {
	kind  result
	pause time.Duration
	speed speed
}

type result uint8

const (
	more     result = iota // there may be more; it made way for others
	caughtUp               // nothing until the thread moves
	pauses                 // for outcome.pause
	gone                   // nothing any more
)

type speed uint8

const (
	unknownSpeed speed = iota
	prompt
	tardy
)

// lane returns the lane for a host that was in the one given.
func (o outcome) lane(is int) int {
	switch o.speed {
	case prompt:
		return fast
	case tardy:
		return slow
	}
	return is
}

// stumble is how long a sub waits when it is our own store that fails.
const stumble = time.Second

// turn is how long a sub may keep its place while others wait.
const turn = 100 * time.Millisecond

// deliver sends what the sub's task was told since its cursor, until there is
// no more, until an attempt fails or until others should have a turn.
func (d *Dispatcher) deliver(ctx context.Context, s *sub) outcome {
	cur, err := d.cursorOf(ctx, s.name)
	if err != nil {
		return d.stumbled(ctx, s, err)
	}
	if !cur.Over.IsZero() {
		return outcome{kind: gone}
	}
	c, err := d.config(ctx, s.name)
	switch {
	case mesh.IsCode(err, mesh.Precondition): // under another key; load has said so
		return d.linger(ctx, s, c, cur)
	case err != nil:
		return d.stumbled(ctx, s, err)
	case cur.Failed:
		return d.linger(ctx, s, c, cur)
	case !d.stands(s, cur):
		return d.ended(ctx, s, c, cur)
	}
	view, err := d.view(ctx, s, c, cur, cur.After)
	if err != nil {
		return d.stumbled(ctx, s, err)
	}
	if view == nil { // the thread was deleted, or is not the user's to read any more
		return d.end(ctx, s, c, cur)
	}
	f, err := d.format(ctx, s, c.v03, view.Context(), cur.After)
	if err != nil {
		return d.stumbled(ctx, s, err)
	}
	return d.stream(ctx, s, c, cur, view, f)
}

// stream delivers the events after the cursor as the view shows them.
func (d *Dispatcher) stream(ctx context.Context, s *sub, c record, cur cursor, view *thread.View, f *format) outcome {
	const page = 16
	out := outcome{kind: caughtUp}
	began, at := time.Now(), cur.After
	for !view.Over() {
		events, err := d.Log.Read(ctx, s.key, at, page)
		if err != nil {
			return d.stumbled(ctx, s, err)
		}
		if len(events) == 0 {
			return d.rest(ctx, s, cur, at, out)
		}
		for _, e := range events {
			update := view.Apply(e)
			f.apply(e)
			at = e.Seq
			if thread.Reshares(e) {
				if v, err := d.view(ctx, s, c, cur, at); v == nil && err == nil {
					return d.end(ctx, s, c, cur)
				} else if err != nil {
					return d.stumbled(ctx, s, err)
				}
			}
			if update == nil {
				continue
			}
			if d.replaced(s) {
				out.kind = more
				return out
			}
			if !d.stands(s, cur) {
				return d.ended(ctx, s, c, cur)
			}
			body, err := f.body(update)
			if err != nil {
				return d.failed(ctx, s, c, cur, out, err)
			}
			how, err := d.attempt(ctx, s, c.TaskPushNotificationConfig, body)
			out.speed = how
			if err != nil {
				return d.failed(ctx, s, c, cur, out, err)
			}
			cur.After, cur.Attempts, cur.LastError, cur.At = at, 0, "", time.Time{}
			// What was delivered is noted also if the dispatcher is stopped.
			if err := d.putCursor(context.WithoutCancel(ctx), s.name, &cur); err != nil {
				return d.stumbled(ctx, s, err)
			}
			if how == tardy || time.Since(began) > turn && !view.Over() {
				out.kind = more
				return out
			}
		}
	}
	done := d.over(ctx, s, c, cur)
	done.speed = out.speed
	return done
}

// stands reports whether who set the config may still be told.
func (d *Dispatcher) stands(s *sub, cur cursor) bool {
	return cur.By == nil || d.counts(s.name, *cur.By)
}

// counts reports whether what the owner of the config of that name proved itself by counts.
func (d *Dispatcher) counts(name string, by Owner) bool {
	key, _, _ := parseName(name)
	return d.Standing == nil || d.Standing(key.Tenant, by)
}

// ended gives up a config whose owner's credential does not count any more.
func (d *Dispatcher) ended(ctx context.Context, s *sub, c record, cur cursor) outcome {
	cur.Failed, cur.LastError, cur.At = true, "the credential with which it was set was revoked or has expired", time.Now().UTC().Truncate(time.Millisecond)
	if err := d.putCursor(ctx, s.name, &cur); err != nil {
		return d.stumbled(ctx, s, err)
	}
	d.Logger.InfoContext(ctx, "push notifications end with their credential", "tenant", s.key.Tenant, "task", s.task, "user", cur.By.User)
	return d.linger(ctx, s, c, cur)
}

// replaced reports whether the sub's config is not the one that it began with.
func (d *Dispatcher) replaced(s *sub) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return s.hurry
}

// rest ends a run at the end of the thread. Events in which nothing was to be
// delivered are not read again and again.
func (d *Dispatcher) rest(ctx context.Context, s *sub, cur cursor, at mesh.Seq, out outcome) outcome {
	const many = 64
	if at-cur.After < many {
		return out
	}
	cur.After = at
	if err := d.putCursor(ctx, s.name, &cur); err != nil {
		return d.stumbled(ctx, s, err)
	}
	return out
}

// view returns the user's view of the sub's task from the cursor on, or nil if
// there is no such task any more that the user may read.
func (d *Dispatcher) view(ctx context.Context, s *sub, c record, cur cursor, after mesh.Seq) (v *thread.View, err error) {
	var by mesh.Call // as who set it would ask, without our extension
	if cur.By != nil {
		by.Principal.User = cur.By.User
	}
	err = d.States.With(ctx, s.key, func(st *thread.State) error {
		if t := st.Turn(s.task); t != nil && after <= st.Seq && c.mayHear(s.name, &st.Access) {
			v = st.View(s.key.ID, s.task, after, thread.Mode{Context: d.Contexts.Shown(s.key, by, t.Context), Link: d.link(s.key)})
		}
		return nil
	})
	return v, err
}

// attempt sends one update, and moves to the slow lane if that takes long.
func (d *Dispatcher) attempt(ctx context.Context, s *sub, c *a2apb.TaskPushNotificationConfig, body payload) (speed, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.Timeout, errTimeout)
	defer cancel()
	ctx, crowd := context.WithCancelCause(ctx)
	defer crowd(nil)
	sent := make(chan error, 1)
	go func() { sent <- d.post(ctx, c, body) }()
	patience := time.NewTimer(d.Patience)
	defer patience.Stop()
	select {
	case err := <-sent:
		return prompt, err
	case <-patience.C:
	}
	if !d.demote(s) {
		crowd(errCrowded)
	}
	return tardy, <-sent
}

// failed notes a failed attempt, and gives up after too many.
func (d *Dispatcher) failed(ctx context.Context, s *sub, c record, cur cursor, out outcome, err error) outcome {
	switch {
	case errors.Is(err, errCrowded):
		out.kind = more
		return out
	case ctx.Err() != nil:
		out.kind = more
		return out
	}
	var r *refusal
	refused := errors.As(err, &r)
	cur.Attempts++
	cur.LastError, cur.At = err.Error(), time.Now().UTC().Truncate(time.Millisecond)
	cur.Failed = cur.Attempts >= d.Attempts || refused && r.final
	if err := d.putCursor(ctx, s.name, &cur); err != nil {
		return d.stumbled(ctx, s, err)
	}
	if cur.Failed {
		d.Logger.WarnContext(ctx, "push notifications given up", "tenant", s.key.Tenant, "task", s.task,
			"attempts", cur.Attempts, "err", cur.LastError)
		left := d.linger(ctx, s, c, cur)
		left.speed = out.speed
		return left
	}
	out.kind, out.pause = pauses, d.pauseAfter(cur.Attempts)
	if refused {
		out.pause = max(out.pause, min(r.after, time.Hour))
	}
	return out
}

// pauseAfter returns how long to wait after so many failures in a row: from
// half of a doubling time to all of it.
func (d *Dispatcher) pauseAfter(failures int) time.Duration {
	p := d.MaxBackoff
	if shift := failures - 1; shift < 30 && d.Backoff<<shift < p {
		p = d.Backoff << shift
	}
	return p/2 + time.Duration(d.Jitter()*float64(p-p/2))
}

// linger is the outcome of a config by which nothing is delivered any more: until its task
// is over it is there to be seen, and set again.
func (d *Dispatcher) linger(ctx context.Context, s *sub, c record, cur cursor) outcome {
	there, ended := false, false
	err := d.States.With(ctx, s.key, func(st *thread.State) error {
		if t := st.Turn(s.task); t != nil {
			there, ended = true, t.Ended != 0
		}
		return nil
	})
	switch {
	case err != nil:
		return d.stumbled(ctx, s, err)
	case !there:
		return d.end(ctx, s, c, cur)
	case ended:
		return d.over(ctx, s, c, cur)
	}
	return outcome{kind: caughtUp}
}

// over removes a config whose task is over and by which nothing is left to deliver.
func (d *Dispatcher) over(ctx context.Context, s *sub, c record, cur cursor) outcome {
	cur.Over = time.Now().UTC()
	return d.takeOut(ctx, s, c, func(ctx context.Context) error { return d.putCursor(ctx, s.name, &cur) })
}

// end removes a config whose task is none any more that its user may read, with its cursor.
func (d *Dispatcher) end(ctx context.Context, s *sub, c record, cur cursor) outcome {
	return d.takeOut(ctx, s, c, func(ctx context.Context) error {
		return d.KV.Delete(ctx, state.Key{Kind: kindCursor, Name: s.name}, cur.version)
	})
}

// takeOut removes a config after first, both also if the dispatcher is stopped.
func (d *Dispatcher) takeOut(ctx context.Context, s *sub, c record, first func(context.Context) error) outcome {
	defer d.lock(s.key)()
	ctx = context.WithoutCancel(ctx)
	err := first(ctx)
	if err == nil {
		err = d.KV.Delete(ctx, state.Key{Kind: kindConfig, Name: s.name}, c.version)
	}
	if err != nil {
		return d.stumbled(ctx, s, err)
	}
	return outcome{kind: gone}
}

// stumbled is the outcome when our own records cannot be read or written. That
// one is missing or changed is the work of a caller who deleted or replaced it.
func (d *Dispatcher) stumbled(ctx context.Context, s *sub, err error) outcome {
	switch {
	case ctx.Err() != nil, mesh.IsCode(err, mesh.Conflict):
		return outcome{kind: more}
	case mesh.IsCode(err, mesh.NotFound):
		return outcome{kind: gone}
	}
	d.Logger.WarnContext(ctx, "push notifications wait for the store", "tenant", s.key.Tenant, "task", s.task, "err", err)
	return outcome{kind: pauses, pause: stumble}
}
