package node

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

var (
	unknownField = regexp.MustCompile(`field (.+) not found in type \S+`)
	quotedText   = regexp.MustCompile("(?s)\\s*(?:`.*`|'[^']{2,}'|\"[^\"]*\")")
	shownTag     = regexp.MustCompile(`\s*![^\s\x60]*`)
	// Letters as people write names of fields: keys and tokens of capitals are not told.
	fieldName = regexp.MustCompile(`^[A-Za-z](?:[a-z_-]|[a-z][A-Z][a-z]){0,29}$`)
	usualTags = []string{"!!str", "!!int", "!!float", "!!bool", "!!null", "!!seq", "!!map", "!!timestamp"}
)

// withoutValues takes out of a decoder's message what it cites of the file.
func withoutValues(message string) string {
	if m := unknownField.FindStringSubmatch(message); m != nil {
		if !fieldName.MatchString(m[1]) {
			return "a field is not known"
		}
		return "field " + m[1] + " is not known"
	}
	message = quotedText.ReplaceAllStringFunc(message, func(s string) string {
		if key, ok := strings.CutPrefix(strings.TrimSpace(s), `"`); ok && fieldName.MatchString(strings.TrimSuffix(key, `"`)) {
			return s
		}
		return ""
	})
	message = shownTag.ReplaceAllStringFunc(message, func(s string) string {
		if slices.Contains(usualTags, strings.TrimSpace(s)) {
			return s
		}
		return ""
	})
	return strings.Join(strings.Fields(message), " ")
}

// typeAt is the type of what may stand at the path of a configuration; nil for nothing.
func typeAt(path string) reflect.Type {
	t := reflect.TypeFor[Config]()
	for part := range strings.SplitSeq(path, ".") {
		name, item, _ := strings.Cut(part, "[")
		switch {
		case name == "":
		case t.Kind() == reflect.Map:
			t = t.Elem()
		case t.Kind() == reflect.Struct:
			f, ok := fieldNamed(t, name)
			if !ok {
				return nil
			}
			t = f
		default:
			return nil
		}
		if item != "" && t.Kind() == reflect.Slice {
			t = t.Elem()
		}
	}
	return t
}

// fieldsOf are the names of the fields that may stand at the path.
func fieldsOf(path string) []string {
	if t := typeAt(path); t != nil && t.Kind() == reflect.Struct {
		return namesIn(t)
	}
	return nil
}

// showable reports whether the path may be told: one of fields, and of names that an operator
// gives to what has fields. Whatever else stands where a field should may be a secret.
func showable(path string) bool {
	for at := path; at != ""; at = parentOf(at) {
		name := at[len(parentOf(at)):]
		name = strings.TrimPrefix(name, ".")
		if strings.HasPrefix(name, "[") || fieldName.MatchString(name) {
			continue
		}
		t := typeAt(parentOf(at))
		if t == nil || t.Kind() != reflect.Map || t.Elem().Kind() != reflect.Struct || !pathPart.MatchString(name) {
			return false
		}
	}
	return true
}

func fieldNamed(t reflect.Type, name string) (reflect.Type, bool) {
	for f := range t.Fields() {
		switch f.Tag.Get("yaml") {
		case name:
			return f.Type, true
		case ",inline":
			if found, ok := fieldNamed(f.Type, name); ok {
				return found, true
			}
		}
	}
	return nil, false
}

func namesIn(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		switch tag := f.Tag.Get("yaml"); tag {
		case "":
		case ",inline":
			names = append(names, namesIn(f.Type)...)
		default:
			names = append(names, tag)
		}
	}
	return names
}
