package mesh_test

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
)

func audio(mediaType string) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Raw{Raw: []byte("RIFF")}, MediaType: mediaType}
}

// A spoken word is as good as a written one, and what only the mesh says of parts, no client does.
func TestWhatWasSpokenCountsAsText(t *testing.T) {
	p := audio("audio/wav")
	m := &a2apb.Message{Parts: []*a2apb.Part{mesh.MarkHeard(p, "Exit."), p}}
	if !mesh.Says(m, mesh.ExitWord) || mesh.TextOf(m) != "Exit." || mesh.Unheard(m) != "" || len(mesh.Worded(m.Parts)) != 1 {
		t.Errorf("%v says %q", m, mesh.TextOf(m))
	}
	p.Metadata.Fields["own"] = structpb.NewBoolValue(true)
	mesh.Unmark(m.Parts)
	if heard, why := mesh.Heard(p); heard || why != "" || p.Metadata.Fields["own"] == nil || mesh.Says(m, mesh.ExitWord) {
		t.Errorf("a client says %v", m)
	}
	mesh.MarkUnheard(p, mesh.ReasonNoWords)
	if mesh.Unheard(m) != "" || mesh.Unheard(&a2apb.Message{Parts: []*a2apb.Part{p}}) != mesh.ReasonNoWords || mesh.Unheard(nil) != "" {
		t.Error("a message with words beside its audio is understood, and one without is not")
	}
	for kind, want := range map[string]bool{"audio/wav": true, "Audio/OGG; codecs=opus": true, "audio/": false, "video/mp4": false, "": false} {
		if mesh.IsAudio(audio(kind)) != want {
			t.Errorf("%q is audio: %v", kind, !want)
		}
	}
	if mesh.IsAudio(&a2apb.Part{Content: &a2apb.Part_Text{Text: "x"}, MediaType: "audio/wav"}) {
		t.Error("text is audio")
	}
}
