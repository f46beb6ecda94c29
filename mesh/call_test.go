package mesh_test

import (
	"strings"
	"testing"

	"agentmesh/mesh"
)

// S3-033: a call is shown with its arguments, in the order of their names, and none
// of them fills the line alone.
func TestACallInShort(t *testing.T) {
	long := strings.Repeat("x", 500)
	for args, want := range map[string]string{
		`{"to":"bob","subject":"Hi\n there"}`: "mail.send(subject: Hi there, to: bob)",
		`{"limit":5,"tags":["a","b"]}`:        `mail.send(limit: 5, tags: ["a","b"])`,
		`{}`:                                  "mail.send",
		`[1]`:                                 "mail.send",
		"":                                    "mail.send",
	} {
		if got := mesh.CallSummary("mail.send", args); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	got := mesh.CallSummary("mail.send", `{"a":"`+long+`","b":"`+long+`","c":"`+long+`","d":"`+long+`","e":"`+long+`","to":"bob"}`)
	if len(got) > len("mail.send(…)")+mesh.MaxCallSummary || !strings.Contains(got, "b: xx") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
