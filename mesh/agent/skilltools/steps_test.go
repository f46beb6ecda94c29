package skilltools_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm/scripted"

	"github.com/google/go-cmp/cmp"
)

// finding U8: the calls that a page says are known to who carries it out, with the arguments of
// this call in their places, where all of its steps are commands of skills that are code; of any
// other page none are.
func TestTheStepsOfAPageAreKnownWhereAllAreCommands(t *testing.T) {
	type args = map[string]any
	create := func(a args) []any { return []any{args{"skill": "tasks.create", "arguments": a}} }
	for name, tt := range map[string]struct {
		steps string
		args  args
		want  []any
	}{
		"commands": {"1. tasks.create --title Call\n2. `mail.send --to bob`", nil,
			append(create(args{"title": "Call"}), args{"skill": "mail.send", "arguments": args{"to": "bob"}})},
		"given":              {"1. tasks.create --title {title}", args{"title": "A \"b\" --done"}, create(args{"title": "A \"b\" --done"})},
		"within a text":      {`1. tasks.create --title "Call {title} now"`, args{"title": "Ann"}, create(args{"title": "Call Ann now"})},
		"a number":           {"1. tasks.create --title x --priority {level}", args{"title": "x", "level": 2}, create(args{"title": "x", "priority": 2.0})},
		"a number in a text": {`1. tasks.create --title "Call {level} times"`, args{"title": "x", "level": 1234567}, create(args{"title": "Call 1234567 times"})},
		"not given":          {"1. tasks.create --title x --priority {level}", args{"title": "x"}, create(args{"title": "x"})},
		"missing in a text":  {`1. tasks.create --title "Call {level}"`, args{"title": "x"}, nil},
		"in a list":          {"1. mail.many --to {title} ann", args{"title": "bob"}, []any{args{"skill": "mail.many", "arguments": args{"to": []any{"bob", "ann"}}}}},
		"a list":             {"1. mail.many --to {who}", args{"who": []any{"bob", "ann"}}, []any{args{"skill": "mail.many", "arguments": args{"to": []any{"bob", "ann"}}}}},
		"no list":            {"1. mail.many --to {who} --text x", nil, []any{args{"skill": "mail.many", "arguments": args{"text": "x"}}}},
		"words between":      {"1. tasks.create --title x\n\nIf that fails, stop.\n\n2. mail.send --to bob", nil, nil},
		"a step goes on":     {"1. tasks.create --title x\n   unless there is one", nil, nil},
		"the user is asked":  {"1. tasks.create --title x\n\nThe user is asked before each call.", nil, create(args{"title": "x"})},
		"not a parameter":    {`1. tasks.create --title "Call {"`, nil, create(args{"title": "Call {"})},
		"words":              {"1. Say hello", nil, nil},
		"words among them":   {"1. tasks.create --title x\n2. Say hello", nil, nil},
		"words before":       {"1. Never call tasks.create --title x", nil, nil},
		"words after":        {"1. tasks.create and mail it", nil, nil},
		"another page":       {"1. workflows.greet", nil, nil},
		"help":               {"1. tasks.create --help", nil, nil},
		"no such skill":      {"1. tasks.invent --title x", nil, nil},
		"no steps":           {"Just do it.", nil, nil},
		"beyond the section": {"1. tasks.create --title x\n\n## Notes\n\n2. Say hello", nil, create(args{"title": "x"})},
	} {
		t.Run(name, func(t *testing.T) {
			d := agenttest.NewDesk(t, skilltools.FaceUseSkill, scripted.Say("done"))
			d.Node.AddSkill(t, "---\nname: mail.many\ndescription: Sends to many.\nhandler: mail.send\nparameters:\n  - {name: to, type: array}\n  - {name: text}\n---\n# Many\n")
			d.Node.AddSkill(t, "---\nname: team.errand\ndescription: Runs it.\nparameters:\n  - {name: title, type: string}\n  - {name: level, type: integer}\n  - {name: who, type: array}\n---\n# Errand\n\n## Behavior\n\n"+tt.steps+"\n")
			h := order(d, agent.SkillCall{Skill: "team.errand", Arguments: tt.args, Source: mesh.SourceRun})
			if h.Err != nil || len(d.Model.Requests()) != 1 {
				t.Fatalf("ended with %v after %d requests", h.Err, len(d.Model.Requests()))
			}
			page := d.Model.Requests()[0].About.Page
			var got struct{ Steps []any }
			if err := json.Unmarshal([]byte(page.Metadata), &got); err != nil || page.Skill != "team.errand" || !strings.Contains(page.Text, tt.steps) {
				t.Fatalf("%+v, %v", page, err)
			}
			if diff := cmp.Diff(tt.want, got.Steps); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
