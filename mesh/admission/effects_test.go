package admission

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentmesh/mesh"
)

const alert = "---\nname: ops.alert\ndescription: Alerts.\nschedule: '0 9 * * *'\ntimezone: Europe/Berlin\n---\n# ops.alert\n\nAlert everybody.\n"

// finding T6: what an agent has the mesh do with skills, its user has said yes to, having
// seen all of it: for just that, once, and not before.
func TestAnAgentCreatesASkillAsItsUserHasApprovedIt(t *testing.T) {
	t.Parallel()
	other := strings.Replace(alert, "everybody", "nobody", 1)
	authors := []mesh.Role{mesh.RoleUser, mesh.RoleSkillAuthor}
	for name, tt := range map[string]struct {
		capable bool
		roles   []mesh.Role
		unasked bool
		shown   string // instead of what the mesh asks
		said    string
		source  string // that is created in the end
		made    int
	}{
		"after a yes":                       {true, authors, false, "", "yes", alert, 1},
		"without a question":                {true, authors, true, "Shall I go on?", "yes", alert, 0},
		"before an answer":                  {true, authors, false, "", "", alert, 0},
		"after a no":                        {true, authors, false, "", "no", alert, 0},
		"after another word":                {true, authors, false, "", "what is that?", alert, 0},
		"of another text":                   {true, authors, false, "", "yes", other, 0},
		"at another time":                   {true, authors, false, "", "yes", strings.Replace(alert, "0 9", "0 8", 1), 0},
		"of another name":                   {true, authors, false, "", "yes", strings.Replace(alert, "name: ops.alert", "name: ops.other", 1), 0},
		"after a yes to another question":   {true, authors, false, "Shall I go on?", "yes", alert, 0},
		"after a yes to half of it":         {true, authors, false, "May I create the skill ops.alert from this file?", "yes", alert, 0},
		"for a user who may not":            {true, []mesh.Role{mesh.RoleUser}, false, "", "", alert, 0},
		"by an agent that nobody trusts so": {false, authors, false, "", "", alert, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLibrary(t)
			turn := l.post(t)
			l.speaks(t, turn, "ann", "make a skill", tt.roles...)
			mine := l.run(t, turn, "builder", "*")
			if tt.capable {
				mine.Capabilities = []mesh.Capability{mesh.CapCreateSkill}
			}
			if !tt.unasked {
				_, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{
					Call: "a", Skill: mesh.CallCreateSkill, Args: mesh.CreateSkillArgs(alert), Text: "May I do nothing?"}})
				if !tt.capable || len(tt.roles) == 1 {
					wantCode(t, err, mesh.Denied, "may create no skills")
					return
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if tt.shown != "" {
				l.asks(t, turn, tt.shown)
			} else if ask := l.shows(t, turn, mine, "a"); !strings.Contains(ask, alert) || !strings.Contains(ask, "0 9 * * * Europe/Berlin") {
				t.Errorf("the user is shown\n%s", ask)
			}
			if tt.said != "" {
				l.speaks(t, turn, "ann", tt.said, tt.roles...)
			}
			var made, refused atomic.Int32
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					err := l.Effect(t.Context(), mine, mesh.CallCreateSkill, mesh.CreateSkillArgs(tt.source), func() error { made.Add(1); return nil })
					if mesh.IsCode(err, mesh.Precondition) {
						refused.Add(1)
					}
				})
			}
			if all.Wait(); int(made.Load()) != tt.made || int(refused.Load()) != 8-tt.made {
				t.Errorf("created %d times, and refused %d times", made.Load(), refused.Load())
			}
			called, returned := bodies[mesh.SkillCalled](t, l), bodies[mesh.SkillReturned](t, l)
			if len(called) != tt.made || len(returned) != tt.made || tt.made > 0 && (called[0].Args != mesh.CreateSkillArgs(alert) || returned[0].Failed) {
				t.Errorf("logged %+v and %+v", called, returned)
			}
		})
	}
}

// The log says what the mesh did, and no agent says it instead. What failed is over with
// its yes.
func TestOnlyTheMeshNotesWhatItDid(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	turn := l.post(t)
	l.speaks(t, turn, "ann", "make a skill", mesh.RoleSkillAuthor)
	mine := l.run(t, turn, "builder", "*")
	mine.Capabilities = []mesh.Capability{mesh.CapCreateSkill}
	args := mesh.CreateSkillArgs(alert)
	ask := &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{Call: "a", Skill: mesh.CallCreateSkill, Args: args}}
	if _, err := l.add(t.Context(), mine, ask); err != nil {
		t.Fatal(err)
	}
	l.shows(t, turn, mine, "a")
	l.speaks(t, turn, "ann", "yes", mesh.RoleSkillAuthor)
	_, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.SkillCalled{Call: "a", Skill: mesh.CallCreateSkill, Args: args}})
	wantCode(t, err, mesh.Denied, "the mesh itself")
	full := errors.New("the disk is full")
	err = l.Effect(t.Context(), mine, mesh.CallCreateSkill, args, func() error {
		_, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.SkillReturned{Call: "a/effect"}})
		wantCode(t, err, mesh.Denied, "the mesh itself")
		return full
	})
	if !errors.Is(err, full) {
		t.Errorf("it failed with %v", err)
	}
	if r := bodies[mesh.SkillReturned](t, l); len(r) != 1 || !r[0].Failed {
		t.Errorf("logged %+v", r)
	}
	err = l.Effect(t.Context(), mine, mesh.CallCreateSkill, args, func() error { t.Error("done twice"); return nil })
	wantCode(t, err, mesh.Precondition, "has not said yes")
	for name, args := range map[string]string{
		"no skill": mesh.CreateSkillArgs("hello"), "with a handler": mesh.CreateSkillArgs("---\nname: a.b\ndescription: x\nhandler: mail.send\n---\n# x\n"),
		"spaces": `{"source": "x"}`, "other fields": `{"source":"x","y":1}`, "none": "",
	} {
		_, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{Call: "b", Skill: mesh.CallCreateSkill, Args: args}})
		if !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("asked about %s: %v", name, err)
		}
	}
}

// Who makes the very request in a message of their own has approved it.
func TestARequestOfTheUserIsAYes(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	turn := l.post(t)
	l.speaks(t, turn, "ann", "make it", mesh.RoleSkillAuthor)
	mine := l.requested(t, turn, mesh.SkillCall{Skill: mesh.CallCreateSkill, Arguments: map[string]any{"source": alert}, Approved: true})
	mine.Capabilities = []mesh.Capability{mesh.CapCreateSkill}
	made := 0
	create := func(source string) error {
		return l.Effect(t.Context(), mine, mesh.CallCreateSkill, mesh.CreateSkillArgs(source), func() error { made++; return nil })
	}
	wantCode(t, create(alert+"More.\n"), mesh.Precondition)
	if err := create(alert); err != nil || made != 1 {
		t.Errorf("created %d times: %v", made, err)
	}
	wantCode(t, create(alert), mesh.Precondition)
}
