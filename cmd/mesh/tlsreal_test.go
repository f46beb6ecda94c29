package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/auth"
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
	as(map[string]string{"MESH_ADDR": at}, "agents", "list").fails(t, exitUnavailable, `the certificate of grpcs://\S+ was issued by nobody who is trusted here; .*--ca`)
	as(map[string]string{"MESH_ADDR": m.grpc}, "agents", "list").fails(t, exitUnavailable, `what answers at \S+ speaks TLS; call it as grpcs://`+m.grpc)
	_, plain := startMesh(t, auth.None(nil))
	as(map[string]string{"MESH_ADDR": mesh.SecureScheme + plain}, "agents", "list").fails(t, exitUnavailable, `what answers at \S+ does not speak TLS; call it without grpcs`)
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

// Where callers need a credential, an agent that joined registers with its certificate and
// no token, until an admin revokes that.
func TestAJoinedAgentNeedsNoToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tokens, config := filepath.Join(dir, "tokens.yaml"), filepath.Join(dir, "config.yaml")
	for path, text := range map[string]string{
		tokens: "- {name: admin, hash: \"" + auth.Hash("sesame") + "\", tenant: default, user: adam, roles: [tenant-admin]}\n",
		config: "egress: {allow: [127.0.0.0/8]}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := up(t, dir, "--config", config, "--tls", "auto", "--auth", "tokens", "--tokens", tokens)
	as := func(token string, args ...string) finished {
		return runHere(t, map[string]string{"MESH_ADDR": m.grpc, "MESH_CA": filepath.Join(m.data, "tls", "ca.pem"), "MESH_TOKEN": token}, args...)
	}
	identity := filepath.Join(dir, "identity")
	join := func() {
		t.Helper()
		token := strings.TrimSpace(as("sesame", "agents", "invite", "worker-2").succeeds(t))
		as("", "agent", "join", token, "--identity", identity).succeeds(t)
	}
	join()
	p := launch(t, dir, "mesh", []string{"MESH_ADDR=" + m.grpc}, "agent", "run", "worker", "--identity", identity)
	p.shows(`agent worker-2 is registered with`)
	if out := as("sesame", "agents", "show", "worker-2").succeeds(t); !strings.Contains(out, "agent worker-2") || !strings.Contains(out, "live") {
		t.Errorf("it is shown as %s", out)
	}
	as("", "agents", "revoke", "worker-2").fails(t, exitDenied, `a token is needed`)
	as("sesame", "agents", "revoke", "worker-2").succeeds(t)
	cert := filepath.Join(identity, "identity.pem")
	as("", "agents", "list", "--cert", cert, "--key", cert).fails(t, exitDenied, `certificate of this connection was revoked`)
	for end := time.Now().Add(time.Minute); ; { // certificates tell time in seconds
		join()
		if as("", "agents", "list", "--cert", cert, "--key", cert).code == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a new certificate does not count")
		}
	}
}
