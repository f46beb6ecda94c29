//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A guarantee is one that docs/guarantees.md promises.
type guarantee struct {
	ID      string
	Mutants []struct {
		What, File, Old, New string
		By                   []string // tests, one of which must fail
		Hangs                bool     // by their time
	}
}

// named returns the mutants of the guarantees in the file. root is the module's.
func named(root, file string) ([]mutant, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []guarantee
	if err := yaml.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var out []mutant
	for _, g := range all {
		for _, n := range g.Mutants {
			source, err := os.ReadFile(filepath.Join(root, n.File))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", g.ID, err)
			}
			if c := strings.Count(string(source), n.Old); c != 1 || n.Old == "" {
				return nil, fmt.Errorf("%s: %q is %d times in %s; it must be there once", g.ID, n.Old, c, n.File)
			}
			at := strings.Index(string(source), n.Old)
			m := mutant{what: g.ID + ": " + n.What, file: n.File, source: source, from: at, to: at + len(n.Old), text: n.New, hangs: n.Hangs}
			for _, test := range n.By {
				pkg, name, ok := cutTest(test)
				if !ok {
					return nil, fmt.Errorf("%s: %q is not a test as mesh/edge.TestX", g.ID, test)
				}
				m.by = append(m.by, suite{pkg, []string{name}, short})
			}
			out = append(out, m)
		}
	}
	return out, nil
}

// cutTest splits mesh/edge.TestX.
func cutTest(s string) (pkg, name string, ok bool) {
	dot := strings.LastIndex(s, ".")
	if dot < 0 {
		return "", "", false
	}
	return "./" + s[:dot], s[dot+1:], true
}
