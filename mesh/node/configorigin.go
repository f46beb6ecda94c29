package node

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"agentmesh/mesh"
)

// Located returns the error with its place in the file, if the field that it names is in one.
func (c *Config) Located(err error) error {
	var e *mesh.Error
	if c.file == nil || !errors.As(err, &e) || e.Field == "" {
		return err
	}
	for path := e.Field; path != ""; path = parentOf(path) {
		if c.file.over[path] != "" {
			return err
		}
		if line := c.file.lines[path]; line > 0 {
			told := *e
			told.Detail = fmt.Sprintf("%s:%d: %s: %s", c.file.name, line, e.Field, e.Detail)
			return &told
		}
	}
	return err
}

// SetBy notes that a field, by its path, has been set by something else than the file, as
// --grpc.
func (c *Config) SetBy(path, by string) {
	if c.file == nil {
		c.file = &file{over: map[string]string{}}
	}
	c.file.over[path] = by
}

// Origin is what has set the field of that path: a flag, a variable, or FILE:LINE; "" if
// nothing has.
func (c *Config) Origin(path string) string {
	switch f := c.file; {
	case f == nil:
		return ""
	case f.over[path] != "":
		return f.over[path]
	case f.lines[path] > 0:
		return fmt.Sprintf("%s:%d", f.name, f.lines[path])
	}
	return ""
}

// Settings are the paths of all fields that something has set, and do not hold others,
// sorted.
func (c *Config) Settings() []string {
	if c.file == nil {
		return nil
	}
	all := map[string]bool{}
	for path := range c.file.over {
		all[path] = true
	}
	for path := range c.file.lines {
		all[path] = true
	}
	for path := range all {
		if item := strings.LastIndex(path, "["); item > 0 && strings.HasSuffix(path, "]") && c.Value(path[:item]) != "" && c.Value(path) != "" {
			delete(all, path) // of a list of values, which is shown as one
		}
	}
	for path := range all {
		for p := parentOf(path); p != ""; p = parentOf(p) {
			delete(all, p)
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Value is what the field of that path is set to, for people; of a secret only that it is.
func (c *Config) Value(path string) string {
	if secretField.MatchString(path) {
		return "(a secret)"
	}
	v := reflect.ValueOf(c).Elem()
	for part := range strings.SplitSeq(strings.ReplaceAll(path, "[", ".["), ".") {
		i, isItem := 0, strings.HasPrefix(part, "[")
		if isItem {
			_, _ = fmt.Sscanf(part, "[%d]", &i) // which this package wrote
		}
		switch {
		case isItem && v.Kind() == reflect.Slice && i < v.Len():
			v = v.Index(i)
		case v.Kind() == reflect.Map:
			v = v.MapIndex(reflect.ValueOf(part))
		case v.Kind() == reflect.Struct:
			v = valueNamed(v, part)
		default:
			return "" // of free form
		}
		for v.IsValid() && v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if !v.IsValid() {
			return ""
		}
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map, reflect.Interface:
		return ""
	}
	return fmt.Sprint(v.Interface())
}

// secretField are the fields whose values nobody is shown, or may hold such: URLs too.
var secretField = regexp.MustCompile(`(^|\.)(key|password|value|token|url|webhook)$|\.(headers|env|extra)\.`)

func valueNamed(v reflect.Value, name string) reflect.Value {
	t := v.Type()
	for i := range t.NumField() {
		switch tag := t.Field(i).Tag.Get("yaml"); tag {
		case name:
			return v.Field(i)
		case ",inline":
			if found := valueNamed(v.Field(i), name); found.IsValid() {
				return found
			}
		}
	}
	return reflect.Value{}
}
