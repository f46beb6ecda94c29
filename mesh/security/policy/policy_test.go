package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/security/policy"
)

// folder writes files into a folder of policies; keys are their names.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, dir, name, text)
	}
	return dir
}

// put replaces a file, as a whole.
func put(t testing.TB, dir, name, text string) {
	t.Helper()
	at := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at+".new", at); err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, files map[string]string) *policy.Set {
	t.Helper()
	set, err := policy.Load(folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func ann(roles ...mesh.Role) mesh.Principal {
	return mesh.Principal{Tenant: "acme", User: "ann", Roles: roles, Credential: "token:ann-laptop"}
}

var noRole = mesh.Errorf(mesh.Denied, "test", "no role")

// Which policy decides, for whom.
func TestWhatPoliciesDecide(t *testing.T) {
	set := load(t, map[string]string{
		"a.cedar": `@id("no-mail")
forbid(principal, action == Action::"skill.call", resource) when { resource.name like "mail.*" } unless { principal in Role::"operator" };
@id("bob-writes")
permit(principal == User::"acme/bob", action in [Action::"skill.create", Action::"thread.delete"], resource);
forbid(principal == User::"acme/eve", action, resource);
@id("not-by-helper")
forbid(principal, action == Action::"orchestrate", resource == Agent::"worker") when { context has agent && context.chain.contains("helper") };
@id("only-there")
forbid(principal, action == Action::"agent.register", resource in Tenant::"umbrella");
@id("by-token")
forbid(principal, action == Action::"chat.send", resource) when { context has scheme && context.scheme != "token" };
`,
		"acme/own.cedar": `@id("no-mail")
forbid(principal, action == Action::"skill.call", resource == Skill::"files.delete");
forbid(principal in Role::"skill-author", action == Action::"skill.create", resource) unless { resource.name like "team.*" };
`,
		"README": "not a policy",
	})
	user := ann(mesh.RoleUser)
	grant := func(chain ...string) mesh.Principal {
		p := user
		p.Credential, p.Grant = "", &mesh.Grant{Agent: chain[len(chain)-1], Execution: "x"}
		for _, a := range chain {
			p.Grant.Chain = append(p.Grant.Chain, mesh.Actor{Agent: a})
		}
		return p
	}
	named := func(user string, roles ...mesh.Role) mesh.Principal {
		return mesh.Principal{Tenant: "acme", User: user, Roles: roles, Credential: "oidc:x#" + user}
	}
	for _, tt := range []struct {
		what    string
		r       policy.Request
		refusal error
		by      string // policy that decided, "" for none
		allowed bool
	}{
		{"a skill", policy.Request{Principal: user, Action: mesh.ActSkillCall, Name: "files.list"}, nil, "", true},
		{"mail", policy.Request{Principal: user, Action: mesh.ActSkillCall, Name: "mail.send"}, nil, "no-mail", false},
		{"mail by an agent", policy.Request{Principal: grant("main"), Action: mesh.ActSkillCall, Name: "mail.send"}, nil, "no-mail", false},
		{"mail by an operator", policy.Request{Principal: ann(mesh.RoleOperator), Action: mesh.ActSkillCall, Name: "mail.send"}, nil, "", true},
		{"the tenant's own", policy.Request{Principal: user, Action: mesh.ActSkillCall, Name: "files.delete"}, nil, "acme/no-mail", false},
		{"elsewhere", policy.Request{Principal: mesh.Principal{Tenant: "umbrella", User: "ann"}, Action: mesh.ActSkillCall, Name: "files.delete"}, nil, "", true},
		{"a permit", policy.Request{Principal: named("bob"), Action: mesh.ActCreateSkill, Name: "a.b"}, noRole, "bob-writes", true},
		{"a permit is not needed", policy.Request{Principal: named("bob", mesh.RoleOperator), Action: mesh.ActCreateSkill, Name: "a.b"}, nil, "", true},
		{"a permit, and one that forbids", policy.Request{Principal: named("bob", mesh.RoleSkillAuthor), Action: mesh.ActCreateSkill, Name: "a.b"}, nil, "acme/own.cedar:3", false},
		{"a permit of another user", policy.Request{Principal: named("ann"), Action: mesh.ActCreateSkill, Name: "a.b"}, noRole, "", false},
		{"of one in another tenant", policy.Request{Principal: mesh.Principal{Tenant: "umbrella", User: "bob"}, Action: mesh.ActCreateSkill, Name: "a.b"}, noRole, "", false},
		{"of a user who is named so", policy.Request{Principal: mesh.Principal{Tenant: "umbrella", User: "acme/bob"}, Action: mesh.ActCreateSkill, Name: "a.b"}, noRole, "", false},
		{"a permit for an agent", policy.Request{Principal: func() mesh.Principal { p := grant("main"); p.User = "bob"; return p }(), Action: mesh.ActCreateSkill, Name: "a.b"}, noRole, "", false},
		{"everything", policy.Request{Principal: named("eve", mesh.RoleOperator), Action: mesh.ActReadAudit}, nil, "a.cedar:5", false},
		{"everything, of a turn", policy.Request{Principal: named("eve", mesh.RoleOperator), Action: mesh.ActChat, Name: "main", Later: true}, nil, "a.cedar:5", false},
		{"a dispatch", policy.Request{Principal: grant("main", "orchestrator"), Action: mesh.ActOrchestrate, Name: "worker"}, nil, "", true},
		{"a dispatch behind it", policy.Request{Principal: grant("main", "helper"), Action: mesh.ActOrchestrate, Name: "worker"}, nil, "not-by-helper", false},
		{"another tenant's", policy.Request{Principal: user, Action: mesh.ActRegister, Name: "x"}, nil, "", true},
		{"there", policy.Request{Principal: mesh.Principal{Tenant: "umbrella", User: "ann"}, Action: mesh.ActRegister, Name: "x"}, nil, "only-there", false},
		{"with a token", policy.Request{Principal: user, Action: mesh.ActChat, Name: "main"}, nil, "", true},
		{"otherwise", policy.Request{Principal: named("ann", mesh.RoleUser), Action: mesh.ActChat, Name: "main"}, nil, "by-token", false},
		{"of a turn", policy.Request{Principal: mesh.Principal{Tenant: "acme", User: "ann"}, Action: mesh.ActChat, Name: "main", Later: true}, nil, "", true},
		{"a fault is no refusal", policy.Request{Principal: named("bob"), Action: mesh.ActCreateSkill, Name: "a.b"}, mesh.Errorf(mesh.Unauthenticated, "test", "no"), "", false},
	} {
		by, err := set.Judge("test", tt.r, tt.refusal)
		if err != nil && err != tt.refusal {
			by = mesh.PolicyOf(err)
			if !mesh.IsCode(err, mesh.Denied) || !strings.Contains(mesh.DetailOf(err), by) || strings.Contains(mesh.DetailOf(err), "like") {
				t.Errorf("%s: %v", tt.what, err)
			}
		}
		if by != tt.by || (err == nil) != tt.allowed {
			t.Errorf("%s: by %q, %v, want %q and %v", tt.what, by, err, tt.by, tt.allowed)
		}
	}
}

// What cannot be said for want of a value forbids, and permits nothing.
func TestAPolicyThatFailsIsOnTheSafeSide(t *testing.T) {
	set := load(t, map[string]string{"a.cedar": `@id("sum") forbid(principal, action == Action::"chat.send", resource) when { 9223372036854775807 + 1 > 0 };
@id("more") permit(principal, action == Action::"skill.create", resource) when { 9223372036854775807 + 1 > 0 };`})
	by, err := set.Judge("test", policy.Request{Principal: ann(), Action: mesh.ActChat, Name: "main"}, nil)
	if mesh.PolicyOf(err) != "sum" || !strings.Contains(err.Error(), "overflow") {
		t.Errorf("by %q: %v", by, err)
	}
	if by, err := set.Judge("test", policy.Request{Principal: ann(), Action: mesh.ActCreateSkill, Name: "a.b"}, noRole); err != noRole {
		t.Errorf("by %q: %v", by, err)
	}
}

// No policies forbid nothing, also of nobody.
func TestWithoutPoliciesRolesDecide(t *testing.T) {
	var none *policy.Source
	if by, err := none.Judge("test", policy.Request{Principal: ann(), Action: mesh.ActChat}, nil); by != "" || err != nil {
		t.Errorf("by %q: %v", by, err)
	}
	if by, err := load(t, nil).Judge("test", policy.Request{Principal: ann(), Action: mesh.ActChat}, noRole); by != "" || err != noRole {
		t.Errorf("by %q: %v", by, err)
	}
}

// Each fault of a folder is refused with its place and what to do.
func TestWhatIsWrongIsSaidWithItsPlace(t *testing.T) {
	const good = `forbid(principal, action, resource);` + "\n"
	many := func(n int, policy string) string { return strings.Repeat(policy+"\n", n) }
	for name, tt := range map[string]struct {
		files  map[string]string
		change func(dir string) error
		code   mesh.Code
		want   []string
	}{
		"no Cedar":            {files: map[string]string{"a.cedar": good + "forbid(principal action, resource);"}, code: mesh.Invalid, want: []string{"a.cedar:2:24", "correct it"}},
		"cut short":           {files: map[string]string{"a.cedar": good + "forbid(principal, action, res"}, code: mesh.Invalid, want: []string{"a.cedar:2:"}},
		"an open text":        {files: map[string]string{"a.cedar": good + `forbid(principal == User::"acme/a, action, resource);`}, code: mesh.Invalid, want: []string{"a.cedar:2:"}},
		"an unknown action":   {files: map[string]string{"a.cedar": good + `forbid(principal, action == Action::"chat.sent", resource);`}, code: mesh.Invalid, want: []string{"a.cedar:2:1", `chat.sent`, "docs/policies.md"}},
		"one of roles alone":  {files: map[string]string{"a.cedar": `forbid(principal, action == Action::"approve.any", resource);`}, code: mesh.Invalid, want: []string{"a.cedar:1:1", "approve.any"}},
		"an unknown entity":   {files: map[string]string{"a.cedar": `forbid(principal in Group::"x", action, resource);`}, code: mesh.Invalid, want: []string{"a.cedar:1:1", "Group"}},
		"an unknown name":     {files: map[string]string{"a.cedar": good + `forbid(principal, action, resource) when { principal.age > 3 };`}, code: mesh.Invalid, want: []string{"a.cedar:2:1", "age"}},
		"not about that":      {files: map[string]string{"a.cedar": `forbid(principal, action == Action::"chat.send", resource == Skill::"mail.send");`}, code: mesh.Invalid, want: []string{"a.cedar:1:1"}},
		"in a tenant's":       {files: map[string]string{"b.cedar": good, "acme/a.cedar": good + "forbid(principal, action, );"}, code: mesh.Invalid, want: []string{"acme/a.cedar:2:"}},
		"a tenant's permit":   {files: map[string]string{"acme/a.cedar": good + `permit(principal, action == Action::"skill.create", resource);`}, code: mesh.Invalid, want: []string{"acme/a.cedar:2:1", "only forbid"}},
		"a permit of all":     {files: map[string]string{"a.cedar": `permit(principal, action, resource);`}, code: mesh.Invalid, want: []string{"a.cedar:1:1", "name the actions"}},
		"a permit to erase":   {files: map[string]string{"a.cedar": `permit(principal, action == Action::"user.erase", resource);`}, code: mesh.Invalid, want: []string{"a.cedar:1:1", "user.erase", "tenant-admin"}},
		"a permit of tenants": {files: map[string]string{"a.cedar": `permit(principal, action == Action::"admin.tenant", resource);`}, code: mesh.Invalid, want: []string{"a.cedar:1:1", "tenant-admin"}},
		"a name twice":        {files: map[string]string{"a.cedar": `@id("x")` + good, "b.cedar": `@id("x")` + good}, code: mesh.Invalid, want: []string{"b.cedar:1:1", "a.cedar:1"}},
		"an empty name":       {files: map[string]string{"a.cedar": `@id("")` + good}, code: mesh.Invalid, want: []string{"a.cedar:1:1"}},
		"a name with a bell":  {files: map[string]string{"a.cedar": `@id("\u{7}")` + good}, code: mesh.Invalid, want: []string{"a.cedar:1:1"}},
		"too many":            {files: map[string]string{"a.cedar": many(201, `forbid(principal, action == Action::"chat.send", resource);`)}, code: mesh.Invalid, want: []string{"a.cedar:201", "201", "200"}},
		"too many together":   {files: map[string]string{"a.cedar": many(200, `forbid(principal, action == Action::"chat.send", resource);`), "acme/b.cedar": `forbid(principal, action == Action::"chat.send", resource);`}, code: mesh.Invalid, want: []string{"acme/b.cedar:1", "acme"}},
		"huge":                {files: map[string]string{"a.cedar": strings.Repeat(" ", policy.MaxFile) + good}, code: mesh.Precondition, want: []string{"a.cedar", "KiB"}},
		"no tenant":           {files: map[string]string{"no tenant/a.cedar": good}, code: mesh.Precondition, want: []string{"no tenant"}},
		"too deep":            {files: map[string]string{"acme/b/a.cedar": good}, code: mesh.Precondition, want: []string{"acme/b", "move"}},
		"a folder as file":    {files: map[string]string{"no tenant.cedar/b.cedar": good}, code: mesh.Precondition, want: []string{"no tenant.cedar"}},
		"written by others":   {files: map[string]string{"a.cedar": good}, change: func(dir string) error { return os.Chmod(filepath.Join(dir, "a.cedar"), 0o620) }, code: mesh.Precondition, want: []string{"a.cedar", "chmod go-w"}},
		"a folder of all":     {files: map[string]string{"a.cedar": good}, change: func(dir string) error { return os.Chmod(dir, 0o777) }, code: mesh.Precondition, want: []string{"chmod go-w"}},
		"a tenant's of all":   {files: map[string]string{"acme/a.cedar": good}, change: func(dir string) error { return os.Chmod(filepath.Join(dir, "acme"), 0o777) }, code: mesh.Precondition, want: []string{"acme", "chmod go-w"}},
		"gone":                {change: os.Remove, code: mesh.Precondition, want: []string{"cannot be read"}},
		"leads nowhere":       {change: func(dir string) error { return os.Symlink("nothing", filepath.Join(dir, "a.cedar")) }, code: mesh.Precondition, want: []string{"a.cedar"}},
		"leads to itself":     {change: func(dir string) error { return os.Symlink("a.cedar", filepath.Join(dir, "a.cedar")) }, code: mesh.Precondition, want: []string{"a.cedar"}},
		"a folder as link":    {change: func(dir string) error { return os.Symlink(".", filepath.Join(dir, "acme")) }, code: mesh.Precondition, want: []string{"acme/acme"}},
		"a device":            {change: func(dir string) error { return os.Symlink("/dev/null", filepath.Join(dir, "a.cedar")) }, code: mesh.Precondition, want: []string{"a.cedar"}},
		"a file as folder": {files: map[string]string{"a.cedar": good}, change: func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		}, code: mesh.Precondition, want: []string{"no folder"}},
	} {
		dir := folder(t, tt.files)
		if tt.change != nil {
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
		}
		_, err := policy.Load(dir)
		if !mesh.IsCode(err, tt.code) {
			t.Errorf("%s: %v, want %v", name, err, tt.code)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(mesh.DetailOf(err), want) {
				t.Errorf("%s: %q does not say %q", name, mesh.DetailOf(err), want)
			}
		}
	}
}

// What is as it should be, however it looks.
func TestFoldersThatAreFine(t *testing.T) {
	const good = `forbid(principal, action == Action::"chat.send", resource);`
	deep := strings.Repeat("(", 10_000) + "true" + strings.Repeat(")", 10_000)
	dir := folder(t, map[string]string{
		"a.cedar": good + good, "acme/a.cedar": "// nothing yet", "umbrella/a.cedar": `@id("x")` + good, "acme/b.cedar": `@id("x")` + good,
		"notes.md": "?", ".git/a.cedar": "?", "..data": "?", "deep.cedar": "forbid(principal, action, resource) when { !" + deep + " };", "empty.cedar": "",
	})
	elsewhere := folder(t, map[string]string{"linked": good})
	if err := os.Symlink(filepath.Join(elsewhere, "linked"), filepath.Join(dir, "linked.cedar")); err != nil {
		t.Fatal(err)
	}
	set, err := policy.Load(dir)
	if err != nil || set.Len() != 6 {
		t.Fatalf("%v, %v", set, err)
	}
	// Each tenant has room for what it has beside that of all.
	var files = map[string]string{}
	for i := range 30 {
		files[fmt.Sprintf("t%d/a.cedar", i)] = strings.Repeat(good+"\n", 199)
	}
	files["all.cedar"] = good
	if set, err := policy.Load(folder(t, files)); err != nil || set.Len() != 30*199+1 {
		t.Fatal(err)
	}
}

// What is remembered of one request is not said of another.
func TestWhatIsRememberedIsOfThatRequest(t *testing.T) {
	set := load(t, map[string]string{"a.cedar": `
@id("user") forbid(principal == User::"acme/b", action == Action::"skill.call", resource);
@id("role") forbid(principal in Role::"viewer", action == Action::"skill.call", resource);
@id("name") forbid(principal, action == Action::"skill.call", resource == Skill::"b");
@id("agent") forbid(principal, action == Action::"skill.call", resource) when { context has agent && context.agent == "b" };
@id("chain") forbid(principal, action == Action::"skill.call", resource) when { context.chain.contains("c") };
@id("credential") forbid(principal, action == Action::"skill.call", resource) when { context has credential && context.credential == "token:b" };
@id("long") forbid(principal, action == Action::"skill.call", resource) when { resource.name like "*z" };
`})
	long := strings.Repeat("x", 2000)
	grant := func(agents ...string) *mesh.Grant {
		g := &mesh.Grant{Agent: agents[0]}
		for _, a := range agents[1:] {
			g.Chain = append(g.Chain, mesh.Actor{Agent: a})
		}
		return g
	}
	base := mesh.Principal{Tenant: "acme", User: "a", Credential: "token:a"}
	for range 2 {
		for want, change := range map[string]func(r *policy.Request){
			"":           func(*policy.Request) {},
			"user":       func(r *policy.Request) { r.Principal.User = "b" },
			"role":       func(r *policy.Request) { r.Principal.Roles = []mesh.Role{mesh.RoleViewer} },
			"name":       func(r *policy.Request) { r.Name = "b" },
			"agent":      func(r *policy.Request) { r.Principal.Grant = grant("b", "a", "b") },
			"chain":      func(r *policy.Request) { r.Principal.Grant = grant("a", "a", "c") },
			"credential": func(r *policy.Request) { r.Principal.Credential = "token:b" },
			"long":       func(r *policy.Request) { r.Name = long + "z" },
			"- later":    func(r *policy.Request) { r.Principal.Credential, r.Later = "token:b", true },
			"- long":     func(r *policy.Request) { r.Name = long },
			"- agent":    func(r *policy.Request) { r.Principal.Grant = grant("a", "a", "b") },
		} {
			r := policy.Request{Principal: base, Action: mesh.ActSkillCall, Name: "a"}
			change(&r)
			_, err := set.Judge("test", r, nil)
			if got := mesh.PolicyOf(err); got != want && !(strings.HasPrefix(want, "-") && got == "") {
				t.Errorf("%q: by %q", want, got)
			}
		}
	}
}
