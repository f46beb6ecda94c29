package command

import (
	"strings"

	"agentmesh/mesh/skill"
)

// Args returns the flags of a command as the arguments of a call of s: named
// and shaped as its parameters are, so that the executor can check them. Flags
// that s does not have are left as they are, for the executor to refuse. The
// result is the caller's. s may be nil, if there is no such skill.
//
// Several values of an array are its elements, of which those with commas but
// without spaces are lists themselves; several values of anything else are one
// text with spaces. A single value is left as it is: the executor reads comma
// lists, JSON arrays and JSON objects from text. Only what a schema declares
// and the parameters do not is converted here.
func Args(flags map[string]any, s *skill.Skill) map[string]any {
	args := make(map[string]any, len(flags))
	var parameters []skill.Parameter
	own := 0
	if s != nil {
		parameters, own = declared(s)
	}
	places := placesOf(parameters)
	for name, value := range flags {
		i, known := places[FlagName(name)]
		if !known {
			args[name] = value
			continue
		}
		p := &parameters[i]
		args[p.Name] = shape(p, value)
		if i >= own {
			args[p.Name] = typed(p.Type, p.Items, args[p.Name])
		}
	}
	return args
}

func shape(p *skill.Parameter, value any) any {
	objects := p.Type == "array" && p.Items == "object"
	switch v := value.(type) {
	case string:
		if objects && strings.HasPrefix(strings.TrimSpace(v), "{") { // its commas are not the list's
			return []any{v}
		}
	case []string:
		if p.Type != "array" {
			return strings.Join(v, " ")
		}
		list := []any{}
		for _, one := range v {
			list = appendElements(list, one, objects)
		}
		return list
	}
	return value
}

// appendElements appends one of several values. "a," is an element of "a, b".
func appendElements(list []any, value string, whole bool) []any {
	if whole {
		return append(list, value)
	}
	value = strings.Trim(value, ",")
	parts := []string{value}
	if !strings.ContainsAny(value, " \t\n") {
		parts = strings.Split(value, ",")
	}
	for _, part := range parts {
		if part != "" {
			list = append(list, part)
		}
	}
	return list
}
