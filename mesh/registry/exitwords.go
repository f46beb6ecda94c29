package registry

import (
	"fmt"
	"strings"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// paramExit is the param of Extension.ExitWords.
const paramExit = "exit_words"

// Bounds of a card's exit words.
const (
	MaxExitWords = 8
	maxExitWord  = 32 // bytes of one
)

// exitWords refuses words by which an agent is left that cannot be such: users rely on what
// questions tell them, so that none is passed over silently.
func exitWords(card *a2apb.AgentCard) error {
	const op = "registry.exitWords"
	i, p, ok := params(card)
	if !ok {
		return nil
	}
	at := fmt.Sprintf("card.capabilities.extensions[%d].params.%s", i, paramExit)
	words, ok := texts(p.GetFields()[paramExit])
	switch {
	case !ok:
		return mesh.InvalidField(op, at, "must be a list of texts, as [\"cancel\"]; correct it, or leave it out")
	case len(words) > MaxExitWords:
		return mesh.InvalidField(op, at, "has %d words and may have %d; leave some out", len(words), MaxExitWords)
	}
	for n, w := range words {
		if len(w) > maxExitWord || w != strings.TrimSpace(w) || strings.ContainsAny(w, "\r\n") || !mesh.Says(mesh.Say(w), w) {
			return mesh.InvalidField(op, fmt.Sprintf("%s[%d]", at, n),
				"is %q; it must have 1 to %d bytes on one line, without space around them, and more than marks", clip(w), maxExitWord)
		}
	}
	return nil
}
