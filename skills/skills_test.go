package skills_test

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/skill"
	"agentmesh/skills"
	"agentmesh/skills/calendar"
	"agentmesh/skills/knowledge"
	"agentmesh/skills/mail"
	"agentmesh/skills/system"
	"agentmesh/skills/tasks"
)

func load(t *testing.T) *skill.Catalog {
	t.Helper()
	c, problems := skill.Load(skills.FS)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return c
}

// S3-075, S3-078: every page is valid, names a handler that exists, and every
// handler has a page.
func TestFS_agreesWithTheHandlers(t *testing.T) {
	ix, err := knowledge.Open(fstest.MapFS{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ix.Close() })
	handlers := map[string]skill.Handler{}
	for _, domain := range []map[string]skill.Handler{
		calendar.Handlers(t.TempDir()), knowledge.Handlers(ix), mail.Handlers(t.TempDir()), tasks.Handlers(),
		system.Handlers(func(context.Context, *skill.Skill) error { return nil }),
	} {
		maps.Copy(handlers, domain)
	}
	var named []string
	for _, s := range load(t).List() {
		named = append(named, s.Handler)
	}
	slices.Sort(named)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(handlers)), named); diff != "" {
		t.Error(diff)
	}
}

// S3-074: every domain says what it is for, and lists the skills it has.
func TestFS_describesEveryDomain(t *testing.T) {
	c := load(t)
	domains := c.Domains()
	if len(domains) != 5 {
		t.Errorf("domains are %v", domains)
	}
	for _, d := range domains {
		if d.Description == "" {
			t.Errorf("%s has no SKILL.md", d.Domain)
		}
		for _, s := range c.Match([]string{d.Domain + ".*"}) {
			if !strings.Contains(d.Body, "| "+s.Name+" |") {
				t.Errorf("%s/SKILL.md does not list %s", d.Domain, s.Name)
			}
		}
	}
}

// Man page and front matter name the same flags.
func TestFS_documentsEveryParameter(t *testing.T) {
	for _, s := range load(t).List() {
		for _, part := range []string{"\n## Usage\n", "\n## Flags\n", "\n## Behavior\n", "\n## Examples\n"} {
			if !strings.Contains(s.Body, part) {
				t.Errorf("%s lacks %q", s.Path, part)
			}
		}
		_, flags, _ := strings.Cut(s.Body, "\n## Flags\n")
		flags, _, _ = strings.Cut(flags, "\n## ")
		var documented []string
		for line := range strings.SplitSeq(flags, "\n") {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--"); ok {
				documented = append(documented, strings.Fields(name)[0])
			}
		}
		var declared []string
		for _, p := range s.Parameters {
			declared = append(declared, p.Name)
			if p.Description == "" {
				t.Errorf("%s: %s has no description", s.Path, p.Name)
			}
			if required := strings.Contains(flagLine(flags, p.Name), "(required)"); required != p.Required {
				t.Errorf("%s: page and front matter disagree on whether %s is required", s.Path, p.Name)
			}
		}
		slices.Sort(documented)
		slices.Sort(declared)
		if diff := cmp.Diff(declared, documented); diff != "" {
			t.Errorf("%s: %s", s.Path, diff)
		}
	}
}

func flagLine(flags, name string) string {
	_, rest, _ := strings.Cut(flags, "--"+name+" ")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// Nothing but pages is embedded.
func TestFS_holdsPagesOnly(t *testing.T) {
	err := fs.WalkDir(skills.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(name, ".md") {
			t.Errorf("%s is embedded", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
