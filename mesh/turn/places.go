package turn

import (
	"context"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// Places are in how many threads turns are worked on at a time. Messages that find no place
// are accepted and wait, in the log and in a [limit.Line]: their threads have no driver, and
// cost some bytes each. A turn that waits for its user holds no place, and one that is to end
// needs none. The zero value has places for all.
type Places struct {
	// Running is how many there are, and OfUser and OfTenant how many are for turns of one;
	// 0 for no limit.
	Running, OfUser, OfTenant int
	// Waiting is how many threads may wait; a message that would have one more wait is
	// refused by limit.TurnsWaiting. 0 for no limit. What is in the log waits whatever it is.
	Waiting int
}

// roomAfter is after what time who was refused is to try again.
const roomAfter = 5 * time.Second

// mostTold is how many users at most are told at a time at which place they wait.
const mostTold = 256

// A wait is what is known of a thread that waits for a place.
type wait struct {
	turn  mesh.ExecutionID
	place int // that its user was told of; 0 for none
	told  time.Time
}

// party is for whom turns of the user are.
func (d *driver) party(user string) limit.Party {
	return limit.Party{Tenant: d.key.Tenant, User: user}
}

// enter has the driver hold a place for the turn, which is to be worked on. If there is none
// its thread waits, at the place that is returned; but what would be opened is refused where
// too many wait.
func (d *driver) enter(turn mesh.ExecutionID, user string, opens bool) (place int, full error) {
	r, now := d.runner, d.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer d.entered()
	p := d.party(user)
	if r.line.Holds(d.key) || r.line.Free(p) {
		r.hold(d.key, p)
		d.inLine = false
		return 0, nil
	}
	if n := r.line.Waiting(); opens && r.Places.Waiting > 0 && n >= r.Places.Waiting && !r.line.Waits(d.key) {
		return 0, (&limit.Trip{Limit: limit.TurnsWaiting, Used: int64(n), Most: int64(r.Places.Waiting), Free: now.Add(roomAfter)}).Err("turn.enter")
	}
	if d.came == 0 {
		d.came = r.line.Come()
	}
	r.line.Wait(d.key, p, d.came)
	d.inLine = true
	if w := r.waiting[d.key]; w == nil || w.turn != turn {
		r.waiting[d.key] = &wait{turn: turn, told: now}
	}
	place = r.line.Place(d.key)
	if opens {
		r.waiting[d.key].place = place
	}
	return place, nil
}

// hold has the thread hold a place. The caller holds mu.
func (r *Runner) hold(key mesh.ThreadKey, p limit.Party) {
	r.line.Hold(key, p)
	delete(r.waiting, key)
}

// vacate gives back the thread's place, to who is next. The caller holds mu.
func (r *Runner) vacate(key mesh.ThreadKey) {
	r.line.Leave(key)
	delete(r.waiting, key)
	for !r.closing {
		next, ok := r.line.Next()
		if !ok {
			return
		}
		delete(r.waiting, next)
		r.kick(next)
	}
}

// admitted reports whether the driver may work on the turn now. After each turn it waits for
// the next one behind those that wait already.
func (d *driver) admitted(ctx context.Context, t *upcoming) bool {
	if t.canceled { // nobody is asked to work on it
		d.runner.mu.Lock()
		defer d.runner.mu.Unlock()
		d.entered()
		return true
	}
	d.followOn(ctx)
	if d.worked {
		d.worked = false
		d.giveWay()
	}
	_, _ = d.enter(t.id, t.user, false) // it is accepted
	return !d.inLine
}

// followOn waits until the thread that was left over before the driver's has a place or waits
// for one: else those that are looked at together would come in any order.
func (d *driver) followOn(ctx context.Context) {
	d.runner.mu.Lock()
	ahead := d.ahead
	d.ahead = nil
	d.runner.mu.Unlock()
	if ahead != nil {
		select {
		case <-ahead:
		case <-ctx.Done():
		}
	}
}

// entered says that the driver's thread has a place, or waits, or needs none. The caller
// holds mu.
func (d *driver) entered() {
	if d.inside != nil {
		close(d.inside)
		d.inside = nil
	}
}

// giveWay gives back the driver's place, if it holds one.
func (d *driver) giveWay() {
	d.runner.mu.Lock()
	defer d.runner.mu.Unlock()
	if d.runner.line.Holds(d.key) {
		d.came = 0
		d.runner.vacate(d.key)
	}
}

// queue adds to a decision that puts a message into a thread at rest that the turn waits,
// where no place is free.
func (d *driver) queue(s *thread.State, dec *cache.Decision) error {
	turn, user, begins := s.Begins(dec.Events)
	if !begins {
		return nil
	}
	place, full := d.enter(turn, user, true)
	if full != nil || place == 0 {
		return full
	}
	state := a2apb.TaskState_TASK_STATE_SUBMITTED
	if s.Turn(turn) != nil {
		state = a2apb.TaskState_TASK_STATE_WORKING
	}
	dec.Events = append(dec.Events, d.queued(turn, state, place))
	return nil
}

// queued says that the turn waits for a place, and at which.
func (c *Config) queued(turn mesh.ExecutionID, state mesh.TaskState, place int) *mesh.Event {
	return c.event(turn, "node", mesh.TaskMoved{State: state, Reason: mesh.ReasonQueued, Message: mesh.Say(text.TurnQueued(place)),
		Metadata: a2a.SetExtension(nil, map[string]*structpb.Value{a2a.KeyPlace: structpb.NewNumberValue(float64(place))})})
}

// Waiting returns how many threads wait for a place.
func (r *Runner) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.line.Waiting()
}

// A telling is what the user of a turn that waits is to be told.
type telling struct {
	key   mesh.ThreadKey
	turn  mesh.ExecutionID
	place int
}

// moved are those that have moved up since their users were told something, and that long ago.
func (r *Runner) moved(now time.Time) (all []telling) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, w := range r.waiting {
		if now.Sub(w.told) < r.Quiet {
			continue
		}
		if len(all) == mostTold {
			return all
		}
		w.told = now
		if at := r.line.Place(key); at > 0 && at != w.place {
			w.place = at
			all = append(all, telling{key, w.turn, at})
		}
	}
	return all
}

// tellPlace tells a user at which place the turn waits, if it does.
func (r *Runner) tellPlace(ctx context.Context, t telling) error {
	return r.States.Decide(ctx, t.key, func(s *thread.State) (cache.Decision, error) {
		x := s.Turn(t.turn)
		if x == nil || x.Canceled || x.State != a2apb.TaskState_TASK_STATE_SUBMITTED && x.Reason != mesh.ReasonQueued || !r.waitsFor(t) {
			return cache.Decision{}, nil
		}
		return cache.Decision{Events: []*mesh.Event{r.queued(x.ID, x.State, t.place)}}, nil
	})
}

// waitsFor reports whether the turn waits.
func (r *Runner) waitsFor(t telling) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.waiting[t.key]
	return w != nil && w.turn == t.turn && r.drivers[t.key] == nil
}
