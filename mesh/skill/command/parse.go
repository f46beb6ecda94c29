package command

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// GetSkill is the command that asks what there is: alone for all domains, with
// a domain, a skill, "<domain>.all", or --search.
const GetSkill = "get_skill"

// A Command is one line of a command block, read.
type Command struct {
	// Skill is the skill's name, as "tasks.create"; GetSkill for that; "" for
	// "<domain> --help".
	Skill string
	// Domain and Action are the halves of Skill.
	Domain, Action string
	// Flags has the values by name, in which '_' stands for '-': a string, a
	// []string of at least two, or true for a flag without a value.
	Flags map[string]any
	// Help says that the line asks for help. It calls nothing.
	Help bool
	// Get is what get_skill is asked for: "", a domain, a skill's name, or
	// "<domain>.all".
	Get string
	// Stray are words that belong to no flag. They mean nothing.
	Stray []string
	// Raw is the line.
	Raw string
}

// Discovery reports whether the command only asks what there is or how it is
// called: [Help] answers it, and it is never executed.
func (c *Command) Discovery() bool { return c.Help || c.Skill == GetSkill }

// Note tells the model which words of its line had no effect, or is "".
func (c *Command) Note() string {
	if len(c.Stray) == 0 {
		return ""
	}
	return fmt.Sprintf("Note: %s had no effect, because it belongs to no flag. Write --name value, and put values that contain spaces into quotes.",
		excerpt(strings.Join(c.Stray, " ")))
}

// The kinds of errors.
const (
	KindEmpty    = "empty_command"
	KindTokenize = "tokenize_error"
	KindFormat   = "invalid_command_format"
)

// An Error says what is wrong with a line. It is also a [mesh.Error], Invalid.
type Error struct {
	// Kind is one of the kinds above.
	Kind string
	// Detail tells the model which line it is, what is wrong with it, and what
	// the right form is.
	Detail string
}

// Error returns kind and detail.
func (e *Error) Error() string { return e.Kind + ": " + e.Detail }

// Unwrap returns the error in the form that all of the mesh knows.
func (e *Error) Unwrap() error {
	return &mesh.Error{Code: mesh.Invalid, Op: "command.Parse", Detail: e.Detail}
}

func refuse(kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// Parse reads one line of a command block, which may go on within quotes. Its
// error is an [*Error]. Whether the skill exists and takes such flags is not
// looked at.
func Parse(line string) (*Command, error) {
	c, bad := parse(line)
	if bad != nil {
		return nil, bad
	}
	return c, nil
}

// right shows the form of a command to who got it wrong.
const right = `The right form is: tasks.create --title "Call Ann" --tags customer call`

func parse(line string) (*Command, *Error) {
	line = strings.Trim(strings.ReplaceAll(line, "\r\n", "\n"), " \t\n")
	c, bad := read(line)
	if bad == nil {
		return c, nil
	}
	if bad.Kind != KindEmpty {
		bad.Detail = "In " + excerpt(line) + ": " + bad.Detail
	}
	bad.Detail += ". " + right
	return nil, bad
}

func read(line string) (*Command, *Error) {
	words, end, bad := scan(line)
	for len(words) > 0 && words[0].text == "" {
		words = words[1:]
	}
	switch {
	case bad != nil:
		return nil, bad
	case end < len(line):
		return nil, refuse(KindFormat, "there is more than one line. Write one command per line; only a quoted value may go on in the next one")
	case len(words) == 0:
		return nil, refuse(KindEmpty, "There is no command")
	}
	for _, w := range words {
		if w.plain && slices.Contains([]string{";", "|", "||", "&&", ">", ">>"}, w.text) {
			return nil, refuse(KindFormat, "%s is not allowed: one command per line; pipes are not supported. If it is part of a value, put the value into quotes", excerpt(w.text))
		}
	}
	c := &Command{Raw: line, Flags: map[string]any{}}
	head, rest := words[0].text, words[1:]
	if operand, ok := strings.CutPrefix(head, GetSkill+":"); ok && operand != "" {
		head, rest = GetSkill, slices.Insert(rest, 0, word{text: operand})
	}
	if bad := c.readFlags(rest); bad != nil {
		return nil, bad
	}
	return c, c.readName(strings.TrimSuffix(head, ":"))
}

// flagName is what may stand between "--" and "=".
var flagName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// readFlags reads what follows the name.
func (c *Command) readFlags(words []word) *Error {
	current := ""
	for _, w := range words {
		flag, isFlag := strings.CutPrefix(w.text, "--")
		switch {
		case w.bare && isFlag:
			key, value, given := strings.Cut(flag, "=")
			if !flagName.MatchString(key) {
				return refuse(KindFormat, "%s is not a flag: after -- comes its name, as in --title. If it is a value, put it into quotes", excerpt(w.text))
			}
			key = FlagName(key)
			if current = key; given {
				current = ""
				c.Flags[key] = value
			} else {
				c.Flags[key] = true
			}
		case current == "" && w.text != "":
			c.Stray = append(c.Stray, w.text)
		case current != "":
			c.Flags[current] = AddValue(c.Flags[current], w.text)
		}
	}
	if _, help := c.Flags["help"]; help {
		c.Help = true
		delete(c.Flags, "help")
	}
	return nil
}

// FlagName returns the name of a flag or parameter in the form in which names
// are compared: with '_' for '-'.
func FlagName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// AddValue returns what a flag has when the value is added to what it had:
// true, a string or a []string. An empty value is none where there are others.
func AddValue(had any, value string) any {
	list, isList := had.([]string)
	switch one, _ := had.(string); {
	case isList && value != "":
		return append(list, value)
	case isList, one != "" && value == "":
		return had
	case one != "":
		return []string{one, value}
	}
	return value
}

// readName reads what the line begins with.
func (c *Command) readName(name string) *Error {
	domain, action, dotted := strings.Cut(name, ".")
	switch {
	case name == GetSkill:
		c.Skill = name
		c.readOperand()
	case dotted && skill.ValidPart(domain) && skill.ValidPart(action):
		c.Skill, c.Domain, c.Action = name, domain, action
	case skill.ValidPart(name) && c.Help:
		c.Domain = name
	case skill.ValidPart(name):
		return refuse(KindFormat, "%s names no skill. A command begins with <domain>.<action>; if %s is a domain, \"%s --help\" lists its skills", excerpt(name), name, name)
	case strings.HasPrefix(name, "```"):
		return refuse(KindFormat, "a block cannot stand within a block. Close the first one with a line of backticks before the next one opens")
	default:
		return refuse(KindFormat, "%s is not a skill's name. A command begins with <domain>.<action> in lower case, and nothing stands before it; \"get_skill\" lists what there is", excerpt(name))
	}
	return nil
}

// readOperand finds what get_skill is asked for: its first word, or the value
// of --domain.
func (c *Command) readOperand() {
	if len(c.Stray) > 0 {
		c.Get, c.Stray = c.Stray[0], c.Stray[1:]
	} else if domain, ok := c.Flags["domain"].(string); ok {
		c.Get = domain
	}
}

// excerpt quotes the first line of the text, shortened, for a message.
func excerpt(text string) string {
	const most = 60
	first, _, more := strings.Cut(text, "\n")
	if first = mesh.Clip(first, most); more && !strings.HasSuffix(first, "…") {
		first += "…"
	}
	return "`" + first + "`"
}
