package skill_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

const pdf = `---
name: pdf-forms
description: >
  Fills in PDF forms.
  Use it for applications.
license: Apache-2.0
compatibility: Needs nothing
metadata:
  author: somebody
  version: "1.0"
allowed-tools: Read Write
model: of another program
---
# PDF forms

See [the reference](references/fields.md).
`

// S3-010: a folder in the Agent Skills format is a skill, without code.
func TestParse_readsTheAgentSkillsFormat(t *testing.T) {
	for path, name := range map[string]string{
		"pdf-forms/SKILL.md":             "workflows.pdf_forms",
		"files/pdf-forms/SKILL.md":       "files.pdf_forms",
		"files/group/pdf-forms/SKILL.md": "files.pdf_forms",
	} {
		got, err := skill.Parse(path, []byte(pdf))
		if err != nil {
			t.Fatal(err)
		}
		domain, action, _ := strings.Cut(name, ".")
		want := &skill.Skill{
			Name: name, Domain: domain, Action: action, Description: "Fills in PDF forms. Use it for applications.",
			Access: skill.AccessWrite, Body: "# PDF forms\n\nSee [the reference](references/fields.md).",
			Path: path, Source: []byte(pdf), Version: got.Version,
		}
		if diff := cmp.Diff(want, got); diff != "" || got.Version == "" {
			t.Error(diff)
		}
	}
}

func TestParse_holdsTheAgentSkillsFormatToItsRules(t *testing.T) {
	with := func(old, with string) string { return strings.Replace(pdf, old, with, 1) }
	for name, tt := range map[string]struct{ path, data, want string }{
		"capitals":           {"PDF/SKILL.md", with("pdf-forms", "PDF"), "PDF/SKILL.md:2: name must be at most 64 lower-case letters"},
		"two hyphens":        {"a--b/SKILL.md", with("pdf-forms", "a--b"), "a--b/SKILL.md:2: name must be"},
		"hyphen at the end":  {"a-/SKILL.md", with("pdf-forms", "a-"), "a-/SKILL.md:2: name must be"},
		"long name":          {"a/SKILL.md", with("pdf-forms", strings.Repeat("a", 65)), "a/SKILL.md:2: name must be at most 64"},
		"other folder":       {"forms/SKILL.md", pdf, `forms/SKILL.md:2: name is "pdf-forms", but the folder is "forms"`},
		"no folder":          {"SKILL.md", pdf, "SKILL.md: is not in a folder of its own; move it to pdf-forms/SKILL.md"},
		"digit first":        {"3d/SKILL.md", with("pdf-forms", "3d"), "3d/SKILL.md:2: name must be <domain>.<action>"},
		"reserved":           {"help/SKILL.md", with("pdf-forms", "help"), `help/SKILL.md:2: name the action "help" is reserved`},
		"bad domain":         {"My Files/pdf-forms/SKILL.md", pdf, "My Files/pdf-forms/SKILL.md:2: name must be <domain>.<action>"},
		"no name":            {"pdf-forms/SKILL.md", with("name: pdf-forms", "name:"), "pdf-forms/SKILL.md:2: name is missing"},
		"no description":     {"pdf-forms/SKILL.md", "---\nname: pdf-forms\n---\nx\n", "pdf-forms/SKILL.md:1: description is missing"},
		"long description":   {"pdf-forms/SKILL.md", with("Use it", strings.Repeat("é", 1000)), "pdf-forms/SKILL.md:3: description is 1038 characters long"},
		"long compatibility": {"pdf-forms/SKILL.md", with("Needs nothing", strings.Repeat("x", 501)), "pdf-forms/SKILL.md:7: compatibility is 501 characters long"},
		"metadata a text":    {"pdf-forms/SKILL.md", with("metadata:\n  author: somebody\n  version: \"1.0\"", "metadata: x"), "pdf-forms/SKILL.md:8: metadata must be a mapping"},
		"metadata deep":      {"pdf-forms/SKILL.md", with("author: somebody", "author: [a, b]"), "pdf-forms/SKILL.md:9: metadata.author must be one text value"},
		"field twice":        {"pdf-forms/SKILL.md", with("model: of", "license: of"), "pdf-forms/SKILL.md:12: license is there twice"},
		"no body":            {"pdf-forms/SKILL.md", pdf[:strings.LastIndex(pdf, "# PDF")], "pdf-forms/SKILL.md:14: body is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := skill.Parse(tt.path, []byte(tt.data))
			if !mesh.IsCode(err, mesh.Invalid) || !strings.HasPrefix(mesh.DetailOf(err), tt.want) {
				t.Errorf("error is %v,\nwant one that begins with %q", err, tt.want)
			}
		})
	}
	long := with("Use it", strings.Repeat("é", 900))
	if _, err := skill.Parse("pdf-forms/SKILL.md", []byte(long)); err != nil {
		t.Errorf("characters are not bytes: %v", err)
	}
}

// What belongs to a skill of that format is listed, and is no skill itself,
// however much it looks like one.
func TestLoad_readsAgentSkillsFolders(t *testing.T) {
	c, problems := skill.Load(files(map[string]string{
		"pdf-forms/SKILL.md":                   pdf,
		"pdf-forms/references/fields.md":       "# no skill",
		"pdf-forms/references/send.md":         page("pdf.send", "looks like a skill", ""),
		"pdf-forms/scripts/fill.py":            "print()",
		"pdf-forms/scripts/deep/SKILL.md":      strings.Replace(pdf, "pdf-forms", "deep", 1),
		"pdf-forms/.git/config":                "hidden",
		"mail/SKILL.md":                        "---\ndomain: mail\ndescription: Mail\n---\n# Mail\n",
		"mail/send.md":                         page("mail.send", "Send", ""),
		"mail/reply-all/SKILL.md":              strings.Replace(pdf, "pdf-forms", "reply-all", 1),
		"mail/broken-one/SKILL.md":             "no front matter",
		"mail/broken-one/references/fields.md": "# no skill, and no problem either",
		"mail/reply_all.md":                    page("mail.reply_all", "the second of that name", ""),
	}))
	if diff := cmp.Diff([]string{"mail.reply_all", "mail.send", "workflows.pdf_forms"}, names(c.List())); diff != "" {
		t.Error(diff)
	}
	s, _ := c.Get("workflows.pdf_forms")
	want := []string{"references/fields.md", "references/send.md", "scripts/deep/SKILL.md", "scripts/fill.py"}
	if diff := cmp.Diff(want, s.Files); diff != "" {
		t.Error(diff)
	}
	if s, _ := c.Get("mail.reply_all"); s.Path != "mail/reply-all/SKILL.md" {
		t.Errorf("the first file of that name is %s", s.Path)
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	if len(got) != 2 || !strings.HasPrefix(got[0], "mail/broken-one/SKILL.md:1: has no front matter") ||
		got[1] != "mail/reply_all.md:1: the skill mail.reply_all is also in mail/reply-all/SKILL.md; remove one" {
		t.Errorf("problems are %q", got)
	}
}

func FuzzParse_standard(f *testing.F) {
	f.Add([]byte(pdf))
	f.Add([]byte("---\nname: a\ndescription: [\n---\n"))
	f.Add([]byte("---\nname: pdf-forms\ndescription: d\nmetadata: {a: &x b, c: *x}\n---\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := skill.Parse("files/pdf-forms/SKILL.md", data)
		if err != nil {
			if !mesh.IsCode(err, mesh.Invalid) || mesh.DetailOf(err) == "" {
				t.Fatalf("error without code or detail: %v", err)
			}
			return
		}
		if err := skill.Validate(s); err != nil || s.Name != "files.pdf_forms" || s.Handler != "" {
			t.Fatalf("parsed %+v, %v", s, err)
		}
	})
}
