package mesh_test

import (
	"testing"

	"agentmesh/mesh"
)

func TestAQuestionIsShownWhereItStandsAsAParagraph(t *testing.T) {
	const q = "May I run mail.send? Sends.\n- to: bob\n- body: Hi,  Bob"
	for name, tt := range map[string]struct {
		text, question string
		want           bool
	}{
		"alone":                   {q, q, true},
		"numbered and indented":   {"1. May I run x?\n\n2. May I run mail.send? Sends.\n   - to: bob\n   - body: Hi, Bob\n\nYour answer counts for all of these.", q, true},
		"numbered twice":          {"1. 2. May I run mail.send? Sends.\n   - to: bob\n   - body: Hi, Bob", q, true},
		"with other line ends":    {"May I run mail.send? Sends.\r\n- to: bob\r\n- body: Hi, Bob\r\n", q, true},
		"with more of the answer": {q + ", and Alice", q, false},
		"with another argument":   {q + "\n- cc: eve", q, false},
		"with another recipient":  {"May I run mail.send? Sends.\n- to: bob@example.com\n- body: Hi, Bob", q, false},
		"without an argument":     {"May I run mail.send? Sends.\n- to: bob", q, false},
		"behind other words":      {"No harm. " + q, q, false},
		"one that is numbered":    {"1. 3. Delete?", "3. Delete?", true},
		"one of two paragraphs":   {"1. Sure?\n\n   Really?\n\n2. Other?", "Sure?\n\nReally?", true},
		"another one":             {"May I?", q, false},
		"none":                    {"May I?", " \n", false},
		"of nothing":              {"", q, false},
	} {
		if got := mesh.Shows(tt.text, tt.question); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
