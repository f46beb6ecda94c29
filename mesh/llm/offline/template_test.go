package offline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/offline"
)

// carry has the planner carry out a page with that metadata until it is done, or has failed: each
// call that it makes comes to what ends says, and fails where that begins with "!".
func carry(t *testing.T, metadata string, ends ...string) (calls []string, text string, failed error) {
	t.Helper()
	m := offline.New(func() time.Time { return time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC) })
	req := &llm.Request{
		System:   "You carry out tasks.",
		Messages: []llm.Message{{Role: llm.RoleUser, Text: "# Greet\n\nList my calendar and email it to bob@example.com."}},
		Tools:    []llm.Tool{{Name: "use_skill"}},
		About: llm.About{Page: &llm.Page{Skill: "workflows.greet", Metadata: metadata}, Facts: func(context.Context) (*llm.Facts, error) {
			return &llm.Facts{Face: llm.FaceUseSkill, Skills: []llm.Skill{
				{Name: "calendar.list", Description: "Lists events", Reads: true},
				{Name: "mail.send", Description: "Sends mail", Parameters: []llm.Parameter{{Name: "to", Type: "string", Required: true}}},
			}}, nil
		}},
	}
	for {
		text = ""
		var uses []mesh.ToolUse
		for c, err := range m.Generate(t.Context(), req) {
			if text += c.Text; err != nil {
				return calls, text, err
			}
			if c.Tool != nil {
				uses = append(uses, *c.Tool)
			}
		}
		if len(uses) == 0 {
			return calls, text, nil
		}
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Tools: uses})
		for _, u := range uses {
			calls = append(calls, u.Arguments)
			end := ends[len(calls)-1]
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleTool, ToolID: u.ID, Name: u.Name, Text: strings.TrimPrefix(end, "!"), Failed: strings.HasPrefix(end, "!")})
		}
	}
}

func reason(err error) string {
	var e *mesh.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// finding U8: a page whose steps are commands is carried out without a model; of any other one
// nothing is done, whatever words it has, and the execution fails, as where a step does.
func TestAPageIsCarriedOutByItsCommandsOrFails(t *testing.T) {
	steps := `{"requires_interpretation":true,"steps":[{"skill":"calendar.list","arguments":{}},{"skill":%q,"arguments":{"to":"bob@example.com"}}]}`
	both := []string{`{"arguments":{},"skill":"calendar.list"}`, `{"arguments":{"to":"bob@example.com"},"skill":"mail.send"}`}
	for name, tt := range map[string]struct {
		metadata string
		ends     []string
		calls    []string
		says     []string
		fails    string
	}{
		"words":                {`{"requires_interpretation":true}`, nil, nil, []string{"workflows.greet", "nothing was done", "MESH_LLM_URL"}, mesh.ReasonNeedsModel},
		"no metadata":          {"", nil, nil, []string{"nothing was done"}, mesh.ReasonNeedsModel},
		"commands":             {fmt.Sprintf(steps, "mail.send"), []string{"Two events.", "Sent."}, both, []string{"Two events.\n\nSent."}, ""},
		"a step fails":         {fmt.Sprintf(steps, "mail.send"), []string{"!no such calendar"}, both[:1], []string{"no such calendar", "did not get to mail.send"}, mesh.ReasonSkill},
		"the last fails":       {fmt.Sprintf(steps, "mail.send"), []string{"Two events.", "!no such mailbox"}, both, []string{"Two events.", "no such mailbox"}, mesh.ReasonSkill},
		"a skill is not there": {fmt.Sprintf(steps, "mail.forward"), nil, nil, []string{"mail.forward"}, mesh.ReasonSkill},
	} {
		t.Run(name, func(t *testing.T) {
			calls, text, err := carry(t, tt.metadata, tt.ends...)
			if fmt.Sprint(calls) != fmt.Sprint(tt.calls) || reason(err) != tt.fails || mesh.IsCode(err, mesh.Precondition) != (err != nil) {
				t.Errorf("made %q, ended with %v", calls, err)
			}
			for _, want := range tt.says {
				if said := text + mesh.DetailOf(err); !strings.Contains(said, want) {
					t.Errorf("said %q, want %q", said, want)
				}
			}
		})
	}
}
