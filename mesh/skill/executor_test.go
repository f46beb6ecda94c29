package skill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
)

const noteFile = `---
name: notes.save
description: Save a note
handler: notes.save
parameters:
  - {name: text, required: true}
  - {name: kind, enum: [fact, goal], default: fact}
  - {name: count, type: integer}
  - {name: weight, type: float}
  - {name: pinned, type: boolean}
  - {name: loud, type: flag}
  - {name: due-before}
  - {name: tags, type: array}
  - {name: sizes, type: array, items: integer}
  - {name: extra, type: object}
---
Saves.
`

// an executor with notes.save, run by h, and the template notes.explain.
func executor(t *testing.T, h skill.Code, allowed ...func(name string) bool) *skill.Executor {
	t.Helper()
	c := load(t, files(map[string]string{
		"notes/save.md":    noteFile,
		"notes/explain.md": "---\nname: notes.explain\ndescription: Explain\n---\n# Explain well\n",
		"notes/lost.md":    "---\nname: notes.lost\ndescription: Lost\nhandler: nowhere\n---\nx\n",
	}))
	config := skill.Config{
		Journal: skilltest.Journal{},
		Lookup:  skill.Lookup(c.Get), Handlers: map[string]skill.Handler{"notes.save": skill.HandlerFunc(h)},
		Names: func() []string { return names(c.List()) },
	}
	for _, f := range allowed {
		config.Allowed = f
	}
	return skill.NewExecutor(config)
}

// A handler runs with the node's permit for the very call, and not without.
func TestNoHandlerRunsWithoutAPermit(t *testing.T) {
	for name, permit := range map[string]*grant.Permit{
		"none": nil, "made up": new(grant.Permit), "for another call": skilltest.Permit(&skill.Call{ID: "b", Skill: "notes.save", Args: map[string]any{"text": "x"}}),
		"for other arguments": skilltest.Permit(&skill.Call{ID: "a", Skill: "notes.save", Args: map[string]any{"text": "y"}}),
	} {
		ran := false
		h := skill.HandlerFunc(func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			ran = true
			return &skill.Result{}, nil
		})
		call := &skill.Call{ID: "a", Skill: "notes.save", Args: map[string]any{"text": "x"}}
		if _, err := h.Do(t.Context(), permit, call, nil); !mesh.IsCode(err, mesh.Denied) || ran {
			t.Errorf("%s: ran %t, %v", name, ran, err)
		}
	}
	ran := false
	x := skill.NewExecutor(skill.Config{Lookup: skill.Lookup(load(t, files(map[string]string{"notes/save.md": noteFile})).Get),
		Handlers: map[string]skill.Handler{"notes.save": skill.HandlerFunc(func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			ran = true
			return &skill.Result{}, nil
		})}})
	if r := execute(x, "notes.save", map[string]any{"text": "x"}); !r.Failed() || ran {
		t.Errorf("without a journal it ran: %t, %+v", ran, r)
	}
}

func echo(_ context.Context, call *skill.Call, _ *skill.Env) (*skill.Result, error) {
	return &skill.Result{Content: "done", Metadata: map[string]any{"args": call.Args, "key": call.Key}}, nil
}

func execute(x *skill.Executor, name string, args map[string]any) *skill.Result {
	return x.Execute(context.Background(), &skill.Call{Skill: name, Args: args}, nil)
}

// S3-021: scope first, then existence, then arguments; each refusal is a result.
// S0-039, S3-022, S3-080, S3-081, S3-082, S3-083, S3-101, S3-102, S3-105, S3-106, S3-107.
func TestExecutor_refusesInOrder(t *testing.T) {
	onlySave := func(name string) bool { return name == "notes.save" || name == "notes.sav" }
	tests := map[string]struct {
		skill   string
		args    map[string]any
		allowed func(string) bool
		want    string
	}{
		"out of scope, also when unknown":       {"mail.send", nil, onlySave, "Skill 'mail.send' is not available to this agent."},
		"out of scope, also with bad arguments": {"notes.explain", map[string]any{"x": 1}, onlySave, "Skill 'notes.explain' is not available to this agent."},
		"mistyped":                              {"notes.sav", nil, onlySave, "Unknown skill 'notes.sav'. Did you mean 'notes.save'? Call get_skill to discover available skills."},
		"mistyped domain":                       {"note.save", nil, nil, "Unknown skill 'note.save'. Did you mean 'notes.save'? Call get_skill"},
		"nothing like it":                       {"zzz", nil, nil, "Unknown skill 'zzz'. Call get_skill to discover available skills."},
		"no arguments at all":                   {"notes.save", nil, nil, "Invalid arguments for 'notes.save': Missing required field: 'text'. Valid parameters: text (string, required), kind (string), "},
		"blank text":                            {"notes.save", map[string]any{"text": " "}, nil, "Invalid arguments for 'notes.save': Missing required field: 'text'"},
		"unknown argument":                      {"notes.save", map[string]any{"text": "x", "txt": "y"}, nil, "Invalid arguments for 'notes.save': Unknown parameter: 'txt'. Valid"},
		"several at once": {"notes.save", map[string]any{"kind": "x", "count": 1.5}, nil,
			"Invalid arguments for 'notes.save': Missing required field: 'text'; 'kind' must be one of: fact, goal; 'count' must be an integer. Valid"},
		"number as text":  {"notes.save", map[string]any{"text": 5.0}, nil, "Invalid arguments for 'notes.save': 'text' must be a string"},
		"text as boolean": {"notes.save", map[string]any{"text": "x", "pinned": "yes"}, nil, "Invalid arguments for 'notes.save': 'pinned' must be a boolean"},
		"text as list":    {"notes.save", map[string]any{"text": "x", "sizes": []any{1.0, "two"}}, nil, "Invalid arguments for 'notes.save': 'sizes' must be an array whose elements are each an integer"},
		"object as list":  {"notes.save", map[string]any{"text": "x", "tags": map[string]any{}}, nil, "Invalid arguments for 'notes.save': 'tags' must be an array."},
		"list as object":  {"notes.save", map[string]any{"text": "x", "extra": []any{}}, nil, "Invalid arguments for 'notes.save': 'extra' must be an object"},
		"given twice":     {"notes.save", map[string]any{"text": "x", "due-before": "a", "due_before": "b"}, nil, "Invalid arguments for 'notes.save': 'due-before' is given twice"},
		"no handler here": {"notes.lost", nil, nil, "Failed to execute 'notes.lost': its handler 'nowhere' is not installed here."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			x := executor(t, func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
				t.Error("the handler was called")
				return &skill.Result{}, nil
			}, tt.allowed)
			r := x.Execute(context.Background(), &skill.Call{Skill: tt.skill, Args: tt.args}, nil)
			if !r.Failed() || !strings.HasPrefix(r.Content, tt.want) {
				t.Errorf("result is %+v,\nwant an error beginning %q", r, tt.want)
			}
		})
	}
}

// S3-108: arguments reach the handler in the parameters' types, defaults
// included, whether they come from JSON or as text.
func TestExecutor_convertsArguments(t *testing.T) {
	want := map[string]any{
		"text": "x", "kind": "goal", "count": int64(3), "weight": 0.5, "pinned": true, "loud": true, "due-before": "2026-12-01",
		"tags": []any{"a", "b"}, "sizes": []any{int64(1), int64(2)}, "extra": map[string]any{"k": "v"},
	}
	var fromJSON map[string]any
	if err := json.Unmarshal([]byte(`{"text":"x","kind":"goal","count":3,"weight":0.5,"pinned":true,"loud":true,
		"due_before":"2026-12-01","tags":["a","b"],"sizes":[1,2],"extra":{"k":"v"}}`), &fromJSON); err != nil {
		t.Fatal(err)
	}
	fromText := map[string]any{"text": "x", "kind": "goal", "count": "3", "weight": "0.5", "pinned": "true", "loud": "",
		"due-before": "2026-12-01", "tags": "a, b", "sizes": "[1, 2]", "extra": `{"k":"v"}`}
	for name, args := range map[string]map[string]any{"JSON": fromJSON, "text": fromText} {
		r := execute(executor(t, echo), "notes.save", args)
		if diff := cmp.Diff(want, r.Metadata["args"]); diff != "" {
			t.Errorf("%s: %s %s", name, diff, r.Content)
		}
	}
	r := execute(executor(t, echo), "notes.save", map[string]any{"text": "x", "weight": nil})
	if diff := cmp.Diff(map[string]any{"text": "x", "kind": "fact"}, r.Metadata["args"]); diff != "" {
		t.Errorf("defaults: %s", diff)
	}
}

// However wrong a call is, what is told about it is short.
func TestExecutor_boundsWhatItSaysOfAWrongCall(t *testing.T) {
	args := map[string]any{}
	for i := range 10_000 {
		args[fmt.Sprintf("x%d%s", i, strings.Repeat("y", 1000))] = i
	}
	r := execute(executor(t, echo), "notes.save", args)
	if !strings.Contains(r.Content, "and 9980 more like these; Missing required field: 'text'") || len(r.Content) > 4096 {
		t.Errorf("%d bytes: %.200s", len(r.Content), r.Content)
	}
	if r := execute(executor(t, echo), "notes."+strings.Repeat("x", 1<<20), nil); strings.Contains(r.Content, "Did you mean") || len(r.Content) > 1024 {
		t.Errorf("%d bytes: %.200s", len(r.Content), r.Content)
	}
}

func TestExecutor_givesEveryCallAKey(t *testing.T) {
	x := executor(t, echo)
	args := map[string]any{"text": "x"}
	r := x.Execute(context.Background(), &skill.Call{Skill: "notes.save", Args: args, Key: "k1"}, nil)
	if r.Metadata["key"] != "k1" {
		t.Errorf("the key became %v", r.Metadata["key"])
	}
	if a, b := execute(x, "notes.save", args), execute(x, "notes.save", args); a.Metadata["key"] == "" || a.Metadata["key"] == b.Metadata["key"] {
		t.Error("calls without a key share one")
	}
}

func TestExecutor_handsTemplatesToTheModel(t *testing.T) {
	r := execute(executor(t, echo), "notes.explain", nil)
	want := &skill.Result{Status: "ok", Content: "# Explain well",
		Metadata: map[string]any{"type": "template", "requires_interpretation": true}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// S3-023, S3-025, S3-026: what handlers do wrong is a result, of which only
// what is meant for users is told.
func TestExecutor_explainsFailures(t *testing.T) {
	tests := map[string]struct {
		handler skill.Code
		want    string
		logged  string
	}{
		"detail": {func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			return nil, fmt.Errorf("outer: %w", mesh.Errorf(mesh.Unavailable, "op", "The printer is off; switch it on."))
		}, "Failed to execute 'notes.save': The printer is off; switch it on.", ""},
		"field": {func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			return nil, mesh.InvalidField("op", "text", "must rhyme")
		}, "Invalid arguments for 'notes.save': 'text' must rhyme.", ""},
		"secret": {func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			return nil, errors.New("password is hunter2")
		}, "Failed to execute 'notes.save': internal error.", "hunter2"},
		"panic": {func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) { panic("oh no") },
			"Failed to execute 'notes.save': internal error.", "oh no"},
		"nothing": {func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) { return nil, nil },
			"Failed to execute 'notes.save': internal error.", "returned nothing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			x := executor(t, tt.handler)
			r := x.Execute(context.Background(), &skill.Call{Skill: "notes.save", Args: map[string]any{"text": "x"}},
				&skill.Env{Tenant: "acme", Logger: slog.New(slog.NewTextHandler(&log, nil))})
			x.Wait()
			if !r.Failed() || r.Content != tt.want {
				t.Errorf("result is %+v, want %q", r, tt.want)
			}
			if tt.logged != "" && (!strings.Contains(log.String(), tt.logged) || !strings.Contains(log.String(), "tenant=acme")) {
				t.Errorf("log is %q, want %q in it", log.String(), tt.logged)
			}
		})
	}
}

// S3-039, S0-065: a call takes 30 s at most, whether its handler listens or not.
func TestExecutor_endsLateCalls(t *testing.T) {
	handlers := map[string]skill.Code{
		"listening": func(ctx context.Context, _ *skill.Call, _ *skill.Env) (*skill.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"deaf": func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			time.Sleep(time.Hour)
			return &skill.Result{Content: "late"}, nil
		},
	}
	for name, h := range handlers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := executor(t, h)
				start := time.Now()
				r := execute(x, "notes.save", map[string]any{"text": "x"})
				if took := time.Since(start); took != 30*time.Second { // S3-039
					t.Errorf("took %v", took)
				}
				if !r.Failed() || !strings.Contains(r.Content, "did not finish in time") {
					t.Errorf("result is %+v", r)
				}

				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(time.Second, cancel)
				r = x.Execute(ctx, &skill.Call{Skill: "notes.save", Args: map[string]any{"text": "x"}}, nil)
				if !r.Failed() || !strings.Contains(r.Content, "was canceled") {
					t.Errorf("result is %+v", r)
				}
				x.Wait()
			})
		})
	}
}

func TestClosest(t *testing.T) {
	known := []string{"calendar.create", "mail.search", "mail.send", "tasks.search"}
	for name, want := range map[string]string{
		"mail.sned":   "mail.send", // the closest of the domain
		"mail.xs":     "mail.send", // one of the domain, however little alike
		"task.search": "tasks.search",
		"":            "",
		"qqq.zzz":     "",
	} {
		if got := skill.Closest(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// An executor is all that stands between an agent and its skills.
func ExampleExecutor() {
	greet := &skill.Skill{Name: "demo.greet", Handler: "greet", Parameters: []skill.Parameter{{Name: "who", Type: "string", Required: true}}}
	x := skill.NewExecutor(skill.Config{
		Journal: skilltest.Journal{},
		Lookup:  skill.Lookup(func(name string) (*skill.Skill, bool) { return greet, name == greet.Name }),
		Handlers: map[string]skill.Handler{
			"greet": skill.HandlerFunc(func(_ context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
				return &skill.Result{Content: "Hello " + call.String("who") + " of " + string(env.Tenant)}, nil
			}),
		},
	})
	env := &skill.Env{Tenant: "acme"}
	fmt.Println(x.Execute(context.Background(), &skill.Call{Skill: "demo.greet", Args: map[string]any{"who": "Ada"}}, env).Content)
	fmt.Println(x.Execute(context.Background(), &skill.Call{Skill: "demo.greet"}, env).Content)
	// Output:
	// Hello Ada of acme
	// Invalid arguments for 'demo.greet': Missing required field: 'who'. Valid parameters: who (string, required).
}
