package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
)

// person runs a command with a person at both ends.
func (m *realMesh) person(t *testing.T, stdin string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	a := &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &err, asks: true, shows: true,
		getenv:     func(name string) string { return map[string]string{"MESH_ADDR": m.grpc}[name] },
		interrupts: make(chan os.Signal), uninstall: func() {}, now: time.Now, after: time.After}
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	defer cancel()
	if code := a.execute(ctx, args); code != exitOK {
		t.Errorf("%v ended %d: %s", args, code, err.String())
	}
	return out.String(), err.String()
}

// finding U4: what an answer, a conversation and a day cost is shown in dollars, over each face,
// also after the mesh was killed; and when a conversation has cost what it may, that is said, with
// what to do.
func TestMoneyIsShownAndBounded(t *testing.T) {
	t.Parallel()
	model := startScripted(t, func(*modelRequest) modelReply {
		return modelReply{text: "Here you are.", usage: &modelUsage{Prompt: 4000, Completion: 200}}
	})
	dir := t.TempDir()
	// A reply costs 4000 and 2000 millionths of a dollar.
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "tool_mode: single_loop\nmodel: {prices: {scripted: {input: 1, output: 10}}}\nlimits: {thread_cost: 0.012}\n")
	m := upWith(t, dir, model.env())
	id := mesh.NewThreadID()

	out, told := m.person(t, "", "send", "--thread", id, "Hello")
	if !strings.Contains(out, "Here you are.") || !strings.Contains(told, "· 1 agent, 4,200 tokens, $0.0060; conversation 4,200 tokens, $0.0060\n") {
		t.Errorf("an answer: %q, of which is told %q", out, told)
	}
	if f := m.mesh("send", "And now?", "--thread", mesh.NewThreadID()); strings.Contains(f.stdout+f.stderr, "$") {
		t.Errorf("a script reads %q and %q", f.stdout, f.stderr)
	}
	_, told = m.person(t, "And again?\n", "chat", "--thread", id)
	if !strings.Contains(told, "· 1 agent, 4,200 tokens, $0.0060; conversation 8,400 tokens, $0.0120\n") {
		t.Errorf("in a chat is told %q", told)
	}
	for _, args := range [][]string{{"threads", "show", id}, {"threads", "show", id, "--tree"}} {
		m.mesh(args...).want(t, exitOK, "in all 8,400 tokens, $0.0120")
	}
	m.mesh("send", "Once more", "--thread", id).want(t, exitFailure, "what models may cost in this conversation is reached ($0.012 of $0.012); ", "a new conversation, or an operator who raises limits.thread_cost")

	m.kill9()
	m = upWith(t, dir, model.env())
	for _, by := range []struct{ by, key string }{
		{"day", time.Now().UTC().Format(time.DateOnly)}, {"agent", "main"}, {"model", "scripted"}, {"tenant", "default"}, {"thread", id},
	} {
		want := `(?m)^` + regexp.QuoteMeta(by.key) + ` +3 +12,000 +600 +\$0.0180 +0$`
		if by.by == "thread" {
			want = `(?m)^` + id + ` +2 +8,000 +400 +\$0.0120 +0$`
		}
		if got := m.mesh("usage", "--by", by.by).succeeds(t); !regexp.MustCompile(want).MatchString(got) || !regexp.MustCompile(`(?m)^all +3 +12,000 +600 +\$0.0180 +0$`).MatchString(got) {
			t.Errorf("by %s:\n%s", by.by, got)
		}
	}
	m.mesh("usage", "--since", "2020-01-01", "--until", "2020-02-01").want(t, exitOK, "no model was used")
	m.mesh("usage", "-o", "yaml").want(t, exitOK, "cost: 0.018")
	m.mesh("usage", "--by", "moon").want(t, exitUsage, "--by must be day, user")
	m.mesh("usage", "--since", "2026-02-01", "--until", "2026-01-01").want(t, exitUsage, "since: is later than until")

	resp, err := http.Get("http://" + m.http + "/mesh/v1/usage?by=model")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var said struct {
		Sums []struct {
			Key   string
			Usage struct{ Cost float64 }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || len(said.Sums) != 1 || said.Sums[0].Key != "scripted" || said.Sums[0].Usage.Cost != 0.018 {
		t.Errorf("over HTTP: %s %+v, %v", resp.Status, said, err)
	}
}
