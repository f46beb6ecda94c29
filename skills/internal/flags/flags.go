// Package flags reads and checks the arguments of a skill call inside its
// handler (S3-158).
//
// The executor checks a call against what the skill's page declares. A page is
// a file that anybody may have replaced, by one that declares less or that
// gives a handler's flag another type; so that a handler checks for itself
// what it relies on. Its values may be of the declared type or text. What is
// wrong is told as a model can correct it: the flag by its name, and the
// values allowed.
//
// All functions are pure.
package flags

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// maxShown bounds what is repeated of a value, in bytes.
const maxShown = 60

// Has reports whether the flag is there with a value that [Text] or [List] can
// read: not blank, and with such an element if it is a list.
func Has(call *skill.Call, name string) bool {
	if _, isList := call.Args[name].([]any); isList {
		return len(List(call, name)) > 0
	}
	return strings.TrimSpace(Text(call, name)) != ""
}

// Require returns an Invalid error that names all flags that are missing, as
// "Missing required flag: --body".
func Require(call *skill.Call, names ...string) error {
	missing := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return Has(call, n) })
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return mesh.Errorf(mesh.Invalid, call.Skill, "Missing required flag: --%s", missing[0])
	}
	return mesh.Errorf(mesh.Invalid, call.Skill, "Missing required flags: --%s", strings.Join(missing, ", --"))
}

// Text returns the flag, or "". A number or boolean is given as it is written.
func Text(call *skill.Call, name string) string { return text(call.Args[name]) }

func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case float64: // as JSON has it, without an exponent
		return strconv.FormatFloat(v, 'f', -1, 64)
	case int64, bool:
		return fmt.Sprint(v)
	}
	return ""
}

// List returns the elements of the flag, each as [Text] would: those of an
// array, or of a text as [skill.Elements] reads it. Blank ones are left out.
func List(call *skill.Call, name string) []string {
	list, isList := call.Args[name].([]any)
	if !isList {
		list = skill.Elements(Text(call, name))
	}
	var out []string
	for _, item := range list {
		if s := strings.TrimSpace(text(item)); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Words returns the words of the flag in lower case, each once; of many, the
// first 32.
func Words(call *skill.Call, name string) []string {
	const most = 32
	var out []string
	for w := range strings.FieldsSeq(strings.ToLower(Text(call, name))) {
		if len(out) < most && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// Int returns the flag, def if it is not there, and an Invalid error if it is
// no whole number from least to most.
func Int(call *skill.Call, name string, def, least, most int) (int, error) {
	if !Has(call, name) {
		return def, nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(Text(call, name)))
	if err != nil || n < least || n > most {
		return 0, mesh.InvalidField(call.Skill, name, "must be from %d to %d", least, most)
	}
	return n, nil
}

// Bool returns the flag, false if it is not there. A flag that is named
// without a value is true.
func Bool(call *skill.Call, name string) (bool, error) {
	raw, there := call.Args[name]
	if b, ok := raw.(bool); ok || !there || raw == nil {
		return b, nil
	}
	switch text, _ := raw.(string); strings.ToLower(strings.TrimSpace(text)) {
	case "", "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, mesh.InvalidField(call.Skill, name, "must be true or false")
}

// Enum checks that each of the values is allowed.
func Enum(call *skill.Call, name string, values []string, allowed ...string) error {
	for _, v := range values {
		if !slices.Contains(allowed, v) {
			return mesh.InvalidField(call.Skill, name, "must be one of: %s, and is %q", strings.Join(allowed, ", "), mesh.Clip(v, maxShown))
		}
	}
	return nil
}
