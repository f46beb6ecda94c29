package service

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/skill"

	"google.golang.org/protobuf/proto"
)

const alert = "---\nname: workflows.slack_alert\ndescription: Sends an alert to Slack.\ntags: [slack, alert]\n" +
	"parameters:\n  - name: channel\n    required: true\n    enum: [ops, dev]\n---\n# Slack alert\n\nPost the text to the channel.\n"

func TestACreatedSkillIsAFileAndOfferedAtOnce(t *testing.T) {
	n := serve(t)
	ctx := as(t, "alice")
	watch, err := n.skills.WatchSkills(ctx, &meshv1.WatchSkillsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(kind meshv1.WatchSkillsResponse_Kind, name string) {
		t.Helper()
		res, err := watch.Recv()
		if err != nil || res.GetKind() != kind || res.GetSkill().GetName() != name || res.GetSkill().GetSource() != "" {
			t.Fatalf("next is %v, %v; want %v of %q, without source", res, err, kind, name)
		}
	}
	expect(meshv1.WatchSkillsResponse_KIND_PUT, "mail.send")
	expect(meshv1.WatchSkillsResponse_KIND_SYNCED, "")

	made, err := n.skills.CreateSkill(ctx, &meshv1.CreateSkillRequest{Source: alert})
	if err != nil {
		t.Fatal(err)
	}
	want := &meshv1.Skill{Name: "workflows.slack_alert", Description: "Sends an alert to Slack.", Tags: []string{"slack", "alert"},
		Access: "write", Path: "workflows/slack_alert.md", Source: alert,
		Parameters: []*meshv1.SkillParameter{{Name: "channel", Type: "string", Required: true, Enum: []string{"ops", "dev"}}}}
	if !proto.Equal(made.GetSkill(), want) {
		t.Errorf("made %v, want %v", made.GetSkill(), want)
	}
	expect(meshv1.WatchSkillsResponse_KIND_PUT, "workflows.slack_alert")
	got, err := n.skills.GetSkill(as(t, "bob"), &meshv1.GetSkillRequest{Name: "workflows.slack_alert"})
	if err != nil || !proto.Equal(got.GetSkill(), want) {
		t.Errorf("GetSkill = %v, %v", got, err)
	}
	file := filepath.Join(n.dir, "workflows", "slack_alert.md")
	if data, err := os.ReadFile(file); err != nil || string(data) != alert {
		t.Errorf("file is %q, %v", data, err)
	}
	reloaded, _ := skill.Load(os.DirFS(n.dir))
	if _, ok := reloaded.Get("workflows.slack_alert"); !ok || len(files(t, n.dir)) != 3 {
		t.Errorf("after a restart the skill is gone, or files were left over: %v", files(t, n.dir))
	}

	_, err = n.skills.CreateSkill(ctx, &meshv1.CreateSkillRequest{Source: alert})
	wantCode(t, err, mesh.Precondition, "choose another name")
	if _, err := n.skills.DeleteSkill(ctx, &meshv1.DeleteSkillRequest{Name: "workflows.slack_alert"}); err != nil {
		t.Fatal(err)
	}
	expect(meshv1.WatchSkillsResponse_KIND_REMOVED, "workflows.slack_alert")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("file of a deleted skill: %v", err)
	}
	_, err = n.skills.GetSkill(ctx, &meshv1.GetSkillRequest{Name: "workflows.slack_alert"})
	wantCode(t, err, mesh.NotFound)
}

func TestSkillsAreFoundAndProblemsShown(t *testing.T) {
	n := serve(t)
	ctx := as(t, "reader")
	if _, err := n.folder.Create([]byte(alert)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		req  *meshv1.ListSkillsRequest
		want string
	}{
		"all":              {&meshv1.ListSkillsRequest{}, "mail.send workflows.slack_alert"},
		"domain":           {&meshv1.ListSkillsRequest{Domain: "mail"}, "mail.send"},
		"query":            {&meshv1.ListSkillsRequest{Query: "SLACK"}, "workflows.slack_alert"},
		"query and domain": {&meshv1.ListSkillsRequest{Query: "slack", Domain: "mail"}, ""},
	} {
		res, err := n.skills.ListSkills(ctx, tt.req)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range res.GetSkills() {
			if s.GetSource() != "" {
				t.Errorf("%s: the list has the source of %s", name, s.GetName())
			}
			got = append(got, s.GetName())
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", name, got, tt.want)
		}
		if p := res.GetProblems(); len(p) != 1 || p[0].GetPath() != "mail/broken.md" || p[0].GetLine() != 1 || p[0].GetDetail() == "" {
			t.Errorf("%s: problems %v, want that of mail/broken.md", name, p)
		}
	}
}

func TestBrokenSkillsAreRefusedWithLineAndRemedy(t *testing.T) {
	for name, tt := range map[string]struct {
		source string
		line   int32
		says   string
	}{
		"empty":               {"", 1, "front matter"},
		"not closed":          {"---\nname: a.b\n", 1, "not closed"},
		"bad name":            {strings.Replace(alert, "workflows.slack_alert", "Workflows", 1), 2, "name"},
		"way out":             {strings.Replace(alert, "workflows.slack_alert", "../../etc.passwd", 1), 2, "name"},
		"absolute":            {strings.Replace(alert, "workflows.slack_alert", "/etc/passwd", 1), 2, "name"},
		"code of the mesh":    {strings.Replace(alert, "tags:", "handler: mail.send\ntags:", 1), 0, "handler"},
		"reserved name":       {strings.Replace(alert, "slack_alert", "help", 1), 2, "name"},
		"unknown type":        {strings.Replace(alert, "required: true", "type: date", 1), 7, "type"},
		"no body":             {alert[:strings.LastIndex(alert, "# Slack")], 0, "body"},
		"too long":            {alert + strings.Repeat("x", skill.MaxFile), 0, "bytes"},
		"not UTF-8 is caught": {"---\nname: \xff\n", 2, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			n := serve(t)
			if strings.ContainsRune(tt.source, '\uFFFD') {
				// gRPC itself refuses such text in a string field.
				_, err := n.folder.Create([]byte(tt.source))
				wantCode(t, err, mesh.Invalid, tt.says)
				return
			}
			res, err := n.skills.ValidateSkill(as(t, "reader"), &meshv1.ValidateSkillRequest{Source: tt.source})
			if err != nil || len(res.GetProblems()) != 1 || res.GetSkill() != nil {
				t.Fatalf("ValidateSkill = %v, %v; want one problem", res, err)
			}
			p := res.GetProblems()[0]
			if tt.line != 0 && p.GetLine() != tt.line || !strings.Contains(p.GetDetail(), tt.says) {
				t.Errorf("problem is %v; want line %d saying %q", p, tt.line, tt.says)
			}
			_, err = n.skills.CreateSkill(as(t, "alice"), &meshv1.CreateSkillRequest{Source: tt.source})
			wantCode(t, err, mesh.Invalid, "source", tt.says)
			if got := files(t, n.dir); len(got) != 2 {
				t.Errorf("refused, and yet there are %v", got)
			}
		})
	}
	n := serve(t)
	res, err := n.skills.ValidateSkill(as(t, "reader"), &meshv1.ValidateSkillRequest{Source: alert})
	if err != nil || len(res.GetProblems()) != 0 || res.GetSkill().GetName() != "workflows.slack_alert" {
		t.Errorf("ValidateSkill of a good one = %v, %v", res, err)
	}
	if _, ok := n.folder.Get("workflows.slack_alert"); ok {
		t.Error("validating created the skill")
	}
}

func TestWritingSkillsNeedsThePermission(t *testing.T) {
	n := serve(t)
	for _, user := range []string{"reader", "mailer"} {
		_, err := n.skills.CreateSkill(as(t, user), &meshv1.CreateSkillRequest{Source: alert})
		wantCode(t, err, mesh.Denied, "skill:create")
		for _, name := range []string{"mail.send", "absent.skill"} {
			_, err = n.skills.DeleteSkill(as(t, user), &meshv1.DeleteSkillRequest{Name: name})
			wantCode(t, err, mesh.Denied, "skill:create")
		}
	}
}

func TestSkillsOfTheMeshCannotBeDeleted(t *testing.T) {
	n := serve(t)
	_, err := n.skills.DeleteSkill(as(t, "root"), &meshv1.DeleteSkillRequest{Name: "mail.send"})
	wantCode(t, err, mesh.Precondition, "belongs to the mesh")
	_, err = n.skills.DeleteSkill(as(t, "root"), &meshv1.DeleteSkillRequest{Name: "../mail.send"})
	wantCode(t, err, mesh.NotFound)

	// A template that comes from elsewhere than the folder.
	var embedded skill.Catalog
	sk, err := skill.Parse("", []byte(alert))
	if err != nil {
		t.Fatal(err)
	}
	embedded.Put(sk)
	f := NewSkillFolder(filepath.Join(t.TempDir(), "none"), &embedded, nil)
	wantCode(t, f.Delete(sk.Name), mesh.Precondition, "belongs to the mesh")
	if _, ok := f.Get(sk.Name); !ok {
		t.Error("refused, and yet gone")
	}
}

func TestAFileThatTheCatalogDoesNotKnowIsNotOverwritten(t *testing.T) {
	n := serve(t)
	file := filepath.Join(n.dir, "workflows", "slack_alert.md")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, "precious")
	_, err := n.folder.Create([]byte(alert))
	wantCode(t, err, mesh.Precondition)
	if data, _ := os.ReadFile(file); string(data) != "precious" {
		t.Errorf("file is now %q", data)
	}
}

func TestSkillsAreNotWrittenOutsideTheFolder(t *testing.T) {
	n := serve(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(n.dir, "workflows")); err != nil {
		t.Fatal(err)
	}
	_, err := n.folder.Create([]byte(alert))
	wantCode(t, err, mesh.Unavailable)
	if got := files(t, outside); len(got) != 0 {
		t.Errorf("written through a link: %v", got)
	}
	if _, ok := n.folder.Get("workflows.slack_alert"); ok {
		t.Error("a skill without a file is offered")
	}
}

func TestASkillsFolderThatCannotBeWrittenIsSaid(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	writeFile(t, blocked, "")
	f := NewSkillFolder(blocked, new(skill.Catalog), nil)
	_, err := f.Create([]byte(alert))
	wantCode(t, err, mesh.Unavailable, "check that the folder is writable")
	if strings.Contains(mesh.DetailOf(err), blocked) {
		t.Errorf("the user is shown a path of the server: %s", mesh.DetailOf(err))
	}
}

func TestWhatACrashLeftNeitherLoadsNorBlocks(t *testing.T) {
	n := serve(t)
	left := filepath.Join(n.dir, "workflows", ".slack_alert.md.new")
	if err := os.MkdirAll(filepath.Dir(left), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, left, alert+"longer than the new one, and torn")
	if c, problems := skill.Load(os.DirFS(n.dir)); len(c.List()) != 1 || len(problems) != 1 {
		t.Errorf("loaded %v with problems %v", c.List(), problems)
	}
	if _, err := n.folder.Create([]byte(alert)); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(n.dir, "workflows", "slack_alert.md")); err != nil || string(data) != alert {
		t.Errorf("file is %q, %v", data, err)
	}
}

func TestASlowSkillWatcherSeesTheLastState(t *testing.T) {
	n := serve(t)
	ctx, stop := context.WithCancel(t.Context())
	next, end := iter.Pull2(n.folder.Watch(ctx))
	defer end()
	for range 2 {
		if _, err, _ := next(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := n.folder.Create([]byte(alert)); err != nil {
			t.Fatal(err)
		}
		if err := n.folder.Delete("workflows.slack_alert"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.folder.Create([]byte(strings.ReplaceAll(alert, "slack", "sms"))); err != nil {
		t.Fatal(err)
	}
	if c, err, _ := next(); err != nil || c.Kind != SkillPut || c.Skill.Name != "workflows.sms_alert" {
		t.Errorf("next is %+v, %v; want only what is there now", c, err)
	}
	stop()
	if _, err, ok := next(); !ok || !mesh.IsCode(err, mesh.Canceled) {
		t.Errorf("the watch ended with %v, %v", err, ok)
	}
}

// files returns all files below dir.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
