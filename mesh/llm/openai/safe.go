package openai

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// secretPattern finds what looks like a key, also one that is masked in part.
var secretPattern = regexp.MustCompile(`(?i)\b(?:bearer\s+\S+|basic\s+[a-z0-9+/]{16,}=*|(?:sk|pk|rk|gsk|xai|hf)[-_][\w*.-]{6,}|AIza[\w-]{20,})`)

// maxText bounds what is told of a provider's text, in characters.
const maxText = 300

// safe makes what a provider says fit to be shown: one line, of at most maxText
// characters that can be printed, without the keys or anything like one.
func safe(text string, keys ...string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
	for _, key := range keys {
		if len(key) < 4 {
			continue
		}
		for _, form := range []string{key, url.QueryEscape(key), base64.StdEncoding.EncodeToString([]byte(key))} {
			text = strings.ReplaceAll(text, form, "[key]")
		}
	}
	text = secretPattern.ReplaceAllString(text, "[key]")
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > maxText {
		return string(r[:maxText]) + "…"
	}
	return text
}
