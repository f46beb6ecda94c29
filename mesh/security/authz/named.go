package authz

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"agentmesh/mesh"
)

// maxResource bounds the name of a resource, in bytes.
const maxResource = 256

// Named returns the text at the path in the message, as "skill.name"; "" if there is none.
func Named(msg any, path string) string {
	m, ok := msg.(proto.Message)
	if !ok || path == "" {
		return ""
	}
	at := m.ProtoReflect()
	for {
		name, rest, more := strings.Cut(path, ".")
		f := at.Descriptor().Fields().ByName(protoreflect.Name(name))
		switch {
		case f == nil || f.IsList() || f.IsMap():
			return ""
		case more && f.Kind() == protoreflect.MessageKind:
			at, path = at.Get(f).Message(), rest
		case !more && f.Kind() == protoreflect.StringKind:
			return mesh.Clip(at.Get(f).String(), maxResource)
		default:
			return ""
		}
	}
}
