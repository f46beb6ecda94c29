package skill

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxProblems is how many wrong names of arguments are told.
const maxProblems = 20

// arguments checks args against the parameters and returns them in the form
// that handlers get, defaults included. What is wrong with them is returned
// as sentences from which a model can correct its call.
//
// The check is light on purpose (S3-084). A skill that declares no parameters
// takes any: its handler, or the model that follows its page, knows better.
// So do those who wrote the Schema of a skill; it is theirs to enforce, apart
// from what the parameters say of it.
func (s *Skill) arguments(args map[string]any) (map[string]any, []string) {
	given, out, problems := s.matchNames(args)
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems:maxProblems], fmt.Sprintf("and %d more like these", more))
	}
	for i := range s.Parameters {
		p := &s.Parameters[i]
		raw, ok := given[p.Name]
		if text, isText := raw.(string); raw == nil || isText && strings.TrimSpace(text) == "" && p.Type != "flag" {
			ok = false
		}
		if !ok && p.Default != "" {
			raw, ok = p.Default, true
		}
		if !ok {
			if p.Required {
				problems = append(problems, fmt.Sprintf("Missing required field: '%s'", p.Name))
			}
			continue
		}
		value, bad := p.normalize(raw)
		if list, isList := value.([]any); isList && len(list) == 0 && p.Required && bad == "" {
			bad = fmt.Sprintf("'%s' must have at least one element", p.Name)
		}
		if bad != "" {
			problems = append(problems, bad)
			continue
		}
		out[p.Name] = value
	}
	return out, problems
}

// matchNames finds the parameter of each argument; '-' and '_' are the same.
// Arguments without one are a problem, or what the skill takes besides.
func (s *Skill) matchNames(args map[string]any) (given, besides map[string]any, problems []string) {
	given, besides = make(map[string]any, len(args)), make(map[string]any, len(args))
	takesAny := s.takesAny()
	plain := func(name string) string { return strings.ReplaceAll(name, "-", "_") }
	places := make(map[string]int, len(s.Parameters))
	for i := range s.Parameters {
		places[plain(s.Parameters[i].Name)] = i
	}
	for _, key := range slices.Sorted(maps.Keys(args)) {
		i, known := places[plain(key)]
		if !known {
			if takesAny {
				besides[key] = args[key]
			} else {
				problems = append(problems, fmt.Sprintf("Unknown parameter: '%s'", clip(key)))
			}
			continue
		}
		name := s.Parameters[i].Name
		if _, twice := given[name]; twice {
			problems = append(problems, fmt.Sprintf("'%s' is given twice", name))
			continue
		}
		given[name] = args[key]
	}
	return given, besides, problems
}

// takesAny reports whether arguments need not be declared: there are no
// declarations, or a schema that does not forbid others.
func (s *Skill) takesAny() bool {
	if s.Schema == nil {
		return len(s.Parameters) == 0
	}
	var schema struct {
		AdditionalProperties json.RawMessage `json:"additionalProperties"`
	}
	return json.Unmarshal(s.Schema, &schema) == nil && string(schema.AdditionalProperties) != "false"
}

// usage lists the parameters, for messages.
func (s *Skill) usage() string {
	if len(s.Parameters) == 0 {
		return "It declares no parameters."
	}
	list := make([]string, len(s.Parameters))
	for i := range s.Parameters {
		p := &s.Parameters[i]
		list[i] = p.Name + " (" + p.Type
		if p.Required {
			list[i] += ", required"
		}
		list[i] += ")"
	}
	return "Valid parameters: " + strings.Join(list, ", ") + "."
}

// normalize turns a value from JSON or from text into the parameter's type:
// string, int64, float64, bool, []any of these, or map[string]any. It returns
// what is wrong with it, or "".
func (p *Parameter) normalize(raw any) (value any, bad string) {
	if p.Type == "array" {
		return p.normalizeList(raw)
	}
	value, ok := convert(p.Type, raw)
	if !ok {
		return nil, fmt.Sprintf("'%s' must be %s", p.Name, article(p.Type))
	}
	if !p.allows(value) {
		return nil, p.enumProblem()
	}
	return value, ""
}

func (p *Parameter) normalizeList(raw any) (value any, bad string) {
	items := p.Items
	if items == "" {
		items = "string"
	}
	list, ok := elements(raw)
	if !ok {
		return nil, fmt.Sprintf("'%s' must be an array", p.Name)
	}
	out := make([]any, 0, len(list))
	for _, item := range list {
		v, ok := convert(items, item)
		if !ok {
			return nil, fmt.Sprintf("'%s' must be an array whose elements are each %s", p.Name, article(items))
		}
		if !p.allows(v) {
			return nil, p.enumProblem()
		}
		out = append(out, v)
	}
	return out, ""
}

func (p *Parameter) allows(v any) bool {
	return len(p.Enum) == 0 || slices.Contains(p.Enum, fmt.Sprint(v))
}

func (p *Parameter) enumProblem() string {
	return fmt.Sprintf("'%s' must be one of: %s", p.Name, strings.Join(p.Enum, ", "))
}

// elements takes an array as JSON made it, or text.
func elements(raw any) ([]any, bool) {
	switch v := raw.(type) {
	case []any:
		return v, true
	case []string:
		out := make([]any, len(v))
		for i := range v {
			out[i] = v[i]
		}
		return out, true
	case string:
		return Elements(v), true
	}
	return nil, false
}

// Elements reads an array from text: a JSON array, or values between commas, of
// which those in double quotes may contain commas. Blank values are left out.
func Elements(text string) []any {
	out := []any{}
	if strings.HasPrefix(strings.TrimSpace(text), "[") && json.Unmarshal([]byte(text), &out) == nil {
		return out
	}
	out = out[:0]
	quoted := false
	for _, item := range strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ',' && !quoted
	}) {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// convert takes JSON values and, for numbers and booleans, their text form:
// a command line knows nothing else.
func convert(typ string, raw any) (any, bool) {
	switch typ {
	case "string":
		s, ok := raw.(string)
		return s, ok
	case "boolean", "flag":
		if b, ok := raw.(bool); ok {
			return b, true
		}
		s, isText := raw.(string)
		if typ == "flag" && isText && s == "" {
			return true, true
		}
		return s == "true", isText && (s == "true" || s == "false")
	case "integer":
		return toInt(raw)
	case "float":
		return toFloat(raw)
	case "object":
		if m, ok := raw.(map[string]any); ok {
			return m, true
		}
		var m map[string]any
		s, isText := raw.(string)
		return m, isText && json.Unmarshal([]byte(s), &m) == nil && m != nil
	}
	return raw, true
}

func toInt(raw any) (any, bool) {
	switch v := raw.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case float64:
		const exact = 1 << 53
		return int64(v), v == math.Trunc(v) && math.Abs(v) <= exact
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		return n, err == nil
	case string:
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		return n, err == nil
	}
	return nil, false
}

func toFloat(raw any) (any, bool) {
	var text string
	switch v := raw.(type) {
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	default:
		return nil, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

func article(typ string) string {
	if strings.ContainsRune("aeiou", rune(typ[0])) {
		return "an " + typ
	}
	return "a " + typ
}

// Asks reports whether the user has to approve calls of the skill.
func (s *Skill) Asks() bool { return s.RequiresApproval || s.Confirm != "" }

// Same reports whether the arguments, as somebody gave them, are what the JSON says, as a
// handler gets them.
func (s *Skill) Same(given map[string]any, data string) bool {
	args, problems := s.arguments(given)
	same, err := json.Marshal(args)
	return len(problems) == 0 && err == nil && string(same) == data
}
