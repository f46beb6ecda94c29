package trail

import (
	"fmt"
	"regexp"
	"strings"
)

// Parts of the rules for secrets that are named before they are said.
const (
	// words are the names of values that are secret, as people and programs write them.
	words = `(?:password|passwort|passwd|kennwort|passcode|pwd|\bpw|secret|token|(?:api|access|account|private|secret)[ _-]?key|authorization|cookie|` + phrases + `)`
	// phrases are those whose values have several words.
	phrases = `(?:(?:pass|seed|recovery)[ _-]?phrase|credentials?)`
	// whose is what people write between a name and "is": whose it is, or of what.
	whose = `["'\\]*(?:\s+(?:for|of|to|on|at|in|für|von|zu|bei|im)(?:\s+[^\s:=.,;!?]+){1,3}?)?`
	// mark and verb are what separates a name from its value.
	mark = `\s*(?:[:=]+>?|->|→)\s*`
	verb = `(?:\s+(?:is|was|ist|war|lautet|heißt)|['’]s)(?:\s+(?:now|still|jetzt|nun|noch))?(?:\s*[:=]\s*|\s+)`

	// quoted is a value with its quotes: up to the one that closes it, or else to the end of
	// the paragraph.
	quoted = `\\"(?:[^"\\\n]|\\[^"\\\n]|\\{2,}"?)+(?:\\?")?|\\*"(?:[^"\\\n]|\\.|\n[^"\n])+"?|'(?:[^'\n]|\n[^'\n])+'?|` + "`[^`\\n]+`?" + `|[“„][^”“\n]+[”“]?|[‘‚][^’‘\n]+[’‘]?|«[^»\n]+»?|»[^«\n]+«?`
	// bare is one without quotes, which has no spaces. What text goes on with after it is none
	// of it, but what is in the midst of it is.
	bare = `[^\s"'\\,;<>}\]](?:\S*[^\s"'\\,;<>}\]])?`
	// sentence is the rest of one, on a line.
	sentence = `[^\s.!?](?:[^.!?\r\n]|[.!?]+[^\s.!?])*`
)

// signs are what all of words have one of.
var signs = []string{"passw", "kennwort", "phrase", "passcode", "pw", "secret", "token", "key", "authorization", "credential", "cookie"}

// named are the rules for secrets that are named before they are said. Those of them that take
// more out come first.
var named = []rule{
	near(nil, `\bauthorization["'\\]*\s*[:=]\s*["'\\]*([^"'\\\r\n]+)`, "authorization"),
	near(nil, phrases+whose+`(?:`+mark+`|`+verb+`)(`+quoted+`|`+sentence+`)`, "phrase", "credential"),
	near(inner, words+whose+mark+`(`+quoted+`|`+bare+`)`, signs...),
	near(isValue, words+whose+verb+`(`+quoted+`|`+bare+`)`, signs...),
	// With nothing between them, a value is told by its quotes or a digit.
	near(numbered, words+`["'\\]*\s+(?:(?:to|as|auf|als)\s+)?(`+quoted+`|[^\s\d"'\\]*\d(?:\S*[^\s"'\\,;.!?<>}\]])?)`, signs...),
	near(numbered, `\b(?:pin|puk)(?:[ _-]?code)?\b`+whose+`(?:`+mark+`|`+verb+`|\s+)((?:\d[ -]?){3,}\d|["']?[^\s\d"'\\]*\d\S*)`, "pin", "puk"),
}

// lead is how many bytes before a sign of it a name begins at most, and a character more, by
// which it is known that a word begins there.
const lead = 16

// near returns the rule for a secret after a name, in the expression's first group. It is looked
// for where the signs are, which in long texts takes a fraction of the time.
func near(is func(string) bool, expr string, signs ...string) rule {
	re := regexp.MustCompile(fmt.Sprintf(`(?i)^(?s:.{0,%d}?)(?:%s)`, lead, expr))
	return rule{signs: signs, near: true, re: re, group: 1, is: is}
}

// hitsNear is hits of a rule that is near its signs.
func (r *rule) hitsNear(s string, yield func(from, to int) bool) {
	lower := lowerASCII(s)
	next := make([]int, len(r.signs)) // where each sign is
	for at := 0; ; {
		first := len(s)
		for i, sign := range r.signs {
			if next[i] < at || at == 0 {
				next[i] = len(s)
				if n := strings.Index(lower[at:], sign); n >= 0 {
					next[i] = at + n
				}
			}
			first = min(first, next[i])
		}
		if first == len(s) {
			return
		}
		begin := max(at, first-lead)
		h := r.re.FindStringSubmatchIndex(s[begin:])
		if h == nil || r.is != nil && !r.is(s[begin+h[2]:begin+h[3]]) {
			at = first + 1
			continue
		}
		if !yield(begin+h[2], begin+h[3]) {
			return
		}
		at = begin + h[1]
	}
}

// lowerASCII is the text in lower case, as far as that is in the same bytes.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// plainWords follow the name of a secret in sentences about it, and are none.
var plainWords = func() map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(`a an the not no in on at for to too very required needed optional mandatory missing unknown wrong
		right correct incorrect invalid valid expired revoked empty set unset changed reset stored kept saved sent hidden
		der die das ein eine im nicht zu falsch richtig ungültig abgelaufen leer nötig erforderlich geändert`) {
		set[w] = true
	}
	return set
}()

// inner reports whether what follows a colon is no rest of a URL.
func inner(s string) bool { return !strings.HasPrefix(s, "//") }

// isValue reports whether what was said of a secret is what it is.
func isValue(s string) bool { return !plainWords[strings.ToLower(strings.TrimRight(s, ".!?:"))] }

// numbered reports whether a value in quotes, or a word with a digit, is no small number, as in
// "token 3", and no address, as of whom to send it to.
func numbered(s string) bool {
	_, domain, _ := strings.Cut(s, "@")
	return !strings.Contains(s, "://") && !strings.Contains(domain, ".") && (len(s) > 3 || strings.Trim(s, "0123456789") != "")
}
