package httpskill_test

import (
	"os"
	"strings"
	"testing"

	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// The page in the README is one, and its example does what it says.
func TestREADME_givesAPageThatWorks(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "\n\n    ---\n")
	text, _, found := strings.Cut(rest, "\n\nThe body is what")
	text = "---\n" + strings.ReplaceAll("\n"+text, "\n    ", "\n")[1:] + "\n"
	parsed, err := skill.Parse("crm/add_note.md", []byte(strings.TrimPrefix(strings.ReplaceAll(text, "---\n    name", "---\nname"), "    ")))
	if err != nil || !found {
		t.Fatalf("%v\n%s", err, text)
	}
	_, example, _ := strings.Cut(parsed.Body, "\n## Examples\n")
	example, _, _ = strings.Cut(strings.TrimSpace(example), "\n")
	cmd, err := command.Parse(example)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, ok)
	page := strings.NewReplacer("crm.add_note", "crm.do", "https://crm.example.com", s.URL).Replace(string(parsed.Source))
	r := run(t, s, page, command.Args(cmd.Flags, parsed))
	if r.Failed() || len(s.requests()) != 1 {
		t.Fatalf("%+v after %d requests", r, len(s.requests()))
	}
	got := s.requests()[0]
	if got.Method != "POST" || got.Path != "/v1/customers/4711/notes" || got.Query != "lang=en" ||
		got.Body != `{"text": "Called back", "tags": null, "title": "Note for 4711"}` || got.Header.Get("Authorization") != "Bearer t0p-s3cret/+" {
		t.Errorf("sent was %+v", got)
	}
}
