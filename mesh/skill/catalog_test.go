package skill_test

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/skill"
)

func page(name, description, tags string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\ntags: [" + tags + "]\n---\n\nbody\n"
}

func files(named map[string]string) fs.FS {
	out := make(fstest.MapFS)
	for name, data := range named {
		out[name] = &fstest.MapFile{Data: []byte(data)}
	}
	return out
}

func names(skills []*skill.Skill) []string {
	var out []string
	for _, s := range skills {
		out = append(out, s.Name)
	}
	return out
}

func load(t *testing.T, fsys ...fs.FS) *skill.Catalog {
	t.Helper()
	c, problems := skill.Load(fsys...)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return c
}

func sample(t *testing.T) *skill.Catalog {
	return load(t, files(map[string]string{
		"README.md":       "no skill",
		"mail/README.md":  "no skill",
		"mail/SKILL.md":   "---\ndomain: mail\ndescription: Electronic mail\n---\n# Mail\n",
		"mail/send.md":    page("mail.send", "Send a message", "email"),
		"mail/search.md":  page("mail.search", "Find messages", "email, inbox"),
		"tasks/create.md": page("tasks.create", "Create a task", "todo"),
		"mail/logo.png":   "\x89PNG",
		".git/x/y.md":     "broken",
	}))
}

// S3-071, S3-072, S3-073, S3-074, S3-075: everything in the folders is found at
// load, by name and by domain, and each domain has a description.
func TestLoad_indexesSkillsAndDomains(t *testing.T) {
	c := sample(t)
	if diff := cmp.Diff([]string{"mail.search", "mail.send", "tasks.create"}, names(c.List())); diff != "" {
		t.Error(diff)
	}
	want := []skill.Index{
		{Domain: "mail", Description: "Electronic mail", Body: "# Mail", Skills: 2},
		{Domain: "tasks", Description: "Create a task", Skills: 1}, // has no SKILL.md
	}
	if diff := cmp.Diff(want, c.Domains()); diff != "" {
		t.Error(diff)
	}
	if s, ok := c.Get("mail.send"); !ok || s.Path != "mail/send.md" {
		t.Errorf("Get found %+v, %v", s, ok)
	}
	for _, name := range []string{"mail.SKILL", "mail.", "mail", "", "absent.send"} {
		if s, ok := c.Get(name); ok {
			t.Errorf("Get(%q) found %s", name, s.Name)
		}
	}
	if diff := cmp.Diff([]string{"mail.search", "mail.send"}, names(c.InDomain("mail"))); diff != "" || c.InDomain("absent") != nil {
		t.Errorf("InDomain: %s", diff)
	}
	if ix, ok := c.Domain("mail"); !ok || ix != want[0] {
		t.Errorf("Domain(mail) = %+v, %v", ix, ok)
	}
	if ix, ok := c.Domain("absent"); ok {
		t.Errorf("Domain(absent) = %+v", ix)
	}
	if diff := cmp.Diff([]skill.Index{{Domain: "mail", Description: "Electronic mail", Body: "# Mail", Skills: 1}}, c.MatchDomains([]string{"mail.send", "files.*"})); diff != "" {
		t.Errorf("MatchDomains: %s", diff)
	}
}

func TestLoad_keepsTheValidFilesAndReportsTheOthers(t *testing.T) {
	c, problems := skill.Load(files(map[string]string{
		"a/ok.md":     page("a.ok", "fine", ""),
		"a/SKILL.md":  "no front matter",
		"b/bad.md":    "---\nname: b.bad\n---\nx\n",
		"c/ok.md":     page("c.ok", "fine", ""),
		"c/sub/ok.md": page("c.ok", "again", ""),
		"top.md":      page("top.md", "x", ""),
	}))
	if diff := cmp.Diff([]string{"a.ok", "c.ok"}, names(c.List())); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, p := range problems {
		place, _, _ := strings.Cut(p.String(), ": ")
		got = append(got, place)
		if p.Detail == "" {
			t.Errorf("%s has no detail", place)
		}
	}
	if diff := cmp.Diff([]string{"a/SKILL.md:1", "b/bad.md:1", "c/sub/ok.md:1", "top.md"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoad_prefersTheEarlierFileSystem(t *testing.T) {
	mine := files(map[string]string{"a/x.md": page("a.x", "mine", ""), "b/y.md": "broken"})
	builtin := files(map[string]string{
		"a/x.md": page("a.x", "builtin", ""), "b/y.md": page("b.y", "builtin", ""), "c/z.md": page("c.z", "builtin", ""),
	})
	c, problems := skill.Load(mine, builtin)
	if len(problems) != 1 || problems[0].Path != "b/y.md" {
		t.Errorf("problems are %v", problems)
	}
	var got []string
	for _, s := range c.List() {
		got = append(got, s.Name+" "+s.Description)
	}
	if diff := cmp.Diff([]string{"a.x mine", "b.y builtin", "c.z builtin"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoad_reportsAFolderThatIsNotThere(t *testing.T) {
	_, problems := skill.Load(brokenFS{})
	if len(problems) != 1 || !strings.Contains(problems[0].String(), "cannot be read") {
		t.Errorf("problems are %v", problems)
	}
}

type brokenFS struct{}

func (brokenFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// S3-016: search is by words in name, description and tags, in any case.
func TestCatalog_Search(t *testing.T) {
	c := sample(t)
	for query, want := range map[string][]string{
		"":                   {"mail.search", "mail.send", "tasks.create"},
		"EMAIL":              {"mail.search", "mail.send"},
		"inbox":              {"mail.search"},
		"send email message": {"mail.send", "mail.search"},
		"todo":               {"tasks.create"},
		"weather":            nil,
	} {
		if diff := cmp.Diff(want, names(c.Search(query))); diff != "" {
			t.Errorf("%q: %s", query, diff)
		}
	}
}

func TestCatalog_Match(t *testing.T) {
	c := sample(t)
	for _, tt := range []struct{ patterns, want []string }{
		{[]string{"*"}, []string{"mail.search", "mail.send", "tasks.create"}},
		{[]string{"mail.*"}, []string{"mail.search", "mail.send"}},
		{[]string{"tasks.create", "mail.send", "mail.search", "mail.send"}, []string{"mail.search", "mail.send", "tasks.create"}},
		{[]string{"mai.*", "mail"}, nil},
		{nil, nil},
	} {
		if diff := cmp.Diff(tt.want, names(c.Match(tt.patterns))); diff != "" {
			t.Errorf("%q: %s", tt.patterns, diff)
		}
	}
}

func TestCatalog_changesUnderItsReaders(t *testing.T) {
	const n = 50
	c := new(skill.Catalog)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range n {
				s := &skill.Skill{Name: fmt.Sprintf("w%d.s%d", w, i), Domain: fmt.Sprintf("w%d", w)}
				c.Put(s)
				if got, ok := c.Get(s.Name); !ok || got != s {
					t.Errorf("%s is not there after Put", s.Name)
				}
				if i%2 == 1 {
					c.Remove(s.Name)
				}
			}
		})
		wg.Go(func() {
			for range n {
				list := c.List()
				for i := 1; i < len(list); i++ {
					if list[i-1].Name >= list[i].Name {
						t.Error("a reader saw an unsorted list")
					}
				}
				c.Domains()
			}
		})
	}
	wg.Wait()
	if got := len(c.List()); got != 4*n/2 {
		t.Errorf("%d skills remain, want %d", got, 4*n/2)
	}
}
