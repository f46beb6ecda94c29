package skill

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentmesh/mesh"
)

// Validate checks all that [Parse] checks beyond the syntax of the file. Its
// error is Invalid and names the field as it is called in the front matter, as
// "parameters[1].type".
func Validate(s *Skill) error {
	for _, check := range []func(*Skill) error{checkName, checkLines, checkSchedule, checkAccess, checkParameters, checkBody} {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return mesh.InvalidField("skill.Validate", field, format, args...)
}

func checkName(s *Skill) error {
	domain, action, _ := strings.Cut(s.Name, ".")
	switch {
	case s.Name == "":
		return invalid("name", "is missing; add a line such as: name: mail.send")
	case !ValidPart(domain) || !ValidPart(action):
		return invalid("name", "must be <domain>.<action> in lower-case letters, digits and '_', as mail.send, and is %q", clip(s.Name))
	case ReservedAction(action):
		return invalid("name", "the action %q is reserved; choose another", action)
	case s.Domain != domain || s.Action != action:
		return invalid("name", "is %q, but domain and action are %q and %q; make them agree", s.Name, s.Domain, s.Action)
	}
	return nil
}

func checkLines(s *Skill) error {
	if s.Description == "" {
		return invalid("description", "is missing; say in one line what the skill does")
	}
	for _, f := range []struct{ name, value string }{
		{"description", s.Description}, {"handler", s.Handler}, {"schedule", s.Schedule},
		{"timezone", s.Timezone}, {"author", s.Author}, {"created", s.Created}, {"confirm", s.Confirm},
	} {
		if err := checkLine(f.name, f.value); err != nil {
			return err
		}
	}
	if s.Confirm == "true" || s.Confirm == "false" {
		return invalid("confirm", "is the question to ask the user, and is %q; write the question, or use requires_approval instead", s.Confirm)
	}
	return checkList("tags", s.Tags)
}

// checkLine refuses what would not survive as one line of text, among it the
// line breaks by which a value could pose as other fields.
func checkLine(field, v string) error {
	switch {
	case !utf8.ValidString(v):
		return invalid(field, "is not valid UTF-8; save the text as UTF-8")
	case utf8.RuneCountInString(v) > maxLine:
		return invalid(field, "is %d characters long; at most %d are allowed", utf8.RuneCountInString(v), maxLine)
	case strings.ContainsFunc(v, breaksLine):
		return invalid(field, "must be one line without control characters")
	}
	return nil
}

func breaksLine(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\ufeff'
}

func checkList(field string, list []string) error {
	for i, v := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if strings.TrimSpace(v) == "" {
			return invalid(at, "is empty; remove it or write a value")
		}
		if err := checkLine(at, v); err != nil {
			return err
		}
	}
	return nil
}

func checkAccess(s *Skill) error {
	if s.Access != "" && s.Access != AccessRead && s.Access != AccessWrite {
		return invalid("access", "must be read or write, and is %q", clip(s.Access))
	}
	return nil
}

func checkParameters(s *Skill) error {
	seen := make(map[string]bool, len(s.Parameters))
	for i := range s.Parameters {
		p, at := &s.Parameters[i], fmt.Sprintf("parameters[%d]", i)
		switch name := strings.ReplaceAll(p.Name, "-", "_"); {
		case p.Name == "":
			return invalid(at+".name", "is missing; every parameter needs a name")
		case !paramRule.MatchString(p.Name) || len(p.Name) > maxName:
			return invalid(at+".name", "must be lower-case letters, digits, '_' and '-', and is %q", clip(p.Name))
		case seen[name]:
			return invalid(at+".name", "%q is there twice; rename or remove one", p.Name)
		default:
			seen[name] = true
		}
		if err := checkParameter(at, p); err != nil {
			return err
		}
	}
	return nil
}

func checkParameter(at string, p *Parameter) error {
	elements := []string{"string", "integer", "float", "boolean", "object"}
	switch {
	case !slices.Contains(Types(), p.Type):
		return invalid(at+".type", "must be one of %s, and is %q", strings.Join(Types(), ", "), clip(p.Type))
	case p.Items != "" && p.Type != "array":
		return invalid(at+".items", "is only for arrays; remove it or make the type array")
	case p.Items != "" && !slices.Contains(elements, p.Items):
		return invalid(at+".items", "must be one of %s, and is %q", strings.Join(elements, ", "), clip(p.Items))
	case p.Required && p.Default != "":
		return invalid(at+".default", "is never used for a required parameter; remove default or required")
	}
	if err := checkLine(at+".description", p.Description); err != nil {
		return err
	}
	if err := checkLine(at+".default", p.Default); err != nil {
		return err
	}
	if err := checkList(at+".enum", p.Enum); err != nil {
		return err
	}
	if p.Default != "" {
		if _, bad := p.normalize(p.Default); bad != "" {
			return invalid(at+".default", "%s; write a value of that kind", bad)
		}
	}
	return nil
}

func checkBody(s *Skill) error {
	switch {
	case strings.TrimSpace(s.Body) == "":
		return invalid("body", "is empty; describe below the front matter what the skill does and how it is called")
	case len(s.Body) > MaxBody:
		return invalid("body", "is %d bytes long; at most %d are allowed", len(s.Body), MaxBody)
	case !utf8.ValidString(s.Body):
		return invalid("body", "is not valid UTF-8; save the file as UTF-8")
	case strings.ContainsRune(s.Body, 0):
		return invalid("body", "contains a NUL byte; save the file as plain text")
	}
	return nil
}

// clip shortens hostile input for an error message.
func clip(s string) string { return mesh.Clip(s, 48) }
