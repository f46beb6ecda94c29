package offline

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	lru "github.com/hashicorp/golang-lru/v2"

	"agentmesh/mesh/llm"
)

// A skill is what the planner knows of a skill.
type skill struct {
	llm.Skill
	Parameters []param

	act   act
	words map[string]int // stems of its name, tags and description, by weight
	kinds map[string]bool
}

// A param is one parameter of a skill.
type param struct {
	llm.Parameter
	kind paramKind
}

// learned has what was last read in the texts of skills, by name and description:
// it is the same for every request, and takes longer than most.
var learned = func() *lru.Cache[[2]string, *skill] {
	c, err := lru.New[[2]string, *skill](1024)
	if err != nil {
		panic(err) // for a size that is not above 0
	}
	return c
}()

// learn returns the skill with what its texts say of it, which nobody changes.
func learn(known llm.Skill) skill {
	key := [2]string{known.Name, known.Description}
	if s, ok := learned.Get(key); ok && reflect.DeepEqual(s.Skill, known) {
		return *s
	}
	s := study(known)
	learned.Add(key, &s)
	return s
}

func study(known llm.Skill) skill {
	s := skill{Skill: known}
	for _, p := range known.Parameters {
		s.Parameters = append(s.Parameters, param{p, means(p)})
	}
	s.words, s.kinds = map[string]int{}, map[string]bool{}
	add := func(text string, weight int, kinds bool) {
		for _, t := range tokenize(strings.NewReplacer(".", " ", "_", " ").Replace(text)) {
			if t.kind == word && !glue[t.low] && !prepositions[t.low] {
				s.words[t.stem] = max(s.words[t.stem], weight)
				if k := things[t.stem]; kinds && k != "" {
					s.kinds[k] = true
				}
			}
		}
	}
	add(s.Description, 1, false)
	add(strings.Join(s.Tags, " "), 2, false)
	add(s.Name, 3, true)
	object, _, _ := strings.Cut(s.Description, " of ")
	add(firstWords(object, 5), 1, true)
	for w := range strings.SplitSeq(s.action(), "_") {
		if s.act == actNone {
			s.act = verbs[w]
		}
	}
	if first := tokenize(firstWords(s.Description, 1)); s.act == actNone && len(first) > 0 {
		s.act = verbs[first[0].low]
	}
	switch {
	case s.Reads:
		s.act = actFind
	case s.words["remember"] >= 1 && s.act != actFind:
		s.act = actRemember
	}
	return s
}

func firstWords(text string, n int) string {
	words := strings.Fields(text)
	return strings.Join(words[:min(n, len(words))], " ")
}

func (s *skill) domain() string { d, _, _ := strings.Cut(s.Name, "."); return d }

func (s *skill) action() string {
	if _, a, ok := strings.Cut(s.Name, "."); ok {
		return a
	}
	return s.Name
}

func (s *skill) reads() bool { return s.act == actFind }

// first returns the first parameter of the kind, or nil.
func (s *skill) first(k paramKind) *param {
	return s.param(func(p *param) bool { return p.kind == k })
}

// param returns the first parameter that is so, or nil.
func (s *skill) param(is func(*param) bool) *param {
	for i := range s.Parameters {
		if is(&s.Parameters[i]) {
			return &s.Parameters[i]
		}
	}
	return nil
}

func (s *skill) named(names ...string) *param {
	for _, n := range names {
		if p := s.param(func(p *param) bool { return p.Name == n }); p != nil {
			return p
		}
	}
	return nil
}

// target is the parameter that says which thing the skill works on, or nil.
func (s *skill) target() *param {
	if p := s.first(kindID); p != nil && p.Required {
		return p
	}
	return nil
}

// takesAway is the parameter that makes a skill that changes things remove them.
func (s *skill) takesAway() *param {
	return s.param(func(p *param) bool { return p.kind == kindFlag && verbs[p.Name] == actRemove })
}

// answers reports whether the skill looks things up in documents, and recalls
// whether in what was remembered.
func (s *skill) answers() bool { return s.reads() && s.kinds["doc"] }
func (s *skill) recalls() bool { return s.reads() && s.words["remember"] > 0 }

// changes are the parameters that verbs which change something are about.
var changes = map[string][]paramKind{
	"rename": {kindTitle}, "move": {kindTime}, "reschedule": {kindTime}, "postpone": {kindTime}, "assign": {kindPerson}, "complete": {kindChoice}, "finish": {kindChoice},
	"close": {kindChoice}, "resolve": {kindChoice}, "reopen": {kindChoice}, "start": {kindChoice}, "block": {kindChoice}, "mark": {kindChoice}, "append": {kindBody}, "replace": {kindBody},
}

// does says how well the skill does what the verb tells, 0 for not at all.
func (s *skill) does(verb string) int {
	acts := actsOf(verb)
	fits := slices.Contains(acts, s.act)
	if kinds := changes[verb]; s.act == actChange && len(s.Parameters) > 0 && len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k paramKind) bool { return s.first(k) != nil }) || verb == "rename" && len(s.Parameters) > 0 && s.target() == nil {
		return 0
	}
	switch weight := s.words[stem(verb)]; {
	case s.action() == verb:
		return 6
	case slices.Contains(acts, actRemove) && s.takesAway() != nil:
		return 3 + min(weight, 2)
	case slices.Contains(acts, actForget), slices.Contains(acts, actDraft) && s.action() != verb,
		slices.Contains(acts, actRemember) && s.act != actRemember && len(acts) == 1,
		s.act == actRemove != slices.Contains(acts, actRemove), s.act == actFind && !fits, s.act != actFind && len(acts) == 1 && acts[0] == actFind, s.act == actRemember && !slices.Contains(acts, actRemember):
		return 0
	case weight >= 2:
		return 3 + weight
	case fits:
		return 2 + weight
	case weight > 0 && s.act != actFind && s.act != actSend:
		return 1
	}
	return 0
}

// about says how surely the words name what the skill is about.
func (s *skill) about(toks []token) int {
	n := 0
	for i := range toks {
		t := &toks[i]
		k := things[t.stem]
		if t.is("call") && i > 0 && toks[i-1].is("to") {
			continue // "to call Ann"
		}
		if t.kind != word || k == "" && (plainVerbs[t.low] || pronouns[t.low]) || asides[t.low] || prepositions[t.low] {
			continue
		}
		if k != "" && s.kinds[k] {
			n += 4
			if occasions[t.low] || strings.EqualFold(s.domain(), t.low) {
				n++
			}
		} else if k == "" {
			n += s.words[t.stem]
		}
	}
	return n
}

// A paramKind says what a parameter means, as its name, type and description
// tell. What to put into it follows from that.
type paramKind uint8

const (
	kindOther paramKind = iota
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
	kindPlace
)

var kindNames = map[paramKind]map[string]bool{
	kindAddress:  set("to cc bcc recipient recipients email emails attendee attendees participants guests address addresses"),
	kindTime:     set("start starts begin end ends date when time at due deadline until since before after day from to"),
	kindDuration: set("duration length minutes"),
	kindTitle:    set("title subject name summary heading topic headline"),
	kindBody:     set("body text message content description note notes details report"),
	kindQuery:    set("query q search keyword keywords question term terms words"),
	kindNumber:   set("limit count max maximum number amount top"),
	kindPerson:   set("from to sender recipient author by assignee"),
	kindPath:     set("path file filename folder directory"),
	kindPlace:    set("location place room city"),
}

var (
	temporal = regexp.MustCompile(`\b(?:dates?|times?|days?|moments?|when)\b|3339|8601|yyyy`)
	lines    = regexp.MustCompile(`\bversion\b`)
)

// means tells the kind of the parameter.
func means(p llm.Parameter) paramKind {
	words := strings.FieldsFunc(strings.ToLower(p.Name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	desc := strings.ToLower(p.Description)
	is := func(k paramKind) bool {
		return slices.ContainsFunc(words, func(w string) bool { return kindNames[k][w] })
	}
	timely := temporal.MatchString(desc) && !strings.Contains(desc, "mail")
	number := p.Type == "integer" || p.Type == "number" || p.Type == "float"
	switch {
	case p.Type == "boolean" || p.Type == "flag":
		return kindFlag
	case slices.Contains(words, "id"):
		return kindID
	case len(p.Enum) > 0:
		return kindChoice
	case is(kindPath) || strings.Contains(desc, "'s path"):
		return kindPath
	case is(kindDuration):
		return kindDuration
	case number && is(kindNumber) && !strings.Contains(desc, "text"):
		return kindNumber
	case number || lines.MatchString(desc) && !is(kindBody) || is(kindTime) && slices.Contains(words, "zone"):
		return kindOther
	case !timely && p.Type != "array" && is(kindPerson) && (strings.Contains(desc, "name") || strings.Contains(desc, "who")):
		return kindPerson
	case is(kindAddress) && !(timely && is(kindTime)):
		return kindAddress
	case is(kindTime) && (timely || desc == ""):
		return kindTime
	case p.Type == "array":
		return kindList
	}
	for _, k := range []paramKind{kindTitle, kindBody, kindQuery, kindPlace, kindNumber} {
		if is(k) {
			return k
		}
	}
	return kindOther
}

// sameChoice holds other words for values, by their stems.
var sameChoice = map[string]string{
	"done": "complet finish clos resolv", "completed": "done finish", "closed": "done finish",
	"in_progress": "start begin progress ongo", "blocked": "block stuck", "todo": "reopen to-do", "open": "pend unfinish outstand",
	"overdue": "late", "high": "urgent important", "low": "minor",
}
