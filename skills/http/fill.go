package httpskill

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// maxShown bounds what is repeated of a value, in bytes.
const maxShown = 60

// A filler puts the arguments of one call into a template.
type filler struct {
	call    *skill.Call
	secrets map[string]secret
	shows   bool // secrets stay the placeholders that they are
}

// request returns the template's request with the values of the call.
func (f filler) request(ctx context.Context, t *template) (*http.Request, error) {
	path, err := f.path(t)
	if err != nil {
		return nil, err
	}
	query, err := f.pairs(t.query)
	if err != nil {
		return nil, err
	}
	address := t.base.Scheme + "://" + t.base.Host + "/" + path
	if query != "" {
		address += "?" + query
	}
	body, err := f.body(t)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, t.method, address, strings.NewReader(body))
	if err != nil {
		return nil, mesh.Errorf(mesh.Unknown, f.call.Skill, "The request cannot be made of the values given")
	}
	if t.body == nil {
		req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
	}
	for _, h := range t.header {
		value, all, err := f.join(h.value, headerSafe)
		if err != nil {
			return nil, err
		}
		if all {
			req.Header.Add(h.name, value)
		}
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json, text/*;q=0.5")
	}
	return req, nil
}

func (f filler) path(t *template) (string, error) {
	segments := make([]string, len(t.path))
	for i, pieces := range t.path {
		for _, x := range pieces {
			if x.param == "" {
				segments[i] += x.text
				continue
			}
			text, there := f.text(x.param)
			if !there {
				return "", mesh.Errorf(mesh.Invalid, f.call.Skill, "Missing required flag: --%s", x.param)
			}
			if strings.ContainsAny(text, `/\`) && slices.ContainsFunc(strings.FieldsFunc(text, slash), dots) {
				return "", mesh.InvalidField(f.call.Skill, x.param, "must not lead to another folder by '.' or '..' between slashes; give another value")
			}
			segments[i] += url.PathEscape(text)
		}
		// A service, or a proxy before it, could take these for other paths.
		if len(pieces) > 0 && pieces[0].text != segments[i] && (segments[i] == "" || dots(segments[i])) {
			return "", mesh.Errorf(mesh.Invalid, f.call.Skill, "A part of the address must not be %q; give another value", segments[i])
		}
	}
	return strings.Join(segments, "/"), nil
}

// Escaped slashes are no slashes to whoever reads the address, but to some of
// the proxies on the way to them.
func slash(r rune) bool        { return r == '/' || r == '\\' }
func dots(segment string) bool { return segment == "." || segment == ".." }

// pairs writes the pairs whose values are there. An array that is a whole
// value is written once per element.
func (f filler) pairs(list []pair) (string, error) {
	var out []string
	for _, p := range list {
		if len(p.value) == 1 && p.value[0].param != "" {
			if elements, ok := f.call.Args[p.value[0].param].([]any); ok {
				for _, e := range elements {
					out = append(out, p.name+"="+url.QueryEscape(plain(e)))
				}
				continue
			}
		}
		value, all, err := f.join(p.value, func(_, v string) (string, error) { return url.QueryEscape(v), nil })
		if err != nil {
			return "", err
		}
		if all {
			out = append(out, p.name+"="+value)
		}
	}
	return strings.Join(out, "&"), nil
}

// join writes literals as they are and values through escape, which is told
// where they come from. all is false if a value is not there.
func (f filler) join(pieces []piece, escape func(name, value string) (string, error)) (text string, all bool, err error) {
	var b strings.Builder
	for _, x := range pieces {
		value, name := x.text, ""
		switch {
		case x.secret != "" && f.shows:
			value = "{secret:" + x.secret + "}"
		case x.secret != "":
			value, name = f.secrets[x.secret].value, "secret"
		case x.param != "":
			var there bool
			if value, there = f.text(x.param); !there {
				return "", false, nil
			}
			name = x.param
		}
		if name != "" {
			if value, err = escape(name, value); err != nil {
				return "", false, err
			}
		}
		b.WriteString(value)
	}
	return b.String(), true, nil
}

// headerSafe refuses what could end a header.
func headerSafe(name, value string) (string, error) {
	if strings.ContainsFunc(value, outsideASCII) {
		return "", mesh.InvalidField("httpskill", name, "must be visible ASCII without line breaks, because it is sent in a header")
	}
	return value, nil
}

func (f filler) body(t *template) (string, error) {
	if t.form != nil {
		return f.pairs(t.form)
	}
	var b strings.Builder
	for _, x := range t.body {
		value, there := f.call.Args[x.param], false
		if x.param != "" {
			_, there = f.text(x.param)
		}
		switch {
		case x.param == "":
			b.WriteString(x.text)
		case !isJSON(t.kind):
			b.WriteString(plain(value))
		case x.quoted:
			b.WriteString(jsonInner(plain(value)))
		case !there:
			b.WriteString("null")
		default:
			data, err := json.Marshal(value)
			if err != nil {
				return "", mesh.InvalidField(f.call.Skill, x.param, "cannot be written as JSON")
			}
			b.Write(data)
		}
	}
	return b.String(), nil
}

// jsonInner is the text as it is written between the quotes of a JSON string.
func jsonInner(s string) string {
	quoted, err := json.Marshal(s)
	if err != nil {
		return "" // strings have no way to fail
	}
	return string(quoted[1 : len(quoted)-1])
}

// text returns the argument as text, and whether it is there.
func (f filler) text(name string) (string, bool) {
	v, ok := f.call.Args[name]
	return plain(v), ok && v != nil
}

// plain writes a value as people would: elements between commas, objects as
// JSON.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return strings.ToValidUTF8(v, "\ufffd")
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		list := make([]string, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return strings.Join(list, ",")
	}
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}
