package skills_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/skills"
	"agentmesh/skills/calendar"
	"agentmesh/skills/files"
	"agentmesh/skills/knowledge"
	"agentmesh/skills/mail"
	"agentmesh/skills/markdown"
	"agentmesh/skills/memory"
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
	ix, err := knowledge.Open(fstest.MapFS{}, knowledge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ix.Close() })
	memories, notes := memory.Open(t.TempDir()), markdown.Open(t.TempDir())
	t.Cleanup(func() { _ = errors.Join(memories.Close(), notes.Close()) })
	handlers := map[string]skill.Handler{}
	for _, domain := range []map[string]skill.Handler{
		files.Handlers(t.TempDir()), markdown.Handlers(notes), memory.Handlers(memories),
		calendar.Handlers(t.TempDir()), knowledge.Handlers(ix), mail.Handlers(t.TempDir()), tasks.Handlers(),
		system.Handlers(),
	} {
		maps.Copy(handlers, domain)
	}
	var named []string
	for _, s := range load(t).List() {
		named = append(named, s.Handler)
	}
	slices.Sort(named)
	named = slices.Compact(named) // system.build_skill has two pages
	if diff := cmp.Diff(slices.Sorted(maps.Keys(handlers)), named); diff != "" {
		t.Error(diff)
	}
}

// S3-074: every domain says what it is for, and lists the skills it has.
func TestFS_describesEveryDomain(t *testing.T) {
	c := load(t)
	domains := c.Domains()
	indexes, err := fs.Glob(skills.FS, "*/SKILL.md")
	if err != nil || len(domains) != len(indexes) || len(domains) < 8 {
		t.Errorf("%d domains, of %v, %v", len(domains), indexes, err)
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

// S3-085, S3-157: a model that reads a page and nothing else calls the skill
// right: each line of its examples is a command that the executor takes as it
// is, and all its words have an effect.
func TestFS_givesExamplesThatWork(t *testing.T) {
	c := load(t)
	handled := 0
	handlers := map[string]skill.Handler{}
	for _, s := range c.List() {
		handlers[s.Handler] = skill.HandlerFunc(func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			handled++
			return &skill.Result{Content: "taken"}, nil
		})
	}
	x := skill.NewExecutor(skill.Config{Journal: skilltest.Journal{}, Lookup: skill.Lookup(c.Get), Handlers: handlers})
	for _, s := range c.List() {
		_, examples, _ := strings.Cut(s.Body, "\n## Examples\n")
		found := 0
		for line := range strings.Lines(examples) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			found++
			cmd, err := command.Parse(line)
			if err != nil {
				t.Errorf("%s: %v", s.Path, err)
				continue
			}
			if cmd.Skill != s.Name || cmd.Discovery() || cmd.Note() != "" {
				t.Errorf("%s: %q calls %q and has %q to say", s.Path, line, cmd.Skill, cmd.Note())
			}
			r := x.Execute(t.Context(), &skill.Call{Skill: cmd.Skill, Args: command.Args(cmd.Flags, s), Source: mesh.SourceCommand}, nil)
			if r.Failed() {
				t.Errorf("%s: %q is answered by %q", s.Path, line, r.Content)
			}
		}
		if found == 0 {
			t.Errorf("%s has no examples", s.Path)
		}
	}
	if handled < c.Len() {
		t.Errorf("%d examples of %d skills", handled, c.Len())
	}
}

// The commands in the prose of a page and of a SKILL.md name skills that there
// are, with flags that they have, and the notes on flags say what the front
// matter does: defaults and the values allowed.
func TestFS_saysNothingThatIsNotSo(t *testing.T) {
	c := load(t)
	pages := map[string]string{}
	for _, s := range c.List() {
		pages[s.Path] = s.Body
		_, flags, _ := strings.Cut(s.Body, "\n## Flags\n")
		flags, _, _ = strings.Cut(flags, "\n## ")
		for _, p := range s.Parameters {
			line := flagLine(flags, p.Name)
			if p.Default != "" && !strings.Contains(line, "(default: "+p.Default+")") {
				t.Errorf("%s: --%s is %q by default, which the page does not say: %s", s.Path, p.Name, p.Default, line)
			}
			if len(p.Enum) > 0 && !strings.Contains(line, "One of: "+strings.Join(p.Enum, ", ")) {
				t.Errorf("%s: --%s is one of %v, which the page does not say: %s", s.Path, p.Name, p.Enum, line)
			}
			if flag := p.Type == "flag"; flag != strings.Contains(line, "(boolean flag)") {
				t.Errorf("%s: page and front matter disagree on whether --%s is a flag", s.Path, p.Name)
			}
		}
	}
	for _, d := range c.Domains() {
		pages[d.Domain+"/SKILL.md"] = d.Body
	}
	for page, body := range pages {
		for _, m := range regexp.MustCompile("`([a-z_]+\\.[a-z_]+)( [^`]*)?`").FindAllStringSubmatch(body, -1) {
			s, ok := c.Get(m[1])
			if !ok {
				t.Errorf("%s speaks of %s, which is not there", page, m[1])
				continue
			}
			for _, f := range regexp.MustCompile(`--([a-z_-]+)`).FindAllStringSubmatch(m[2], -1) {
				if !slices.ContainsFunc(s.Parameters, func(p skill.Parameter) bool { return p.Name == f[1] }) {
					t.Errorf("%s gives %s a flag --%s, which it has not", page, m[1], f[1])
				}
			}
		}
	}
}
