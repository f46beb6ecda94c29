package skill

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"
)

// standardName is the rule of https://agentskills.io/specification.
var standardName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// maxCompatibility bounds the field of that name, in characters, as the
// specification does.
const maxCompatibility = 500

func isSkillMD(file string) bool { return path.Base(file) == "SKILL.md" }

// parseSkillMD reads a SKILL.md, which describes a domain if it has a field
// "domain" and is a skill in the Agent Skills format if it has a "name". What
// has neither is told to be no good description of a domain.
func parseSkillMD(file string, data []byte) (*Skill, *Index, *Problem) {
	f, bad := open(file, data)
	if bad != nil {
		return nil, nil, bad
	}
	if f.has("name") && !f.has("domain") {
		s, bad := f.standard(data)
		return s, nil, bad
	}
	ix, bad := f.index()
	return nil, ix, bad
}

func parseStandard(file string, data []byte) (*Skill, *Problem) {
	f, bad := open(file, data)
	if bad != nil {
		return nil, bad
	}
	return f.standard(data)
}

// has reports whether the front matter has the field.
func (f *file) has(field string) bool {
	for i := 0; i+1 < len(f.front.Content); i += 2 {
		if f.front.Content[i].Value == field {
			return true
		}
	}
	return false
}

// standard makes a template of a skill in the Agent Skills format. Its action
// is the folder's name, and its domain the first folder above that, or
// DefaultDomain. Fields that the specification does not know are other
// programs' business.
func (f *file) standard(data []byte) (*Skill, *Problem) {
	s := f.skill(data)
	var name, compatibility, ignored string
	known := fields{
		"name": f.text(&name), "description": f.text(&s.Description), "license": f.text(&ignored),
		"compatibility": f.text(&compatibility), "metadata": f.textMap, "allowed-tools": f.anything,
	}
	for i := 0; i+1 < len(f.front.Content); i += 2 {
		if key := f.front.Content[i].Value; known[key] == nil {
			known[key] = f.anything
		}
	}
	if bad := f.decode(f.front, "", known); bad != nil {
		return nil, bad
	}
	folder := path.Base(path.Dir(f.path))
	switch {
	case name == "":
		return nil, f.problem(max(f.lines["name"], 1), "name is missing; write the name of the folder").of("name")
	case len(name) > maxName || !standardName.MatchString(name):
		return nil, f.problem(f.lines["name"], "name must be at most %d lower-case letters, digits and single '-' between them, and is %q", maxName, clip(name)).of("name")
	case !strings.Contains(f.path, "/"):
		return nil, f.problem(0, "is not in a folder of its own; move it to %s/SKILL.md", name)
	case name != folder:
		return nil, f.problem(f.lines["name"], "name is %q, but the folder is %q; rename one of them", name, clip(folder)).of("name")
	case utf8.RuneCountInString(compatibility) > maxCompatibility:
		return nil, f.problem(f.lines["compatibility"], "compatibility is %d characters long; at most %d are allowed",
			utf8.RuneCountInString(compatibility), maxCompatibility).of("compatibility")
	}
	s.Description = strings.Join(strings.Fields(s.Description), " ")
	s.Domain, s.Action = DefaultDomain, strings.ReplaceAll(name, "-", "_")
	if domain, rest, _ := strings.Cut(f.path, "/"); strings.Contains(rest, "/") {
		s.Domain = domain
	}
	s.Name = s.Domain + "." + s.Action
	s.Access = DefaultAccess(s.Action)
	if err := Validate(s); err != nil {
		return nil, f.blame(err)
	}
	return s, nil
}

// anything reads a field whose value does not matter.
func (f *file) anything(string, *yaml.Node) *Problem { return nil }

// textMap checks a field that is a mapping to text values.
func (f *file) textMap(at string, n *yaml.Node) *Problem {
	if n.Kind != yaml.MappingNode {
		return f.problem(n.Line+1, "%s must be a mapping, one \"key: value\" per line", at).of(at)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if value := n.Content[i+1]; value.Kind != yaml.ScalarNode {
			key := fmt.Sprintf("%s.%s", at, clip(n.Content[i].Value))
			return f.problem(value.Line+1, "%s must be one text value", key).of(key)
		}
	}
	return nil
}
