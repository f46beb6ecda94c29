package v03

import (
	"bytes"
	"encoding/json"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"agentmesh/mesh"
	"agentmesh/mesh/bind/rest"
)

// protoJSON writes and reads the JSON of the v0.3 proto. The proto that is
// linked in calls the parts of a message "parts", and that of the standard
// "content": so it works on a copy of the proto with that name. It reads both.
type protoJSON struct{ file protoreflect.FileDescriptor }

func newProtoJSON() (protoJSON, error) {
	const op = "v03.newProtoJSON"
	file := protodesc.ToFileDescriptorProto(legacypb.File_a2a_proto)
	renamed := false
	for _, m := range file.GetMessageType() {
		for _, f := range m.GetField() {
			if m.GetName() == "Message" && f.GetName() == "parts" {
				f.JsonName = proto.String("content")
				renamed = true
			}
		}
	}
	if !renamed {
		return protoJSON{}, mesh.Errorf(mesh.Unknown, op, "the proto of A2A 0.3 has no parts of messages")
	}
	fd, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		return protoJSON{}, mesh.Errorf(mesh.Unknown, op, "the proto of A2A 0.3 is not linked in: %w", err)
	}
	return protoJSON{fd}, nil
}

// twin returns an empty message of the copy, of the same kind as m.
func (p protoJSON) twin(m proto.Message) *dynamicpb.Message {
	return dynamicpb.NewMessage(p.file.Messages().ByName(m.ProtoReflect().Descriptor().Name()))
}

// append appends the JSON of m.
func (p protoJSON) append(b []byte, m proto.Message) ([]byte, error) {
	raw, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	twin := p.twin(m)
	if err := proto.Unmarshal(raw, twin); err != nil {
		return nil, err
	}
	return rest.AppendMessage(b, twin)
}

// read reads the JSON of m.
func (p protoJSON) read(raw []byte, m proto.Message) *status.Status {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	twin := p.twin(m)
	if bad := rest.Decode(raw, twin); bad != nil {
		return bad
	}
	b, err := proto.Marshal(twin)
	if err == nil {
		err = proto.Unmarshal(b, m)
	}
	if err != nil {
		return invalid("body", "is not valid")
	}
	return nil
}

// hasMember reports whether raw is an object that has all members on the path.
func hasMember(raw []byte, path ...string) bool {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return false
		}
		member, ok := object[name]
		if !ok {
			return false
		}
		raw = member
	}
	return true
}
