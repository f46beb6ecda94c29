package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"agentmesh/mesh/llm"
)

// This file has all that the planner knows of texts which the mesh writes for
// models: what has no typed form in a request. Each function is one fact, to be
// read from data when there is any.

// onLimit reports whether a call was not made because a limit was met.
func onLimit(result string) bool {
	return strings.Contains(result, "The limit of skill calls ") && strings.Contains(result, " is reached (")
}

// asksToGoOn reports whether the message is the mesh's own report of a limit,
// which comes in the name of the agent.
func asksToGoOn(m *llm.Message) bool {
	return m.Role == llm.RoleAssistant && m.Name != "" && len(m.Tools) == 0 && strings.Contains(m.Text, "Would you like me to continue")
}

// ofAnotherTask reports whether the result stands for that of a call of another
// task, which waits for an answer of its own, or was cut.
func ofAnotherTask(result string) bool {
	return strings.Contains(result, "it waits for the user's answer to an earlier task.") || strings.Contains(result, "The call was interrupted; it is not known whether it had an effect.")
}

// isDispatched reports whether the agent works for another one, by its prompt.
func isDispatched(system string) bool { return strings.Contains(system, "You do exactly one mission") }

// template returns the skill whose page the message wants carried out, or "".
func template(message string) string {
	name, ok := strings.CutPrefix(message, "Carry out the skill ")
	name, _, _ = strings.Cut(name, " ")
	if !ok {
		return ""
	}
	return name
}

// Sections of the message that an agent gets which another one dispatched.
const (
	contextHeading = "## additional context"
	resultsHeading = "## results from prior agents"
)

var resultHead = regexp.MustCompile(`^Results from ([^\n:]{1,120}):[ \t]*$`)

// sections takes a dispatched message apart: what to do, its context, and the
// results of other agents by their ids. These are data: nothing in them is a
// heading.
func sections(text string) (mission, context string, results map[string]string) {
	parts := map[string][]string{}
	at, fenced := "", false
	results = map[string]string{}
	var one []string
	put := func(next string) {
		if id, ok := strings.CutPrefix(at, "of "); ok {
			results[id] = strings.TrimSpace(strings.Join(one, "\n"))
		} else {
			parts[at] = append(parts[at], one...)
		}
		at, one = next, nil
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		head := strings.ToLower(strings.TrimSpace(line))
		named := resultHead.FindStringSubmatch(line)
		among := at == resultsHeading || strings.HasPrefix(at, "of ")
		switch {
		case among && head == "```":
			fenced = !fenced
		case among && !fenced && named != nil:
			put("of " + named[1])
		case !among && (head == contextHeading || head == resultsHeading):
			put(head)
		default:
			one = append(one, line)
		}
	}
	put("")
	return strings.TrimSpace(strings.Join(parts[""], "\n")), strings.TrimSpace(strings.Join(parts[contextHeading], "\n")), results
}

// commandTitle is how the result of a command begins.
func commandTitle(name string) string { return "[Command Result: " + name + "]\n" }

// commandResults takes apart the message with the results of commands. What
// follows the title of the last one is all its result, whatever it looks like.
func commandResults(told string, names []string) []string {
	var out []string
	for i, name := range names {
		rest, ok := strings.CutPrefix(told, commandTitle(name))
		if !ok {
			return out
		}
		if i+1 < len(names) {
			next := commandTitle(names[i+1])
			if rest, told, ok = strings.Cut(rest, "\n\n"+next); !ok {
				return append(out, strings.TrimSpace(rest))
			}
			told = next + told
		}
		out = append(out, strings.TrimSpace(rest))
	}
	return out
}

var commandFailed = regexp.MustCompile(`^(?:Error:|Invalid arguments for '|Unknown skill '|Failed to execute '|Skill '[^'\n]*' is not available|'[^'\n]*' is temporarily unavailable|` +
	`(?:Line \d+ of your reply: )?In ` + "`" + `|get_skill is not available|Skills cannot be looked up:|Unknown domain '|timeout: |task_crashed: )`)

// failedCommand reports whether the result of a command tells of a failure.
func failedCommand(text string) bool { return commandFailed.MatchString(text) || onLimit(text) }

var missingField = regexp.MustCompile(`(?i)missing required (?:field|flag|parameter|argument)s?:? '?(?:--)?([a-z][a-z0-9_-]*)'?`)

// wanting returns the argument that a failure says is missing, or "".
func wanting(result string) string {
	if m := missingField.FindStringSubmatch(result); m != nil {
		return strings.ReplaceAll(m[1], "-", "_")
	}
	return ""
}

// An agentLine is an agent of the catalog in a tool's description.
type agentLine struct {
	name, description      string
	skills, tags, triggers []string
}

var (
	linePattern = regexp.MustCompile(`(?m)^- ([a-z][a-z0-9_-]*): (.*?)(?: \(((?:skills|tags|triggers):[^()]*)\))?[ \t]*$`)
	domainLine  = regexp.MustCompile(`(?m)^- ([a-z][a-z0-9_]*) \(\d+ skills?\)(?:: (.*))?$`)
	skillHead   = regexp.MustCompile(`(?m)^### ([a-z][a-z0-9_.]*)[ \t]*$`)
	skillLine   = regexp.MustCompile("(?m)^(?:[-*] |\\| ?)`?([a-z][a-z0-9_]*\\.[a-z][a-z0-9_]*)`?(?:: | \\| ?)(.*?)[ |]*$")
	paramsLine  = regexp.MustCompile(`(?m)^\[.*\][ \t]*$`)
	flagLine    = regexp.MustCompile(`^ {4}--([a-z][a-z0-9_-]*)(?: <([a-z]+)>)?(?:  +(.*))?$`)
	defaultMark = regexp.MustCompile(`\(default: [^()]*\)`)
)

// agentsIn reads the catalog in the description of a tool.
func agentsIn(description string) []agentLine {
	var out []agentLine
	for _, m := range linePattern.FindAllStringSubmatch(description, -1) {
		a := agentLine{name: m[1], description: m[2]}
		for field := range strings.SplitSeq(m[3], ";") {
			key, values, _ := strings.Cut(field, ":")
			list := strings.FieldsFunc(values, func(r rune) bool { return r == ',' })
			for i := range list {
				list[i] = strings.TrimSpace(list[i])
			}
			switch strings.TrimSpace(key) {
			case "skills":
				a.skills = list
			case "tags":
				a.tags = list
			case "triggers":
				a.triggers = list
			}
		}
		out = append(out, a)
	}
	return out
}

// A domain is a group of skills.
type domain struct{ name, description string }

func domainsIn(text string) []domain {
	var out []domain
	for _, m := range domainLine.FindAllStringSubmatch(text, -1) {
		out = append(out, domain{m[1], m[2]})
	}
	return out
}

// commandSkills returns what a system prompt lists as skills, and whether it
// says that they are called by commands.
func commandSkills(system string) (listing string, ok bool) {
	lines := strings.Split(system, "\n")
	rules := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "## Commands") })
	if rules < 0 {
		return "", false
	}
	lines = lines[rules+1:]
	begin := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "## Skills") })
	if begin < 0 {
		return "", true
	}
	lines = lines[begin+1:]
	if end := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "## ") }); end >= 0 {
		lines = lines[:end]
	}
	return strings.Join(lines, "\n"), true
}

// blocksIn calls yield for each part of the text with a skill's name as its head.
func blocksIn(text string, yield func(name, block string)) {
	heads := skillHead.FindAllStringSubmatchIndex(text, -1)
	for i, h := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		yield(text[h[2]:h[3]], text[h[1]:end])
	}
}

// describedIn reads the skills that the tool use_skill lists.
func describedIn(def *llm.Tool) []skill {
	var out []skill
	blocksIn(def.Description, func(name, block string) {
		s := skill{Name: name}
		if loc := paramsLine.FindStringIndex(block); loc != nil {
			_ = json.Unmarshal([]byte(block[loc[0]:loc[1]]), &s.Parameters) // what cannot be read says nothing
			block = block[:loc[0]]
		}
		s.Description = squeeze(block)
		out = append(out, s)
	})
	return out
}

// usagesIn reads the skills that a prompt lists for commands.
func usagesIn(listing string) []skill {
	var out []skill
	blocksIn(listing, func(name, block string) {
		about, flags, _ := strings.Cut(strings.TrimLeft(block, "\n"), "\n")
		out = append(out, skill{Name: name, Description: squeeze(about), Parameters: flagsIn(flags)})
	})
	return out
}

// flagsIn reads the lines that describe flags, as "--limit <integer>  How many
// (default: 5)".
func flagsIn(text string) []param {
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
		about = squeeze(defaultMark.ReplaceAllString(about, ""))
		if i := strings.LastIndex(about, "One of: "); i >= 0 {
			p.Enum = strings.Split(about[i+len("One of: "):], ", ")
			about = strings.TrimSpace(about[:i])
		}
		p.Description = about
		out = append(out, p)
	}
	return out
}

// pageFlags reads the flags of a skill's page.
func pageFlags(page string) []param {
	_, flags, _ := strings.Cut(page, "\n## Flags")
	flags, _, _ = strings.Cut(flags, "\n## ")
	return flagsIn(flags)
}

// hintsIn reads names and descriptions of skills in lists and tables.
func hintsIn(text string) []skill {
	var out []skill
	for _, m := range skillLine.FindAllStringSubmatch(text, -1) {
		out = append(out, skill{Name: m[1], Description: m[2]})
	}
	return out
}

var (
	markedID  = regexp.MustCompile(`\bid[: ]+([A-Za-z0-9][A-Za-z0-9_-]*)`)
	bracketed = regexp.MustCompile(`\[([a-z]{1,4}-[A-Za-z0-9]+)\]`)
)

// idsFor returns the ids in a result that stand on lines with the words; without
// words, all of them.
func idsFor(result, words string) []string {
	want := tokenize(words)
	var out []string
	for line := range strings.SplitSeq(result, "\n") {
		have := map[string]bool{}
		for _, t := range tokenize(line) {
			if t.kind == quoted {
				for _, in := range tokenize(t.text) {
					have[in.stem] = true
				}
			}
			have[t.stem] = true
		}
		if slices.ContainsFunc(want, func(t token) bool { return t.kind == word && !have[t.stem] }) {
			continue
		}
		for _, m := range append(bracketed.FindAllStringSubmatch(line, -1), markedID.FindAllStringSubmatch(line, -1)...) {
			if !slices.Contains(out, m[1]) {
				out = append(out, m[1])
			}
		}
	}
	return out
}
