package offline

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// commandBlock puts command lines into a block. Its fence is longer than any
// that stands in a value.
func commandBlock(lines []string) string {
	body := strings.Join(lines, "\n")
	width, run := 3, 0
	for i := range len(body) {
		if run++; body[i] != '`' {
			run = 0
		}
		width = max(width, run+1)
	}
	marks := strings.Repeat("`", width)
	return marks + "cmd\n" + body + "\n" + marks
}

// fenceOfCommands opens a block of commands where it begins a line.
var fenceOfCommands = regexp.MustCompile("(`{3,})cmd")

// inert returns the text without fences that open blocks of commands.
func inert(text string) string { return fenceOfCommands.ReplaceAllString(text, "$1 cmd") }

// namesIn returns what the commands of a reply of the planner's own begin with,
// and which of them only ask for help. Values may go over several lines.
func namesIn(text string) (names []string, help []bool) {
	head, body, ok := strings.Cut(text, "cmd\n")
	if !ok || strings.Trim(head, "`") != "" {
		return nil, nil
	}
	quote, begin := byte(0), true
	for i := 0; i < len(body); i++ {
		switch b := body[i]; {
		case quote != 0:
			if b == quote {
				quote = 0
			}
		case b == '"' || b == '\'':
			quote = b
		case b == '\n':
			begin = true
			continue
		case begin && b != '`':
			line, _, _ := strings.Cut(body[i:], "\n")
			name, rest, _ := strings.Cut(line, " ")
			names, help = append(names, name), append(help, name == toolGetSkill || rest == "--help")
		}
		begin = false
	}
	return names, help
}

// commandLine writes the use of a skill as a command.
func commandLine(skill string, args map[string]any) string {
	var b strings.Builder
	b.WriteString(skill)
	for _, name := range slices.Sorted(maps.Keys(args)) {
		b.WriteString(flag(name, args[name]))
	}
	return b.String()
}

// flag writes one argument, with a blank before it.
func flag(name string, value any) string {
	name = " --" + name
	switch v := value.(type) {
	case bool:
		if v {
			return name
		}
		return name + "=false"
	case []string:
		return name + listValue(v)
	case []any:
		var list []string
		for _, it := range v {
			list = append(list, fmt.Sprint(it))
		}
		return name + listValue(list)
	case string:
		return name + " " + quoteWords(v)
	}
	return name + " " + quoteWords(fmt.Sprint(value))
}

// plainValue is what needs no quotes. A value that a shell or a reader of lists
// would take for more than text is never plain.
var plainValue = regexp.MustCompile(`^[A-Za-z0-9_@#/+.:][A-Za-z0-9_@#/+.:=-]*$`)

// listValue writes several values: one after the other, or, where commas or
// line breaks would tear them apart, as a JSON array.
func listValue(values []string) string {
	if slices.ContainsFunc(values, func(v string) bool { return v == "" || strings.ContainsAny(v, ",[]{}\"'\r\n") }) {
		data, err := json.Marshal(values)
		if err != nil {
			return ""
		}
		return " " + quoteWords(strings.ReplaceAll(string(data), "'", `\u0027`))
	}
	var b strings.Builder
	for _, v := range values {
		b.WriteString(" " + quoteWords(v))
	}
	return b.String()
}

// quoteWords writes a text so that it is read as it is. There is no escape
// character, so a text with one kind of quotes is put into the other. One with
// both is written as several values, which are read as one text with spaces
// between; where there is no space between two kinds of quotes, pieces in
// different quotes stand side by side. Only what has a line break there as well
// cannot be written: its apostrophes become typographic ones.
func quoteWords(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if plainValue.MatchString(text) {
		return text
	}
	var out []string
	value := ""
	for i, atom := range strings.Split(text, " ") {
		if i == 0 {
			value = atom
			continue
		}
		joined := value + " " + atom
		if oneKind := !strings.Contains(joined, `"`) || !strings.Contains(joined, `'`); oneKind || strings.Trim(value, " ") == "" || atom == "" {
			value = joined
			continue
		}
		out = append(out, quoteOne(value))
		value = atom
	}
	return strings.Join(append(out, quoteOne(value)), " ")
}

// quoteOne writes a text as one value.
func quoteOne(text string) string {
	switch {
	case !strings.Contains(text, `"`):
		return `"` + text + `"`
	case !strings.Contains(text, `'`):
		return `'` + text + `'`
	case strings.Contains(text, "\n"):
		return `'` + strings.ReplaceAll(text, `'`, "’") + `'`
	}
	var b strings.Builder
	for text != "" {
		mark := `"`
		if text[0] == '"' {
			mark = `'`
		}
		end := strings.Index(text, mark)
		if end < 0 {
			end = len(text)
		}
		b.WriteString(mark + text[:end] + mark)
		text = text[end:]
	}
	return b.String()
}

// typed reads a command that the user typed: a skill's name, and flags. ok is
// false if the part begins with no skill's name; "use tasks.search to …" only
// names it.
func (r *reader) typed(p part) (j *job, left []string, ok bool) {
	c := p.clause
	for c.at(0).is("use", "run", "execute", "the", "skill", "call") && len(c.toks) > 1 {
		c = c.from(1)
	}
	if !skillCall.MatchString(c.at(0).low) {
		return nil, nil, false
	}
	name := c.at(0).low
	at := slices.IndexFunc(r.skills, func(s skill) bool { return s.Name == name })
	if at < 0 {
		return nil, []string{p.all()}, true
	}
	s := &r.skills[at]
	f := &form{c: c, s: s, now: r.now, args: map[string]any{}, content: -1, used: make([]bool, len(c.toks))}
	for i := 1; i < len(c.toks); {
		t := c.at(i)
		flagged := strings.HasSuffix(c.text[:t.start], "--") && t.kind == word
		param := s.named(strings.ReplaceAll(t.text, "-", "_"), t.text)
		if !flagged || param == nil {
			return nil, []string{c.words(i, len(c.toks))}, true
		}
		i++
		end := i
		for end < len(c.toks) && !strings.HasSuffix(c.text[:c.at(end).start], "--") {
			end++
		}
		switch {
		case param.kind == kindFlag && end == i:
			f.set(param, true)
		case end == i:
			return nil, []string{"--" + t.text}, true
		case param.Type == "array":
			for ; i < end; i++ {
				if c.at(i).kind != punct {
					f.set(param, c.at(i).text)
				}
			}
		default:
			text := strings.TrimRight(strings.TrimSuffix(strings.TrimSpace(c.text[c.at(i).start:c.at(end-1).end]), "--"), " ")
			if c.at(i).kind == quoted && end == i+1 {
				text = c.at(i).text
			}
			f.set(param, text)
		}
		i = end
	}
	f.require()
	return &job{words: p.all(), stage: p.stage, form: f, slots: f.missing, steps: []*step{{Skill: s.Name, Arguments: f.args, skill: s}}}, nil, true
}
