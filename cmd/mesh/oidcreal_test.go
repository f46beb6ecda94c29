package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh/security/oidc/oidctest"
)

// The commands take the token of a provider as any other, say what it is good for, and
// end what was issued before.
func TestTheCommandsTakeTokensOfAProvider(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), fmt.Sprintf(`auth: oidc
oidc:
- issuer: %s
  audience: %s
  tenant: acme
  user_prefix: "corp:"
  roles_claim: groups
  roles: {admins: [tenant-admin]}
  default_roles: [user]
`, p.URL, oidctest.Audience))
	m := up(t, dir)
	alice, admin := person{m, p.Token("alice", nil)}, person{m, p.Token("adam", map[string]any{"groups": []string{"admins"}})}
	said := alice.mesh("token", "explain").succeeds(t)
	for _, line := range []string{"tenant      acme", "user        corp:alice", "credential  oidc:" + p.URL + "#alice, expires 2", "roles       user"} {
		if !strings.Contains(said, line) {
			t.Errorf("there is no %q in\n%s", line, said)
		}
	}
	alice.mesh("send", "hello").succeeds(t)
	person{m, p.Token("alice", map[string]any{"aud": "shop"})}.mesh("token", "explain").fails(t, exitDenied, `not for the audience.*ask the issuer`)
	person{m, p.Token("alice", map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})}.mesh("agents", "list").fails(t, exitDenied, `expired at.*log in again`)

	alice.mesh("users", "revoke", "corp:bob").fails(t, exitDenied, `needs the action admin.tenant`)
	if said := admin.mesh("users", "revoke", "corp:alice").succeeds(t); !strings.Contains(said, "credentials of corp:alice that were issued until 2") {
		t.Errorf("revoked: %s", said)
	}
	alice.mesh("agents", "list").fails(t, exitDenied, `all of its user were revoked; log in again`)
	admin.mesh("agents", "list").succeeds(t)
	now := time.Now().Add(10 * time.Second).Unix()
	person{m, p.Token("alice", map[string]any{"iat": now, "nbf": now})}.mesh("agents", "list").succeeds(t)
}

// finding P1: the SDK for Python reads from the card that a credential is needed, and
// sends the one that it was given.
func TestInteropTheSDKForPythonSendsCredentials(t *testing.T) {
	t.Parallel()
	s := sdkNamed(t, "python")
	ann, _, _ := upWithTokens(t)
	for token, want := range map[string]bool{ann.token: true, "wrong": false} {
		out, err := s.command(t, "login", "http://"+ann.http, token).CombinedOutput()
		if (err == nil && len(out) > 0) != want || !want && !strings.Contains(string(out), "401 Unauthorized") {
			t.Errorf("%s: %v\n%s", token, err, out)
		}
	}
}
