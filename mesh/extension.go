package mesh

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"
)

// What clients may say under [ExtensionURI] in the metadata of their messages, and agents in
// those of what they answer. All else there is the mesh's own word, which programs believe:
// docs/extension.md has what it means.
var (
	saidByClients = []string{"channel", "detail", "exit", "progress", keySkillCall, keySpeak}
	saidByAgents  = []string{KeyAsks, keyHelp, "limit_report", "reason", "state", "step", "steps"}
)

// FromClient returns the metadata of a client's message without what is not a client's to say
// under ExtensionURI. It shares all else with md, which stays as it is.
func FromClient(md *structpb.Struct) *structpb.Struct { return saying(md, saidByClients) }

// FromAgent is FromClient for what an agent answers.
func FromAgent(md *structpb.Struct) *structpb.Struct { return saying(md, saidByAgents) }

// saying returns metadata like md with the keys alone under ExtensionURI; nil if nothing is left.
func saying(md *structpb.Struct, keys []string) *structpb.Struct {
	all, ok := md.GetFields()[ExtensionURI]
	if !ok {
		return md
	}
	other := func(key string, _ *structpb.Value) bool { return !slices.Contains(keys, key) }
	said := maps.Clone(all.GetStructValue().GetFields())
	if maps.DeleteFunc(said, other); len(said) > 0 && len(said) == len(all.GetStructValue().GetFields()) {
		return md
	}
	out := maps.Clone(md.Fields)
	if out[ExtensionURI] = structpb.NewStructValue(&structpb.Struct{Fields: said}); len(said) == 0 {
		delete(out, ExtensionURI)
	}
	if len(out) == 0 {
		return nil
	}
	return &structpb.Struct{Fields: out}
}
