package api_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache/cachetest"
)

var (
	anyRuns = flag.Int("anyruns", 100, "how many random runs TestAnyRunHoldsWhateverHappens makes")
	anySeed = flag.Uint64("anyseed", 0, "the first of their seeds; 0 for a random one")
)

// Whatever graph is dispatched, whatever agents do, whoever cancels, whichever limit is met
// and wherever the process is killed, or stops: every order begins once, after all that it depends on
// completed; it has one end, and one delivery, which says what the log says; no more agents
// work at once, and are dispatched, than may, of which the node, which keeps that too, need
// not remind the dispatcher; and nothing is left at work (S0-128, S0-129,
// S0-130, S0-092, S0-127, B1.3). The time is virtual.
func TestAnyRunHoldsWhateverHappens(t *testing.T) {
	texttest.Fixed(t)
	first := *anySeed
	if first == 0 {
		first = rand.Uint64() >> 1
	}
	t.Logf("-anyseed=%d", first)
	for i := range *anyRuns {
		seed := first + uint64(i) // #nosec G115 -- not negative
		ok := t.Run(fmt.Sprintf("anyseed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newCourse(t, seed).run() })
		})
		if !ok {
			t.Fatalf("again with -run TestAnyRunHoldsWhateverHappens -anyruns 1 -anyseed %d", seed)
		}
	}
}

// A course is a random run: what is ordered, what the agents make of it, and what happens
// meanwhile. All of it follows from its seed, but for what the scheduler of Go decides.
type course struct {
	*house
	opts    dispatch.Options
	batches [][]mesh.ToolUse
	crashes int // that are still to come
	stops   int // and orderly ends of the process
	users   int // agents that the user is still to end
	whole   bool
	ended   bool // the user ended the turn
	asked   bool // the last run had asked the user when it was closed
	stopped bool // the process of the last run stopped before that was over
}

func newCourse(t *testing.T, seed uint64) *course {
	random := rand.New(rand.NewPCG(seed, 1))
	c := &course{house: newHouse(t, random), crashes: random.IntN(4), stops: random.IntN(3), users: random.IntN(3), whole: random.IntN(6) == 0}
	c.limits = limit.Budgets{TurnAgents: 1 + random.IntN(14), AgentSteps: 1 + random.IntN(6), Children: 4 + random.IntN(20)}
	c.places = 1 + random.IntN(6)
	c.opts = dispatch.Options{
		MaxConcurrent: 1 + random.IntN(4), MaxAgents: -1, Timeout: time.Duration(20+random.IntN(400)) * time.Second,
		Budget: time.Duration(60+random.IntN(1200)) * time.Second, Orchestrating: time.Hour,
	}
	c.terms = admission.Terms{Concurrent: c.opts.MaxConcurrent, Timeout: c.opts.Timeout, Time: c.opts.Budget + limit.Concluding}
	c.most, c.going = min(c.opts.MaxConcurrent, c.places), c.opts.MaxConcurrent
	c.opts.Profile = []dispatch.Profile{dispatch.ProfileFull, dispatch.ProfilePush, dispatch.ProfileCollect}[random.IntN(3)]
	var ids []string
	for b := range 1 + random.IntN(4) {
		var batch []mesh.ToolUse
		for i := range 1 + random.IntN(5) {
			id, after := fmt.Sprintf("n%d-%d", b, i), []string{}
			for _, dep := range ids {
				if random.IntN(4) == 0 {
					after = append(after, fmt.Sprintf("%q", dep))
				}
			}
			ids = append(ids, id)
			batch = append(batch, use(fmt.Sprintf("c%d-%d", b, i), dispatch.ToolDispatch, fmt.Sprintf(`{"agent_id":%q,"name":%q,"mission":"do %s","depends_on":[%s]}`,
				id, []string{"here", "there", "plain"}[random.IntN(3)], id, strings.Join(after, ","))))
		}
		random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
		c.batches = append(c.batches, batch)
	}
	return c
}

// run has the process begin again as often as it dies, and the user answer, until the turn
// is over.
func (c *course) run() {
	inv := agent.Invocation{Message: mesh.Say("go")}
	for {
		p := c.start()
		if c.crashes > 0 {
			p.dieAt(1+c.random(30), c.random(2) == 0)
			c.crashes--
		}
		c.pursue(p, inv.GoesOn())
		ask, err := c.work(p, inv)
		switch {
		case p.dead() || c.stopped:
			c.over(p)
			c.mu.Lock()
			c.most = c.opts.MaxConcurrent // who was at work has no place until it is taken up
			c.mu.Unlock()
			time.Sleep(time.Duration(c.random(120)) * time.Second)
			inv.Continued = true
			continue
		case err != nil && !c.ended:
			c.t.Fatalf("the run ends with %v", err)
		case ask && !c.ended:
			c.over(p)
			time.Sleep(time.Duration(c.random(3600)) * time.Second)
			inv = agent.Invocation{Message: mesh.Say("yes"), Resumed: true}
			c.answer(inv.Message)
			continue
		}
		c.over(p)
		break
	}
	if c.asked { // the node settles with the turn who waits for the user, and what waits for those
		s := c.state()
		over := func(id mesh.ExecutionID) bool { return mesh.Terminal(s.Execution(id).State) }
		for _, x := range s.Unfinished(c.exec) {
			if left := slices.DeleteFunc(slices.Clone(x.DependsOn), over); mesh.Interrupted(x.State) || x.Waits() && len(left) > 0 {
				c.write(&mesh.Event{Execution: c.exec, Actor: "node", Body: mesh.DispatchSettled{Child: x.ID, State: canceled}})
			}
		}
	}
	c.stop()
	c.judge()
}

// work is the run of the orchestrator in a process, up to its end or the question.
func (c *course) work(p *process, inv agent.Invocation) (ask bool, err error) {
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	inv.Execution, inv.Thread, inv.User, inv.Grant = c.exec, c.key, "ann", c.grant
	inv.Mesh, err = meshclient.New(p, mesh.Call{Principal: mesh.Principal{Tenant: c.key.Tenant, User: "ann", Grant: c.grant}})
	if err != nil {
		return false, err
	}
	if inv.Continued || inv.Resumed {
		reason := mesh.ReasonDelivered
		if inv.Continued {
			reason = mesh.ReasonContinued
		}
		if err := cachetest.Decide(ctx, p.states, c.key, &mesh.Event{Execution: c.exec, Actor: "node", Body: mesh.TaskMoved{State: working, Reason: reason}}); err != nil {
			return false, err
		}
	}
	opts := c.opts
	opts.Dialer = p
	d := dispatch.New(ctx, &inv, nil, opts)
	var others sync.WaitGroup
	if c.whole {
		after := time.Duration(c.random(600)) * time.Second
		others.Go(func() { // the user ends the turn
			select {
			case <-time.After(after):
				if c.ended = !p.dead() && ctx.Err() == nil; c.ended {
					cancel(nil)
				}
			case <-ctx.Done():
			}
		})
	}
	if c.stops > 0 {
		c.stops--
		after := time.Duration(c.random(400)) * time.Second
		others.Go(func() {
			select {
			case <-time.After(after):
				cancel(agent.ErrShutdown)
			case <-ctx.Done():
			}
		})
	}
	ask, err = c.orchestrate(ctx, d, inv.Mesh)
	c.asked = ask && ctx.Err() == nil
	d.Close()
	if p.dead() || ctx.Err() != nil {
		ask = false
	} else if closed := inv.Mesh.Close(ctx); err == nil && closed != nil && !mesh.IsCode(closed, mesh.Precondition) {
		err = closed
	}
	_ = inv.Mesh.Close(context.WithoutCancel(ctx))
	if c.stopped = errors.Is(context.Cause(ctx), agent.ErrShutdown); c.stopped && !p.dead() {
		p.die() // from here on nobody hears of it
	}
	cancel(nil)
	others.Wait()
	if c.mu.Lock(); !p.dead() && !ask {
		if left, _ := c.atWork(c.state()); len(left) > 0 {
			c.t.Errorf("%v are at work after Close", left)
			c.show(left[0])
		}
	}
	c.mu.Unlock()
	return ask, err
}

// show prints what the log has of an order.
func (c *course) show(label string) {
	i := slices.IndexFunc(c.state().Executions(), func(x *thread.Execution) bool { return x.Label == label })
	id := c.state().Executions()[i].ID
	for _, e := range c.events() {
		if body := fmt.Sprintf("%T %+v", e.Body, e.Body); e.Execution == id || e.Execution != c.exec && c.state().Execution(e.Execution).Parent != c.exec || strings.Contains(body, string(id)) {
			c.t.Logf("%d %s %s %.500s", e.Seq, e.Time.Format("15:04:05.000"), e.Actor, strings.ReplaceAll(body, string(id), label))
		}
	}
}

// orchestrate is what a model does: it orders, looks, cancels, and hears of results.
func (c *course) orchestrate(ctx context.Context, d *dispatch.Dispatcher, m *meshclient.Client) (ask bool, err error) {
	o := dispatch.NewOrchestration(d)
	told := 0
	for b, batch := range c.batches {
		reply := &mesh.Event{ID: fmt.Sprint("reply-", b), Body: mesh.ModelReplied{Tools: batch}}
		if _, err := m.Record(ctx, reply); err != nil {
			return false, err
		}
		o.Batch(ctx, batch)
		for _, u := range batch {
			o.Call(ctx, u)
		}
		switch c.random(6) {
		case 0:
			d.Cancel(fmt.Sprintf("n%d-%d", b, c.random(5)))
		case 1:
			time.Sleep(time.Duration(c.random(100)) * time.Second)
		case 2:
			if c.opts.Profile == dispatch.ProfilePush {
				break
			}
			told++
			args := fmt.Sprintf(`{"mode":%q,"wait_seconds":%d}`, []string{"all", "any", "none"}[c.random(3)], c.random(600))
			if _, ask, err := c.collect(ctx, o, m, fmt.Sprint("results-", told), args); ask || err != nil {
				return ask, err
			}
		}
		if err := c.tell(ctx, m, o.Drain(ctx, false)); err != nil {
			return false, err
		}
	}
	for n := 0; c.opts.Profile == dispatch.ProfileCollect; n++ { // who answers without having collected ends who is at work
		if got, ask, err := c.collect(ctx, o, m, fmt.Sprint("last-", n), `{}`); ask || err != nil || got == 0 {
			return ask, err
		}
	}
	for {
		come, asks := o.Wait(ctx)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case asks != nil:
			return true, nil
		case len(come) == 0:
			return false, nil
		}
		if err := c.tell(ctx, m, come); err != nil {
			return false, err
		}
	}
}

// collect is a call of get_agent_results, and what the log has of it: how many it delivered.
func (c *course) collect(ctx context.Context, o *dispatch.Orchestration, m *meshclient.Client, call, args string) (delivered int, ask bool, err error) {
	r := o.Call(ctx, use(call, dispatch.ToolResults, args))
	switch {
	case ctx.Err() != nil:
		return 0, false, ctx.Err()
	case r.Ask != "":
		return 0, true, nil
	}
	_, err = m.Record(ctx, &mesh.Event{Body: mesh.ToolReturned{Call: call, Name: dispatch.ToolResults, Content: r.Text, Delivered: r.Delivered}})
	return len(r.Delivered), false, err
}

// tell has the log say what the model was told.
func (c *course) tell(ctx context.Context, m *meshclient.Client, come []llm.Delivery) error {
	for _, d := range come {
		if _, err := m.Record(ctx, &mesh.Event{Body: mesh.ResultsDelivered{Executions: d.Executions, Text: d.Text}}); err != nil {
			return err
		}
		c.statuses[d.Executions[0]], c.texts[d.Executions[0]] = d.Results[0].Metadata, d.Text
	}
	return nil
}

// pursue has the user end agents while the process is there, as a node does it; goesOn
// says that it is not the first one.
func (c *course) pursue(p *process, goesOn bool) {
	if goesOn {
		for _, x := range c.state().Executions() {
			if x.Canceled && x.Issued > 0 && !mesh.Terminal(x.State) {
				c.down.Go(func() { c.end(p, x.ID) })
			}
		}
	}
	for range c.users {
		after, at := time.Duration(c.random(400))*time.Second, c.random(100)
		c.down.Go(func() {
			select {
			case <-time.After(after):
			case <-p.ctx.Done():
				return
			}
			subs := slices.DeleteFunc(c.state().Executions(), func(x *thread.Execution) bool { return x.Parent != c.exec || mesh.Terminal(x.State) })
			if len(subs) == 0 || p.dead() {
				return
			}
			x := subs[at%len(subs)]
			if err := p.cancelExecution(x.ID); err != nil && !p.dead() && p.ctx.Err() == nil {
				c.t.Errorf("the user cannot end %s: %v", x.Label, err)
			}
			c.end(p, x.ID)
		})
	}
	c.users = 0
}

// judge looks at what the log has in the end.
func (c *course) judge() {
	events := c.events()
	s := thread.Fold(events)
	ends, deliveries := map[mesh.ExecutionID]int{}, map[mesh.ExecutionID]int{}
	accepted, post := 0, 0
	for _, e := range events {
		switch b := e.Body.(type) {
		case mesh.DispatchSettled:
			ends[b.Child]++
		case mesh.TaskMoved:
			if mesh.Terminal(b.State) {
				ends[e.Execution]++
			}
		case mesh.ResultsDelivered:
			for _, id := range b.Executions {
				deliveries[id]++
			}
		case mesh.ToolReturned:
			for _, id := range b.Delivered {
				deliveries[id]++
			}
		case mesh.MessagePosted:
			accepted, post = 0, post+1
		case mesh.DispatchAccepted:
			if accepted++; accepted > c.limits.TurnAgents {
				c.t.Errorf("%d agents after message %d where %d may be", accepted, post, c.limits.TurnAgents)
			}
		}
	}
	for _, x := range s.Executions() {
		if x.Parent != c.exec {
			continue
		}
		if ends[x.ID] != 1 || deliveries[x.ID] > 1 || deliveries[x.ID] == 0 && !c.ended {
			c.t.Errorf("%s has %d ends and %d deliveries: %s %s", x.Label, ends[x.ID], deliveries[x.ID], x.State, x.Reason)
			c.show(x.Label)
		}
		if told, is := c.statuses[x.ID], thread.StatusOf(x.State, x.Reason); told != "" && told != is && !(told == dispatch.StatusSkipped && x.Canceled && x.Issued == 0) {
			c.t.Errorf("%s is %s in the log, for %s, and the model was told %s, %q; the log has %q", x.Label, is, x.Reason, told, c.texts[x.ID], x.Result)
		}
		for _, dep := range x.DependsOn {
			if y := s.Execution(dep); x.Issued > 0 && (y.Ended > x.Issued || y.State != completed) {
				c.t.Errorf("%s began before %s had completed", x.Label, y.Label)
			} else if x.Issued == 0 && y.State == completed && x.State == a2apb.TaskState_TASK_STATE_REJECTED {
				skipped := slices.ContainsFunc(x.DependsOn, func(id mesh.ExecutionID) bool { return s.Execution(id).State != completed })
				if !skipped {
					c.t.Errorf("%s was skipped, and all that it depends on completed", x.Label)
				}
			}
		}
	}
	if left := s.Unfinished(c.turn); len(left) > 0 {
		c.t.Errorf("%d executions have no end", len(left))
	}
}
