package admission

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache/cachetest"
	"agentmesh/mesh/threadlog"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

const (
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	working   = a2apb.TaskState_TASK_STATE_WORKING
)

// What an agent can say of its calls is what it has done: a return without a
// call, a call of another execution, a cost that cannot be and a limit that the
// mesh counts are refused, each with what is wrong.
func TestForgedEventsAreRefused(t *testing.T) {
	l := newLibrary(t)
	turn := l.post(t)
	mine, other := l.run(t, turn, "mailer", "mail.send"), l.run(t, turn, "writer", "mail.send")
	if _, err := l.add(t.Context(), other, calling(other, "theirs")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.add(t.Context(), mine, calling(mine, "mine")); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 200)
	for name, tt := range map[string]struct {
		body  mesh.Body
		code  mesh.Code
		words string
	}{
		"a return of another's call":  {mesh.SkillReturned{Call: "theirs"}, mesh.Denied, `"theirs"`},
		"a return of no call":         {mesh.SkillReturned{Call: "none"}, mesh.Denied, "has not returned"},
		"a return that is too long":   {mesh.SkillReturned{Call: "mine", Content: strings.Repeat("x", mesh.MaxResult+1)}, mesh.Invalid, "skill_returned.content"},
		"a return before its call":    {mesh.SkillReturned{Call: "mine", Duration: -time.Second}, mesh.Invalid, "duration"},
		"a call from a long place":    {mesh.SkillCalled{Call: "c", Skill: "mail.send", Source: long}, mesh.Invalid, "source"},
		"a call of a long version":    {mesh.SkillCalled{Call: "c", Skill: "mail.send", Version: long}, mesh.Invalid, "version"},
		"a call that is not granted":  {mesh.SkillCalled{Call: "c", Skill: "docs.write"}, mesh.Denied, "docs.write"},
		"a call of a pattern":         {mesh.SkillCalled{Call: "c", Skill: "mail.*"}, mesh.Denied, "mail.*"},
		"tokens below none":           {mesh.ModelReplied{Usage: mesh.Usage{Prompt: -1}}, mesh.Invalid, "usage"},
		"tokens that overflow":        {mesh.ModelReplied{Usage: mesh.Usage{Completion: math.MaxInt64}}, mesh.Invalid, "usage"},
		"a cost that pays back":       {mesh.ModelReplied{Usage: mesh.Usage{Cost: -5}}, mesh.Invalid, "usage.cost"},
		"a cost that is no number":    {mesh.ModelReplied{Usage: mesh.Usage{Cost: math.NaN()}}, mesh.Invalid, "usage.cost"},
		"a cost without end":          {mesh.ModelReplied{Usage: mesh.Usage{Cost: math.Inf(1)}}, mesh.Invalid, "usage.cost"},
		"a limit of the turn":         {mesh.LimitTripped{Limit: limit.TurnSkillCalls, Used: 30, Most: 30}, mesh.Denied, limit.TurnSkillCalls},
		"a limit of the conversation": {mesh.LimitTripped{Limit: limit.ThreadSkillCalls}, mesh.Denied, limit.ThreadSkillCalls},
		"a yes that nobody said":      {mesh.ApprovalSettled{Call: "mine", Approved: true}, mesh.Precondition, "does not wait"},
		"a cancellation":              {mesh.CancelRequested{}, mesh.Denied, "not an agent's"},
	} {
		_, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: tt.body})
		if !mesh.IsCode(err, tt.code) || !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s: got %v, want %v with %q", name, err, tt.code, tt.words)
		}
	}
	// What is true is taken, a return together with its call too.
	for _, body := range []mesh.Body{
		mesh.LimitTripped{Limit: limit.AgentSteps}, mesh.ModelReplied{Usage: mesh.Usage{Prompt: 1000, Cost: 0.5}}, mesh.SkillReturned{Call: "mine", Content: "Sent."},
	} {
		if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: body}); err != nil {
			t.Errorf("%T: %v", body, err)
		}
	}
	if _, err := l.add(t.Context(), mine, calling(mine, "both"), &mesh.Event{Execution: mine.Execution, Body: mesh.SkillReturned{Call: "both"}}); err != nil {
		t.Errorf("a call and its return: %v", err)
	}
	// A return that comes twice under its id is one; as another event it is refused.
	if _, err := l.add(t.Context(), mine, calling(mine, "twice")); err != nil {
		t.Fatal(err)
	}
	back := &mesh.Event{ID: mesh.NewEventID(), Execution: mine.Execution, Body: mesh.SkillReturned{Call: "twice"}}
	for range 3 {
		if _, err := l.add(t.Context(), mine, back); err != nil {
			t.Errorf("the same return again: %v", err)
		}
	}
	_, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.SkillReturned{Call: "twice", Failed: true}})
	wantCode(t, err, mesh.Denied, "twice")
	if err := l.states.With(t.Context(), l.key, func(st *thread.State) error {
		if theirs := st.Execution(other.Execution).Unsettled; len(theirs) != 1 || st.Usage.Cost != 0.5 || st.Usage.Prompt != 1000 {
			t.Errorf("unsettled of the other %v, usage %+v", theirs, st.Usage)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A thread that an agent's clock has moved ahead would never be idle.
func TestAnAgentsClockDoesNotMoveTheThreadAhead(t *testing.T) {
	l, c := timed(t, limit.Budgets{})
	mine := l.run(t, l.post(t), "mailer")
	if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Time: c.now().AddDate(1000, 0, 0), Body: mesh.StateNoted{Agent: "mailer"}}); err != nil {
		t.Fatal(err)
	}
	if err := l.states.With(t.Context(), l.key, func(st *thread.State) error {
		if !st.Updated.Equal(c.now()) {
			t.Errorf("the thread is of %v", st.Updated)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// The log takes so much of one execution, and then no more than the ends of what
// was begun; others are not concerned.
func TestTheLogTakesABoundedVolumeOfAnExecution(t *testing.T) {
	for name, most := range map[string]limit.Output{
		limit.OutputEvents: {Events: 30, Bytes: 1 << 20}, limit.OutputBytes: {Events: 1000, Bytes: 10_000},
	} {
		l := newLibrary(t)
		l.output = most
		turn := l.post(t)
		mine, other := l.run(t, turn, "mailer", "mail.send"), l.run(t, turn, "writer")
		if _, err := l.add(t.Context(), mine, calling(mine, "open")); err != nil {
			t.Fatal(err)
		}
		note := func(g *mesh.Grant) error {
			_, err := l.add(t.Context(), g, &mesh.Event{Execution: g.Execution, Body: mesh.StateNoted{Agent: g.Agent, Data: make([]byte, 400)}})
			return err
		}
		refused := func(err error) {
			t.Helper()
			wantCode(t, err, mesh.Exhausted)
			if trip := limit.TripOf(err); trip == nil || trip.Limit != name {
				t.Errorf("%s: refused with %v", name, err)
			}
		}
		var err error
		n := 0
		for ; err == nil && n < 100; n++ {
			err = note(mine)
		}
		refused(err)
		if n < 15 || n > 30 {
			t.Errorf("%s: after %d events", name, n)
		}
		if err := note(other); err != nil {
			t.Errorf("another execution: %v", err)
		}
		if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.SkillReturned{Call: "open"}}); err != nil {
			t.Errorf("the end of a call: %v", err)
		}
		// All of a request is refused.
		many := make([]*mesh.Event, 0, 40)
		for range 40 {
			many = append(many, &mesh.Event{Execution: other.Execution, Body: mesh.StateNoted{Agent: "writer", Data: make([]byte, 400)}})
		}
		had := len(bodies[mesh.StateNoted](t, l))
		_, err = l.add(t.Context(), other, many...)
		refused(err)
		if now := len(bodies[mesh.StateNoted](t, l)); now != had {
			t.Errorf("%d of the events were added", now-had)
		}
	}
}

// The ends, too, have an end.
func TestForgedEndsDoNotFillTheLog(t *testing.T) {
	l := newLibrary(t)
	l.output = limit.Output{Events: 20}
	turn := l.post(t)
	mine := l.run(t, turn, "main", "*")
	child := l.child(t, mine, 0)
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		_, err = l.add(t.Context(), mine, &mesh.Event{Execution: child.Execution, Body: mesh.TaskMoved{State: completed}})
	}
	if trip := limit.TripOf(err); trip == nil || trip.Limit != limit.OutputEvents {
		t.Errorf("the last is refused with %v", err)
	}
	if n != 23 {
		t.Errorf("after %d ends", n)
	}
}

// A restart of the node gives nobody fresh calls: they are counted from the log,
// of all threads of the user and of no one else.
func TestAUsersCallsAreCountedAfterARestart(t *testing.T) {
	budgets := limit.Budgets{UserCalls: 5}
	l, c := timed(t, budgets)
	turn := l.post(t)
	mine := l.run(t, turn, "main", "*")
	const large = 100 << 10
	if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.StateNoted{Agent: "main", Data: make([]byte, large)}}); err != nil {
		t.Fatal(err)
	}
	l.calls(t, mine, 0, 2)
	c.pass(2 * time.Minute)
	first := l.key
	l.key.ID = mesh.NewThreadID()
	l.calls(t, l.run(t, l.post(t), "main", "*"), 0, 2)
	// Another tenant's user of the same name.
	l.key = mesh.ThreadKey{Tenant: "globex", ID: mesh.NewThreadID()}
	l.calls(t, l.run(t, l.post(t), "main", "*"), 0, 5)
	l.key = first

	restart := func() {
		l.restart(c, WithBudgets(budgets))
	}
	restart()
	l.calls(t, mine, 2, 1)
	l.refused(t, mine, limit.UserSkillCalls, 5)
	restart()
	l.refused(t, mine, limit.UserSkillCalls, 5)
	restart()
	c.pass(3*time.Minute + time.Second) // the first two have left the window
	l.calls(t, mine, 3, 2)
	l.refused(t, mine, limit.UserSkillCalls, 5)
	// A thread that was not touched for long is not read for it.
	restart()
	c.pass(3 * time.Hour)
	l.key = mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
	g := l.run(t, l.post(t), "main", "*")
	l.calls(t, g, 0, 1)
	l.store.Count()
	restart()
	l.calls(t, g, 1, 1)
	if n := l.store.Count(); n > large/2 {
		t.Errorf("%d bytes were read to count calls", n)
	}
}

// A flaky store fails one read. It is for one goroutine.
type flaky struct {
	threadlog.Backend
	reads, fails int
}

func (f *flaky) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	if f.reads++; f.reads == f.fails {
		return nil, mesh.Errorf(mesh.Unavailable, "store.Read", "the disk is away")
	}
	return f.Backend.Read(ctx, key, after, limit)
}

// Whatever of the log cannot be read after a restart, no call is made as if there had
// been fewer.
func TestCallsThatCannotBeCountedAreNotMade(t *testing.T) {
	budgets, store, c := limit.Budgets{UserCalls: 2}, &flaky{Backend: mem.Open()}, &clock{at: time.Now()}
	l := over(&cachetest.Store{Backend: store}, WithBudgets(budgets))
	l.now = c.now
	mine := l.run(t, l.post(t), "main", "*")
	l.calls(t, mine, 0, 2)
	for n := 1; ; n++ {
		l.restart(c, WithBudgets(budgets))
		store.reads, store.fails = 0, n
		_, err := l.add(t.Context(), mine, calling(mine, "more"))
		if store.reads < n {
			if wantCode(t, err, mesh.Exhausted); n < 3 {
				t.Errorf("there were %d reads", n-1)
			}
			return
		}
		wantCode(t, err, mesh.Unavailable)
	}
}
