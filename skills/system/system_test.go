package system_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills"
	"agentmesh/skills/internal/testbench"
	"agentmesh/skills/system"
)

type args = map[string]any

// A bench builds skills into a catalog.
type bench struct {
	*testbench.Bench
	catalog *skill.Catalog
}

func setup(t *testing.T) *bench {
	t.Helper()
	c, problems := skill.Load(skills.FS)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	create := func(_ context.Context, s *skill.Skill) error {
		if there, taken := c.Get(s.Name); taken && bytes.Equal(there.Source, s.Source) {
			return nil
		} else if taken {
			return mesh.Errorf(mesh.Conflict, "create", "taken")
		}
		c.Put(s)
		return nil
	}
	b := &bench{Bench: testbench.Over(t, system.Handlers(), c), catalog: c}
	b.Create = create
	return b
}

// S3-161, S3-127, S3-010: a skill is built, validated and offered without code
// or deployment, under both names of the builder; its own name is taken then.
func TestBuildSkill_offersTheNewSkill(t *testing.T) {
	for _, name := range []string{"system.build_skill", "workflow.build"} {
		t.Run(name, func(t *testing.T) { testOffered(t, name) })
	}
}

func testOffered(t *testing.T, name string) {
	b := setup(t)
	given := args{
		"name": "send_slack_alert", "description": "Sends alerts to Slack: now", "steps": []any{"Find the channel, if any", "Post"},
		"tags": "slack, alert", "triggers": "alert the team",
	}
	r := b.Call(name, "k", given)
	if want := "The skill workflows.send_slack_alert is ready (workflows/send_slack_alert.md). It does this: Sends alerts to Slack: now"; r.Failed() || r.Content != want {
		t.Fatalf("result is %+v", r)
	}
	if again := b.Call(name, "k", given); again.Failed() || again.Content != r.Content {
		t.Errorf("repeated, the call gave %+v", again)
	}
	built, ok := b.catalog.Get("workflows.send_slack_alert")
	if !ok || built.Author != "assistant" || built.Created != "2026-11-20" || built.Handler != "" || !strings.Contains(built.Body, "1. Find the channel, if any\n2. Post") {
		t.Fatalf("built %+v", built)
	}
	for _, part := range []string{"## Usage", "## Flags", "## Behavior", "## Examples", "alert the team"} {
		if !strings.Contains(built.Body, part) {
			t.Errorf("its page lacks %q", part)
		}
	}
	if again, err := skill.Parse(built.Path, built.Source); err != nil || again.Description != built.Description {
		t.Errorf("its file reads as %+v, %v", again, err)
	}
	if found := b.catalog.Search("slack"); len(found) != 1 {
		t.Errorf("search found %v", found)
	}
	used := b.Call(built.Name, "", nil)
	if used.Failed() || used.Metadata["type"] != "template" {
		t.Errorf("using it gave %+v", used)
	}
	given["description"] = "Another"
	if r := b.Call(name, "k2", given); !mesh.IsCode(r.Err, mesh.Conflict) || !strings.Contains(r.Content, "There is a skill workflows.send_slack_alert already; choose another name") {
		t.Errorf("a name that is taken gave %+v", r)
	}
	given["name"], given["domain"] = "send", "mail"
	if r := b.Call(name, "k3", given); !mesh.IsCode(r.Err, mesh.Conflict) {
		t.Errorf("the name of a skill that came with the mesh gave %+v", r)
	}
}

// S3-161: parameters and schedule are checked and written as the format has
// them.
func TestBuildSkill_writesParametersAndSchedule(t *testing.T) {
	b := setup(t)
	r := b.Call("system.build_skill", "k", args{
		"name": "weather", "description": "Tells the weather", "schedule": "0 8 * * 1-5", "timezone": "Europe/Oslo",
		"parameters": []any{"city:string:required:The city: its name", "days:integer:default=3:How many days", "short:flag", "note"},
	})
	if r.Failed() || !strings.HasSuffix(r.Content, "It runs by itself at 0 8 * * 1-5 (Europe/Oslo).") {
		t.Fatalf("result is %+v", r)
	}
	built, _ := b.catalog.Get("workflows.weather")
	want := []skill.Parameter{
		{Name: "city", Type: "string", Required: true, Description: "The city: its name"},
		{Name: "days", Type: "integer", Default: "3", Description: "How many days"},
		{Name: "short", Type: "flag"}, {Name: "note", Type: "string"},
	}
	if diff := cmp.Diff(want, built.Parameters); diff != "" || built.Schedule != "0 8 * * 1-5" || built.Timezone != "Europe/Oslo" {
		t.Errorf("built %+v\n%s", built, diff)
	}
	if r := b.Call("workflows.weather", "", args{}); !strings.Contains(r.Content, "Missing required field: 'city'") {
		t.Errorf("using it without the city gave %+v", r)
	}
}

// S3-161: a skill can be built so that the user is asked before each call.
func TestBuildSkill_hasTheUserAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		args     args
		confirm  string
		approval bool
	}{
		"by a question": {args{"confirm": " Pay it? "}, "Pay it?", false},
		"by a flag":     {args{"requires_approval": ""}, "", true},
		"by both":       {args{"confirm": "Pay it?", "requires_approval": "true"}, "Pay it?", true},
		"not at all":    {args{"requires_approval": "false", "confirm": " "}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			tt.args["name"], tt.args["description"] = "pay", "Pays a bill"
			r := b.Call("workflow.build", "k", tt.args)
			built, ok := b.catalog.Get("workflows.pay")
			if r.Failed() || !ok || built.Confirm != tt.confirm || built.RequiresApproval != tt.approval {
				t.Fatalf("%+v built %+v", r, built)
			}
			asks := tt.approval || tt.confirm != ""
			if strings.Contains(r.Content, "The user is asked before each call.") != asks || strings.Contains(built.Body, "asked before each call") != asks {
				t.Errorf("it says %q and its page %q", r.Content, built.Body)
			}
			if again, err := skill.Parse(built.Path, built.Source); err != nil || again.Confirm != tt.confirm || again.RequiresApproval != tt.approval {
				t.Errorf("its file reads as %+v, %v", again, err)
			}
		})
	}
	b := setup(t)
	for want, a := range map[string]args{
		"'requires_approval' must be": {"requires_approval": "perhaps"},
		"'confirm' is the question":   {"confirm": "true"},
		"'confirm' must be one line":  {"confirm": "Sure?\nhandler: mail.send"},
	} {
		a["name"], a["description"] = "pay", "Pays a bill"
		if r := b.Call("system.build_skill", "k", a); !r.Failed() || !strings.Contains(r.Content, want) {
			t.Errorf("%+v, want %q", r, want)
		}
	}
}

// S3-161: nothing that somebody says can become another field, another file, or
// a skill that cannot be used.
func TestBuildSkill_refusesWithRemedy(t *testing.T) {
	b := setup(t)
	ok := func(field string, value any) args {
		a := args{"name": "x", "description": "d"}
		if a[field] = value; value == nil {
			delete(a, field)
		}
		return a
	}
	for want, a := range map[string]args{
		"Missing required field: 'name'":        ok("name", nil),
		"Missing required field: 'description'": ok("description", " "),
		`'name' must be lower-case letters, digits and '_', beginning with a letter, and is "Slack Alerts"; try "slack_alerts"`: ok("name", "Slack Alerts"),
		"is reserved; choose another":                       ok("name", "all"),
		`the action "help" is reserved`:                     ok("name", "help"),
		"'description' must be one line":                    ok("description", "d\n---\nhandler: mail.send"),
		"'domain' must be lower-case letters":               ok("domain", "../x"),
		"'steps[0]' must be one line":                       ok("steps", []any{"a\n---\nhandler: mail.send"}),
		"'tags[0]' must be one line":                        ok("tags", []any{"a\u2028handler: x"}),
		"'timezone' must be":                                ok("timezone", "Oslo"),
		"'schedule' is not a cron expression":               ok("schedule", "every day"),
		"'parameters' has \"city:string:perhaps:x\"":        ok("parameters", []any{"city:string:perhaps:x"}),
		"'parameters' has the type \"number\"":              ok("parameters", []any{"city:number"}),
		"'parameters[0].name' must be lower-case":           ok("parameters", []any{"City"}),
		"'parameters[1].name' \"city\" is there twice":      ok("parameters", []any{"city", "city"}),
		"'parameters[0].default' 'days' must be an integer": ok("parameters", []any{"days:integer:default=x"}),
		"'parameters[0].description' must be one line":      ok("parameters", []any{"city:string:required:a\nb"}),
	} {
		if r := b.Call("system.build_skill", "", a); !r.Failed() || !strings.Contains(r.Content, want) {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	if n := len(b.catalog.Match([]string{"workflows.*"})); n != 0 {
		t.Errorf("there are %d built skills", n)
	}
	r := b.Call("system.build_skill", "", args{"name": "safe", "description": `d" }, handler: mail.send #`, "steps": []any{"--- handler: x"}})
	if built, ok := b.catalog.Get("workflows.safe"); !ok || built.Handler != "" || built.Description != `d" }, handler: mail.send #` {
		t.Errorf("%+v built %+v", r, built)
	}
}

// The two names of the builder have the same page but for the name.
func TestBuildSkill_hasTwoNames(t *testing.T) {
	c, _ := skill.Load(skills.FS)
	one, _ := c.Get("system.build_skill")
	two, _ := c.Get("workflow.build")
	if diff := cmp.Diff(one.Parameters, two.Parameters); diff != "" || one.Handler != two.Handler || one.Access != two.Access {
		t.Errorf("%+v\n%+v\n%s", one, two, diff)
	}
}
