package admission

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// part of T2: the node itself knows which calls the user has to approve, and takes one
// only as it was approved: once, of that version, with those arguments.
func TestACallIsMadeAsItWasApproved(t *testing.T) {
	t.Parallel()
	skills := &shelf{of: map[mesh.TenantID]*skill.Catalog{"acme": new(skill.Catalog)}}
	for name, front := range map[string]string{"mail.send": "requires_approval: true", "mail.draft": "access: write", "mail.wipe": "confirm: Really?"} {
		s, err := skill.Parse("", []byte("---\nname: "+name+"\ndescription: Does.\nhandler: mail.send\n"+front+"\nparameters:\n  - {name: to, type: string, default: all}\n---\n# x\n"))
		if err != nil {
			t.Fatal(err)
		}
		s.Version = "1"
		skills.of["acme"].Put(s)
	}
	l := newLibrary(t, WithSkills(skills))
	turn := l.post(t)
	// One for each case: in each the user was asked about mail.send to bob, and said yes.
	approved := func(user *mesh.SkillCall) *mesh.Grant {
		t.Helper()
		mine := l.run(t, turn, "main", "mail.*")
		if user != nil {
			mine = l.requested(t, turn, *user)
		}
		asked := mesh.ApprovalAsked{Call: "a", Skill: "mail.send", Version: "1", Args: `{"to":"bob"}`, Text: "May I do nothing?"}
		if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: asked}); err != nil {
			t.Fatal(err)
		}
		if ask := l.shows(t, turn, mine, "a"); !strings.Contains(ask, "mail.send") || !strings.Contains(ask, "- to: bob") {
			t.Errorf("the user is asked %q", ask)
		}
		l.says(t, turn, "yes")
		if _, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalSettled{Call: "a", Approved: true}}); err != nil {
			t.Fatal(err)
		}
		return mine
	}
	call := func(call, name, version, args string) *mesh.Event {
		return &mesh.Event{Body: mesh.SkillCalled{Call: call, Skill: name, Version: version, Args: args}}
	}
	byUser := &mesh.SkillCall{Skill: "mail.wipe", Arguments: map[string]any{}, Source: mesh.SourceRun, Approved: true}
	for name, tt := range map[string]struct {
		user *mesh.SkillCall // made by the user's own message
		call *mesh.Event
		ok   bool
	}{
		"as it was asked":                   {nil, call("a", "mail.send", "1", `{"to":"bob"}`), true},
		"with other arguments":              {nil, call("a", "mail.send", "1", `{"to":"eve"}`), false},
		"with more arguments":               {nil, call("a", "mail.send", "1", `{"bcc":"eve","to":"bob"}`), false},
		"of another version":                {nil, call("a", "mail.send", "2", `{"to":"bob"}`), false},
		"another call":                      {nil, call("b", "mail.send", "1", `{"to":"bob"}`), false},
		"another skill that asks":           {nil, call("a", "mail.wipe", "1", `{"to":"bob"}`), false},
		"a skill that does not ask":         {nil, call("b", "mail.draft", "1", `{}`), true},
		"a skill of the agent's own":        {nil, call("b", "mail.own", "1", `{}`), true},
		"which the user made":               {byUser, call("run", "mail.wipe", "1", `{"to":"all"}`), true},
		"not with those of the user":        {byUser, call("run", "mail.wipe", "1", `{"to":"bob"}`), false},
		"another one than the user made":    {byUser, call("run", "mail.send", "1", `{"to":"all"}`), false},
		"which the user did not approve":    {&mesh.SkillCall{Skill: "mail.wipe", Source: mesh.SourceRun}, call("run", "mail.wipe", "1", `{"to":"all"}`), false},
		"which the user made, of bad forms": {&mesh.SkillCall{Skill: "mail.wipe", Arguments: map[string]any{"no": "x"}, Approved: true}, call("run", "mail.wipe", "1", `{"no":"x"}`), false},
	} {
		mine := approved(tt.user)
		tt.call.Execution = mine.Execution
		_, err := l.add(t.Context(), mine, tt.call)
		switch {
		case tt.ok && err != nil:
			t.Errorf("%s: %v", name, err)
		case !tt.ok:
			wantCode(t, err, mesh.Precondition, "is not approved")
			continue
		}
		if _, err := l.add(t.Context(), mine, tt.call); err != nil {
			t.Errorf("%s, sent again: %v", name, err)
		}
		again := *tt.call
		again.ID = ""
		if _, err := l.add(t.Context(), mine, &again); (err == nil) != (again.Body.(mesh.SkillCalled).Skill == "mail.draft" || again.Body.(mesh.SkillCalled).Skill == "mail.own") {
			t.Errorf("%s, once more: %v", name, err)
		}
	}
	mine := approved(nil)
	var made atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			e := call("a", "mail.send", "1", `{"to":"bob"}`)
			e.Execution = mine.Execution
			if _, err := l.add(t.Context(), mine, e); err == nil {
				made.Add(1)
			}
		})
	}
	if all.Wait(); made.Load() != 1 {
		t.Errorf("one yes made %d calls", made.Load())
	}
}

// requested opens an execution for a call that the user's own message makes, and returns
// its grant.
func (l *library) requested(t *testing.T, turn mesh.ExecutionID, c mesh.SkillCall) *mesh.Grant {
	t.Helper()
	g := l.run(t, turn, "worker", "mail.*") // of which the id is to be another
	x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: turn, Kind: mesh.KindAgent, Agent: "worker", User: "ann", Skills: []string{"mail.*"}}
	metadata, err := c.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	m := mesh.Say("go")
	m.Metadata = metadata
	if err := l.decide(t.Context(), &mesh.Event{Execution: turn, Body: mesh.DispatchIssued{Child: x, Message: m}}); err != nil {
		t.Fatal(err)
	}
	g.Execution = x.ID
	return g
}
