package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ofThreads are the packages that keep something about threads beside their log. What they
// keep goes when a thread goes: the type named here is a retention.Dependent, which the node
// hands to the one Deleter.
var ofThreads = map[string]string{
	"mesh/blob":         "Store",
	"mesh/push":         "Dispatcher",
	"mesh/runs":         "Runner",
	"mesh/thread/tasks": "Index",

	"mesh/thread/checkpoint": "Store",
}

// ofUsers are the packages that keep something of users beside their threads. It goes when a
// user is erased: the type named here is a retention.Holder, which the node or, of skills, the
// program hands to the one Eraser.
var ofUsers = map[string]string{
	"mesh/api":      "SkillService",
	"mesh/blob":     "Store",
	"mesh/push":     "Dispatcher",
	"mesh/registry": "Registry",
	"mesh/runs":     "Runner",
	"mesh/state":    "KV",

	"mesh/thread/tasks": "Index",

	"skills/calendar": "Holder",
	"skills/files":    "Holder",
	"skills/mail":     "Holder",
	"skills/markdown": "Vaults",
	"skills/memory":   "Store",
}

// Why a place that keeps values, or something by the keys of threads, has nothing that must
// go with a thread.
const (
	ownLife   = "it is about no thread"
	ofAUser   = "it is a user's own, wherever the user said it, and outlives the conversation"
	asItLives = "it is in memory while something happens in the thread, and is found out by the log"
	passes    = "it passes on what others keep"
)

// And why it has nothing that must go with a user.
const (
	noUsers     = "it is no user's"
	withThreads = "it goes with the user's threads"
)

// And why it does not go with a tenant that is exported.
const (
	ofTheMesh = "it is the mesh's, and no tenant's"
	ofTheLog  = "it is made of the log where the tenant goes"
)

// notMoved are those of ofUsers whose Export says that it leaves everything behind, and why. All
// others give what they have, and take it.
var notMoved = map[string]string{
	"mesh/push":     "a webhook is of a task, which is over where it is imported, and its secret is sealed for this mesh",
	"mesh/registry": "an agent has a secret of this mesh, and credentials that are sealed for it",
	"skills/memory": "it is an index of values, and made of them",

	"mesh/thread/tasks": "sums of use are made of the threads where these go",
}

// A fate is what becomes of something when its thread is deleted, when its user is erased, and
// when its tenant is exported: the package of ofThreads or ofUsers with which it goes, or why it
// stays.
type fate struct{ thread, user, tenant string }

// keeps has all places of the mesh where values are kept, by the package and the kind of the
// value ("?" for one that callers choose), and all fields that have something by the keys of
// threads. Whoever adds one says here what becomes of it.
var keeps = map[string]fate{
	"mesh/push push.config":                     {"mesh/push", "mesh/push", notMoved["mesh/push"]},
	"mesh/push push.cursor":                     {"mesh/push", "mesh/push", notMoved["mesh/push"]},
	"mesh/push ?":                               {"mesh/push", "mesh/push", notMoved["mesh/push"]},
	"mesh/push Dispatcher.threads":              {"mesh/push", "mesh/push", asItLives},
	"mesh/runs skill-run":                       {"mesh/runs", "mesh/runs", "mesh/runs"},
	"mesh/runs skill-schedule":                  {ownLife, "mesh/runs", "mesh/runs"},
	"mesh/thread/tasks Index.held":              {"mesh/thread/tasks", withThreads, ofTheLog},
	"mesh/thread/tasks Index.summaries":         {"mesh/thread/tasks", withThreads, ofTheLog},
	"mesh/thread/checkpoint thread.checkpoint":  {"mesh/thread/checkpoint", withThreads, ofTheLog},
	"mesh/thread/checkpoint thread.checkpoints": {"mesh/thread/checkpoint", withThreads, ofTheLog},
	"mesh/thread/checkpoint thread.digest":      {"mesh/thread/checkpoint", withThreads, ofTheLog},
	"mesh/thread/checkpoint ?":                  {"mesh/thread/checkpoint", withThreads, ofTheLog},
	"mesh/blob Store.threads":                   {"mesh/blob", "mesh/blob", "mesh/blob"},
	"mesh/blob Store.later":                     {"mesh/blob", "mesh/blob", "mesh/blob"},
	"mesh/blob shared.in":                       {"mesh/blob", withThreads, asItLives},
	"mesh/thread/cache States.held":             {asItLives, withThreads, asItLives},
	"mesh/threadlog Log.topics":                 {asItLives, withThreads, asItLives},
	"mesh/threadlog lives.of":                   {asItLives, withThreads, asItLives},
	"mesh/threadlog debt.of":                    {asItLives, withThreads, asItLives},
	"mesh/threadlog window.threads":             {asItLives, withThreads, asItLives},
	"mesh/threadlog/memindex Draft.added":       {asItLives, withThreads, asItLives},
	"mesh/turn Runner.drivers":                  {asItLives, withThreads, asItLives},
	"mesh/turn Runner.waiting":                  {asItLives, withThreads, asItLives},
	"mesh/lease Local.held":                     {"leases run out", withThreads, asItLives},
	"mesh/store/disk replay.orphans":            {"it is the log's own", withThreads, ofTheLog},
	"mesh/store/disk verifier.threads":          {"it is the log's own", withThreads, ofTheLog},
	"mesh/store/disk checker.threads":           {"it is the log's own", withThreads, ofTheLog},
	"mesh/store/disk memory.all":                {asItLives, withThreads, asItLives},
	"mesh/store/disk Store.ill":                 {"who is closed is not deleted", "who is closed is not deleted", ofTheLog},
	"mesh/api breaker":                          {ownLife, noUsers, "it is about calls that were made here"},
	"mesh/api ?":                                {passes, passes, passes},
	"mesh/node node":                            {ownLife, noUsers, ofTheMesh},
	"mesh/node auth.tokens":                     {ownLife, "it is what the operator's file of tokens says", ofTheMesh},
	"mesh/node ?":                               {passes, passes, passes},
	"mesh/api identities":                       {ownLife, noUsers, ofTheMesh},
	"mesh/api registrations":                    {ownLife, "mesh/registry", notMoved["mesh/registry"]},
	"mesh/api registry":                         {ownLife, noUsers, ofTheMesh},
	"mesh/api skill-owners":                     {ownLife, "mesh/api", "mesh/api"},
	"mesh/node/datafolder ?":                    {passes, passes, passes},
	"mesh/security/revocation revoked-users":    {ownLife, "it stays, so that credentials of before do not count again", "it is about credentials of this mesh"},
	"mesh/transfer tenant-import":               {ownLife, noUsers, "it is about what came here"},
	"mesh/state ?":                              {passes, "mesh/state", "mesh/state"},
	"skills/memory State.Put":                   {ofAUser, "mesh/state", "mesh/state"},
	"skills/tasks State.Put":                    {ofAUser, "mesh/state", "mesh/state"},
}

// writers are what skills write files with, and noFiles those that use one for what is no
// user's.
var (
	writers = []string{"skills/internal/outfile", "skills/internal/tenantdir", "skills/internal/textindex"}
	noFiles = []string{"skills/knowledge"} // documents are the operator's
)

// finding R9: whatever keeps something about threads lets go of it with the thread. This
// lists what nobody has said that of, and which types are to be told and are not.
func TestWhatIsKeptOfAThreadGoesWithIt(t *testing.T) {
	found, dependents := map[string]bool{}, map[string]bool{}
	told := ""
	for _, p := range load(t) {
		if !matches(p.path, []string{"mesh", "mesh/...", "agents/...", "skills/..."}) || kits[p.path].level > 0 {
			continue
		}
		k := keeper{pkg: p.path, kinds: map[string]string{}, found: found}
		var files []*ast.File
		for _, f := range p.product() {
			files = append(files, parsed(t, f.name))
		}
		for _, f := range files {
			k.constants(f)
		}
		for _, f := range files {
			ast.Inspect(f, k.look)
			for _, d := range f.Decls {
				switch f, ok := d.(*ast.FuncDecl); {
				case ok && f.Recv != nil && f.Name.Name == "Forget" && p.path != "mesh/thread/cache":
					dependents[p.path+" "+strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*")] = true
				case ok && f.Name.Name == "buildRetention":
					ast.Inspect(f, func(n ast.Node) bool {
						if c, ok := n.(*ast.CallExpr); ok {
							for _, a := range c.Args {
								told += types.ExprString(a) + " "
							}
						}
						return true
					})
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if keeps[name].thread == "" {
			t.Errorf("%s is kept: say in keeps what becomes of it when a thread is deleted, and have it forgotten by a retention.Dependent", name)
		}
		if keeps[name].tenant == "" {
			t.Errorf("%s is kept: say in keeps what becomes of it when its tenant is exported, and have a retention.Holder export and import it", name)
		}
		if keeps[name].user == "" {
			t.Errorf("%s is kept: say in keeps what becomes of it when a user is erased, and have it erased by a retention.Holder", name)
		}
	}
	for name, by := range keeps {
		if !found[name] {
			t.Errorf("%s is kept no more: take it out", name)
		}
		if strings.HasPrefix(by.thread, "mesh/") && ofThreads[by.thread] == "" {
			t.Errorf("%s goes with %s, which is no Dependent", name, by.thread)
		}
		if strings.HasPrefix(by.user, "mesh/") && ofUsers[by.user] == "" {
			t.Errorf("%s goes with %s, which is no Holder", name, by.user)
		}
		if strings.HasPrefix(by.tenant, "mesh/") && (ofUsers[by.tenant] == "" || notMoved[by.tenant] != "") {
			t.Errorf("%s goes with %s, which exports nothing", name, by.tenant)
		}
	}
	for p, name := range ofThreads {
		if !dependents[p+" "+name] {
			t.Errorf("%s.%s forgets nothing", p, name)
		}
	}
	if want := "n.push n.runner n.tasks n.checkpoints n.backend.Blobs "; !strings.HasSuffix(told, want) || len(ofThreads) != strings.Count(want, " ") {
		t.Errorf("told of deletions are %s, want %s, as in ofThreads", told, want)
	}
}

// Whatever keeps something of users lets go of it when a user is erased, and goes with its tenant
// to another mesh, or has a reason not to. This lists the types that must and do not, skills that write files and say nothing of it, and which types are to
// be told and are not.
func TestWhatIsKeptOfAUserGoesWithTheUser(t *testing.T) {
	holders, told, takes := map[string]bool{}, "", map[string]bool{}
	for _, p := range load(t) {
		if kits[p.path].level > 0 {
			continue
		}
		for _, f := range p.product() {
			if ours := strings.HasPrefix(p.path, "skills/") && !strings.HasPrefix(p.path, "skills/internal/") && !slices.Contains(noFiles, p.path); ours && ofUsers[p.path] == "" {
				for _, w := range writers {
					if slices.Contains(f.imports(t), module+"/"+w) {
						t.Errorf("%s writes files of users: have them erased by a retention.Holder, and say so in ofUsers", p.path)
					}
				}
			}
			for _, d := range parsed(t, f.name).Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv == nil {
					continue
				}
				if fn.Name.Name == "Erase" {
					holders[p.path+" "+strings.TrimPrefix(types.ExprString(fn.Recv.List[0].Type), "*")] = true
				}
				if fn.Name.Name == "Import" && !refuses(fn) {
					takes[p.path+" "+strings.TrimPrefix(types.ExprString(fn.Recv.List[0].Type), "*")] = true
				}
				if p.path == "mesh/node" && fn.Name.Name == "holders" || p.path == "cmd/mesh" && fn.Name.Name == "holders" {
					told += listed(fn)
				}
			}
		}
	}
	for p, name := range ofUsers {
		if !holders[p+" "+name] {
			t.Errorf("%s.%s erases nothing", p, name)
		}
		if why, stays := notMoved[p]; takes[p+" "+name] == stays {
			t.Errorf("%s.%s takes what is imported: %v; it should not because %q", p, name, !stays, why)
		}
	}
	want := "mail.Holder calendar.Holder files.Holder k.notes k.memory skills n.runner n.push n.agents n.kv n.backend.Blobs n.tasks "
	if told != want || len(ofUsers) != strings.Count(want, " ") {
		t.Errorf("told of erasures are %s, want %s, as in ofUsers", told, want)
	}
}

// refuses reports whether the function has nothing but an error.
func refuses(fn *ast.FuncDecl) bool {
	r, ok := fn.Body.List[0].(*ast.ReturnStmt)
	return ok && strings.HasPrefix(types.ExprString(r.Results[len(r.Results)-1]), "mesh.Errorf(mesh.Unsupported")
}

// listed has the elements of the lists of holders in the function; of calls, what is called.
func listed(fn *ast.FuncDecl) (names string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		list, ok := n.(*ast.CompositeLit)
		if !ok || !strings.HasSuffix(types.ExprString(orIdent(list.Type)), "Holder") {
			return true
		}
		for _, e := range list.Elts {
			if call, ok := e.(*ast.CallExpr); ok {
				e = call.Fun
			}
			names += types.ExprString(e) + " "
		}
		return false
	})
	return names
}

// A keeper finds where a package keeps something.
type keeper struct {
	pkg   string
	kinds map[string]string // its constants that are texts
	found map[string]bool
}

func (k keeper) constants(f *ast.File) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			for i, name := range v.Names {
				if i < len(v.Values) {
					if lit, ok := v.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
						k.kinds[name.Name], _ = strconv.Unquote(lit.Value)
					}
				}
			}
		}
	}
}

// stateKinds are the constants of package state.
var stateKinds = map[string]string{"state.KindBreaker": "breaker", "state.KindMemory": "memory", "state.KindTasks": "tasks"}

func (k keeper) look(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CompositeLit:
		switch name := types.ExprString(orIdent(n.Type)); {
		case name == "state.Key" || name == "state.Page", k.pkg == "mesh/state" && (name == "Key" || name == "Page"):
			k.found[k.pkg+" "+k.kindOf(n, name)] = true
		}
	case *ast.CallExpr:
		if f := types.ExprString(n.Fun); strings.HasSuffix(f, ".State.Put") || strings.HasSuffix(f, ".env.State.Put") {
			k.found[k.pkg+" State.Put"] = true
		}
	case *ast.TypeSpec:
		s, ok := n.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, f := range s.Fields.List {
			m, ok := f.Type.(*ast.MapType)
			if !ok || types.ExprString(m.Key) != "mesh.ThreadKey" {
				continue
			}
			for _, name := range f.Names {
				k.found[k.pkg+" "+n.Name.Name+"."+name.Name] = true
			}
		}
	}
	return true
}

func orIdent(e ast.Expr) ast.Expr {
	if e == nil {
		return ast.NewIdent("")
	}
	return e
}

// kindOf is the kind of a key or page, "?" for one that is not said there.
func (k keeper) kindOf(n *ast.CompositeLit, name string) string {
	at := 0
	if strings.HasSuffix(name, "Key") {
		at = 1
	}
	var kind ast.Expr
	for i, e := range n.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && types.ExprString(kv.Key) == "Kind" {
			kind = kv.Value
		} else if !ok && i == at && strings.HasSuffix(name, "Key") {
			kind = e
		}
	}
	if lit, ok := kind.(*ast.BasicLit); ok {
		text, _ := strconv.Unquote(lit.Value)
		return text
	}
	if kind == nil {
		return "?"
	}
	said := types.ExprString(kind)
	if text, ok := stateKinds[said]; ok {
		return text
	}
	if text, ok := k.kinds[said]; ok {
		return text
	}
	return "?"
}
