package registry

import (
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh"
)

// A card names words by which its agent is left; those that nobody can say are refused,
// naming the field, whoever's card it is.
func TestWordsToLeaveAnAgentByAreSuchThatCanBeSaid(t *testing.T) {
	with := func(value string) string {
		return strings.Replace(goodCard, `"multi_turn": true,`, `"multi_turn": true, "exit_words": `+value+`,`, 1)
	}
	c, err := ParseCard("builder.json", []byte(with(`["cancel", "never mind"]`)))
	if err != nil || !slices.Equal(Params(c).ExitWords, []string{"cancel", "never mind"}) {
		t.Errorf("the words are %q, %v", Params(c).ExitWords, err)
	}
	for name, tt := range map[string]struct{ value, says string }{
		"a text":    {`"cancel"`, "params.exit_words must be a list of texts"},
		"numbers":   {`[7]`, "params.exit_words must be a list of texts"},
		"too many":  {`["1","2","3","4","5","6","7","8","9"]`, "params.exit_words has 9 words and may have 8"},
		"none":      {`["cancel", ""]`, "params.exit_words[1]"},
		"too long":  {`["` + strings.Repeat("x", 33) + `"]`, "must have 1 to 32 bytes"},
		"marks":     {`["“!”"]`, "and more than marks"},
		"space":     {`[" cancel"]`, "params.exit_words[0]"},
		"two lines": {`["a\nb"]`, "params.exit_words[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			card, err := decodeCard("builder.json", []byte(with(tt.value)))
			if err != nil {
				t.Fatal(err)
			}
			_, err = Inspect(card)
			wantCode(t, err, mesh.Invalid, tt.says)
		})
	}
	if _, err := ParseCard("builder.json", []byte(with(`["`+strings.Repeat("x", 32)+`"]`))); err != nil {
		t.Errorf("a word of 32 bytes: %v", err)
	}
}
