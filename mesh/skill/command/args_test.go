package command_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/skill/skilltest"
)

// run parses the line and executes it on the skill. It returns what the handler
// got, or nil and what the model reads.
func run(t *testing.T, s *skill.Skill, line string) (map[string]any, string) {
	t.Helper()
	c, err := command.Parse(line)
	if err != nil {
		return nil, mesh.DetailOf(err)
	}
	var got map[string]any
	x := skill.NewExecutor(skill.Config{
		Journal: skilltest.Journal{},
		Lookup:  func(context.Context, string) (*skill.Skill, error) { return s, nil },
		Handlers: map[string]skill.Handler{s.Handler: skill.HandlerFunc(func(_ context.Context, call *skill.Call, _ *skill.Env) (*skill.Result, error) {
			got = call.Args
			return &skill.Result{Content: "done"}, nil
		})},
	})
	defer x.Wait()
	r := x.Execute(t.Context(), &skill.Call{Skill: c.Skill, Args: command.Args(c.Flags, s)}, nil)
	return got, r.Content
}

// S3-011, S3-085: what a model writes reaches the handler as it is declared.
func TestArgs_areWhatTheExecutorTakes(t *testing.T) {
	s := create()
	s.Parameters[0].Required = false
	for flags, want := range map[string]map[string]any{
		``:                             {},
		`--title Fix the door --share`: nil,
		`--title Fix the door`:         {"title": "Fix the door"},
		`--title ""`:                   {},
		`--tags a`:                     {"tags": []any{"a"}},
		`--tags a,b`:                   {"tags": []any{"a", "b"}},
		`--tags a b,c "d, e" f, ,g`:    {"tags": []any{"a", "b", "c", "d, e", "f", "g"}},
		`--tags "a, b"`:                {"tags": []any{"a", "b"}},
		`--tags '["a, b","c"]'`:        {"tags": []any{"a, b", "c"}},
		`--done`:                       {"done": true},
		`--done false`:                 {"done": false},
		`--due-days 1`:                 {"due-days": int64(1)},
		`--due_days=1`:                 {"due-days": int64(1)},
		`--due-days x`:                 nil,
		`--share 0.5 --open false`:     {"share": 0.5, "open": false},
		`--marks 1 2`:                  {"marks": []any{int64(1), int64(2)}},
		`--marks 1,2`:                  {"marks": []any{int64(1), int64(2)}},
		`--steps '{"a": 1, "b": [2]}'`: {"steps": []any{map[string]any{"a": 1.0, "b": []any{2.0}}}},
		`--steps '{"a": 1}' '{"b":2}'`: {"steps": []any{map[string]any{"a": 1.0}, map[string]any{"b": 2.0}}},
		`--steps '[{"a":1},{"b":2}]'`:  {"steps": []any{map[string]any{"a": 1.0}, map[string]any{"b": 2.0}}},
		`--more '{"b": {"c": "d e"}}'`: {"more": map[string]any{"b": map[string]any{"c": "d e"}}},
		`--more {b}`:                   nil,
		`--unknown 1`:                  nil,
	} {
		got, said := run(t, s, "tasks.create "+flags)
		if want == nil {
			if got != nil || !strings.Contains(said, "Invalid arguments") {
				t.Errorf("%s is taken as %v: %s", flags, got, said)
			}
			continue
		}
		full := map[string]any{"priority": "normal", "tags": []any{"a", "b"}, "due-days": int64(5), "open": true, "more": map[string]any{"a": 1.0}}
		for name, value := range want {
			full[name] = value
		}
		if diff := cmp.Diff(full, got); diff != "" {
			t.Errorf("%s (-want +got), %s:\n%s", flags, said, diff)
		}
	}
}

// S3-087: told what is wrong, a model can put it right.
func TestArgs_leadFromAnErrorToSuccess(t *testing.T) {
	mail := &skill.Skill{Name: "email.send", Handler: "h", Parameters: []skill.Parameter{
		{Name: "to", Type: "array", Required: true}, {Name: "body", Type: "string", Required: true},
	}}
	for _, step := range []struct{ line, says string }{
		{`email.send --to bob --body "Hi`, "opened and never closed"},
		{`email.send --to bob`, "Missing required field: 'body'"},
		{`email.send --to bob --bodytext "Hi Bob"`, "Unknown parameter: 'bodytext'"},
		{`email.send --to bob --body "Hi Bob"`, "done"},
	} {
		if _, said := run(t, mail, step.line); !strings.Contains(said, step.says) {
			t.Errorf("%s: %s, want %s", step.line, said, step.says)
		}
	}
	get := &skill.Skill{Name: "tasks.get", Handler: "h", Parameters: []skill.Parameter{
		{Name: "task_id", Type: "string"}, {Name: "task_ids", Type: "array"}, {Name: "recent", Type: "flag"}, {Name: "limit", Type: "integer"},
	}}
	for line, want := range map[string]map[string]any{
		"tasks.get --task_id t-1":          {"task_id": "t-1"},
		"tasks.get --task-ids t-1,t-2":     {"task_ids": []any{"t-1", "t-2"}},
		"tasks.get --task_ids t-1 t-2":     {"task_ids": []any{"t-1", "t-2"}},
		"tasks.get --recent true":          {"recent": true},
		"tasks.get --recent --limit 3":     {"recent": true, "limit": int64(3)},
		"tasks.get --recent=true --limit=": {"recent": true},
	} {
		got, said := run(t, get, line)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s\n%s", line, said, diff)
		}
	}
}

func TestArgs_withoutASkillAreTheFlags(t *testing.T) {
	flags := map[string]any{"a": "1", "b": []string{"2", "3"}, "c": true}
	if diff := cmp.Diff(flags, command.Args(flags, nil)); diff != "" {
		t.Error(diff)
	}
	if got := command.Args(nil, create()); len(got) != 0 || got == nil {
		t.Errorf("no flags are %v", got)
	}
}

// What only a schema declares, as that of another server's tool, is converted
// as it says, and shown like other flags.
func TestArgs_followASchema(t *testing.T) {
	s := &skill.Skill{
		Name: "github.search", Description: "Searches.", Handler: "h",
		Parameters: []skill.Parameter{{Name: "query", Type: "string", Required: true}},
		Schema: json.RawMessage(`{"type":"object","required":["query","perPage"],"properties":{
			"query":{"type":"string"},"perPage":{"type":["null","integer"],"description":"How\nmany"},"ratio":{"type":"number"},
			"draft":{"type":"boolean"},"labels":{"type":"array","items":{"type":"string","enum":["a","b"]}},
			"ids":{"type":"array","items":{"type":"integer"}},"filter":{"type":"object"},"any":{"enum":["x",1]}}}`),
	}
	for flags, want := range map[string]map[string]any{
		`--perPage 5 --ratio 0.5 --draft true --any 1`: {"perPage": int64(5), "ratio": 0.5, "draft": true, "any": "1"},
		`--draft --labels a --ids 1,2`:                 {"draft": true, "labels": []any{"a"}, "ids": []any{int64(1), int64(2)}},
		`--labels a b --ids '[1, 2]'`:                  {"labels": []any{"a", "b"}, "ids": []any{1.0, 2.0}},
		`--filter '{"a":1}' --labels "a, b"`:           {"filter": map[string]any{"a": 1.0}, "labels": []any{"a", "b"}},
		`--perPage five --ratio true --draft 1`:        {"perPage": "five", "ratio": "true", "draft": "1"},
		`--labels --filter`:                            {"labels": true, "filter": true},
		`--nothing 1`:                                  {"nothing": "1"},
	} {
		c, err := command.Parse("github.search --query q " + flags)
		if err != nil {
			t.Fatal(err)
		}
		want["query"] = "q"
		if diff := cmp.Diff(want, command.Args(c.Flags, s), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", flags, diff)
		}
	}
	const usage = `### github.search
Searches.
    --query <string>  (required)
    --any <string>  One of: x, 1
    --draft <boolean>
    --filter <object>
    --ids <array>
    --labels <array>  One of: a, b
    --perPage <integer>  How many (required)
    --ratio <float>`
	if got := command.Usage(s); got != usage {
		t.Errorf("got\n%s\nwant\n%s", got, usage)
	}
	s.Schema = json.RawMessage(`{"properties": 1}`)
	if got := command.Usage(s); !strings.HasSuffix(got, "--query <string>  (required)") {
		t.Errorf("with a broken schema: %s", got)
	}
}

// S3-086: a reply with a search and a reply with several commands of several
// domains are run in their order. S3-156: one after the other.
func TestReplies_acrossDomainsAreCallsInOrder(t *testing.T) {
	var calls []string
	for _, reply := range []string{
		"I will look first.\n```cmd\ntasks.search --status overdue\n```",
		"Now the rest.\n\n```cmd\nemail.send --to bob --body \"1. Tax\n2. Rent\"\ncalendar.create --title Review\n```\nDone soon.",
	} {
		_, lines, problem := command.Split(reply)
		if problem != nil {
			t.Fatal(problem)
		}
		for _, l := range lines {
			c, err := l.Parse()
			if err != nil {
				t.Fatal(err)
			}
			args, err := json.Marshal(command.Args(c.Flags, nil))
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, c.Skill+string(args))
		}
	}
	if diff := cmp.Diff([]string{
		`tasks.search{"status":"overdue"}`, `email.send{"body":"1. Tax\n2. Rent","to":"bob"}`, `calendar.create{"title":"Review"}`,
	}, calls); diff != "" {
		t.Error(diff)
	}
}
