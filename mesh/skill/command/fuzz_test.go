package command_test

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// FuzzSplit checks, for any reply: that pieces give what the whole gives, that
// each command is a line between one that opens a block and one that closes it,
// and that a reply without such lines is all text.
func FuzzSplit(f *testing.F) {
	for _, tt := range replies {
		f.Add(tt.reply, uint64(len(tt.reply)))
	}
	for _, text := range hostile {
		f.Add(text, uint64(7))
	}
	f.Add("A\n```cmd\na.b\n  c.d   ```\nB\n``````cmd\ne.f\n```\nC", uint64(62))
	f.Fuzz(func(t *testing.T, reply string, seed uint64) {
		samePieces(t, reply, cut(reply, seed))
		text, lines, problem := command.Split(reply)
		if strings.Contains(text, "\n\n\n") || text != strings.Trim(text, " \t\n") || strings.Contains(text, "\r") {
			t.Errorf("the text is not tidy: %q", text)
		}
		all := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(reply), "\n")
		for _, l := range lines {
			if !inBlock(all, l.At) {
				t.Errorf("%q, line %d, is in no block", l.Raw, l.At)
			}
			first, _, _ := strings.Cut(l.Raw, "\n")
			if !strings.Contains(all[l.At-1], first) {
				t.Errorf("line %d is %q, not %q", l.At, all[l.At-1], l.Raw)
			}
		}
		fences := false
		for _, line := range all {
			fences = fences || openLine.MatchString(line)
		}
		if !fences && (len(lines) > 0 || problem != nil || words(text) != words(reply)) {
			t.Errorf("without a block the text is %q, with %v, %v", text, lines, problem)
		}
	})
}

var openLine = regexp.MustCompile("^ {0,3}(`{3,})cmd[ \t]*$")

// inBlock reports whether line at, counted from 1, stands between a line that
// opens a block and the first one that closes it.
func inBlock(all []string, at int) bool {
	for i := range at - 1 {
		if openLine.MatchString(all[i]) && closer(all, i) >= at {
			return true
		}
	}
	return false
}

// closer returns the line that closes the block that line open opens, or -1.
func closer(all []string, open int) int {
	marks := openLine.FindStringSubmatch(all[open])[1]
	closes := regexp.MustCompile("^ {0,3}" + marks + "`*[ \t]*$")
	for i := open + 1; i < len(all); i++ {
		if closes.MatchString(all[i]) {
			return i
		}
	}
	return -1
}

// words is the text without white space.
func words(text string) string {
	return strings.NewReplacer(" ", "", "\t", "", "\n", "", "\r", "").Replace(text)
}

// cut cuts the text into pieces.
func cut(text string, seed uint64) []string {
	const most = 9
	random := rand.New(rand.NewPCG(seed, 1))
	var pieces []string
	for len(text) > 0 {
		n := min(random.IntN(most), len(text))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

// FuzzParse checks, for any line: that what is read has a valid name and valid
// values, that an error has all that a model needs, and that a value in quotes
// is that value and nothing else, whatever it is.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`tasks.create --title "Call Ann" --tags a b --done`, `a.b --x='y"z' c`, "a.b --x \"1\n2\"", `get_skill: tasks.all`,
		`tasks --help`, `a.b | c.d`, `it's "x`, `a.b --x don't 'can''t'`, "", `--`, "```cmd", `a.b --x "" --y=`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, err := command.Parse(line)
		var bad *command.Error
		switch {
		case errors.As(err, &bad):
			if bad.Kind == "" || !strings.Contains(bad.Detail, "The right form is") {
				t.Errorf("%q: %v", line, bad)
			}
		case err != nil:
			t.Errorf("%q: %v is no *Error", line, err)
		default:
			valid(t, c)
		}
		value := strings.NewReplacer("\r\n", "\n", "\r", "").Replace(line)
		mark := `"`
		if strings.Contains(value, mark) {
			mark, value = "'", strings.ReplaceAll(value, "'", "")
		}
		for _, form := range []string{"a.b --x " + mark + value + mark, "a.b --x=" + mark + value + mark} {
			c, err := command.Parse(form)
			if err != nil || c.Skill != "a.b" || len(c.Flags) != 1 || c.Flags["x"] != value || c.Help || len(c.Stray) > 0 {
				t.Errorf("%s is read as %+v, %v", form, c, err)
			}
		}
	})
}

func valid(t *testing.T, c *command.Command) {
	t.Helper()
	switch {
	case c.Skill == command.GetSkill:
	case c.Skill == "":
		if !c.Help || !skill.ValidPart(c.Domain) {
			t.Errorf("%+v has no skill", c)
		}
	case c.Skill != c.Domain+"."+c.Action || !skill.ValidPart(c.Domain) || !skill.ValidPart(c.Action):
		t.Errorf("%+v: bad name", c)
	}
	for name, value := range c.Flags {
		list, isList := value.([]string)
		_, isText := value.(string)
		if name == "" || strings.Contains(name, "-") || !isText && value != true && (!isList || len(list) < 2) {
			t.Errorf("%+v: bad flag %q", c, name)
		}
	}
}
