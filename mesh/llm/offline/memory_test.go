package offline

import (
	"reflect"
	"testing"

	"agentmesh/mesh/llm"
)

// What was learned of a skill is remembered for the same skill alone, whatever of it
// changes.
func TestWhatWasLearnedIsOfTheSameSkill(t *testing.T) {
	base := llm.Skill{Name: "mail.send", Description: "Send a message", Tags: []string{"mail"},
		Parameters: []llm.Parameter{{Name: "to", Type: "string", Description: "Address", Enum: []string{"a"}}}}
	with := func(change func(*llm.Skill)) llm.Skill {
		s := base
		s.Parameters = append([]llm.Parameter{}, base.Parameters...)
		change(&s)
		return s
	}
	all := []llm.Skill{base,
		with(func(s *llm.Skill) { s.Name = "mail.find" }), with(func(s *llm.Skill) { s.Description = "Find messages" }),
		with(func(s *llm.Skill) { s.Tags = []string{"mai", "l"} }), with(func(s *llm.Skill) { s.Reads = true }), with(func(s *llm.Skill) { s.Asks = true }),
		with(func(s *llm.Skill) { s.Tool = "send" }), with(func(s *llm.Skill) { s.Parameters[0].Name = "title" }),
		with(func(s *llm.Skill) { s.Parameters[0].Type = "integer" }), with(func(s *llm.Skill) { s.Parameters[0].Description = "Day" }),
		with(func(s *llm.Skill) { s.Parameters[0].Required = true }), with(func(s *llm.Skill) { s.Parameters[0].Default = "x" }),
		with(func(s *llm.Skill) { s.Parameters[0].Enum = []string{"a", "b"} }), with(func(s *llm.Skill) { s.Parameters = nil })}
	for range 2 {
		for _, s := range all {
			if got, want := recall(s), learn(s); !reflect.DeepEqual(got, want) {
				t.Errorf("recalled %+v, learned %+v", got, want)
			}
		}
	}
}
