package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
)

// ForConsulting returns the options for who only consults agents that dispatch others: the
// budget and the profile are theirs.
func (o *Options) ForConsulting() Options {
	c := *o
	if c.Budget >= 0 {
		c.Orchestrating = cmp.Or(c.Budget, limit.DefaultDispatching) + limit.Concluding
	}
	// Profiles are for those who dispatch; and who asks gets no answer from a tool that waits.
	// Where one is not there, the other can answer without it.
	c.Budget, c.Profile, c.HelpTime, c.ReturnTime = -1, ProfileFull, 0, 2*time.Second
	return c
}

// timeout is how long the agent of the order may take.
func (d *Dispatcher) timeout(o *Order) time.Duration {
	name, _ := d.opts.registered(o.Name)
	for _, t := range []time.Duration{o.Timeout, d.opts.Timeouts[name]} {
		if t > 0 {
			return t
		}
	}
	return d.opts.Timeout
}

// tooMany refuses a batch that is more than may be dispatched in the run, and says so in
// the log; nil if it is not. What else there is no room for the node refuses, which counts
// that, and names the limit. d.mu is held.
func (d *Dispatcher) tooMany(ctx context.Context, batch int) []error {
	most, n := d.opts.MaxAgents, d.now+batch
	if most <= 0 || n <= most {
		return nil
	}
	fact := mesh.LimitTripped{Limit: limit.TurnAgents, Detail: text.TooManyAgents(most, n), Used: int64(n), Most: int64(most)}
	err := &mesh.Error{Code: mesh.Exhausted, Op: "dispatch.Dispatch", Detail: fact.Detail, Limit: &fact}
	_, logErr := d.inv.Mesh.Record(ctx, &mesh.Event{Body: fact})
	if logErr != nil {
		d.opts.Logger.WarnContext(ctx, "limit not logged", "err", logErr)
	}
	return slices.Repeat([]error{err}, batch)
}

// refused notes the limit for which the node did not take a dispatch, if it was one: it
// stands before the next call of the model.
func (d *Dispatcher) refused(err error) bool {
	trip := limit.TripOf(err)
	if trip == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.meet(tripped(trip))
	return true
}

// meet notes the first limit that the agents met. d.mu is held.
func (d *Dispatcher) meet(trip *llm.Trip) {
	if d.met == nil {
		d.met = trip
	}
}

// expire ends all that is at work and has not begun, since the time of the run is over.
// What is done stays, and who waits for the user does.
func (d *Dispatcher) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	cut := false
	for _, j := range d.order {
		switch {
		case j.cancel != nil:
			cut = true
			j.cancel()
		case j.Status == StatusAsks:
			cut = true
			d.giveUp(j)
		case j.Status == StatusPending && j.resume == nil:
			cut = true
			d.drop(j)
		}
	}
	seconds := int64(d.opts.Budget / time.Second)
	trip := tripped(&limit.Trip{Limit: limit.OrchestratorTime, Used: seconds, Most: seconds})
	trip.Conclude = true
	if d.late = trip; cut {
		d.meet(trip)
	}
	d.wake()
}

// tripped is the trip as a model's run has it, and tripOf the other way round.
func tripped(t *limit.Trip) *llm.Trip {
	return &llm.Trip{Limit: t.Limit, Used: t.Used, Most: t.Most, Detail: t.Detail(), Free: t.Free, Conclude: !limit.Renewed(t.Limit)}
}

func tripOf(t *llm.Trip) *limit.Trip {
	return &limit.Trip{Limit: t.Limit, Used: t.Used, Most: t.Most, Free: t.Free}
}

// Limit implements [modelrun.Limiter].
func (a *asked) Limit() *llm.Trip {
	a.d.mu.Lock()
	defer a.d.mu.Unlock()
	return a.d.met
}

// Report implements [modelrun.Reporter].
func (a *asked) Report(ctx context.Context) (questions []mesh.Question, report agent.Report) {
	d := a.d
	d.suspend()
	all := d.List() // nobody is at work: a limit has the last of them delivered
	var waiting []string
	for _, r := range all {
		if r.Status == StatusWaiting {
			waiting = append(waiting, r.AgentID)
		}
	}
	questions, of := d.question(ctx, waiting)
	if of != nil {
		report.Add(of.Work...)
		return questions, report
	}
	report.Add(d.others(ctx, all)...)
	return questions, report
}

// brief is a mission in a line.
func brief(mission string) string {
	return mesh.Clip(strings.Join(strings.Fields(mission), " "), maxMission)
}

// Summary says what a call to consult an agent wanted, in the words of a report.
func (c *Consult) Summary(use mesh.ToolUse) (string, bool) {
	var a struct{ Task string }
	if use.Name != ToolConsult {
		return "", false
	}
	err := json.Unmarshal([]byte(use.Arguments), &a)
	return text.NotAsked(brief(a.Task)), err == nil
}

// Summary says what a call to dispatch an agent wanted, in the words of a report.
func (o *Orchestration) Summary(use mesh.ToolUse) (string, bool) {
	if use.Name != ToolDispatch {
		return "", false
	}
	order, err := o.parse(use)
	return text.NotAsked(brief(order.Mission)), err == nil
}
