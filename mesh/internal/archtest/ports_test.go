package archtest

import (
	"go/ast"
	"strings"
	"testing"
)

// A port that a test gives back is soon another test's, and who calls the server that it ended
// reaches a stranger. So tests listen where rpctest says; only whole programs, which tests start
// as processes of their own and which know no testing.T, take a port by themselves.
func TestTestsListenWhereNobodyElseWill(t *testing.T) {
	seen := false
	for _, p := range load(t) {
		for _, f := range p.files {
			if !f.test && kits[p.path].level == 0 {
				continue
			}
			for _, d := range parsed(t, f.name).Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || !takesPort(fn) {
					continue
				}
				seen = true
				if (fn.Recv != nil || ofATest(fn)) && p.path != "mesh/rpc/rpctest" {
					t.Errorf("%s: %s listens on any port: use rpctest.Listen, or rpctest.Free where nobody is to listen", f.name, fn.Name.Name)
				}
			}
		}
	}
	if !seen {
		t.Error("nothing listens on any port: the rule looks in the wrong place")
	}
}

// takesPort reports whether the function has the system choose a port to listen on.
func takesPort(fn *ast.FuncDecl) (is bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "Listen") {
			for _, arg := range call.Args {
				ast.Inspect(arg, func(n ast.Node) bool {
					text, ok := n.(*ast.BasicLit)
					is = is || ok && strings.HasSuffix(text.Value, `:0"`)
					return true
				})
			}
		}
		return true
	})
	return is
}

// ofATest reports whether the function has a testing.T, B or TB.
func ofATest(fn *ast.FuncDecl) (is bool) {
	for _, p := range fn.Type.Params.List {
		ast.Inspect(p.Type, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if ok {
				pkg, named := sel.X.(*ast.Ident)
				is = is || named && pkg.Name == "testing"
			}
			return true
		})
	}
	return is
}
