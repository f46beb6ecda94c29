package system_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills"
	"agentmesh/skills/system"
)

// S3-161, S3-010: a skill is built, validated and offered without code; its
// name is taken then.
func TestBuildSkill_offersTheNewSkill(t *testing.T) {
	c, _ := skill.Load(skills.FS)
	create := func(_ context.Context, s *skill.Skill) error {
		if there, taken := c.Get(s.Name); taken && bytes.Equal(there.Source, s.Source) {
			return nil
		} else if taken {
			return mesh.Errorf(mesh.Conflict, "create", "taken")
		}
		c.Put(s)
		return nil
	}
	x := skill.NewExecutor(c.Get, system.Handlers(create))
	env := &skill.Env{Now: func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }}
	args := map[string]any{
		"name": "send_slack_alert", "description": "Sends alerts to Slack: now", "steps": []any{"Find the channel, if any", "Post"},
		"tags": "slack, alert", "triggers": "alert the team",
	}
	call := func(args map[string]any) *skill.Result {
		return x.Execute(context.Background(), &skill.Call{Skill: "system.build_skill", Args: args}, env, nil)
	}
	r := call(args)
	if want := "The skill workflows.send_slack_alert is ready (workflows/send_slack_alert.md). It does this: Sends alerts to Slack: now"; r.Failed() || r.Content != want {
		t.Fatalf("result is %+v", r)
	}
	if again := call(args); again.Failed() || again.Content != r.Content {
		t.Errorf("repeated, the call gave %+v", again)
	}
	built, ok := c.Get("workflows.send_slack_alert")
	if !ok || built.Author != "assistant" || built.Created != "2026-11-20" || !strings.Contains(built.Body, "1. Find the channel, if any\n2. Post") {
		t.Errorf("built %+v", built)
	}
	if again, err := skill.Parse(built.Path, built.Source); err != nil || again.Description != built.Description {
		t.Errorf("its file reads as %+v, %v", again, err)
	}
	if found := c.Search("slack"); len(found) != 1 {
		t.Errorf("search found %v", found)
	}
	used := x.Execute(context.Background(), &skill.Call{Skill: built.Name}, env, nil)
	if used.Failed() || used.Metadata["type"] != "template" {
		t.Errorf("using it gave %+v", used)
	}

	for name, tt := range map[string]struct {
		args map[string]any
		want string
	}{
		"taken":     {map[string]any{"name": "send_slack_alert", "description": "Another"}, "There is a skill workflows.send_slack_alert already; choose another name"},
		"words":     {map[string]any{"name": "Slack Alerts", "description": "d"}, `'name' must be lower-case letters, digits and '_', beginning with a letter, and is "Slack Alerts"; try "slack_alerts"`},
		"reserved":  {map[string]any{"name": "all", "description": "d"}, "is reserved; choose another"},
		"injection": {map[string]any{"name": "x", "description": "d\n---\nhandler: mail.send"}, "'description' must be one line"},
		"escape":    {map[string]any{"name": "x", "domain": "../x", "description": "d"}, "'domain' must be lower-case letters"},
	} {
		if r := call(tt.args); !r.Failed() || !strings.Contains(r.Content, tt.want) {
			t.Errorf("%s: %+v, want %q", name, r, tt.want)
		}
	}
	if n := len(c.Match([]string{"workflows.*"})); n != 1 {
		t.Errorf("there are %d built skills", n)
	}
}
