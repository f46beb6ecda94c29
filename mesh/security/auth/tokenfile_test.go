package auth_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
)

func TestATokenFileMayBeJSON(t *testing.T) {
	const file = `[{"name": "alice", "hash": "HASH-A", "tenant": "acme", "user": "alice",
	  "permissions": ["chat", "skill:create", "chat", "threads:delete"]}]`
	a, err := auth.LoadTokens(write(t, file), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Authenticate(t.Context(), rpc.Credentials{Authorization: "Bearer token-A"})
	if err != nil || !p.Can(mesh.ActCreateSkill) || !p.Can(mesh.ActDeleteThread) || p.Can(mesh.ActRegister) || len(p.Roles) != 3 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestATokenFileWithAMistakeIsRefusedByPlace(t *testing.T) {
	good := "- {name: a, hash: HASH-A, tenant: acme, user: alice, permissions: [chat]}\n"
	tests := map[string]struct {
		file  string
		where string // file:line, entry and field
		says  string
	}{
		"an empty file":            {"", "tokens.yaml: ", "has no tokens"},
		"only a comment":           {"# none yet\n", "tokens.yaml: ", "has no tokens"},
		"an empty list":            {"[]", "tokens.yaml:1: ", "has no tokens"},
		"no YAML":                  {"- {name: a\n- b", "tokens.yaml:3: ", "is not YAML or JSON"},
		"two documents":            {good + "---\n" + good, "tokens.yaml:1: ", "must be one document"},
		"no list":                  {"name: a\n", "tokens.yaml:1: ", "must be a list"},
		"an entry that is a text":  {good + "- alice\n", "tokens.yaml:2: entry 2: ", "must have the fields"},
		"a field too many":         {"- {name: a, hash: HASH-A, tenant: acme, user: alice, permissions: [chat], ends: never}", "tokens.yaml:1: entry 1: ends: ", "is not a field of an entry"},
		"a field too few":          {"- name: a\n  hash: HASH-A\n  user: alice\n  permissions: [chat]\n", "entry 1: tenant: ", "is missing"},
		"a field twice":            {"- name: a\n  name: b\n", "tokens.yaml:2: entry 1: name: ", "must be set once"},
		"an empty name":            {strings.Replace(good, "name: a", "name: ''", 1), "entry 1: name: ", "must be a text"},
		"a null user":              {strings.Replace(good, "user: alice", "user: null", 1), "entry 1 (a): user: ", "must be a text"},
		"a list as user":           {strings.Replace(good, "user: alice", "user: [alice]", 1), "entry 1 (a): user: ", "must be a text"},
		"a user with a space":      {strings.Replace(good, "user: alice", "user: alice b", 1), "entry 1 (a): user: ", "printable ASCII"},
		"a tenant with a slash":    {strings.Replace(good, "tenant: acme", "tenant: a/b", 1), "tokens.yaml:1: entry 1 (a): tenant: ", "must be 1 to 64 letters"},
		"the token itself":         {strings.Replace(good, "HASH-A", "my-token", 1), "entry 1 (a): hash: ", "the token itself does not belong here"},
		"a hash of another kind":   {strings.Replace(good, "HASH-A", "md5:"+strings.Repeat("0", 64), 1), "entry 1 (a): hash: ", "sha256:"},
		"half a hash":              {strings.Replace(good, "HASH-A", "sha256:"+strings.Repeat("0", 32), 1), "entry 1 (a): hash: ", "64 hexadecimal digits"},
		"an unknown permission":    {"- name: a\n  hash: HASH-A\n  tenant: acme\n  user: alice\n  permissions:\n  - chat\n  - fly\n", "tokens.yaml:7: entry 1 (a): permissions: ", `"fly"`},
		"no permission":            {strings.Replace(good, "[chat]", "[]", 1), "entry 1 (a): permissions: ", "at least one"},
		"a permission, not a list": {strings.Replace(good, "[chat]", "chat", 1), "entry 1 (a): permissions: ", "must be a list"},
		"a name twice":             {good + strings.Replace(good, "HASH-A", "HASH-B", 1), "tokens.yaml:2: entry 2 (a): name: ", "entry 1 too"},
		"a token twice":            {good + strings.Replace(good, "name: a", "name: b", 1), "tokens.yaml:2: entry 2 (b): hash: ", "entry 1 (a) too"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := auth.LoadTokens(write(t, tt.file), nil)
			detail := mesh.DetailOf(err)
			if !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(detail, tt.where) || !strings.Contains(detail, tt.says) {
				t.Errorf("got %v, want invalid at %q saying %q", err, tt.where, tt.says)
			}
			if strings.Contains(detail, "my-token") {
				t.Errorf("the message shows a token: %s", detail)
			}
		})
	}
}

func TestATokenFileThatIsNotThereIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.yaml")
	var e *mesh.Error
	if _, err := auth.LoadTokens(path, nil); !errors.As(err, &e) || e.Code != mesh.Precondition || !strings.Contains(e.Detail, path) {
		t.Errorf("got %v, want precondition naming the file", err)
	}
}
