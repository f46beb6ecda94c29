package httpskill

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// A template is a request with places for values.
type template struct {
	method string
	base   *url.URL // scheme and host
	path   [][]piece
	query  []pair
	header []pair
	// body is nil without one; form is its pairs if it is a form.
	body []piece
	form []pair
	kind string // the media type of the body
}

// A pair is a name with its value.
type pair struct {
	name  string
	value []piece
}

// A piece is a literal text or a place for a value.
type piece struct {
	text   string
	param  string // the name of a parameter, or
	secret string // of a secret
	quoted bool   // the place is inside a string of JSON
}

var (
	place      = regexp.MustCompile(`\{(secret:)?([a-z][a-z0-9_-]*)\}`)
	secretName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
)

// Check reports what is wrong with the request in the page of a skill. The
// error is Invalid and names the field body. It cannot know which origins and
// secrets there are.
func Check(s *skill.Skill) error {
	_, err := parse(s)
	return err
}

func wrong(format string, args ...any) error {
	return mesh.InvalidField("httpskill.Check", "body", "has a request that cannot be sent: "+format, args...)
}

func parse(s *skill.Skill) (*template, error) {
	text, err := block(s.Body)
	if err != nil {
		return nil, err
	}
	head, body, hasBody := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	t := new(template)
	method, address, _ := strings.Cut(strings.TrimSpace(lines[0]), " ")
	if t.method = method; !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, method) {
		return nil, wrong("its first line must be a method and a URL, as GET https://api.example.com/, and is %q", mesh.Clip(lines[0], maxShown))
	}
	if !t.reads() && s.Access == skill.AccessRead {
		return nil, wrong("%s changes something, but the skill's access is read; make it write", method)
	}
	p := parser{skill: s}
	if err := p.address(t, strings.TrimSpace(address)); err != nil {
		return nil, err
	}
	for _, line := range lines[1:] {
		if err := p.headerLine(t, line); err != nil {
			return nil, err
		}
	}
	if hasBody && strings.TrimSpace(body) != "" {
		return t, p.bodyText(t, strings.TrimSpace(body))
	}
	return t, nil
}

// reads reports whether the request changes nothing.
func (t *template) reads() bool { return t.method == http.MethodGet || t.method == http.MethodHead }

// block returns the one fenced block of the language http.
func block(body string) (string, error) {
	var found []string
	fence, inside := "", false
	var lines []string
	for line := range strings.SplitSeq(body, "\n") {
		bare := strings.TrimRight(line, " \t")
		ticks := bare[:len(bare)-len(strings.TrimLeft(bare, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3:
			fence, lines = ticks, nil
			inside = strings.TrimSpace(bare[len(ticks):]) == "http"
		case fence != "" && bare == ticks && len(ticks) >= len(fence):
			if inside {
				found = append(found, strings.Trim(strings.Join(lines, "\n"), "\n"))
			}
			fence = ""
		case fence != "":
			lines = append(lines, bare)
		}
	}
	switch {
	case fence != "":
		return "", wrong("a fenced block is not closed")
	case len(found) != 1:
		return "", wrong("there must be one block that begins with ```http, and there are %d", len(found))
	}
	return found[0], nil
}

// A parser reads the places of the template of a skill.
type parser struct{ skill *skill.Skill }

// pieces takes text apart. where is for messages; secrets says whether they
// may be here.
func (p parser) pieces(text, where string, secrets bool) ([]piece, error) {
	var out []piece
	at := 0
	for _, m := range place.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > at {
			out = append(out, piece{text: text[at:m[0]]})
		}
		at = m[1]
		next, err := p.piece(text[m[0]:m[1]], where, secrets)
		if err != nil {
			return nil, err
		}
		out = append(out, next)
	}
	if at < len(text) {
		out = append(out, piece{text: text[at:]})
	}
	return out, nil
}

// piece reads one place, as "{city}" or "{secret:token}".
func (p parser) piece(text, where string, secrets bool) (piece, error) {
	name := strings.Trim(text, "{}")
	if secret, ok := strings.CutPrefix(name, "secret:"); ok {
		if !secrets {
			return piece{}, wrong("%s has %s; secrets may be in headers and in the query", where, text)
		}
		return piece{secret: secret}, nil
	}
	if !slices.ContainsFunc(p.skill.Parameters, func(q skill.Parameter) bool { return q.Name == name }) {
		return piece{}, wrong("%s has %s, which is no parameter of the skill; declare it in the front matter", where, text)
	}
	return piece{param: name}, nil
}

func (p parser) address(t *template, raw string) error {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || strings.ContainsAny(raw, " \t#\\") {
		return wrong("its URL must be one as https://api.example.com/path?name={value}, without spaces and '#'")
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	var err error
	if t.base, err = url.Parse(scheme + "://" + rest[:end]); err != nil || t.base.User != nil || place.MatchString(rest[:end]) {
		return wrong("its host must be written out, without user, password and placeholders")
	}
	if _, ok := originOf(t.base); !ok {
		return wrong("its URL must begin with https:// or http:// and a host")
	}
	path, query, _ := strings.Cut(rest[end:], "?")
	if _, err := url.Parse(place.ReplaceAllString(rest[end:], "x")); err != nil {
		return wrong("its path or query is not valid in a URL")
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		pieces, err := p.pieces(segment, "the path", false)
		if err != nil {
			return err
		}
		t.path = append(t.path, pieces)
	}
	t.query, err = p.pairs(query, "the query", true)
	return err
}

// pairs reads name=value&name=value. The literals are written as they are to
// be sent.
func (p parser) pairs(text, where string, secrets bool) ([]pair, error) {
	var out []pair
	for field := range strings.SplitSeq(text, "&") {
		if field == "" {
			continue
		}
		name, value, _ := strings.Cut(field, "=")
		if place.MatchString(name) {
			return nil, wrong("%s has a placeholder as a name", where)
		}
		pieces, err := p.pieces(value, where, secrets)
		if err != nil {
			return nil, err
		}
		out = append(out, pair{name: name, value: pieces})
	}
	return out, nil
}

func (p parser) headerLine(t *template, line string) error {
	// What the connection is made of, and what is set for every request.
	own := []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Accept-Encoding", "Idempotency-Key", "X-Idempotency-Key", "Referer"}
	raw, value, ok := strings.Cut(line, ":")
	name := textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(raw))
	switch {
	case !ok || !headerName.MatchString(name):
		return wrong("the line %q is no header; write it as Accept: application/json, and a blank line before the body", mesh.Clip(line, maxShown))
	case slices.Contains(own, name):
		return wrong("the header %s cannot be chosen", name)
	case strings.ContainsFunc(value, outsideASCII):
		return wrong("the header %s has other characters than visible ASCII", name)
	}
	pieces, err := p.pieces(strings.TrimSpace(value), "the header "+name, true)
	if err != nil {
		return err
	}
	t.header = append(t.header, pair{name: name, value: pieces})
	return nil
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

func (p parser) bodyText(t *template, text string) error {
	if t.reads() {
		return wrong("%s has no body", t.method)
	}
	at := slices.IndexFunc(t.header, func(h pair) bool { return h.name == "Content-Type" })
	kind := "application/json"
	if at >= 0 {
		written := t.header[at].value
		if len(written) != 1 || written[0].text == "" {
			return wrong("the header Content-Type must be written out")
		}
		kind = written[0].text
	} else {
		t.header = append(t.header, pair{name: "Content-Type", value: []piece{{text: kind}}})
	}
	media, _, err := mime.ParseMediaType(kind)
	if err != nil {
		return wrong("the header Content-Type is not valid")
	}
	t.kind = media
	switch {
	case isJSON(media):
		t.body, err = p.jsonPieces(text)
	case media == "application/x-www-form-urlencoded":
		t.form, err = p.pairs(strings.ReplaceAll(text, "\n", ""), "the body", false)
		t.body = []piece{}
	case strings.HasPrefix(media, "text/"):
		t.body, err = p.pieces(text, "the body", false)
	default:
		return wrong("a body of type %s cannot be filled in; use JSON, a form or text", mesh.Clip(media, maxShown))
	}
	return err
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// jsonPieces takes JSON apart, telling places inside strings from those that
// are whole values.
func (p parser) jsonPieces(text string) ([]piece, error) {
	var out []piece
	var sample strings.Builder
	inString, literal := false, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && inString:
			i++
		case c == '"':
			inString = !inString
		case c == '{':
			m := place.FindStringIndex(text[i:])
			if m == nil || m[0] != 0 {
				continue
			}
			next, err := p.piece(text[i:i+m[1]], "the body", false)
			if err != nil {
				return nil, err
			}
			next.quoted = inString
			out = append(out, piece{text: text[literal:i]}, next)
			sample.WriteString(text[literal:i] + map[bool]string{true: "x", false: "null"}[inString])
			literal = i + m[1]
			i = literal - 1
		}
	}
	out = append(out, piece{text: text[literal:]})
	sample.WriteString(text[literal:])
	if !json.Valid([]byte(sample.String())) {
		return nil, wrong("its body is not JSON; a placeholder stands for a whole value, or is inside a string")
	}
	return out, nil
}

// secrets returns the names of those that the request carries.
func (t *template) secrets() []string {
	var out []string
	for _, list := range [][]pair{t.query, t.header} {
		for _, f := range list {
			for _, x := range f.value {
				if x.secret != "" {
					out = append(out, x.secret)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
