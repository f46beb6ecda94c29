package policy

import (
	_ "embed" // the schema
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
	lru "github.com/hashicorp/golang-lru/v2"

	"agentmesh/mesh"
)

// Bounds of a folder.
const (
	// MaxFile is the most bytes of a file.
	MaxFile = 64 << 10
	// MaxPart is the most policies that are asked for one tenant and action.
	MaxPart = 200

	maxID = 128 // bytes of an annotation @id
)

// Schema names the entities, the actions and the context that policies can be about, in
// the language of Cedar's schemas.
//
//go:embed mesh.cedarschema
var Schema string

// validator checks policies by the schema.
var validator = func() *validate.Validator {
	var s schema.Schema
	if err := s.UnmarshalCedar([]byte(Schema)); err != nil {
		panic(err)
	}
	known, err := s.Resolve()
	if err != nil {
		panic(err)
	}
	return validate.New(known)
}()

// Load reads the folder. Its error names file and line and says what to do: Invalid for
// what is written, and Precondition for what cannot be read, or may be written by others
// than its owner.
func Load(dir string) (*Set, error) {
	set, wrong := Check(dir)
	if len(wrong) > 0 {
		return nil, wrong[0]
	}
	return set, nil
}

// Check is Load with all that is wrong, and what is not.
func Check(dir string) (*Set, []error) {
	known, err := lru.New[string, *Policy](maxKnown)
	if err != nil {
		panic(err) // maxKnown is positive
	}
	l := &loader{dir: dir, set: &Set{parts: map[part]*rules{}, named: map[cedar.PolicyID]*rule{}, known: known}}
	l.note(l.folder(""))
	l.checkParts()
	return l.set, l.wrong
}

// A loader reads a folder into a set.
type loader struct {
	dir   string
	set   *Set
	wrong []error
}

// note goes on after an error.
func (l *loader) note(err error) {
	if err != nil {
		l.wrong = append(l.wrong, err)
	}
}

func (l *loader) unusable(name, format string, args ...any) error {
	return mesh.Errorf(mesh.Precondition, "policy.Load", "%s "+format, append([]any{filepath.Join(l.dir, name)}, args...)...)
}

func (l *loader) invalid(at, format string, args ...any) error {
	return mesh.Errorf(mesh.Invalid, "policy.Load", "%s: "+format, append([]any{filepath.Join(l.dir, at)}, args...)...)
}

// stat is that of what name leads to, which nobody but its owner may write.
func (l *loader) stat(name string) (os.FileInfo, error) {
	at := filepath.Join(l.dir, name)
	info, err := os.Stat(at)
	switch {
	case err != nil:
		return nil, l.unusable(name, "cannot be read; see that it is there, or take it out: %w", err)
	case info.Mode().Perm()&0o022 != 0:
		return nil, l.unusable(name, "can be written by others than its owner, who could change what is allowed; run chmod go-w %s", at)
	}
	return info, nil
}

// folder reads the operator's folder, or below it that of a tenant.
func (l *loader) folder(tenant mesh.TenantID) error {
	info, err := l.stat(string(tenant))
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return l.unusable(string(tenant), "is no folder; name the folder that has the policies")
	}
	entries, err := os.ReadDir(filepath.Join(l.dir, string(tenant)))
	if err != nil {
		return l.unusable(string(tenant), "cannot be read; check its permissions: %w", err)
	}
	for _, e := range entries {
		l.note(l.entry(tenant, e.Name()))
	}
	return nil
}

// entry reads what is in a folder: files *.cedar and folders, but none that begin with a dot.
func (l *loader) entry(tenant mesh.TenantID, base string) error {
	if strings.HasPrefix(base, ".") {
		return nil
	}
	name, policies := path.Join(string(tenant), base), strings.HasSuffix(base, ".cedar")
	info, err := os.Stat(filepath.Join(l.dir, name))
	switch {
	case err == nil && info.IsDir() && tenant != "":
		return l.unusable(name, "is a folder in that of a tenant, and would not be read; move its files up")
	case err == nil && info.IsDir():
		if err := mesh.TenantID(base).Validate(); err != nil {
			return l.unusable(name, "is no folder of a tenant, whose name %s; rename it, or take it out", mesh.DetailOf(err))
		}
		return l.folder(mesh.TenantID(base))
	case !policies:
		return nil
	}
	if info, err = l.stat(name); err != nil {
		return err
	}
	switch {
	case !info.Mode().IsRegular():
		return l.unusable(name, "is no file; take it out")
	case info.Size() > MaxFile:
		return l.unusable(name, "has more than %d KiB; divide it into several files", MaxFile>>10)
	}
	return l.file(tenant, name)
}

func (l *loader) file(tenant mesh.TenantID, name string) error {
	data, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		return l.unusable(name, "cannot be read; check its permissions: %w", err)
	}
	list, err := cedar.NewPolicyListFromBytes(name, data)
	if err != nil {
		where, why := placeOf(err)
		return l.invalid(name+where, "is not Cedar: %s; correct it (mesh policy check)", why)
	}
	for _, p := range list {
		l.note(l.add(tenant, p))
	}
	return nil
}

// inWords finds the line and the column in what the parser says, which has no other form.
var inWords = regexp.MustCompile(`<input>:(\d+:\d+)`)

// placeOf returns where in a file it does not parse, as ":LINE:COLUMN", and why.
func placeOf(err error) (where, why string) {
	why = strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "parser error: ")), " ")
	if m := inWords.FindStringSubmatch(why); m != nil {
		where = ":" + m[1]
	}
	return where, mesh.Clip(strings.ReplaceAll(why, "<input>:", ""), 256)
}

// add checks a policy and puts it where it is asked.
func (l *loader) add(tenant mesh.TenantID, p *cedar.Policy) error {
	pos := p.Position()
	line := fmt.Sprintf("%s:%d", pos.Filename, pos.Line)
	at := fmt.Sprintf("%s:%d", line, pos.Column)
	r := &rule{Policy: Policy{ID: line, At: line, Permits: p.Effect() == cedar.Permit}, cedar: p}
	if id, ok := p.Annotations()["id"]; ok {
		if id == "" || len(id) > maxID || strings.ContainsFunc(string(id), func(c rune) bool { return !unicode.IsGraphic(c) }) {
			return l.invalid(at, "@id must be 1 to %d letters that can be seen", maxID)
		}
		r.ID = path.Join(string(tenant), string(id))
	}
	if _, twice := l.set.named[cedar.PolicyID(r.ID)]; twice && r.ID == line {
		r.ID = at
	}
	if other, twice := l.set.named[cedar.PolicyID(r.ID)]; twice {
		return l.invalid(at, "@id is that of the policy at %s too; give each its own", other.At)
	}
	tree := (*ast.Policy)(p.AST())
	if err := validator.Policy("", tree); err != nil {
		return l.invalid(at, "%s; the entities and actions that there are, and what each is about, are in docs/policies.md", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	actions, all := actionsOf(tree)
	switch {
	case p.Effect() == cedar.Forbid:
	case tenant != "":
		return l.invalid(at, "permits, and policies of a tenant only forbid; give roles, or move it to the operator's folder")
	case all:
		return l.invalid(at, "permits whatever is done; name the actions, as action == Action::\"skill.create\"")
	case slices.ContainsFunc(actions, byRoleAlone):
		return l.invalid(at, "permits %s, which roles alone allow; give the role %s", actions[slices.IndexFunc(actions, byRoleAlone)], mesh.RoleTenantAdmin)
	}
	l.set.rules, l.set.named[cedar.PolicyID(r.ID)] = append(l.set.rules, r), r
	if tenant == "" {
		tenant = tenantOf(tree)
	}
	for _, a := range actions {
		at := part{tenant, a}
		if l.set.parts[at] == nil {
			l.set.parts[at] = &rules{}
		}
		if list := l.set.parts[at]; p.Effect() == cedar.Forbid {
			list.forbids = append(list.forbids, r)
		} else {
			list.permits = append(list.permits, r)
		}
	}
	return nil
}

// actionsOf returns the actions that the policy names, or all.
func actionsOf(p *ast.Policy) (actions []mesh.Action, all bool) {
	switch s := p.Action.(type) {
	case ast.ScopeTypeEq:
		return []mesh.Action{mesh.Action(s.Entity.ID)}, false
	case ast.ScopeTypeIn:
		return []mesh.Action{mesh.Action(s.Entity.ID)}, false
	case ast.ScopeTypeInSet:
		for _, uid := range s.Entities {
			actions = append(actions, mesh.Action(uid.ID))
		}
		slices.Sort(actions)
		return slices.Compact(actions), false
	case ast.ScopeTypeAll:
	}
	return Actions(), true
}

// tenantOf returns the tenant that alone the policy can be about; "" for all.
func tenantOf(p *ast.Policy) mesh.TenantID {
	for _, scope := range []ast.IsScopeNode{p.Principal, p.Resource} {
		var uid cedar.EntityUID
		switch s := scope.(type) {
		case ast.ScopeTypeEq:
			uid = s.Entity
		case ast.ScopeTypeIn:
			uid = s.Entity
		case ast.ScopeTypeIsIn:
			uid = s.Entity
		case ast.ScopeTypeAll, ast.ScopeTypeIs, ast.ScopeTypeInSet:
		}
		switch uid.Type {
		case typeTenant:
			return mesh.TenantID(uid.ID)
		case typeUser:
			t, _, _ := strings.Cut(string(uid.ID), "/")
			return mesh.TenantID(t)
		}
	}
	return ""
}

// checkParts bounds what is asked at a time.
func (l *loader) checkParts() {
	var errs []error
	for at := range l.set.parts {
		n, last := 0, (*rule)(nil)
		for _, t := range slices.Compact([]mesh.TenantID{"", at.tenant}) {
			if p := l.set.parts[part{t, at.action}]; p != nil {
				for _, list := range [][]*rule{p.permits, p.forbids} {
					n += len(list)
					if len(list) > 0 {
						last = list[len(list)-1]
					}
				}
			}
		}
		if n > MaxPart {
			of := "all tenants"
			if at.tenant != "" {
				of = "the tenant " + string(at.tenant)
			}
			errs = append(errs, l.invalid(last.At, "is one of %d policies for %s in %s, and %d are asked at most; say more with one, as principal in Role::\"...\" or action in [...]", n, at.action, of, MaxPart))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	l.wrong = append(l.wrong, errs...)
}

// byRoleAlone reports whether no policy permits the action.
func byRoleAlone(a mesh.Action) bool { return a == mesh.ActAdminTenant || a == mesh.ActEraseUser }
