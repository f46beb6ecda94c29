package mesh

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// MaxCallSummary bounds the arguments in a [CallSummary], in bytes, before the
// mark that says that something was cut.
const MaxCallSummary = 160

// CallSummary is the call of a skill in short, for people, as "mail.send(subject:
// Hi, to: bob)". Args are a JSON object; an empty one, and anything else, is left
// out with its parentheses.
func CallSummary(skill, args string) string {
	var values map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &values) != nil || len(values) == 0 {
		return skill
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		var text string
		if json.Unmarshal(values[name], &text) != nil {
			text = string(values[name])
		}
		parts = append(parts, name+": "+Clip(strings.Join(strings.Fields(text), " "), MaxCallSummary/4))
	}
	return skill + "(" + Clip(strings.Join(parts, ", "), MaxCallSummary) + ")"
}
