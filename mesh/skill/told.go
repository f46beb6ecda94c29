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
	"agentmesh/mesh/text"
)

// Bounds of what the user is shown: of one argument, of all, and of a name, in bytes. A
// question fits in what the log keeps of one, [mesh.MaxResult].
const (
	maxAsked    = 8000
	maxAskedAll = 48 << 10
	maxNamed    = 200
)

// continued begins the lines of an argument after its first: no line of one can pass for
// another argument, whatever becomes of the space in it.
const continued = "\n  | "

// Question returns what the user is asked before the call: what the skill says
// in Confirm, or that it wants to run, and every argument, which begins a line. An
// argument cannot pass for another one, or for more than it is; of one that is too long
// to be shown, it says how much is not.
func Question(s *Skill, call *Call) string {
	var b strings.Builder
	if s.Confirm != "" {
		b.WriteString(s.Confirm)
	} else {
		b.WriteString(text.MayRun(s.Name, s.Description))
	}
	place := make(map[string]int, len(s.Parameters)) // from the end, so that undeclared ones come last
	for i := range s.Parameters {
		place[s.Parameters[i].Name] = len(s.Parameters) - i
	}
	names := slices.SortedFunc(maps.Keys(call.Args), func(a, c string) int {
		return cmp.Or(place[c]-place[a], strings.Compare(a, c))
	})
	left := maxAskedAll
	for _, name := range names {
		value, cost := shown(asText(call.Args[name]), min(left, maxAsked))
		left -= cost
		fmt.Fprintf(&b, "\n- %s: %s", mesh.Clip(strings.Join(strings.Fields(Visible(name)), " "), maxNamed), value)
	}
	return b.String()
}

// Question is the question about a call with the arguments, which are JSON.
func (s *Skill) Question(args string) (string, error) {
	call := new(Call)
	if args != "" {
		d := json.NewDecoder(strings.NewReader(args))
		d.UseNumber() // as it is written, however large
		if err := d.Decode(&call.Args); err != nil || d.More() {
			return "", mesh.InvalidField("skill.Question", "arguments", "must be a JSON object")
		}
	}
	return Question(s, call), nil
}

// CreateQuestion is what a user is asked before an agent creates the skill of a file, or
// changes the one of its name to it: with the whole of it. It is Invalid for a file that is
// none of a skill which users may have.
func CreateQuestion(source string, changes bool) (string, error) {
	s, bad := ParseNew([]byte(source))
	if bad != nil {
		return "", mesh.InvalidField("skill.CreateQuestion", "source", "%s", bad.Detail)
	}
	ask := text.MayCreate(s.Name)
	if changes {
		ask = text.MayChange(s.Name)
	}
	if s.Schedule != "" {
		ask += "\n" + text.RunsBy(strings.TrimSpace(s.Schedule+" "+s.Timezone))
	}
	fence := "```"
	for strings.Contains(source, fence) {
		fence += "`"
	}
	return ask + "\n\n" + fence + "\n" + strings.TrimRight(Visible(source), "\n") + "\n" + fence, nil
}

// asText writes an argument as people read it.
func asText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = asText(v[i])
		}
		return strings.Join(items, ", ")
	}
	if data, err := json.Marshal(v); err == nil {
		return string(data)
	}
	return fmt.Sprint(v)
}

// shown is the argument as the user sees it, of at most so many bytes, and how many it has:
// its lines, without space that could move words out of sight, and how much is left out.
func shown(arg string, most int) (value string, cost int) {
	lines := strings.Split(strings.TrimSpace(Visible(arg)), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	arg = strings.Join(slices.CompactFunc(lines, func(a, b string) bool { return a == "" && b == "" }), "\n")
	end := len(arg)
	for i, r := range arg {
		size := utf8.RuneLen(r)
		if r == '\n' {
			size = len(continued)
		}
		if cost+size > most {
			end = i
			break
		}
		cost += size
	}
	value = strings.ReplaceAll(arg[:end], "\n", continued)
	if end < len(arg) {
		value += "… " + text.NotShown(utf8.RuneCountInString(arg[end:]))
	}
	return value, cost
}

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
	shown, missing := r.Content[:end], r.Content[end:]
	much := fmt.Sprintf("%d of %d bytes", len(missing), len(r.Content))
	if n := strings.Count(strings.TrimSuffix(missing, "\n"), "\n"); n > 0 {
		much += fmt.Sprintf(" (%d lines)", n)
	}
	short := *r
	short.Full = r.Content
	short.Content = fmt.Sprintf("%s\n[%s are missing here; %s]", shown, much, s.remedy(source))
	return &short
}

// remedy says how to get at what is missing, as far as the names and types of the
// parameters tell: nothing is promised that a skill may not do. A "from" that is
// text is somebody's name in one skill and a day in another.
func (s *Skill) remedy(source string) string {
	var on, less []string
	for i := range s.Parameters {
		p := &s.Parameters[i]
		number := p.Type == "integer"
		switch {
		case p.Name == "offset", p.Name == "cursor", number && slices.Contains([]string{"from", "after", "page", "start", "skip"}, p.Name):
			on = append(on, flagName(p.Name, source))
		case number && slices.Contains([]string{"limit", "lines", "count", "page_size", "per_page", "max_results"}, p.Name):
			less = append(less, flagName(p.Name, source))
		}
	}
	switch {
	case len(on) > 0 && len(less) > 0:
		return fmt.Sprintf("go on from there with %s, or ask for less at once with %s", strings.Join(on, ", "), strings.Join(less, ", "))
	case len(on) > 0:
		return "go on from there with " + strings.Join(on, ", ")
	case len(less) > 0:
		return fmt.Sprintf("there is no way to go on from there: ask a narrower question, or for less with %s", strings.Join(less, ", "))
	}
	return "there is no way to go on from there: ask for less, with a narrower request"
}

// flagName writes a parameter as the face through which the call came does.
func flagName(name, source string) string {
	if source == mesh.SourceCommand {
		return "--" + name
	}
	return "'" + name + "'"
}
