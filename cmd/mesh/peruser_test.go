package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentmesh/mesh/security/auth"
)

// kept has, for each domain, what puts something there that has the word secret, and what
// looks for it.
var kept = []struct {
	domain    string
	put, look []string
}{
	{"tasks", []string{"tasks.create", "--title", "secret"}, []string{"tasks.search", "--query", "secret"}},
	{"mail", []string{"mail.send", "--to", "x@example.com", "--subject", "secret", "--body", "secret"}, []string{"mail.search", "--query", "secret"}},
	{"draft", []string{"mail.draft", "--subject", "secret draft", "--body", "secret"}, []string{"mail.search", "--query", "draft"}},
	{"calendar", []string{"calendar.create", "--title", "secret", "--start", "2036-12-01T14:00"}, []string{"calendar.list", "--from", "2036-12-01", "--to", "2036-12-02"}},
	{"files", []string{"files.write", "--path", "plans/secret.txt", "--content", "secret"}, []string{"files.read", "--path", "plans/secret.txt"}},
	{"notes", []string{"markdown.create", "--title", "secret", "--content", "secret words"}, []string{"markdown.search", "--query", "secret"}},
	{"memory", []string{"memory.save", "--content", "The word is secret"}, []string{"memory.search", "--query", "secret"}},
}

// ran runs a skill and returns all that it said.
func (p person) ran(args ...string) string {
	p.t.Helper()
	f := p.mesh(append([]string{"skills", "run", "--yes"}, args...)...)
	return f.stdout + f.stderr
}

// finds reports whether the person finds what is kept in the domain.
func (p person) finds(look []string) bool {
	p.t.Helper()
	f := p.mesh(append([]string{"skills", "run", "--yes"}, look...)...)
	return f.code == exitOK && strings.Contains(f.stdout, "secret") && !strings.Contains(f.stderr, `"count":0`)
}

// rest runs a skill over REST, and returns all that was answered.
func (p person) rest(args ...string) string {
	p.t.Helper()
	flags := map[string]string{}
	for i := 1; i+1 < len(args); i += 2 {
		flags[strings.TrimPrefix(args[i], "--")] = args[i+1]
	}
	body, err := json.Marshal(map[string]any{"arguments": flags, "approved": true})
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(timely(p.t), http.MethodPost, "http://"+p.at().HTTP+"/mesh/v1/skills/"+args[0]+":run", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(all)
}

// pairOfUsers has the folder's mesh know ann and eve, of one tenant.
func pairOfUsers(t *testing.T, dir string, settings string) (ann, eve person) {
	t.Helper()
	var file strings.Builder
	for _, name := range []string{"ann", "eve"} {
		fmt.Fprintf(&file, "- {name: %[1]s, hash: '%[2]s', tenant: default, user: %[1]s, roles: [user]}\n", name, auth.Hash(tokenOf(name)))
	}
	writeFile(t, filepath.Join(dir, "tokens.yaml"), file.String())
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "log_level: warn\n"+settings)
	m := up(t, dir, "--auth", "tokens", "--tokens", "tokens.yaml")
	return person{m, tokenOf("ann")}, person{m, tokenOf("eve")}
}

func (m *realMesh) stop() {
	m.t.Helper()
	m.signal(os.Interrupt)
	if code := m.wait(); code != exitOK {
		m.t.Fatalf("exit code %d; stderr: %s", code, m.stderr.String())
	}
}

var ids = regexp.MustCompile(`\b(t-[a-z2-7]{5,}|m-[0-9a-f]{10}|e-[0-9a-z]+)\b`)

// part of T3: what was kept where nobody said who they were goes on to be there, is shown
// to nobody once they do, and is given to one of them; then no other user of the tenant
// gets at it, by whatever skill, path, id or binding.
func TestWhatSkillsKeepIsTheirUsers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	local := person{up(t, dir), ""}
	var known []string
	for _, k := range kept {
		known = append(known, ids.FindAllString(local.ran(k.put...), -1)...)
		if !local.finds(k.look) {
			t.Fatalf("without authentication, what is kept in %s is not found: %s", k.domain, local.ran(k.look...))
		}
		known = append(known, ids.FindAllString(local.ran(k.look...), -1)...)
	}
	local.mesh("send", "Remember that I said hello").succeeds(t)
	chown := func(from, to string) finished {
		return runMesh(t, dir, nil, "data", "chown", "--data", "data", from, to)
	}
	chown("local", "ann").fails(t, exitFailure, `is in use|another process|runs`)
	local.stop()

	ann, eve := pairOfUsers(t, dir, "")
	if said := ann.stdout.String(); !strings.Contains(said, "shown to nobody: calendar, files, mail, markdown, tasks;") {
		t.Errorf("the mesh says of what is left: %s", said)
	}
	for _, k := range kept {
		if ann.finds(k.look) || eve.finds(k.look) {
			t.Errorf("what was kept in %s without authentication is shown to users", k.domain)
		}
	}
	ann.stop()

	got := chown("local", "ann").succeeds(t)
	for _, want := range []string{"mail: 2", "calendar: 1", "files: 1", "notes: 1", "tasks: ", "memory: ", "threads: "} {
		if !strings.Contains(got, want) {
			t.Errorf("what was moved lacks %q:\n%s", want, got)
		}
	}
	if got := chown("local", "ann").succeeds(t); !strings.Contains(got, "nothing of local is left") {
		t.Errorf("a second time moves more: %s", got)
	}

	ann, eve = pairOfUsers(t, dir, "")
	if strings.Contains(ann.stdout.String(), "shown to nobody") {
		t.Errorf("something is left: %s", ann.stdout.String())
	}
	for _, k := range kept {
		if !ann.finds(k.look) {
			t.Errorf("ann does not find what she was given in %s: %s", k.domain, ann.ran(k.look...))
		}
		if eve.finds(k.look) || strings.Contains(eve.rest(k.look...), "secret words") {
			t.Errorf("eve finds what is ann's in %s", k.domain)
		}
	}
	if n := strings.Count(ann.mesh("threads", "list").succeeds(t), "\n"); n < len(kept) {
		t.Errorf("of the conversations, ann has %d", n)
	}
	if got := eve.mesh("send", "What are my open tasks?").succeeds(t); strings.Contains(got, "secret") {
		t.Errorf("an agent tells eve: %s", got)
	}
	cannotReach(t, eve, known)
	for _, k := range kept {
		if !ann.finds(k.look) {
			t.Errorf("what was ann's in %s is gone", k.domain)
		}
	}
}

// cannotReach tries paths and ids of what is another user's.
func cannotReach(t *testing.T, eve person, known []string) {
	t.Helper()
	if len(known) < 3 {
		t.Fatalf("only %q were named", known)
	}
	var tried [][]string
	for _, base := range []string{"..", "../default@ann", "../../files/default@ann", "plans/../../default@ann", "/default@ann", `..\default@ann`, "default@ann"} {
		tried = append(tried,
			[]string{"files.read", "--path", base + "/plans/secret.txt"}, []string{"files.list", "--path", base},
			[]string{"files.write", "--path", base + "/plans/secret.txt", "--content", "gone"},
			[]string{"markdown.read", "--note", base + "/secret"})
	}
	for _, id := range known {
		tried = append(tried, []string{"tasks.get", "--task_id", id}, []string{"tasks.delete", "--task_id", id}, []string{"tasks.get", "--task_id", "ann/" + id},
			[]string{"mail.read", "--id", id}, []string{"calendar.update", "--id", id, "--delete", "true"})
	}
	for _, args := range tried {
		if got := eve.rest(args...); strings.Contains(got, `"secret`) || strings.Contains(got, "secret words") || strings.Contains(got, ": secret") {
			t.Errorf("eve gets at ann's by %q: %s", args, got)
		}
	}
}

// Where the operator says so, users of a tenant share what skills keep, as they did before
// they had data of their own.
func TestUsersShareWhatTheOperatorSays(t *testing.T) {
	t.Parallel()
	ann, eve := pairOfUsers(t, t.TempDir(), "shared_data: [files, tasks]\n")
	for _, k := range kept {
		ann.ran(k.put...)
		if want := k.domain == "files" || k.domain == "tasks"; eve.finds(k.look) != want {
			t.Errorf("eve finds what ann put into %s: %t", k.domain, !want)
		}
	}
}

// Skills that send requests work where callers must say who they are, too.
func TestARequestIsSentForAUserWithAToken(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "watered") }))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "skills", "plants", "water.md"), "---\nname: plants.water\ndescription: Water the plants\n"+
		"handler: http.request\naccess: read\n---\n# Water\n\n    plants.water\n\n```http\nGET "+server.URL+"/water\n```\n")
	ann, _ := pairOfUsers(t, dir, "egress: {allow: [127.0.0.1], allow_http: true}\nhttp_skills: {allow: [\""+server.URL+"\"]}\n")
	if out := ann.ran("plants.water"); !strings.Contains(out, "watered") {
		t.Errorf("it came to %s", out)
	}
}
