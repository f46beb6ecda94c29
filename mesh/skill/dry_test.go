package skill_test

import (
	"context"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// A dryJournal has no call made.
type dryJournal struct{ line }

func (j *dryJournal) Begin(context.Context, *skill.Skill, *skill.Call) (skill.Begun, error) {
	j.note("begin")
	return skill.Begun{NotMade: true}, nil
}

// A call that is not to be made runs no handler and asks nobody; its caller is told what it would
// have sent, and that it goes on. It is settled, nobody is told of it, and it says nothing of the
// skill's health, also where it could not have been made.
func TestACallThatIsNotMadeIsShown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		shows  func(*skill.Call, *skill.Env) (string, error)
		status string
		says   string
	}{
		"without more": {nil, skill.StatusOK, "'notes.save' was not called"},
		"as a request": {func(c *skill.Call, _ *skill.Env) (string, error) { return "POST " + c.String("text"), nil }, skill.StatusOK, "It would have sent:\n\nPOST a note"},
		"that is wrong": {func(*skill.Call, *skill.Env) (string, error) {
			return "", mesh.Errorf(mesh.Precondition, "x", "no such host")
		}, skill.StatusError, "no such host"},
		"that breaks off": {func(*skill.Call, *skill.Env) (string, error) { panic("boo") }, skill.StatusError, "internal error"},
	} {
		j := &dryJournal{}
		h := skill.HandlerFunc(func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			t.Errorf("%s: the handler runs", name)
			return &skill.Result{}, nil
		})
		if tt.shows != nil {
			h = h.Showing(tt.shows).In(func(*skill.Env) {})
		}
		c := load(t, files(map[string]string{"notes/save.md": strings.Replace(noteFile, "handler: notes.save", "handler: notes.save\nconfirm: Really?", 1)}))
		x := skill.NewExecutor(skill.Config{Lookup: skill.Lookup(c.Get), Handlers: map[string]skill.Handler{"notes.save": h}, Dry: true, Approver: j, Breaker: j, Journal: j, Notifier: j})
		r := x.Execute(t.Context(), &skill.Call{ID: "c", Skill: "notes.save", Args: map[string]any{"text": "a note"}}, nil)
		if r.Status != tt.status || !strings.Contains(r.Content, tt.says) || (tt.shows != nil && r.Status == skill.StatusOK) != (r.Metadata[skill.KeyRequest] == "POST a note") {
			t.Errorf("%s: %+v", name, r)
		}
		if got := strings.Join(j.passed, ", "); got != "breaker, begin, end "+tt.status+", unused" {
			t.Errorf("%s: passed %s", name, got)
		}
	}
}
