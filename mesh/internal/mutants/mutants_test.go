//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const module = "../../.."

// The tests that run mutants need this program beside them, to limit what a
// mutant may take: it is the test binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "-limited" {
		fmt.Fprintln(os.Stderr, limited(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Every operator makes its mutants, which say where they are and what differs.
func TestOperators(t *testing.T) {
	source := "package p\n\nfunc f(a []int, err error) (int, error) {\n%s\n}\n"
	for body, want := range map[string]string{
		"if len(a) < 3 { g() }":            "< to <=|<=;condition negated|!(len(a) < 3);branch dropped|;off by one|4;statement dropped|",
		"for !ok { continue }":             "without !|;break and continue|break",
		"return 0, err":                    "error swallowed|nil;off by one|1",
		"x := a == b && c":                 "== to !=|!=;&& to |||||",
		"defer g(); n++":                   "statement dropped|;statement dropped|",
		"return min(1, 2), nil":            "min and max|max;off by one|2;off by one|3",
		"switch { case ok: g() }":          "case dropped|",
		`return 0, Errorf("%d", 1+1)`:      "off by one|1", // words are not changed
		`if x { d.Logger.Info("x") }; n--`: "statement dropped|",
	} {
		found, err := mutate("p.go", []byte(strings.Replace(source, "%s", body, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if found[0].what != "returns early" || !strings.Contains(string(found[0].mutated()), "return *new(int), *new(error)") {
			t.Errorf("%s: %s", body, found[0].mutated())
		}
		var got []string
		for _, m := range found[1:] {
			got = append(got, m.what+"|"+m.text)
			if m.place() != "p.go:4" || !strings.Contains(m.diff(), "    -"+body+"\n") {
				t.Errorf("%s: %s\n%s", body, m.place(), m.diff())
			}
		}
		if strings.Contains(body, "Logger") && len(got) > 1 || strings.Contains(body, "Errorf") && len(got) > 1 {
			t.Errorf("%s: words are for nobody to notice: %q", body, got)
		}
		for w := range strings.SplitSeq(want, ";") {
			if !slices.Contains(got, w) {
				t.Errorf("%s: no %q in %q", body, w, got)
			}
		}
	}
}

// All mutants of the guarantees fit the tree: what each replaces is there once.
// Two of one package, which is built and tested in seconds, die here; make mutants runs all.
func TestMutantsOfTheGuaranteesFitAndSomeDie(t *testing.T) {
	all, err := named(module, filepath.Join(module, guarantees))
	if err != nil || len(all) < 20 {
		t.Fatalf("%d mutants: %v", len(all), err)
	}
	if testing.Short() {
		t.Skip("it runs go test")
	}
	c := config{root: module, named: true, match: "torn: ", only: 2, quick: true, seed: rand.Uint64(), limit: 10 * time.Minute, workers: 2}
	if err := c.run(t.Context()); err != nil {
		t.Errorf("seed %d: %v", c.seed, err)
	}
}

// What survives is shown and fails a run of the guarantees; a mutant that does
// not compile has no verdict; nothing is left in the tree.
func TestARunnerTellsSurvivorsFromWhatDoesNotCompile(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module x\n\ngo 1.26\n",
		"p/p.go":       "package p\n\nfunc Less(a, b int) bool {\n\tif a == 7 {\n\t\treturn b > -1\n\t}\n\treturn a < b\n}\n",
		"p/p_test.go":  "package p\n\nimport \"testing\"\n\nfunc TestLess(t *testing.T) {\n\tif !Less(1, 2) || Less(2, 1) {\n\t\tt.Fail()\n\t}\n}\n",
		"q/q.go":       "package q\n\nimport \"x/p\"\n\nfunc Same(a int) bool { return !p.Less(a, a) }\n",
		"q/q_test.go":  "package q\n\nimport \"testing\"\n\nfunc TestSame(t *testing.T) {\n\tif !Same(1) {\n\t\tt.Fail()\n\t}\n}\n",
		"r/r.go":       "package r\n",
		"r/r_test.go":  "package r\n",
		"p/testdata/x": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{root: root, temp: t.TempDir(), self: self}
	if err := r.calibrate(t.Context(), []string{"p"}, []string{"p", "q", "r"}, 2); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(root, "p/p.go"))
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(source), "<")
	all := r.judges(&mutant{file: "p/p.go", source: source, from: at})
	if len(all) != 2 || all[0].pkg != "./p" || all[1].pkg != "./q" || !slices.Equal(all[1].tests, []string{"TestSame"}) {
		t.Fatalf("it is judged by %v", all)
	}
	if none := r.judges(&mutant{file: "p/p.go", source: source, from: strings.Index(string(source), "-1")}); len(none) != 0 {
		t.Errorf("what no test runs is judged by %v", none)
	}
	for i, tt := range []struct {
		text   string
		suites []suite
		want   verdict
	}{
		{"<=", all, killed}, {"<=", all[:1], survived}, {">", all[:1], killed}, {"&&", all, invalid},
	} {
		m := &mutant{file: "p/p.go", source: source, from: at, to: at + 1, text: tt.text}
		if v, _, err := r.test(t.Context(), i, m, tt.suites); v != tt.want || err != nil {
			t.Errorf("%s by %v: %v, %v; want %v", tt.text, tt.suites, v, err, tt.want)
		}
	}
	if now, err := os.ReadFile(filepath.Join(root, "p/p.go")); err != nil || string(now) != string(source) {
		t.Errorf("the tree has %s, %v", now, err)
	}
}
