package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/openai"
)

// filed is a conversation in which the user and an agent sent pictures, and the user a text.
func filed() *llm.Request {
	picture := llm.File{Name: "a.png", MediaType: "image/png", Size: 3, Data: []byte("png")}
	return &llm.Request{System: "You look.", Settled: 1, Fresh: "It is noon.", Messages: []llm.Message{
		{Role: llm.RoleUser, Text: "look", Files: []llm.File{{Name: "b.txt", MediaType: "text/plain", Size: 5, Text: "> words"}, picture}},
		{Role: llm.RoleAssistant, Files: []llm.File{picture}},
		{Role: llm.RoleUser, Text: "again"},
	}}
}

// Pictures of users are sent where the model takes them, over either protocol, and marked for the
// provider's cache as texts are; whoever takes none, and of agents, reads that they are there.
func TestPicturesAreSentToModelsThatTakeThem(t *testing.T) {
	const note, address = "[File a.png, image/png, 3 bytes]", "data:image/png;base64,cG5n"
	const blind = "[File a.png, image/png, 3 bytes: a picture, which you cannot see]"
	words := func(kind string, texts ...string) (out []any) {
		for _, t := range texts {
			out = append(out, map[string]any{"type": kind, "text": t})
		}
		return out
	}
	said := func(role string, content any) any { return map[string]any{"role": role, "content": content} }
	file := "[File b.txt, text/plain, 5 bytes]\n> words"
	marked := append(words("text", "look", file, note), map[string]any{"type": "image_url", "image_url": map[string]any{"url": address}, "cache_control": map[string]any{"type": "ephemeral"}})
	system := words("text", "You look.")
	system[0].(map[string]any)["cache_control"] = map[string]any{"type": "ephemeral", "ttl": "1h"}
	tests := map[string]struct {
		config openai.Config
		field  string
		want   []any
	}{
		"chat": {openai.Config{Model: "m", Pictures: true}, "messages", []any{said("system", "You look."),
			said("user", append(words("text", "look", file, note), map[string]any{"type": "image_url", "image_url": map[string]any{"url": address}})),
			said("assistant", blind), said("user", "again\n\nIt is noon.")}},
		"marked": {openai.Config{Model: "m", Pictures: true, Cache: openai.CacheAnthropic}, "messages", []any{said("system", system),
			said("user", marked), said("assistant", words("text", blind)), said("user", words("text", "again", "It is noon."))}},
		"responses": {openai.Config{Model: "m", Pictures: true, API: openai.APIResponses}, "input", []any{
			said("user", append(words("input_text", "look", file, note), map[string]any{"type": "input_image", "image_url": address})),
			said("assistant", blind), said("user", words("input_text", "again", "It is noon."))}},
		"a model that takes none": {openai.Config{Model: "m"}, "messages", []any{said("system", "You look."),
			said("user", "look\n\n"+file+"\n\n"+blind), said("assistant", blind), said("user", "again\n\nIt is noon.")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got map[string]json.RawMessage
			var sent []any
			if err := json.Unmarshal([]byte(bodies(t, tt.config, filed())[0]), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(got[tt.field], &sent); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, sent); diff != "" {
				t.Error(diff)
			}
		})
	}
}
