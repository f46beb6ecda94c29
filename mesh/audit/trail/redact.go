package trail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"agentmesh/mesh"
)

// Mark stands for a secret that was taken out.
const Mark = "[redacted]"

// Rules are the operator's, beside those that are built in.
type Rules struct {
	// Patterns are regular expressions in the syntax of RE2: what they match is taken out.
	// There may be MaxPatterns, each of 1 to MaxPattern bytes, and none may match nothing.
	Patterns []string `yaml:"patterns"`
	// Fields are names of fields, whatever their case and whether with "_", "-" or neither:
	// their values are taken out of JSON. There may be MaxFields, each of 1 to MaxField bytes.
	Fields []string `yaml:"fields"`
}

// Bounds of Rules.
const (
	MaxPatterns = 32
	MaxPattern  = 512
	MaxFields   = 64
	MaxField    = 64
)

// A Redactor takes secrets out of text. It is safe for concurrent use.
type Redactor struct {
	rules  []rule
	fields map[string]bool // by their plain names
}

// A rule finds a secret: what the group of that number matches, 0 for all, if it is one by
// is, which may be nil. A text without any of its signs, in lower case, has none: to look for
// them takes a hundredth of the time.
type rule struct {
	signs []string // none for any text
	near  bool     // made by near
	re    *regexp.Regexp
	group int
	is    func(string) bool
}

// builtin are the rules for secrets that can be told by how they look, or by what is said
// before them, which may have more than those: what a rule took out is none of the next one.
var builtin = slices.Concat([]rule{
	{signs: []string{"private key-----"}, re: regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z0-9 ]*PRIVATE KEY-----|[\s\S]*)`)},
}, named, []rule{
	{signs: []string{"eyj"}, re: regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?`)},
	{signs: []string{"sk-", "sk_", "pk-", "pk_", "rk-", "rk_"}, re: regexp.MustCompile(`\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}`)},
	{signs: []string{"akia", "asia"}, re: regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{signs: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"},
		re: regexp.MustCompile(`\b(?:gh[pousr]_|github_pat_|glpat-)[A-Za-z0-9_-]{16,}`)},
	{signs: []string{"npm_"}, re: regexp.MustCompile(`\bnpm_[A-Za-z0-9]{16,}\b`)}, // and not npm_config_registry
	{signs: []string{"xox"}, re: regexp.MustCompile(`\bxox[a-z]-[A-Za-z0-9-]{10,}`)},
	{signs: []string{"aiza"}, re: regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{30,}`)},
	{signs: []string{"ya29."}, re: regexp.MustCompile(`\bya29\.[0-9A-Za-z_-]{10,}`)},
	{signs: []string{"bearer", "basic"}, re: regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9+/._~=-]{6,})`), group: 1, is: random},
	{signs: []string{"://"}, re: regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://([^\s/@]*:[^\s/@]+)@`), group: 1},
	{signs: []string{"sig", "auth=", "code="}, re: regexp.MustCompile(`(?i)[?&](?:sig|signature|auth|code)=([^&\s"'<>]+)`), group: 1},
})

// random reports whether a word that follows "basic" or "bearer" is no word of a language.
func random(s string) bool { return strings.ContainsAny(s, "0123456789.-_+/=~") }

// NewRedactor returns a redactor of the built-in rules and those. It is Invalid, naming the
// field below at, as "audit.redact.patterns[1]".
func NewRedactor(at string, r Rules) (*Redactor, error) {
	const op = "trail.NewRedactor"
	if len(r.Patterns) > MaxPatterns {
		return nil, mesh.InvalidField(op, at+".patterns", "has %d, and may have %d; join some with |", len(r.Patterns), MaxPatterns)
	}
	if len(r.Fields) > MaxFields {
		return nil, mesh.InvalidField(op, at+".fields", "has %d, and may have %d", len(r.Fields), MaxFields)
	}
	red := &Redactor{rules: builtin[:len(builtin):len(builtin)], fields: map[string]bool{}}
	for i, p := range r.Patterns {
		field := fmt.Sprintf("%s.patterns[%d]", at, i)
		if p == "" || len(p) > MaxPattern {
			return nil, mesh.InvalidField(op, field, "has %d bytes; it must have 1 to %d", len(p), MaxPattern)
		}
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, mesh.InvalidField(op, field, "must be a regular expression of RE2 (https://golang.org/s/re2syntax), and is not: %s", mesh.Clip(err.Error(), 200))
		}
		if re.MatchString("") {
			return nil, mesh.InvalidField(op, field, "matches an empty text, and so would take something out everywhere; say what there must be at least")
		}
		red.rules = append(red.rules, rule{re: re})
	}
	for i, f := range r.Fields {
		name := plain(f)
		if name == "" || len(f) > MaxField {
			return nil, mesh.InvalidField(op, fmt.Sprintf("%s.fields[%d]", at, i), "must be the name of a field, of 1 to %d bytes with a letter or digit", MaxField)
		}
		red.fields[name] = true
	}
	return red, nil
}

// plain is the name without what may be written in one way or another.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// Text returns the text without secrets, and how many there were. JSON, also of which the
// end is missing, is understood as such, and comes back without spaces between its parts.
func (r *Redactor) Text(s string) (string, int) {
	if t := strings.TrimLeft(s, " \t\r\n"); t != "" && (t[0] == '{' || t[0] == '[') {
		j := &jsonText{by: r}
		j.all(s)
		return j.out.String(), j.found
	}
	return r.prose(s)
}

// prose is Text for what is no JSON.
func (r *Redactor) prose(s string) (string, int) {
	found := 0
	for i := range r.rules {
		var b strings.Builder
		at := 0
		for from, to := range r.rules[i].hits(s) {
			if from < at || from == to || strings.HasPrefix(s[from:], Mark) || strings.HasPrefix(Mark, s[from:to]) {
				continue
			}
			b.WriteString(s[at:from])
			b.WriteString(Mark)
			at = to
			found++
		}
		if at > 0 {
			b.WriteString(s[at:])
			s = b.String()
		}
	}
	return s, found
}

// hits are where the secrets are that the rule finds.
func (r *rule) hits(s string) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		if r.near {
			r.hitsNear(s, yield)
			return
		}
		if lower := strings.ToLower(s); len(r.signs) > 0 && !slices.ContainsFunc(r.signs, func(sign string) bool { return strings.Contains(lower, sign) }) {
			return
		}
		for _, h := range r.re.FindAllStringSubmatchIndex(s, -1) {
			from, to := h[2*r.group], h[2*r.group+1]
			if (r.is == nil || r.is(s[from:to])) && !yield(from, to) {
				return
			}
		}
	}
}

// secret reports whether the value of a field with the name is none to show.
func (r *Redactor) secret(name string) bool {
	if r.fields[plain(name)] {
		return true
	}
	parts := split(name)
	for i, w := range parts {
		switch w {
		case "password", "passwort", "passwd", "kennwort", "pwd", "pw", "passphrase", "passcode", "pin", "puk",
			"secret", "authorization", "cookie", "credential", "credentials", "apikey", "accountkey", "privatekey":
			return true
		case "token":
			return i == len(parts)-1
		case "key":
			if i > 0 && strings.Contains(" api access account private secret session signing encryption ", " "+parts[i-1]+" ") {
				return true
			}
		}
	}
	return false
}

// split returns the words of a name, as of "clientSecret" and "X-Api-Key", in lower case.
func split(name string) []string {
	var b strings.Builder
	lower := false
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			c = ' '
		} else if unicode.IsUpper(c) && lower {
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(c)
		b.WriteRune(unicode.ToLower(c))
	}
	return strings.Fields(b.String())
}

// maxNested is how deep JSON in strings of JSON is understood as such, and maxLevels how
// deep it nests.
const (
	maxNested = 4
	maxLevels = 200
)

// jsonText writes JSON anew, token by token: in its order and with names that come twice,
// as a reader may be misled by what is left out.
type jsonText struct {
	by     *Redactor
	out    bytes.Buffer
	found  int
	nested int

	open []level
	skip int // the level of a secret value that is left out, from 1; 0 for none
}

// A level is an object or array that is open.
type level struct {
	object bool
	name   bool // of an object: a name is next
	some   bool // it has something
}

// all writes the text, and what in it is no JSON as prose.
func (j *jsonText) all(s string) {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	at, secret := int64(0), false // secret: so is the value that is next
	for {
		tok, err := dec.Token()
		if err != nil {
			j.rest(s[at:], secret)
			return
		}
		at = dec.InputOffset()
		if len(j.open) >= maxLevels {
			j.rest(s[at:], secret)
			return
		}
		secret = j.token(tok, secret)
	}
}

// rest writes what is not understood, unless it is of a secret.
func (j *jsonText) rest(s string, secret bool) {
	if strings.TrimSpace(s) == "" {
		return
	}
	if secret || j.skip > 0 {
		if secret {
			j.mark()
		}
		return
	}
	text, n := j.by.prose(s)
	j.out.WriteString(text)
	j.found += n
}

// token writes one, which is a secret or begins one where secret is set, and reports whether
// the next one is.
func (j *jsonText) token(tok json.Token, secret bool) (next bool) {
	if d, ok := tok.(json.Delim); ok && (d == '}' || d == ']') {
		j.open = j.open[:len(j.open)-1]
		if j.skip == 0 {
			j.out.WriteByte(byte(d))
		} else if len(j.open) < j.skip {
			j.skip = 0
		}
		return false
	}
	name := j.before()
	switch v := tok.(type) {
	case json.Delim:
		if secret {
			j.mark()
			j.skip = len(j.open) + 1
		}
		j.open = append(j.open, level{object: v == '{', name: v == '{'})
		j.raw(string(v))
	case string:
		if name {
			j.quoted(v)
			j.raw(":")
			return j.skip == 0 && j.by.secret(v)
		}
		if secret {
			j.mark()
			return false
		}
		j.value(v)
	default:
		if secret && tok != nil {
			j.mark()
			return false
		}
		text, _ := json.Marshal(tok) //nolint:errchkjson // a number, a bool or nil
		j.raw(string(text))
	}
	return false
}

// before writes what goes between the token before and the next one, and reports whether
// that is a name.
func (j *jsonText) before() (name bool) {
	if len(j.open) == 0 {
		if j.out.Len() > 0 {
			j.raw("\n")
		}
		return false
	}
	l := &j.open[len(j.open)-1]
	name = l.object && l.name
	if l.some && (name || !l.object) {
		j.raw(",")
	}
	l.some = true
	if l.object {
		l.name = !l.name
	}
	return name
}

func (j *jsonText) raw(s string) {
	if j.skip == 0 {
		j.out.WriteString(s)
	}
}

func (j *jsonText) mark() {
	j.quoted(Mark)
	j.found++
}

func (j *jsonText) quoted(s string) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) //nolint:errchkjson // a string
	j.raw(strings.TrimSuffix(b.String(), "\n"))
}

// value writes a string, which may be JSON itself.
func (j *jsonText) value(s string) {
	if j.skip > 0 {
		return
	}
	var text string
	var n int
	if t := strings.TrimSpace(s); j.nested < maxNested && t != "" && (t[0] == '{' || t[0] == '[') && json.Valid([]byte(t)) {
		inner := &jsonText{by: j.by, nested: j.nested + 1}
		inner.all(t)
		text, n = inner.out.String(), inner.found
	} else {
		text, n = j.by.prose(s)
	}
	j.found += n
	j.quoted(text)
}
