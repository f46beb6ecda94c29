package node

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

var (
	unknownField = regexp.MustCompile(`field (.+) not found in type \S+`)
	quotedText   = regexp.MustCompile("(?s)\\s*(?:`.*`|'[^']{2,}'|\"[^\"]*\")")
	shownTag     = regexp.MustCompile(`\s*![^\s\x60]*`)
	fieldName    = regexp.MustCompile(`^[A-Za-z_-]{1,30}$`)
	usualTags    = []string{"!!str", "!!int", "!!float", "!!bool", "!!null", "!!seq", "!!map", "!!timestamp"}
)

// yamlWords is what a decoder says, without the words that are about our code, and without
// what is in the file but names of fields: the line may be that of a secret.
func yamlWords(err error) string {
	var several *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &several):
	case errors.As(err, &one):
		several = &yaml.LoadErrors{Errors: []*yaml.LoadError{one}}
	default:
		return "it cannot be read as YAML"
	}
	var words []string
	for _, e := range several.Errors {
		words = append(words, fmt.Sprintf("line %d: %s", e.Mark.Line, withoutValues(e.Message)))
	}
	return strings.Join(words, "; ")
}

// withoutValues takes out of a decoder's message what it cites of the file.
func withoutValues(message string) string {
	if m := unknownField.FindStringSubmatch(message); m != nil {
		if !fieldName.MatchString(m[1]) {
			return "a field is not known"
		}
		return "field " + m[1] + " is not known"
	}
	message = quotedText.ReplaceAllStringFunc(message, func(s string) string {
		if key, ok := strings.CutPrefix(strings.TrimSpace(s), `"`); ok && fieldName.MatchString(strings.TrimSuffix(key, `"`)) {
			return s
		}
		return ""
	})
	message = shownTag.ReplaceAllStringFunc(message, func(s string) string {
		if slices.Contains(usualTags, strings.TrimSpace(s)) {
			return s
		}
		return ""
	})
	return strings.Join(strings.Fields(message), " ")
}
