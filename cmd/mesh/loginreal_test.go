package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh/security/login"
	"agentmesh/mesh/security/oidc/oidctest"
)

// upWithProviders starts a mesh that believes the providers, each for users of its own.
func upWithProviders(t *testing.T, all ...*oidctest.Provider) *realMesh {
	t.Helper()
	dir := t.TempDir()
	yaml := "auth: oidc\negress: {allow: [127.0.0.1]}\noidc:\n"
	for i, p := range all {
		yaml += fmt.Sprintf("- {issuer: %s, audience: %s, tenant: acme, user_prefix: \"%c:\", default_roles: [user, agent-publisher]}\n", p.URL, oidctest.Audience, 'a'+i)
	}
	writeFile(t, filepath.Join(dir, "mesh.yaml"), yaml)
	return up(t, dir, "--grpc", "127.0.0.1:0") // which has another name
}

// A seat is a user at a machine: the mesh that commands are for, and the file of log-ins.
type seat map[string]string

func seatAt(t *testing.T, addr string) seat {
	return seat{"MESH_ADDR": addr, "MESH_CREDENTIALS": filepath.Join(t.TempDir(), "agentmesh", "credentials.json")}
}

// with is the same seat with another setting.
func (s seat) with(name, value string) seat {
	other := maps.Clone(s)
	other[name] = value
	return other
}

// kept is what the file has.
func (s seat) kept(t *testing.T) map[string]login.Credential {
	t.Helper()
	all := map[string]login.Credential{}
	data, err := os.ReadFile(s["MESH_CREDENTIALS"])
	if os.IsNotExist(err) {
		return all
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLogInAndOut(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	p.Device("alice", "authorization_pending", "")
	m := upWithProviders(t, p)
	alice := seatAt(t, m.grpc)
	runHere(t, alice, "agents", "list").fails(t, exitDenied, `a token is needed.*mesh login`)
	said := runHere(t, alice, "login").succeeds(t)
	for _, want := range []string{p.URL + "/activate and enter the code WDJB-MJHT", "Waiting until", "as a:alice of tenant acme"} {
		if !strings.Contains(said, want) {
			t.Errorf("there is no %q in\n%s", want, said)
		}
	}
	if all := alice.kept(t); len(all) != 1 || strings.Contains(said, all[m.grpc].Access) {
		t.Errorf("kept for %d meshes, shown:\n%s", len(all), said)
	}
	runHere(t, alice, "send", "hello").succeeds(t)
	if said := runHere(t, alice, "token", "explain").succeeds(t); !strings.Contains(said, "user        a:alice") {
		t.Errorf("the mesh says\n%s", said)
	}
	// What is given for one command counts instead.
	runHere(t, alice.with("MESH_TOKEN", p.Token("bob", nil)), "token", "explain").says(t, "a:bob")
	runHere(t, alice, "token", "explain", "--token", "wrong").fails(t, exitDenied, `token`)

	// Another mesh that believes the same provider is shown nothing, nor the same by
	// another name.
	other := upWithProviders(t, p)
	runHere(t, alice.with("MESH_ADDR", other.grpc), "agents", "list").fails(t, exitDenied, `a token is needed`)
	runHere(t, alice.with("MESH_ADDR", strings.Replace(m.grpc, "127.0.0.1", "localhost", 1)), "agents", "list").fails(t, exitDenied, `a token is needed`)

	runHere(t, alice, "logout").says(t, "Logged out of "+m.grpc)
	if n := p.Counting(); n != 0 {
		t.Errorf("%d refresh tokens count after the end", n)
	}
	runHere(t, alice, "agents", "list").fails(t, exitDenied, `a token is needed`)
	runHere(t, alice, "logout").says(t, "Nobody was logged in")
}

func (f finished) says(t *testing.T, want string) {
	t.Helper()
	if said := f.succeeds(t); !strings.Contains(said, want) {
		t.Errorf("there is no %q in\n%s", want, said)
	}
}

func TestALogInIsRenewedUntilTheProviderEndsIt(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	p.Device("alice")
	p.Lasting(30*time.Second, 0) // within a minute of its end from the beginning
	m := upWithProviders(t, p)
	alice := seatAt(t, m.grpc)
	runHere(t, alice, "login").succeeds(t)
	first := alice.kept(t)[m.grpc]
	p.Lasting(time.Hour, 0)
	runHere(t, alice, "agents", "list").succeeds(t)
	runHere(t, alice, "agents", "list").succeeds(t)
	second := alice.kept(t)[m.grpc]
	if n, _ := p.Renewed(); n != 1 || second.Access == first.Access || second.Refresh == first.Refresh {
		t.Errorf("renewed %d times", n)
	}
	// A process that goes on shows what is kept, too.
	agent := launch(t, t.TempDir(), "mesh", []string{"MESH_ADDR=" + m.grpc, "MESH_CREDENTIALS=" + alice["MESH_CREDENTIALS"]}, "agent", "run", "worker", "--name", "mole")
	agent.shows(`agent mole is registered`)
	runHere(t, alice, "agents", "list").says(t, "mole")
	p.EndRefresh()
	over := second
	over.Expiry = time.Now().Add(-time.Second)
	if err := (&login.Store{Path: alice["MESH_CREDENTIALS"], Now: time.Now}).Put(t.Context(), m.grpc, over); err != nil {
		t.Fatal(err)
	}
	runHere(t, alice, "agents", "list").fails(t, exitDenied, `is over; log in with 'mesh login'`)
	runHere(t, alice, "login").succeeds(t)
	runHere(t, alice, "agents", "list").succeeds(t)
}

func TestWhatLoginRefuses(t *testing.T) {
	t.Parallel()
	p, other := oidctest.Start(t), oidctest.Start(t)
	p.Device("alice")
	m, both, open := upWithProviders(t, p), upWithProviders(t, p, other), up(t, t.TempDir())
	alice := seatAt(t, m.grpc)
	runHere(t, alice.with("MESH_ADDR", both.grpc), "login").fails(t, exitUsage, `several providers.*--issuer.*`+p.URL+", "+other.URL)
	runHere(t, alice.with("MESH_ADDR", open.grpc), "login").fails(t, exitFailure, `nobody has to log in`)
	runHere(t, alice, "login", "--client-id", "nobody").fails(t, exitFailure, `"nobody".*--client-id`)
	runHere(t, alice, "login", "--issuer", "http://id.example.com").fails(t, exitUsage, `https`)
	runHere(t, alice.with("MESH_ADDR", "192.0.2.1:7420"), "login", "--issuer", p.URL).fails(t, exitFailure, `not encrypted.*--plaintext-token`)
	remote := alice.with("MESH_ADDR", "192.0.2.1:7420").with("MESH_CREDENTIALS", filepath.Join(t.TempDir(), "c.json"))
	if err := (&login.Store{Path: remote["MESH_CREDENTIALS"], Now: time.Now}).Put(t.Context(), remote["MESH_ADDR"], login.Credential{Access: "a"}); err != nil {
		t.Fatal(err)
	}
	runHere(t, remote, "agents", "list").fails(t, exitFailure, `not encrypted.*--plaintext-token`)
	// The mesh believes another provider: what this one gives is of no use, and not kept.
	other.Device("eve")
	if f := runHere(t, alice, "login", "--issuer", other.URL); f.code != exitDenied {
		t.Errorf("exit code %d: %s", f.code, f.stderr)
	}
	p.Device("alice", "access_denied")
	if f := runHere(t, alice, "login"); f.code != exitDenied || !strings.Contains(f.stderr, "refused at the provider") {
		t.Errorf("exit code %d: %s", f.code, f.stderr)
	}
	if all := alice.kept(t); len(all) != 0 {
		t.Errorf("kept for %d meshes", len(all))
	}
	p.Device("alice")
	runHere(t, alice.with("MESH_ADDR", both.grpc), "login", "--issuer", p.URL).succeeds(t)
	if err := os.Chmod(alice["MESH_CREDENTIALS"], 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"login"}, {"agents", "list"}, {"logout"}} {
		runHere(t, alice, args...).fails(t, exitFailure, `can be read by others.*chmod 600`)
	}
	writeFile(t, alice["MESH_CREDENTIALS"], "{")
	if err := os.Chmod(alice["MESH_CREDENTIALS"], 0o600); err != nil {
		t.Fatal(err)
	}
	runHere(t, alice, "agents", "list").fails(t, exitFailure, `is damaged; remove it`)
}

func TestCtrlCEndsALogIn(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	p.Device("alice", "authorization_pending")
	s := seatAt(t, upWithProviders(t, p).grpc)
	out, shown := io.Pipe()
	interrupts := make(chan os.Signal)
	a := &app{stdin: strings.NewReader(""), stdout: shown, stderr: io.Discard, getenv: func(name string) string { return s[name] },
		interrupts: interrupts, uninstall: func() {}, now: time.Now, after: time.After}
	code := make(chan int, 1)
	go func() { // ends with the command
		code <- a.execute(context.WithoutCancel(t.Context()), []string{"login"})
		_ = shown.Close()
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "Waiting") {
			interrupts <- os.Interrupt
		}
	}
	if got := <-code; got != exitInterrupted || len(s.kept(t)) != 0 {
		t.Errorf("exit code %d, kept %v", got, s.kept(t))
	}
}
