// Package dispatch lets an agent set other agents to work: several at once, or
// one after the other where one needs what another found.
//
// A [Dispatcher] serves one execution. It guarantees that a batch of orders is in the
// thread's log, whole, before anything of it begins; that an agent starts as
// soon as the agents that it depends on are done, and only if they completed;
// that every dispatch is in the log before it starts, and its end once, also of those
// that were skipped or never began; that each result is delivered to the execution's
// model once, also after a restart; that one agent's failure stops nothing but what
// depends on it; and that nothing that it started is at work when Close returns, unless it
// does not end for half a minute. What
// comes back on the agents' streams is logged by it, as it opened them.
//
// An agent may ask for help (Options.HelpTime). The model is told what it needs, once, and
// answers it or has the user asked; the agent then goes on. It is given up when nobody
// answers in time.
//
// An agent may need the user's approval, or meet a limit that counts for the
// whole turn, conversation or user. It then waits, its question or report goes up
// to the user through the tools that wait for it ([llm.ToolResult.Ask]), and the
// run of the execution pauses. The reports of several are one. A Dispatcher of an execution that goes on
// restores from the log what was dispatched before, gives the user's words to
// whoever waited, and lets the tools find it all where it was.
//
// All methods may be called concurrently. The number of goroutines is that of
// the agents at work.
//
// It decides neither what to dispatch nor what to do about failures: a model
// does, through the tools of this package.
package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/call"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/thread"
)

// The statuses of a Result.
const (
	StatusPending   = thread.StatusPending
	StatusRunning   = thread.StatusRunning
	StatusCompleted = thread.StatusCompleted
	StatusFailed    = thread.StatusFailed
	StatusTimeout   = thread.StatusTimeout
	StatusCanceled  = thread.StatusCancelled
	StatusSkipped   = thread.StatusSkipped
	StatusAwaiting  = thread.StatusAwaiting // it ended with a question, which is Result
	StatusWaiting   = "waiting"             // for the user, to approve or to go on; Result is the question
	StatusAsks      = "asks"                // it asks the model here for help, which is Result
)

// A Dispatcher runs the agents that one execution dispatches. Use New, and
// Close when the execution ends.
type Dispatcher struct {
	inv    *agent.Invocation
	dialer Dialer
	opts   Options

	ctx    context.Context // of all agents; ends with Close
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	clock *time.Timer // of the budget
	lost  error       // why it is not known what was dispatched before

	batching sync.Mutex // one batch is accepted at a time

	mu      sync.Mutex
	jobs    map[string]*job
	order   []*job            // as they were dispatched
	calls   map[string]string // agent ids by the call of the model that ordered it
	ready   queue             // that run when there is room, in the order of dispatch
	fresh   []*job            // done and not delivered, in the order in which they ended
	helps   []*job            // that ask for help, and the model was not told
	now     int               // those that were dispatched in this run
	met     *llm.Trip         // the limit that the agents have met
	late    *llm.Trip         // that the time is over
	running int
	asking  []*job   // that came to wait for the user or an answer, and may be over by now
	paused  bool     // the run ends because somebody waits
	waiters []waiter // for a job to end, or several

	// run runs a job by its agent.
	run func(ctx context.Context, j *job, r Result) Result
}

// A job is an order under way.
type job struct {
	Order
	Result
	exec   mesh.Execution
	wave   int    // 1, or 1 more than that of the last that it depends on
	at     int    // its place in the order of dispatch
	deps   []*job // that it depends on, as far as the log has them; when it begins, in the order of dispatch
	waits  int    // dependencies that are not done
	queued bool
	then   []*job             // that depend on it
	cancel context.CancelFunc // while it runs
	began  time.Time

	told   bool                      // its result was delivered
	resume *resume                   // of one that goes on after it waited, or was cut off
	left   time.Duration             // of its time, if it was cut off, or 0
	stop   func(ctx context.Context) // of one that waits: has its agent end it

	clock    *time.Timer     // of one that asks for help
	reply    *a2apb.Message  // with which it goes on, if not with the user's
	answered mesh.HelpAnswer // what it was last answered
}

var errClosed = mesh.Errorf(mesh.Canceled, "dispatch.Close", "the execution that dispatched it has ended")

// New returns a Dispatcher for the execution of inv, whose agents work at most
// as long as ctx. If the execution goes on after it waited for the user, what it
// dispatched before is restored from the log, and agents that waited are given
// the message of inv. Where the log cannot be read, the methods say so.
func New(ctx context.Context, inv *agent.Invocation, conns Conns, opts Options) *Dispatcher {
	opts.fill()
	if opts.Dialer == nil {
		opts.Dialer = call.NewDialer(conns, call.Options{})
	}
	d := &Dispatcher{inv: inv, dialer: opts.Dialer, opts: opts, jobs: map[string]*job{}, calls: map[string]string{}}
	d.run = d.work
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	var worked time.Duration
	if inv.GoesOn() {
		worked, d.lost = d.restore(ctx)
	}
	d.goOn(worked)
	return d
}

// goOn has what was restored go on, within what is left of the time of the run. Where
// that was over before, nothing begins any more, and what was at work is ended: at once,
// for the model would else order more, which the node refuses.
func (d *Dispatcher) goOn(worked time.Duration) {
	left := d.opts.Budget - worked
	over := d.opts.Budget > 0 && left <= 0
	if over {
		d.expire()
	}
	d.mu.Lock()
	d.start()
	d.mu.Unlock()
	switch {
	case over:
		d.expire()
	case d.opts.Budget > 0:
		d.clock = time.AfterFunc(left, d.expire)
	}
}

// Close cancels what is still at work or waits for its turn, and returns when
// nothing works any more, or after 30 s. After a tool asked the user something, it lets what is
// at work end first, and leaves agents that wait for the user to the execution
// that goes on; unless the run was cut. Where nothing asked, nobody goes on, and
// they are ended too. It may be called again.
func (d *Dispatcher) Close() {
	d.mu.Lock()
	paused := d.paused
	d.mu.Unlock()
	if paused {
		_, _ = d.await(d.ctx, nil, ModeAll, false) // fails only where nothing is at work
	}
	d.mu.Lock()
	over := !d.leaves() && (!paused || d.ctx.Err() != nil && !errors.Is(context.Cause(d.ctx), errClosed))
	d.cancel(errClosed)
	for _, j := range d.jobs {
		if j.clock != nil {
			j.clock.Stop()
		}
		switch {
		case over && j.waiting():
			d.abandon(j)
		case over && j.Status == StatusPending:
			d.drop(j)
		}
	}
	d.wake()
	d.mu.Unlock()
	if d.clock != nil {
		d.clock.Stop()
	}
	ended := make(chan struct{})
	go func() { // waited for here, but for agents that ignore their end: it goes with the last of them
		defer close(ended)
		d.wg.Wait()
		d.flush()
	}()
	select {
	case <-ended:
	case <-time.After(closeTime):
		d.opts.Logger.ErrorContext(d.ctx, "agents that were dispatched do not end", "execution", d.inv.Execution)
	}
}

// closeTime is how long Close waits for agents that were told to end (S1-012).
const closeTime = 30 * time.Second

// flush has the ends of agents in the log. Where the process stops none are, and whoever ends
// the run writes what else there is.
func (d *Dispatcher) flush() {
	if d.leaves() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), settleTime)
	defer cancel()
	if err := d.inv.Mesh.Flush(ctx); err != nil && !mesh.IsCode(err, mesh.Precondition) { // over already: the node settled it
		d.opts.Logger.WarnContext(ctx, "what agents did is not all logged", "execution", d.inv.Execution, "err", err)
	}
}

// leaves reports whether the process of the execution stops: it goes on elsewhere, and so
// does what it dispatched.
func (d *Dispatcher) leaves() bool { return errors.Is(context.Cause(d.ctx), agent.ErrShutdown) }

// A waiter waits for what jobs that end bring about.
type waiter struct {
	holds func() bool   // what it waits for
	now   chan struct{} // closed when it does
}

// wake tells those who wait, when a job has ended, if that is what they wait for. d.mu is
// held.
func (d *Dispatcher) wake() {
	d.waiters = slices.DeleteFunc(d.waiters, func(w waiter) bool {
		if !w.holds() {
			return false
		}
		close(w.now)
		return true
	})
}

// until waits until something holds; false if ctx ends before. d.mu is held when it is
// called, when it returns and when holds is, and not while it waits.
func (d *Dispatcher) until(ctx context.Context, holds func() bool) bool {
	for !holds() {
		w := waiter{holds, make(chan struct{})}
		d.waiters = append(d.waiters, w)
		d.mu.Unlock()
		select {
		case <-w.now:
			d.mu.Lock()
		case <-ctx.Done():
			d.mu.Lock()
			d.waiters = slices.DeleteFunc(d.waiters, func(o waiter) bool { return o.now == w.now })
			return false
		}
	}
	return true
}

// Dispatch starts a batch: each order as soon as its dependencies are done. It
// returns once the log has all of it, with an error for each order if the batch is
// refused; then nothing of it has begun.
func (d *Dispatcher) Dispatch(ctx context.Context, batch []Order) []error {
	d.batching.Lock()
	defer d.batching.Unlock()
	jobs, bad := d.plan(ctx, batch)
	if bad != nil {
		return bad
	}
	events := make([]*mesh.Event, len(jobs))
	for i, j := range jobs {
		events[i] = &mesh.Event{Body: mesh.DispatchAccepted{Child: j.exec, Context: j.Context, Wave: j.wave, Call: j.Call, Answers: j.Answers}}
	}
	if _, err := d.inv.Mesh.Record(ctx, events...); err != nil {
		d.refused(err)
		return slices.Repeat([]error{err}, len(batch))
	}
	d.accept(jobs)
	return nil
}

// accept takes in the jobs of a batch, and starts those that can begin.
func (d *Dispatcher) accept(jobs []*job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now += len(jobs)
	if d.order = slices.Grow(d.order, len(jobs)); len(d.jobs) == 0 {
		d.jobs = make(map[string]*job, len(jobs))
	}
	for _, j := range jobs {
		d.add(j)
	}
	for _, j := range jobs {
		d.link(j)
		if d.ctx.Err() != nil && !d.leaves() { // Close does not know of it
			d.drop(j)
		}
	}
	d.start()
}

// add takes a job in. d.mu is held.
func (d *Dispatcher) add(j *job) {
	id := j.Order.AgentID
	j.at = len(d.order)
	d.jobs[id], d.order = j, append(d.order, j)
	if j.Call != "" {
		d.calls[j.Call] = id
	}
}
