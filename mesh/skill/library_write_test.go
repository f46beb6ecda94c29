package skill_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

const alert = "---\nname: workflows.slack_alert\ndescription: Sends an alert to Slack.\ntags: [slack, alert]\n" +
	"parameters:\n  - name: channel\n    required: true\n    enum: [ops, dev]\n---\n# Slack alert\n\nPost the text to the channel.\n"

func wantError(t *testing.T, err error, code mesh.Code, says ...string) {
	t.Helper()
	if !mesh.IsCode(err, code) {
		t.Errorf("error is %v, want %s", err, code)
	}
	for _, text := range says {
		if !strings.Contains(mesh.FieldOf(err)+" "+mesh.DetailOf(err), text) {
			t.Errorf("error is %v, want it to say %q", err, text)
		}
	}
}

// all returns the files below dir.
func all(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// S3-010, S3-127, S3-161: a created skill is a file of the tenant, and offered
// at once, to that tenant only.
func TestLibrary_Create_writesAFileAndOffersItAtOnce(t *testing.T) {
	s := library(t, map[string]string{"mail/send.md": page("mail.send", "x", "")})
	next, stop := iter.Pull2(s.Watch(t.Context(), "acme"))
	defer stop()
	expect := func(kind skill.ChangeKind, name string) {
		t.Helper()
		c, err, _ := next()
		if err != nil || c.Kind != kind || name != "" && c.Skill.Name != name {
			t.Fatalf("next is %+v, %v; want %d of %q", c, err, kind, name)
		}
	}
	expect(skill.ChangePut, "mail.send")
	expect(skill.ChangeSynced, "")
	made, err := s.Create("acme", []byte(alert))
	if err != nil {
		t.Fatal(err)
	}
	if made.Name != "workflows.slack_alert" || made.Tenant != "acme" || string(made.Source) != alert {
		t.Errorf("made %+v", made)
	}
	expect(skill.ChangePut, "workflows.slack_alert")
	file := filepath.Join(s.tenants, "acme", "workflows", "slack_alert.md")
	if data, err := os.ReadFile(file); err != nil || string(data) != alert || len(all(t, s.tenants)) != 1 {
		t.Errorf("file is %q, %v, among %v", data, err, all(t, s.tenants))
	}
	again, err := skill.OpenLibrary(skill.LibraryOptions{TenantDir: s.tenants})
	if err != nil || again.For("acme").Len() != 1 || again.For("beta").Len() != 0 {
		t.Errorf("after a restart acme has %d skills and beta %d, %v", again.For("acme").Len(), again.For("beta").Len(), err)
	}

	_, err = s.Create("acme", []byte(alert))
	wantError(t, err, mesh.Precondition, "choose another name")
	_, err = s.Create("acme", []byte(page("mail.send", "mine", "")))
	wantError(t, err, mesh.Precondition, "choose another name")
	if _, err := s.Create("beta", []byte(alert)); err != nil {
		t.Errorf("another tenant cannot have a skill of that name: %v", err)
	}
	wantError(t, s.Delete("gamma", "workflows.slack_alert"), mesh.NotFound)
	if err := s.Delete("acme", "workflows.slack_alert"); err != nil {
		t.Fatal(err)
	}
	expect(skill.ChangeRemoved, "workflows.slack_alert")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("file of a deleted skill: %v", err)
	}
	wantError(t, s.Delete("acme", "workflows.slack_alert"), mesh.NotFound)
	if got := s.reload(t); got != "" {
		t.Errorf("reading the files again finds the changes %q", got)
	}
}

func TestLibrary_Create_refusesBrokenSkillsWithLineAndRemedy(t *testing.T) {
	s := library(t, nil)
	for name, tt := range map[string]struct {
		source string
		line   int
		says   string
		field  string
	}{
		"empty":            {"", 1, "front matter", ""},
		"not closed":       {"---\nname: a.b\n", 1, "not closed", ""},
		"bad name":         {strings.Replace(alert, "workflows.slack_alert", "Workflows", 1), 2, "name", "name"},
		"way out":          {strings.Replace(alert, "workflows.slack_alert", "../../etc.passwd", 1), 2, "name", "name"},
		"absolute":         {strings.Replace(alert, "workflows.slack_alert", "/etc/passwd", 1), 2, "name", "name"},
		"code of the mesh": {strings.Replace(alert, "tags:", "handler: mail.send\ntags:", 1), 4, "handler", "handler"},
		"reserved name":    {strings.Replace(alert, "slack_alert", "help", 1), 2, "name", "name"},
		"unknown type":     {strings.Replace(alert, "required: true", "type: date", 1), 7, "type", "parameters[0].type"},
		"never due":        {strings.Replace(alert, "tags:", "schedule: 0 0 30 2 *\ntags:", 1), 4, "schedule", "schedule"},
		"no body":          {alert[:strings.LastIndex(alert, "# Slack")], 10, "body", "body"},
		"too long":         {alert + strings.Repeat("x", skill.MaxFile), 0, "bytes", ""},
		"not UTF-8":        {"---\nname: \xff\n", 2, "UTF-8", ""},
	} {
		sk, problem := skill.ParseNew([]byte(tt.source))
		if sk != nil || problem == nil || problem.Line != tt.line || problem.Field != tt.field || !strings.Contains(problem.Detail, tt.says) {
			t.Errorf("%s: ParseNew = %v, %+v; want line %d and field %q saying %q", name, sk, problem, tt.line, tt.field, tt.says)
		}
		_, err := s.Create("acme", []byte(tt.source))
		wantError(t, err, mesh.Invalid, strings.TrimSuffix("source."+tt.field, "."), tt.says)
	}
	if got := all(t, s.tenants); len(got) != 0 {
		t.Errorf("refused, and yet there are %v", got)
	}
	for tenant, code := range map[mesh.TenantID]mesh.Code{"": mesh.Invalid, "../acme": mesh.Invalid, "a/b": mesh.Invalid} {
		_, err := s.Create(tenant, []byte(alert))
		wantError(t, err, code, "tenant-id")
		wantError(t, s.Delete(tenant, "mail.send"), code, "tenant-id")
	}
	none, err := skill.OpenLibrary(skill.LibraryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = none.Create("acme", []byte(alert))
	wantError(t, err, mesh.Unsupported)
}

func TestLibrary_Delete_leavesTheSkillsOfTheMesh(t *testing.T) {
	s := library(t, map[string]string{
		"mail/send.md":           page("mail.send", "shared", ""),
		"@acme/x/pdf-f/SKILL.md": strings.Replace(pdf, "pdf-forms", "pdf-f", 1),
	})
	before := all(t, s.tenants)
	for _, name := range []string{"mail.send", "x.pdf_f"} {
		wantError(t, s.Delete("acme", name), mesh.Precondition, "belongs to the mesh")
		if _, ok := s.For("acme").Get(name); !ok {
			t.Errorf("%s is refused, and yet gone", name)
		}
	}
	wantError(t, s.Delete("acme", "../mail.send"), mesh.NotFound)
	if diff := cmp.Diff(before, all(t, s.tenants)); diff != "" {
		t.Error(diff)
	}
}

func TestLibrary_Create_overwritesNothing(t *testing.T) {
	s := library(t, map[string]string{"@acme/workflows/slack_alert.md": "precious"})
	_, err := s.Create("acme", []byte(alert))
	wantError(t, err, mesh.Precondition, "choose another name")
	if data, _ := os.ReadFile(s.path("@acme/workflows/slack_alert.md")); string(data) != "precious" {
		t.Errorf("file is now %q", data)
	}
}

// Neither the domain's folder nor the tenant's leads elsewhere.
func TestLibrary_Create_writesNothingOutsideItsFolder(t *testing.T) {
	s := library(t, map[string]string{"@acme/x": "", "@beta/x": ""})
	outside := t.TempDir()
	for link, to := range map[string]string{"@acme/workflows": outside, "@beta/workflows": "../acme"} {
		if err := os.Symlink(to, s.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tenant := range []mesh.TenantID{"acme", "beta"} {
		_, err := s.Create(tenant, []byte(alert))
		wantError(t, err, mesh.Unavailable)
		if _, ok := s.For(tenant).Get("workflows.slack_alert"); ok {
			t.Error("a skill without a file is offered")
		}
	}
	if got := append(all(t, outside), all(t, s.path("@acme"))...); len(got) != 2 { // x and the link
		t.Errorf("written through a link: %v", got)
	}
}

func TestLibrary_Create_saysThatAFolderCannotBeWritten(t *testing.T) {
	s := library(t, map[string]string{"@acme/workflows": "a file in the place of a folder", "@beta/workflows/SKILL.md": strings.Replace(pdf, "pdf-forms", "workflows", 1)})
	for _, tenant := range []mesh.TenantID{"acme", "beta"} {
		before := all(t, s.tenants)
		_, err := s.Create(tenant, []byte(alert))
		wantError(t, err, mesh.Unavailable, "check that the folder is writable")
		if strings.Contains(mesh.DetailOf(err), s.tenants) {
			t.Errorf("the user is shown a path of the server: %s", mesh.DetailOf(err))
		}
		if diff := cmp.Diff(before, all(t, s.tenants)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLibrary_whatACrashLeftNeitherLoadsNorBlocks(t *testing.T) {
	s := library(t, map[string]string{"@acme/workflows/.slack_alert.md.new": alert + "longer than the new one, and torn"})
	if s.For("acme").Len() != 0 || len(s.Problems("acme")) != 0 {
		t.Errorf("loaded %v with problems %v", s.For("acme").List(), s.Problems("acme"))
	}
	if _, err := s.Create("acme", []byte(alert)); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(s.path("@acme/workflows/slack_alert.md")); err != nil || string(data) != alert {
		t.Errorf("file is %q, %v", data, err)
	}
}

func TestLibrary_Watch_tellsASlowReaderTheLastState(t *testing.T) {
	s := library(t, map[string]string{"mail/send.md": page("mail.send", "x", "")})
	ctx, stop := context.WithCancel(t.Context())
	next, end := iter.Pull2(s.Watch(ctx, "acme"))
	defer end()
	for range 2 {
		if _, err, _ := next(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := s.Create("acme", []byte(alert)); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete("acme", "workflows.slack_alert"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Create("beta", []byte(alert)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create("acme", []byte(strings.ReplaceAll(alert, "slack", "sms"))); err != nil {
		t.Fatal(err)
	}
	if c, err, _ := next(); err != nil || c.Kind != skill.ChangePut || c.Skill.Name != "workflows.sms_alert" {
		t.Errorf("next is %+v, %v; want only what is there now", c, err)
	}
	stop()
	if _, err, ok := next(); !ok || !mesh.IsCode(err, mesh.Canceled) {
		t.Errorf("the watch ended with %v, %v", err, ok)
	}
}

// A tenant's own skill hides the shared one; when it goes, that is told as a
// change and not as a loss.
func TestLibrary_Watch_tellsWhatTheTenantSees(t *testing.T) {
	s := library(t, map[string]string{"mail/send.md": page("mail.send", "shared", ""), "@acme/mail/send.md": page("mail.send", "own", "")})
	next, end := iter.Pull2(s.Watch(t.Context(), "acme"))
	defer end()
	if c, _, _ := next(); c.Skill == nil || c.Skill.Description != "own" {
		t.Errorf("first is %+v", c)
	}
	if c, _, _ := next(); c.Kind != skill.ChangeSynced {
		t.Errorf("then %+v", c)
	}
	s.write(t, "mail/send.md", page("mail.send", "shared and hidden", ""))
	s.reload(t)
	s.remove(t, "@acme/mail")
	s.reload(t)
	if c, _, _ := next(); c.Kind != skill.ChangePut || c.Skill.Description != "shared and hidden" {
		t.Errorf("at last %+v", c)
	}
}

// However a file came into a tenant's folder: it is a template. It gets no code
// of the mesh, neither under a new name nor under that of a shared skill, whose
// demand for approval it would evade.
func TestLibrary_tenantsHaveNoHandlers(t *testing.T) {
	code := func(name string) string {
		return strings.Replace(page(name, "code", ""), "tags", "handler: mail.send\ntags", 1)
	}
	guarded := strings.Replace(code("mail.send"), "tags", "requires_approval: true\nconfirm: Send it?\ntags", 1)
	s := library(t, map[string]string{"mail/send.md": guarded, "@acme/mail/send.md": code("mail.send"), "@acme/mail/tell.md": code("mail.tell"), "@acme/own/x.md": page("own.x", "own", "")})
	s.write(t, "@acme/own/x.md", code("own.x"))
	s.reload(t)
	for _, sk := range s.For("acme").List() {
		if sk.Tenant != "" && sk.Handler != "" || sk.Name == "mail.send" && (!sk.RequiresApproval || sk.Confirm == "") {
			t.Errorf("acme has %+v", sk)
		}
	}
	if got := described(t, s.For("acme"), "own.x"); got != "own" {
		t.Errorf("own.x is %s", got)
	}
	var problems []string
	for _, p := range s.Problems("acme") {
		if strings.Contains(p.Detail, "names a handler") {
			problems = append(problems, p.Path)
		}
	}
	if diff := cmp.Diff([]string{"mail/send.md", "mail/tell.md", "own/x.md"}, problems); diff != "" {
		t.Error(diff)
	}
}

// Of several processes that create a skill of one name, one succeeds, and it is
// that one's skill that is there.
func TestLibrary_Create_hasOneWinnerAmongProcesses(t *testing.T) {
	first := library(t, nil)
	second, err := skill.OpenLibrary(skill.LibraryOptions{TenantDir: first.tenants})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		name := fmt.Sprintf("workflows.w%d", i)
		var made [2]*skill.Skill
		var both sync.WaitGroup
		for j, l := range []*skill.Library{first.Library, second} {
			both.Go(func() {
				var err error
				if made[j], err = l.Create("acme", []byte(page(name, fmt.Sprint("of ", j), ""))); err != nil && !mesh.IsCode(err, mesh.Precondition) {
					t.Error(err)
				}
			})
		}
		both.Wait()
		winner := made[0]
		if winner == nil {
			winner = made[1]
		}
		if (made[0] == nil) == (made[1] == nil) {
			t.Fatalf("%s: %v and %v", name, made[0], made[1])
		}
		data, err := os.ReadFile(first.path("@acme/" + winner.Path))
		if err != nil || string(data) != string(winner.Source) {
			t.Fatalf("%s is %q, %v", name, data, err)
		}
	}
	if got := all(t, first.tenants); len(got) != 40 {
		t.Errorf("%d files", len(got))
	}
}

// What another process creates in the same folder is found, and can be deleted,
// before this one has read the folder again.
func TestLibrary_Find_knowsWhatAnotherProcessHasJustCreated(t *testing.T) {
	first := library(t, nil)
	second, err := skill.OpenLibrary(skill.LibraryOptions{TenantDir: first.tenants})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Create("acme", []byte(alert)); err != nil {
		t.Fatal(err)
	}
	const name = "workflows.slack_alert"
	for tenant, want := range map[mesh.TenantID]bool{"acme": true, "globex": false, "../acme": false} {
		if _, ok := second.Find(tenant, name); ok != want {
			t.Errorf("%s finds it: %v", tenant, ok)
		}
	}
	for _, name := range []string{"workflows", "workflows.none", "../acme.slack_alert", ""} {
		if s, ok := second.Find("acme", name); ok {
			t.Errorf("%q is %v", name, s)
		}
	}
	third, err := skill.OpenLibrary(skill.LibraryOptions{TenantDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, third.Delete("acme", name), mesh.NotFound)
	if err := second.Delete("acme", name); err != nil {
		t.Error(err)
	}
}

// A process that died while it wrote a skill left a file beside it, which the next one removes: it
// is nobody's, and may have what a user has erased since. One that is being written stays, and so
// does what people have there.
func TestWhatWasLeftHalfWrittenIsRemoved(t *testing.T) {
	s := library(t, map[string]string{"@acme/workflows/.old.md.ABC.new": alert, "@acme/workflows/.now.md.ABC.new": alert, "@acme/workflows/.notes": "mine", "@acme/workflows/.x.new": "mine"})
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{"@acme/workflows/.old.md.ABC.new", "@acme/workflows/.notes", "@acme/workflows/.x.new"} {
		if err := os.Chtimes(s.path(name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := skill.OpenLibrary(skill.LibraryOptions{TenantDir: s.tenants}); err != nil {
		t.Fatal(err)
	}
	want := []string{s.path("@acme/workflows/.notes"), s.path("@acme/workflows/.now.md.ABC.new"), s.path("@acme/workflows/.x.new")}
	if diff := cmp.Diff(want, all(t, s.tenants)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
