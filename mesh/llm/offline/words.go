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
	kind       kind
	text       string // as written, without quotes and without a possessive 's
	low        string // text in lower case
	stem       string
	start, end int
}

func (t *token) is(words ...string) bool {
	if t.kind == email || t.kind == quoted {
		return false
	}
	for _, w := range words {
		if t.low == w {
			return true
		}
	}
	return false
}

// in reports whether the token is a word of the set.
func (t *token) in(set map[string]bool) bool { return t.kind == word && set[t.low] }

// capital reports whether the token is a word that begins with a capital.
func (t *token) capital() bool {
	r, _ := utf8.DecodeRuneInString(t.text)
	return t.kind == word && unicode.IsUpper(r)
}

var (
	emailPattern = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9._%+\-]*@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)+`)
	quotePairs   = map[rune]string{'"': `"`, '“': "”", '„': "“", '«': "»", '`': "`", '\'': "'", '‘': "’"}
	contracted   = set("that it what let who there here he she how where when once this")
)

// tokenize splits text into words, addresses, quotations and punctuation.
// Nothing else of this package looks for word boundaries.
func tokenize(text string) []token {
	var out []token
	var mails [][]int
	if strings.Contains(text, "@") { // which is quicker to find than an address
		mails = emailPattern.FindAllStringIndex(text, -1)
	}
	unclosed := map[rune]bool{} // quotes that have no end from here on
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
		if !unclosed[r] {
			if end := quotation(text, i, r, size); end > 0 {
				t := newToken(quoted, text, i, end)
				_, last := utf8.DecodeLastRuneInString(text[:end])
				t.text = strings.TrimSpace(text[i+size : end-last])
				t.low = strings.ToLower(t.text)
				out = append(out, t)
				i = end
				continue
			} else if end < 0 {
				unclosed[r] = true
			}
		}
		switch {
		case r == '\n' || strings.ContainsRune(".,;:!?&()…—–", r):
			out = append(out, newToken(punct, text, i, i+size))
			i += size
		case unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("#_@/", r):
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

// quotation returns the end of the quotation that begins at i; 0 if none does,
// and -1 if the quote has no end. An apostrophe inside a word begins none.
func quotation(text string, i int, r rune, size int) int {
	closing, ok := quotePairs[r]
	if !ok {
		return 0
	}
	if before, _ := utf8.DecodeLastRuneInString(text[:i]); (r == '\'' || r == '‘') && i > 0 && alphanumeric(before) {
		return 0
	}
	for from := i + size; ; {
		n := strings.Index(text[from:], closing)
		if n < 0 {
			return -1
		}
		at := from + n
		after, _ := utf8.DecodeRuneInString(text[at+len(closing):])
		if r == '"' || !alphanumeric(after) { // 'it's' ends at the last apostrophe
			return at + len(closing)
		}
		from = at + len(closing)
	}
}

func alphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// wordEnd returns the end of the word that begins at i. A mark such as - ' . :
// belongs to a word only between letters or digits; a comma never does.
func wordEnd(text string, i int) int {
	_, size := utf8.DecodeRuneInString(text[i:])
	for j := i + size; j < len(text); {
		r, n := utf8.DecodeRuneInString(text[j:])
		next, _ := utf8.DecodeRuneInString(text[j+n:])
		last, _ := utf8.DecodeLastRuneInString(text[:j])
		switch {
		case alphanumeric(r) || r == '_':
		case strings.ContainsRune("-'’./+@", r) && alphanumeric(last) && alphanumeric(next):
		case r == ':' && unicode.IsDigit(last) && unicode.IsDigit(next):
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

// quoteShort quotes what somebody said, shortened.
func quoteShort(s string) string { return "“" + clip(squeeze(s), 80) + "”" }

// sentence ends s with a full stop if it has no mark of its own.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?:") {
		return s
	}
	return s + "."
}

// listed joins words as "a, b and c".
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}
