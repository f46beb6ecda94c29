package mesh

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"
)

// A SkillCall in a message asks for one skill by name, without a model: what a
// person typed, a schedule fires or another program calls.
type SkillCall struct {
	Skill     string
	Arguments map[string]any
	// Source is one of the Source constants; SourceRun by default.
	Source string
	// Approved says that the user has approved the call along with making it.
	Approved bool
}

// A Digest stands for a call of a skill: of one version, with its arguments.
type Digest [sha256.Size]byte

// CallDigest returns the digest of a call, of which the parts are as in the events.
func CallDigest(skill, version, args string) Digest {
	data := make([]byte, 0, len(skill)+len(version)+len(args)+2*binary.MaxVarintLen64)
	for _, part := range []string{skill, version} {
		data = append(binary.AppendUvarint(data, uint64(len(part))), part...)
	}
	return sha256.Sum256(append(data, args...))
}

const keySkillCall = "skill_call"

// CallCreateSkill is under which name an agent asks the user whether the mesh may create
// a skill for it, and under which the log has that it did: the method's, which no skill
// has. See [CreateSkillArgs].
const CallCreateSkill = "mesh.v1.SkillService/CreateSkill"

// CreateSkillArgs are the arguments of [CallCreateSkill] for the file of a skill.
func CreateSkillArgs(source string) string {
	args, err := json.Marshal(map[string]string{"source": source})
	if err != nil { // text always has a JSON form
		panic("mesh.CreateSkillArgs: " + err.Error())
	}
	return string(args)
}

// ReplaceSkillArgs is CreateSkillArgs for a file that replaces the skill of that name, as it
// is in the version; without one it is CreateSkillArgs.
func ReplaceSkillArgs(source, version string) string {
	if version == "" {
		return CreateSkillArgs(source)
	}
	args, err := json.Marshal(map[string]string{"replaces": version, "source": source})
	if err != nil { // text always has a JSON form
		panic("mesh.ReplaceSkillArgs: " + err.Error())
	}
	return string(args)
}

// Metadata returns the metadata of a message that makes the call.
func (c SkillCall) Metadata() (*structpb.Struct, error) {
	args, err := structpb.NewStruct(c.Arguments)
	if err != nil {
		return nil, InvalidField("mesh.SkillCall", "arguments", "have no JSON form: %v", err)
	}
	call := structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"skill": structpb.NewStringValue(c.Skill), "arguments": structpb.NewStructValue(args),
		"source": structpb.NewStringValue(c.Source), "approved": structpb.NewBoolValue(c.Approved),
	}})
	return &structpb.Struct{Fields: map[string]*structpb.Value{ExtensionURI: structpb.NewStructValue(
		&structpb.Struct{Fields: map[string]*structpb.Value{keySkillCall: call}})}}, nil
}

// SkillCallOf reads the skill call in a message's metadata; nil if there is none. It is
// Invalid, naming the field, for one that is wrong.
func SkillCallOf(metadata *structpb.Struct) (*SkillCall, error) {
	v := metadata.GetFields()[ExtensionURI].GetStructValue().GetFields()[keySkillCall]
	if v == nil {
		return nil, nil
	}
	f := v.GetStructValue().GetFields()
	c := &SkillCall{
		Skill: f["skill"].GetStringValue(), Arguments: f["arguments"].GetStructValue().AsMap(),
		Source: cmp.Or(f["source"].GetStringValue(), SourceRun), Approved: f["approved"].GetBoolValue(),
	}
	const op, at = "mesh.SkillCallOf", "message.metadata." + ExtensionURI + "." + keySkillCall
	switch {
	case c.Skill == "":
		return nil, InvalidField(op, at+".skill", "is missing; name the skill, as mail.send")
	case !slices.Contains([]string{SourceRun, SourceSchedule, SourceMCP}, c.Source):
		return nil, InvalidField(op, at+".source", "must be %s, %s or %s", SourceRun, SourceSchedule, SourceMCP)
	}
	return c, nil
}
