package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const postPage = `---
name: post.send
description: Send a letter by mail
handler: mail.send
confirm: Send this letter?
parameters:
  - name: to
    type: array
    required: true
  - name: subject
    required: true
  - name: body
    required: true
---
# Send a letter

    post.send --to <address> --subject <text> --body <text>
`

// A skill that is run by hand does on a whole mesh what it does for agents: its
// arguments are checked, its effects happen once, and its thread says all of it.
func TestSkillsRunOnAWholeMesh(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	out := m.mesh("skills", "run", "tasks.create", "--title", "Call Ann", "--tags", "customer", "call", "--request-id", "once").succeeds(t)
	if !strings.Contains(out, "Call Ann") {
		t.Errorf("created: %s", out)
	}
	m.mesh("skills", "run", "tasks.create", "--title", "Call Ann", "--tags", "customer", "call", "--request-id", "once").succeeds(t)
	found := m.mesh("skills", "run", "tasks.search", "--json").succeeds(t)
	if strings.Count(found, ". Call Ann (") != 1 || !strings.Contains(found, `"state":"TASK_STATE_COMPLETED"`) {
		t.Errorf("found: %s", found)
	}
	thread := regexp.MustCompile(`"threadId":"([^"]+)"`).FindStringSubmatch(found)
	if thread == nil {
		t.Fatalf("no thread in %s", found)
	}
	if log := m.mesh("threads", "show", thread[1]).succeeds(t); !strings.Contains(log, "tasks.search") {
		t.Errorf("the thread: %s", log)
	}

	wrong := m.mesh("skills", "run", "tasks.create", "--titel", "Call Ann")
	if wrong.code != exitFailure || wrong.stdout != "" || !strings.Contains(wrong.stderr, "Unknown parameter: 'titel'; Missing required field: 'title'") {
		t.Errorf("wrong arguments: %+v", wrong)
	}
	if out := m.mesh("skills", "run", "tasks.create", "--help").succeeds(t); !strings.HasPrefix(out, "# Create a task") {
		t.Errorf("help: %s", out)
	}
	refusal{[]string{"skills", "run", "tasks.crete"}, exitNotFound, `did you mean tasks.create\?`}.check(t, m)
	if out := m.mesh("skills", "runs").succeeds(t); out != "no runs\n" {
		t.Errorf("runs: %s", out)
	}
}

// A skill that wants an approval has no effect before it is given: beforehand,
// at the terminal, or later as the answer to the run's task.
func TestSkillsRunOnAWholeMeshWaitForApproval(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "skills", "post", "send.md"), postPage)
	m := up(t, dir)
	letter := func(more ...string) []string {
		return append([]string{"skills", "run", "post.send", "--to", "ann@example.com", "--subject", "Report", "--body", "All is well"}, more...)
	}
	mails := func(want int) {
		t.Helper()
		if got := m.files("outbox/*.eml"); len(got) != want {
			t.Errorf("%d mails are sent, want %d", len(got), want)
		}
	}

	asked := m.mesh(letter()...)
	how := regexp.MustCompile(`waits for an answer: mesh (send --thread \S+ --task \S+ yes)\n`).FindStringSubmatch(asked.stderr)
	if asked.code != exitWaits || asked.stdout != "" || how == nil || !strings.HasPrefix(asked.stderr, "? Send this letter?\n- to: ann@example.com\n- subject: Report\n") {
		t.Fatalf("asked: %+v", asked)
	}
	mails(0)
	m.mesh(strings.Fields(how[1])...).succeeds(t)
	mails(1)

	m.mesh(letter("--yes")...).succeeds(t)
	mails(2)

	for _, answer := range []string{"no", "yes"} {
		p := launch(t, dir, "mesh-terminal", []string{"MESH_ADDR=" + m.grpc}, letter()...)
		p.await(&p.stderr, 0, `Send this letter\?(?s:.*)yes or no › `)
		p.enter(answer + "\n")
		if code := p.wait(); (code == exitOK) != (answer == "yes") {
			t.Errorf("%s: exit code %d, stderr %s", answer, code, p.stderr.String())
		}
	}
	mails(3)
}
