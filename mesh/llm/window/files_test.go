package window_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/tokens"
	"agentmesh/mesh/llm/window"
)

// What is in files of the last turn has as much room as the window leaves: the text that takes the
// most is cut, then another, and a picture goes, and each says so. What was said stays, and
// messages that were given are not changed.
func TestFilesHaveTheRoomThatTheWindowLeaves(t *testing.T) {
	count := new(tokens.Counter)
	line := "> a line of a file\n"
	file := func(name string, lines int) llm.File {
		return llm.File{Name: name, MediaType: "text/plain", Size: int64(lines * len(line)), Text: strings.Repeat(line, lines)}
	}
	picture := llm.File{Name: "p.png", MediaType: "image/png", Size: 3, Data: []byte("png")}
	tests := map[string]struct {
		files   []llm.File
		context int
		whole   string // a letter for each file: whole, cut or none
	}{
		"all have room":     {[]llm.File{file("a", 100), picture}, 20_000, "ww"},
		"one is cut":        {[]llm.File{file("a", 100), file("b", 5_000), picture}, 20_000, "wcw"},
		"two are":           {[]llm.File{file("a", 5_000), file("b", 6_000)}, 20_000, "cn"},
		"the picture is in": {[]llm.File{file("a", 5_000), picture}, 8_000, "cw"},
		"nothing has room":  {[]llm.File{file("a", 300), picture}, 3_050, "nn"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			given := []llm.Message{{Role: llm.RoleUser, Text: "before"}, {Role: llm.RoleUser, Text: "read these", Files: tt.files}, {Role: llm.RoleAssistant, Text: "well"}}
			req := &llm.Request{Messages: given}
			b := window.Budget{Context: tt.context, Utilisation: 1}
			window.Trim(b, count, req, mesh.Usage{})
			last := req.Messages[len(req.Messages)-2]
			got := ""
			for i, f := range last.Files {
				switch {
				case len(f.Data) > 0 || f.Text == tt.files[i].Text && f.Text != "":
					got += "w"
				case f.Text != "" && f.Note != "" && strings.HasPrefix(tt.files[i].Text, f.Text):
					got += "c"
				case f.Text == "" && f.Note != "":
					got += "n"
				}
			}
			if got != tt.whole || last.Text != "read these" {
				t.Errorf("they are %s, want %s: %v", got, tt.whole, last.Files)
			}
			if n, room := count.Messages(req.Messages), b.History(0, 0); n > room && tt.whole != "nn" {
				t.Errorf("they have %d tokens, and %d have room", n, room)
			}
			if diff := cmp.Diff(tt.files, given[1].Files); diff != "" {
				t.Error("the messages that were given are changed:", diff)
			}
			again := *req
			if dropped := window.Trim(b, count, &again, mesh.Usage{}); dropped > 0 || !cmp.Equal(again.Messages, req.Messages) {
				t.Error("trimming it again changes it")
			}
		})
	}
}
