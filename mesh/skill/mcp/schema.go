package mcp

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

const (
	maxSchema = 64 << 10 // of one tool, in bytes
	maxHint   = 500      // one description within, in bytes
	maxName   = 128      // the name of an argument, in bytes
)

// An input is what the schema of a tool's arguments says, for a skill.
type input struct {
	schema     json.RawMessage
	parameters []skill.Parameter
}

// inputOf reads the schema. What a [skill.Parameter] can say of an argument is
// said there, so that calls are checked and texts are converted; the rest is
// left to the schema and to the server. The error is Invalid.
func inputOf(raw any) (input, error) {
	const op = "mcp.inputOf"
	schema, ok := raw.(map[string]any)
	if raw == nil {
		schema, ok = map[string]any{}, true
	}
	if kind, has := schema["type"]; !ok || has && kind != "object" {
		return input{}, mesh.InvalidField(op, "inputSchema", "describes no object")
	}
	schema = cleanSchema(schema).(map[string]any)
	schema["type"] = "object"
	data, err := json.Marshal(schema)
	switch {
	case err != nil:
		return input{}, mesh.InvalidField(op, "inputSchema", "cannot be written")
	case len(data) > maxSchema:
		return input{}, mesh.InvalidField(op, "inputSchema", "is %d bytes long; at most %d are allowed", len(data), maxSchema)
	}
	parameters, all, err := parametersOf(schema)
	if err != nil {
		return input{}, err
	}
	if _, patterns := schema["patternProperties"]; patterns || !all {
		// A schema that forbids all other arguments would have those refused
		// that only it can describe.
		delete(schema, "additionalProperties")
		if data, err = json.Marshal(schema); err != nil {
			return input{}, mesh.InvalidField(op, "inputSchema", "cannot be written")
		}
	}
	return input{data, parameters}, nil
}

// parametersOf returns the properties that parameters can describe, by name,
// and whether these are all.
func parametersOf(schema map[string]any) (parameters []skill.Parameter, all bool, err error) {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if line(name, maxName) != name {
			return nil, false, mesh.InvalidField("mcp.inputOf", "inputSchema", "has an argument whose name is no short line of text")
		}
		p, ok := parameterOf(name, properties[name])
		p.Required = slices.Contains(required, any(name))
		// To a command line, '-' and '_' are the same.
		plain := strings.ReplaceAll(name, "-", "_")
		if ok && !seen[plain] && expressible(p) {
			parameters = append(parameters, p)
			seen[plain] = true
		}
	}
	return parameters, len(parameters) == len(properties), nil
}

// expressible reports whether a skill may have the parameter.
func expressible(p skill.Parameter) bool {
	return skill.Validate(&skill.Skill{Name: "a.b", Domain: "a", Action: "b", Description: "d", Body: "b", Parameters: []skill.Parameter{p}}) == nil
}

// cleanSchema returns a copy in which the texts for readers are clean lines.
// Values that calls are compared with stay as they are, or are left out if they
// are not clean: the server knows them.
func cleanSchema(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			text, isText := value.(string)
			switch {
			case isText && (key == "description" || key == "title" || key == "$comment"):
				out[key] = line(text, maxHint)
			case key == "default" || key == "const" || key == "enum" || key == "examples":
				if isClean(value) {
					out[key] = value
				}
			default:
				out[key] = cleanSchema(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = cleanSchema(v[i])
		}
		return out
	}
	return v
}

// isClean reports whether all texts in a value are clean.
func isClean(v any) bool {
	switch v := v.(type) {
	case string:
		return clean(v) == v
	case []any:
		return !slices.ContainsFunc(v, func(v any) bool { return !isClean(v) })
	case map[string]any:
		for key, value := range v {
			if clean(key) != key || !isClean(value) {
				return false
			}
		}
	}
	return true
}

// parameterOf returns a property as a parameter, or false if a parameter cannot
// say what it takes.
func parameterOf(name string, property any) (skill.Parameter, bool) {
	schema, ok := soleOf(property)
	if !ok {
		return skill.Parameter{}, false
	}
	typ, ok := typeOf(schema)
	if !ok {
		return skill.Parameter{}, false
	}
	outer, _ := property.(map[string]any)
	p := skill.Parameter{Name: name, Type: typ, Description: description(outer, schema)}
	values, limited := schema["enum"].([]any)
	if typ == "array" {
		items, ok := soleOf(schema["items"])
		if !ok {
			return p, false
		}
		if p.Items, ok = typeOf(items); !ok || p.Items == "array" {
			return p, false
		}
		if limited { // whole arrays
			return p, false
		}
		values, limited = items["enum"].([]any)
	}
	if limited {
		p.Enum, ok = texts(values)
	}
	return p, ok
}

func description(schemas ...map[string]any) string {
	for _, s := range schemas {
		if text, _ := s["description"].(string); text != "" {
			return text
		}
	}
	return ""
}

// soleOf returns the schema of which the property is a variant: itself, or the
// one that it allows besides null.
func soleOf(property any) (map[string]any, bool) {
	schema, ok := property.(map[string]any)
	if !ok {
		return nil, false
	}
	for _, key := range []string{"$ref", "allOf", "not", "if"} {
		if _, has := schema[key]; has {
			return nil, false
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		variants, has := schema[key].([]any)
		if !has {
			continue
		}
		variants = slices.DeleteFunc(slices.Clone(variants), isNull)
		if len(variants) != 1 {
			return nil, false
		}
		return soleOf(variants[0])
	}
	return schema, true
}

func isNull(variant any) bool {
	schema, _ := variant.(map[string]any)
	return schema["type"] == "null"
}

// typeOf returns the one type besides null that the schema allows, as
// parameters call it.
func typeOf(schema map[string]any) (string, bool) {
	typ := schema["type"]
	if list, ok := typ.([]any); ok {
		list = slices.DeleteFunc(slices.Clone(list), func(t any) bool { return t == "null" })
		if len(list) != 1 {
			return "", false
		}
		typ = list[0]
	}
	switch typ {
	case "string", "integer", "boolean", "array", "object":
		return typ.(string), true
	case "number":
		return "float", true
	case nil:
		// Values tell what they are.
		values, _ := schema["enum"].([]any)
		isText := func(v any) bool { _, ok := v.(string); return ok }
		return "string", len(values) > 0 && !slices.ContainsFunc(values, func(v any) bool { return !isText(v) })
	}
	return "", false
}

// texts returns the values as the texts that parameters compare with. Null and
// the empty text are what an absent argument is.
func texts(values []any) ([]string, bool) {
	var out []string
	for _, v := range values {
		switch v := v.(type) {
		case nil:
		case string:
			if line(v, maxHint) != v {
				return nil, false
			}
			if v != "" {
				out = append(out, v)
			}
		case bool:
			out = append(out, strconv.FormatBool(v))
		case float64:
			if v != math.Trunc(v) || math.Abs(v) > 1<<20 {
				return nil, false
			}
			out = append(out, strconv.FormatFloat(v, 'f', -1, 64))
		default:
			return nil, false
		}
	}
	return out, len(out) > 0
}
