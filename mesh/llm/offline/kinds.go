package offline

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A paramKind says what a parameter means, as its name, type and description
// tell. What to put into it follows from that.
type paramKind uint8

const (
	kindUnset paramKind = iota
	kindOther
	kindAddress
	kindChoice // one of a few words
	kindTime
	kindDuration
	kindTitle
	kindBody
	kindQuery
	kindNumber
	kindID
	kindFlag
	kindList
	kindPath   // where a file, a note or a folder is
	kindPerson // whom something is from or to, by name or address
)

var kindNames = map[paramKind]map[string]bool{
	kindAddress:  set("to cc bcc recipient recipients email emails attendee attendees participant participants guest guests invitee invitees address addresses"),
	kindTime:     set("start starts begin end ends date when time at due deadline until since before after day from to"),
	kindDuration: set("duration length minutes"),
	kindTitle:    set("title subject name summary heading topic headline"),
	kindBody:     set("body text message content description note notes details detail report content"),
	kindQuery:    set("query q search keyword keywords question term terms words"),
	kindNumber:   set("limit count max maximum number amount top"),
}

var temporalWords = set("date dates time times day days moment moments when deadline")

// isTemporal tells from a description in lower case that a value is a date or
// time.
func isTemporal(desc string) bool {
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }
	for w := range strings.FieldsFuncSeq(desc, between) {
		if temporalWords[w] {
			return true
		}
	}
	return strings.Contains(desc, "3339") || strings.Contains(desc, "8601") || strings.Contains(desc, "yyyy")
}

// pieces returns the words of a parameter's name.
func pieces(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
}

func isStatus(name string) bool { return slices.Contains(pieces(name), "status") }

// Parameters that are a person's, if their description says so; lists, if their
// type is not told.
var (
	personNames = set("from to sender recipient author by")
	listNames   = set("tags labels")
	pathNames   = set("path file filename folder directory")
	pathWord    = regexp.MustCompile(`\bpath\b`)
)

// isPath reports whether a parameter of that name and description says where
// something is.
func isPath(words []string, desc string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return pathNames[w] }) || strings.Contains(desc, "path") && pathWord.MatchString(desc)
}

func isID(name string) bool { return slices.Contains(pieces(name), "id") }

func kindOf(p *param) paramKind {
	if p.kind != kindUnset {
		return p.kind
	}
	words, desc := pieces(p.Name), strings.ToLower(p.Description)
	named := func(k paramKind) bool {
		return slices.ContainsFunc(words, func(w string) bool { return kindNames[k][w] })
	}
	temporal := isTemporal(desc) && !strings.Contains(desc, "mail")
	switch {
	case p.Type == "boolean" || p.Type == "flag":
		return kindFlag
	case isID(p.Name):
		return kindID
	case isPath(words, desc) && len(p.options()) == 0:
		return kindPath
	case len(p.options()) > 0:
		return kindChoice
	case p.Type == "integer" || p.Type == "number" || p.Type == "float":
		if named(kindDuration) {
			return kindDuration
		}
		return kindNumber
	case named(kindDuration):
		return kindDuration
	case !temporal && p.Type != "array" && slices.ContainsFunc(words, func(w string) bool { return personNames[w] }) && strings.Contains(desc, "name"):
		return kindPerson
	case named(kindAddress) && !(temporal && named(kindTime)):
		return kindAddress
	case named(kindTime) && !slices.Contains(words, "zone") && (temporal || desc == "" || !slices.ContainsFunc(words, func(w string) bool { return personNames[w] })):
		return kindTime
	case p.Type == "array" || p.Type == "" && listNames[p.Name]:
		return kindList
	}
	for _, k := range []paramKind{kindTitle, kindBody, kindQuery, kindNumber} {
		if named(k) {
			return k
		}
	}
	return kindOther
}

var oneOfPattern = regexp.MustCompile(`(?i)\bone of:?\s+([\w-]+(?:\s*(?:,|\||\bor\b)+\s*(?:or\s+)?[\w-]+)+)`)

var statusWords = []string{"overdue", "open", "done", "todo", "in_progress", "blocked", "archived", "completed", "closed"}

// oneOf finds the values that the description lists, or nil.
func (p *param) oneOf() []string {
	if !strings.Contains(strings.ToLower(p.Description), "one of") { // most do not, and a pattern takes long
		return nil
	}
	return oneOfPattern.FindStringSubmatch(p.Description)
}

// options returns the values that the parameter may have, if they are few.
func (p *param) options() []string {
	if len(p.Enum) > 0 {
		return p.Enum
	}
	if m := p.oneOf(); m != nil {
		return strings.FieldsFunc(strings.ReplaceAll(m[1], " or ", ","), func(r rune) bool { return r == ',' || r == '|' || r == ' ' })
	}
	if !isStatus(p.Name) {
		return nil
	}
	var out []string
	for _, w := range statusWords {
		if strings.Contains(strings.ToLower(p.Description), w) {
			out = append(out, w)
		}
	}
	if out == nil {
		return statusWords[:6]
	}
	return out
}

// sameChoice holds the other words for values, by their stems.
var sameChoice = map[string]string{
	"done": "done complet finish clos resolv", "completed": "complet done finish", "closed": "clos done finish",
	"in_progress": "start begin progress ongoing", "blocked": "block stuck", "todo": "todo to-do reopen", "open": "open reopen pend unfinished outstand",
	"overdue": "overdu late", "high": "high urgent important", "low": "low minor",
}

// chosen returns the options that the clause names, in their order in it.
func chosen(c clause, options []string, update bool) []string {
	type hit struct {
		at    int
		value string
	}
	var hits []hit
	for _, o := range options {
		norm := strings.ToLower(strings.NewReplacer("_", " ", "-", " ").Replace(o))
		for i := range c.tokens {
			t := c.at(i)
			if t.kind != word || i == 0 && !update {
				continue
			}
			same := slices.Contains(strings.Fields(sameChoice[strings.ToLower(o)]), t.stem)
			if n := c.from(i).begins(norm); n > 0 || same || t.low == strings.ToLower(o) {
				hits = append(hits, hit{i, o})
				break
			}
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return a.at - b.at })
	var out []string
	for _, h := range hits {
		out = append(out, h.value)
	}
	return out
}

// findID returns what in the clause names one thing: "#12", "task t-4f",
// "id 7".
func findID(c clause, s *skill) string {
	things := append(thingsOf(stem(s.domain())), stem(s.domain()))
	digit := func(w string) bool { return strings.ContainsAny(w, "0123456789") }
	for i := range c.tokens {
		t := c.at(i)
		if t.kind == word && strings.HasPrefix(t.text, "#") && len(t.text) > 1 {
			return strings.TrimPrefix(t.text, "#")
		}
		thing := t.is("id", "number", "no", "nr") || t.kind == word && slices.ContainsFunc(append(thingsOf(t.stem), t.stem), func(x string) bool { return slices.Contains(things, x) })
		if next := c.at(i + 1); thing && next.kind == word && digit(next.text) && !strings.Contains(next.text, ":") {
			return strings.TrimPrefix(next.text, "#")
		}
	}
	like := s.idPrefix()
	for i := range c.tokens {
		t := c.at(i)
		if t.kind == word && (digit(t.text) && idPattern.MatchString(t.text) || like != "" && strings.HasPrefix(t.low, like)) {
			return t.text
		}
	}
	return ""
}

var idExample = regexp.MustCompile(`\bas ([a-z]{1,4}[-_])[a-z0-9]`)

// idPrefix returns how the ids begin that the skill takes, as "t-", if its
// parameters give an example.
func (s *skill) idPrefix() string { return s.known().like }

func (s *skill) findPrefix() string {
	for _, p := range s.Parameters {
		if !isID(p.Name) {
			continue
		}
		if m := idExample.FindStringSubmatch(p.Description); m != nil {
			return m[1]
		}
	}
	return ""
}

var idPattern = regexp.MustCompile(`^[A-Za-z]{1,12}[-_][A-Za-z0-9]{1,36}$|^[A-Za-z]{1,3}\d{1,9}$`)
