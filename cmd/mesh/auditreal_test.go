package main

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
)

// verify runs 'mesh audit verify' on the mesh's folder, which nobody uses any more.
func (m *realMesh) verify(args ...string) finished {
	m.t.Helper()
	return runHere(m.t, nil, append([]string{"audit", "verify", "--data", m.data}, args...)...)
}

// want fails unless a run ended so, with all of texts in what it printed.
func (f finished) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if f.code != code || !strings.Contains(f.stdout+f.stderr, text) {
			t.Errorf("code %d, want %d and %q\nstdout: %s\nstderr: %s", f.code, code, text, f.stdout, f.stderr)
		}
	}
}

// finding T9: the record of a mesh that ran, and whether its folder is still what it
// wrote.
func TestTheRecordIsReadAndVerified(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mesh.yaml"), []byte("audit:\n  checkpoints: kept.jsonl\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := up(t, dir)
	keeps, goes := "550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440001"
	for _, id := range []string{keeps, goes} {
		m.mesh("send", "--thread", id, "a word that is in no record").want(t, 0, "")
	}
	m.mesh("threads", "share", keeps, "--with", "bob").want(t, 0, "bob")
	gone, err := meshv1.NewThreadServiceClient(m.dial()).DeleteThread(timely(t), &meshv1.DeleteThreadRequest{ThreadId: goes})
	if err != nil || len(gone.GetLastHash()) != 32 {
		t.Fatalf("deleted is %v, %v", gone, err)
	}
	m.mesh("audit", "tail", "--action", "Thread").want(t, 0, "done  ShareThread  "+keeps+"  by default/local", "allowed  DeleteThread  "+goes)
	m.mesh("audit", "tail", "-n", "1", "--action", "DeleteThread", "--json").want(t, 0, `"lastHash":"`+base64.StdEncoding.EncodeToString(gone.GetLastHash()))
	m.mesh("audit", "tail", "--action", "CreateSkill").want(t, 0, "")
	all := m.mesh("audit", "export", "--resource", goes)
	if all.code != 0 || strings.Count(all.stdout, "\n") != 2 || strings.Contains(all.stdout, "a word") {
		t.Errorf("exported are %d %s %s", all.code, all.stdout, all.stderr)
	}
	m.mesh("audit", "tail", "-n", "-1").want(t, 2, "--limit must not be negative")
	m.signal(syscall.SIGTERM)
	if code := m.wait(); code != 0 {
		t.Fatalf("the mesh ended with %d: %s", code, m.stderr.String())
	}

	kept := filepath.Join(dir, "kept.jsonl")
	good := m.verify("--checkpoints", kept)
	good.want(t, 0, "checkpoints compared", "signed with the key ")
	_, key, _ := strings.Cut(good.stdout, "the key ")
	key, _, _ = strings.Cut(key, ",")
	m.verify("--checkpoints", kept, "--key", key).want(t, 0, "checkpoints compared")
	m.verify("--key", base64.StdEncoding.EncodeToString(make([]byte, 32))).want(t, 1, "is not signed with the node's key")
	m.verify("--key", "short").want(t, 2, "must be 32 bytes in base64")
	m.verify("--checkpoints", filepath.Join(dir, "none")).want(t, 3, "none is not there, or not all of it; name another one with --checkpoints")

	file := filepath.Join(m.data, "mesh.log", "0000000000000000001.seg")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(whole)
	changed[bytes.Index(changed, []byte("a word that"))] ^= 1
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	m.verify().want(t, 1, "thread default/"+keeps+" event 1 (position ", "findings: 1")
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(m.data, "audit.log")); err != nil {
		t.Fatal(err)
	}
	m.verify("--checkpoints", kept).want(t, 3, "is not there, or not all of it; name another one with --data")
}

// S4-006, S4-012: an administrator reads what happened in a conversation in one place, in order,
// as lines and as JSON; with secrets taken out by our rules and by those of the settings; and
// of a conversation that was deleted, what the record has.
func TestTheTrailOfAConversationIsPrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mesh.yaml"), []byte("audit:\n  redact:\n    patterns: ['EMP-[0-9]+']\n    fields: [iban]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := up(t, dir)
	keeps, goes := "550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440001"
	m.mesh("send", "--thread", keeps, "I am EMP-4711 and my password is zq-hunter").want(t, 0, "")
	m.mesh("send", "--thread", goes, "soon to be gone").want(t, 0, "")
	m.mesh("threads", "share", keeps, "--with", "bob").want(t, 0, "bob")
	if _, err := meshv1.NewThreadServiceClient(m.dial()).DeleteThread(timely(t), &meshv1.DeleteThreadRequest{ThreadId: goes}); err != nil {
		t.Fatal(err)
	}

	got := m.mesh("audit", "trail", keeps)
	got.want(t, 0, "message   user:local  message_posted  \"I am [redacted] and my password is [redacted]\"", "user:local > agent:main", "act       user:local  ShareThread: "+keeps+"  done")
	at := -1
	for _, word := range []string{"task_opened", "message_posted", "dispatch_issued", "agent:main", "ShareThread"} {
		next := strings.Index(got.stdout, word)
		if next <= at {
			t.Errorf("%s is not where it happened:\n%s", word, got.stdout)
		}
		at = next
	}
	asJSON := m.mesh("audit", "trail", keeps, "--json", "--kind", "message,act", "--of", "local")
	asJSON.want(t, 0, `"kind":"KIND_MESSAGE"`, `"chain":["user:local"]`, `"redacted":2`)
	if n := strings.Count(asJSON.stdout, "\n"); n < 3 || strings.Contains(asJSON.stdout+got.stdout, "4711") || strings.Contains(asJSON.stdout+got.stdout, "zq-hunter") {
		t.Errorf("%d lines: %s", n, asJSON.stdout)
	}
	gone := m.mesh("audit", "trail", goes)
	gone.want(t, 0, "the conversation was deleted", "DeleteThread: "+goes+"  done")
	if strings.Contains(gone.stdout, "soon") {
		t.Errorf("a deleted conversation is told: %s", gone.stdout)
	}
	m.mesh("audit", "trail", "--since", "1h", "-n", "1").want(t, 0, "")
	all := m.mesh("audit", "trail", "--since", "1h", "--agent", "main")
	all.want(t, 0, "dispatch_issued: main")
	m.mesh("audit", "trail", "--thread", "550e8400-e29b-41d4-a716-446655440009").want(t, 3, "Thread not found")
	m.mesh("audit", "trail").want(t, 2, "--since")
	m.mesh("audit", "trail", keeps, "--kind", "gossip").want(t, 2, "refusal, task, transfer")
}
