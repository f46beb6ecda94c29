package api

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/skill"

	"google.golang.org/protobuf/proto"
)

func skillList(list []*meshv1.Skill) string {
	var names []string
	for _, s := range list {
		names = append(names, s.GetName())
	}
	return strings.Join(names, " ")
}

// S3-072: skills by domain, by words and by pattern, and what is broken.
func TestSkillsAreFoundAndProblemsShown(t *testing.T) {
	n := serve(t)
	ctx := as(t, "reader")
	for _, name := range []string{"mail.read", "calendar.create"} {
		writeFile(t, filepath.Join(n.dir, strings.Replace(name, ".", "/", 1)+".md"), strings.ReplaceAll(shipped, "mail.send", name))
	}
	if _, err := n.library.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.library.Create("acme", []byte(alert)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		req  *meshv1.ListSkillsRequest
		want string
	}{
		"all":                 {&meshv1.ListSkillsRequest{}, "calendar.create mail.read mail.send workflows.slack_alert"},
		"domain":              {&meshv1.ListSkillsRequest{Domain: "mail"}, "mail.read mail.send"},
		"no such domain":      {&meshv1.ListSkillsRequest{Domain: "absent"}, ""},
		"query":               {&meshv1.ListSkillsRequest{Query: "SLACK"}, "workflows.slack_alert"},
		"best first":          {&meshv1.ListSkillsRequest{Query: "mail slack alert"}, "workflows.slack_alert calendar.create mail.read mail.send"},
		"query and domain":    {&meshv1.ListSkillsRequest{Query: "read slack", Domain: "mail"}, "mail.read"},
		"a pattern":           {&meshv1.ListSkillsRequest{Patterns: []string{"mail.*"}}, "mail.read mail.send"},
		"all patterns":        {&meshv1.ListSkillsRequest{Patterns: []string{"*", "mail.*"}}, "calendar.create mail.read mail.send workflows.slack_alert"},
		"names":               {&meshv1.ListSkillsRequest{Patterns: []string{"mail.send", "absent.skill", "calendar.create"}}, "calendar.create mail.send"},
		"pattern and domain":  {&meshv1.ListSkillsRequest{Patterns: []string{"mail.send", "calendar.*"}, Domain: "mail"}, "mail.send"},
		"pattern and query":   {&meshv1.ListSkillsRequest{Patterns: []string{"workflows.*", "calendar.*"}, Query: "mail slack alert"}, "workflows.slack_alert calendar.create"},
		"a pattern of nobody": {&meshv1.ListSkillsRequest{Patterns: []string{"ma*"}}, ""},
	} {
		res, err := n.skills.ListSkills(ctx, tt.req)
		if err != nil {
			t.Fatal(err)
		}
		if got := skillList(res.GetSkills()); got != tt.want {
			t.Errorf("%s: %v, want %s", name, got, tt.want)
		}
		for _, s := range res.GetSkills() {
			if s.GetSource()+s.GetBody() != "" {
				t.Errorf("%s: the list has the texts of %s", name, s.GetName())
			}
		}
		if p := res.GetProblems(); len(p) != 1 || p[0].GetPath() != "mail/broken.md" || p[0].GetLine() != 1 || p[0].GetDetail() == "" {
			t.Errorf("%s: problems %v, want that of mail/broken.md", name, p)
		}
	}
}

// stock puts skills into the domain bulk, each with a body of so many bytes.
func stock(t *testing.T, n *node, count, body int) {
	t.Helper()
	list := make([]*skill.Skill, count)
	for i := range list {
		action := fmt.Sprintf("skill_%05d", i)
		list[i] = &skill.Skill{Name: "bulk." + action, Domain: "bulk", Action: action, Description: "Does number " + action,
			Access: skill.AccessRead, Handler: "bulk", Body: strings.Repeat("b", body), Source: []byte("s"), Version: "v"}
	}
	n.library.Put(list...)
}

// pages reads all pages of the request and checks that none is too large.
func pages(t *testing.T, n *node, req *meshv1.ListSkillsRequest) (all []*meshv1.Skill, count int) {
	t.Helper()
	for {
		res, err := n.skills.ListSkills(as(t, "reader"), req)
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(res); size > maxSkillBytes+skill.MaxFile+skill.MaxBody {
			t.Errorf("page %d has %d bytes", count+1, size)
		}
		if (count == 0) != (len(res.GetProblems()) > 0) {
			t.Errorf("page %d has the problems %v; they belong on the first one", count+1, res.GetProblems())
		}
		all = append(all, res.GetSkills()...)
		if count++; res.GetNextPageToken() == "" {
			return all, count
		}
		req.PageToken = res.GetNextPageToken()
	}
}

func TestTenThousandSkillsComeInPagesWithoutGapsOrRepeats(t *testing.T) {
	n := serve(t)
	stock(t, n, 10_000, 10)
	for name, tt := range map[string]struct {
		req   *meshv1.ListSkillsRequest
		pages int
	}{
		"by default": {&meshv1.ListSkillsRequest{Domain: "bulk"}, 10},
		"as asked":   {&meshv1.ListSkillsRequest{Domain: "bulk", PageSize: 999}, 11},
		"by pattern": {&meshv1.ListSkillsRequest{Patterns: []string{"bulk.*"}}, 10},
		"by words":   {&meshv1.ListSkillsRequest{Query: "number"}, 10},
	} {
		all, count := pages(t, n, tt.req)
		if count != tt.pages || len(all) != 10_000 {
			t.Errorf("%s: %d skills on %d pages, want 10000 on %d", name, len(all), count, tt.pages)
		}
		for i, s := range all {
			if s.GetName() != fmt.Sprintf("bulk.skill_%05d", i) {
				t.Fatalf("%s: at %d there is %s", name, i, s.GetName())
			}
		}
	}
}

func TestPagesWithTextsAreBoundedByBytes(t *testing.T) {
	n := serve(t)
	stock(t, n, 100, skill.MaxBody)
	all, count := pages(t, n, &meshv1.ListSkillsRequest{Domain: "bulk", WithSource: true})
	if len(all) != 100 || count < 100*skill.MaxBody/maxSkillBytes {
		t.Errorf("%d skills on %d pages", len(all), count)
	}
	for _, s := range all {
		if len(s.GetBody()) != skill.MaxBody || s.GetSource() != "s" {
			t.Fatalf("%s has %d bytes of body and the source %q", s.GetName(), len(s.GetBody()), s.GetSource())
		}
	}
	if _, count := pages(t, n, &meshv1.ListSkillsRequest{Domain: "bulk"}); count != 1 {
		t.Errorf("without texts there are %d pages", count)
	}
}

func TestAPageGoesOnWhereASkillWasThatIsGone(t *testing.T) {
	n := serve(t)
	stock(t, n, 5, 1)
	ctx := as(t, "reader")
	after := func(req *meshv1.ListSkillsRequest, name string) string {
		t.Helper()
		req.PageToken = base64.RawURLEncoding.EncodeToString([]byte(name))
		res, err := n.skills.ListSkills(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return skillList(res.GetSkills())
	}
	n.library.Remove("bulk.skill_00002", "bulk.skill_00004")
	for name, tt := range map[string]struct {
		req         *meshv1.ListSkillsRequest
		after, want string
	}{
		"in the middle":                  {&meshv1.ListSkillsRequest{}, "bulk.skill_00002", "bulk.skill_00003 mail.send"},
		"before all":                     {&meshv1.ListSkillsRequest{Domain: "bulk"}, "aaa", "bulk.skill_00000 bulk.skill_00001 bulk.skill_00003"},
		"at the end":                     {&meshv1.ListSkillsRequest{Domain: "bulk"}, "bulk.skill_00004", ""},
		"where it is there":              {&meshv1.ListSkillsRequest{Domain: "bulk"}, "bulk.skill_00001", "bulk.skill_00003"},
		"by rank, where no place is its": {&meshv1.ListSkillsRequest{Query: "number"}, "bulk.skill_00002", ""},
	} {
		if got := after(tt.req, tt.after); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	for _, size := range []int32{-1, 1001} {
		_, err := n.skills.ListSkills(ctx, &meshv1.ListSkillsRequest{PageSize: size})
		wantCode(t, err, mesh.Invalid, "page_size")
	}
	_, err := n.skills.ListSkills(ctx, &meshv1.ListSkillsRequest{PageToken: "not base64!"})
	wantCode(t, err, mesh.Invalid, "page_token")
}

// S3-072, S3-074: domains with their descriptions and the number of their
// skills, of those that the caller asks for.
func TestDomainsAreListedWithWhatTheyHave(t *testing.T) {
	n := serve(t)
	index := "---\ndomain: mail\ndescription: Mail of all kinds.\n---\n# Mail\n"
	writeFile(t, filepath.Join(n.dir, "mail", "SKILL.md"), index)
	writeFile(t, filepath.Join(n.dir, "mail", "read.md"), strings.ReplaceAll(shipped, "mail.send", "mail.read"))
	if _, err := n.library.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.library.Create("acme", []byte(alert)); err != nil {
		t.Fatal(err)
	}
	show := func(user string, patterns ...string) string {
		t.Helper()
		res, err := n.skills.ListSkillDomains(as(t, user), &meshv1.ListSkillDomainsRequest{Patterns: patterns})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, d := range res.GetDomains() {
			all = append(all, fmt.Sprintf("%s %d %s %q", d.GetName(), d.GetSkills(), d.GetDescription(), d.GetBody()))
		}
		return strings.Join(all, "; ")
	}
	const mail, flows = `mail %d Mail of all kinds. "# Mail"`, `workflows 1 Sends an alert to Slack ""`
	for _, tt := range []struct {
		user     string
		patterns []string
		want     string
	}{
		{"reader", nil, fmt.Sprintf(mail, 2) + "; " + flows},
		{"reader", []string{"mail.send"}, fmt.Sprintf(mail, 1)},
		{"reader", []string{"absent.*", "workflows.*"}, flows},
		{"bob", nil, fmt.Sprintf(mail, 2)},
	} {
		if got := show(tt.user, tt.patterns...); got != tt.want {
			t.Errorf("%s sees of %v: %s; want %s", tt.user, tt.patterns, got, tt.want)
		}
	}
}

func TestTextsOfDomainsAreBoundedAndCanBeAskedForOneByOne(t *testing.T) {
	n := serve(t)
	for i := range 12 {
		name := fmt.Sprintf("d%02d", i)
		writeFile(t, filepath.Join(n.dir, name, "SKILL.md"), "---\ndomain: "+name+"\ndescription: D.\n---\n"+strings.Repeat("x", 100<<10)+"\n")
		writeFile(t, filepath.Join(n.dir, name, "send.md"), strings.ReplaceAll(shipped, "mail.send", name+".send"))
	}
	if _, err := n.library.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	res, err := n.skills.ListSkillDomains(as(t, "reader"), &meshv1.ListSkillDomainsRequest{})
	if err != nil || len(res.GetDomains()) != 13 || proto.Size(res) > maxSkillBytes+4096 {
		t.Fatalf("%d domains of %d bytes, %v", len(res.GetDomains()), proto.Size(res), err)
	}
	if first, last := res.GetDomains()[0], res.GetDomains()[11]; first.GetBody() == "" || last.GetBody() != "" || last.GetDescription() != "D." {
		t.Errorf("the first has %d bytes, the twelfth %d", len(first.GetBody()), len(last.GetBody()))
	}
	res, err = n.skills.ListSkillDomains(as(t, "reader"), &meshv1.ListSkillDomainsRequest{Patterns: []string{"d11.*"}})
	if err != nil || len(res.GetDomains()) != 1 || len(res.GetDomains()[0].GetBody()) < 100<<10 {
		t.Errorf("asked for alone it is %v, %v", res, err)
	}
}

func TestFilesOfASkillAreReadWithIt(t *testing.T) {
	n := serve(t)
	folder := filepath.Join(n.tenants, "acme", "docs", "pdf-forms")
	writeFile(t, filepath.Join(folder, "SKILL.md"), "---\nname: pdf-forms\ndescription: Fills PDF forms.\n---\n# PDF\n")
	writeFile(t, filepath.Join(folder, "references", "fields.md"), "all fields \xff")
	writeFile(t, filepath.Join(n.tenants, "acme", "docs", "private.txt"), "private")
	if _, err := n.library.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx := as(t, "reader")
	got, err := n.skills.GetSkill(ctx, &meshv1.GetSkillRequest{Name: "docs.pdf_forms", File: "references/fields.md"})
	if err != nil || string(got.GetFile()) != "all fields \xff" || strings.Join(got.GetSkill().GetFiles(), " ") != "references/fields.md" || got.GetSkill().GetSource() == "" {
		t.Errorf("GetSkill = %v, %v", got, err)
	}
	for _, file := range []string{"absent.md", "../private.txt", "/etc/passwd", "SKILL.md"} {
		_, err := n.skills.GetSkill(ctx, &meshv1.GetSkillRequest{Name: "docs.pdf_forms", File: file})
		wantCode(t, err, mesh.NotFound, "references/fields.md")
	}
	_, err = n.skills.GetSkill(as(t, "bob"), &meshv1.GetSkillRequest{Name: "docs.pdf_forms", File: "references/fields.md"})
	wantCode(t, err, mesh.NotFound, "Skill not found")
}
