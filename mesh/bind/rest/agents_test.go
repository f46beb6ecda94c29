package rest_test

import (
	"context"
	"net/http"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/bind/rest"
)

// The form of a card follows the version that the client names, and each form
// has an age of its own.
func TestACardIsWrittenForTheVersionThatIsAskedFor(t *testing.T) {
	s := start(t, rest.Options{
		Card: func(_ context.Context, tenant mesh.TenantID, agent string, v1 bool) ([]byte, error) {
			name, form := string(tenant)+"'s "+agent, "union"
			switch agent {
			case "":
				name = "mesh"
			case "absent":
				return nil, mesh.Errorf(mesh.NotFound, "test", "no such agent")
			}
			if v1 {
				form = "v1"
			}
			return []byte(`{"name":"` + name + `","form":"` + form + `"}`), nil
		},
	})
	const path = "/.well-known/agent-card.json"
	for _, c := range []struct {
		path, version, name, form string
	}{
		{path, "", "mesh", "union"},
		{path, "0.3", "mesh", "union"},
		{path, "1.0", "mesh", "v1"},
		{path + "?A2A-Version=1.0", "", "mesh", "v1"},
		{path + "?A2A-Version=1.0", "0.3", "mesh", "union"},
		{"/agents/planner" + path, "", "default's planner", "union"},
		{"/agents/planner" + path + "?A2A-Version=1.1", "", "default's planner", "v1"},
	} {
		resp := s.do("GET", c.path, "", "A2A-Version", c.version)
		if got := s.read(resp); got["name"] != c.name || got["form"] != c.form {
			t.Errorf("%s as %q: %v, want %s of %s", c.path, c.version, got, c.form, c.name)
		}
		if resp := s.do("GET", c.path, "", "A2A-Version", c.version, "If-Modified-Since", resp.Header.Get("Last-Modified")); resp.StatusCode != http.StatusNotModified {
			t.Errorf("%s as %q again: %d, want 304", c.path, c.version, resp.StatusCode)
		}
	}
	s.errorOf(s.do("GET", "/agents/absent"+path, ""), 404, "NOT_FOUND")
	s.errorOf(s.do("POST", "/agents/planner"+path, "{}"), 405, "UNIMPLEMENTED")
}

func TestKeysArePublishedWhereThereAreAny(t *testing.T) {
	s := start(t, rest.Options{Keys: []byte(`{"keys":[]}`)})
	resp := s.do("GET", "/.well-known/jwks.json", "")
	if got := s.read(resp); got["keys"] == nil || resp.Header.Get("Content-Type") != "application/jwk-set+json" {
		t.Errorf("%v with %v", got, resp.Header)
	}
	if again := s.do("GET", "/.well-known/jwks.json", "", "If-None-Match", resp.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("again: %d, want 304", again.StatusCode)
	}
	s = start(t, rest.Options{})
	s.errorOf(s.do("GET", "/.well-known/jwks.json", ""), 404, "NOT_FOUND")
}

// Without Card no path is taken from a tenant that is called agents.
func TestAgentsIsATenantWhereAgentsHaveNoPaths(t *testing.T) {
	s := start(t, rest.Options{})
	if resp := s.do("POST", "/agents/message:send", say("hi")); resp.StatusCode != http.StatusOK {
		t.Errorf("%d, want 200", resp.StatusCode)
	}
}
