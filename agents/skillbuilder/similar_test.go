package skillbuilder_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/store/shared"
)

// Skills that may do the same are found before a new one is made: one is used as it is, one
// of the tenant's is changed as the user has seen it, or a new one is made.
func TestASimilarSkillIsUsedOrChangedOrLeft(t *testing.T) {
	if shared.Pair() {
		t.Skip("another node hears of files a moment later")
	}
	m := handedOver(t, meshtest.Options{})
	say(m, mesh.NewThreadID(), "a skill that sends Slack alerts", "It posts it. It needs channel and text", "ok", "yes")
	before := m.SkillFile("slack.send_alert")

	s := say(m, mesh.NewThreadID(), "a skill that sends Slack alerts")
	for _, want := range []string{"- slack.send_alert: Sends Slack alerts\n", "“use slack.send_alert”", "“change slack.send_alert”", "“new”", "cancel"} {
		if !strings.Contains(s.Asked(), want) {
			t.Fatalf("asked %q, which does not have %q", s.Asked(), want)
		}
	}
	s = say(m, mesh.NewThreadID(), "a skill that sends Slack alerts", "use it")
	if s.State != completed || !strings.Contains(s.Text, "[completed: You can use the skill 'slack.send_alert', which was there already.]") || strings.Contains(s.Text, "is ready") {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
	thread := mesh.NewThreadID()
	s = say(m, thread, "a skill that sends Slack alerts", "change slack.send_alert")
	if !strings.Contains(s.Asked(), "May I change the skill slack.send_alert to this file?") || !strings.Contains(s.Asked(), "It posts it") {
		t.Fatalf("asked %q", s.Asked())
	}
	s = say(m, thread, "rename it to slack.other")
	if !strings.Contains(s.Asked(), "keeps its name") {
		t.Errorf("asked %q", s.Asked())
	}
	s = say(m, thread, "inputs: channel, text, urgency", "yes")
	if !strings.Contains(s.Text, "[completed: Your skill 'slack.send_alert' is changed, and active as it is now.]") {
		t.Errorf("said %q", s.Text)
	}
	after := m.SkillFile("slack.send_alert")
	if strings.Contains(before, "urgency") || !strings.Contains(after, "- name: urgency\n") || !strings.Contains(after, "It posts it") {
		t.Errorf("changed from\n%s\nto\n%s", before, after)
	}
	if s = say(m, mesh.NewThreadID(), "a skill that sends Slack alerts", "new", "ok", "ok", "yes"); !strings.Contains(s.Text, "'slack.send_alert_2' is now active") || m.SkillFile("slack.send_alert") != after {
		t.Errorf("said %q", s.Text)
	}
}

// What somebody else changed meanwhile is not overwritten without another word.
func TestASkillThatIsChangedMeanwhileIsShownAgain(t *testing.T) {
	if shared.Pair() {
		t.Skip("another node hears of files a moment later")
	}
	m := handedOver(t, meshtest.Options{})
	say(m, mesh.NewThreadID(), "a skill that sends Slack alerts", "ok", "ok", "yes")
	one, two := mesh.NewThreadID(), mesh.NewThreadID()
	for _, thread := range []string{one, two} {
		say(m, thread, "a skill that sends Slack alerts", "change it")
	}
	say(m, one, "inputs: channel, text, urgency", "yes")
	s := say(m, two, "inputs: channel, text, colour", "yes")
	if !strings.Contains(s.Asked(), "was changed by somebody else, and this replaces that") || !strings.Contains(m.SkillFile("slack.send_alert"), "urgency") {
		t.Fatalf("asked %q", s.Asked())
	}
	if s = say(m, two, "yes"); !strings.Contains(s.Text, "is changed, and active") || !strings.Contains(m.SkillFile("slack.send_alert"), "colour") {
		t.Errorf("said %q", s.Text)
	}
}

// A skill of the mesh is used and never changed, and one that was written by hand neither:
// what it has besides would be lost.
func TestASkillThatWasNotWrittenHereIsNotChanged(t *testing.T) {
	m := handedOver(t, meshtest.Options{Skills: []fs.FS{fstest.MapFS{
		"slack/send_alert.md": {Data: []byte("---\nname: slack.send_alert\ndescription: Sends Slack alerts\n---\n\n# Send\n\nAs it is.\n")},
	}}})
	s := say(m, mesh.NewThreadID(), "a skill that sends Slack alerts")
	if strings.Contains(s.Asked(), "“change") {
		t.Errorf("asked %q", s.Asked())
	}
	if s = say(m, mesh.NewThreadID(), "a skill that sends Slack alerts", "change it"); !strings.Contains(s.Asked(), "belongs to the mesh and cannot be changed") {
		t.Errorf("asked %q", s.Asked())
	}
	if shared.Pair() {
		return // another node hears of files a moment later
	}
	say(m, mesh.NewThreadID(), "a skill that posts mails", "ok", "call it ops.post_mail", "yes")
	path := strings.Replace(m.SkillFile("ops.post_mail"), "## Behavior", "## Written by hand\n\nSecret sauce.\n\n## Behavior", 1)
	m.WriteSkillFile("ops.post_mail", path)
	s = say(m, mesh.NewThreadID(), "a skill that posts mails", "change ops.post_mail")
	if !strings.Contains(s.Asked(), "cannot change it without losing something") || !strings.Contains(m.SkillFile("ops.post_mail"), "Secret sauce") {
		t.Errorf("asked %q", s.Asked())
	}
}

// dying saves what the user was shown when it hears "yes" for the first time, and stops
// before it notes that, as if its process had died there.
type dying struct {
	agent.Agent
	died *bool
}

func (d dying) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	if inv.Text() != "yes" || *d.died {
		return d.Agent.Run(ctx, inv)
	}
	*d.died = true
	return func(yield func(agent.Output, error) bool) {
		var noted struct {
			Draft struct{ Source, Replaces string }
		}
		data, _, err := inv.Mesh.Noted(ctx)
		if err == nil {
			err = json.Unmarshal(data, &noted)
		}
		if err == nil {
			_, err = inv.Mesh.CreateSkill(ctx, noted.Draft.Source, noted.Draft.Replaces)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		yield(agent.Ask{Text: "…"}, nil)
	}
}

// A save that was interrupted, of a new skill or of a change, is neither lost nor made twice.
func TestAnInterruptedSaveIsNeitherLostNorDoubled(t *testing.T) {
	died := true
	m := meshtest.Start(t, meshtest.Agents{
		"main": func(node.Env) (agent.Agent, error) { return host{meshtest.Card(t, "main"), nil}, nil },
		"skill-builder": func(env node.Env) (agent.Agent, error) {
			a, err := builder(t)(env)
			return dying{a, &died}, err
		},
	}, meshtest.Options{})
	thread := mesh.NewThreadID()
	say(m, thread, "a skill that sends Slack alerts", "ok", "ok")
	died = false
	m.Say(thread, "yes")
	file := m.SkillFile("slack.send_alert")
	if s := m.Say(thread, "yes"); !strings.Contains(s.Text, "[completed: Your skill 'slack.send_alert' is now active.]") {
		t.Errorf("said %q, asked %q", s.Text, s.Asked())
	}
	if !shared.Pair() {
		thread = mesh.NewThreadID()
		say(m, thread, "a skill that sends Slack alerts", "change it", "inputs: channel, urgency")
		died = false
		m.Say(thread, "yes")
		if s := m.Say(thread, "yes"); !strings.Contains(s.Text, "[completed: Your skill 'slack.send_alert' is changed, and active as it is now.]") {
			t.Errorf("said %q, asked %q", s.Text, s.Asked())
		}
		if changed := m.SkillFile("slack.send_alert"); changed == file || !strings.Contains(changed, "urgency") {
			t.Errorf("the file is\n%s", changed)
		}
	}
	files, err := filepath.Glob(filepath.Join(m.Data, "tenant-skills", string(mesh.DefaultTenant), "slack", "*"))
	if err != nil || len(files) != 1 {
		t.Errorf("there are %v, %v", files, err)
	}
}
