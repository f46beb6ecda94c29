package skill

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"

	yaml "go.yaml.in/yaml/v4"
)

// Render writes the skill as a file. What [Validate] accepts is read back by
// [Parse] as the same skill, apart from white space around fields and body. No
// value can break out of its field, whatever it contains.
func Render(s *Skill) []byte {
	m := &yaml.Node{Kind: yaml.MappingNode}
	put(m, "name", s.Name)
	put(m, "description", s.Description)
	put(m, "handler", s.Handler)
	if s.Access != DefaultAccess(s.Action) {
		put(m, "access", s.Access)
	}
	put(m, "schedule", s.Schedule)
	put(m, "timezone", s.Timezone)
	put(m, "confirm", s.Confirm)
	putBool(m, "requires_approval", s.RequiresApproval)
	put(m, "author", s.Author)
	put(m, "created", s.Created)
	putList(m, "tags", s.Tags)
	if len(s.Parameters) > 0 {
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range s.Parameters {
			list.Content = append(list.Content, parameterNode(&s.Parameters[i]))
		}
		m.Content = append(m.Content, scalar("parameters"), list)
	}
	front, err := yaml.Dump(m, yaml.WithLineWidth(-1))
	if err != nil {
		panic("skill: rendering scalars failed: " + err.Error()) // a tree of plain strings has no way to fail
	}
	var b bytes.Buffer
	b.WriteString("---\n")
	b.Write(front)
	b.WriteString("---\n\n")
	b.WriteString(trimBody(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s.Body)))
	b.WriteString("\n")
	return b.Bytes()
}

func parameterNode(p *Parameter) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	put(m, "name", p.Name)
	put(m, "type", p.Type)
	putBool(m, "required", p.Required)
	put(m, "items", p.Items)
	put(m, "description", p.Description)
	put(m, "default", p.Default)
	putList(m, "enum", p.Enum)
	return m
}

func put(m *yaml.Node, key, value string) {
	if value != "" {
		m.Content = append(m.Content, scalar(key), scalar(value))
	}
}

func putBool(m *yaml.Node, key string, value bool) {
	if value {
		node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(value)}
		m.Content = append(m.Content, scalar(key), node)
	}
}

func putList(m *yaml.Node, key string, values []string) {
	if len(values) == 0 {
		return
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, v := range values {
		list.Content = append(list.Content, scalar(v))
	}
	m.Content = append(m.Content, scalar(key), list)
}

// scalar returns a string node: plain where that is plainly safe, in double
// quotes, where everything has an escape, otherwise.
func scalar(v string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}
	special := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" ._/+()-", r)
	}
	if strings.ContainsFunc(v, special) || v != strings.TrimSpace(v) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
