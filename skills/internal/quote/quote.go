// Package quote shows to a model what others wrote, as data.
//
// A stored text may contain anything, also what looks like a command block, a
// role's prefix or the end of a result. Quoted, each of its lines begins with
// the quote mark, whatever ends a line anywhere, so that none of them begins
// with anything else. Characters that cannot be seen are left out.
//
// All functions are pure. They change how a text is shown; it is stored as it
// is.
package quote

import (
	"strings"

	"agentmesh/mesh/skill"
)

// Mark is what each quoted line begins with.
const Mark = "> "

// Text returns the text with the mark before each line.
func Text(s string) string {
	return Mark + strings.ReplaceAll(strings.Trim(Visible(s), "\n"), "\n", "\n"+Mark)
}

// Defused is Text without code fences, for texts that nobody needs to the
// letter: a model that repeats them without the mark opens no block.
func Defused(s string) string {
	return Text(strings.NewReplacer("```", "'''", "~~~", "'''").Replace(Visible(s)))
}

// Line returns the text as one line without the mark, for names and titles.
func Line(s string) string {
	return strings.Join(strings.Fields(Visible(s)), " ")
}

// Visible is [skill.Visible].
func Visible(s string) string { return skill.Visible(s) }
