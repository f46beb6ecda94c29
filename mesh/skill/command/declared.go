package command

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"agentmesh/mesh/skill"
)

// declared returns what the skill takes: its parameters, and then, by name,
// what only its schema names.
func declared(s *skill.Skill) (parameters []skill.Parameter, own int) {
	own = len(s.Parameters)
	parameters = slices.Clone(s.Parameters)
	var known struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	if len(s.Schema) == 0 || json.Unmarshal(s.Schema, &known) != nil {
		return parameters, own
	}
	required := make(map[string]bool, len(known.Required))
	for _, name := range known.Required {
		required[name] = true
	}
	places := placesOf(s.Parameters)
	for _, name := range slices.Sorted(maps.Keys(known.Properties)) {
		if _, is := places[FlagName(name)]; !is {
			p := known.Properties[name].parameter()
			p.Name, p.Required = name, required[name]
			parameters = append(parameters, p)
		}
	}
	return parameters, own
}

// placesOf says where the parameter is that a flag means, by its [FlagName]. Of
// several, the first one is.
func placesOf(parameters []skill.Parameter) map[string]int {
	places := make(map[string]int, len(parameters))
	for i := range slices.Backward(parameters) {
		places[FlagName(parameters[i].Name)] = i
	}
	return places
}

// A property is what a schema says of one argument, as far as a flag needs it.
type property struct {
	Type        typeName  `json:"type"`
	Description string    `json:"description"`
	Items       *property `json:"items"`
	Enum        []any     `json:"enum"`
}

// A typeName is the type in a schema: a name, or a list with one besides null.
type typeName string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *typeName) UnmarshalJSON(data []byte) error {
	var names []string
	if json.Unmarshal(data, &names) != nil {
		names = make([]string, 1)
		if err := json.Unmarshal(data, &names[0]); err != nil {
			return err
		}
	}
	for _, name := range names {
		if name != "null" {
			*t = typeName(name)
			break
		}
	}
	return nil
}

// parameter returns the property as a parameter, as far as that can say it.
func (f property) parameter() skill.Parameter {
	p := skill.Parameter{Type: f.Type.ofParameter(), Description: f.Description}
	values := f.Enum
	if f.Items != nil && p.Type == "array" {
		p.Items, values = f.Items.Type.ofParameter(), f.Items.Enum
	}
	for _, v := range values {
		if text, ok := v.(string); ok {
			p.Enum = append(p.Enum, text)
		} else {
			p.Enum = append(p.Enum, JSON(v))
		}
	}
	return p
}

// ofParameter returns the type as parameters name it; what they do not know is
// a string.
func (t typeName) ofParameter() string {
	switch t {
	case "number":
		return "float"
	case "integer", "boolean", "array", "object":
		return string(t)
	}
	return "string"
}

// typed returns a value that was shaped for the parameter as JSON has it, or as
// it is if it is no such value. The executor does this for parameters of the
// skill's own, and leaves others to who wrote the schema.
func typed(typ, items string, value any) any {
	text, isText := value.(string)
	text = strings.TrimSpace(text)
	switch {
	case typ == "array":
		list, isList := value.([]any)
		if isText {
			list = skill.Elements(text)
		} else if !isList {
			return value
		}
		for i := range list {
			list[i] = typed(items, "", list[i])
		}
		return list
	case !isText:
	case typ == "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case typ == "float", typ == "boolean", typ == "object":
		var v any
		if json.Unmarshal([]byte(text), &v) == nil && sameKind(typ, v) {
			return v
		}
	}
	return value
}

func sameKind(typ string, v any) bool {
	switch v.(type) {
	case float64:
		return typ == "float"
	case bool:
		return typ == "boolean"
	case map[string]any:
		return typ == "object"
	}
	return false
}
