package offline

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A kind says what a token is.
type kind uint8

const (
	word kind = iota
	email
	quoted
	punct // one of . , ; : ! ? & ( ) or a line break
)

// A token is a piece of a text; text[start:end] is it, with its quotes if it
// is quoted.
type token struct {
	kind  kind
	text  string // as written, without quotes and without a possessive 's
	low   string // text in lower case
	stem  string
	start int
	end   int
}

func (t *token) is(words ...string) bool {
	if t.kind != word && t.kind != punct {
		return false
	}
	for _, w := range words {
		if t.low == w {
			return true
		}
	}
	return false
}

// capital reports whether the token is a word that begins with a capital.
func (t *token) capital() bool {
	r, _ := utf8.DecodeRuneInString(t.text)
	return t.kind == word && unicode.IsUpper(r)
}

var (
	emailPattern = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9._%+\-]*@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)+`)
	quotePairs   = map[rune]string{'"': `"`, '“': "”", '„': "“", '«': "»", '`': "`", '\'': "'", '‘': "’"}
)

// contracted are the words whose 's is a verb and no possessive.
var contracted = set("that it what let who there here he she how where when once this")

// tokenize splits text into words, addresses, quotations and punctuation.
// Nothing else of this package looks for word boundaries.
func tokenize(text string) []token {
	var out []token
	var mails [][]int
	if strings.Contains(text, "@") { // which is quicker to find than an address
		mails = emailPattern.FindAllStringIndex(text, -1)
	}
	for i := 0; i < len(text); {
		for len(mails) > 0 && mails[0][0] < i {
			mails = mails[1:]
		}
		if len(mails) > 0 && mails[0][0] == i {
			out = append(out, newToken(email, text, i, mails[0][1]))
			i = mails[0][1]
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if end, inner := quotation(text, i, r, size); end > 0 {
			t := newToken(quoted, text, i, end)
			t.text, t.low = inner, strings.ToLower(inner)
			out = append(out, t)
			i = end
			continue
		}
		switch {
		case r == '\n' || strings.ContainsRune(".,;:!?&()", r):
			out = append(out, newToken(punct, text, i, i+size))
			i += size
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '#' || r == '_' || r == '@':
			end := wordEnd(text, i)
			if len(mails) > 0 && end > mails[0][0] {
				end = mails[0][0]
			}
			out = append(out, newToken(word, text, i, end))
			i = end
		default:
			i += size
		}
	}
	return out
}

func newToken(k kind, text string, start, end int) token {
	t := token{kind: k, text: text[start:end], start: start, end: end}
	if k == word {
		t.text = strings.ReplaceAll(t.text, "’", "'")
		if base, ok := strings.CutSuffix(t.text, "'s"); ok && !contracted[strings.ToLower(base)] {
			t.text = base
		}
	}
	t.low = strings.ToLower(t.text)
	t.stem = stem(t.low)
	return t
}

// quotation returns the end of the quotation that begins at i, and what is in
// it; 0 if none does. An apostrophe inside a word begins none.
func quotation(text string, i int, r rune, size int) (end int, inner string) {
	closing, ok := quotePairs[r]
	if !ok {
		return 0, ""
	}
	if r == '\'' || r == '‘' {
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		if i > 0 && (unicode.IsLetter(before) || unicode.IsDigit(before)) {
			return 0, ""
		}
	}
	for from := i + size; ; {
		n := strings.Index(text[from:], closing)
		if n < 0 {
			return 0, ""
		}
		at := from + n
		after, _ := utf8.DecodeRuneInString(text[at+len(closing):])
		// 'it's' ends at the last apostrophe, not inside the word.
		if r == '"' || (!unicode.IsLetter(after) && !unicode.IsDigit(after)) {
			return at + len(closing), strings.TrimSpace(text[i+size : at])
		}
		from = at + len(closing)
	}
}

// wordEnd returns the end of the word that begins at i. A mark such as - ' . :
// belongs to a word only between letters or digits; a comma never does.
func wordEnd(text string, i int) int {
	_, size := utf8.DecodeRuneInString(text[i:])
	for j := i + size; j < len(text); {
		r, n := utf8.DecodeRuneInString(text[j:])
		next, _ := utf8.DecodeRuneInString(text[j+n:])
		last, _ := utf8.DecodeLastRuneInString(text[:j])
		alnum := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
		switch {
		case alnum(r) || r == '_':
		case strings.ContainsRune("-'’./+@", r) && alnum(last) && alnum(next):
		case r == ':' && unicode.IsDigit(last) && unicode.IsDigit(next):
		case r == '%' && unicode.IsDigit(last):
		default:
			return j
		}
		j += n
	}
	return len(text)
}

// stem takes endings off an English word in lower case, so that its forms
// become one: schedule, scheduling and scheduled are "schedul".
func stem(w string) string {
	if len(w) < 4 || strings.ContainsAny(w, "0123456789@./") {
		return w
	}
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		w = w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"):
		w = w[:len(w)-2]
	case strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is"):
		w = w[:len(w)-1]
	}
	switch {
	case strings.HasSuffix(w, "ing") && len(w) > 5:
		w = undouble(w[:len(w)-3])
	case strings.HasSuffix(w, "ed") && len(w) > 4 && !strings.HasSuffix(w, "eed"):
		w = undouble(w[:len(w)-2])
	}
	if len(w) > 4 {
		w = strings.TrimSuffix(w, "e")
	}
	return w
}

// undouble takes the second of two equal consonants off the end: planning,
// plann, plan.
func undouble(w string) string {
	n := len(w)
	if n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("lszaeiou", rune(w[n-1])) {
		return w[:n-1]
	}
	return w
}

// squeeze joins the words of s with single blanks.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// clip shortens s to at most n runes, at a word if it can.
func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	cut := string(r[:n])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:.") + "…"
}

// capitalize makes the first letter of s a capital.
func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	first, _, _ := strings.Cut(s, " ")
	if n == 0 || r == utf8.RuneError || strings.ContainsAny(first, "@/") { // an address or a path stays what it is
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}
