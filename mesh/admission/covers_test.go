package admission

import (
	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"strings"
	"testing"
)

// What an agent adds is bound to its grant (architecture, "The thread log").
func TestAnExecutionAddsOnlyWhatItsGrantCovers(t *testing.T) {
	l := newLibrary(t)
	turn := l.post(t)
	mine, other := l.run(t, turn, "mailer", "mail.send"), l.run(t, turn, "writer", "docs.*")
	child := func(agent string, skills ...string) mesh.Execution {
		return mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: mine.Execution, Kind: mesh.KindAgent, Agent: agent, User: "ann", Skills: skills}
	}
	traced := func(parent string) mesh.Execution {
		x := child("helper", "mail.send")
		x.Traceparent = parent
		return x
	}
	done := a2apb.TaskState_TASK_STATE_COMPLETED
	for name, tt := range map[string]struct {
		event *mesh.Event
		code  mesh.Code
	}{
		"output of another agent":     {&mesh.Event{Execution: other.Execution, Body: mesh.ArtifactAppended{}}, mesh.Denied},
		"the end of the turn":         {&mesh.Event{Execution: turn, Body: mesh.TaskMoved{State: done}}, mesh.Denied},
		"its own end":                 {&mesh.Event{Execution: mine.Execution, Body: mesh.TaskMoved{State: done}}, mesh.Denied},
		"words of the user":           {&mesh.Event{Execution: mine.Execution, Body: mesh.MessagePosted{User: "ann"}}, mesh.Denied},
		"a handoff":                   {&mesh.Event{Execution: mine.Execution, Body: mesh.HandoffStarted{To: "mailer"}}, mesh.Denied},
		"a claim of the thread":       {&mesh.Event{Execution: mine.Execution, Body: mesh.ThreadClaimed{Epoch: 9}}, mesh.Denied},
		"the end of another agent":    {&mesh.Event{Execution: mine.Execution, Body: mesh.DispatchSettled{Child: other.Execution, State: done}}, mesh.Denied},
		"the note of another agent":   {&mesh.Event{Execution: mine.Execution, Body: mesh.StateNoted{Agent: "writer"}}, mesh.Denied},
		"a call of a skill not given": {&mesh.Event{Execution: mine.Execution, Body: mesh.SkillCalled{Skill: "docs.write"}}, mesh.Denied},
		"a call of a skill given":     {&mesh.Event{Execution: mine.Execution, Body: mesh.SkillCalled{Skill: "mail.send"}}, mesh.Unknown},
		"a child with more skills":    {&mesh.Event{Execution: mine.Execution, Body: mesh.DispatchIssued{Child: child("helper", "*")}}, mesh.Denied},
		"a child with its skills":     {&mesh.Event{Execution: mine.Execution, Body: mesh.DispatchIssued{Child: child("helper", "mail.send")}}, mesh.Unknown},
		"a child that is itself":      {&mesh.Event{Execution: mine.Execution, Body: mesh.DispatchIssued{Child: child("mailer")}}, mesh.Denied},
		"an id as long as a book":     {&mesh.Event{ID: strings.Repeat("x", 129), Execution: mine.Execution, Body: mesh.LimitTripped{}}, mesh.Invalid},
		"a tool's return":             {&mesh.Event{Execution: mine.Execution, Body: mesh.ToolReturned{Call: "c", Name: "get_skill", Content: "mail"}}, mesh.Unknown},
		"a tool's of another agent":   {&mesh.Event{Execution: other.Execution, Body: mesh.ToolReturned{Call: "c", Name: "get_skill"}}, mesh.Denied},
		"a tool without a name":       {&mesh.Event{Execution: mine.Execution, Body: mesh.ToolReturned{Call: "c"}}, mesh.Invalid},
		"a tool that returns a book":  {&mesh.Event{Execution: mine.Execution, Body: mesh.ToolReturned{Name: "x", Content: long(mesh.MaxResult)}}, mesh.Invalid},
		"a question":                  {&mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{Call: "a1", Skill: "mail.send", Text: "Send?"}}, mesh.Unknown},
		"a question for another":      {&mesh.Event{Execution: other.Execution, Body: mesh.ApprovalAsked{Call: "a1", Skill: "mail.send", Text: "Send?"}}, mesh.Denied},
		"a question of no skill":      {&mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{Call: "a1", Skill: "docs.write", Text: "Write?"}}, mesh.Denied},
		"a question without words":    {&mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{Call: "a1", Skill: "mail.send"}}, mesh.Invalid},
		"a question without a call":   {&mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{Skill: "mail.send", Text: "Send?"}}, mesh.Invalid},
		"a question about a book":     {&mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{Call: "a1", Skill: "mail.send", Text: "Send?", Args: long(mesh.MaxResult)}}, mesh.Invalid},
		"an answer to nothing":        {&mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalSettled{Call: "a2"}}, mesh.Precondition},
		"an answer of a book":         {&mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalSettled{Call: "a1", Text: long(mesh.MaxResult)}}, mesh.Invalid},
		"an answer for another":       {&mesh.Event{Execution: other.Execution, Body: mesh.ApprovalSettled{Call: "a1"}}, mesh.Denied},
		"a call with an id like that": {&mesh.Event{Execution: mine.Execution, Body: mesh.SkillCalled{Call: long(maxName), Skill: "mail.send"}}, mesh.Invalid},
		"a child in no trace":         {&mesh.Event{Execution: mine.Execution, Body: mesh.DispatchIssued{Child: traced("00-1-2-01")}}, mesh.Invalid},
		"a child in a long trace":     {&mesh.Event{Execution: mine.Execution, Body: mesh.DispatchIssued{Child: traced("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x")}}, mesh.Invalid},
		"a child in a trace":          {&mesh.Event{Execution: mine.Execution, Body: mesh.DispatchIssued{Child: traced("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")}}, mesh.Unknown},
		"a limit with a name":         {&mesh.Event{Execution: mine.Execution, Body: mesh.LimitTripped{Limit: "agent.steps"}}, mesh.Unknown},
		"a limit with a long name":    {&mesh.Event{Execution: mine.Execution, Body: mesh.LimitTripped{Limit: long(maxName)}}, mesh.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := l.add(t.Context(), mine, tt.event)
			if tt.code == mesh.Unknown {
				if err != nil {
					t.Errorf("it was refused: %v", err)
				}
				return
			}
			wantCode(t, err, tt.code)
		})
	}
}

// What has as many bytes as it may is taken, and what has one more is not.
func TestTextsHaveAsMuchAsTheyMay(t *testing.T) {
	l := newLibrary(t)
	mine := l.run(t, l.post(t), "mailer", "mail.send")
	child := mesh.NewExecutionID(l.key.ID)
	issue := mesh.DispatchIssued{Child: mesh.Execution{ID: child, Parent: mine.Execution, Kind: mesh.KindAgent, Agent: "helper", User: "ann"}}
	for _, body := range []mesh.Body{issue, mesh.SkillCalled{Call: "c", Skill: "mail.send"}} {
		if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		most int
		body func(string) mesh.Body
	}{
		"a limit's name":    {maxName, func(s string) mesh.Body { return mesh.LimitTripped{Limit: s} }},
		"a limit's detail":  {maxDetail, func(s string) mesh.Body { return mesh.LimitTripped{Limit: "x", Detail: s} }},
		"a tool's result":   {mesh.MaxResult, func(s string) mesh.Body { return mesh.ToolReturned{Name: "x", Content: s} }},
		"a skill's result":  {mesh.MaxResult, func(s string) mesh.Body { return mesh.SkillReturned{Call: "c", Content: s} }},
		"an agent's state":  {mesh.MaxState, func(s string) mesh.Body { return mesh.StateNoted{Agent: "mailer", Data: []byte(s)} }},
		"a child's result":  {mesh.MaxResult, func(s string) mesh.Body { return mesh.DispatchSettled{Child: child, State: completed, Result: s} }},
		"a question's text": {mesh.MaxResult, func(s string) mesh.Body { return mesh.ApprovalAsked{Call: "a", Skill: "mail.send", Text: s} }},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: tt.body(long(tt.most))})
			wantCode(t, err, mesh.Invalid)
			if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: tt.body(long(tt.most - 1))}); err != nil {
				t.Errorf("what it may have is refused: %v", err)
			}
		})
	}
}

// long is text of one byte more than most.
func long(most int) string { return strings.Repeat("x", most+1) }

// Whatever an agent's own limit is, one execution does not flood the mesh.
func TestAnExecutionDispatchesAFewAgentsOnly(t *testing.T) {
	const most = 9
	l := newLibrary(t, WithBudgets(limit.Budgets{Children: most, TurnAgents: limit.Unlimited}))
	mine := l.run(t, l.post(t), "main", "*")
	child := func() *mesh.Event {
		return &mesh.Event{Execution: mine.Execution, Body: mesh.DispatchIssued{Child: mesh.Execution{
			ID: mesh.NewExecutionID(l.key.ID), Parent: mine.Execution, Kind: mesh.KindAgent, Agent: "worker", User: "ann", Skills: []string{"mail.send"}}}}
	}
	for n := range most {
		if _, err := l.add(t.Context(), mine, child()); err != nil {
			t.Fatalf("dispatch %d: %v", n+1, err)
		}
	}
	_, err := l.add(t.Context(), mine, child())
	wantTrip(t, err, limit.AgentChildren, most, most)
}
