package skill

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"agentmesh/mesh"
)

// maxAsked bounds what the user is shown of one argument, in bytes.
const maxAsked = 1000

// Question returns what the user is asked before the call: what the skill says
// in Confirm, or that it wants to run, and every argument on a line of its own.
// An argument cannot pass for another one, or for more than it is.
func Question(s *Skill, call *Call) string {
	var b strings.Builder
	if s.Confirm != "" {
		b.WriteString(s.Confirm)
	} else {
		fmt.Fprintf(&b, "May I run %s? %s", s.Name, s.Description)
	}
	place := make(map[string]int, len(s.Parameters)) // from the end, so that undeclared ones come last
	for i := range s.Parameters {
		place[s.Parameters[i].Name] = len(s.Parameters) - i
	}
	names := slices.SortedFunc(maps.Keys(call.Args), func(a, c string) int {
		return cmp.Or(place[c]-place[a], strings.Compare(a, c))
	})
	for _, name := range names {
		fmt.Fprintf(&b, "\n- %s: %s", oneLine(name), oneLine(text(call.Args[name])))
	}
	return b.String()
}

// text writes an argument as people read it.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = text(v[i])
		}
		return strings.Join(items, ", ")
	}
	if data, err := json.Marshal(v); err == nil {
		return string(data)
	}
	return fmt.Sprint(v)
}

func oneLine(s string) string {
	return mesh.Clip(strings.Join(strings.Fields(Visible(s)), " "), maxAsked)
}

// narrowing are the parameters, by custom, that ask for less or for the rest.
var narrowing = []string{"limit", "offset", "after", "page", "cursor", "from", "lines"}

// cut shortens the content to what a model is told, and says so to it, with
// what it can do about it (S3-154).
func cut(r *Result, most int, s *Skill, source string) *Result {
	if len(r.Content) <= most {
		return r
	}
	end := most
	for end > 0 && !utf8.RuneStart(r.Content[end]) {
		end--
	}
	if line := strings.LastIndexByte(r.Content[:end], '\n'); line > end/2 {
		end = line
	}
	var by []string
	for i := range s.Parameters {
		if name := s.Parameters[i].Name; slices.Contains(narrowing, name) {
			by = append(by, flagName(name, source))
		}
	}
	remedy := "ask for less, with a narrower request"
	if len(by) > 0 {
		remedy = "ask for less or for the rest, with " + strings.Join(by, ", ")
	}
	shown, missing := r.Content[:end], r.Content[end:]
	much := fmt.Sprintf("%d of %d bytes", len(missing), len(r.Content))
	if n := strings.Count(strings.TrimSuffix(missing, "\n"), "\n"); n > 0 {
		much += fmt.Sprintf(" (%d lines)", n)
	}
	short := *r
	short.Full = r.Content
	short.Content = fmt.Sprintf("%s\n[%s are missing here; %s]", shown, much, remedy)
	return &short
}

// flagName writes a parameter as the face through which the call came does.
func flagName(name, source string) string {
	if source == mesh.SourceCommand {
		return "--" + name
	}
	return "'" + name + "'"
}
