package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/backup"
	"agentmesh/mesh/node/datafolder"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/skill"
	"agentmesh/skills"
)

// everySkill has a call of each built-in skill, in an order in which they can be made. ID
// stands for the last id that was shown.
var everySkill = [][]string{
	{"tasks.create", "--title", "secret"},
	{"tasks.search", "--query", "secret"},
	{"tasks.get", "--task_id", "ID"},
	{"tasks.update", "--task_id", "ID", "--status", "done"},
	{"tasks.archive", "--task_id", "ID"},
	{"tasks.delete", "--task_id", "ID"},
	{"mail.send", "--to", "x@example.com", "--subject", "secret", "--body", "secret"},
	{"mail.draft", "--subject", "secret draft", "--body", "secret"},
	{"mail.move", "--id", "ID", "--to", "archive"},
	{"mail.search", "--query", "secret"},
	{"mail.read", "--id", "ID"},
	{"calendar.create", "--title", "secret", "--start", "2036-12-01T14:00"},
	{"calendar.list", "--from", "2036-12-01", "--to", "2036-12-02"},
	{"calendar.update", "--id", "ID", "--title", "secret too"},
	{"files.write", "--path", "plans/secret.txt", "--content", "secret"},
	{"files.update", "--path", "plans/secret.txt", "--content", "secret too"},
	{"files.list", "--path", "plans"},
	{"files.read", "--path", "plans/secret.txt"},
	{"files.search", "--query", "secret"},
	{"mail.send", "--to", "x@example.com", "--subject", "a file", "--body", "secret", "--attach", "plans/secret.txt"},
	{"mail.search", "--query", "file"},
	{"mail.save", "--id", "ID", "--path", "plans/saved.txt"},
	{"markdown.create", "--title", "secret", "--content", "secret words"},
	{"markdown.edit", "--note", "secret", "--content", "and more"},
	{"markdown.read", "--note", "secret"},
	{"markdown.search", "--query", "secret"},
	{"memory.save", "--content", "The word is secret"},
	{"memory.search", "--query", "secret"},
	{"memory.settings", "--learn", "false"},
	{"knowledge.search", "--query", "mesh"},
	{"system.build_skill", "--name", "say_secret", "--description", "Says the secret", "--steps", "Say it"},
	{"workflow.build", "--name", "say_more", "--description", "Says more", "--steps", "Say it"},
}

// shownID is an id of a task, a message or an event.
var shownID = regexp.MustCompile(`\b(t-[a-z2-7]{5,}|m-[0-9a-f]{10})\b|\bid (?:is )?([0-9a-f]{8})\b|"id":"([0-9a-f]{8})"`)

// waitsFor names the thread and the task of a question.
var waitsFor = regexp.MustCompile(`mesh send --thread (\S+) --task (\S+) yes`)

// useAll uses every built-in skill once.
func useAll(t *testing.T, mesh func(args ...string) finished) {
	t.Helper()
	id, called := "", map[string]bool{}
	for _, call := range everySkill {
		args := slices.Clone(call)
		for i, a := range args {
			args[i] = strings.ReplaceAll(a, "ID", id)
		}
		f := mesh(append([]string{"skills", "run", "--yes"}, args...)...)
		if yes := waitsFor.FindStringSubmatch(f.stdout + f.stderr); yes != nil {
			f = mesh("send", "--thread", yes[1], "--task", yes[2], "yes")
		}
		if called[call[0]] = true; f.code != exitOK {
			t.Errorf("%v: exit code %d, %s%s", args, f.code, f.stdout, f.stderr)
		}
		if found := shownID.FindStringSubmatch(f.stdout + f.stderr); found != nil {
			id = found[1] + found[2] + found[3]
		}
	}
	all, _ := skill.Load(skills.FS)
	for _, s := range all.List() {
		if !called[s.Name] {
			t.Errorf("nobody calls %s: add a call to everySkill, so that a backup is known to have what it keeps", s.Name)
		}
	}
}

// finding U5: a backup knows all that is in the data folder of a mesh of which everything
// was used once. Whoever adds a file there says in datafolder's kinds how it is copied.
func TestABackupKnowsAllThatAMeshKeeps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "tls: {mode: auto}\n")
	m := up(t, dir)
	useAll(t, func(args ...string) finished {
		return runHere(t, map[string]string{"MESH_ADDR": m.grpc, "MESH_CA": filepath.Join(m.data, "tls", "ca.pem")}, args...)
	})
	m.stop()
	unknown, err := datafolder.Unknown(m.data)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range unknown {
		t.Errorf("no backup knows what %s is", name)
	}
	for _, dir := range []string{"files/.keys/*", "vault/.keys/*", ".calendar-keys/changed/*", ".calendar-keys/created/*", ".mail-keys/drafts/*"} {
		if len(m.files(dir+"/"+backup.LockAll)) == 0 {
			t.Errorf("who changes files asks nobody in %s whether a backup looks at them", dir)
		}
	}
	for _, name := range []string{"new.db", "mesh.log/1.idx", "files/.hidden/x"} {
		writeFile(t, filepath.Join(m.data, name), "x")
	}
	if unknown, err := datafolder.Unknown(m.data); err != nil || !slices.Equal(unknown, []string{"files/.hidden", "mesh.log/1.idx", "new.db"}) {
		t.Errorf("of new ones it does not know %q, %v", unknown, err)
	}
}

// finding U5: a mesh that serves is backed up, and a mesh on the restored folder has all:
// conversations and what every skill keeps.
func TestAMeshOnARestoredBackupHasEverything(t *testing.T) {
	t.Parallel()
	dir, id := t.TempDir(), mesh.NewThreadID()
	m := up(t, dir)
	local := person{m, ""}
	useAll(t, local.mesh)
	for _, k := range kept {
		local.ran(k.put...)
	}
	gone := mesh.NewThreadID()
	plainly(t, m, gone, "", "Create a task to call Bob")
	local.mesh("threads", "delete", gone, "--yes").succeeds(t)
	plainly(t, m, id, "", "Create a task to call Ann")

	copied, restored := filepath.Join(dir, "copy"), t.TempDir()
	said := local.mesh("data", "backup", copied).succeeds(t)
	if !strings.Contains(said, "events and") || !strings.Contains(said, "keys") {
		t.Errorf("it says %s", said)
	}
	m.stop()
	runHere(t, nil, "data", "verify", "--data", copied).want(t, exitOK, "nothing is damaged")
	runHere(t, nil, "data", "restore", copied, "--data", filepath.Join(restored, "data")).succeeds(t)
	runHere(t, nil, "data", "verify", "--data", filepath.Join(restored, "data")).want(t, exitOK, "nothing is damaged")
	differ(t, "the restored folder", withoutLocks(contents(t, dir)), contents(t, restored))

	offline := filepath.Join(dir, "offline")
	runHere(t, nil, "data", "backup", offline, "--data", m.data).want(t, exitOK, "as of")
	runHere(t, nil, "data", "verify", "--data", offline).want(t, exitOK, "nothing is damaged")

	again := up(t, restored)
	local = person{again, ""}
	for _, k := range kept {
		if !local.finds(k.look) {
			t.Errorf("what is kept in %s is not found: %s", k.domain, local.ran(k.look...))
		}
	}
	if text := local.mesh("threads", "show", id).succeeds(t); !strings.Contains(text, "call Ann") {
		t.Errorf("the conversation is %s", text)
	}
	local.mesh("threads", "show", gone).fails(t, exitNotFound, "not found")
	local.mesh("skills", "show", "workflows.say_secret").succeeds(t)
	if h := plainly(t, again, id, "", "Create a task to call Carol"); h.state != 3 {
		t.Errorf("the conversation does not go on: %+v", h)
	}
}

// withoutLocks are contents without the files that are locked by who changes something.
func withoutLocks(all map[string]string) map[string]string {
	maps.DeleteFunc(all, func(name, _ string) bool { return strings.Contains(name, "/.lock-") })
	return all
}

// Whoever is no operator gets no backup, and is refused on the record; an operator's is on it.
func TestOnlyOperatorsBackUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var file strings.Builder
	for _, role := range mesh.Roles() {
		file.WriteString("- {name: " + string(role) + ", hash: '" + auth.Hash(tokenOf(string(role))) + "', tenant: default, user: " + string(role) + ", roles: [" + string(role) + "]}\n")
	}
	writeFile(t, filepath.Join(dir, "tokens.yaml"), file.String())
	m := up(t, dir, "--auth", "tokens", "--tokens", "tokens.yaml")
	for _, role := range mesh.Roles() {
		to := filepath.Join(dir, "of-"+string(role))
		f := person{m, tokenOf(string(role))}.mesh("data", "backup", to)
		if role == mesh.RoleOperator {
			f.succeeds(t)
			continue
		}
		f.fails(t, exitDenied, "admin.node")
		if left, _ := filepath.Glob(to + "*"); left != nil {
			t.Errorf("%s is left %v", role, left)
		}
	}
	ctx := timely(t)
	want := map[string]int{"refused": len(mesh.Roles()) - 1, "allowed": 1, "done": 1}
	for { // refusals are recorded soon
		tail := person{m, tokenOf("operator")}.mesh("audit", "tail", "--action", "BackupData", "-n", "99").succeeds(t)
		got := map[string]int{}
		for what := range want {
			got[what] = strings.Count(tail, "  "+what+"  BackupData")
		}
		if maps.Equal(got, want) {
			return
		}
		if ctx.Err() != nil || got["refused"] > want["refused"] || got["done"] > 1 {
			t.Fatalf("recorded are %v, want %v:\n%s", got, want, tail)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// finding U5: what is damaged is named, by the file or the thread, and is neither restored nor
// kept as a backup; the commands say what they need.
func TestWhatIsDamagedOrInUseIsNamed(t *testing.T) {
	t.Parallel()
	dir, id := t.TempDir(), mesh.NewThreadID()
	m := up(t, dir)
	plainly(t, m, id, "", "Create a task to call the dentist")
	copied := filepath.Join(dir, "copy")
	m.mesh("data", "backup", copied).succeeds(t)
	m.mesh("data", "backup", copied).fails(t, exitFailure, "not empty")
	in := runHere(t, nil, "data", "verify", "--data", m.data)
	in.fails(t, exitUnavailable, "in use by process .*backup")
	runHere(t, nil, "data", "backup", filepath.Join(dir, "x"), "--data", m.data).fails(t, exitFailure, "in use by process")
	runHere(t, nil, "data", "restore", copied, "--data", m.data).fails(t, exitFailure, "not empty")
	m.stop()
	runHere(t, nil, "data", "verify", "--data", filepath.Join(dir, "none")).fails(t, exitNotFound, "no data folder")
	runHere(t, nil, "data", "restore", dir, "--data", filepath.Join(dir, "x")).fails(t, exitNotFound, "no backup")
	runHere(t, map[string]string{"MESH_ADDR": m.grpc}, "data", "backup", filepath.Join(dir, "x")).fails(t, exitUnavailable, "nobody answers")

	log, err := filepath.Glob(filepath.Join(m.data, "mesh.log", "*.seg"))
	if err != nil || len(log) == 0 {
		t.Fatal(err)
	}
	text := readFile(t, log[0])
	at := strings.Index(text, "the dentist")
	damaged := []byte(text)
	damaged[at] ^= 1
	for what, data := range map[string]string{"the folder": m.data, "the backup": filepath.Join(copied, "data")} {
		name := filepath.Join(data, "mesh.log", filepath.Base(log[0]))
		was := readFile(t, name)
		if err := os.WriteFile(name, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if what == "the folder" {
			runHere(t, nil, "data", "verify", "--data", data).want(t, exitFailure, "thread default/"+id+" event", "is damaged")
			f := runHere(t, nil, "data", "backup", filepath.Join(dir, "x"), "--data", data)
			f.want(t, exitFailure, "thread default/"+id+" event", "is damaged")
			runHere(t, nil, "data", "backup", filepath.Join(dir, "kept"), "--data", data, "--no-verify").want(t, exitOK, "not verified")
		} else {
			runHere(t, nil, "data", "verify", "--data", copied).want(t, exitFailure, "mesh.log/"+filepath.Base(log[0])+": is not what was copied")
			runHere(t, nil, "data", "restore", copied, "--data", filepath.Join(dir, "x")).want(t, exitFailure, "mesh.log/"+filepath.Base(log[0]), "is damaged")
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "x*")); left != nil {
			t.Errorf("%s is damaged: left is %v", what, left)
		}
		if err := os.WriteFile(name, []byte(was), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"grant.key", "card.key", "context.key"} {
		name := filepath.Join(m.data, key)
		was := readFile(t, name)
		writeFile(t, name, "x")
		runHere(t, nil, "data", "verify", "--data", m.data).want(t, exitFailure, key+": ")
		writeFile(t, name, was)
	}
	runHere(t, nil, "data", "verify", "--data", m.data).want(t, exitOK, "nothing is damaged")
}
