package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/openai"
)

// S3-148, S3-149: audio of users goes as input_audio, in base64 with its format, beside text, pictures
// and tools, to a model that takes it over chat completions; every other one reads that it is there.
func TestAudioIsSentToModelsThatTakeIt(t *testing.T) {
	req := func() *llm.Request {
		return &llm.Request{Settled: 1, Tools: []llm.Tool{{Name: "find"}}, Messages: []llm.Message{
			{Role: llm.RoleUser, Text: "listen", Files: []llm.File{
				{Name: "q.wav", MediaType: "audio/wav", Size: 3, Data: []byte("wav")}, {Name: "a.png", MediaType: "image/png", Size: 3, Data: []byte("png")}}},
			{Role: llm.RoleAssistant, Files: []llm.File{{MediaType: "audio/mpeg", Size: 3, Data: []byte("mp3")}}},
			{Role: llm.RoleUser, Files: []llm.File{{MediaType: "audio/mpeg", Size: 3, Data: []byte("mp3")}}},
		}}
	}
	const note, blind = "[File q.wav, audio/wav, 3 bytes]", "[File a.png, image/png, 3 bytes: a picture, which you cannot see]"
	const deaf = "[File, audio/mpeg, 3 bytes: audio, which you cannot hear]"
	text := func(words string) any { return map[string]any{"type": "text", "text": words} }
	sound := func(data, format string, more ...any) any {
		out := map[string]any{"type": "input_audio", "input_audio": map[string]any{"data": data, "format": format}}
		if len(more) > 0 {
			out["cache_control"] = more[0]
		}
		return out
	}
	kept := map[string]any{"type": "ephemeral"}
	image := map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64,cG5n"}}
	said := func(role string, content any) any { return map[string]any{"role": role, "content": content} }
	for name, tt := range map[string]struct {
		config openai.Config
		want   []any
	}{
		"by itself": {openai.Config{Model: "m", Audio: true}, []any{
			said("user", []any{text("listen"), text(note), sound("d2F2", "wav"), text(blind)}), said("assistant", deaf),
			said("user", []any{text("[File, audio/mpeg, 3 bytes]"), sound("bXAz", "mp3")})}},
		"beside pictures, with marks": {openai.Config{Model: "m", Audio: true, Pictures: true, Cache: openai.CacheAnthropic}, []any{
			said("user", []any{text("listen"), text(note), sound("d2F2", "wav"), text("[File a.png, image/png, 3 bytes]"),
				map[string]any{"type": "image_url", "image_url": image["image_url"], "cache_control": kept}}), said("assistant", []any{text(deaf)}),
			said("user", []any{text("[File, audio/mpeg, 3 bytes]"), sound("bXAz", "mp3")})}},
		"to none that takes it": {openai.Config{Model: "m"}, []any{
			said("user", "listen\n\n"+strings.Replace(note, "]", ": audio, which you cannot hear]", 1)+"\n\n"+blind), said("assistant", deaf), said("user", deaf)}},
	} {
		t.Run(name, func(t *testing.T) {
			var got struct {
				Messages []any
				Tools    []any
			}
			if err := json.Unmarshal([]byte(bodies(t, tt.config, req())[0]), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Messages); diff != "" || len(got.Tools) != 1 {
				t.Errorf("%d tools\n%s", len(got.Tools), diff)
			}
		})
	}
	over := bodies(t, openai.Config{Model: "m", Audio: true, API: openai.APIResponses}, req())[0]
	if strings.Contains(over, "d2F2") || !strings.Contains(over, "which you cannot hear") {
		t.Errorf("over the Responses API it is %s", over)
	}
}
