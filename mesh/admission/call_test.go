package admission

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/thread"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
)

// A clock is the node's time.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// timed is a library whose time stands still until it passes.
func timed(t *testing.T, b limit.Budgets) (*library, *clock) {
	t.Helper()
	c := &clock{at: time.Now().UTC().Truncate(time.Second)}
	l := newLibrary(t, WithBudgets(b))
	l.now = c.now
	return l, c
}

// child opens an execution of a worker below the grant's.
func (l *library) child(t *testing.T, parent *mesh.Grant, most int) *mesh.Grant {
	t.Helper()
	x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: parent.Execution, Kind: mesh.KindAgent, Agent: "worker",
		User: "ann", Skills: parent.Skills, MaxToolCalls: most, Deadline: l.now().Add(5 * time.Minute)}
	res, err := l.add(t.Context(), parent, &mesh.Event{Execution: parent.Execution, Time: l.now(), Body: mesh.DispatchIssued{Child: x}})
	if err != nil {
		t.Fatal(err)
	}
	return issued(t, res, x.ID)
}

// issued is the grant of the execution.
func issued(t *testing.T, res Admitted, x mesh.ExecutionID) *mesh.Grant {
	t.Helper()
	g, ok := res.Grants[x]
	if !ok {
		t.Fatalf("there is no grant for %s among %v", x, res.Grants)
	}
	return &g
}

// says posts a message of the user to the turn.
func (l *library) says(t *testing.T, turn mesh.ExecutionID, words string) {
	t.Helper()
	l.speaks(t, turn, "ann", words)
}

// speaks posts a message of a user, who has the roles, to the turn.
func (l *library) speaks(t *testing.T, turn mesh.ExecutionID, user, words string, roles ...mesh.Role) {
	t.Helper()
	if err := l.decide(t.Context(), &mesh.Event{Execution: turn, Body: mesh.MessagePosted{User: user, Roles: roles,
		Message: &a2apb.Message{MessageId: words, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}}}}}); err != nil {
		t.Fatal(err)
	}
}

// shows has the turn ask its user what the mesh asks about the call, and returns that.
func (l *library) shows(t *testing.T, turn mesh.ExecutionID, g *mesh.Grant, call string) string {
	t.Helper()
	q := mesh.Question{Execution: g.Execution, Call: call}
	if err := l.states.With(t.Context(), l.key, func(st *thread.State) error { q.Text = st.Execution(g.Execution).Approval(call).Text; return nil }); err != nil {
		t.Fatal(err)
	}
	q.Size = len(q.Text)
	l.asks(t, turn, q.Text, q)
	return q.Text
}

// asks has the turn ask its user.
func (l *library) asks(t *testing.T, turn mesh.ExecutionID, words string, told ...mesh.Question) {
	t.Helper()
	var md *structpb.Struct
	if len(told) > 0 {
		md = &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(
			&structpb.Struct{Fields: map[string]*structpb.Value{mesh.KeyAsks: mesh.AsksValue(told)}})}}
	}
	if err := l.decide(t.Context(), &mesh.Event{Execution: turn, Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, Metadata: md,
		Message: &a2apb.Message{MessageId: words, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}}}}}); err != nil {
		t.Fatal(err)
	}
}

func calling(g *mesh.Grant, call string) *mesh.Event {
	return &mesh.Event{ID: string(g.Execution) + call, Execution: g.Execution, Body: mesh.SkillCalled{Call: call, Skill: "mail.send"}}
}

// calls makes so many calls, which must succeed.
func (l *library) calls(t *testing.T, g *mesh.Grant, from, n int) {
	t.Helper()
	for i := range n {
		c := fmt.Sprint(from + i)
		if _, err := l.add(t.Context(), g, calling(g, c)); err != nil {
			t.Fatalf("call %s: %v", c, err)
		}
		if _, err := l.add(t.Context(), g, &mesh.Event{Execution: g.Execution, Body: mesh.SkillReturned{Call: c}}); err != nil {
			t.Fatal(err)
		}
	}
}

// refused makes a call that must trip the limit after so many.
func (l *library) refused(t *testing.T, g *mesh.Grant, name string, most int64) {
	t.Helper()
	_, err := l.add(t.Context(), g, &mesh.Event{Execution: g.Execution, Body: mesh.SkillCalled{Call: "more", Skill: "mail.send"}})
	wantCode(t, err, mesh.Exhausted, fmt.Sprintf("(%d of %d)", most, most))
	// As an agent in another process sees it.
	trip := limit.TripOf(rpc.FromStatus(rpc.ToStatus(err)))
	if windowed := name == limit.ThreadSkillCalls || name == limit.UserSkillCalls; trip == nil || trip.Free.After(l.now()) != windowed {
		t.Fatalf("%v: there is room at %+v", err, trip)
	}
	if diff := cmp.Diff(&limit.Trip{Limit: name, Used: most, Most: most, Free: trip.Free}, trip); diff != "" {
		t.Fatalf("%v (-want +got)\n%s", err, diff)
	}
}

// bodies are those of the thread's events of a kind.
func bodies[B mesh.Body](t *testing.T, l *library) []B {
	t.Helper()
	events, err := l.log.Read(t.Context(), l.key, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	var out []B
	for _, e := range events {
		if b, ok := e.Body.(B); ok {
			out = append(out, b)
		}
	}
	return out
}

// tripped lists the limits in the log.
func (l *library) tripped(t *testing.T) string {
	t.Helper()
	var out []string
	for _, b := range bodies[mesh.LimitTripped](t, l) {
		out = append(out, fmt.Sprintf("%s %d/%d", b.Limit, b.Used, b.Most))
	}
	return strings.Join(out, ", ")
}

// S3-040, S3-041, S3-043, S3-044, S3-046, S0-062, S0-067, S0-069, S0-074: a turn has its calls,
// a word of the user renews them, the conversation has its own in a window that
// slides; each limit is in the log once for each message, however many calls it
// refused.
func TestTurnsAndConversationsHaveTheirCalls(t *testing.T) {
	l, c := timed(t, limit.Budgets{})
	turn := l.post(t)
	mine := l.run(t, turn, "main", "*")
	l.calls(t, mine, 0, 30)
	for range 3 {
		l.refused(t, mine, limit.TurnSkillCalls, 30)
	}
	if got := l.tripped(t); got != "turn.skill_calls 30/30" {
		t.Errorf("logged %s", got)
	}
	c.pass(time.Minute)
	l.says(t, turn, "continue")
	l.calls(t, mine, 30, 20)
	for range 2 {
		l.refused(t, mine, limit.ThreadSkillCalls, 50)
	}
	l.says(t, turn, "go on")
	l.refused(t, mine, limit.ThreadSkillCalls, 50)
	if got := l.tripped(t); got != "turn.skill_calls 30/30, thread.skill_calls 50/50, thread.skill_calls 50/50" {
		t.Errorf("logged %s", got)
	}
	c.pass(4 * time.Minute) // the first 30 are as old as the window, and no older
	l.refused(t, mine, limit.ThreadSkillCalls, 50)
	c.pass(time.Millisecond)
	l.calls(t, mine, 50, 30)
	if n := len(bodies[mesh.SkillCalled](t, l)); n != 80 {
		t.Errorf("%d calls are logged", n)
	}
	// A turn of its own begins anew.
	c.pass(time.Hour)
	l.calls(t, l.run(t, l.post(t), "main", "*"), 0, 30)
}

// S0-059, S0-064, S0-066: an agent that was dispatched has five calls or as many
// as it was given, and a message of the user that it goes on with renews them.
func TestADispatchedAgentHasItsOwnCalls(t *testing.T) {
	l, _ := timed(t, limit.Budgets{})
	turn := l.post(t)
	main := l.run(t, turn, "main", "*")
	first, second := l.child(t, main, 0), l.child(t, main, 7)
	l.calls(t, first, 0, 5)
	l.calls(t, second, 0, 7)
	for range 2 {
		l.refused(t, first, limit.AgentToolCalls, 5)
		l.refused(t, second, limit.AgentToolCalls, 7)
	}
	if got := l.tripped(t); got != "agent.tool_calls 5/5, agent.tool_calls 7/7" {
		t.Errorf("logged %s", got)
	}
	goOn := func() {
		t.Helper()
		for _, b := range []mesh.TaskMoved{{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED}, {State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonDelivered}} {
			if _, err := l.add(t.Context(), main, &mesh.Event{Execution: first.Execution, Body: b}); err != nil {
				t.Fatal(err)
			}
		}
	}
	goOn() // with nothing that the user said
	l.refused(t, first, limit.AgentToolCalls, 5)
	l.says(t, turn, "continue")
	goOn()
	l.calls(t, first, 10, 5)
	l.refused(t, first, limit.AgentToolCalls, 5)
	l.refused(t, second, limit.AgentToolCalls, 7)
}

// S0-123: executions that call at the same time share the calls of their turn,
// to the last one.
func TestExecutionsAtOnceNeverExceedALimitTogether(t *testing.T) {
	for name, tt := range map[string]struct {
		budgets limit.Budgets
		want    int
	}{
		limit.TurnSkillCalls:   {limit.Budgets{TurnAgents: limit.Unlimited}, 30},
		limit.ThreadSkillCalls: {limit.Budgets{TurnAgents: limit.Unlimited, TurnCalls: limit.Unlimited}, 50},
		limit.UserSkillCalls:   {limit.Budgets{TurnAgents: limit.Unlimited, TurnCalls: limit.Unlimited, ThreadCalls: limit.Unlimited, UserCalls: 41}, 41},
		limit.AgentToolCalls:   {limit.Budgets{}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := timed(t, tt.budgets)
			main := l.run(t, l.post(t), "main", "*")
			grants := []*mesh.Grant{l.child(t, main, 0)}
			if name != limit.AgentToolCalls {
				grants = nil
				for range 8 {
					grants = append(grants, l.child(t, main, 20))
				}
			}
			var all sync.WaitGroup
			var mu sync.Mutex
			made := 0
			for i := range 8 {
				for j := range 2 { // and an agent makes several at once
					all.Go(func() {
						g := grants[i%len(grants)]
						for k := range 5 {
							_, err := l.add(t.Context(), g, calling(g, fmt.Sprint(i, j, k)))
							if err != nil && (!mesh.IsCode(err, mesh.Exhausted) || limit.TripOf(err).Limit != name) {
								t.Errorf("refused: %v", err)
							}
							if err == nil {
								mu.Lock()
								made++
								mu.Unlock()
							}
						}
					})
				}
			}
			all.Wait()
			if logged := len(bodies[mesh.SkillCalled](t, l)); logged != tt.want || made != tt.want {
				t.Errorf("%d calls were made and %d logged, want %d", made, logged, tt.want)
			}
			if want := fmt.Sprintf("%s %d/%d", name, tt.want, tt.want); l.tripped(t) != want {
				t.Errorf("logged %s, want %s", l.tripped(t), want)
			}
		})
	}
}

// An append whose answer was lost is sent again: it counts once, and is not
// refused for being the last one.
func TestACallThatIsSentAgainCountsOnce(t *testing.T) {
	l, _ := timed(t, limit.Budgets{TurnCalls: 3, UserCalls: 3})
	mine := l.run(t, l.post(t), "main", "*")
	for i := range 3 {
		for range 3 {
			if _, err := l.add(t.Context(), mine, calling(mine, fmt.Sprint(i))); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
		}
	}
	l.refused(t, mine, limit.TurnSkillCalls, 3)
	res, err := l.add(t.Context(), mine, calling(mine, "2"), &mesh.Event{Execution: mine.Execution, Body: mesh.SkillReturned{Call: "2"}})
	if err != nil || res.Seq == 0 {
		t.Errorf("the last one, with its return: %v", err)
	}
	if _, err := l.add(t.Context(), mine, calling(mine, "2")); err != nil {
		t.Errorf("the last one, after its return: %v", err)
	}
	if n := len(bodies[mesh.SkillCalled](t, l)); n != 3 {
		t.Errorf("%d calls are logged", n)
	}
}

// What comes with a call that is refused is refused with it.
func TestOfARequestThatExceedsNothingIsAdded(t *testing.T) {
	l, _ := timed(t, limit.Budgets{TurnCalls: 3, UserCalls: 50})
	mine := l.run(t, l.post(t), "main", "*")
	l.calls(t, mine, 0, 2)
	_, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.ModelReplied{Text: "two"}}, calling(mine, "a"), calling(mine, "b"))
	wantCode(t, err, mesh.Exhausted, "(3 of 3)")
	if n, m := len(bodies[mesh.SkillCalled](t, l)), len(bodies[mesh.ModelReplied](t, l)); n != 2 || m != 0 {
		t.Errorf("%d calls and %d replies are logged", n, m)
	}
	if got := l.tripped(t); got != "turn.skill_calls 3/3" {
		t.Errorf("logged %s", got)
	}
	l.calls(t, mine, 10, 1) // there still is room for one
}

// What a refused request took from the user's calls is given back, and a user's
// calls in all threads count.
func TestAUserHasCallsInAllThreads(t *testing.T) {
	l, c := timed(t, limit.Budgets{TurnCalls: 3, UserCalls: 5})
	mine := l.run(t, l.post(t), "main", "*")
	l.calls(t, mine, 0, 2)
	for range 4 {
		_, err := l.add(t.Context(), mine, calling(mine, "a"), calling(mine, "b"))
		wantCode(t, err, mesh.Exhausted, "(3 of 3)")
	}
	other, bad := calling(mine, "c"), &mesh.Event{Execution: mine.Execution, Body: mesh.MessagePosted{}}
	_, err := l.add(t.Context(), mine, other, bad)
	wantCode(t, err, mesh.Denied)
	l.key.ID = mesh.NewThreadID()
	second := l.run(t, l.post(t), "main", "*")
	l.calls(t, second, 0, 3)
	l.key.ID = mesh.NewThreadID()
	third := l.run(t, l.post(t), "main", "*")
	l.refused(t, third, limit.UserSkillCalls, 5)
	if got := l.tripped(t); got != "user.skill_calls 5/5" {
		t.Errorf("logged %s", got)
	}
	c.pass(5*time.Minute + time.Millisecond)
	l.calls(t, third, 0, 3)
}

// An agent whose clock is wrong, or that says so, has the same window.
func TestTheWindowGoesByTheNodesClock(t *testing.T) {
	l, _ := timed(t, limit.Budgets{ThreadCalls: 2})
	mine := l.run(t, l.post(t), "main", "*")
	for i := range 2 {
		e := calling(mine, fmt.Sprint(i))
		e.Time = l.now().Add(-time.Hour)
		if _, err := l.add(t.Context(), mine, e); err != nil {
			t.Fatal(err)
		}
	}
	l.refused(t, mine, limit.ThreadSkillCalls, 2)
}

func TestWithoutLimitsCallsThatNeverReturnAreBounded(t *testing.T) {
	l, _ := timed(t, limit.Budgets{TurnCalls: limit.Unlimited, ThreadCalls: limit.Unlimited})
	mine := l.run(t, l.post(t), "main", "*")
	for i := range thread.MaxUnsettled {
		if _, err := l.add(t.Context(), mine, calling(mine, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.add(t.Context(), mine, calling(mine, "more"))
	wantCode(t, err, mesh.Exhausted, "have not returned")
	if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.SkillReturned{Call: "0"}}); err != nil {
		t.Fatal(err)
	}
	l.calls(t, mine, 1000, 1)
}

// What can be counted is what the budgets may ask for.
func TestTheStateRemembersAsManyCallsAsBudgetsAllow(t *testing.T) {
	if limit.MaxWindowCalls > thread.MaxWindowCalls || limit.MaxWindow > thread.MaxWindow {
		t.Error("budgets allow more than the state remembers")
	}
}
