package skill_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// A shelf is a library for a test, with its folders.
type shelf struct {
	*skill.Library
	dir, tenants string
}

// library opens a library with one folder, the given files in it, and one for
// tenants.
func library(t testing.TB, in map[string]string, builtin ...fs.FS) *shelf {
	t.Helper()
	base := t.TempDir()
	s := &shelf{dir: filepath.Join(base, "skills"), tenants: filepath.Join(base, "tenants")}
	for name, text := range in {
		s.write(t, name, text)
	}
	var err error
	s.Library, err = skill.OpenLibrary(skill.LibraryOptions{
		Folders: []string{s.dir}, Shared: builtin, TenantDir: s.tenants, Poll: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// write writes a file of the shared folder, or of a tenant's if the name begins
// with "@tenant/".
func (s *shelf) write(t testing.TB, name, text string) {
	t.Helper()
	file := s.path(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (s *shelf) path(name string) string {
	if own, ok := strings.CutPrefix(name, "@"); ok {
		return filepath.Join(s.tenants, filepath.FromSlash(own))
	}
	return filepath.Join(s.dir, filepath.FromSlash(name))
}

func (s *shelf) remove(t testing.TB, name string) {
	t.Helper()
	if err := os.RemoveAll(s.path(name)); err != nil {
		t.Fatal(err)
	}
}

// reload returns what changed, as "+name" and "-name".
func (s *shelf) reload(t testing.TB) string {
	t.Helper()
	c, err := s.Reload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range c.Put {
		all = append(all, "+"+p.Name)
	}
	for _, r := range c.Removed {
		all = append(all, "-"+r.Name)
	}
	return strings.Join(all, " ")
}

func described(t testing.TB, c *skill.Catalog, name string) string {
	t.Helper()
	s, ok := c.Get(name)
	if !ok {
		return "none"
	}
	return s.Description
}

// S3-010, S3-076, S3-124: a file that is written, edited or removed is a skill
// that is there, another one, or gone. Only what changed is told.
func TestLibrary_Reload_followsTheFiles(t *testing.T) {
	s := library(t, map[string]string{"mail/send.md": page("mail.send", "one", "")}, files(map[string]string{
		"mail/send.md": page("mail.send", "built in", ""), "mail/find.md": page("mail.find", "built in", ""),
	}))
	c := s.For("acme")
	for i, step := range []struct {
		edit      func()
		want, now string
	}{
		{func() {}, "", "one"},
		{func() { s.write(t, "mail/send.md", page("mail.send", "two", "")) }, "+mail.send", "two"},
		{func() { s.write(t, "mail/send.md", page("mail.send", "two", "")) }, "", "two"},
		{func() { s.write(t, "mail/send.md", "---\nname: mail.send\n---\nbroken\n") }, "", "two"},
		{func() { s.write(t, "mail/send.md", "") }, "", "two"},
		{func() { s.write(t, "mail/send.md", page("mail.post", "another name", "")) }, "", "two"},
		{func() { s.write(t, "mail/send.md", page("mail.send", "three", "")) }, "+mail.send", "three"},
		{func() { s.remove(t, "mail/send.md") }, "+mail.send", "built in"},
		{func() { s.write(t, "tasks/new/create.md", page("tasks.create", "x", "")) }, "+tasks.create", "built in"},
		{func() { s.remove(t, "tasks") }, "-tasks.create", "built in"},
	} {
		step.edit()
		if got := s.reload(t); got != step.want || described(t, c, "mail.send") != step.now {
			t.Errorf("step %d: changes %q and %q; want %q and %q", i, got, described(t, c, "mail.send"), step.want, step.now)
		}
	}
	if p := s.Problems("acme"); len(p) != 0 {
		t.Errorf("problems remain: %v", p)
	}
}

// S3-072, S3-074: a domain's SKILL.md is followed too, and an edit that is not
// valid leaves the old one.
func TestLibrary_Reload_followsDomains(t *testing.T) {
	index := func(d string) string { return "---\ndomain: mail\ndescription: " + d + "\n---\n# Mail\n" }
	s := library(t, map[string]string{"mail/send.md": page("mail.send", "Sends.", ""), "mail/SKILL.md": index("one")})
	c := s.For("acme")
	for i, step := range []struct {
		text, want string
		problems   int
	}{{index("two"), "two", 0}, {"broken", "two", 1}, {index("three"), "three", 0}, {"", "Sends", 0}} {
		if step.text == "" {
			s.remove(t, "mail/SKILL.md")
		} else {
			s.write(t, "mail/SKILL.md", step.text)
		}
		s.reload(t)
		ix, _ := c.Domain("mail")
		if got := len(s.Problems("")); ix.Description != step.want || ix.Skills != 1 || got != step.problems {
			t.Errorf("step %d: domain is %+v with %d problems, want %q and %d", i, ix, got, step.want, step.problems)
		}
	}
}

// A folder in the Agent Skills format is one skill as long as its SKILL.md says
// so; its files follow.
func TestLibrary_Reload_followsAgentSkillsFolders(t *testing.T) {
	s := library(t, map[string]string{"docs/pdf-forms/SKILL.md": pdf, "docs/pdf-forms/references/a.md": "a"})
	c := s.For("acme")
	check := func(when, changes, want string) {
		t.Helper()
		got := s.reload(t)
		sk, _ := c.Get("docs.pdf_forms")
		if sk == nil {
			sk = &skill.Skill{Files: []string{"no skill"}}
		}
		if got != changes || strings.Join(sk.Files, " ") != want {
			t.Errorf("%s: changes are %q and files %q, want %q and %q", when, got, sk.Files, changes, want)
		}
	}
	first, _ := c.Get("docs.pdf_forms")
	check("at first", "", "references/a.md")
	s.write(t, "docs/pdf-forms/scripts/b.py", "b")
	check("with another file", "+docs.pdf_forms", "references/a.md scripts/b.py")
	s.write(t, "docs/pdf-forms/SKILL.md", "broken")
	check("broken", "", "references/a.md scripts/b.py")
	s.write(t, "docs/pdf-forms/SKILL.md", strings.ReplaceAll(pdf, "PDF", "Word"))
	check("changed", "+docs.pdf_forms", "references/a.md scripts/b.py")
	for i := range skill.MaxFiles {
		s.write(t, fmt.Sprintf("docs/pdf-forms/assets/%d", i), "")
	}
	check("with too many files", "", "references/a.md scripts/b.py")
	if p := s.Problems(""); len(p) != 1 || !strings.Contains(p[0].String(), "more than 256 files") {
		t.Errorf("problems are %v", p)
	}
	s.remove(t, "docs/pdf-forms/assets")
	check("with fewer files", "", "references/a.md scripts/b.py")
	s.remove(t, "docs/pdf-forms/SKILL.md")
	check("without SKILL.md", "-docs.pdf_forms", "no skill")
	if p := s.Problems(""); len(p) != 1 || p[0].Path != "docs/pdf-forms/references/a.md" {
		t.Errorf("problems are %v", p)
	}
	if len(first.Files) != 1 || !strings.Contains(first.Body, "PDF") {
		t.Errorf("a skill that somebody held has changed: %+v", first)
	}
}

func TestLibrary_Put_offersSkillsThatAreInNoFile(t *testing.T) {
	s := library(t, map[string]string{"mail/send.md": page("mail.send", "file", "")})
	tool := func(name, schema string) *skill.Skill {
		domain, action, _ := strings.Cut(name, ".")
		return &skill.Skill{Name: name, Domain: domain, Action: action, Description: "tool", Access: skill.AccessWrite,
			Body: "b", Handler: "mcp:x", Schema: []byte(schema)}
	}
	s.Put(tool("mail.send", ""), tool("x.one", `{"a":1}`), tool("x.two", `{"a":1}`))
	c := s.For("acme")
	if diff := cmp.Diff([]string{"mail.send", "x.one", "x.two"}, names(c.List())); diff != "" || described(t, c, "mail.send") != "file" {
		t.Errorf("a tool hides a file, or: %s", diff)
	}
	one, _ := c.Get("x.one")
	if again, err := skill.Parse("", one.Source); err != nil || again.Handler != "mcp:x" || len(one.Version) != 12 {
		t.Errorf("the tool's source is %q, %v, and its version %q", one.Source, err, one.Version)
	}
	s.Put(tool("x.one", `{"a":2}`))
	if changed, _ := c.Get("x.one"); changed.Version == one.Version {
		t.Error("another schema is the same version")
	}
	s.remove(t, "mail/send.md")
	s.reload(t)
	if got := described(t, c, "mail.send"); got != "tool" {
		t.Errorf("without the file there is %s", got)
	}
	s.Remove("mail.send", "x.one", "x.absent")
	if diff := cmp.Diff([]string{"x.two"}, names(c.List())); diff != "" {
		t.Error(diff)
	}
}

func TestOpenLibrary_refusesWhatCannotBe(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		o    skill.LibraryOptions
		code mesh.Code
	}{
		"folder is a file":             {skill.LibraryOptions{Folders: []string{blocked}}, mesh.Precondition},
		"tenants are a file":           {skill.LibraryOptions{TenantDir: blocked}, mesh.Precondition},
		"tenants in the shared folder": {skill.LibraryOptions{Folders: []string{dir}, TenantDir: filepath.Join(dir, "tenants")}, mesh.Invalid},
		"shared in the tenants'":       {skill.LibraryOptions{Folders: []string{filepath.Join(dir, "a", "b")}, TenantDir: filepath.Join(dir, "a")}, mesh.Invalid},
	} {
		if _, err := skill.OpenLibrary(tt.o); !mesh.IsCode(err, tt.code) || mesh.DetailOf(err) == "" {
			t.Errorf("%s: %v, want %s", name, err, tt.code)
		}
	}
}

// Skills stay when the disk that has them goes.
func TestLibrary_keepsSkillsWhoseFolderIsAway(t *testing.T) {
	s := library(t, map[string]string{"mail/send.md": page("mail.send", "x", ""), "@acme/own/x.md": page("own.x", "y", "")})
	away := s.dir + ".away"
	if err := os.Rename(s.dir, away); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.tenants, s.tenants+".away"); err != nil {
		t.Fatal(err)
	}
	if got := s.reload(t); got != "" || s.For("acme").Len() != 2 {
		t.Errorf("changes are %q, and there are %d skills", got, s.For("acme").Len())
	}
	if p := s.Problems(""); len(p) != 1 || p[0].Path != "." {
		t.Errorf("problems are %v", p)
	}
	if err := s.Delete("acme", "own.x"); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("Delete: %v", err)
	}
	if err := os.Rename(away, s.dir); err != nil {
		t.Fatal(err)
	}
	if got := s.reload(t); got != "" || len(s.Problems("")) != 0 {
		t.Errorf("back again, changes are %q and problems %v", got, s.Problems(""))
	}
}

// A file that names a handler that nobody has is a problem, and does not take
// the place of the last good version.
func TestLibrary_refusesAHandlerThatIsUnknown(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mail", "send.md")
	write := func(handler string) {
		t.Helper()
		text := "---\nname: mail.send\ndescription: a template\n"
		if handler != "" {
			text = "---\nname: mail.send\ndescription: " + handler + "\n# code of the mesh\n\"handler\": " + handler + "\n"
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text+"---\n\nbody\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("mail.send")
	l, err := skill.OpenLibrary(skill.LibraryOptions{Folders: []string{dir}, Handlers: func(name string) bool {
		return name == "mail.send" || strings.HasPrefix(name, "mcp:")
	}})
	if err != nil {
		t.Fatal(err)
	}
	const problem = `mail/send.md:5: the handler "nope.nope" is not installed here; correct its name, or remove the line "handler" and describe the steps instead`
	for _, step := range []struct{ handler, loaded, problem string }{
		{"nope.nope", "mail.send", problem},
		{"mcp:box", "mcp:box", ""},
		{"nope.nope", "mcp:box", problem},
		{"", "a template", ""},
		{"mail.send", "mail.send", ""},
	} {
		write(step.handler)
		if _, err := l.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, _ := l.For("").Get("mail.send")
		got := ""
		for _, p := range l.Problems("") {
			got += p.String()
		}
		if s == nil || s.Description != step.loaded || got != step.problem {
			t.Errorf("with handler %q, the skill is %+v and the problem %q", step.handler, s, got)
		}
	}
	// Who does not know the handlers takes each, and may check one by one.
	write("nope.nope")
	catalog, problems := skill.Load(os.DirFS(dir))
	s, ok := catalog.Get("mail.send")
	if !ok || len(problems) != 0 || skill.CheckHandler(s, nil) != nil {
		t.Fatalf("without knowing the handlers: %v", problems)
	}
	if p := skill.CheckHandler(s, func(string) bool { return false }); p == nil || p.String() != problem {
		t.Errorf("checked by itself: %v", p)
	}
}

// A skill that comes from no file and one of a file have the same name: the file
// wins, and the operator is told of both.
func TestLibrary_namesBothOfASkillThatAFileHides(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tasks/create.md", "tasks/list.md"} {
		file := filepath.Join(dir, name)
		text := page(strings.ReplaceAll(strings.TrimSuffix(name, ".md"), "/", "."), "of a file", "")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	l, err := skill.OpenLibrary(skill.LibraryOptions{Folders: []string{dir}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"create", "paint"} {
		l.Put(&skill.Skill{Name: "tasks." + action, Domain: "tasks", Action: action, Description: "of a server", Handler: "mcp:tasks", Body: "b"})
	}
	if s, _ := l.For("").Get("tasks.create"); s == nil || s.Description != "of a file" {
		t.Errorf("the skill is %+v", s)
	}
	want := `skill=tasks.create file=tasks/create.md "handler of the other"=mcp:tasks`
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, want) {
		t.Errorf("the log is %s", got)
	}
}

// S3-157: what a model reads as help is the file's own text.
func TestLibrary_servesThePageAsItIsInTheFile(t *testing.T) {
	text := "# Send\n\nSends.\n\n```cmd\nmail.send --to a\n```\n\n| a | b |\n|---|---|"
	s := library(t, map[string]string{"mail/send.md": "---\nname: mail.send\ndescription: d\n---\n\n" + text + "\n"})
	sk, _ := s.For("acme").Get("mail.send")
	if sk.Body != text || !bytes.HasSuffix(sk.Source, []byte(text+"\n")) {
		t.Errorf("body is %q", sk.Body)
	}
}

func TestLibrary_Reload_stopsWithItsContext(t *testing.T) {
	s := library(t, map[string]string{"mail/send.md": page("mail.send", "x", "")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.remove(t, "mail/send.md")
	if _, err := s.Reload(ctx); !mesh.IsCode(err, mesh.Canceled) {
		t.Errorf("error is %v", err)
	}
	if s.For("").Len() != 1 {
		t.Error("what was not looked at is gone")
	}
}
