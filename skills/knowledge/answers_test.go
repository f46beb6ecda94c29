package knowledge_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	pages "agentmesh/docs"
	"agentmesh/skills/knowledge"
)

// finding U2: what the documents answer is answered from the page that has it, and of what
// they do not, nothing is found. The questions are over our own documents.
func TestSearch_knowsWhatItDoesNotKnow(t *testing.T) {
	ix, err := knowledge.Open(pages.FS, knowledge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ix.Close() }()
	for question, page := range map[string]string{
		"How do I configure rate limiting for my agent?": "configuration.md", "How do I make a backup?": "operations.md",
		"How do I restore a backup?": "operations.md", "How do I create a skill?": "skills.md", "How can I connect an MCP server?": "configuration.md",
		"How do I use an OpenAI model?": "configuration.md", "How are users authenticated?": "auth.md", "How do I delete a conversation?": "operations.md",
		"Which port does gRPC use?": "agents.md", "How do I set up TLS?": "configuration.md", "How do I schedule a skill?": "skills.md",
		"How do I see what a turn costs?": "configuration.md", "How long are conversations kept?": "api.md", "Can I use Prometheus?": "operations.md",
		"How do I get push notifications?": "api.md", "How do I approve a call?": "skills.md", "how do I run several nodes?": "threads.md",
		"how to revoke a token": "auth.md", "What is a handoff?": "threads.md", "Where is mail kept?": "skills.md",
	} {
		found := search(t, ix, question)
		if len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), page+":") {
			t.Errorf("%q finds %q, and not %s", question, found, page)
		}
	}
	for _, question := range []string{
		"Who won the world cup?", "What is the capital of France?", "How do I descale the espresso machine?", "How tall is Mount Everest?",
		"What is our vacation policy?", "How do I cook pasta?", "When was Mozart born?", "How much does a Tesla cost?", "What is the weather in Oslo tomorrow?",
		"Who is the president of Brazil?", "How do I fix a flat bicycle tire?", "Which wine goes with fish?", "How do I knit a sweater?",
		"What time does the office kitchen close?", "What is the speed of light?", "How do I train for a marathon?", "Is it going to rain today?",
	} {
		if found := search(t, ix, question); len(found) > 0 {
			t.Errorf("%q finds %q", question, found)
		}
	}
	for _, question := range []string{"Which tests prove S4-043?", "Mutants that die", "What would change our mind?"} {
		for _, found := range search(t, ix, question) {
			if strings.HasPrefix(found, "acceptance.md") || strings.HasPrefix(found, "guarantees.md") || strings.HasPrefix(found, "adr/") {
				t.Errorf("%q finds the inner page %s", question, found)
			}
		}
	}
}

// A heading that asks for what the query asks for, and for nothing else, says what its section is
// about, whatever else the query says; in a folder of one page, too.
func TestSearch_goesByHeadings(t *testing.T) {
	ix := open(t, map[string]string{"help.md": "# Help\n\n## Refunds\n\nWithin 30 days.\n\n## Descaling the espresso machine\n\nPour citric acid into the tank.\n"})
	for query, want := range map[string][]string{
		"What is our refund policy?":                          {"help.md:3 Help|Refunds"},
		"What is the way to descale the espresso machine?":    {"help.md:7 Help|Descaling the espresso machine"},
		"What is the way to descale the unhappy coffee robot": nil,
	} {
		if diff := cmp.Diff(want, search(t, ix, query)); diff != "" {
			t.Errorf("%q: %s", query, diff)
		}
	}
}

// finding U2: pages that say so, hidden ones and those of the patterns are not searched, in any
// folder.
func TestSearch_leavesOutWhatIsNotForIt(t *testing.T) {
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"told.md": "zebra", "front.md": "---\ntitle: x\nsearch: false\n---\nzebra", "quoted.md": "---\nSearch: \"false\" # inner\n---\nzebra",
		"said.md": "zebra\nsearch: false\n", "late.md": "---\nsearch: true\n---\nzebra\n\n---\nsearch: false\n---\n",
		"robots.html": "<meta name=robots content='noindex, nofollow'><p>zebra", "adr/one.md": "zebra", "deep/adr/two.md": "zebra",
		"drafts/x.md": "zebra", "deep/drafts/x.md": "zebra", "a.tmp.md": "zebra", "deep/b.tmp.md": "zebra", ".git/x.md": "zebra", ".x.md": "zebra",
		"set/by.md": "zebra", "adr.md": "zebra", knowledge.IgnoreFile: "# inner\nadr/\n\n/drafts\n*.tmp.md\n!told.md\n[\n",
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	ix, err := knowledge.Open(fsys, knowledge.Options{Ignore: []string{"set/by.*"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ix.Close() }()
	found, err := ix.Search(t.Context(), "zebra", 20)
	got := map[string]bool{}
	for _, p := range found {
		got[p.Path] = true
	}
	want := map[string]bool{"told.md": true, "said.md": true, "late.md": true, "deep/drafts/x.md": true, "adr.md": true}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	problems, err := ix.Problems(t.Context())
	if err != nil || len(problems) != 1 || problems[0].Path != knowledge.IgnoreFile || !strings.Contains(problems[0].Detail, `"!told.md"`) {
		t.Errorf("problems are %v, %v", problems, err)
	}
	if _, err := knowledge.Open(fsys, knowledge.Options{Ignore: []string{"a/**"}}); err == nil || !strings.Contains(err.Error(), "docs_ignore") {
		t.Errorf("error is %v", err)
	}
}

// The lines of a paragraph and of an item are one; tables, lists, code and lines that end on
// purpose stay.
func TestSearch_joinsTheLinesOfParagraphs(t *testing.T) {
	for text, want := range map[string]string{
		"zebra one\ntwo  three\nfour":                     "zebra one two  three four",
		"zebra\n\nnext\nline":                             "zebra\n\nnext line",
		"- zebra\n  goes on\n- two\n  - inner\n    on":    "- zebra goes on\n- two\n  - inner on",
		"1. zebra\n2. two\n   on":                         "1. zebra\n2. two on",
		"| zebra | b |\n|---|---|\n| 1 | 2 |":             "| zebra | b |\n|---|---|\n| 1 | 2 |",
		"zebra:\n```sh\na\nb\n```\nafter\nit":             "zebra:\n```sh\na\nb\n```\nafter it",
		"zebra\n\n    code\n    more\n\nend\nit":          "zebra\n\n    code\n    more\n\nend it",
		"zebra  \nhard\\\nbreak\nsoft":                    "zebra  \nhard\\\nbreak soft",
		"> zebra\n> two\n\nx":                             "> zebra\n> two\n\nx",
		"~~~\nzebra\n```\nb\n~~~\nc\nd":                   "~~~\nzebra\n```\nb\n~~~\nc d",
		"zebra 在这里\n设置 each\none":                         "zebra 在这里设置 each one",
		"* zebra\n\n[one]: https://a.example\n[two]: b\n": "* zebra\n\n[one]: https://a.example\n[two]: b",
	} {
		ix := open(t, map[string]string{"a.md": text})
		found, err := ix.Search(t.Context(), "zebra", 1)
		if err != nil || len(found) != 1 || found[0].Text != want {
			t.Errorf("%q is %+v, %v; want %q", text, found, err, want)
		}
	}
}
