package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readers are the packages that may ask of which kind an event is, with the kinds
// ("*" for all): what a log means, mesh/thread alone says (ADR 0015). A kind that is
// added is added in two of them, eventpb and thread, and wherever it is more than a
// fact to be read.
var readers = map[string][]string{
	"mesh/threadlog/eventpb":  {"*"},                                                                                                                                                // how events are stored
	"mesh/thread":             {"*"},                                                                                                                                                // what they mean
	"mesh/thread/cache":       {"ThreadClaimed", "MessagePosted"},                                                                                                                   // what waits for what is on its way
	"mesh/thread/tasks":       {"TaskOpened", "ArtifactAppended"},                                                                                                                   // what opens a row, and what changes none
	"mesh/threadlog":          {"ThreadClaimed", "TaskOpened", "DispatchAccepted", "DispatchIssued", "MessagePosted"},                                                               // epochs, ids that are taken, what is to be done
	"mesh/api":                {"TaskMoved", "DispatchSettled"},                                                                                                                     // finding C10: the servers have no rules; here, which grants are over
	"mesh/transfer":           {"TaskMoved"},                                                                                                                                        // which tasks were ended
	"mesh/admission":          {"*"},                                                                                                                                                // who may append what
	"mesh/turn":               {"ArtifactAppended", "CancelRequested", "HandoffEnded", "HandoffStarted", "MessagePosted", "TaskMoved"},                                              // what a running leg reacts to, and relays
	"mesh/call":               {"ArtifactAppended", "TaskMoved"},                                                                                                                    // makes them of an agent's stream
	"mesh/conformance":        {"ArtifactAppended", "TaskMoved"},                                                                                                                    // shows what came of an agent's stream
	"mesh/dispatch":           {"ArtifactAppended", "TaskMoved"},                                                                                                                    // relays them
	"mesh/handoff":            {"ArtifactAppended", "HandoffStarted"},                                                                                                               // what came before a handoff, and its own
	"mesh/telemetry/observer": {"ArtifactAppended", "DispatchIssued", "DispatchSettled", "LimitTripped", "ModelReplied", "SkillCalled", "SkillReturned", "TaskMoved", "TaskOpened"}, // counts them
	"cmd/mesh":                {"*"},                                                                                                                                                // words for people; a kind without any is shown by its name
}

// finding C7: nobody else interprets a log, and only eventpb its stored form.
func TestOnlyTheFoldSaysWhatEventsMean(t *testing.T) {
	kinds := bodyKinds(t)
	used := map[string]bool{}
	for _, p := range load(t) {
		if generated(p.path) || p.path == "mesh" || !matches(p.path, []string{"mesh/...", "agents/...", "skills/...", "cmd/..."}) {
			continue
		}
		for _, f := range p.product() {
			if _, kit := kits[p.path]; kit || !slices.ContainsFunc(f.imports(t), func(i string) bool { return i == module+"/mesh" || i == module+"/gen/mesh/v1" }) {
				continue
			}
			for _, kind := range kindsRead(t, parsed(t, f.name), kinds) {
				used[p.path+" "+kind] = true
				if may := readers[p.path]; !slices.Contains(may, kind) && !slices.Contains(may, "*") {
					t.Errorf("%s asks whether an event is a %s: have mesh/thread say what it needs to know", f.name, kind)
				}
			}
			for _, stored := range storedForms(parsed(t, f.name), kinds) {
				if p.path != "mesh/threadlog/eventpb" {
					t.Errorf("%s uses %s: decode events with eventpb", f.name, stored)
				}
			}
		}
	}
	for p, may := range readers {
		for _, kind := range may {
			if kind != "*" && !used[p+" "+kind] {
				t.Errorf("%s may read %s and does not: shorten its row", p, kind)
			}
		}
	}
}

// bodyKinds are the kinds of events, as package mesh declares them.
func bodyKinds(t *testing.T) []string {
	t.Helper()
	var kinds []string
	for _, d := range parsed(t, "mesh/eventkinds.go").Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "isBody" {
			kinds = append(kinds, f.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	if len(kinds) < 10 {
		t.Fatalf("package mesh has the kinds %v: this test looks at the wrong file", kinds)
	}
	return kinds
}

// parsed is the whole file of that name, which nobody changes.
func parsed(t *testing.T, name string) *ast.File {
	t.Helper()
	f, err := parsedOnce(filepath.Join(moduleRoot(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var parsedOnce = once(func(name string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
})

// kindsRead are the kinds that a file has as a case of a type switch, or asserts.
func kindsRead(t *testing.T, f *ast.File, kinds []string) []string {
	t.Helper()
	var read []string
	note := func(x ast.Expr) {
		sel, ok := x.(*ast.SelectorExpr)
		if !ok {
			return
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == "mesh" && slices.Contains(kinds, sel.Sel.Name) {
			read = append(read, sel.Sel.Name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSwitchStmt:
			for _, c := range n.Body.List {
				for _, x := range c.(*ast.CaseClause).List {
					note(x)
				}
			}
		case *ast.TypeAssertExpr:
			note(n.Type)
		}
		return true
	})
	return read
}

// storedForms are what a file uses of the stored form of events: the cases of
// mesh.v1.Event's body, and their getters.
func storedForms(f *ast.File, kinds []string) []string {
	var used []string
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			name := sel.Sel.Name
			kind, wrapper := strings.CutPrefix(name, "Event_")
			if !wrapper {
				kind, wrapper = strings.CutPrefix(name, "Get")
			}
			if wrapper && slices.Contains(kinds, kind) {
				used = append(used, name)
			}
		}
		return true
	})
	return used
}
