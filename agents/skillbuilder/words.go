package skillbuilder

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentmesh/mesh/skill"
)

// maxPhrase bounds a phrase that the user gives, in runes.
const maxPhrase = 200

var (
	clausePattern = regexp.MustCompile(`(?is)\bskills?\b[^.!?\n]*?\b(that|which|to|for)\s+(.+?)(?:[.!?](?:\s|$)|\n|$)`)
	kindPattern   = regexp.MustCompile(`(?i)\b(?:create|build|make|add|write|develop|new)\s+(?:me\s+|us\s+)?([^.!?\n]{1,80}?)\s+skills?\b`)
	leadPattern   = regexp.MustCompile(`(?i)^(?:(?:please|well|so|ok|okay)[, ]+)*(?:(it|the skill|this skill|that|which)\b(?:\s+(should|must|can|could|shall|will|to))?|(?:i|we)(?:['’]?d)?\s+(?:want|need|would like|like)\s+(?:it |a skill |one )?(?:to|that)|(to))\s+`)
	tailPattern   = regexp.MustCompile(`(?i)[\s,]*(?:please|for me|thanks|thank you)$`)
)

// purposeIn returns what the skill does that the user asks for, as "sends Slack
// alerts", or "" if the text does not say it.
func purposeIn(text string) string {
	if m := clausePattern.FindStringSubmatch(text); m != nil {
		what := phrase(m[2])
		first, rest, _ := strings.Cut(what, " ")
		switch link := strings.ToLower(m[1]); {
		case what == "":
		case link == "to":
			return strings.TrimSpace(third(strings.ToLower(first)) + " " + rest)
		case link == "for" && strings.HasSuffix(first, "ing"):
			return strings.TrimSpace(third(gerund(strings.ToLower(first))) + " " + rest)
		case link == "for":
			return handles(what)
		default:
			return what
		}
	}
	if m := kindPattern.FindStringSubmatch(text); m != nil {
		if words := content(strings.Fields(phrase(m[1]))); len(words) > 0 {
			return handles(strings.Join(words, " "))
		}
	}
	return ""
}

// handles is the purpose of a skill of which only the subject is known.
func handles(what string) string { return "handles " + what }

// purposeOf returns what the skill does, from an answer to that question.
func purposeOf(text string) string {
	if p := purposeIn(text); p != "" {
		return p
	}
	if isDefault(text) {
		return ""
	}
	text = sentences(strings.ReplaceAll(text, "\n", " "))[0]
	m := leadPattern.FindStringSubmatch(text)
	if m != nil {
		text = text[len(m[0]):]
	}
	first, rest, _ := strings.Cut(text, " ")
	low := strings.ToLower(first)
	switch {
	case first == "":
		return ""
	case m != nil && m[1] != "" && m[2] == "": // "it sends …"
	case m != nil || isVerb(low):
		low = third(base(low))
	default:
		return handles(text)
	}
	return strings.TrimSpace(low + " " + rest)
}

// phrase is text as one short line without closing marks.
func phrase(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError || r == '\u2028' || r == '\u2029' || r == '\ufeff' {
			return ' '
		}
		return r
	}, text)
	text = strings.TrimSpace(strings.Join(strings.Fields(text), " "))
	text = strings.TrimRight(tailPattern.ReplaceAllString(strings.TrimRight(text, ".!?,;: "), ""), ".!?,;: ")
	if r := []rune(text); len(r) > maxPhrase {
		return string(r[:maxPhrase])
	}
	return text
}

var sentenceEnd = regexp.MustCompile(`[.!?](?:\s+|$)|\n+|;\s*`)

// sentences cuts text; there is at least one, which may be "".
func sentences(text string) []string {
	var out []string
	for _, s := range sentenceEnd.Split(text, -1) {
		if s = phrase(s); s != "" {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return []string{""}
	}
	return out
}

// content leaves out words that say nothing of a subject.
func content(words []string) []string {
	empty := strings.Fields("a an the my our your their its this that new custom another me us some any all every each simple little")
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(empty, strings.ToLower(w)) })
}

// base is the infinitive of a verb in the third person, as well as can be told
// without a dictionary: it only serves names that the user may change.
func base(verb string) string {
	switch {
	case verb == "does" || verb == "goes":
		return verb[:len(verb)-2]
	case len(verb) > 4 && strings.HasSuffix(verb, "ies"):
		return verb[:len(verb)-3] + "y"
	case hasSuffix(verb, "sses", "shes", "ches", "xes"):
		return verb[:len(verb)-2]
	case len(verb) > 3 && strings.HasSuffix(verb, "s") && !hasSuffix(verb, "ss", "us", "is"):
		return verb[:len(verb)-1]
	}
	return verb
}

// gerund is the infinitive of a verb that ends with "ing".
func gerund(verb string) string {
	stem := strings.TrimSuffix(verb, "ing")
	n := len(stem)
	switch {
	case n < 3:
		return verb
	case stem[n-1] == stem[n-2] && !hasSuffix(stem, "ll", "ss", "zz"):
		return stem[:n-1]
	case hasSuffix(stem, "iz", "yz", "at", "ul", "rit", "v", "c", "us", "as", "os", "ok", "ag", "ut", "ar", "or"):
		return stem + "e"
	}
	return stem
}

// third is the third person of an infinitive.
func third(verb string) string {
	n := len(verb)
	switch {
	case n > 1 && verb[n-1] == 'y' && !strings.ContainsRune("aeiou", rune(verb[n-2])):
		return verb[:n-1] + "ies"
	case hasSuffix(verb, "s", "x", "z", "ch", "sh", "o"):
		return verb + "es"
	}
	return verb + "s"
}

func hasSuffix(s string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(x string) bool { return strings.HasSuffix(s, x) })
}

// isVerb reports whether a word is one of the verbs with which people say what
// a program does, in the infinitive or the third person.
func isVerb(word string) bool {
	verbs := strings.Fields("send post notify alert message ping tell email mail publish write create make build add draft generate " +
		"read get fetch find search look list show check watch monitor track collect gather download upload save store " +
		"summarize summarise translate analyze analyse review explain compare convert format extract classify rank sort filter count " +
		"update change edit delete remove archive move copy rename close open start stop run deploy restart schedule book plan " +
		"remind ask answer reply forward share report log record calculate compute test verify validate clean sync import export")
	return slices.Contains(verbs, word) || slices.Contains(verbs, base(word))
}

// words of a purpose that end what is acted on.
var joints = strings.Fields("to from in into on onto at by with without of about for when if whenever while and or that which via using through every each as so then after before")

var products = strings.Fields("slack notion github gitlab jira gmail discord teams trello telegram linear zoom salesforce hubspot stripe asana airtable confluence whatsapp")

// A gist is a purpose taken apart for names.
type gist struct {
	verb   string   // infinitive, or ""
	domain string   // what it works with, as "slack", or ""
	things []string // what it acts on, in lower case and the singular
}

func gistOf(purpose string) gist {
	words := strings.FieldsFunc(purpose, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' })
	if len(words) == 0 {
		return gist{}
	}
	g := gist{verb: base(strings.ToLower(words[0]))}
	if g.verb == "handle" {
		g.verb = ""
	}
	rest := content(words[1:])
	for _, w := range rest {
		low := strings.ToLower(w)
		r, _ := utf8.DecodeRuneInString(w)
		if slices.Contains(products, low) || g.domain == "" && unicode.IsUpper(r) {
			g.domain = low
			if slices.Contains(products, low) {
				break
			}
		}
	}
	for _, w := range rest {
		low := strings.ToLower(w)
		if slices.Contains(joints, low) && len(g.things) > 0 {
			break
		}
		if low != g.domain && !slices.Contains(joints, low) {
			g.things = append(g.things, base(low))
		}
	}
	return g
}

// nameFor returns a valid name for a skill with the purpose, as
// "slack.send_alert".
func nameFor(purpose string) string {
	const most = 4 // words
	g := gistOf(purpose)
	words := g.things
	if g.verb != "" {
		words = append([]string{g.verb}, words...)
	}
	action := skill.Slug(strings.Join(words[:min(len(words), most)], " "))
	if action == "" || skill.ReservedAction(action) {
		action = strings.Trim("run_"+action, "_")
	}
	domain := skill.Slug(g.domain)
	if domain == "" {
		domain = skill.DefaultDomain
	}
	return domain + "." + action
}

// triggersFor returns phrases that ask for a skill with the purpose.
func triggersFor(purpose string) []string {
	const most = 6 // words
	g := gistOf(purpose)
	words := content(strings.Fields(strings.ToLower(purpose)))
	if len(words) == 0 {
		return []string{purpose}
	}
	words[0] = g.verb
	out := []string{phrase(strings.Join(words[:min(len(words), most)], " "))}
	if g.domain != "" && len(g.things) > 0 {
		if t := g.domain + " " + g.things[len(g.things)-1]; t != out[0] {
			out = append(out, t)
		}
	}
	return out
}
