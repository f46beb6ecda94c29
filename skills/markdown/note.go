package markdown

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	yaml "go.yaml.in/yaml/v4"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/edit"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/quote"
	"agentmesh/skills/internal/tenantdir"
)

// maxFront bounds front matter that is understood, in bytes.
const maxFront = 64 << 10

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// A note is one file, taken apart.
type note struct {
	path, title string
	front       map[string]any
	tags        []string
	body        string
}

// split cuts the front matter off a text: the lines between two of three
// dashes, the first of which is the first line. Both parts together are the
// text.
func split(text string) (front, body string) {
	start := strings.TrimPrefix(text, "\ufeff")
	first, rest, found := strings.Cut(start, "\n")
	if !found || strings.TrimRight(first, " \t\r") != "---" {
		return "", text
	}
	at := len(text) - len(rest)
	for line := range strings.Lines(rest) {
		at += len(line)
		if strings.TrimRight(line, " \t\r\n") == "---" {
			return text[:at], text[at:]
		}
	}
	return "", text
}

// parse reads a note. Front matter that is not a YAML mapping is left out: the
// note is found by its text all the same.
func parse(name, text string) *note {
	front, body := split(text)
	n := &note{path: name, body: body}
	if inner := strings.TrimSpace(lineEnds.Replace(front)); inner != "" && len(inner) <= maxFront {
		inner = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(inner, "\ufeff"), "---"), "---")
		n.front = fieldsOf(inner)
	}
	n.title, _ = n.front["title"].(string)
	if n.title = quote.Line(n.title); n.title == "" {
		for _, h := range headings(body) {
			if h.level == 1 && h.text != "" {
				n.title = quote.Line(h.text)
				break
			}
		}
	}
	if n.title == "" {
		n.title = strings.TrimSuffix(path.Base(name), path.Ext(name))
	}
	n.tags = frontTags(n.front)
	return n
}

// fieldsOf reads front matter, or returns nil. It takes no aliases, by which a
// short text could become a long one, and nothing that is not to be said in JSON.
func fieldsOf(text string) map[string]any {
	var doc yaml.Node
	var fields map[string]any
	if yaml.Load([]byte(text), &doc) != nil || hasAlias(&doc) || doc.Load(&fields) != nil {
		return nil
	}
	if _, err := json.Marshal(fields); err != nil { // as .nan
		return nil
	}
	return fields
}

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

// frontTags reads the tags, which are a list or a text with commas or spaces.
func frontTags(front map[string]any) []string {
	var raw []string
	for _, field := range []string{"tags", "tag"} {
		switch v := front[field].(type) {
		case string:
			raw = append(raw, strings.FieldsFunc(v, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })...)
		case []any:
			for _, item := range v {
				if s, ok := item.(string); ok {
					raw = append(raw, s)
				}
			}
		}
	}
	var tags []string
	for _, t := range raw {
		if t = tagOf(t); t != "" && len(tags) < maxTags {
			tags = append(tags, t)
		}
	}
	return tags
}

// tagOf returns the tag in the form by which it is found.
func tagOf(s string) string {
	return mesh.Clip(strings.ToLower(quote.Line(strings.TrimPrefix(strings.TrimSpace(s), "#"))), maxTag)
}

// words counts the words of the body.
func (n *note) words() int { return len(strings.Fields(n.body)) }

// A sheet is a note to be created.
type sheet struct {
	path    string
	content string
	front   struct {
		Title   string   `yaml:"title"`
		Tags    []string `yaml:"tags,omitempty"`
		Created string   `yaml:"created"`
	}
}

// draft reads what a call to create describes.
func draft(call *skill.Call, now time.Time) (*sheet, error) {
	if err := flags.Require(call, "title"); err != nil {
		return nil, err
	}
	s := &sheet{content: lineEnds.Replace(flags.Text(call, "content"))}
	s.front.Title, s.front.Created = quote.Line(flags.Text(call, "title")), now.Format(time.RFC3339)
	if s.front.Title == "" || len(s.front.Title) > maxTitle {
		return nil, mesh.InvalidField(call.Skill, "title", "must have from 1 to %d bytes of visible text", maxTitle)
	}
	if len(s.content) > maxContent || !edit.IsText([]byte(s.content)) {
		return nil, mesh.InvalidField(call.Skill, "content", "must be text of at most %d bytes, in UTF-8", maxContent)
	}
	if front, _ := split(s.content); front != "" {
		return nil, mesh.InvalidField(call.Skill, "content", "begins with front matter, which is made of title and tags; leave it out")
	}
	for _, raw := range flags.List(call, "tags") {
		tag := tagOf(raw)
		if tag == "" || strings.ContainsFunc(tag, unicode.IsSpace) || len(raw) > maxTag {
			return nil, mesh.InvalidField(call.Skill, "tags", "has %q, which is no tag; write it as project-x, with at most %d bytes", mesh.Clip(raw, maxShown), maxTag)
		}
		s.front.Tags = append(s.front.Tags, tag)
	}
	if len(s.front.Tags) > maxTags {
		return nil, mesh.InvalidField(call.Skill, "tags", "has %d elements; at most %d are allowed", len(s.front.Tags), maxTags)
	}
	folder, err := tenantdir.Clean(call.Skill, "folder", flags.Text(call, "folder"))
	if err != nil {
		return nil, err
	}
	s.path, err = tenantdir.Clean(call.Skill, "title", path.Join(folder, fileName(s.front.Title)+".md"))
	return s, err
}

// fileName makes of a title a name that every file system takes.
func fileName(title string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|#^[]`, r) {
			return '-'
		}
		return r
	}, title)
	name = strings.Trim(name, ". -")
	name = strings.TrimRight(strings.ToValidUTF8(name[:min(len(name), 120)], ""), ". ")
	if name == "" || device.MatchString(name) {
		name = strings.TrimSpace("note " + name)
	}
	return name
}

// device matches what Windows takes for a device, whatever comes after a dot.
var device = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(\.|$)`)

// encode is the file: front matter, and the content, below a heading unless it
// has one.
func (s *sheet) encode() ([]byte, error) {
	front, err := yaml.Dump(s.front, yaml.WithLineWidth(-1))
	if err != nil {
		return nil, mesh.Errorf(mesh.Unknown, "markdown.create", "The note cannot be written: %w", err)
	}
	text := "---\n" + string(front) + "---\n\n"
	if h := headings(s.content); len(h) == 0 || h[0].level != 1 {
		text += "# " + s.front.Title + "\n\n"
	}
	return []byte(strings.TrimRight(text+strings.TrimLeft(s.content, "\n"), "\n") + "\n"), nil
}
