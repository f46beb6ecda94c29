package skillbuilder

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Bounds of what one answer may bring.
const (
	maxInputs   = 12
	maxTriggers = 12
	maxSteps    = 20
)

var (
	itemPattern    = regexp.MustCompile(`(?s)^\s*1[.)]\s*(.*?)\s*(?:^|\s)2[.)]\s*(.*)$`)
	inputsPattern  = regexp.MustCompile(`(?i)(?:\b(?:the\s+)?(?:required\s+)?(?:inputs?|parameters?|params|arguments?|fields?)\b\s*(?:are|is|to be|to)?\s*[:=]?|\b(?:it|they|we|you|and)?\s*\b(?:needs?|takes?|requires?|asks?\s+for|must\s+know|should\s+know)\b(?:\s+to\s+know)?\s*:?)\s+(.+)$`)
	stepsPattern   = regexp.MustCompile(`(?i)^\s*(?:change\s+)?(?:the\s+)?steps?\s*(?:to|are|:|=)\s*(.+)$`)
	aboutPattern   = regexp.MustCompile(`(?i)^\s*(?:change\s+)?(?:the\s+)?(?:description|purpose)\s*(?:to|is|should\s+be\s*:?|:|=)\s*(.+)$`)
	confirmPattern = regexp.MustCompile(`(?i)^\s*(?:the\s+)?confirm(?:ation)?\s*(?:with|question)?\s*[:=]\s*(.+)$`)
	namePattern    = regexp.MustCompile(`(?i)(?:^|[.,;!]\s*|\b(?:and|but|please|just|ok|it is|should be|lets|let us|to)\s+)(?:(?:change|set)\s+)?(?:the\s+)?(?:(?:rename|call|name)\s+(?:it|the\s+skill|this\s+skill)|rename|called|named|name)(?:\s*[:=]\s*|\s+(?:(?:should\s+be|to|is|as)\s+)?)[“"'` + "`" + `]?([A-Za-z][A-Za-z0-9_. -]*)`)
	dotted         = regexp.MustCompile(`(?:^|[\s“"'` + "`" + `(])([a-z][a-z0-9_]*\.[a-z][a-z0-9_]*)(?:[\s”"'` + "`" + `),.;!]|$)`)
	quotedPattern  = regexp.MustCompile(`[“"]([^“”"\n]{1,120})[”"]|(?:^|\s)['‘]([^'‘’\n]{1,120})['’](?:[\s,.;]|$)`)
	whenPattern    = regexp.MustCompile(`(?i)\b(?:triggers?|phrases?|words?|keywords?|use\s+(?:it|this)?\s*(?:for|when|on)|when(?:ever)?)\b\s*(?:are|is|to|:|=)?\s*(?:(?:i|we|you|someone|somebody|people|the user)\s+(?:says?|asks?(?:\s+(?:for|to))?|writes?|wants?(?:\s+to)?)\s+)?(.+)$`)
	listBreak      = regexp.MustCompile(`(?i)\s*(?:,|;|\n|&|\+)\s*(?:and\s+|or\s+)?|\s+(?:and|or|plus)\s+`)
	itemBreak      = regexp.MustCompile(`(?i)\s*(?:\blike\b|\bsuch as\b|\be\.g\.|\(|:|=|\s-\s).*$`)
)

// details reads the answer to how the skill works and what it needs to know.
func details(text string) (steps []string, inputs []skill.Parameter) {
	if m := itemPattern.FindStringSubmatch(text); m != nil {
		if !isDefault(m[1]) && phrase(m[1]) != "" {
			steps = capped(sentences(m[1]), maxSteps)
		}
		if !isDefault(m[2]) {
			inputs = inputList(stripInputs(m[2]))
		}
		return steps, inputs
	}
	for _, s := range sentences(text) {
		switch at := inputsPattern.FindStringSubmatchIndex(s); {
		case at != nil && !approver.MatchString(s[at[2]:]):
			inputs = append(inputs, inputList(s[at[2]:])...)
			if before := phrase(strings.TrimSuffix(strings.TrimSpace(s[:at[0]]), " and")); before != "" {
				steps = append(steps, before)
			}
		case at == nil && len(inputs) == 0 && namesThings(s):
			inputs = append(inputs, inputList(s)...)
		case s != "":
			steps = append(steps, s)
		}
	}
	return capped(steps, maxSteps), unique(inputs)
}

func stripInputs(text string) string {
	text = phrase(text)
	if m := inputsPattern.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}

// namesThings reports whether s is a list of short names and no sentence: no
// item begins with a verb.
func namesThings(s string) bool {
	items := listBreak.Split(s, -1)
	for _, item := range items {
		words := strings.Fields(item)
		if len(words) > 4 || len(words) > 1 && isVerb(strings.ToLower(words[0])) || len(words) == 1 && len(items) == 1 && isVerb(strings.ToLower(words[0])) {
			return false
		}
		if len(words) > 1 && strings.EqualFold(words[0], "it") && isVerb(strings.ToLower(words[1])) {
			return false
		}
		if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(joints, strings.ToLower(w)) }) {
			return false
		}
	}
	return true
}

// inputList reads names such as "the channel, a message and an optional limit".
func inputList(text string) []skill.Parameter {
	var out []skill.Parameter
	for _, item := range listBreak.Split(phrase(text), -1) {
		low := strings.ToLower(item)
		p := skill.Parameter{Type: typeOf(low)}
		p.Required = p.Type != "flag" && !strings.Contains(low, "optional")
		item = strings.NewReplacer("(optional)", "", "(required)", "", "optionally ", "", "optional ", "", "Optional ", "", "required ", "").Replace(item)
		words := content(strings.Fields(itemBreak.ReplaceAllString(item, "")))
		about := slices.DeleteFunc(slices.Clone(words), func(w string) bool {
			return slices.Contains(strings.Fields("which what who whether list number of to know"), strings.ToLower(w))
		})
		if len(about) > 0 { // else the input is called so: "amount, from and to"
			words = about
		}
		p.Name = skill.Slug(strings.Join(words[:min(len(words), 4)], " "))
		if p.Name == "" {
			continue
		}
		p.Description = upper(phrase(item))
		out = append(out, p)
	}
	return unique(out)
}

// typeOf guesses the type of an input from how it is called.
func typeOf(name string) string {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(" "+name+" ", " "+w+" ") })
	}
	switch {
	case has("whether", "flag"):
		return "flag"
	case has("list of", "lists of"):
		return "array"
	case has("number of", "count", "limit", "how many"):
		return "integer"
	}
	return "string"
}

// usualInputs are what skills with such a purpose mostly need.
func usualInputs(purpose string) []skill.Parameter {
	g := gistOf(purpose)
	required := func(name, about string) skill.Parameter {
		return skill.Parameter{Name: name, Type: "string", Required: true, Description: about}
	}
	switch verb := g.verb; {
	case slices.Contains(strings.Fields("send post notify alert message ping tell email mail publish remind forward reply share"), verb) ||
		verb == "" && slices.ContainsFunc(g.things, func(t string) bool { return t == "alert" || t == "message" || t == "notification" }):
		if slices.Contains(strings.Fields("slack discord teams telegram"), g.domain) {
			return []skill.Parameter{required("channel", "Where to post it"), required("message", "What to say")}
		}
		return []skill.Parameter{required("recipient", "Who gets it"), required("message", "What to say")}
	case slices.Contains(strings.Fields("find search look list get fetch check show watch monitor track report collect gather"), verb):
		return []skill.Parameter{required("query", "What to look for")}
	case slices.Contains(strings.Fields("summarize summarise translate analyze analyse review explain compare convert format extract classify read"), verb):
		return []skill.Parameter{required("source", "What to work on: a text, or where it is")}
	}
	return []skill.Parameter{required("details", "What exactly to do")}
}

// naming reads a name and triggers from an answer; either may be missing.
func naming(text string) (name string, triggers []string) {
	rest := text
	if m := itemPattern.FindStringSubmatch(text); m != nil {
		if !isDefault(m[1]) {
			name = nameIn(m[1])
			if name == "" {
				name = validName(m[1])
			}
		}
		if !isDefault(m[2]) {
			triggers = phrases(m[2])
		}
		return name, triggers
	}
	name = nameIn(text)
	if m := dotted.FindStringSubmatchIndex(text); m != nil {
		rest = text[:m[2]] + " " + text[m[3]:]
	}
	if all := quotedPhrases(rest); len(all) > 0 {
		return name, all
	}
	if m := whenPattern.FindStringSubmatch(phrase(rest)); m != nil {
		return name, phrases(m[1])
	}
	if name == "" && len(strings.Fields(rest)) <= 12 {
		triggers = phrases(rest)
	}
	return name, triggers
}

// nameIn finds a name in what the user says, in its valid form.
func nameIn(text string) string {
	words := ""
	if m := namePattern.FindStringSubmatch(text); m != nil && !idiom.MatchString(text) {
		words, _, _ = strings.Cut(m[1], " and ")
	} else if named.MatchString(text) {
		words = text
	}
	if m := dotted.FindStringSubmatch(words); m != nil && skill.ValidPart(strings.Split(m[1], ".")[0]) {
		words = m[1]
	}
	return validName(words)
}

// validName makes a name of words; a dot divides domain and action.
func validName(words string) string {
	domain, action, dot := strings.Cut(strings.Trim(words, " ."), ".")
	if !dot {
		domain, action = "", domain
	}
	action, domain = skill.Slug(action), skill.Slug(domain)
	switch {
	case action == "" || skill.ReservedAction(action):
		return ""
	case domain == "":
		return action
	}
	return domain + "." + action
}

func quotedPhrases(text string) []string {
	var out []string
	for _, m := range quotedPattern.FindAllStringSubmatch(text, -1) {
		if p := phrase(m[1] + m[2]); len(plain(p)) > 0 {
			out = append(out, p)
		}
	}
	return capped(out, maxTriggers)
}

// phrases reads a list of triggers.
func phrases(text string) []string {
	if all := quotedPhrases(text); len(all) > 0 {
		return all
	}
	if m := whenPattern.FindStringSubmatch(phrase(text)); m != nil {
		text = m[1]
	}
	var out []string
	for _, p := range listBreak.Split(phrase(text), -1) {
		if p = strings.Trim(phrase(p), `"“”'‘’ `); len(plain(p)) > 0 && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return capped(out, maxTriggers)
}

// edit applies what the user wants changed, and reports whether it could tell.
func (d draft) edit(text string) (draft, bool) {
	if m := confirmPattern.FindStringSubmatch(text); m != nil {
		d.Confirm = mesh.Clip(strings.Join(strings.Fields(m[1]), " "), maxPhrase)
		return d, d.Confirm != ""
	}
	rest, other := d.hearApproval(text)
	if other == strings.TrimSpace(text) {
		return d.change(text)
	}
	if stepsPattern.MatchString(rest) || aboutPattern.MatchString(rest) {
		other = rest // what is said for the page, though it speaks of asking
	}
	changed, _ := d.change(other)
	return changed, true
}

// change is edit for all but the questions before each call.
func (d draft) change(text string) (draft, bool) {
	before := d.Name
	if m := stepsPattern.FindStringSubmatch(text); m != nil {
		d.Steps = capped(sentences(m[1]), maxSteps)
		return d, d.Steps[0] != ""
	}
	if m := aboutPattern.FindStringSubmatch(text); m != nil {
		d.Purpose = purposeOf(m[1])
		return d, d.Purpose != ""
	}
	d = d.called(nameIn(text))
	done := d.Name != before
	for _, part := range sentences(text) {
		switch low := strings.ToLower(part); {
		case isMarked(part) && (strings.Contains(low, "trigger") || strings.Contains(low, "phrase") || strings.Contains(low, "keyword")) || saying.MatchString(part):
			if t := phrases(part); len(t) > 0 {
				d.Triggers, done = t, true
			}
		case (isMarked(part) || needing.MatchString(part)) && inputsPattern.MatchString(part) && !approver.MatchString(stripInputs(part)):
			if in := inputList(stripInputs(part)); len(in) > 0 {
				d.Inputs, done = in, true
			}
		}
	}
	return d, done
}

func unique(inputs []skill.Parameter) []skill.Parameter {
	var out []skill.Parameter
	for _, p := range inputs {
		if !slices.ContainsFunc(out, func(q skill.Parameter) bool { return q.Name == p.Name }) {
			out = append(out, p)
		}
	}
	return capped(out, maxInputs)
}

func capped[T any](list []T, most int) []T { return list[:min(len(list), most)] }

func upper(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}
