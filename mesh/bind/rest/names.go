package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// unknownName says which value in raw, which was read into m, names none of an enum's, or
// which field is none of a message of ours; or nil. protojson leaves both out where unknown
// fields are ignored, as A2A has it for its messages: a filter that is misspelled would filter
// nothing, and what was only to be counted would be removed. Only when m has messages of ours,
// or lacks an enum's value, is raw read once more.
func unknownName(raw []byte, m proto.Message) *status.Status {
	if d := m.ProtoReflect().Descriptor(); !strict(d) && !lacksEnum(m.ProtoReflect()) {
		return nil
	}
	var v any
	if json.Unmarshal(raw, &v) != nil { // protojson has read it
		return nil
	}
	return nameFault("", v, m.ProtoReflect().Descriptor())
}

// strict reports whether the message is one of ours, of which JSON has no other fields.
func strict(d protoreflect.MessageDescriptor) bool {
	return strings.HasPrefix(string(d.FullName()), "mesh.v1.")
}

// fieldFault looks for a member of the object that is no field of the message at the path.
func fieldFault(path string, object map[string]any, d protoreflect.MessageDescriptor) *status.Status {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if d.Fields().ByJSONName(key) != nil || d.Fields().ByTextName(key) != nil {
			continue
		}
		names := make([]string, d.Fields().Len())
		for i := range names {
			names[i] = d.Fields().Get(i).JSONName()
		}
		if len(names) == 0 {
			return invalid(under(path, clip(key)), "is no field, and %s has none", d.Name())
		}
		return invalid(under(path, clip(key)), "is no field of %s; it has %s", d.Name(), strings.Join(names, ", "))
	}
	return nil
}

// under is the path of a member of what is at the path.
func under(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// lacksEnum reports whether m, or a message in it, has an enum that is not set, or more
// than one of it.
func lacksEnum(m protoreflect.Message) (lacks bool) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case isEnum(f):
			lacks = f.IsList() || f.IsMap() || !m.Has(f)
		case f.IsMap() && ours(f.MapValue().Message()):
			m.Get(f).Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				lacks = lacksEnum(v.Message())
				return !lacks
			})
		case f.IsList() && ours(f.Message()):
			for i := range m.Get(f).List().Len() {
				lacks = lacks || lacksEnum(m.Get(f).List().Get(i).Message())
			}
		case !f.IsMap() && !f.IsList() && ours(f.Message()) && m.Has(f):
			lacks = lacksEnum(m.Get(f).Message())
		}
		if lacks {
			return true
		}
	}
	return false
}

// ours reports whether the fields of the message are those of its JSON, as they are but of
// the types that ProtoJSON knows.
func ours(d protoreflect.MessageDescriptor) bool {
	return d != nil && d.FullName().Parent() != "google.protobuf"
}

func isEnum(f protoreflect.FieldDescriptor) bool {
	if f.IsMap() {
		f = f.MapValue()
	}
	return f.Kind() == protoreflect.EnumKind && f.Enum().FullName().Parent() != "google.protobuf"
}

// nameFault looks for the first unknown name in v, which is JSON of the message at the path.
func nameFault(path string, v any, d protoreflect.MessageDescriptor) *status.Status {
	object, _ := v.(map[string]any)
	if strict(d) {
		if bad := fieldFault(path, object, d); bad != nil {
			return bad
		}
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		key := f.JSONName()
		member, ok := object[key]
		if !ok {
			key = f.TextName()
			member = object[key]
		}
		if bad := memberFault(under(path, key), member, f); bad != nil {
			return bad
		}
	}
	return nil
}

// memberFault is nameFault for a member of an object, or all its items.
func memberFault(path string, v any, f protoreflect.FieldDescriptor) *status.Status {
	if list, ok := v.([]any); ok && f.IsList() {
		for i, item := range list {
			if bad := itemFault(fmt.Sprintf("%s[%d]", path, i), item, f); bad != nil {
				return bad
			}
		}
		return nil
	}
	if object, ok := v.(map[string]any); ok && f.IsMap() {
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if bad := itemFault(path+"."+clip(key), object[key], f.MapValue()); bad != nil {
				return bad
			}
		}
		return nil
	}
	return itemFault(path, v, f)
}

func itemFault(path string, v any, f protoreflect.FieldDescriptor) *status.Status {
	name, text := v.(string)
	switch {
	case isEnum(f) && text && f.Enum().Values().ByName(protoreflect.Name(name)) == nil:
		return invalid(path, "must be one of the names of %s such as %s, and is %q", f.Enum().Name(), example(f.Enum()), clip(name))
	case ours(f.Message()):
		return nameFault(path, v, f.Message())
	}
	return nil
}

// example is a value of the enum: its last one, since the first means none.
func example(d protoreflect.EnumDescriptor) protoreflect.Name {
	return d.Values().Get(d.Values().Len() - 1).Name()
}

// queryError is how grpc-gateway says which parameter of a query it cannot read.
var queryError = regexp.MustCompile(`^parsing (?:field|list|map key|map value) "([^"]+)": (.*)$`)

// queryFault says which parameter of a query is wrong, as far as what says so names it.
func queryFault(said string) *status.Status {
	if m := queryError.FindStringSubmatch(said); m != nil {
		return invalid(m[1], "%s", clip(m[2]))
	}
	return invalid("query", "%s", clip(said))
}
