package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the path of this module.
var module = strings.TrimSuffix(reflect.TypeFor[pkg]().PkgPath(), "/mesh/internal/archtest")

// A pkg is one folder of Go files.
type pkg struct {
	path  string // within the module, "mesh/edge"
	files []file
}

type file struct {
	name string
	test bool
	ast  *ast.File
	fset *token.FileSet
}

// product returns the files that are not tests.
func (p pkg) product() []file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f file) bool { return f.test })
}

// imports returns the paths that the file imports.
func (f file) imports(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	return paths
}

// load parses every Go file of the module: what is before its code and, in
// pure packages, the code too. It is done once, and nobody changes what is returned.
func load(t *testing.T) []pkg {
	t.Helper()
	all, err := loaded(moduleRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var loaded = once(func(root string) ([]pkg, error) {
	byPath := map[string]*pkg{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			ofOthers := err == nil // a module of its own
			if skipped := d.Name() == "testdata" || name != root && (ofOthers || strings.HasPrefix(d.Name(), ".")); skipped {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(rel))
		mode := parser.ParseComments | parser.ImportsOnly
		if matches(dir, pure) {
			mode = parser.ParseComments | parser.SkipObjectResolution
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, name, nil, mode)
		if err != nil {
			return err
		}
		if byPath[dir] == nil {
			byPath[dir] = &pkg{path: dir}
		}
		byPath[dir].files = append(byPath[dir].files, file{filepath.ToSlash(rel), strings.HasSuffix(name, "_test.go"), parsed, fset})
		return nil
	})
	all := make([]pkg, 0, len(byPath))
	for _, p := range byPath {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b pkg) int { return strings.Compare(a.path, b.path) })
	return all, err
})

// once has f asked once for each name. Tests of this package run one after the other.
func once[T any](f func(name string) (T, error)) func(name string) (T, error) {
	known := map[string]T{}
	return func(name string) (T, error) {
		is, there := known[name]
		if there {
			return is, nil
		}
		is, err := f(name)
		if err == nil {
			known[name] = is
		}
		return is, err
	}
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above this package")
		}
		dir = up
	}
}

// matches reports whether name is one of patterns; "a/..." is all below a.
func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if below, ok := strings.CutSuffix(p, "..."); ok {
			return strings.HasPrefix(name, below)
		}
		return p == name
	})
}

// ours returns the part of an import path within this module.
func ours(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func generated(path string) bool { return matches(path, []string{"gen", "gen/..."}) }

// row finds a package in the tables.
func row(path string) (layer, bool) {
	if l, ok := layers[path]; ok {
		return l, true
	}
	l, ok := kits[path]
	return l, ok
}

// mayImport decides one import of product code or of a kit, and says why not.
func mayImport(from string, to string) (reason string) {
	if _, isKit := kits[to]; isKit {
		if _, ok := kits[from]; !ok {
			return "it is for tests"
		}
	}
	if self, _ := row(from); !matches(to, self.imports) {
		return "the table does not allow it"
	}
	return ""
}

// mayTestImport decides one import of a test of package from.
func mayTestImport(from string, to string) (reason string) {
	_, isKit := kits[to]
	if to == from || isKit || generated(to) || matches(to, testDoubles) {
		return ""
	}
	self, _ := row(from)
	target, known := row(to)
	switch {
	case !known:
		return "it is not in the table"
	case target.level > self.level:
		return "it is on a higher level"
	}
	return ""
}

func TestEveryImportPointsDownTheTable(t *testing.T) {
	for _, p := range load(t) {
		if generated(p.path) {
			continue
		}
		_, ok := row(p.path)
		if !ok {
			t.Errorf("package %s is not in the table: decide what it may import and add it to layers", p.path)
			continue
		}
		for _, f := range p.files {
			for _, imported := range f.imports(t) {
				to, ok := ours(imported)
				if !ok {
					continue
				}
				reason := mayImport(p.path, to)
				if f.test {
					reason = mayTestImport(p.path, to)
				}
				if reason != "" {
					t.Errorf("%s imports %s: %s", f.name, to, reason)
				}
			}
		}
	}
}

// What the table names exists, each part in a package of its own (S3-077).
func TestTheTableItselfPointsDown(t *testing.T) {
	exists := map[string]bool{}
	for _, p := range load(t) {
		exists[p.path] = true
	}
	for _, table := range []map[string]layer{layers, kits} {
		for name, l := range table {
			if !exists[name] {
				t.Errorf("%s is in the table and does not exist", name)
			}
			for _, to := range l.imports {
				if strings.HasSuffix(to, "/...") || generated(to) {
					continue
				}
				target, ok := row(to)
				if _, isKit := kits[name]; !ok || !isKit && kits[to].level > 0 {
					t.Errorf("%s may import %s, which is not in the table, or for tests", name, to)
				}
				if target.level > l.level {
					t.Errorf("%s (level %d) may import %s (level %d)", name, l.level, to, target.level)
				}
			}
		}
	}
}

// The mesh is a library: its programs hand it their agents and skills.
func TestTheMeshKnowsNoAgentSkillOrProgram(t *testing.T) {
	above := []string{"agentcards", "agents/...", "cmd/...", "skills", "skills/..."}
	for _, p := range load(t) {
		if !matches(p.path, []string{"mesh", "mesh/..."}) {
			continue
		}
		for _, f := range p.files {
			for _, imported := range f.imports(t) {
				if to, ok := ours(imported); ok && matches(to, above) {
					t.Errorf("%s imports %s", f.name, to)
				}
			}
		}
	}
}

func TestLibrariesStayAtHome(t *testing.T) {
	used := map[string]bool{}
	for _, p := range load(t) {
		for _, f := range p.files {
			for _, imported := range f.imports(t) {
				for library, fence := range fences {
					if imported != library && !strings.HasPrefix(imported, library+"/") {
						continue
					}
					used[library] = true
					if !matches(p.path, fence.homes) && (!f.test || !fence.tests) {
						t.Errorf("%s imports %s, whose home is %v", f.name, imported, fence.homes)
					}
				}
			}
		}
	}
	if !used["google.golang.org/grpc"] {
		t.Error("nobody imports grpc: this test looks at the wrong files")
	}
}

func TestThePureCoreHasNoClockNoChanceAndNoOutside(t *testing.T) {
	for _, p := range load(t) {
		if !matches(p.path, pure) {
			continue
		}
		for _, f := range p.product() {
			for _, imported := range f.imports(t) {
				if matches(imported, impureImports) {
					t.Errorf("%s imports %s", f.name, imported)
				}
			}
			for _, call := range clockUses(f) {
				t.Errorf("%s: a pure package reads the clock", call)
			}
		}
	}
}

// clockUses returns the positions at which f uses package time as a clock,
// whatever name it imports it under.
func clockUses(f file) []string {
	name := ""
	for _, spec := range f.ast.Imports {
		if spec.Path.Value == `"time"` {
			name = "time"
			if spec.Name != nil {
				name = spec.Name.Name
			}
		}
	}
	var at []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == name && slices.Contains(clockCalls, sel.Sel.Name) {
			at = append(at, f.fset.Position(sel.Pos()).String())
		}
		return true
	})
	return at
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range load(t) {
		if generated(p.path) || len(p.product()) == 0 {
			continue
		}
		var docs []string
		for _, f := range p.product() {
			if text := f.ast.Doc.Text(); text != "" {
				docs = append(docs, text)
			}
		}
		name := p.product()[0].ast.Name.Name
		want := "Package " + name + " "
		if name == "main" {
			want = "Command " + path.Base(p.path) + " "
		}
		switch {
		case len(docs) == 0:
			t.Errorf("package %s has no package comment", p.path)
		case len(docs) > 1:
			t.Errorf("package %s has %d package comments", p.path, len(docs))
		case !strings.HasPrefix(docs[0], want):
			t.Errorf("the comment of package %s should begin %q", p.path, want)
		}
	}
}
