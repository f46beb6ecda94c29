package main

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/auth"
)

var (
	importRounds = flag.Int("importrounds", 3, "how often a mesh is killed that imports a tenant, and a thread")
	importSeed   = flag.Uint64("importseed", uint64(time.Now().UnixNano()), "of the moments at which it is killed")
)

// withOperator adds an operator to those whom the mesh in the folder knows, and a user of
// another tenant.
func withOperator(t *testing.T, dir string) {
	t.Helper()
	file := readFile(t, filepath.Join(dir, "tokens.yaml"))
	for name, is := range map[string]string{"op": "default, user: op, roles: [operator]", "rival": "rivals, user: rival, roles: [user, skill-author]"} {
		file += fmt.Sprintf("- {name: %s, hash: '%s', tenant: %s}\n", name, auth.Hash(tokenOf(name)), is)
	}
	writeFile(t, filepath.Join(dir, "tokens.yaml"), file)
}

// exported is the file of the tenant default of a mesh in which a rival has something too, a folder for a
// mesh that has nothing, and what the folder of the first one has.
func exported(t *testing.T) (file, empty string, has map[string]string) {
	t.Helper()
	source := inhabited(t)
	has = portable(t, copied(t, source))
	withOperator(t, source)
	m, _ := upAs(t, source)
	rival := person{m, tokenOf("rival")}
	for _, k := range kept {
		args := append([]string(nil), k.put...)
		for at, a := range args {
			args[at] = strings.Replace(a, "secret", "rivalry", 1)
		}
		rival.ran(args...)
	}
	rival.mesh("send", "--thread", mesh.NewThreadID(), "Create a task of rivalry").succeeds(t)
	file = filepath.Join(t.TempDir(), "default.jsonl")
	op := person{m, tokenOf("op")}
	for _, who := range []string{"ann", "root"} {
		person{m, tokenOf(who)}.mesh("tenants", "export", "default", file).fails(t, exitDenied, "")
	}
	if out := op.mesh("tenants", "export", "default", file).succeeds(t); !strings.Contains(out, "conversations with") || !strings.Contains(out, "mail: ") || !strings.Contains(out, "skills: 1") {
		t.Errorf("what was exported: %s", out)
	}
	op.recorded("ExportTenant", "allowed  ExportTenant", "done  ExportTenant")
	if text := readFile(t, file); strings.Contains(strings.ToLower(text), "rival") {
		t.Error("the export has something of another tenant")
	}
	m.stop()
	empty = t.TempDir()
	for _, name := range []string{"tokens.yaml", "mesh.yaml"} {
		writeFile(t, filepath.Join(empty, name), readFile(t, filepath.Join(source, name)))
	}
	return file, empty, has
}

// What a tenant has reads back equal where it is imported, and nothing of others is part
// of it. A mesh that imports can be killed at any moment: the same import goes on, and ends with
// the same; nothing is there twice, nothing is begun, and chains are as they were written.
func TestATenantIsImportedWholeAcrossKill9(t *testing.T) {
	t.Parallel()
	file, empty, has := exported(t)
	dir := copied(t, empty)
	m, _ := upAs(t, dir)
	op := person{m, tokenOf("op")}
	began := time.Now()
	first := op.mesh("tenants", "import", file).succeeds(t)
	longest := time.Since(began)
	wholly(t, m, file, has)
	goesOn(t, dir)
	t.Logf("%d things are imported in %v; -importseed=%d\n%s", len(has), longest, *importSeed, first)

	random, cut := rand.New(rand.NewPCG(*importSeed, 0)), 0
	for round := range *importRounds {
		dir := copied(t, empty)
		m, _ := upAs(t, dir)
		last := m.killedWithin(random, longest, func() finished { return person{m, tokenOf("op")}.mesh("tenants", "import", file) })
		left := portable(t, copied(t, dir))
		for name, is := range left {
			if has[name] != is {
				t.Errorf("round %d: %s is %q, and was %q", round, name, is, has[name])
			}
		}
		if last.code != exitOK && len(left) > 0 && !maps.Equal(left, has) {
			cut++
		}
		m, _ = upAs(t, dir)
		person{m, tokenOf("op")}.mesh("tenants", "import", file).succeeds(t)
		wholly(t, m, file, has)
	}
	t.Logf("%d of %d were cut in the middle", cut, *importRounds)
	if cut == 0 && *importRounds >= 50 {
		t.Error("none was cut in the middle; the test proves nothing")
	}
}

// wholly fails unless the mesh has what is wanted, the same import does nothing more, and another
// one is refused; it stops the mesh.
func wholly(t *testing.T, m *realMesh, file string, want map[string]string) {
	t.Helper()
	op := person{m, tokenOf("op")}
	if out := op.mesh("tenants", "import", file).succeeds(t); !strings.Contains(out, "nothing was done") {
		t.Errorf("once more: %s", out)
	}
	other := filepath.Join(t.TempDir(), "other.jsonl")
	op.mesh("tenants", "export", "default", other).succeeds(t)
	op.mesh("tenants", "import", other).fails(t, exitFailure, "already")
	op.recorded("ImportTenant", "allowed  ImportTenant", "done  ImportTenant")
	m.stop()
	differ(t, "imported", want, portable(t, copied(t, m.dir)))
	m.verify().want(t, exitOK, "")
}

// goesOn fails unless ann finds what she had where it was imported, and goes on.
func goesOn(t *testing.T, dir string) {
	t.Helper()
	m, _ := upAs(t, dir)
	ann := person{m, tokenOf("ann")}
	for _, k := range kept {
		look := append([]string(nil), k.look...)
		for at, a := range look {
			look[at] = strings.Replace(a, "secret", "secret0", 1)
		}
		if !ann.finds(look) {
			t.Errorf("ann finds nothing by %v", look)
		}
	}
	ann.mesh("send", "Create a task to call Carl").succeeds(t)
	if out := ann.mesh("skills", "list").succeeds(t); !strings.Contains(out, "greet") {
		t.Errorf("ann has no skill: %s", out)
	}
	m.stop()
}

// portable are the contents of a folder that go with its tenant: not its keys, nor locks.
func portable(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := contents(t, dir)
	maps.DeleteFunc(all, func(name, _ string) bool { return strings.Contains(name, "/.lock-") || strings.HasSuffix(name, ".key") })
	return all
}
