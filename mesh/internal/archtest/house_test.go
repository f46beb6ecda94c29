package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// finding C9: there is one way to an agent. Who opens its stream, and says that what
// came on it could not be logged, is package call.
func TestOnlyOnePackageOpensTheStreamOfAnAgent(t *testing.T) {
	opened, unlogged := false, false
	for _, p := range load(t) {
		if !matches(p.path, []string{"mesh/...", "agents/..."}) {
			continue
		}
		for _, f := range p.product() {
			ast.Inspect(parsed(t, f.name), func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "call" && n.Sel.Name == "Stream" {
						t.Errorf("%s opens the stream of an agent: use a call.Relay", f.name)
					}
				case *ast.FuncDecl:
					opened = opened || p.path == "mesh/call" && n.Name.Name == "Stream"
				case *ast.BasicLit:
					if n.Kind == token.STRING && n.Value == `"LOG_UNAVAILABLE"` {
						if unlogged = true; p.path != "mesh/call" {
							t.Errorf("%s has a reason of its own for what cannot be logged: use call.ReasonLog", f.name)
						}
					}
				}
				return true
			})
		}
	}
	if !opened || !unlogged {
		t.Error("nobody opens a stream: this test looks for other names")
	}
}

// Names that nobody who knows A2A and gRPC would look for: of types and functions, and
// of packages.
var (
	unguessable = []string{"whither", "fates", "story", "tape", "again", "wants", "told", "heard"}
	nowhere     = []string{"threads", "taskindex", "logbook", "wire", "peer", "service", "compat", "gateway"}
)

// finding C14: what the packages of the mesh are called, and what they declare.
func TestNamesAreThoseThatOneWouldLookFor(t *testing.T) {
	for _, p := range load(t) {
		if !matches(p.path, []string{"mesh/..."}) {
			continue
		}
		if slices.Contains(nowhere, path.Base(p.path)) {
			t.Errorf("the package %s has a name that cannot be guessed", p.path)
		}
		for _, f := range p.product() {
			for _, d := range parsed(t, f.name).Decls {
				for _, name := range declared(d) {
					if slices.Contains(unguessable, strings.ToLower(name)) {
						t.Errorf("%s declares %s, whose name cannot be guessed", f.name, name)
					}
				}
			}
		}
	}
}

// declared are the types and functions that a declaration names.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		names = append(names, d.Name.Name)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if spec, ok := s.(*ast.TypeSpec); ok {
				names = append(names, spec.Name.Name)
			}
		}
	}
	return names
}

// S0-107: to have others work is a unit of its own, mesh/dispatch: tools, scheduler and the
// opening of agents. What finds, checks and runs skills, the loop of a model and the runtime of agents
// know nothing of it; only agents that have others work do, and the program that makes them.
func TestOnlyWhoHasOthersWorkKnowsOfDispatch(t *testing.T) {
	var users []string
	for _, p := range load(t) {
		for _, f := range p.product() {
			if slices.Contains(f.imports(t), module+"/mesh/dispatch") && !slices.Contains(users, p.path) {
				users = append(users, p.path)
			}
		}
	}
	slices.Sort(users)
	if want := []string{"agents/chain", "agents/mainagent", "agents/orchestrator", "agents/skillbuilder", "cmd/mesh"}; !slices.Equal(users, want) {
		t.Errorf("mesh/dispatch is used by %q, want %q", users, want)
	}
}
