package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// noticesFile is the file of an archive with the licences of what is inside.
const noticesFile = "THIRD-PARTY-LICENSES.txt"

// stage puts what an archive has into the tree of the target.
func (r *release) stage(ctx context.Context, t target) error {
	tree := r.tree(t)
	if err := os.CopyFS(tree, os.DirFS(r.path("manuals"))); err != nil {
		return err
	}
	binary := filepath.Join(tree, t.binary())
	if err := r.build(ctx, t, binary); err != nil {
		return err
	}
	notices, err := r.notices(ctx, t)
	if err != nil {
		return err
	}
	if err := write(filepath.Join(tree, noticesFile), notices, 0o644); err != nil {
		return err
	}
	more := []string{"LICENSE", "README.md", "CHANGELOG.md", "deploy/compose.yaml", "deploy/systemd/agentmesh.service"}
	err = fs.WalkDir(os.DirFS(r.root), "docs", func(name string, d fs.DirEntry, err error) error {
		if name == "docs/examples" { // the tutorials show them whole
			return fs.SkipDir
		}
		if err == nil && path.Ext(name) == ".md" {
			more = append(more, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range more {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		if err := write(filepath.Join(tree, name), data, 0o644); err != nil {
			return err
		}
	}
	return opened(tree)
}

// opened makes a tree readable by all, whatever the umask of who builds and the system say.
func opened(tree string) error {
	all, err := files(tree, "")
	for _, f := range all {
		err = errors.Join(err, os.Chmod(filepath.Join(tree, f.path), f.mode.Perm()))
	}
	return err
}

// A module is one that is in the binary, with the folders of its packages that are.
type module struct {
	name, root string
	folders    []string
}

// modules lists those that are in the mesh of a target, and Go itself, which is in it, too.
func (r *release) modules(ctx context.Context, t target) ([]*module, error) {
	const of = `{{with .Module}}{{if not .Main}}{{with or .Replace .}}{{.Path}} {{.Version}}|{{.Dir}}{{end}}|{{$.Dir}}{{end}}{{end}}`
	said, err := r.golang(ctx, t, "list", "-deps", "-f", of, "./cmd/mesh")
	if err != nil {
		return nil, err
	}
	said = strings.ReplaceAll(said, "\r", "")
	goroot, err := r.golang(ctx, t, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	version, err := r.golang(ctx, t, "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	all := []*module{{"Go " + version, goroot, []string{goroot}}}
	for line := range strings.Lines(said) {
		parts := strings.Split(strings.TrimSpace(line), "|")
		if len(parts) != 3 {
			continue
		}
		at := slices.IndexFunc(all, func(m *module) bool { return m.name == parts[0] })
		if at < 0 {
			at, all = len(all), append(all, &module{name: parts[0], root: parts[1]})
		}
		all[at].folders = append(all[at].folders, parts[2])
	}
	slices.SortFunc(all, func(a, b *module) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// legal are the names of files with what must go along with a binary.
var legal = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|notice|patents)([.-].*)?$|[.-]licen[cs]e(\.(txt|md))?$`)

// notices are the licences of all that is in the mesh of a target. A module without one is an
// error: it must not be given to others.
func (r *release) notices(ctx context.Context, t target) ([]byte, error) {
	all, err := r.modules(ctx, t)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("mesh " + r.version + " for " + t.os + "/" + t.arch + " has the following inside.\n")
	for _, m := range all {
		files, err := m.licences()
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := os.ReadFile(filepath.Join(m.root, file))
			if err != nil {
				return nil, err
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(data), "\r\n", "\n"))
			fmt.Fprintf(&b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), m.name, filepath.ToSlash(file), text)
		}
	}
	return []byte(b.String()), nil
}

// licences are the files of the module, relative to its root, that are about what is in the
// binary: those of the folders of its packages, and of the folders above them.
func (m *module) licences() ([]string, error) {
	var found []string
	seen := map[string]bool{}
	for _, folder := range m.folders {
		for !seen[folder] {
			seen[folder] = true
			entries, err := os.ReadDir(folder)
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				if e.Type().IsRegular() && legal.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
					name, err := filepath.Rel(m.root, filepath.Join(folder, e.Name()))
					if err != nil {
						return nil, err
					}
					found = append(found, name)
				}
			}
			if folder != m.root {
				folder = filepath.Dir(folder)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no licence in %s, so nobody may be given it", m.name, m.root)
	}
	slices.Sort(found)
	return found, nil
}

// contents lists what the binary is made of, for who looks after weaknesses and licences.
func (r *release) contents(ctx context.Context, t target) error {
	_, err := r.command(ctx, filepath.Join(r.root, "deploy", "dist"), nil, "go", "tool", "cyclonedx-gomod", "bin",
		"-json", "-licenses", "-std", "-noserial", "-notimestamp", "-version", r.version,
		"-output", filepath.Join(r.out, r.name(t.os+"_"+t.arch+".cdx.json")), filepath.Join(r.tree(t), t.binary()))
	return err
}
