package registry

import (
	"slices"
	"strings"
)

// SaysInput reports whether the agent's card says what it takes. Frameworks write text or JSON
// on the card of every agent, whatever it takes: such an agent judges for itself.
func (e Entry) SaysInput() bool {
	modes := e.InputModes()
	return e.Builtin && len(modes) > 0 || slices.ContainsFunc(modes, func(m string) bool {
		m = bareType(m)
		return m != "text" && m != "application/json" && !strings.HasPrefix(m, "text/")
	})
}

// Accepts reports whether the mode of a card is the media type: the same, or one of which it
// is a case. Cards of older agents say "text".
func Accepts(mode, kind string) bool {
	mode, kind = bareType(mode), bareType(kind)
	major, rest, _ := strings.Cut(mode, "/")
	switch {
	case mode == kind, major == "*", rest == "*" && strings.HasPrefix(kind, major+"/"):
		return true
	case mode == "text":
		return kind == "text/plain"
	}
	return false
}

// bareType is a media type without its parameters.
func bareType(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return strings.ToLower(strings.TrimSpace(s))
}
