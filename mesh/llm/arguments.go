package llm

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"agentmesh/mesh"
)

// Arguments reads the arguments of a call of a tool into a struct. What cannot be read is
// an error with the code Invalid, which names the field as the model wrote it, and says
// what it must be: the model is to correct it.
func Arguments(op string, use mesh.ToolUse, into any) error {
	err := json.Unmarshal([]byte(use.Arguments), into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wrong) || wrong.Field == "":
		return mesh.InvalidField(op, "arguments", "must be one object of JSON")
	}
	kind, _, _ := strings.Cut(wrong.Value, " ") // without the value of a number
	return mesh.InvalidField(op, wrong.Field, "must be %s, and has %s", wanted(into, wrong), article(kind))
}

// wanted is what a field must be, in words for a model.
func wanted(into any, wrong *json.UnmarshalTypeError) string {
	is := wrong.Type
	for f := range reflect.TypeOf(into).Elem().Fields() { // of an item of a list, the list
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == wrong.Field || name == "" && strings.EqualFold(f.Name, wrong.Field) {
			is = f.Type
		}
	}
	for is.Kind() == reflect.Pointer {
		is = is.Elem()
	}
	switch is.Kind() {
	case reflect.Slice:
		return "a list of texts"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	}
	return "an object"
}

func article(kind string) string {
	if strings.Contains("aeiou", kind[:1]) {
		return "an " + kind
	}
	return "a " + kind
}
