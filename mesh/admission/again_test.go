package admission

import (
	"fmt"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
)

// A call that the log drops, because its event has the id of another, is none:
// no return of it is taken, whichever event the id is of.
func TestAReturnOfACallThatTheLogDropsIsRefused(t *testing.T) {
	l := newLibrary(t)
	turn := l.post(t)
	mine, other := l.run(t, turn, "mailer", "mail.send"), l.run(t, turn, "writer", "mail.send")
	note := &mesh.Event{ID: mesh.NewEventID(), Execution: mine.Execution, Body: mesh.StateNoted{Agent: "mailer"}}
	theirs := &mesh.Event{ID: mesh.NewEventID(), Execution: other.Execution, Body: mesh.StateNoted{Agent: "writer"}}
	for g, e := range map[*mesh.Grant]*mesh.Event{mine: note, other: theirs} {
		if _, err := l.add(t.Context(), g, e); err != nil {
			t.Fatal(err)
		}
	}
	l.calls(t, mine, 0, 1)
	back := func(call string) *mesh.Event {
		return &mesh.Event{Execution: mine.Execution, Body: mesh.SkillReturned{Call: call, Content: "Done."}}
	}
	for name, id := range map[string]string{
		"of an earlier call": calling(mine, "0").ID, "of a note": note.ID, "of another execution's note": theirs.ID,
	} {
		forged := &mesh.Event{ID: id, Execution: mine.Execution, Body: mesh.SkillCalled{Call: "forged", Skill: "mail.send"}}
		_, err := l.add(t.Context(), mine, forged, back("forged"))
		if !mesh.IsCode(err, mesh.Denied) {
			t.Errorf("a call with the id %s: %v", name, err)
		}
	}
	twin := calling(mine, "twin")
	twin.ID = calling(mine, "both").ID
	_, err := l.add(t.Context(), mine, calling(mine, "both"), twin, back("twin"))
	wantCode(t, err, mesh.Invalid, "events[1].id")
	_, err = l.add(t.Context(), mine, calling(mine, "both"), back("both"), back("both"))
	wantCode(t, err, mesh.Denied, "both")
	if _, err := l.add(t.Context(), mine, calling(mine, "open")); err != nil {
		t.Fatal(err)
	}
	_, err = l.add(t.Context(), mine, back("open"), back("open"))
	wantCode(t, err, mesh.Denied, "open")
	if n := len(bodies[mesh.SkillReturned](t, l)); n != 1 {
		t.Errorf("%d returns are logged", n)
	}
	// A call and its return that are sent again are those that there were, and a
	// call may be made again once it has returned.
	twice := []*mesh.Event{calling(mine, "again"), back("again"), {Execution: mine.Execution, Body: mesh.SkillCalled{Call: "again", Skill: "mail.send"}}, back("again")}
	for range 2 {
		if _, err := l.add(t.Context(), mine, twice...); err != nil {
			t.Error(err)
		}
	}
	if n := len(bodies[mesh.SkillReturned](t, l)); n != 3 {
		t.Errorf("%d returns are logged", n)
	}
}

// Nobody gets a grant for a child that the log does not have.
func TestADispatchThatTheLogDropsHasNoGrant(t *testing.T) {
	l := newLibrary(t)
	mine := l.run(t, l.post(t), "main", "*")
	note := &mesh.Event{ID: mesh.NewEventID(), Execution: mine.Execution, Body: mesh.StateNoted{Agent: "main"}}
	if _, err := l.add(t.Context(), mine, note); err != nil {
		t.Fatal(err)
	}
	dispatch := func(id string) *mesh.Event {
		return &mesh.Event{ID: id, Execution: mine.Execution, Body: mesh.DispatchIssued{Child: mesh.Execution{
			ID: mesh.NewExecutionID(l.key.ID), Parent: mine.Execution, Kind: mesh.KindAgent, Agent: "worker", User: "ann", Skills: []string{"mail.send"}}}}
	}
	_, err := l.add(t.Context(), mine, dispatch(note.ID))
	wantCode(t, err, mesh.Invalid, "events[0].id")
	fair := dispatch(mesh.NewEventID())
	for range 2 {
		res, err := l.add(t.Context(), mine, fair)
		if err != nil || len(res.Grants) != 1 {
			t.Errorf("a dispatch of its own: %v, %v", res, err)
		}
	}
}

// However many returns a request sends again, the log is read once for them: the
// thread is held meanwhile.
func TestReturnsThatAreSentAgainAreLookedUpTogether(t *testing.T) {
	const large = 100 << 10
	l := newLibrary(t)
	mine := l.run(t, l.post(t), "main", "*")
	if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.StateNoted{Agent: "main", Data: make([]byte, large)}}); err != nil {
		t.Fatal(err)
	}
	var returns []*mesh.Event
	for i := range 20 {
		call := fmt.Sprint(i)
		back := &mesh.Event{Execution: mine.Execution, Body: mesh.SkillReturned{Call: call}}
		if _, err := l.add(t.Context(), mine, calling(mine, call), back); err != nil {
			t.Fatal(err)
		}
		returns = append(returns, back)
	}
	// or it would be read from memory
	l.restart(&clock{at: time.Now()})
	if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.StateNoted{Agent: "main"}}); err != nil { // the thread is folded
		t.Fatal(err)
	}
	l.store.Count()
	if _, err := l.add(t.Context(), mine, returns...); err != nil {
		t.Fatal(err)
	}
	if n := l.store.Count(); n == 0 || n > 2*large {
		t.Errorf("%d bytes were read for %d returns", n, len(returns))
	}
}

// What is sent again does not count as more.
func TestWhatIsSentAgainHasNoVolume(t *testing.T) {
	l := newLibrary(t)
	mine := l.run(t, l.post(t), "mailer")
	note := &mesh.Event{Execution: mine.Execution, Body: mesh.StateNoted{Agent: "mailer", Data: []byte("{}")}}
	if _, err := l.add(t.Context(), mine, note); err != nil {
		t.Fatal(err)
	}
	once := l.logged(t, mine)
	for range 5 {
		if _, err := l.add(t.Context(), mine, note); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.logged(t, mine); once.Events == 0 || once.Bytes == 0 || got != once {
		t.Errorf("%+v was added, and %+v counted after it came again", once, got)
	}
	if _, err := l.add(t.Context(), mine, note, &mesh.Event{Execution: mine.Execution, Body: mesh.StateNoted{Agent: "mailer"}}); err != nil {
		t.Fatal(err)
	}
	if got := l.logged(t, mine); got.Events != once.Events+1 || got.Bytes <= once.Bytes {
		t.Errorf("with one that is new: %+v", got)
	}
}

// To count a user's calls after a restart no thread is read further back than
// the window, and none is folded that has no calls in it.
func TestAnOldThreadIsNotReadFromItsStartToCountCalls(t *testing.T) {
	budgets := limit.Budgets{UserCalls: 5}
	l, c := timed(t, budgets)
	old := l.run(t, l.post(t), "main", "*")
	const large = 100 << 10
	if _, err := l.add(t.Context(), old, &mesh.Event{Execution: old.Execution, Body: mesh.StateNoted{Agent: "main", Data: make([]byte, large)}}); err != nil {
		t.Fatal(err)
	}
	for range 2 * scanPage {
		if _, err := l.add(t.Context(), old, &mesh.Event{Execution: old.Execution, Body: mesh.LimitTripped{}}); err != nil {
			t.Fatal(err)
		}
	}
	l.calls(t, old, 0, 5)
	c.pass(3 * time.Hour)
	first := l.key
	// It is touched now and then.
	if _, err := l.add(t.Context(), old, &mesh.Event{Execution: old.Execution, Body: mesh.StateNoted{Agent: "main"}}); err != nil {
		t.Fatal(err)
	}
	restart := func() {
		l.restart(c, WithBudgets(budgets))
	}
	l.key = mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
	g := l.run(t, l.post(t), "main", "*")
	if _, err := l.add(t.Context(), g, &mesh.Event{Execution: g.Execution, Body: mesh.StateNoted{Agent: "main"}}); err != nil {
		t.Fatal(err)
	}
	restart()
	l.store.Count()
	l.calls(t, g, 0, 1)
	if n := l.store.Count(); n > large {
		t.Errorf("%d bytes were read to count calls", n)
	}
	// Calls further back than a page are found all the same, before a forged time.
	young := l.key
	l.key = first
	for range 2 * scanPage {
		if _, err := l.add(t.Context(), old, &mesh.Event{Execution: old.Execution, Time: time.UnixMilli(1), Body: mesh.LimitTripped{}}); err != nil {
			t.Fatal(err)
		}
	}
	l.calls(t, old, 5, 4)
	for range 2 * scanPage {
		if _, err := l.add(t.Context(), old, &mesh.Event{Execution: old.Execution, Time: time.UnixMilli(1), Body: mesh.LimitTripped{}}); err != nil {
			t.Fatal(err)
		}
	}
	restart()
	l.key = young
	l.refused(t, g, limit.UserSkillCalls, 5)
}
