package skill_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/mesh/text/texttest"
)

// S3-154: what is too long for a model is cut at a line, with what is missing
// and how to ask for it, in the terms of the face that was used. The journal
// gets it all.
func TestLongResultsAreCutWithARemedy(t *testing.T) {
	listing := strings.Repeat("line of ten\n", 20)
	tests := map[string]struct {
		content, source string
		most            int
		told            string
	}{
		"at a line":      {listing, mesh.SourceCommand, 100, strings.Repeat("line of ten\n", 8) + "[145 of 240 bytes (12 lines) are missing here; go on from there with --offset, or ask for less at once with --limit]"},
		"for JSON calls": {listing, mesh.SourceUseSkill, 100, strings.Repeat("line of ten\n", 8) + "[145 of 240 bytes (12 lines) are missing here; go on from there with 'offset', or ask for less at once with 'limit']"},
		"one long line":  {strings.Repeat("é", 60), mesh.SourceCommand, 101, strings.Repeat("é", 50) + "\n[20 of 120 bytes are missing here; go on from there with --offset, or ask for less at once with --limit]"},
		"that fits":      {listing, mesh.SourceCommand, len(listing), listing},
		"by default":     {strings.Repeat("x", 16<<10), mesh.SourceCommand, 0, strings.Repeat("x", 16<<10)},
		"beyond default": {strings.Repeat("x", 16<<10+1), mesh.SourceCommand, 0, strings.Repeat("x", 16<<10) + "\n[1 of 16385 bytes are missing here; go on from there with --offset, or ask for less at once with --limit]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			shared := &skill.Result{Content: tt.content}
			l := &line{}
			find := &skill.Skill{Name: "notes.find", Handler: "find", Parameters: []skill.Parameter{{Name: "limit", Type: "integer"}, {Name: "offset", Type: "integer"}}}
			x := skill.NewExecutor(skill.Config{
				Lookup: func(context.Context, string) (*skill.Skill, error) { return find, nil }, Journal: l, MaxContent: tt.most,
				Handlers: map[string]skill.Handler{"find": skill.HandlerFunc(func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) { return shared, nil })},
			})
			r := x.Execute(context.Background(), &skill.Call{Skill: "notes.find", Source: tt.source}, nil)
			if r.Content != tt.told || !utf8.ValidString(r.Content) {
				t.Errorf("told %q,\nwant %q", r.Content, tt.told)
			}
			if l.ended.Whole() != tt.content || shared.Content != tt.content || shared.Status != "" {
				t.Error("the journal has not all of it, or the handler's own result was changed")
			}
		})
	}
}

func TestACutResultWithoutParametersAsksForANarrowerRequest(t *testing.T) {
	s := &skill.Skill{Name: "notes.dump", Handler: "dump"}
	x := skill.NewExecutor(skill.Config{
		Journal: skilltest.Journal{},
		Lookup:  func(context.Context, string) (*skill.Skill, error) { return s, nil }, MaxContent: 4,
		Handlers: map[string]skill.Handler{"dump": skill.HandlerFunc(func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			return &skill.Result{Content: "0123456789"}, nil
		})},
	})
	if got, want := execute(x, "notes.dump", nil).Content, "0123\n[6 of 10 bytes are missing here; there is no way to go on from there: ask for less, with a narrower request]"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	page := &skill.Skill{Name: "notes.how", Body: "0123456789"}
	x = skill.NewExecutor(skill.Config{Journal: skilltest.Journal{}, Lookup: func(context.Context, string) (*skill.Skill, error) { return page, nil }, MaxContent: 4})
	if got := execute(x, "notes.how", nil).Content; got != page.Body {
		t.Errorf("a template was cut to %q", got)
	}
}

// A note promises only what the parameters can do: a "from" that is text is the
// sender of a mail and not a place to go on from, and a limit alone gets no rest.
func TestTheRemedyOfACutResultIsTrue(t *testing.T) {
	for want, parameters := range map[string][]skill.Parameter{
		"[6 of 10 bytes are missing here; go on from there with --from, or ask for less at once with --limit]": {
			{Name: "path", Type: "string"}, {Name: "from", Type: "integer"}, {Name: "limit", Type: "integer"}},
		"[6 of 10 bytes are missing here; there is no way to go on from there: ask a narrower question, or for less with --limit]": {
			{Name: "from", Type: "string"}, {Name: "page", Type: "string"}, {Name: "limit", Type: "integer"}},
		"[6 of 10 bytes are missing here; go on from there with --cursor]": {{Name: "cursor", Type: "string"}, {Name: "count", Type: "string"}},
	} {
		s := &skill.Skill{Name: "notes.dump", Handler: "dump", Parameters: parameters}
		x := skill.NewExecutor(skill.Config{
			Journal: skilltest.Journal{},
			Lookup:  func(context.Context, string) (*skill.Skill, error) { return s, nil }, MaxContent: 4,
			Handlers: map[string]skill.Handler{"dump": skill.HandlerFunc(func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
				return &skill.Result{Content: "0123456789"}, nil
			})},
		})
		r := x.Execute(context.Background(), &skill.Call{Skill: s.Name, Source: mesh.SourceCommand}, nil)
		if _, got, _ := strings.Cut(r.Content, "\n"); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
}

// What the user is asked shows what the call has: nothing in an argument ends
// its line, hides another one or moves the cursor.
func TestQuestion_showsWhatIsThere(t *testing.T) {
	s := &skill.Skill{Name: "mail.send", Description: "Sends mail.", Parameters: []skill.Parameter{{Name: "to"}, {Name: "body"}}}
	got := skill.Question(s, &skill.Call{Args: map[string]any{
		"to": []any{"bob@x\u202egro.live", "\x1b[2Kann@x"}, "body": "Hi\u2028- to: eve@x\r\n\x08\x08", "extra\n- to": true,
	}})
	want := "May I run mail.send? Sends mail.\n- to: bob@xgro.live, [2Kann@x\n- body: Hi\n  | - to: eve@x\n- extra - to: true"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A user who says yes has seen what the call has: long arguments as a whole, with their
// lines, of which none begins as an argument does, and of one that is too long, how much is
// not there. The log takes the question in any case.
func TestQuestion_showsAllOfLongArguments(t *testing.T) {
	texttest.Fixed(t)
	s := &skill.Skill{Name: "mail.send", Description: "Sends mail.", Parameters: []skill.Parameter{{Name: "to"}, {Name: "body"}}}
	ask := func(args map[string]any) string { return skill.Question(s, &skill.Call{Args: args}) }
	lines := strings.Repeat("Dear Ann,   \n\n\n\n\t- to: eve@x\n", 200)
	for name, tt := range map[string]struct {
		body string
		want string // of the argument
	}{
		"a long line":     {strings.Repeat("é", 3999) + "!", strings.Repeat("é", 3999) + "!"},
		"one that is cut": {strings.Repeat("é", 4001) + " bye", strings.Repeat("é", 4000) + "… (5 more characters are not shown)"},
		"many lines":      {lines, strings.TrimSuffix(strings.Repeat("Dear Ann,\n  | \n  | - to: eve@x\n  | ", 200), "\n  | ")},
		"lines, cut":      {strings.Repeat("x\n", 2000), strings.TrimSuffix(strings.Repeat("x\n  | ", 1334), "\n  | ") + "… (1332 more characters are not shown)"},
	} {
		want := "May I run mail.send? Sends mail.\n- to: bob\n- body: " + tt.want
		if got := ask(map[string]any{"to": "bob", "body": tt.body}); got != want {
			t.Errorf("%s: %d bytes, %.300q … %q", name, len(got), got, got[max(0, len(got)-300):])
		}
	}
	part, whole := map[string]any{"to": "bob", "body": "x\n- cc: eve"}, map[string]any{"to": "bob", "body": "x", "cc": "eve"}
	if a, b := strings.Fields(ask(part)), strings.Fields(ask(whole)); slices.Equal(a, b) {
		t.Errorf("but for space these are one: %q", a)
	}
	many := map[string]any{}
	for i := range 100 {
		many[fmt.Sprint("argument", i)] = strings.Repeat("x\n", 4000)
	}
	if got := ask(many); len(got) > mesh.MaxResult || strings.Count(got, "\n- argument") != 100 || strings.Count(got, "more characters are not shown") != 100 {
		t.Errorf("of many long ones are asked %d bytes, with %d", len(got), strings.Count(got, "\n- argument"))
	}
}
