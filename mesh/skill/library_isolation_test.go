package skill_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

func TestLibrary_keepsTenantsApart(t *testing.T) {
	s := library(t, map[string]string{
		"mail/send.md":         page("mail.send", "shared", ""),
		"mail/SKILL.md":        "---\ndomain: mail\ndescription: shared\n---\n# Mail\n",
		"@acme/mail/send.md":   page("mail.send", "of acme", ""),
		"@acme/mail/bad.md":    "broken",
		"@acme/own/x.md":       page("own.x", "of acme", ""),
		"@+acme/mail/send.md":  page("mail.send", "of Acme", ""),
		"@+.hidden/own/y.md":   page("own.y", "of .hidden", ""),
		"@Capital/own/z.md":    page("own.z", "of nobody", ""),
		"@.git/own/z.md":       page("own.z", "of nobody", ""),
		"@a+b/own/z.md":        page("own.z", "of aB", ""),
		"@umlaut-ä/own/z.md":   page("own.z", "of nobody", ""),
		"@nothing/README.txt":  "no skill",
		"@acme/own/SKILL.md":   "---\ndomain: own\ndescription: of acme\n---\n# Own\n",
		"@acme/pdf-f/SKILL.md": strings.Replace(pdf, "pdf-forms", "pdf-f", 1),
	})
	for tenant, want := range map[mesh.TenantID]string{
		"": "mail.send=shared", "beta": "mail.send=shared", "../acme": "mail.send=shared", "..": "mail.send=shared", ".": "mail.send=shared",
		"acme": "mail.send=of acme own.x=of acme workflows.pdf_f=Fills in PDF forms. Use it for applications.", "Acme": "mail.send=of Acme",
		".hidden": "mail.send=shared own.y=of .hidden", "aB": "mail.send=shared own.z=of aB", "Capital": "mail.send=shared",
	} {
		var got []string
		for _, sk := range s.For(tenant).List() {
			got = append(got, sk.Name+"="+sk.Description)
			if of := sk.Tenant; of != "" && of != tenant {
				t.Errorf("%q sees %s of %q", tenant, sk.Name, of)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q has %v, want %s", tenant, got, want)
		}
	}
	if diff := cmp.Diff([]mesh.TenantID{".hidden", "Acme", "aB", "acme"}, s.Tenants()); diff != "" {
		t.Error(diff)
	}
	if p := s.Problems("acme"); len(p) != 1 || p[0].Path != "mail/bad.md" {
		t.Errorf("problems of acme are %v", p)
	}
	if p := s.Problems("beta"); len(p) != 0 {
		t.Errorf("beta sees the problems %v", p)
	}
	if ix, ok := s.For("acme").Domain("mail"); !ok || ix.Description != "shared" || ix.Skills != 1 {
		t.Errorf("acme's mail is %+v", ix)
	}

	s.write(t, "mail/find.md", page("mail.find", "shared", ""))
	s.write(t, "@acme/own/x.md", page("own.x", "changed", ""))
	s.remove(t, "@+acme")
	c, err := s.Reload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for tenant, want := range map[mesh.TenantID][2]string{
		"acme": {"mail.find own.x", ""}, "Acme": {"mail.find", "mail.send"}, "beta": {"mail.find", ""},
	} {
		got := c.For(tenant)
		if put, gone := strings.Join(names(got.Put), " "), strings.Join(names(got.Removed), " "); put != want[0] || gone != want[1] {
			t.Errorf("%s is told of %s and %s, want %v", tenant, put, gone, want)
		}
	}
	if got := described(t, s.For("Acme"), "mail.send"); got != "shared" {
		t.Errorf("without its own, Acme has %s", got)
	}
}

func TestLibrary_ReadFile_readsOnlyWhatBelongsToTheSkill(t *testing.T) {
	s := library(t, map[string]string{
		"docs/pdf-forms/SKILL.md": pdf, "docs/pdf-forms/references/a.md": "of the skill", "docs/pdf-forms/big": strings.Repeat("x", skill.MaxFile+1),
		"docs/pdf-forms/gone": "x", "docs/secret.md": page("docs.secret", "x", ""), "@acme/docs/pdf-forms/SKILL.md": pdf,
		"@acme/docs/pdf-forms/references/a.md": "of acme", "@beta/notes": "of beta",
	}, files(map[string]string{"files/pdf-forms/SKILL.md": pdf, "files/pdf-forms/a": "built in"}))
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"docs/pdf-forms/absolute": outside, "docs/pdf-forms/up": "../../../tenants/beta/notes", "docs/pdf-forms/inside": "references/a.md",
		"@acme/docs/pdf-forms/neighbour": "../../../beta/notes", "docs/pdf-forms/dir": filepath.Dir(outside),
	} {
		if err := os.Symlink(to, s.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	s.reload(t)
	s.remove(t, "docs/pdf-forms/gone")
	for _, tt := range []struct {
		tenant           mesh.TenantID
		name, file, want string
		code             mesh.Code
	}{
		{"", "docs.pdf_forms", "references/a.md", "of the skill", mesh.Unknown},
		{"", "docs.pdf_forms", "inside", "of the skill", mesh.Unknown},
		{"acme", "docs.pdf_forms", "references/a.md", "of acme", mesh.Unknown},
		{"acme", "files.pdf_forms", "a", "built in", mesh.Unknown},
		{"", "docs.absent", "a", "", mesh.NotFound},
		{"", "docs.secret", "secret.md", "", mesh.NotFound},
		{"", "docs.pdf_forms", "SKILL.md", "", mesh.NotFound},
		{"", "docs.pdf_forms", "../secret.md", "", mesh.NotFound},
		{"", "docs.pdf_forms", "references/../references/a.md", "", mesh.NotFound},
		{"", "docs.pdf_forms", outside, "", mesh.NotFound},
		{"", "docs.pdf_forms", "absolute", "", mesh.NotFound},
		{"", "docs.pdf_forms", "up", "", mesh.NotFound},
		{"", "docs.pdf_forms", "dir/outside", "", mesh.NotFound},
		{"", "docs.pdf_forms", "gone", "", mesh.NotFound},
		{"", "docs.pdf_forms", "big", "", mesh.Invalid},
		{"acme", "docs.pdf_forms", "neighbour", "", mesh.NotFound},
		{"", "docs.pdf_forms", "", "", mesh.NotFound},
	} {
		got, err := s.ReadFile(tt.tenant, tt.name, tt.file)
		if string(got) != tt.want || mesh.CodeOf(err) != tt.code || (tt.want == "") != (err != nil) {
			t.Errorf("%q reads %s of %s: %q, %v; want %q, %s", tt.tenant, tt.file, tt.name, clip(got), err, tt.want, tt.code)
		}
	}
}

func clip(b []byte) string { return string(b[:min(len(b), 40)]) }

// A link is a skill if it stays in the folder.
func TestLibrary_followsNoLinkOutOfItsFolder(t *testing.T) {
	s := library(t, map[string]string{"mail/send.md": page("mail.send", "x", ""), "@beta/own/x.md": page("own.x", "of beta", "")})
	outside := filepath.Join(t.TempDir(), "out.md")
	if err := os.WriteFile(outside, []byte(page("mail.out", "x", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(s.path("post"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"mail/out.md": outside, "mail/dangling.md": "nowhere.md", "post/send.md": "../mail/send.md", "box": "mail",
		"@alias": s.path("@beta"),
	} {
		if err := os.Symlink(to, s.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	s.reload(t)
	if diff := cmp.Diff([]string{"mail.send"}, names(s.For("alias").List())); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, p := range s.Problems("alias") {
		got = append(got, p.String())
	}
	want := []string{
		"mail/out.md: cannot be read; check that it exists and its permissions",
		"post/send.md:2: name is \"mail.send\", but the file's place says \"post.send\"; rename one of them",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Create("alias", []byte(alert)); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("Create through a link: %v", err)
	}
}
