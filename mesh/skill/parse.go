package skill

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"

	"agentmesh/mesh"
)

// A Problem says what is wrong with a skill file and what to do about it.
type Problem struct {
	Path string
	// Line counts from 1; it is 0 where no line is to blame.
	Line int
	// Field is the one that is wrong, as it is called in the front matter, as
	// "parameters[1].type", or "body"; "" where no field is to blame.
	Field  string
	Detail string
}

// of returns the problem, with the field that is to blame.
func (p Problem) of(field string) *Problem {
	p.Field = field
	return &p
}

// String returns "path:line: detail".
func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.Path, p.Detail)
	}
	return fmt.Sprintf("%s:%d: %s", p.Path, p.Line, p.Detail)
}

// Parse reads a skill file. The path, below the root of the skills and with
// slashes, gives the domain (its first folder) and must agree with the name in
// the front matter; with an empty path, the name gives the path. A path that
// ends in SKILL.md is that of a skill in the Agent Skills format; see package
// comment. The error is Invalid, and its detail names file, line and remedy.
func Parse(path string, data []byte) (*Skill, error) {
	read := parse
	if isSkillMD(path) {
		read = parseStandard
	}
	s, bad := read(path, data)
	if bad != nil {
		return nil, &mesh.Error{Code: mesh.Invalid, Op: "skill.Parse", Detail: bad.String()}
	}
	return s, nil
}

// ParseNew reads the file of a skill that a user wants to have, and says what
// is wrong with it. Such a skill must be a template: a handler is code of the
// mesh, and a second name for it would evade the grants that name the first.
func ParseNew(source []byte) (*Skill, *Problem) {
	s, bad := parse("", source)
	if bad != nil {
		return nil, bad
	}
	if s.Handler != "" {
		return nil, noTemplate(s)
	}
	return s, nil
}

func noTemplate(s *Skill) *Problem {
	return &Problem{Path: s.Path, Line: lineOf(s, "handler"), Field: "handler",
		Detail: "names a handler, which only skills of the mesh itself may; remove the line \"handler\" and describe the steps instead"}
}

// CheckHandler returns what is wrong with the handler that the file of a skill
// names, or nil: that known does not have it. A template has none, and with a
// nil known any will do. The problem has the path and the line of the skill's
// file.
func CheckHandler(s *Skill, known func(name string) bool) *Problem {
	if s.Handler == "" || known == nil || known(s.Handler) {
		return nil
	}
	return &Problem{Path: s.Path, Line: lineOf(s, "handler"), Field: "handler", Detail: fmt.Sprintf(
		"the handler %q is not installed here; correct its name, or remove the line \"handler\" and describe the steps instead", clip(s.Handler))}
}

// lineOf returns where the field is in the skill's file, or 0.
func lineOf(s *Skill, field string) int {
	f, bad := open(s.Path, s.Source)
	if bad != nil {
		return 0
	}
	for i := 0; i+1 < len(f.front.Content); i += 2 {
		if key := f.front.Content[i]; key.Value == field {
			return key.Line + 1
		}
	}
	return 0
}

// ParseIndex reads a domain's SKILL.md. Path and error are as for [Parse].
func ParseIndex(path string, data []byte) (*Index, error) {
	ix, bad := parseIndex(path, data)
	if bad != nil {
		return nil, &mesh.Error{Code: mesh.Invalid, Op: "skill.ParseIndex", Detail: bad.String()}
	}
	return ix, nil
}

func parse(file string, data []byte) (*Skill, *Problem) {
	f, bad := open(file, data)
	if bad != nil {
		return nil, bad
	}
	s := f.skill(data)
	if bad := f.decode(f.front, "", skillFields(f, s)); bad != nil {
		return nil, bad
	}
	s.Domain, s.Action, _ = strings.Cut(s.Name, ".")
	if s.Access == "" {
		s.Access = DefaultAccess(s.Action)
	}
	if err := Validate(s); err != nil {
		return nil, f.blame(err)
	}
	if file == "" {
		s.Path = pathOf(s.Name)
		return s, nil
	}
	domain, rest, found := strings.Cut(file, "/")
	want := domain + "." + strings.TrimSuffix(path.Base(rest), ".md")
	switch {
	case !found:
		return nil, f.problem(0, "is not in a domain folder; move it to %s", pathOf(s.Name))
	case s.Name != want:
		return nil, f.problem(f.lines["name"], "name is %q, but the file's place says %q; rename one of them", s.Name, want).of("name")
	}
	return s, nil
}

// skill begins the skill that is in the file.
func (f *file) skill(data []byte) *Skill {
	return &Skill{Body: f.body, Path: f.path, Source: bytes.Clone(data), Version: versionOf(data)}
}

func skillFields(f *file, s *Skill) fields {
	return fields{
		"name": f.text(&s.Name), "description": f.text(&s.Description), "handler": f.text(&s.Handler),
		"schedule": f.text(&s.Schedule), "timezone": f.text(&s.Timezone), "author": f.text(&s.Author),
		"created": f.text(&s.Created), "confirm": f.text(&s.Confirm), "access": f.text(&s.Access),
		"requires_approval": f.boolean(&s.RequiresApproval), "tags": f.texts(&s.Tags),
		"parameters": func(at string, n *yaml.Node) *Problem {
			if n.Kind != yaml.SequenceNode {
				return f.problem(n.Line+1, "%s must be a list of mappings, each beginning with \"- name: …\"", at).of(at)
			}
			s.Parameters = make([]Parameter, len(n.Content))
			for i, item := range n.Content {
				p := &s.Parameters[i]
				p.Type = "string"
				if bad := f.decode(item, fmt.Sprintf("%s[%d]", at, i), fields{
					"name": f.text(&p.Name), "type": f.text(&p.Type), "required": f.boolean(&p.Required),
					"description": f.text(&p.Description), "items": f.text(&p.Items),
					"default": f.text(&p.Default), "enum": f.texts(&p.Enum),
				}); bad != nil {
					return bad
				}
			}
			return nil
		},
	}
}

func parseIndex(file string, data []byte) (*Index, *Problem) {
	f, bad := open(file, data)
	if bad != nil {
		return nil, bad
	}
	return f.index()
}

func (f *file) index() (*Index, *Problem) {
	ix := &Index{Body: f.body}
	if bad := f.decode(f.front, "", fields{"domain": f.text(&ix.Domain), "description": f.text(&ix.Description)}); bad != nil {
		return nil, bad
	}
	folder, _, found := strings.Cut(f.path, "/")
	switch {
	case !ValidPart(ix.Domain):
		return nil, f.problem(f.lines["domain"], "domain must be lower-case letters, digits and '_', and is %q", clip(ix.Domain)).of("domain")
	case found && folder != ix.Domain:
		return nil, f.problem(f.lines["domain"], "domain is %q, but the folder is %q; rename one of them", ix.Domain, folder).of("domain")
	case ix.Description == "":
		return nil, f.problem(1, "description is missing; say in one line what the domain is for").of("description")
	}
	if err := checkLine("description", ix.Description); err != nil {
		return nil, f.blame(err)
	}
	return ix, nil
}

// A file is a markdown file taken apart.
type file struct {
	path  string
	front *yaml.Node
	body  string
	// lines says where each field is, by its name as "parameters[0].type".
	lines map[string]int
}

func (f *file) problem(line int, format string, args ...any) *Problem {
	return &Problem{Path: f.path, Line: line, Detail: fmt.Sprintf(format, args...)}
}

// blame finds the line of the field that an error of Validate names.
func (f *file) blame(err error) *Problem {
	var e *mesh.Error
	if !errors.As(err, &e) {
		return f.problem(1, "%s", err)
	}
	for at := e.Field; at != ""; {
		if line, ok := f.lines[at]; ok {
			return f.problem(line, "%s %s", e.Field, e.Detail).of(e.Field)
		}
		at = at[:max(strings.LastIndexAny(at, ".["), 0)]
	}
	return f.problem(1, "%s %s", e.Field, e.Detail).of(e.Field)
}

// open splits the file and reads its front matter as far as YAML goes.
func open(path string, data []byte) (*file, *Problem) {
	f := &file{path: path, lines: make(map[string]int)}
	if len(data) > MaxFile {
		return nil, f.problem(0, "is %d bytes long; at most %d are allowed", len(data), MaxFile)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
	for i, line := range strings.Split(text, "\n") {
		if !utf8.ValidString(line) {
			return nil, f.problem(i+1, "is not valid UTF-8; save the file as UTF-8")
		}
	}
	front, body, bad := f.split(text)
	if bad != nil {
		return nil, bad
	}
	f.body = trimBody(body)
	var doc yaml.Node
	if err := yaml.Load([]byte(front), &doc); err != nil {
		return nil, f.yamlProblem(front, err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, f.problem(2, "the front matter is not a mapping; write one \"field: value\" per line")
	}
	f.front = doc.Content[0]
	return f, nil
}

func (f *file) split(text string) (front, body string, bad *Problem) {
	lines := strings.SplitAfter(text, "\n")
	isRule := func(l string) bool { return strings.TrimRight(l, " \t\n") == "---" }
	if !isRule(lines[0]) {
		return "", "", f.problem(1, "has no front matter; begin the file with a line of three dashes, then name and description, then three dashes again")
	}
	for i, line := range lines[1:] {
		if isRule(line) {
			f.lines["body"] = i + 3
			return strings.Join(lines[1:i+1], ""), strings.Join(lines[i+2:], ""), nil
		}
	}
	return "", "", f.problem(1, "the front matter is not closed; add a line of three dashes after the last field")
}

func (f *file) yamlProblem(front string, err error) *Problem {
	if strings.TrimSpace(front) == "" {
		return f.problem(2, "the front matter is empty; add at least name and description")
	}
	var at *yaml.LoadError
	if errors.As(err, &at) && at.Mark.Line > 0 {
		return f.problem(at.Mark.Line+1, "the front matter is not YAML: %s; quote values that contain ':' or '#' and indent with spaces", at.Message)
	}
	return f.problem(2, "the front matter is not one YAML mapping; write one \"field: value\" per line")
}

// trimBody removes blank lines around the text and spaces after it.
func trimBody(s string) string {
	s = strings.TrimRight(s, " \t\n")
	for {
		line, rest, found := strings.Cut(s, "\n")
		if !found || strings.TrimSpace(line) != "" {
			return s
		}
		s = rest
	}
}
