package offline

import (
	"testing"

	"agentmesh/mesh/llm"
)

// What was read in a skill's texts is not taken for another's of the same name.
func TestLearn_aSkillThatChangedIsReadAnew(t *testing.T) {
	known := llm.Skill{Name: "crm.add_note", Description: "Add a note to a customer", Parameters: []llm.Parameter{{Name: "to", Type: "string"}}}
	for range 2 {
		if s := learn(known); len(s.Parameters) != 1 || s.Parameters[0].Name != "to" || s.Reads {
			t.Errorf("learned %+v", s)
		}
	}
	other := known
	other.Reads, other.Parameters = true, []llm.Parameter{{Name: "customer", Type: "string"}, {Name: "note", Type: "string"}}
	if s := learn(other); len(s.Parameters) != 2 || s.Parameters[0].Name != "customer" || s.act != actFind {
		t.Errorf("learned %+v", s)
	}
	if s := learn(known); len(s.Parameters) != 1 || s.act == actFind {
		t.Errorf("learned %+v", s)
	}
}
