package offline

import (
	"regexp"
	"slices"
	"strings"
)

// What skills say about arguments that are wrong.
var (
	missingField = regexp.MustCompile(`(?i)missing required (?:field|flag|parameter|argument)s?:? '?(?:--)?([a-z][a-z0-9_-]*)'?`)
	unknownField = regexp.MustCompile(`(?i)unknown (?:parameter|field|flag|argument):? '?(?:--)?([a-z][a-z0-9_-]*)'?`)
	wrongChoice  = regexp.MustCompile(`'(?:--)?([a-z][a-z0-9_-]*)' must be one of:? ([^;.\n]+)`)
	wrongType    = regexp.MustCompile(`'(?:--)?([a-z][a-z0-9_-]*)' must be an? ([a-z]+)`)
)

// complaint reports whether the result says how the arguments are wrong.
func complaint(result string) bool {
	return slices.ContainsFunc([]*regexp.Regexp{missingField, unknownField, wrongChoice, wrongType}, func(p *regexp.Regexp) bool { return p.MatchString(result) })
}

// corrected returns the skill as the failures of its calls say that it is: with
// what they call missing required, what they do not know left out, and the
// values and types that they want.
func (s *skill) corrected(tries []call) *skill {
	out := *s
	out.Parameters = slices.Clone(s.Parameters)
	for _, try := range tries {
		if !try.failed {
			continue
		}
		// What is valid is listed after what is wrong.
		said, _, _ := strings.Cut(try.result, "Valid parameters:")
		for _, m := range unknownField.FindAllStringSubmatch(said, -1) {
			out.Parameters = slices.DeleteFunc(out.Parameters, func(p param) bool { return p.Name == m[1] })
		}
		for _, m := range missingField.FindAllStringSubmatch(said, -1) {
			p := out.parameter(m[1])
			p.Required, p.Default = true, ""
		}
		for _, m := range wrongChoice.FindAllStringSubmatch(said, -1) {
			p := out.parameter(m[1])
			p.Enum, p.kind = strings.Split(m[2], ", "), kindUnset
		}
		for _, m := range wrongType.FindAllStringSubmatch(said, -1) {
			p := out.parameter(m[1])
			p.Type, p.kind = m[2], kindUnset
		}
	}
	return &out
}

// parameter returns the parameter of that name, which it adds if there is none.
func (s *skill) parameter(name string) *param {
	plain := strings.ReplaceAll(name, "-", "_")
	i := slices.IndexFunc(s.Parameters, func(p param) bool { return strings.ReplaceAll(p.Name, "-", "_") == plain })
	if i < 0 {
		s.Parameters = append(s.Parameters, param{Name: name, Type: "string"})
		i = len(s.Parameters) - 1
	}
	return &s.Parameters[i]
}
