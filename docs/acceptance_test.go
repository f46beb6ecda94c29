package docs_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the tests prove into acceptance.md")

// acceptancePage is the page, and its root the module's.
const (
	acceptancePage = "acceptance.md"
	moduleRoot     = ".."
)

var rowID = regexp.MustCompile(`S[0-4]-\d{3}`)

// TestTheAcceptancePageNamesTheTestsThatProveEachRow fails when a row has lost
// a test that the page says it had, which -update never hides: such a test is
// taken out of the page by hand, with the reason in the commit.
func TestTheAcceptancePageNamesTheTestsThatProveEachRow(t *testing.T) {
	page, err := os.ReadFile(acceptancePage)
	if err != nil {
		t.Fatal(err)
	}
	proofs := proofsInTree(t)
	var out bytes.Buffer
	known := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
		id := strings.TrimPrefix(cells[0], "| ")
		if len(cells) != 3 || !rowID.MatchString(id) {
			out.WriteString(line)
			continue
		}
		known[id] = true
		now := proofs[id]
		for _, had := range strings.Split(strings.TrimSpace(strings.TrimSuffix(cells[2], "|")), ", ") {
			if had != "" && !slices.Contains(now, had) {
				t.Errorf("%s lost its test %s: bring it back, or take it out of docs/%s if the row is proved elsewhere", id, had, acceptancePage)
			}
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", id, cells[1], strings.Join(now, ", "))
	}
	for _, id := range slices.Sorted(maps.Keys(proofs)) {
		if !known[id] && !background[id] {
			t.Errorf("%v names %s, which is no row of docs/%s", proofs[id], id, acceptancePage)
		}
	}
	switch {
	case t.Failed() || bytes.Equal(out.Bytes(), page):
	case *update:
		if err := os.WriteFile(acceptancePage, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/%s is not up to date: run make acceptance", acceptancePage)
	}
}

// proofsInTree returns, for each row that is named in a test, the tests that
// name it, as `mesh/edge.TestName`, or as the path of a script.
func proofsInTree(t *testing.T) map[string][]string {
	t.Helper()
	proofs := map[string][]string{}
	add := func(text, test string) {
		for _, id := range rowID.FindAllString(text, -1) {
			if !slices.Contains(proofs[id], test) {
				proofs[id] = append(proofs[id], test)
			}
		}
	}
	err := filepath.WalkDir(moduleRoot, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != moduleRoot && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(moduleRoot, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case strings.HasSuffix(rel, "_test.go"):
			return testsOf(name, rel, add)
		case strings.Contains(rel, "/testdata/") && d.Type().IsRegular() && !strings.Contains(rel, "/fuzz/"):
			data, err := os.ReadFile(name)
			add(string(data), "`"+rel+"`")
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tests := range proofs {
		slices.Sort(tests)
	}
	return proofs
}

// testsOf adds the tests of a file with their doc comments. What stands outside
// of all tests, as a helper's comment or a table, is the file's.
func testsOf(name, rel string, add func(text, test string)) error {
	source, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	rest := slices.Clone(source)
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !isTest(f.Name.Name) {
			continue
		}
		from := f.Pos()
		if f.Doc != nil {
			from = f.Doc.Pos()
		}
		begin, end := fset.Position(from).Offset, fset.Position(f.End()).Offset
		add(string(source[begin:end]), "`"+filepath.ToSlash(filepath.Dir(rel))+"."+f.Name.Name+"`")
		for i := begin; i < end; i++ {
			rest[i] = ' '
		}
	}
	add(string(rest), "`"+rel+"`")
	return nil
}

func isTest(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Fuzz", "Benchmark", "Example"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// background are rows that give reasons or name what may come, and describe no
// behaviour; tests may name them.
var background = map[string]bool{
	"S0-001": true, "S0-145": true, "S0-146": true, "S0-147": true, "S0-148": true, "S0-149": true,
	"S1-113": true, "S1-125": true,
	"S3-004": true, "S3-005": true, "S3-123": true, "S3-124": true, "S3-125": true, "S3-126": true,
	"S3-127": true, "S3-128": true, "S3-129": true, "S3-153": true, "S3-154": true, "S3-155": true,
	"S4-086": true, "S4-090": true,
}
