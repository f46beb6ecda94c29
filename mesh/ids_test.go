package mesh_test

import (
	"testing"
	"unicode/utf8"

	"agentmesh/mesh"
)

func TestClipCutsBetweenCharacters(t *testing.T) {
	for _, tt := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aé", 2, "a…"}, {"aé", 3, "aé"}, {"日本", 1, "…"}, {"日本", 5, "日…"},
		{"\xa0\xa0\xa0", 2, "…"}, // no character begins anywhere
	} {
		if got := mesh.Clip(tt.text, tt.most); got != tt.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}

func FuzzClip(f *testing.F) {
	f.Add("aé日😀", 5)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(0, most)
		got := mesh.Clip(text, most)
		if len(got) > most+len("…") {
			t.Errorf("%d bytes, want at most %d and the ellipsis", len(got), most)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q was cut within a character: %q", text, got)
		}
	})
}
