package docs_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// guaranteesPage is made of guaranteesFile.
const (
	guaranteesPage = "guarantees.md"
	guaranteesFile = "../mesh/internal/mutants/testdata/guarantees.yaml"
)

// A guarantee is one of the file; make mutants reads the same.
type guarantee struct {
	ID, Title, Promise string
	Tests              []string
	Mutants            []struct {
		What, File, Old, New string
		By                   []string
	}
}

// Each guarantee has tests that exist, and mutants that these tests kill: that
// they do is for make mutants to say.
func TestTheGuaranteesPageNamesTestsThatExist(t *testing.T) {
	data, err := os.ReadFile(guaranteesFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []guarantee
	if err := yaml.Unmarshal(data, &all); err != nil || len(all) == 0 {
		t.Fatalf("%d guarantees: %v", len(all), err)
	}
	known := map[string][]string{}
	for _, g := range all {
		if g.ID == "" || g.Title == "" || g.Promise == "" || len(g.Tests) == 0 || len(g.Mutants) == 0 {
			t.Errorf("the guarantee %q needs a title, a promise, tests and a mutant", g.ID)
		}
		for _, name := range g.Tests {
			dir, test, _ := strings.Cut(filepath.Base(name), ".")
			dir = filepath.Join(filepath.Dir(name), dir)
			if known[dir] == nil {
				known[dir] = testsIn(t, filepath.Join(moduleRoot, dir))
			}
			if !slices.Contains(known[dir], test) {
				t.Errorf("%s: there is no test %s", g.ID, name)
			}
		}
		for _, m := range g.Mutants {
			if len(m.By) == 0 || slices.ContainsFunc(m.By, func(name string) bool { return !slices.Contains(g.Tests, name) }) {
				t.Errorf("%s: the mutant %q is to be killed by %v, which must be some of its tests", g.ID, m.What, m.By)
			}
		}
	}
	page, err := os.ReadFile(guaranteesPage)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	switch want := guarantees(all); {
	case t.Failed() || bytes.Equal(page, want):
	case *update:
		if err := os.WriteFile(guaranteesPage, want, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/%s is not up to date: run make guarantees", guaranteesPage)
	}
}

// guarantees is the page.
func guarantees(all []guarantee) []byte {
	var b bytes.Buffer
	b.WriteString(`---
search: false
---
# Guarantees

What the mesh promises, whatever happens to it, and how that is proved. Each
promise has tests, and mutants: changes of the code that would break it, each of
which one of the tests notices. Both are kept in one file,
` + "`mesh/internal/mutants/testdata/guarantees.yaml`" + `, of which this page is made:
` + "`make guarantees`" + ` writes it, ` + "`make mutants`" + ` sees that every mutant dies, and
` + "`make chaos`" + ` holds a whole mesh to the promises under kill -9, full and failing disks. How to work with
them is in [operations.md](operations.md#proofs).
`)
	for _, g := range all {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\nProved by:\n\n", g.Title, g.Promise)
		for _, name := range g.Tests {
			fmt.Fprintf(&b, "- `%s`\n", name)
		}
		b.WriteString("\nMutants that die:\n\n")
		for _, m := range g.Mutants {
			fmt.Fprintf(&b, "- %s (`%s`)\n", m.What, m.File)
		}
	}
	return b.Bytes()
}

// testsIn returns the tests of a folder.
func testsIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{""}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && isTest(f.Name.Name) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
