package turn

import (
	"context"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// slowAfter is after which time an agent takes longer than expected, at most; one that
// has less time does after half of it.
const slowAfter = 2 * time.Minute

// A pulse is what is known of how quiet the turn is that a driver works on. It is used by
// the driver, its watch and the runner's ticker.
type pulse struct {
	mu    sync.Mutex
	turn  mesh.ExecutionID // "" while no agent has a stream
	leg   mesh.ExecutionID
	epoch mesh.Epoch
	began time.Time
	time  time.Duration // that the agent has
	heard time.Time     // when the user was last told something
}

// begin notes that an agent has the user's stream from now on.
func (p *pulse) begin(l *leg, epoch mesh.Epoch, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn, p.leg, p.epoch, p.began, p.heard, p.time = l.turn, l.exec.ID, epoch, now, now, l.exec.Deadline.Sub(now)
}

// end notes that none has it.
func (p *pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn = ""
}

// hear notes what the user was told.
func (p *pulse) hear(events []*mesh.Event, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		if thread.MayUpdate(e.Body) && (e.Execution == p.turn || e.Execution == p.leg) {
			p.heard = now
		}
	}
}

// quiet returns the turn whose user was told nothing for as long, and whether it takes
// longer than expected; then it was told something now.
func (p *pulse) quiet(most time.Duration, now time.Time) (turn mesh.ExecutionID, epoch mesh.Epoch, slow, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turn == "" || now.Sub(p.heard) < most {
		return "", 0, false, false
	}
	p.heard = now
	return p.turn, p.epoch, now.Sub(p.began) >= min(slowAfter, p.time/2), true
}

// pulses per Quiet, so that nobody waits much longer than that.
const pulses = 4

// maxTelling is how many turns' words are written at a time: enough to fill a commit of
// the log.
const maxTelling = 32

// tellQuiet tells the users of turns whose agents say nothing what these do, until ctx is
// done: one ticker for all turns of the node, which rests while none is worked on.
func (r *Runner) tellQuiet(ctx context.Context) {
	if r.Quiet <= 0 {
		return
	}
	tick := time.NewTicker(r.Quiet / pulses)
	defer tick.Stop()
	for rests := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.busy:
			if rests { // else each new turn would put off what the others' users are told
				tick.Reset(r.Quiet / pulses)
				rests = false
			}
		case <-tick.C:
			if !r.tellAll(ctx) {
				tick.Stop()
				rests = true
			}
		}
	}
}

// stir has the ticker run.
func (r *Runner) stir() {
	select {
	case r.busy <- struct{}{}:
	default: // it will
	}
}

// tellAll tells those whose turns are quiet, some at a time, so that they share the log's
// syncs. It reports whether there are turns at work.
func (r *Runner) tellAll(ctx context.Context) bool {
	r.mu.Lock()
	all := make([]*driver, 0, len(r.drivers))
	for _, d := range r.drivers {
		all = append(all, d)
	}
	r.mu.Unlock()
	var telling errgroup.Group
	telling.SetLimit(maxTelling)
	for _, d := range all {
		now := r.Now()
		turn, epoch, slow, yes := d.pulse.quiet(r.Quiet, now)
		if !yes {
			continue
		}
		telling.Go(func() error {
			if err := d.tell(ctx, turn, epoch, slow, now); err != nil && ctx.Err() == nil && !mesh.IsCode(err, mesh.Conflict) && !mesh.IsCode(err, mesh.NotFound) {
				r.Logger.WarnContext(ctx, "progress of a quiet turn not logged", "thread", d.key.ID, "err", err)
			}
			return nil
		})
	}
	for _, t := range r.moved(r.Now()) {
		telling.Go(func() error {
			if err := r.tellPlace(ctx, t); err != nil && ctx.Err() == nil && !mesh.IsCode(err, mesh.Conflict) {
				r.Logger.WarnContext(ctx, "the place of a turn that waits not logged", "thread", t.key.ID, "err", err)
			}
			return nil
		})
	}
	_ = telling.Wait() // there are none
	return len(all) > 0
}

// tell says what is done about the turn, under the driver's claim, if the turn is still at
// work.
func (d *driver) tell(ctx context.Context, turn mesh.ExecutionID, epoch mesh.Epoch, slow bool, now time.Time) error {
	return d.States.Decide(ctx, d.key, func(s *thread.State) (cache.Decision, error) {
		t := s.Turn(turn)
		if t == nil || s.Epoch != epoch || t.State != a2apb.TaskState_TASK_STATE_WORKING || t.Canceled {
			return cache.Decision{}, nil
		}
		p := s.Progress(t)
		words := text.StillWorking(p.Names(), p.Done, p.Total, slow)
		return cache.Decision{Epoch: epoch, Events: []*mesh.Event{d.event(turn, "node", mesh.TaskMoved{
			State: t.State, Message: mesh.Say(words),
			Metadata: a2a.SetExtension(nil, map[string]*structpb.Value{a2a.KeyProgress: structpb.NewStructValue(p.Data(now, slow))}),
		})}}, nil
	})
}
