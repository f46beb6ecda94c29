package api

import (
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
	"schedule: \"0 9 * * *\"\ntimezone: Europe/Berlin\nconfirm: Send it?\nrequires_approval: true\n" +
	"parameters:\n  - name: channel\n    required: true\n    enum: [ops, dev]\n---\n# Slack alert\n\nPost the text to the channel.\n"

// S3-010: a skill is made at run time, by writing a file.
func TestACreatedSkillIsAFileOfItsTenantAndOfferedAtOnce(t *testing.T) {
	n := serve(t)
	ctx := as(t, "alice")
	watch, err := n.skills.WatchSkills(ctx, &meshv1.WatchSkillsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(kind meshv1.WatchSkillsResponse_Kind, name string) {
		t.Helper()
		res, err := watch.Recv()
		if err != nil || res.GetKind() != kind || res.GetSkill().GetName() != name || res.GetSkill().GetSource()+res.GetSkill().GetBody() != "" {
			t.Fatalf("next is %v, %v; want %v of %q, without its texts", res, err, kind, name)
		}
	}
	expect(meshv1.WatchSkillsResponse_KIND_PUT, "mail.send")
	expect(meshv1.WatchSkillsResponse_KIND_SYNCED, "")

	made, err := n.skills.CreateSkill(ctx, &meshv1.CreateSkillRequest{Source: alert})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := skill.Parse("", []byte(alert))
	if err != nil {
		t.Fatal(err)
	}
	want := &meshv1.Skill{Name: "workflows.slack_alert", Description: "Sends an alert to Slack.", Tags: []string{"slack", "alert"},
		Access: "write", Path: "workflows/slack_alert.md", Source: alert, Body: parsed.Body, Tenant: "acme", Version: parsed.Version,
		Schedule: "0 9 * * *", Timezone: "Europe/Berlin", Confirm: "Send it?", RequiresApproval: true,
		Parameters: []*meshv1.SkillParameter{{Name: "channel", Type: "string", Required: true, Enum: []string{"ops", "dev"}}}}
	if !proto.Equal(made.GetSkill(), want) || len(want.Version) != 12 || !strings.HasPrefix(want.Body, "# Slack alert") {
		t.Errorf("made %v, want %v", made.GetSkill(), want)
	}
	expect(meshv1.WatchSkillsResponse_KIND_PUT, "workflows.slack_alert")
	got, err := n.skills.GetSkill(as(t, "reader"), &meshv1.GetSkillRequest{Name: "workflows.slack_alert"})
	if err != nil || !proto.Equal(got.GetSkill(), want) {
		t.Errorf("GetSkill = %v, %v", got, err)
	}
	file := filepath.Join(n.tenants, "acme", "workflows", "slack_alert.md")
	if data, err := os.ReadFile(file); err != nil || string(data) != alert {
		t.Errorf("file is %q, %v", data, err)
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

func TestBrokenSkillsAreRefusedWithLineAndRemedy(t *testing.T) {
	n := serve(t)
	for name, tt := range map[string]struct {
		source string
		line   int32
		says   string
	}{
		"empty":            {"", 1, "front matter"},
		"not closed":       {"---\nname: a.b\n", 1, "not closed"},
		"bad name":         {strings.Replace(alert, "workflows.slack_alert", "Workflows", 1), 2, "name"},
		"way out":          {strings.Replace(alert, "workflows.slack_alert", "../../etc.passwd", 1), 2, "name"},
		"code of the mesh": {strings.Replace(alert, "tags:", "handler: mail.send\ntags:", 1), 0, "handler"},
		"no such schedule": {strings.Replace(alert, "0 9", "99 9", 1), 5, "schedule"},
		"unknown type":     {strings.Replace(alert, "required: true", "type: date", 1), 11, "type"},
		"too long":         {alert + strings.Repeat("x", skill.MaxFile), 0, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
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
			if want := strings.TrimSuffix("source."+p.GetField(), "."); mesh.FieldOf(err) != want {
				t.Errorf("the problem is with %q, the error with %q", p.GetField(), mesh.FieldOf(err))
			}
		})
	}
	res, err := n.skills.ValidateSkill(as(t, "reader"), &meshv1.ValidateSkillRequest{Source: alert})
	if err != nil || len(res.GetProblems()) != 0 || res.GetSkill().GetName() != "workflows.slack_alert" {
		t.Errorf("ValidateSkill of a good one = %v, %v", res, err)
	}
	if now := n.library.For("acme").Len(); now != 1 {
		t.Errorf("validating and refusing made skills: there are %d", now)
	}
}

func TestWritingAndReloadingSkillsNeedsThePermission(t *testing.T) {
	n := serve(t)
	writeFile(t, filepath.Join(n.dir, "mail", "read.md"), strings.ReplaceAll(shipped, "mail.send", "mail.read"))
	for _, user := range []string{"reader", "mailer"} {
		_, err := n.skills.CreateSkill(as(t, user), &meshv1.CreateSkillRequest{Source: alert})
		wantCode(t, err, mesh.Denied, "skill.create")
		for _, name := range []string{"mail.send", "absent.skill"} {
			_, err = n.skills.DeleteSkill(as(t, user), &meshv1.DeleteSkillRequest{Name: name})
			wantCode(t, err, mesh.Denied)
		}
		_, err = n.skills.ReloadSkills(as(t, user), &meshv1.ReloadSkillsRequest{})
		wantCode(t, err, mesh.Denied)
	}
	if now := n.library.For("acme").Len(); now != 1 {
		t.Errorf("refused, and yet there are %d skills", now)
	}
}

func TestSkillsOfTheMeshCannotBeDeleted(t *testing.T) {
	n := serve(t)
	_, err := n.skills.DeleteSkill(as(t, "root"), &meshv1.DeleteSkillRequest{Name: "mail.send"})
	wantCode(t, err, mesh.Precondition, "belongs to the mesh")
	_, err = n.skills.DeleteSkill(as(t, "root"), &meshv1.DeleteSkillRequest{Name: "../mail.send"})
	wantCode(t, err, mesh.NotFound)
}

// Files are read again on request too, and an invalid edit leaves the skill as
// it was.
func TestReloadTellsWhatChangedForTheTenantAlone(t *testing.T) {
	n := serve(t)
	for _, user := range []string{"alice", "bob"} {
		if _, err := n.skills.CreateSkill(as(t, user), &meshv1.CreateSkillRequest{Source: alert}); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(n.dir, "mail", "read.md"), strings.ReplaceAll(shipped, "mail.send", "mail.read"))
	writeFile(t, filepath.Join(n.tenants, "acme", "workflows", "extra.md"), template("extra"))
	writeFile(t, filepath.Join(n.tenants, "globex", "workflows", "slack_alert.md"), "broken by an editor")
	if err := os.Remove(filepath.Join(n.tenants, "acme", "workflows", "slack_alert.md")); err != nil {
		t.Fatal(err)
	}
	got, err := n.skills.ReloadSkills(as(t, "alice"), &meshv1.ReloadSkillsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetSkills() != 3 || strings.Join(got.GetChanged(), " ") != "mail.read workflows.extra" || strings.Join(got.GetRemoved(), " ") != "workflows.slack_alert" {
		t.Errorf("acme is told %v", got)
	}
	if p := got.GetProblems(); len(p) != 1 || p[0].GetPath() != "mail/broken.md" {
		t.Errorf("acme is told of the problems %v", p)
	}
	got, err = n.skills.ReloadSkills(as(t, "bob"), &meshv1.ReloadSkillsRequest{})
	if err != nil || got.GetSkills() != 3 || len(got.GetChanged())+len(got.GetRemoved()) != 0 || len(got.GetProblems()) != 2 ||
		got.GetProblems()[1].GetPath() != "workflows/slack_alert.md" || got.GetProblems()[1].GetLine() != 1 {
		t.Errorf("globex, after all was read, is told %v, %v", got, err)
	}
	kept, err := n.skills.GetSkill(as(t, "bob"), &meshv1.GetSkillRequest{Name: "workflows.slack_alert"})
	if err != nil || kept.GetSkill().GetSource() != alert {
		t.Errorf("the skill that was broken by an edit is now %v, %v", kept, err)
	}
}
