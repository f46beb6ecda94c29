package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
)

// No agent approves its own calls: a yes counts after a message of the user that
// came after the question; and a call that waits is not made.
func TestOnlyAMessageOfTheUserApproves(t *testing.T) {
	l, _ := timed(t, limit.Budgets{})
	turn := l.post(t)
	l.says(t, turn, "mail Bob") // before the question
	mine := l.run(t, turn, "main", "mail.*")
	ask := func(call string) *mesh.Event {
		return &mesh.Event{ID: "ask " + call, Execution: mine.Execution, Body: mesh.ApprovalAsked{Call: call, Skill: "mail.send", Args: "{}", Text: "Send " + call + "?"}}
	}
	settle := func(call string, yes bool) *mesh.Event {
		return &mesh.Event{ID: fmt.Sprint("settle ", call, yes), Execution: mine.Execution, Body: mesh.ApprovalSettled{Call: call, Approved: yes}}
	}
	add := func(code mesh.Code, events ...*mesh.Event) {
		t.Helper()
		if _, err := l.add(t.Context(), mine, events...); code != mesh.Unknown {
			wantCode(t, err, code)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	add(mesh.Unknown, ask("a"), ask("b"))
	add(mesh.Unknown, ask("a")) // sent again
	l.asks(t, turn, "1. Send a?\n\n2. Send b?")
	add(mesh.Precondition, settle("a", true))
	add(mesh.Precondition, calling(mine, "a"))
	add(mesh.Unknown, settle("b", false)) // a no needs no word of the user
	add(mesh.Precondition, settle("b", true))
	l.says(t, turn, "what?")
	add(mesh.Precondition, settle("a", true)) // that was no yes
	l.says(t, turn, "no")
	add(mesh.Precondition, settle("a", true))
	l.says(t, turn, "yes, please")
	add(mesh.Unknown, ask("c"))
	l.asks(t, turn, "Send c?")
	add(mesh.Precondition, settle("c", true)) // that was not the answer to this
	l.asks(t, turn, "Shall I go on?")
	l.says(t, turn, "yes")
	add(mesh.Precondition, settle("c", true)) // nor was that
	add(mesh.Unknown, ask("d"))
	l.asks(t, turn, "Send d?")
	l.says(t, turn, "yes")
	l.asks(t, turn, "Send d?")
	add(mesh.Precondition, settle("d", true)) // it is asked again
	add(mesh.Unknown, settle("d", false))
	add(mesh.Precondition, settle("c", false), calling(mine, "c"))
	add(mesh.Unknown, settle("a", true), calling(mine, "a"))
	add(mesh.Unknown, settle("a", true)) // sent again
	add(mesh.Precondition, &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalSettled{Call: "a", Approved: true}})
	err := l.states.With(t.Context(), l.key, func(s *thread.State) error {
		if w := s.Execution(mine.Execution).Approvals; len(w) != 1 || w[0].Call != "c" || w[0].Text != "Send c?" {
			t.Errorf("waiting: %+v", w)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < thread.MaxApprovals; i++ {
		add(mesh.Unknown, ask(fmt.Sprint(i)))
	}
	add(mesh.Exhausted, ask("more"))
}

// part of T3: a yes is the user's whose turn it is, or of who may approve for all.
func TestAYesOfAnotherUserApprovesNothing(t *testing.T) {
	for who, tt := range map[string]struct {
		user  string
		roles []mesh.Role
		ok    bool
	}{
		"a colleague":            {"eve", []mesh.Role{mesh.RoleUser, mesh.RoleAgentPublisher}, false},
		"one who may read":       {"eve", []mesh.Role{mesh.RoleAuditor}, false},
		"the user":               {"ann", nil, true},
		"an approver":            {"eve", []mesh.Role{mesh.RoleApprover}, true},
		"one of another's roles": {"eve", []mesh.Role{"nobody"}, false},
	} {
		l, _ := timed(t, limit.Budgets{})
		turn := l.post(t)
		mine := l.run(t, turn, "main", "mail.*")
		if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{Call: "a", Skill: "mail.send", Args: "{}", Text: "Send a?"}}); err != nil {
			t.Fatal(err)
		}
		l.asks(t, turn, "Send a?")
		l.speaks(t, turn, tt.user, "yes", tt.roles...)
		_, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalSettled{Call: "a", Approved: true}})
		if tt.ok && err != nil || !tt.ok && !mesh.IsCode(err, mesh.Precondition) {
			t.Errorf("%s says yes: %v", who, err)
		}
	}
}

// What the user did not read was not answered: an agent that passes a question
// on cannot put another one in its place.
func TestAYesToAnotherQuestionApprovesNothing(t *testing.T) {
	l, _ := timed(t, limit.Budgets{})
	turn := l.post(t)
	main := l.run(t, turn, "main", "mail.*")
	mine := l.child(t, main, 0)
	text := "May I run mail.send?\n- to: bob"
	settle := &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalSettled{Call: "a", Approved: true}}
	if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{Call: "a", Skill: "mail.send", Args: "{}", Text: text}}); err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{"Shall I go on?", text + "@example.com", text + "\n- cc: eve"} {
		l.asks(t, turn, shown)
		l.says(t, turn, "yes")
		_, err := l.add(t.Context(), mine, settle)
		wantCode(t, err, mesh.Precondition, "has not said yes")
	}
	l.asks(t, turn, "1. May I?\n\n2. May I run mail.send?\n   - to: bob\n\nYour answer counts for all of these.")
	_, err := l.add(t.Context(), mine, settle)
	wantCode(t, err, mesh.Precondition, "has not said yes")
	l.says(t, turn, "yes")
	if _, err := l.add(t.Context(), mine, settle, calling(mine, "a")); err != nil {
		t.Error(err)
	}
}

// finding C8: nor by saying that it asks one question where it asks another.
func TestAStatusThatSaysWhatItDoesNotAskApprovesNothing(t *testing.T) {
	l, _ := timed(t, limit.Budgets{})
	turn := l.post(t)
	main := l.run(t, turn, "main", "mail.*")
	mine := l.child(t, main, 0)
	const text = "May I run mail.send?\n- to: bob"
	if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{Call: "a", Skill: "mail.send", Args: "{}", Text: text}}); err != nil {
		t.Fatal(err)
	}
	settle := &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalSettled{Call: "a", Approved: true}}
	for i, shown := range []string{"Shall I go on?", text + "@example.com", "zug: " + text, text} {
		q := mesh.Question{Execution: mine.Execution, Call: "a", Text: text, At: strings.Index(shown, "May"), Size: len(text)}
		if i == 0 {
			q.At, q.Size = 0, len(shown)
		}
		l.asks(t, turn, shown, q)
		l.says(t, turn, "yes")
		if _, err := l.add(t.Context(), mine, settle); i < 3 {
			wantCode(t, err, mesh.Precondition, "has not said yes")
		} else if err != nil {
			t.Error(err)
		}
	}
}

// An agent that waited for the user, below the one that dispatched it, goes on
// under a fresh grant that has what the first one had.
func TestAChildThatWaitedGoesOnUnderAFreshGrant(t *testing.T) {
	l, c := timed(t, limit.Budgets{})
	turn := l.post(t)
	main := l.run(t, turn, "main", "mail.*", "tasks.*")
	first := l.child(t, main, 0)
	other := l.child(t, main, 0)
	move := func(g *mesh.Grant, state mesh.TaskState, reason, id string) Admitted {
		t.Helper()
		res, err := l.add(t.Context(), main, &mesh.Event{ID: id, Execution: g.Execution, Body: mesh.TaskMoved{State: state, Reason: reason}})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	working, waits := a2apb.TaskState_TASK_STATE_WORKING, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	for name, res := range map[string]Admitted{
		"works":                       move(first, working, "", "1"),
		"does not wait":               move(first, working, mesh.ReasonDelivered, "2"),
		"waits":                       move(first, waits, "", "3"),
		"waits for something else":    move(other, a2apb.TaskState_TASK_STATE_AUTH_REQUIRED, "", "4"),
		"has that":                    move(other, working, mesh.ReasonDelivered, "5"),
		"works for another reason":    move(first, working, "", "6"),
		"waits again":                 move(first, waits, "", "7"),
		"waits and is told something": move(first, waits, mesh.ReasonDelivered, "8"),
	} {
		if len(res.Grants) != 0 {
			t.Errorf("an agent that %s has a new grant", name)
		}
	}
	c.pass(10 * time.Minute) // the first grant is over
	l.says(t, turn, "yes")
	var fresh *mesh.Grant
	for range 2 { // and again, as the answer was lost
		res := move(first, working, mesh.ReasonDelivered, "go on")
		fresh = issued(t, res, first.Execution)
		if len(res.Grants) != 1 {
			t.Errorf("%d grants", len(res.Grants))
		}
	}
	if want := l.now().Add(5 * time.Minute).Unix(); fresh.Expires != want {
		t.Errorf("it ends at %d, want %d", fresh.Expires, want)
	}
	fresh.Expires = first.Expires
	if diff := cmp.Diff(first, fresh); diff != "" {
		t.Errorf("(-first +fresh)\n%s", diff)
	}
	// Who did not dispatch it gets nothing.
	_, err := l.add(t.Context(), other, &mesh.Event{Execution: first.Execution, Body: mesh.TaskMoved{State: working, Reason: mesh.ReasonDelivered}})
	wantCode(t, err, mesh.Denied)
	// Nor does a grant outlive that of who goes on with it.
	move(first, waits, "", "9")
	c.pass(time.Duration(main.Expires-l.now().Unix()-60) * time.Second)
	res := move(first, working, mesh.ReasonDelivered, "10")
	if g := issued(t, res, first.Execution); g.Expires != main.Expires {
		t.Errorf("it ends at %d, the parent's at %d", g.Expires, main.Expires)
	}
}
