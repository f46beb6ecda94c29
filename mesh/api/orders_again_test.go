package api_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// How errands end, by plan.
const (
	fails     = 0
	asksFirst = 2
	completes = 9
)

// An outing is a run of the orchestrator in a process of a house.
type outing struct {
	*dispatch.Dispatcher
	p *process
	m *meshclient.Client
}

// houseOf is a house in which errands go by plan.
func houseOf(t *testing.T, most int, plan func(label string) (time.Duration, int)) *house {
	h := newHouse(t, rand.New(rand.NewPCG(1, 1)))
	h.most, h.plan = most, plan
	return h
}

// outing starts a process and a run in it, which goes on for the reason, if it does.
func (h *house) outing(reason string, opts dispatch.Options) *outing {
	h.t.Helper()
	p := h.start()
	m, err := meshclient.New(p, mesh.Call{Principal: mesh.Principal{Tenant: h.key.Tenant, User: "ann", Grant: h.grant}})
	if err != nil {
		h.t.Fatal(err)
	}
	if reason != "" {
		h.write(&mesh.Event{Execution: h.exec, Actor: "node", Body: mesh.TaskMoved{State: working, Reason: reason}})
	}
	inv := &agent.Invocation{Message: mesh.Say("yes"), Execution: h.exec, Thread: h.key, User: "ann", Grant: h.grant, Mesh: m,
		Continued: reason == mesh.ReasonContinued, Resumed: reason == mesh.ReasonDelivered}
	opts.Dialer = p
	return &outing{dispatch.New(p.ctx, inv, nil, opts), p, m}
}

func (r *outing) order(orders ...dispatch.Order) {
	r.p.t.Helper()
	for _, err := range r.Dispatch(r.p.ctx, orders) {
		r.p.t.Fatal(err)
	}
}

// kill ends the process as kill -9 does, but for the goroutines.
func (r *outing) kill() {
	r.p.die()
	r.Close()
	_ = r.m.Close(r.p.ctx)
	r.p.over(r.p)
}

// end is the end of the run, and of its house.
func (r *outing) end() {
	r.Close()
	if err := r.m.Close(r.p.ctx); err != nil {
		r.p.t.Error(err)
	}
	r.p.over(r.p)
	r.p.stop()
}

func there(id string, after ...string) dispatch.Order {
	return dispatch.Order{AgentID: id, Name: "there", Mission: "do " + id, DependsOn: after}
}

func (h *house) of(label string) *thread.Execution {
	for _, x := range h.state().Executions() {
		if x.Label == label {
			return x
		}
	}
	h.t.Fatalf("there is no %s", label)
	return nil
}

// The time of a run does not begin anew when it goes on after a crash, and does not run
// while nobody works; with the user's word it does begin anew.
func TestTheTimeOfARunOutlivesItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := houseOf(t, 5, func(string) (time.Duration, int) { return 45 * time.Second, completes })
		h.spares = true
		opts := dispatch.Options{Budget: 100 * time.Second}
		r := h.outing("", opts)
		r.order(there("a"))
		time.Sleep(40 * time.Second) // it said something after 30
		r.kill()
		time.Sleep(time.Hour)
		r = h.outing(mesh.ReasonContinued, opts)
		if got, _ := r.Done(r.p.ctx, "a"); got.Status != dispatch.StatusCompleted {
			t.Errorf("what was done meanwhile: %+v", got)
		}
		r.order(there("b"))
		time.Sleep(44 * time.Second)
		r.order(there("in-time"))
		if got, _ := r.Done(r.p.ctx, "b"); got.Status != dispatch.StatusCompleted {
			t.Errorf("within the time: %+v", got)
		}
		got, _ := r.Done(r.p.ctx, "in-time")
		if trip := dispatch.NewOrchestration(r.Dispatcher).Limit(); got.Status != dispatch.StatusCanceled || trip == nil || trip.Limit != limit.OrchestratorTime {
			t.Errorf("beyond the time: %+v, and the limit is %+v", got, trip)
		}
		r.Close()
		_ = r.m.Close(r.p.ctx)
		h.over(r.p)
		h.answer(mesh.Say("yes"))
		r = h.outing(mesh.ReasonDelivered, opts)
		r.order(there("c"))
		time.Sleep(30 * time.Second)
		r.order(there("d"))
		if got, _ := r.Done(r.p.ctx, "d"); got.Status != dispatch.StatusCompleted {
			t.Errorf("after the user's yes: %+v", got)
		}
		r.end()
	})
}

// Nor does one begin anything whose time was over when it was cut off, not even at once.
func TestARunThatWasOverBeginsNothingWhenItGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := houseOf(t, 1, func(string) (time.Duration, int) { return time.Minute, completes })
		h.terms = admission.Terms{Time: 20 * time.Second}
		opts := dispatch.Options{Budget: 20 * time.Second, MaxConcurrent: 1}
		r := h.outing("", opts)
		r.order(there("a"), there("waits"))
		time.Sleep(30 * time.Second)
		r.kill()
		r = h.outing(mesh.ReasonContinued, opts)
		errs := r.Dispatch(r.p.ctx, []dispatch.Order{there("b")})
		if len(errs) != 1 || limit.TripOf(errs[0]) == nil || limit.TripOf(errs[0]).Limit != limit.OrchestratorTime {
			t.Errorf("an order when the time was over: %v", errs)
		}
		if x := h.of("waits"); h.begun[x.ID] > 0 {
			t.Error("what had not begun did")
		}
		r.end()
	})
}

// An order that the user ends before it begins has that end and no other, and the model is
// told so.
func TestTheUserEndsWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := houseOf(t, 1, func(string) (time.Duration, int) { return time.Minute, completes })
		r := h.outing("", dispatch.Options{MaxConcurrent: 1})
		r.order(there("a"), there("b"), there("c", "b"))
		if err := r.p.cancelExecution(h.of("b").ID); err != nil {
			t.Fatal(err)
		}
		got, _ := r.Wait(r.p.ctx, nil)
		if got[0].Status != dispatch.StatusCompleted || got[1].Status != dispatch.StatusCanceled || got[2].Status != dispatch.StatusSkipped {
			t.Errorf("the model is told %+v", got)
		}
		r.end()
		ends := 0
		for _, e := range h.events() {
			if b, ok := e.Body.(mesh.DispatchSettled); ok && b.Child == h.of("b").ID {
				ends++
			}
		}
		if x := h.of("b"); ends != 1 || x.Reason != mesh.ReasonCanceled || h.begun[x.ID] > 0 {
			t.Errorf("it has %d ends, began %d times, and ended for %s", ends, h.begun[x.ID], x.Reason)
		}
	})
}

// What the user wants to end does not begin again after a crash, where its agent lost it,
// and its agent is told so, where it did not: also if the process dies once more.
func TestWhatTheUserEndsDoesNotBeginAgain(t *testing.T) {
	for name, lost := range map[string]bool{"lost": true, "at work": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := houseOf(t, 1, func(string) (time.Duration, int) { return time.Minute, completes })
				h.spares = true
				a := there("a")
				if lost {
					a.Name = "here" // which dies with the node
				}
				r := h.outing("", dispatch.Options{})
				r.order(a, there("next", "a"))
				time.Sleep(10 * time.Second)
				if err := r.p.cancelExecution(h.of("a").ID); err != nil {
					t.Fatal(err)
				}
				r.kill()
				r = h.outing(mesh.ReasonContinued, dispatch.Options{})
				if got, _ := r.Wait(r.p.ctx, nil); got[0].Status != dispatch.StatusCanceled || got[1].Status != dispatch.StatusSkipped {
					t.Errorf("the model is told %+v", got)
				}
				h.mu.Lock()
				if e := h.tasks[h.of("a").ID]; e != nil && !e.told {
					t.Error("its agent is at work, and nobody told it to end")
				}
				h.mu.Unlock()
				r.end()
				if x := h.of("a"); h.begun[x.ID] != 1 || x.Reason != mesh.ReasonCanceled {
					t.Errorf("it began %d times, and ended for %s", h.begun[x.ID], x.Reason)
				}
			})
		})
	}
}

// Where the end of an agent that the user wants to end, and the node's end of it, come at the
// same time, the model is told the one that the log has.
func TestTheModelIsToldTheEndThatTheLogHas(t *testing.T) {
	for _, agent := range []string{"there", "plain"} {
		t.Run(agent, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := houseOf(t, 1, func(string) (time.Duration, int) { return time.Minute, fails })
				r := h.outing("", dispatch.Options{})
				r.order(dispatch.Order{AgentID: "a", Name: agent, Mission: "do a"})
				time.Sleep(55 * time.Second)
				id := h.of("a").ID
				if err := r.p.cancelExecution(id); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5*time.Second + time.Millisecond)
				err := r.p.states.Decide(r.p.ctx, h.key, func(s *thread.State) (cache.Decision, error) {
					if mesh.Terminal(s.Execution(id).State) {
						return cache.Decision{}, nil
					}
					return cache.Decision{Events: []*mesh.Event{{Execution: h.exec, Actor: "node", Body: mesh.DispatchSettled{Child: id, State: canceled, Reason: mesh.ReasonCanceled}}}}, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				got, _ := r.Done(r.p.ctx, "a")
				r.end()
				if x := h.of("a"); thread.StatusOf(x.State, x.Reason) != got.Status {
					t.Errorf("the model is told %+v, and the log has %s for %s", got, x.State, x.Reason)
				}
			})
		})
	}
}

// What was at work when the process died is taken up before anything begins, and told to
// end if the model ends it before that.
func TestWhatWasAtWorkIsTakenUpFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := houseOf(t, 3, func(label string) (time.Duration, int) {
			if label == "a" {
				return time.Minute, completes
			}
			return time.Hour, completes
		})
		h.spares = true
		r := h.outing("", dispatch.Options{MaxConcurrent: 3, Timeout: 2 * time.Hour})
		r.order(there("a"), there("next", "a"), there("b"), there("c"))
		time.Sleep(10 * time.Second)
		r.kill()
		time.Sleep(2 * time.Minute)
		h.write(&mesh.Event{Execution: h.exec, Actor: "agent:orchestrator", Body: mesh.DispatchSettled{Child: h.of("a").ID, State: completed}})
		h.most = 2 // b and c are at work
		r = h.outing(mesh.ReasonContinued, dispatch.Options{MaxConcurrent: 1, Timeout: 2 * time.Hour})
		synctest.Wait()
		if x := h.of("next"); x.Issued > 0 {
			t.Error("something began before what was at work was taken up")
		}
		r.Cancel("c")
		if got, _ := r.Done(r.p.ctx, "c"); got.Status != dispatch.StatusCanceled {
			t.Errorf("ended: %+v", got)
		}
		h.mu.Lock()
		if e := h.tasks[h.of("c").ID]; e == nil || !e.told {
			t.Error("its agent was not told to end")
		}
		h.mu.Unlock()
		r.end()
	})
}

// The result of an agent that is ended while it waits for the user is there when the log
// has its end.
func TestWhoWaitedIsOverWhenTheLogHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := houseOf(t, 1, func(string) (time.Duration, int) { return time.Second, asksFirst })
		r := h.outing("", dispatch.Options{})
		r.order(there("a"))
		o := dispatch.NewOrchestration(r.Dispatcher)
		if _, ask := o.Wait(r.p.ctx); ask == nil {
			t.Fatal("it asks nothing")
		}
		r.Cancel("a")
		come := o.Drain(r.p.ctx, false)
		if len(come) == 0 {
			come, _ = o.Wait(r.p.ctx)
		}
		if len(come) != 1 {
			t.Fatalf("%d results", len(come))
		}
		if _, err := r.m.Record(r.p.ctx, &mesh.Event{Body: mesh.ResultsDelivered{Executions: come[0].Executions, Text: come[0].Text}}); err != nil {
			t.Error(err)
		}
		r.end()
	})
}

// An order for which the node has no room waits, and the log says why; its time runs
// meanwhile, the user and the model can end it, and it begins when there is room.
func TestOrdersWaitWhileTheNodeIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := houseOf(t, 1, func(string) (time.Duration, int) { return time.Minute, completes })
		h.places = 1
		r := h.outing("", dispatch.Options{MaxConcurrent: 10})
		r.order(there("first"))
		synctest.Wait()
		late := there("late")
		late.Timeout = 30 * time.Second
		r.order(there("next"), late, there("mine"), there("theirs"))
		time.Sleep(10 * time.Second)
		if x := h.of("next"); !x.Waits() || x.Reason != mesh.ReasonQueued {
			t.Errorf("it is %s for %s in the log", x.State, x.Reason)
		}
		r.Cancel("mine")
		if err := r.p.cancelExecution(h.of("theirs").ID); err != nil {
			t.Fatal(err)
		}
		got, _ := r.Wait(r.p.ctx, nil)
		for i, want := range []string{dispatch.StatusCompleted, dispatch.StatusCompleted, dispatch.StatusTimeout, dispatch.StatusCanceled, dispatch.StatusCanceled} {
			if got[i].Status != want || i > 1 && h.begun[got[i].ExecutionID] > 0 {
				t.Errorf("%+v, want %s", got[i], want)
			}
		}
		if x := h.of("next"); x.Reason != "" || x.Started.Sub(h.of("first").Started) < time.Minute {
			t.Errorf("it began at %v, and ended for %q", x.Started, x.Reason)
		}
		r.end()
	})
}
