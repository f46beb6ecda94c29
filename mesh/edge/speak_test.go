package edge_test

import (
	"context"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// S3-150: the answer is said in text as ever, and spoken besides, once it is complete, to who accepts
// audio: each answer of a task, and a question as well. Who asks for none, and whom nothing
// speaks to at the moment, has the text.
func TestAnswersAreSpokenToWhoAcceptsAudio(t *testing.T) {
	w := build(t, func(c *settings) {
		c.turn.Speak = func(_ context.Context, words string) (*a2apb.Part, error) {
			if strings.Contains(words, "unspeakable") {
				return nil, mesh.Errorf(mesh.Unavailable, "speak", "nobody speaks")
			}
			return &a2apb.Part{Content: &a2apb.Part_Raw{Raw: []byte("<" + words + ">" + strings.Repeat(" ", mesh.MaxEvent/8))}, MediaType: "audio/mpeg"}, nil
		}
	})
	w.agent("main", func(s *scene) {
		switch s.text() {
		case "book":
			s.put("answer", "Rooms are ", false)
			s.put("answer", "free.", true)
			s.move(asks, "When?")
		case "long":
			for i := range 600 {
				s.put("answer", "0123456789", i > 0)
			}
			s.move(completed, "")
		default:
			s.answer(s.text())
		}
	})
	for name, tt := range map[string]struct {
		words string
		modes []string
		want  []string
	}{
		"wanted":           {"hello", []string{"text/plain", "audio/mpeg"}, []string{"hello", "<hello>"}},
		"any audio":        {"hello", []string{"audio/*"}, []string{"hello", "<hello>"}},
		"its beginning":    {"long", []string{"audio/mpeg"}, []string{strings.Repeat("0123456789", 600), "<" + strings.Repeat("0123456789", 409) + "012…>"}},
		"in capitals":      {"hello", []string{"Audio/MPEG"}, []string{"hello", "<hello>"}},
		"not wanted":       {"hello", []string{"*/*"}, []string{"hello"}},
		"a question":       {"book", []string{"audio/mpeg"}, []string{"Rooms are free.", "<Rooms are free.\n\nWhen?>"}},
		"nothing speaks":   {"unspeakable", []string{"audio/mpeg"}, []string{"unspeakable"}},
		"nothing to speak": {"", []string{"audio/mpeg"}, nil},
	} {
		req := say(tt.words)
		req.Configuration = &a2apb.SendMessageConfiguration{AcceptedOutputModes: tt.modes}
		ctx := w.ctx(mesh.NewThreadID())
		acc := w.post(ctx, req)
		w.hear(acc)
		task, _, err := w.Task(ctx, acc.Task.Id)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range task.GetArtifacts() {
			for _, p := range a.GetParts() {
				if said := strings.TrimSpace(p.GetText() + string(p.GetRaw())); said != "" {
					got = append(got, said)
				}
			}
		}
		if n := len(task.GetArtifacts()); len(tt.want) > 1 {
			if ok, _ := mesh.Heard(task.GetArtifacts()[n-1].GetParts()[0]); !ok {
				t.Errorf("%s: models would be shown the speech beside its words", name)
			}
		}
		if strings.Join(got, "|") != strings.Join(tt.want, "|") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
