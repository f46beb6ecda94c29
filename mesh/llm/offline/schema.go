package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A property is what a JSON Schema says of one argument, as far as the planner
// reads it.
type property struct {
	Type        typeName  `json:"type"`
	Description string    `json:"description"`
	Enum        textList  `json:"enum"`
	Items       *property `json:"items"`
}

// A typeName is the type in a schema: a name, or a list with one beside null.
type typeName string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *typeName) UnmarshalJSON(data []byte) error {
	var names textList
	if len(data) > 0 && data[0] != '[' {
		var one looseString
		_ = one.UnmarshalJSON(data)
		names = textList{string(one)}
	} else {
		_ = names.UnmarshalJSON(data)
	}
	if i := slices.IndexFunc(names, func(n string) bool { return n != "null" }); i >= 0 {
		*t = typeName(names[i])
	}
	return nil
}

// schemaParams reads the parameters out of a JSON Schema of type object, in the
// order in which it has them: who wrote it put first what matters most.
func schemaParams(schema json.RawMessage) []param {
	var object struct {
		Properties json.RawMessage `json:"properties"`
		Required   textList        `json:"required"`
	}
	if json.Unmarshal(schema, &object) != nil {
		return nil
	}
	var out []param
	members(object.Properties, func(name string, value json.RawMessage) {
		var p property
		_ = json.Unmarshal(value, &p) // what cannot be read says nothing
		q := param{Name: name, Type: string(p.Type), Description: p.Description, Enum: p.Enum, Required: slices.Contains(object.Required, name)}
		if p.Items != nil && len(q.Enum) == 0 {
			q.Enum = p.Items.Enum
		}
		out = append(out, q)
	})
	return out
}

// members calls yield for the members of a JSON object in their order.
func members(object json.RawMessage, yield func(name string, value json.RawMessage)) {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return
	}
	for d.More() {
		key, err := d.Token()
		name, ok := key.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return
		}
		yield(name, value)
	}
}

// textList is a JSON array whose items are taken as text, whatever they are.
type textList []string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *textList) UnmarshalJSON(b []byte) error {
	var items []any
	if err := json.Unmarshal(b, &items); err != nil {
		return nil //nolint:nilerr // a list in another shape is no list
	}
	for _, it := range items {
		*l = append(*l, fmt.Sprint(it))
	}
	return nil
}

// looseString is a JSON value taken as text.
type looseString string

// UnmarshalJSON implements [json.Unmarshaler].
func (s *looseString) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err == nil && v != nil {
		*s = looseString(fmt.Sprint(v))
	}
	return nil
}

// foundSkills reads what a search for skills found. A list that is cut off is
// read as far as it goes; an answer in words has no skills.
func foundSkills(answer string) []skill {
	_, list, ok := strings.Cut(answer, `"skills":`)
	d := json.NewDecoder(strings.NewReader(list))
	if open, err := d.Token(); !ok || !strings.HasPrefix(strings.TrimSpace(answer), "{") || err != nil || open != json.Delim('[') {
		return nil
	}
	var out []skill
	for d.More() {
		var s struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
			Access      string          `json:"access"`
			Tags        textList        `json:"tags"`
		}
		if d.Decode(&s) != nil {
			break
		}
		out = append(out, skill{Name: s.Name, Description: s.Description, Access: s.Access, Tags: s.Tags, Parameters: schemaParams(s.Parameters)})
	}
	return out
}
