package markdown

import (
	"regexp"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/edit"
	"agentmesh/skills/internal/flags"
)

// A heading is one in the style "## Text".
type heading struct {
	level int
	text  string
	// start is where its line begins and end where it ends, in bytes.
	start, end int
}

var headingRule = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))?[ \t]*#*[ \t]*$`)

// headings returns the headings of a text that are not in code blocks.
func headings(text string) []heading {
	var out []heading
	fence := "" // what closes the code block that we are in
	at := 0
	for line := range strings.Lines(text) {
		start := at
		at += len(line)
		plain := strings.TrimRight(line, "\r\n")
		indented := strings.TrimLeft(plain, " ")
		switch {
		case fence != "":
			if strings.HasPrefix(indented, fence) && strings.Trim(indented, fence[:1]+" \t") == "" {
				fence = ""
			}
		case strings.HasPrefix(indented, "```") || strings.HasPrefix(indented, "~~~"):
			fence = indented[:len(indented)-len(strings.TrimLeft(indented, indented[:1]))]
		default:
			if m := headingRule.FindStringSubmatch(plain); m != nil {
				out = append(out, heading{level: len(m[1]), text: strings.TrimSpace(m[2]), start: start, end: at})
			}
		}
	}
	return out
}

// edited returns the note's text after the change that the call describes. The
// front matter stays as it is, except for exact text.
func edited(call *skill.Call, mode, old, text string) (string, error) {
	front, body := split(old)
	switch {
	case mode == "text":
		return edit.Exact(call, old, text)
	case mode == "replace":
		if again, _ := split(text); again != "" {
			return "", mesh.InvalidField(call.Skill, "content", "begins with front matter, but that of the note stays; leave it out, or change it with mode text")
		}
		if front != "" && text != "" {
			text = "\n" + strings.TrimLeft(text, "\n")
		}
		return front + edit.Ended(text), nil
	case mode == "append" && !flags.Has(call, "heading"):
		return front + edit.Append(body, text), nil
	}
	from, to, err := section(call, body)
	if err != nil {
		return "", err
	}
	before, inside, after := body[:from], body[from:to], body[to:]
	if !strings.HasSuffix(before, "\n") { // the heading is the last line
		before += "\n"
	}
	if mode == "append" {
		text = edit.Append(strings.TrimRight(inside, "\r\n \t"), text)
	} else {
		text = "\n" + edit.Ended(strings.Trim(text, "\n"))
	}
	if after != "" {
		text = strings.TrimRight(text, "\n") + "\n\n"
	}
	return front + before + text + after, nil
}

// section returns where the text below the heading is that the call names, up to
// the next heading that is not below it.
func section(call *skill.Call, body string) (from, to int, err error) {
	want := strings.TrimSpace(flags.Text(call, "heading"))
	if want == "" {
		return 0, 0, mesh.InvalidField(call.Skill, "heading", "is missing; name the heading of the section")
	}
	level := 0
	if m := headingRule.FindStringSubmatch(want); m != nil {
		level, want = len(m[1]), strings.TrimSpace(m[2])
	}
	all := headings(body)
	found := -1
	var names []string
	for i, h := range all {
		names = append(names, strings.Repeat("#", h.level)+" "+h.text)
		if !strings.EqualFold(h.text, want) || level != 0 && level != h.level {
			continue
		}
		if found >= 0 {
			return 0, 0, mesh.InvalidField(call.Skill, "heading", "is there more than once; change the text with mode text")
		}
		found = i
	}
	if found < 0 {
		return 0, 0, mesh.InvalidField(call.Skill, "heading", "is not in the note, whose headings are %s", mesh.Clip(strings.Join(names, ", "), 500))
	}
	to = len(body)
	for _, h := range all[found+1:] {
		if h.level <= all[found].level {
			to = h.start
			break
		}
	}
	return all[found].end, to, nil
}
