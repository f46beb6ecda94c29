package llm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
)

// office is the two tools of the single loop over a few skills: get_skill and
// use_skill.
type office struct{}

func (office) List(context.Context) []llm.Tool {
	return []llm.Tool{{Name: "get_skill"}, {Name: "use_skill"}}
}

func (office) Discovers(name string) bool { return name == "get_skill" }

func (office) Call(_ context.Context, use mesh.ToolUse) llm.ToolResult {
	var args struct {
		Domain    string
		Skill     string
		Arguments map[string]any
	}
	if err := json.Unmarshal([]byte(use.Arguments), &args); err != nil {
		return llm.ToolResult{Text: err.Error(), Failed: true}
	}
	if use.Name == "get_skill" {
		return llm.ToolResult{Text: "skills of " + args.Domain}
	}
	if args.Skill == "mail.send" && args.Arguments["to"] == nil {
		return llm.ToolResult{Text: "Invalid arguments for 'mail.send': Missing required field: 'to'", Failed: true}
	}
	return llm.ToolResult{Text: fmt.Sprintf("%s did %v", args.Skill, args.Arguments)}
}

const (
	findMail  = `{"domain":"mail"}`
	findTasks = `{"domain":"tasks"}`
	send      = `{"skill":"mail.send","arguments":{"to":"bob"}}`
	sendWrong = `{"skill":"mail.send","arguments":{}}`
	search    = `{"skill":"tasks.search","arguments":{"overdue":true}}`
)

// A turn is one message of the user and everything up to the answer (S3-028),
// whatever the model does in it (S3-110 to S3-113, S3-115).
func TestLoop_turns(t *testing.T) {
	tests := map[string]struct {
		steps []scripted.Step
		want  []string
	}{
		"S3-110: find a skill, use it, answer": {
			[]scripted.Step{scripted.Call("get_skill", findMail), scripted.Call("use_skill", send), scripted.Say("Sent.")},
			[]string{"skills of mail", "mail.send did map[to:bob]"},
		},
		"S3-111: a skill that is known is used at once": {
			[]scripted.Step{scripted.Call("use_skill", send), scripted.Say("Sent.")},
			[]string{"mail.send did map[to:bob]"},
		},
		"S3-112: several domains": {
			[]scripted.Step{
				scripted.Call("get_skill", findTasks).Call("get_skill", findMail), scripted.Call("use_skill", search),
				scripted.Call("use_skill", send), scripted.Say("Sent."),
			},
			[]string{"skills of tasks", "skills of mail", "tasks.search did map[overdue:true]", "mail.send did map[to:bob]"},
		},
		"S3-113: wrong arguments are corrected": {
			[]scripted.Step{
				scripted.Call("use_skill", sendWrong), scripted.Call("use_skill", send).For(scripted.Last("Missing required field: 'to'")), scripted.Say("Sent."),
			},
			[]string{"Invalid arguments for 'mail.send': Missing required field: 'to'", "mail.send did map[to:bob]"},
		},
		"S3-115: several uses in one reply": {
			[]scripted.Step{scripted.Call("use_skill", search).Call("use_skill", send).Call("get_skill", findMail), scripted.Say("Sent.")},
			[]string{"tasks.search did map[overdue:true]", "mail.send did map[to:bob]", "skills of mail"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := scripted.New(tt.steps...)
			events := run(t, &llm.Loop{Model: m, Tools: office{}}, []llm.Message{{Role: llm.RoleUser, Text: "Mail Bob."}})
			if last := events[len(events)-1].Reply; last == nil || last.Text != "Sent." || m.Left() != 0 {
				t.Errorf("the turn ended with %+v", events[len(events)-1])
			}
			requests := m.Requests()
			var read []string
			for _, msg := range requests[len(requests)-1].Messages {
				if msg.Role == llm.RoleTool {
					read = append(read, msg.Text)
				}
			}
			if diff := cmp.Diff(tt.want, read); diff != "" {
				t.Error(diff)
			}
		})
	}
}
