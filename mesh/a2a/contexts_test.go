package a2a_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
)

func contexts(t testing.TB, secret string) *a2a.Contexts {
	t.Helper()
	c, err := a2a.NewContexts([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A name means one thread of its tenant and user, under one key; a thread id means itself.
func TestANameMeansOneThreadOfItsTenantAndUser(t *testing.T) {
	c := contexts(t, strings.Repeat("k", 32))
	seen := map[string]string{}
	for what, id := range map[string]string{
		"a name": c.Thread("acme", "ann", "trip"), "another user's": c.Thread("acme", "bob", "trip"), "another tenant's": c.Thread("rival", "ann", "trip"),
		"another name": c.Thread("acme", "ann", "trips"), "parts that run together": c.Thread("acme", "ann\" \"trip", ""),
		"upper case": c.Thread("acme", "ann", strings.ToUpper(thread)), "another key's": contexts(t, strings.Repeat("l", 32)).Thread("acme", "ann", "trip"),
	} {
		if parsed, err := uuid.Parse(id); err != nil || parsed.Version() != 4 || parsed.Variant() != uuid.RFC4122 || parsed.String() != id {
			t.Errorf("%s: %s has not the form of a thread id", what, id)
		}
		if other := seen[id]; other != "" {
			t.Errorf("%s and %s are the same thread", what, other)
		}
		seen[id] = what
	}
	if got := contexts(t, strings.Repeat("k", 32)).Thread("acme", "ann", "trip"); seen[got] != "a name" {
		t.Error("under the same key the name means another thread")
	}
	if got := c.Thread("acme", "ann", thread); got != thread {
		t.Errorf("the thread id %s means %s", thread, got)
	}
	if _, err := a2a.NewContexts([]byte("short")); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("a short secret: %v", err)
	}
}

// A task is shown with the name to the user whose name it is, and by its id to all others.
func TestANameIsShownToWhomItBelongs(t *testing.T) {
	c := contexts(t, strings.Repeat("k", 32))
	key := mesh.ThreadKey{Tenant: "acme", ID: c.Thread("acme", "ann", "trip")}
	ann, bob := mesh.Principal{Tenant: "acme", User: "ann"}, mesh.Principal{Tenant: "acme", User: "bob"}
	for name, tt := range map[string]struct {
		call         mesh.Call
		opened, want string
	}{
		"its user":               {mesh.Call{Principal: ann}, "trip", "trip"},
		"opened by the id":       {mesh.Call{Principal: ann}, "", key.ID},
		"another user":           {mesh.Call{Principal: bob}, "trip", key.ID},
		"another name":           {mesh.Call{Principal: ann}, "trips", key.ID},
		"with our extension":     {mesh.Call{Principal: ann, Extensions: []string{mesh.ExtensionURI}}, "trip", key.ID},
		"with a thread id given": {mesh.Call{Principal: ann, Thread: key.ID}, "trip", key.ID},
	} {
		if got := c.Shown(key, tt.call, tt.opened); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	if got := (*a2a.Contexts)(nil).Shown(key, mesh.Call{Principal: ann}, "trip"); got != key.ID {
		t.Errorf("without contexts: %s", got)
	}
}
