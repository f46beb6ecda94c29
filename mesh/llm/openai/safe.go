package openai

import (
	"regexp"
	"strings"
	"unicode"
)

// secretPattern finds what looks like a key, also one that is masked in part.
var secretPattern = regexp.MustCompile(`(?i)\b(?:bearer\s+\S+|(?:sk|pk|rk|gsk|xai|hf)[-_][\w*.-]{6,}|AIza[\w-]{20,})`)

// maxText bounds what is told of a provider's text, in characters.
const maxText = 300

// safe makes what a provider says fit to be shown: one line, of at most maxText
// characters that can be printed, without the key or anything like one.
func safe(text, key string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
	if len(key) >= 4 {
		text = strings.ReplaceAll(text, key, "[key]")
	}
	text = secretPattern.ReplaceAllString(text, "[key]")
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > maxText {
		return string(r[:maxText]) + "…"
	}
	return text
}
