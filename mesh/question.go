package mesh

import (
	"slices"
	"strings"
)

// Shows reports whether a text that a user is shown has the question in it, as a
// paragraph of its own: its lines are there one after the other, with whatever
// space around them, numbered or not, and a blank line or the end of the text
// comes next. A question that merely begins like another one, as one about "bob"
// beside one about "bob@example.com", is not shown by that.
func Shows(text, question string) bool {
	want, lines := linesOf(question), linesOf(text)
	if len(want) == 0 {
		return false
	}
	for i := 0; i+len(want) <= len(lines); i++ {
		end := i + len(want)
		if unnumbered(lines[i], want[0]) && slices.Equal(lines[i+1:end], want[1:]) && (end == len(lines) || lines[end] == "") {
			return true
		}
	}
	return false
}

// linesOf returns the lines, with single spaces between their words, from the
// first to the last that has any.
func linesOf(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines
}

// unnumbered reports whether the line is the wanted one, perhaps behind numbers,
// as in "1. 2. May I?".
func unnumbered(line, want string) bool {
	for line != want {
		number, rest, ok := strings.Cut(line, ". ")
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
			return false
		}
		line = rest
	}
	return true
}
