package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	httpskill "agentmesh/skills/http"
)

func (a *app) skillsValidateCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate FILE|FOLDER...",
		Short: "Check skill files, without a mesh",
		Long: `Check skill files as a mesh does that loads them, and their request templates. What
is wrong is printed as FILE:LINE: problem and remedy, and the exit code is 1 then.

A folder is one of skills, with a folder for each domain, or that of one domain, or a
skill in the Agent Skills format (a folder with a SKILL.md that has a name). A file
outside of such folders is a draft: its text is checked, and where it belongs is
printed.`,
		Example: `  mesh skills validate skills
  mesh skills validate skills/mail/send.md skills/crm
  mesh skills validate --json skills`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("there is nothing to check; name files or folders")
			}
			return nil
		},
		RunE: a.action(func(_ context.Context, args []string) error {
			var all checked
			for _, arg := range args {
				all.add(check(arg))
			}
			if asJSON {
				if err := printAll(a, all.problems...); err != nil {
					return err
				}
			} else {
				a.printf("%s", all.text())
			}
			if len(all.problems) > 0 {
				return errTaskFailed
			}
			return nil
		}),
	}
	a.structured(cmd, &asJSON, "print each problem as one line of JSON")
	return cmd
}

// checked is what came of checking some files.
type checked struct {
	skills, domains int
	problems        []*meshv1.SkillProblem
	// drafts says of valid files that are in no skills folder where they belong.
	drafts []string
}

func (c *checked) add(more checked) {
	c.skills, c.domains = c.skills+more.skills, c.domains+more.domains
	c.problems, c.drafts = append(c.problems, more.problems...), append(c.drafts, more.drafts...)
}

// text is what a person is told.
func (c *checked) text() string {
	var b strings.Builder
	for _, p := range c.problems {
		b.WriteString(problemLine(p) + "\n")
	}
	for _, d := range c.drafts {
		b.WriteString(oneLine(d) + "\n")
	}
	b.WriteString(counted(c.skills, "valid skill"))
	if c.domains > 0 {
		b.WriteString(", " + counted(c.domains, "valid domain text"))
	}
	if n := len(c.problems); n > 0 {
		b.WriteString(", " + counted(n, "problem"))
	}
	return b.String() + "\n"
}

// wrong is one problem of a file as the user named it.
func wrong(file, detail string) checked {
	return checked{problems: []*meshv1.SkillProblem{{Path: file, Detail: detail}}}
}

// check checks a file or a folder.
func check(arg string) checked {
	if arg == "" {
		return wrong(`""`, "is no path; name a file or a folder")
	}
	whole, err := filepath.Abs(arg)
	if err != nil {
		return wrong(arg, "is not a path that can be followed")
	}
	info, err := os.Stat(whole)
	switch {
	case err != nil:
		return wrong(arg, "is not there or cannot be read; check the path and its permissions")
	case info.IsDir() && isUnit(whole):
		// The folder's name counts: it is read from above.
		return checkFolder(arg, filepath.Dir(whole), filepath.Base(whole))
	case info.IsDir():
		return checkFolder(arg, whole)
	case info.Size() > skill.MaxFile || !info.Mode().IsRegular():
		return wrong(arg, "is no skill file: those are regular files of at most 256 KiB")
	}
	return checkFile(arg, whole)
}

// checkFolder is checkTree for a folder, in which something is to be checked.
func checkFolder(arg, root string, keep ...string) checked {
	found := checkTree(arg, root, keep...)
	if found.skills+found.domains+len(found.problems) == 0 {
		return wrong(arg, "has no skills; they are in DOMAIN/ACTION.md below a folder of skills")
	}
	return found
}

// isUnit reports whether the folder is a domain's or that of one skill, rather
// than a folder of domains.
func isUnit(dir string) bool {
	if info, err := os.Stat(filepath.Join(dir, "SKILL.md")); err == nil && !info.IsDir() {
		return true
	}
	list, err := os.ReadDir(dir)
	pages := false
	for _, d := range list {
		if d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			return false
		}
		pages = pages || filepath.Ext(d.Name()) == ".md" && d.Name() != "README.md"
	}
	return err == nil && pages
}

// checkFile checks one file. Its place counts where it is in a domain's folder
// or its own.
func checkFile(arg, whole string) checked {
	dir, name := filepath.Split(whole)
	dir = filepath.Clean(dir)
	if name == "SKILL.md" {
		return checkTree(arg, filepath.Dir(dir), filepath.Base(dir), name)
	}
	data, err := os.ReadFile(whole)
	if err != nil {
		return wrong(arg, "cannot be read; check its permissions")
	}
	s, err := skill.Parse("", data)
	if err != nil {
		return pathless(arg, mesh.DetailOf(err))
	}
	if s.Domain == filepath.Base(dir) || isDomain(dir) {
		return checkTree(arg, filepath.Dir(dir), filepath.Base(dir), name)
	}
	found := checked{skills: 1, problems: checkHandler(arg, s)}
	if len(found.problems) > 0 {
		return checked{problems: found.problems}
	}
	found.drafts = []string{arg + ": is " + s.Name + " and belongs to " + s.Path + " in a skills folder"}
	return found
}

// pathless is the problem that skill.Parse tells of a file without a path, as
// ":LINE: DETAIL" or ": DETAIL".
func pathless(file, text string) checked {
	found := wrong(file, strings.TrimPrefix(text, ": "))
	if m := lineAndDetail.FindStringSubmatch(text); m != nil {
		if line, err := strconv.ParseInt(m[1], 10, 32); err == nil {
			found.problems[0].Line, found.problems[0].Detail = int32(line), m[2]
		}
	}
	return found
}

var lineAndDetail = regexp.MustCompile(`^:(\d+): (.*)$`)

// isDomain reports whether the folder has a SKILL.md about a domain.
func isDomain(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "SKILL.md"))
	if err != nil {
		return false
	}
	_, err = skill.ParseIndex(filepath.Base(dir)+"/SKILL.md", data)
	return err == nil
}

// checkTree loads what is below root, or only the folder of it that keep names,
// or only a file there, as a mesh does. arg is how the user calls what is kept.
func checkTree(arg, root string, keep ...string) checked {
	catalog, problems := skill.Load(part{os.DirFS(root), keep})
	// Below a folder that is kept, names go on after its own.
	named := func(file string) string {
		rest := strings.TrimPrefix(strings.TrimPrefix(file, path.Join(keep...)), "/")
		return filepath.Join(arg, filepath.FromSlash(rest))
	}
	var found checked
	for _, p := range problems {
		found.problems = append(found.problems, &meshv1.SkillProblem{Path: named(p.Path), Line: int32(p.Line), Field: p.Field, Detail: p.Detail}) // #nosec G115 -- a line of a file of at most 256 KiB
	}
	for _, s := range catalog.List() {
		if bad := checkHandler(named(s.Path), s); len(bad) > 0 {
			found.problems = append(found.problems, bad...)
			continue
		}
		found.skills++
	}
	for _, d := range catalog.Domains() {
		if d.Body != "" || d.Skills == 0 {
			found.domains++
		}
	}
	return found
}

// checkHandler checks that there is the skill's handler, and the request template
// of a skill that is one.
func checkHandler(file string, s *skill.Skill) []*meshv1.SkillProblem {
	if p := skill.CheckHandler(s, installed()); p != nil {
		return []*meshv1.SkillProblem{{Path: file, Line: int32(p.Line), Field: p.Field, Detail: p.Detail}} // #nosec G115 -- a line of a file of at most 256 KiB
	}
	if s.Handler != httpskill.Handler {
		return nil
	}
	err := httpskill.Check(s)
	if err == nil {
		return nil
	}
	line := int32(1)
	for i, text := range bytes.Split(s.Source, []byte("\n")) {
		if requestBlock.Match(text) {
			line = int32(i + 1) // #nosec G115 -- a line of a file of at most 256 KiB
			break
		}
	}
	return []*meshv1.SkillProblem{{Path: file, Line: line, Field: mesh.FieldOf(err), Detail: mesh.FieldOf(err) + " " + mesh.DetailOf(err)}}
}

var requestBlock = regexp.MustCompile("^```+ *http[ \t\r]*$")

// A part is a file system of which only one folder is there, or one file in
// one folder.
type part struct {
	fs.FS
	keep []string
}

// ReadDir implements [fs.ReadDirFS].
func (p part) ReadDir(dir string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(p.FS, dir)
	depth := 0
	if dir != "." {
		depth = strings.Count(dir, "/") + 1
	}
	if depth < len(p.keep) {
		list = slices.DeleteFunc(list, func(d fs.DirEntry) bool { return d.Name() != p.keep[depth] })
	}
	return list, err
}
