package main

import (
	"crypto/x509"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
)

// finding U6: tasks are listed, shown and cancelled, 'send' says by its exit code that
// it waits for an answer and can be for one agent, listings are printed as data, and
// shells are offered what the mesh has.
func TestTasksNamesAndFormatsAtACommandLine(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	id := mesh.NewThreadID()
	asked := m.mesh("send", "--thread", id, "send a mail to ann@example.com with subject hi")
	how := regexp.MustCompile(`waits for an answer: mesh send --thread \S+ --task (\S+) TEXT\n`).FindStringSubmatch(asked.stderr)
	if asked.code != exitWaits || how == nil {
		t.Fatalf("exit code %d: %s", asked.code, asked.stderr)
	}
	task := how[1]
	told := m.mesh("send", "--agent", "knowledge", "--thread", mesh.NewThreadID(), "rate limits")
	if told.code != exitOK || m.mesh("send", "--agent", "nobody", "hello").code != exitNotFound || m.mesh("send", "--agent", "No/", "hello").code != exitUsage {
		t.Errorf("exit code %d: %s", told.code, told.stderr)
	}
	for name, tt := range map[string]struct {
		args []string
		want string // a pattern
	}{
		"a list of tasks":           {[]string{"tasks", "list", "--state", "input-required"}, `^TASK .*\n` + task + `  .*  input required  send a mail to ann@example\.com with sub…  What shall it say\?\n$`},
		"tasks of a thread as JSON": {[]string{"tasks", "list", "--thread", id, "-o", "json"}, `^\{"id":"` + task + `".*\}\n$`},
		"a task":                    {[]string{"tasks", "show", task}, `^task ` + task + ` of thread ` + id + `\n\? input required, changed .*\n\n(?s:.*\?)\n$`},
		"a task as YAML":            {[]string{"tasks", "show", task, "--output=yaml"}, `^---\nid: "` + task + `"\ncontextId: "` + id + `"\nstatus:\n    state: "TASK_STATE_INPUT_REQUIRED"\n`},
		"agents as YAML":            {[]string{"agents", "list", "-o", "yaml"}, `(?s)^---\nname: "calendar"\n.*\n---\nname: "knowledge"\n`},
		"agents as a table":         {[]string{"agents", "list", "-o", "table"}, `^NAME `},
		"names of agents":           {[]string{"__complete", "agents", "show", "know"}, `^knowledge\n:4\n$`},
		"agents of a flag":          {[]string{"__complete", "chat", "--agent", "ma"}, `^mail\nmain\n:4\n$`},
		"names of skills":           {[]string{"__complete", "skills", "run", "mail.se"}, `(?m)^mail\.send\n`},
		"names of threads":          {[]string{"__complete", "threads", "show", id[:8]}, `^` + id + `\n:4\n$`},
		"names of tasks":            {[]string{"__complete", "tasks", "cancel", task[:40]}, `^` + task + `\n:4\n$`},
		"formats":                   {[]string{"__complete", "tasks", "list", "-o", ""}, `^table\njson\nyaml\n:4\n$`},
		"the version":               {[]string{"--version"}, `^mesh \S.*\n$`},
	} {
		if f := m.mesh(tt.args...); f.code != exitOK || !regexp.MustCompile(tt.want).MatchString(f.stdout) {
			t.Errorf("%s: exit code %d, %s%s", name, f.code, f.stdout, f.stderr)
		}
	}
	if f := m.mesh("tasks", "cancel", task); f.code != exitOK || f.stdout != "■ canceled\n" {
		t.Errorf("cancel: exit code %d, %s%s", f.code, f.stdout, f.stderr)
	}
	if got := ends(m.log(id)); !strings.HasPrefix(got, "CANCELED") {
		t.Errorf("the task ended %s", got)
	}
	for _, bad := range [][]string{{"tasks", "list", "--state", "idle"}, {"agents", "list", "-o", "xml"}, {"tasks", "show"}} {
		if f := m.mesh(bad...); f.code != exitUsage {
			t.Errorf("%s: exit code %d, %s", strings.Join(bad, " "), f.code, f.stderr)
		}
	}
	if f := m.mesh("help", "exit-codes"); !strings.Contains(f.stdout, "    7  not done yet") {
		t.Errorf("the exit code is not told: %s", f.stdout)
	}
}

// finding U6: the doctor says what is well and what is not, with what helps.
func TestTheDoctorSaysWhatHelps(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	if f := m.mesh("doctor"); f.code != exitOK || strings.Contains(f.stdout, "✗") || !strings.Contains(f.stdout, "✓ it is ready\n✓ you are ") || !strings.Contains(f.stdout, "✓ it has no alarms\n") {
		t.Errorf("exit code %d: %s%s", f.code, f.stdout, f.stderr)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "mesh.yaml")
	writeFile(t, file, "model: {url: \"http://127.0.0.1:1/v1\", name: small}\ndata: "+dir+"\n")
	f := m.mesh("doctor", "--config", file, "--addr", "127.0.0.1:1")
	for _, want := range []string{
		"✗ nobody answers at 127.0.0.1:1; start the mesh with 'mesh up'", "✓ the configuration has no mistakes\n",
		"✗ model (small at http://127.0.0.1:1/v1): 127.0.0.1:1 takes no connection", "\n  start it, or correct model.url (MESH_LLM_URL)\n", "the disk of " + dir + " has ",
	} {
		if f.code != exitFailure || !strings.Contains(f.stdout, want) {
			t.Errorf("exit code %d: %q is not in %s%s", f.code, want, f.stdout, f.stderr)
		}
	}
	writeFile(t, file, "colour: {}\n")
	m.mesh("doctor", "--config", file).want(t, exitFailure, "✗ configuration: ", "mesh config check")
	d := &doctor{app: &app{stdout: io.Discard, now: func() time.Time { return epoch }}}
	for left, ill := range map[time.Duration]bool{-time.Hour: true, time.Hour: true, 2 * expiresSoon: false} {
		d.ill = false
		d.certificate("it", &x509.Certificate{NotBefore: epoch.Add(-time.Hour), NotAfter: epoch.Add(left)})
		if d.ill != ill {
			t.Errorf("a certificate with %v left is told of: %v, want %v", left, d.ill, ill)
		}
	}
}
