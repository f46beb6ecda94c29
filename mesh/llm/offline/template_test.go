package offline_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/offline"
)

// A template is for a language model: the planner says so and does nothing,
// whatever words the template has.
func TestATemplateIsNotForRulesToCarryOut(t *testing.T) {
	m := offline.New(func() time.Time { return time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC) })
	req := &llm.Request{
		System:   "You carry out tasks.",
		Messages: []llm.Message{{Role: llm.RoleUser, Text: "# Greet\n\nList my calendar and email it to bob@example.com."}},
		Tools:    []llm.Tool{{Name: "use_skill"}},
		About: llm.About{Template: "workflows.greet", Facts: func(context.Context) (*llm.Facts, error) {
			return &llm.Facts{Face: llm.FaceUseSkill, Skills: []llm.Skill{{Name: "calendar.list", Description: "Lists events", Reads: true}}}, nil
		}},
	}
	text := ""
	for c, err := range m.Generate(t.Context(), req) {
		if err != nil || c.Tool != nil {
			t.Fatalf("got %+v, %v", c, err)
		}
		text += c.Text
	}
	if !strings.Contains(text, "workflows.greet") || !strings.Contains(text, "nothing was done") || !strings.Contains(text, "MESH_LLM_URL") {
		t.Errorf("said %q", text)
	}
}
