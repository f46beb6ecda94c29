package thread_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// An office is a thread in which one agent calls skills.
type office struct {
	*thread.State
	n int
}

func newOffice() *office {
	o := &office{State: new(thread.State)}
	turn := mesh.Execution{ID: "t", Kind: mesh.KindTurn, Agent: "main", User: "ann"}
	o.tell(midnight, "t", mesh.TaskOpened{Execution: turn})
	o.tell(midnight, "t", mesh.DispatchIssued{Child: mesh.Execution{ID: "a", Parent: "t", Kind: mesh.KindAgent, Agent: "main"}})
	return o
}

func (o *office) tell(at time.Time, id mesh.ExecutionID, b mesh.Body) *mesh.Event {
	o.n++
	e := &mesh.Event{Seq: o.Seq + 1, ID: fmt.Sprintf("e%d", o.n), Time: at, Execution: id, Body: b}
	o.Apply(e)
	return e
}

// However many calls a turn makes, its state does not grow and each event costs
// the same.
func TestATurnOfTenThousandCallsDoesNotGrowTheState(t *testing.T) {
	o := newOffice()
	at := midnight
	var events []*mesh.Event
	for i := range 12_000 {
		id := fmt.Sprintf("c%d", i)
		for _, b := range []mesh.Body{
			mesh.SkillCalled{Call: id, Skill: "tasks.search"}, mesh.LimitTripped{Limit: "turn.skill_calls"},
			mesh.ApprovalAsked{Call: id, Skill: "tasks.search", Text: "May I?"}, mesh.ApprovalSettled{Call: id},
			mesh.SkillReturned{Call: id}, mesh.ToolReturned{Call: id, Name: "get_skill"},
		} {
			at = at.Add(time.Millisecond)
			events = append(events, &mesh.Event{ID: fmt.Sprintf("%T-%d", b, i), Time: at, Execution: "a", Body: b})
		}
	}
	apply := func(events []*mesh.Event) {
		for _, e := range events {
			e.Seq = o.Seq + 1
			o.Apply(e)
		}
	}
	apply(events[:len(events)/6]) // 2,000 calls, more than all that is remembered
	rest := events[len(events)/6:]
	step := len(rest) / 20
	if allocs := testing.AllocsPerRun(19, func() {
		apply(rest[:step])
		rest = rest[step:]
	}); allocs > 1 { // a copy of the window or of a map's group, once in a while
		t.Errorf("%d calls made %v allocations", step/6, allocs)
	}
	x := o.Execution("a")
	if len(rest) != 0 || x.SkillCalls != 12_000 || o.Turn("t").Calls.Skills != 12_000 || len(x.Unsettled) != 0 || len(x.Approvals) != 0 || len(x.Tripped) != 1 {
		t.Errorf("%d calls, %d of the turn, unsettled %v, waiting %v, tripped %v", x.SkillCalls, o.Turn("t").Calls.Skills, x.Unsettled, x.Approvals, x.Tripped)
	}
	if n, _ := o.CallsWithin(at, thread.MaxWindow); n != thread.MaxWindowCalls {
		t.Errorf("%d calls in the window", n)
	}
}

// Calls that never return, questions that nobody answers and limits of any name
// do not grow it either.
func TestWhatIsLeftOpenIsBounded(t *testing.T) {
	o := newOffice()
	for i := range 2000 {
		id := fmt.Sprintf("c%d", i)
		o.tell(midnight, "a", mesh.SkillCalled{Call: id, Skill: "s.s"})
		o.tell(midnight, "a", mesh.ApprovalAsked{Call: id, Skill: "s.s"})
		o.tell(midnight, "a", mesh.LimitTripped{Limit: id})
	}
	x := o.Execution("a")
	if len(x.Unsettled) != thread.MaxUnsettled || len(x.Approvals) != thread.MaxApprovals || len(x.Tripped) > 16 || x.SkillCalls != 2000 {
		t.Errorf("%d unsettled, %d waiting, %d tripped, %d calls", len(x.Unsettled), len(x.Approvals), len(x.Tripped), x.SkillCalls)
	}
	if o.Seen("e3") || !o.Seen(fmt.Sprintf("e%d", o.n-1)) || o.Seen("") {
		t.Error("the ids that are remembered are not the last ones")
	}
}

// S3-041, S3-046: the window has exactly the calls of the last so many minutes,
// whatever order their times have, within what is remembered.
func TestTheWindowHasTheCallsOfItsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOffice()
		now := midnight
		var times []time.Time
		for range rapid.IntRange(0, 80).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(-2_000, 60_000).Draw(t, "gap")) * time.Millisecond)
			times = append(times, now)
			o.tell(now, "a", mesh.SkillCalled{Call: "c", Skill: "s.s"})
		}
		window := time.Duration(rapid.IntRange(1, 50).Draw(t, "window")) * time.Minute
		now = now.Add(time.Duration(rapid.IntRange(0, 600_000).Draw(t, "later")) * time.Millisecond)
		times = slices.DeleteFunc(times, func(at time.Time) bool { return now.Sub(at) > window })
		n, first := o.CallsWithin(now, window)
		if n != len(times) {
			t.Fatalf("%d calls within %v of %v, want %v", n, window, now, times)
		}
		if n > 0 && !first.Equal(slices.MinFunc(times, time.Time.Compare)) {
			t.Fatalf("the first at %v, want that of %v", first, times)
		}
	})
}

// A clock that was an hour ahead for a moment does not stop a conversation for
// an hour.
func TestAClockThatIsSetBackDoesNotFillTheWindow(t *testing.T) {
	o := newOffice()
	for range 50 {
		o.tell(midnight.Add(50*time.Minute), "a", mesh.SkillCalled{Call: "c", Skill: "s.s"})
	}
	if n, _ := o.CallsWithin(midnight, 5*time.Minute); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// S3-093, S3-104: a call has its conversation's turn, skill, parameters and
// when it began; then whether it completed or failed, with what, when, and
// after how long.
func TestARecordOfACallHasAllThatWasLogged(t *testing.T) {
	o := newOffice()
	log := []*mesh.Event{
		{Execution: "t", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn}}},
		{Execution: "t", Body: mesh.DispatchIssued{Child: mesh.Execution{ID: "a", Parent: "t", Kind: mesh.KindAgent, Agent: "mail", User: "ann"}}},
		{ID: "k1", Execution: "a", Time: midnight, Body: mesh.SkillCalled{Call: "c1", Skill: "mail.send", Args: `{"to":"bob"}`, Source: mesh.SourceCommand, Version: "0a1b"}},
		{ID: "k2", Execution: "a", Time: midnight, Body: mesh.SkillCalled{Call: "c2", Skill: "mail.read"}},
		{Execution: "a", Time: midnight.Add(3 * time.Second), Body: mesh.SkillReturned{Call: "c1", Content: "Sent.", Files: []string{"1.eml"}, Duration: 2 * time.Second, Metadata: `{"id":1}`}},
		{Execution: "a", Time: midnight.Add(4 * time.Second), Body: mesh.SkillReturned{Call: "c2", Failed: true, Content: "No such mail."}},
		{ID: "k3", Execution: "a", Time: midnight.Add(5 * time.Second), Body: mesh.SkillCalled{Call: "c3", Skill: "mail.send"}},
		{ID: "k4", Execution: "nobody", Body: mesh.SkillCalled{Call: "c1", Skill: "mail.send"}},
	}
	for i, e := range log {
		e.Seq = mesh.Seq(i + 1)
		o.Apply(e)
	}
	want := []thread.SkillCall{
		{
			Key: "k1", Execution: "a", Turn: "t", Agent: "mail", User: "ann", Call: "c1", Skill: "mail.send", Args: `{"to":"bob"}`,
			Source: mesh.SourceCommand, Version: "0a1b", Status: thread.CallCompleted, Called: 3, Returned: 5,
			Started: midnight, Ended: midnight.Add(3 * time.Second), Duration: 2 * time.Second,
			Content: "Sent.", Files: []string{"1.eml"}, Metadata: `{"id":1}`,
		}, {
			Key: "k2", Execution: "a", Turn: "t", Agent: "mail", User: "ann", Call: "c2", Skill: "mail.read", Status: thread.CallFailed,
			Called: 4, Returned: 6, Started: midnight, Ended: midnight.Add(4 * time.Second), Duration: 4 * time.Second, Error: "No such mail.",
		}, {
			Key: "k3", Execution: "a", Turn: "t", Agent: "mail", User: "ann", Call: "c3", Skill: "mail.send", Status: thread.CallRunning,
			Called: 7, Started: midnight.Add(5 * time.Second),
		},
	}
	if diff := cmp.Diff(want, thread.SkillCalls(log)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The calls that a log leaves unsettled are the ones that a fold does: whoever
// continues after a crash and whoever looks at the log agree.
func TestUnsettledCallsAreTheSameInTheLogAndInTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOffice()
		var log []*mesh.Event
		keep := func(id mesh.ExecutionID, b mesh.Body) { log = append(log, o.tell(midnight, id, b)) }
		log = append(log, &mesh.Event{Seq: 1, Execution: "t", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn}}},
			&mesh.Event{Seq: 2, Execution: "t", Body: mesh.DispatchIssued{Child: mesh.Execution{ID: "a", Parent: "t", Kind: mesh.KindAgent}}})
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			call := fmt.Sprintf("c%d", rapid.IntRange(0, 30).Draw(t, "call"))
			_, open := o.Execution("a").Unsettled[call]
			if rapid.Bool().Draw(t, "returns") {
				keep("a", mesh.SkillReturned{Call: call})
			} else if !open { // an id is not used twice at a time
				keep("a", mesh.SkillCalled{Call: call, Skill: "s.s"})
			}
		}
		got := map[string]string{}
		for _, c := range thread.SkillCalls(log) {
			if c.Unsettled() {
				got[c.Call] = c.Skill
			}
		}
		want := o.Execution("a").Unsettled
		if len(want)+len(got) > 0 && !cmp.Equal(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
	})
}
