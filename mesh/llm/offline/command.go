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

// line writes the deed as a command.
func (d deed) line() string {
	switch {
	case d.help != "":
		return d.help + " --help"
	case d.skill == "":
		return toolGetSkill + flag("search", d.search)
	}
	var b strings.Builder
	b.WriteString(d.skill)
	for _, name := range slices.Sorted(maps.Keys(d.args)) {
		b.WriteString(flag(name, d.args[name]))
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
	plain := !slices.ContainsFunc(values, func(v string) bool { return v == "" || strings.ContainsAny(v, ",[]{}\"'\r\n") })
	if !plain {
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
		if joined := value + " " + atom; oneKind(joined) || strings.Trim(value, " ") == "" || atom == "" {
			value = joined
			continue
		}
		out = append(out, quoteOne(value))
		value = atom
	}
	return strings.Join(append(out, quoteOne(value)), " ")
}

// oneKind reports whether the text has one kind of quotes at most.
func oneKind(text string) bool {
	return !strings.Contains(text, `"`) || !strings.Contains(text, `'`)
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

// resultTitle is how the result of a command begins.
func resultTitle(name string) string { return "[Command Result: " + name + "]\n" }

// commandResults takes apart the message with the results of the deeds'
// commands. What follows the title of the last one is all its result, whatever
// it looks like.
func commandResults(told string, deeds []deed) ([]string, bool) {
	var out []string
	for i, d := range deeds {
		rest, ok := strings.CutPrefix(told, resultTitle(d.name()))
		if !ok {
			return nil, false
		}
		if i+1 < len(deeds) {
			if rest, told, ok = strings.Cut(rest, "\n\n"+resultTitle(deeds[i+1].name())); !ok {
				return nil, false
			}
			told = resultTitle(deeds[i+1].name()) + told
		}
		out = append(out, strings.TrimSpace(rest))
	}
	return out, len(deeds) > 0
}

// failures are how the results of commands begin that were not carried out.
var failures = regexp.MustCompile(`^(?:Error:|Invalid arguments for '|Unknown skill '|Failed to execute '|Skill '[^'\n]*' is not available|'[^'\n]*' is temporarily unavailable|` +
	`(?:Line \d+ of your reply: )?In ` + "`" + `|get_skill is not available|Skills cannot be looked up:|Unknown domain '|timeout: |task_crashed: )`)

func failedCommand(text string) bool { return failures.MatchString(text) }

// readUsages reads the skills that a prompt lists for commands.
func readUsages(listing string) []skill {
	var out []skill
	blocks(listing, func(name, block string) {
		about, flags, _ := strings.Cut(strings.TrimLeft(block, "\n"), "\n")
		out = append(out, skill{Name: name, Description: squeeze(about), Parameters: readFlags(flags)})
	})
	return out
}

var (
	flagLine     = regexp.MustCompile(`^ {4}--([a-z][a-z0-9_-]*)(?: <([a-z]+)>)?(?:  +(.*))?$`)
	defaultMark  = regexp.MustCompile(`\(default: ([^()]*)\)`)
	flagsHeading = regexp.MustCompile(`(?m)^## Flags[ \t]*$`)
)

// readFlags reads the lines that describe flags, as "--limit <integer>  How
// many (default: 5)".
func readFlags(text string) []param {
	var out []param
	for line := range strings.SplitSeq(text, "\n") {
		m := flagLine.FindStringSubmatch(strings.TrimRight(line, " \t"))
		if m == nil {
			continue
		}
		p := param{Name: m[1], Type: m[2]}
		about := m[3]
		take := func(mark string) bool {
			had := strings.Contains(about, mark)
			about = strings.Replace(about, mark, "", 1)
			return had
		}
		p.Required = take("(required)")
		if take("(boolean flag)") {
			p.Type = "flag"
		}
		if d := defaultMark.FindStringSubmatch(about); d != nil {
			p.Default = looseString(d[1])
			take(d[0])
		}
		about = squeeze(about)
		if i := strings.LastIndex(about, "One of: "); i >= 0 {
			p.Enum = strings.Split(about[i+len("One of: "):], ", ")
			about = strings.TrimSpace(about[:i])
		}
		p.Description = about
		out = append(out, p)
	}
	return out
}

// readPage reads the flags of a skill's page.
func readPage(page string) []param {
	at := flagsHeading.FindStringIndex(page)
	if at == nil {
		return nil
	}
	flags := page[at[1]:]
	if end := strings.Index(flags, "\n## "); end >= 0 {
		flags = flags[:end]
	}
	return readFlags(flags)
}
