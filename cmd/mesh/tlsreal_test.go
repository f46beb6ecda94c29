package main

import (
	"path/filepath"
	"strings"
	"testing"

	"agentmesh/mesh"
)

// A mesh with tls: auto is used as any other, by who has its CA; an agent of another
// process joins it with a token, and works for it over TLS.
func TestAMeshWithItsOwnAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := up(t, dir, "--tls", "auto")
	ca := filepath.Join(m.data, "tls", "ca.pem")
	if out := m.stdout.String(); !strings.Contains(out, "CA      "+filepath.Join("data", "tls", "ca.pem")) || !strings.Contains(out, "mesh chat --addr grpcs://"+m.grpc+" --ca ") {
		t.Errorf("it says: %s", out)
	}
	at := mesh.SecureScheme + m.grpc
	as := func(env map[string]string, args ...string) finished { return runHere(t, env, args...) }
	trusting := map[string]string{"MESH_ADDR": m.grpc, "MESH_CA": ca}
	as(trusting, "agents", "list").succeeds(t)
	as(nil, "send", "--addr", at, "--ca", ca, "What are my overdue tasks?").succeeds(t)
	as(map[string]string{"MESH_ADDR": at}, "agents", "list").fails(t, exitUnavailable, `nobody answers at grpcs://.*certificate.*--ca`)
	as(map[string]string{"MESH_ADDR": m.grpc}, "agents", "list").fails(t, exitUnavailable, `nobody answers at`)
	as(map[string]string{"MESH_ADDR": at}, "agents", "list", "--ca", "none.pem").fails(t, exitFailure, `none.pem cannot be read`)
	as(trusting, "agents", "list", "--cert", "only.pem").fails(t, exitUsage, `--key belong together`)

	identity := filepath.Join(dir, "identity")
	as(trusting, "agent", "run", "worker", "--identity", identity).fails(t, exitFailure, `mesh agent join`)
	token := strings.TrimSpace(as(trusting, "agents", "invite", "worker-2").succeeds(t))
	as(trusting, "agent", "join", token+"x", "--identity", identity).fails(t, exitDenied, `the token is not known.*mesh agents invite`)
	as(trusting, "agent", "join", token, "--identity", identity).succeeds(t)
	as(trusting, "agent", "join", token, "--identity", identity).fails(t, exitDenied, `the token was used`)
	p := launch(t, dir, "mesh", []string{"MESH_ADDR=" + m.grpc}, "agent", "run", "worker", "--identity", identity)
	p.shows(`agent worker-2 is registered with ` + at + ` and listens on grpcs://(\S+)`)
	if out := as(trusting, "agents", "show", "worker-2").succeeds(t); !strings.Contains(out, "grpcs://127.0.0.1:") || !strings.Contains(out, "live") {
		t.Errorf("it is shown as %s", out)
	}
	id := mesh.NewThreadID()
	as(trusting, "send", "--thread", id, `Ask worker-2 to create a task called "Buy milk" due 2020-01-31`).succeeds(t)
	if out := as(trusting, "threads", "show", id).succeeds(t); !strings.Contains(out, "worker-2") || !strings.Contains(out, "completed") {
		t.Errorf("the thread is %s", out)
	}
}
