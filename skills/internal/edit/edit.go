// Package edit changes and shows texts by lines and by exact text.
//
// All functions are pure. Errors are of calls to skills and name the flag that
// was wrong.
package edit

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/tenantdir"
)

// Append adds the text at the end, on a line of its own, with the line ends of
// the old one.
func Append(old, text string) string {
	if windows(old) {
		text = crlf.Replace(text)
	}
	if old != "" && !strings.HasSuffix(old, "\n") {
		old += lineEnd(old)
	}
	if text == "" || strings.HasSuffix(text, "\n") {
		return old + text
	}
	return old + text + lineEnd(old)
}

// Ended is the text with a line end, unless there is no text.
func Ended(text string) string { return Append("", text) }

// crlf makes all line ends those of Windows.
var crlf = strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n")

// windows reports whether all lines of the text end as on Windows, which is not
// shown to those who read it.
func windows(text string) bool {
	n := strings.Count(text, "\r\n")
	return n > 0 && n == strings.Count(text, "\n")
}

func lineEnd(text string) string {
	if windows(text) {
		return "\r\n"
	}
	return "\n"
}

// Exact replaces what the flag find says by the text. The flag count says how
// often it is there, once unless it is given. Line ends are those of the old
// text.
func Exact(call *skill.Call, old, text string) (string, error) {
	find := flags.Text(call, "find")
	if find == "" {
		return "", mesh.InvalidField(call.Skill, "find", "is missing; give the exact text to replace")
	}
	if windows(old) {
		find, text = crlf.Replace(find), crlf.Replace(text)
	}
	want, err := flags.Int(call, "count", 1, 1, 10_000)
	if err != nil {
		return "", err
	}
	switch n := strings.Count(old, find); {
	case n == 0:
		return "", mesh.InvalidField(call.Skill, "find", "is not in the text; read it again and copy the text exactly, with its spaces and lines")
	case n != want:
		return "", mesh.InvalidField(call.Skill, "count", "is %d, but the text to find is there %d times; give more of what is around it, or that count", want, n)
	}
	return strings.ReplaceAll(old, find, text), nil
}

// IsText reports whether people can read it: UTF-8 without NUL.
func IsText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// Bounds of what is shown at once.
const (
	maxLines = 2000
	maxBytes = 12 << 10
	maxLine  = 4 << 10
)

// Show is the part of the text that the flags from and limit name, with the
// number of each line before it, so that no line begins with what the text
// says. If there is more, it says how to get it.
func Show(call *skill.Call, name string, data []byte) (*skill.Result, error) {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	total := len(lines)
	if len(data) == 0 {
		total = 0
	}
	from, err := flags.Int(call, "from", 1, 1, max(total, 1))
	if err != nil {
		return nil, mesh.InvalidField(call.Skill, "from", "must be from 1 to %d, which is the last line", max(total, 1))
	}
	limit, err := flags.Int(call, "limit", 200, 1, maxLines)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	next := from
	for next <= total && next < from+limit && b.Len() < maxBytes {
		// A line end within a line, as a single CR, would end the number's hold.
		line := strings.Map(visible, strings.TrimSuffix(lines[next-1], "\r"))
		fmt.Fprintf(&b, "\n%5d| %s", next, mesh.Clip(line, maxLine))
		next++
	}
	version := tenantdir.Version(data)
	head := fmt.Sprintf("%s, version %s, lines %d to %d of %d:", name, version, from, next-1, total)
	if total == 0 {
		head = fmt.Sprintf("%s, version %s, is empty.", name, version)
	}
	if next <= total {
		fmt.Fprintf(&b, "\n\n%d lines more; go on with --from %d.", total-next+1, next)
	}
	return &skill.Result{
		Content:  head + b.String(),
		Metadata: map[string]any{"path": name, "version": version, "from": from, "to": next - 1, "lines": total, "bytes": len(data)},
	}, nil
}

func visible(r rune) rune {
	switch {
	case r == '\t':
		return r
	case r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029:
		return ' '
	}
	return r
}
