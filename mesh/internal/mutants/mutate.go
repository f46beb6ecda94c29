//go:build unix

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A mutant is a change of one file.
type mutant struct {
	what     string
	file     string // relative to the module's root
	source   []byte
	from, to int // what is replaced
	text     string
	by       []suite // what must kill it
	hangs    bool    // it dies when the time of its test is over
}

// mutated is the file with the change.
func (m *mutant) mutated() []byte {
	return slices.Concat(m.source[:m.from], []byte(m.text), m.source[m.to:])
}

// place is file:line.
func (m *mutant) place() string {
	return m.file + ":" + strconv.Itoa(1+strings.Count(string(m.source[:m.from]), "\n"))
}

// diff shows the lines that differ.
func (m *mutant) diff() string {
	begin := strings.LastIndexByte(string(m.source[:m.from]), '\n') + 1
	end := m.to
	if i := strings.IndexByte(string(m.source[m.to:]), '\n'); i >= 0 {
		end += i
	}
	var b strings.Builder
	show := func(sign, text string) {
		for line := range strings.SplitSeq(text, "\n") {
			b.WriteString("    " + sign + line + "\n")
		}
	}
	show("-", string(m.source[begin:end]))
	show("+", string(m.source[begin:m.from])+m.text+string(m.source[m.to:end]))
	return b.String()
}

// mutantsOf returns all changes that the operators make in the product code of
// a package's folder, in the order of its text.
func mutantsOf(root, dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return nil, err
		}
		found, err := mutate(filepath.ToSlash(rel), source)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func mutate(file string, source []byte) ([]mutant, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	o := &operators{file: file, source: source, offset: func(p token.Pos) int { return fset.Position(p).Offset }}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
			o.early(f)
			ast.Inspect(f.Body, o.visit)
		}
	}
	return o.found, nil
}

// operators make mutants of a file. None looks at types: what does not compile
// is thrown away later.
type operators struct {
	file   string
	source []byte
	offset func(token.Pos) int
	found  []mutant
}

func (o *operators) add(what string, from, to token.Pos, text string) {
	o.found = append(o.found, mutant{what: what, file: o.file, source: o.source, from: o.offset(from), to: o.offset(to), text: text})
}

// swaps are operators and what stands in their place.
var swaps = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ}, token.LEQ: {token.LSS}, token.GTR: {token.GEQ}, token.GEQ: {token.GTR},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD},
}

func (o *operators) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "min" || f.Name == "max") {
			o.add("min and max", f.Pos(), f.End(), map[string]string{"min": "max", "max": "min"}[f.Name])
		}
		return !talks(n)
	case *ast.BinaryExpr:
		for _, op := range swaps[n.Op] {
			o.add(n.Op.String()+" to "+op.String(), n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), op.String())
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			o.add("without !", n.Pos(), n.X.Pos(), "")
		}
	case *ast.BasicLit:
		if v, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
			o.add("off by one", n.Pos(), n.End(), strconv.Itoa(v+1))
		}
	case *ast.IfStmt:
		if n.Else == nil && allTalk(n.Body.List) {
			return false
		}
		o.add("condition negated", n.Cond.Pos(), n.Cond.End(), "!("+o.text(n.Cond)+")")
		o.drop("branch", n.Body.List)
	case *ast.CaseClause:
		o.drop("case", n.Body)
	case *ast.CommClause:
		o.drop("case", n.Body)
	case *ast.ReturnStmt:
		if k := len(n.Results); k > 0 && types.ExprString(n.Results[k-1]) == "err" {
			o.add("error swallowed", n.Results[k-1].Pos(), n.Results[k-1].End(), "nil")
		}
	case *ast.BranchStmt:
		if other := map[token.Token]string{token.BREAK: "continue", token.CONTINUE: "break"}[n.Tok]; other != "" && n.Label == nil {
			o.add("break and continue", n.Pos(), n.End(), other)
		}
	case *ast.BlockStmt:
		for _, s := range n.List {
			o.statement(s)
		}
	}
	return true
}

// statement drops a statement whose value nobody needs.
func (o *operators) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		if c, ok := s.X.(*ast.CallExpr); ok && talks(c) {
			return
		}
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE {
			return
		}
	case *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
	default:
		return
	}
	o.add("statement dropped", s.Pos(), s.End(), "")
}

// drop empties a branch.
func (o *operators) drop(what string, body []ast.Stmt) {
	if len(body) > 0 {
		o.add(what+" dropped", body[0].Pos(), body[len(body)-1].End(), "")
	}
}

// early returns zero values at once.
func (o *operators) early(f *ast.FuncDecl) {
	var zeros []string
	if f.Type.Results != nil {
		for _, r := range f.Type.Results.List {
			for range max(1, len(r.Names)) {
				zeros = append(zeros, "*new("+o.text(r.Type)+")")
			}
		}
	}
	if len(f.Body.List) > 0 {
		o.add("returns early", f.Body.Lbrace+1, f.Body.Lbrace+1, " if true { return "+strings.Join(zeros, ", ")+" };")
	}
}

func (o *operators) text(n ast.Node) string {
	return string(o.source[o.offset(n.Pos()):o.offset(n.End())])
}

// allTalk reports whether statements do nothing but write log lines.
func allTalk(body []ast.Stmt) bool {
	return len(body) > 0 && !slices.ContainsFunc(body, func(s ast.Stmt) bool {
		e, ok := s.(*ast.ExprStmt)
		if !ok {
			return true
		}
		c, ok := e.X.(*ast.CallExpr)
		return !ok || !talks(c)
	})
}

// talks reports whether a call only writes a log line or the words of an error:
// changes there are for no test to notice.
func talks(c *ast.CallExpr) bool {
	name := types.ExprString(c.Fun)
	return strings.Contains(strings.ToLower(name), "logger.") || strings.HasSuffix(name, "Errorf") || strings.HasSuffix(name, "InvalidField")
}
