package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
)

// A person is somebody with a token.
type person struct {
	*realMesh
	token string
}

// mesh runs a client command as the person.
func (p person) mesh(args ...string) finished {
	p.t.Helper()
	return runHere(p.t, map[string]string{"MESH_ADDR": p.grpc, "MESH_TOKEN": p.token}, args...)
}

// recorded waits until the record has these words of the action: what ended is recorded soon, and
// who called may know of the end before.
func (p person) recorded(action string, want ...string) {
	p.t.Helper()
	for ctx := timely(p.t); ; time.Sleep(10 * time.Millisecond) {
		out := p.mesh("audit", "tail", "--action", action).succeeds(p.t)
		if !slices.ContainsFunc(want, func(words string) bool { return !strings.Contains(out, words) }) {
			return
		}
		if ctx.Err() != nil {
			p.t.Fatalf("the record has not all of %q: %s", want, out)
		}
	}
}

// upWithTokens starts a mesh for four people of two tenants, whose tokens are hashed by the
// command itself: cat is in the tenant of ann, and may chat. settings are further lines of its
// mesh.yaml.
func upWithTokens(t *testing.T, settings ...string) (ann, bob, ops person) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "log_level: warn\n"+strings.Join(settings, "\n")+"\n")
	people := []struct{ name, tenant, permissions string }{
		{"ann", "acme", "chat, 'skill:create'"}, {"bob", "rival", "chat, agents"}, {"ops", "acme", "operator"}, {"cat", "acme", "chat"}}
	var file strings.Builder
	for _, p := range people {
		hasher := launch(t, dir, "mesh", nil, "token", "hash")
		hasher.enter(tokenOf(p.name) + "\n")
		_ = hasher.stdin.Close()
		if code := hasher.wait(); code != exitOK {
			t.Fatalf("token hash: exit code %d; stderr: %s", code, hasher.stderr.String())
		}
		fmt.Fprintf(&file, "- name: %s\n  hash: %s\n  tenant: %s\n  user: %s\n  permissions: [%s]\n",
			p.name, strings.TrimSpace(hasher.stdout.String()), p.tenant, p.name, p.permissions)
	}
	writeFile(t, filepath.Join(dir, "tokens.yaml"), file.String())
	m := up(t, dir, "--auth", "tokens", "--tokens", "tokens.yaml")
	return person{m, tokenOf("ann")}, person{m, tokenOf("bob")}, person{m, tokenOf("ops")}
}

// tokenOf is long, and random enough for a test.
func tokenOf(name string) string { return strings.Repeat(name, 12) }

// Two tenants with tokens are apart (S4-013, S4-014, S4-052, S4-068), and each
// token allows what it says.
func TestTenantsDoNotSeeEachOtherThroughAnyCommand(t *testing.T) {
	t.Parallel()
	ann, bob, ops := upWithTokens(t)
	t.Run("commands", func(t *testing.T) { tenantsAreApart(t, ann, bob) })
	t.Run("permissions", func(t *testing.T) { tokensAllow(t, ann, bob, ops) })
	t.Run("addresses", func(t *testing.T) {
		bob.mesh("agent", "run", "worker", "--name", "mole").fails(t, exitUsage, `leads to this machine, which is not allowed.*egress\.allow`)
	})
}

// tenantsAreApart checks that to every command the threads, tasks and agents of
// one tenant look to the other exactly like some that do not exist.
func tenantsAreApart(t *testing.T, ann, bob person) {
	id, unknown := mesh.NewThreadID(), mesh.NewThreadID()
	ann.mesh("send", "--thread", id, `Create a task called "Buy the rival" due 2020-01-31`).succeeds(t)
	task := regexp.MustCompile(`"id":"([0-9a-f]{32}-[0-9a-f]{16})"`).FindStringSubmatch(
		ann.mesh("send", "--thread", id, "--json", "What are my overdue tasks?").succeeds(t))
	if task == nil {
		t.Fatal("no task id in the answer")
	}
	other := strings.ReplaceAll(unknown, "-", "") + task[1][32:]
	before := ann.mesh("threads", "export", id).succeeds(t)

	// Each command, about what is ann's and about what does not exist.
	for name, args := range map[string]func(thread, task string) []string{
		"show":   func(thread, _ string) []string { return []string{"threads", "show", thread} },
		"export": func(thread, _ string) []string { return []string{"threads", "export", thread} },
		"follow": func(thread, _ string) []string { return []string{"threads", "follow", thread} },
		"answer": func(_, task string) []string { return []string{"send", "--task", task, "hi"} },
		"resume": func(_, task string) []string { return []string{"send", "--task", task, "--resume", "0"} },
		"json":   func(thread, _ string) []string { return []string{"threads", "show", thread, "--json"} },
		"agents": func(thread, _ string) []string { return []string{"agents", "list", "--thread", thread} },
		"skills": func(thread, _ string) []string { return []string{"skills", "list", "--thread", thread} },
	} {
		foreign, missing := bob.mesh(args(id, task[1])...), bob.mesh(args(unknown, other)...)
		same := func(s string) string {
			return strings.NewReplacer(id, "ID", unknown, "ID", task[1], "TASK", other, "TASK").Replace(s)
		}
		if foreign.code != missing.code || same(foreign.stderr) != same(missing.stderr) || foreign.stdout != missing.stdout {
			t.Errorf("%s: of another tenant %+v, unknown %+v", name, foreign, missing)
		}
		if name != "agents" && name != "skills" && foreign.code != exitNotFound {
			t.Errorf("%s: exit code %d; stderr: %s", name, foreign.code, foreign.stderr)
		}
	}
	if got := bob.mesh("threads", "list").succeeds(t); strings.Contains(got, id) {
		t.Errorf("bob sees ann's thread:\n%s", got)
	}
	if got := bob.mesh("send", "What are my overdue tasks?").succeeds(t); strings.Contains(got, "Buy the rival") {
		t.Errorf("bob sees ann's task: %s", got)
	}
	// The same id is another thread for another tenant.
	bob.mesh("send", "--thread", id, "hello").succeeds(t)
	if got := bob.mesh("threads", "show", id).succeeds(t); strings.Contains(got, "rival") {
		t.Errorf("bob sees ann's words:\n%s", got)
	}
	if after := ann.mesh("threads", "export", id).succeeds(t); after != before {
		t.Error("ann's thread has changed")
	}
}

// tokensAllow checks that what a token does not allow is refused with what is
// missing, and that the operator may act for others.
func tokensAllow(t *testing.T, ann, bob, ops person) {
	id := mesh.NewThreadID()
	ann.mesh("send", "--thread", id, "hello").succeeds(t)
	nobody := person{ann.realMesh, ""}
	for name, tt := range map[string]struct {
		who  person
		args []string
		want string
	}{
		"no token":          {nobody, []string{"threads", "list"}, `a token is needed.*MESH_TOKEN`},
		"a wrong token":     {person{ann.realMesh, tokenOf("eve")}, []string{"threads", "list"}, `the token is not known; ask the operator`},
		"another tenant":    {ann, []string{"threads", "list", "--tenant", "rival"}, `tenant-id must be the tenant of the token`},
		"another user":      {ann, []string{"threads", "list", "--user", "bob"}, `user-id must be the user of the token`},
		"adding an agent":   {ann, []string{"agents", "add", "http://127.0.0.1:1"}, `needs the action agent.register, .*; ask the operator`},
		"running an agent":  {ann, []string{"agent", "run", "worker", "--name", "w"}, `needs the action agent.register, .*; ask the operator`},
		"sharing an agent":  {bob, []string{"agent", "run", "worker", "--name", "w", "--shared"}, `operator`},
		"listing tenants":   {ann, []string{"tenants", "list"}, `ask the operator`},
		"removing an agent": {ann, []string{"agents", "rm", "w"}, `needs the action agent.register, .*; ask the operator`},
	} {
		t.Run(name, func(t *testing.T) { tt.who.mesh(tt.args...).fails(t, exitDenied, tt.want) })
	}
	if got := ops.mesh("threads", "show", id).succeeds(t); !strings.Contains(got, "ann › hello") {
		t.Errorf("the operator sees\n%s", got)
	}
	if got := ops.mesh("tenants", "list").succeeds(t); !regexp.MustCompile(`(?m)^acme +[1-9]\d* +[1-9]\d* +0 +68719476736 +0\.0 %$`).MatchString(got) {
		t.Errorf("of tenants the operator sees\n%s", got)
	}
	if got := ops.mesh("tenants", "list", "--json").succeeds(t); !strings.Contains(got, `"tenant":"acme"`) {
		t.Errorf("as JSON the operator sees\n%s", got)
	}
	picture := filepath.Join(t.TempDir(), "a.png") // which no built-in agent takes
	writeFile(t, picture, strings.Repeat("x", 2*mesh.MaxPiece))
	ann.mesh("send", "--file", picture, "look").fails(t, exitUsage, `image/png, which no agent takes; they take .*text/plain`)
	if all, err := filepath.Glob(filepath.Join(ann.data, "blobs", "acme", "*", "*")); err != nil || len(all) > 0 {
		t.Errorf("uploaded before it was refused: %v, %v", all, err)
	}
	rivals := ops.mesh("--tenant", "rival", "threads", "list").succeeds(t)
	if strings.Contains(rivals, id) {
		t.Errorf("rival has acme's thread:\n%s", rivals)
	}
}

// An agent that somebody registers is theirs: the other tenant neither sees it
// nor is served by it.
func TestARegisteredAgentBelongsToItsTenant(t *testing.T) {
	t.Parallel()
	ann, bob, _ := upWithTokens(t, "egress: {allow: [127.0.0.1]}")
	p := launch(t, bob.dir, "mesh", []string{"MESH_ADDR=" + bob.grpc, "MESH_TOKEN=" + bob.token}, "agent", "run", "worker", "--name", "mole")
	p.shows(`agent mole is registered`)
	if got := bob.mesh("agents", "show", "mole").succeeds(t); !strings.Contains(got, "tenant rival") {
		t.Errorf("mole is\n%s", got)
	}
	ann.mesh("agents", "show", "mole").fails(t, exitNotFound, `Agent mole not found`)
	if got := ann.mesh("agents", "list").succeeds(t); strings.Contains(got, "mole") {
		t.Errorf("ann sees\n%s", got)
	}
	id := mesh.NewThreadID()
	ann.mesh("send", "--thread", id, "Ask mole to show my overdue tasks")
	if got := ann.mesh("threads", "export", id).succeeds(t); strings.Contains(got, `"agent":"mole"`) {
		t.Error("bob's agent was asked for ann")
	}
	bob.mesh("send", "--thread", id, "Ask mole to show my overdue tasks").succeeds(t)
	if got := bob.mesh("threads", "export", id).succeeds(t); !strings.Contains(got, `"agent":"mole"`) {
		t.Errorf("bob's agent was not asked: %s", got)
	}
}
