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
	eraseRounds = flag.Int("eraserounds", 3, "how often a mesh is killed that erases a user")
	eraseSeed   = flag.Uint64("eraseseed", uint64(time.Now().UnixNano()), "of the moments at which it is killed")
)

// A mesh that erases a user can be killed at any moment: no conversation is half there, nothing
// of anybody else is touched, and run again the erasure is complete; chains are as they were
// written.
func TestErasureSurvivesKill9(t *testing.T) {
	t.Parallel()
	source := inhabited(t)
	whole := copied(t, source)
	before := contents(t, whole)
	want := maps.Clone(before)
	maps.DeleteFunc(want, anns)
	if len(before)-len(want) < 20 {
		t.Fatalf("ann has only %d of %d things", len(before)-len(want), len(before))
	}
	m, root := upAs(t, whole)
	began := time.Now()
	if out := root.mesh("users", "erase", "ann", "--yes").succeeds(t); !strings.Contains(out, "threads: ") || !strings.Contains(out, "mail: ") || !strings.Contains(out, "skills: 1") {
		t.Errorf("what was removed: %s", out)
	}
	longest := time.Since(began)
	settled(t, m, root, want)
	t.Logf("%d of %d things are erased in %v; -eraseseed=%d", len(before)-len(want), len(before), longest, *eraseSeed)

	random, cut := rand.New(rand.NewPCG(*eraseSeed, 0)), 0
	for round := range *eraseRounds {
		dir := copied(t, source)
		m, root := upAs(t, dir)
		ended := m.killedWithin(random, longest, func() finished { return root.mesh("users", "erase", "ann", "--yes") })
		left := contents(t, copied(t, dir))
		for name, is := range left {
			if before[name] != is {
				t.Errorf("round %d: %s is %q, and was %q", round, name, is, before[name])
			}
		}
		for name := range want {
			if left[name] == "" {
				t.Errorf("round %d: %s is gone", round, name)
			}
		}
		if ended.code != exitOK && !maps.Equal(left, before) && !maps.Equal(left, want) {
			cut++
		}
		m, root = upAs(t, dir)
		root.mesh("users", "erase", "ann", "--yes").succeeds(t)
		settled(t, m, root, want)
	}
	t.Logf("%d of %d were cut in the middle", cut, *eraseRounds)
	if cut == 0 && *eraseRounds >= 50 {
		t.Error("none was cut in the middle; the test proves nothing")
	}
}

// anns reports whether a thing of contents is ann's.
func anns(name, is string) bool {
	return strings.Contains(name, "@ann") || strings.Contains(name, "tenant-skills") || strings.HasPrefix(name, "ann ") ||
		strings.HasPrefix(name, "thread ") && strings.HasPrefix(is, "ann")
}

// settled stops the mesh, and fails unless the folder has what is wanted, ann is nobody, and
// all is as it was written.
func settled(t *testing.T, m *realMesh, root person, want map[string]string) {
	t.Helper()
	if out := root.mesh("users", "erase", "ann", "--yes", "--json").succeeds(t); strings.TrimSpace(out) != "{}" {
		t.Errorf("once more: %s", out)
	}
	root.recorded("EraseUser", "done  EraseUser  ann  by default/root")
	person{m, tokenOf("ann")}.mesh("threads", "list").fails(t, exitDenied, "revoked")
	m.stop()
	differ(t, "erased", want, contents(t, copied(t, m.dir)))
	m.verify().want(t, exitOK, "")
}

// upAs starts a mesh that ann, eve and root know, who may erase.
func upAs(t *testing.T, dir string) (*realMesh, person) {
	t.Helper()
	m := up(t, dir, "--auth", "tokens", "--tokens", "tokens.yaml")
	return m, person{m, tokenOf("root")}
}

// inhabited makes a folder in which ann and eve have something of all that skills keep, and
// ann a skill too.
func inhabited(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var file strings.Builder
	for name, roles := range map[string]string{"ann": "user, skill-author", "eve": "user", "root": "tenant-admin"} {
		fmt.Fprintf(&file, "- {name: %[1]s, hash: '%[2]s', tenant: default, user: %[1]s, roles: [%[3]s]}\n", name, auth.Hash(tokenOf(name)), roles)
	}
	writeFile(t, filepath.Join(dir, "tokens.yaml"), file.String())
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "log_level: warn\n")
	m, _ := upAs(t, dir)
	for _, name := range []string{"ann", "eve"} {
		p := person{m, tokenOf(name)}
		for i := range 2 {
			for _, k := range kept {
				args := append([]string(nil), k.put...)
				for at, a := range args {
					args[at] = strings.Replace(a, "secret", fmt.Sprintf("secret%d", i), 1)
				}
				p.ran(args...)
			}
		}
		p.mesh("send", "--thread", mesh.NewThreadID(), "Create a task to call Bob").succeeds(t)
	}
	person{m, tokenOf("ann")}.mesh("skills", "new", "greet", "--mesh", "--description", "Greet somebody", "--step", "Say hello", "--schedule", "0 8 * * *").succeeds(t)
	m.stop()
	return dir
}
