package node_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentmesh/mesh/security/auth"
)

// Metrics are of all tenants: where callers have to say who they are, operators read them
// alone. A mesh that was not asked for metrics has none.
func TestMetricsAreForOperators(t *testing.T) {
	var b strings.Builder
	for user, role := range map[string]string{"ann": "user", "tess": "tenant-admin", "ops": "operator"} {
		fmt.Fprintf(&b, "- name: %[1]q\n  hash: %[2]q\n  tenant: acme\n  user: %[1]q\n  roles: [%[3]s]\n", user, auth.Hash("the-secret-of-"+user), role)
	}
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	guarded, open, off := config(t.TempDir()), config(t.TempDir()), config(t.TempDir())
	guarded.Auth, guarded.Tokens, guarded.Telemetry.Metrics, open.Telemetry.Metrics = "tokens", tokens, true, true
	echo := map[string]run{"main": counter(1)}
	meshes := map[string]*testMesh{"guarded": start(t, guarded, echo), "open": start(t, open, echo), "off": start(t, off, echo)}
	for _, tt := range []struct {
		mesh, user, method string
		want               int
	}{
		{"guarded", "", http.MethodGet, http.StatusUnauthorized},
		{"guarded", "nobody", http.MethodGet, http.StatusUnauthorized},
		{"guarded", "ann", http.MethodGet, http.StatusForbidden},
		{"guarded", "tess", http.MethodGet, http.StatusForbidden},
		{"guarded", "ops", http.MethodGet, http.StatusOK},
		{"open", "", http.MethodGet, http.StatusOK},
		{"open", "", http.MethodPost, http.StatusMethodNotAllowed},
		{"off", "", http.MethodGet, http.StatusNotFound},
	} {
		resp, body := fetch(t, meshes[tt.mesh].web(), func(r *http.Request) {
			r.URL.Path, r.Method = "/metrics", tt.method
			if tt.user != "" {
				r.Header.Set("Authorization", bearer(tt.user)[1])
			}
		})
		if resp.StatusCode != tt.want || (tt.want == http.StatusOK) != strings.Contains(body, "agentmesh_turns_running") {
			t.Errorf("%s, %q, %s: %d %.200s", tt.mesh, tt.user, tt.method, resp.StatusCode, body)
		}
	}
}
