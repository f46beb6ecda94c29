package dispatch_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/text/texttest"
)

// Who is not for this user is not in the catalog, not chosen for its skills, and not asked:
// whoever asks hears which permission is lacking, typed, and nothing is logged.
func TestWhoIsNotForTheUserIsNotDispatched(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	did := func(name string) func(m *mission) error { return func(m *mission) error { return m.done(name) } }
	w.agent("worker", did("worker"), "tasks.search", "mail.send")
	w.agent("ledger", did("ledger"), "tasks.search")
	w.agent("vault", did("vault"), "mail.send")
	w.agents["ledger"].MissingPermissions, w.agents["ledger"].DeniedActions = []string{"audit:read"}, []string{"orchestrate", "handoff"}
	w.agents["vault"].DeniedActions = []string{"orchestrate"} // by a policy
	d, inv := w.dispatcher(dispatch.Options{})
	const needs = "ledger works only for users with the permission audit:read, which these roles give: auditor, operator, tenant-admin; ask the operator for one"

	before := len(w.state(inv).Executions())
	asking := dispatch.NewConsult(d, slices.Collect(maps.Values(w.agents)))
	r := asking.Call(context.Background(), mesh.ToolUse{ID: "1", Name: dispatch.ToolConsult, Arguments: `{"agent":"ledger","task":"read"}`})
	if !r.Failed || r.Cause != mesh.CauseDenied || r.Text != needs {
		t.Errorf("who is asked: %+v", r)
	}
	if n := len(w.state(inv).Executions()); n != before {
		t.Errorf("%d executions are logged, and %d before", n, before)
	}
	catalog, err := d.Catalog(context.Background())
	if err != nil || !strings.Contains(catalog, "- worker: ") || strings.Contains(catalog, "ledger") || strings.Contains(catalog, "vault") {
		t.Errorf("the catalog is\n%s\nand %v", catalog, err)
	}
	got := run(t, d, dispatch.Order{AgentID: "a", Mission: "m", Skills: []string{"tasks.search"}}, dispatch.Order{AgentID: "b", Mission: "m", Skills: []string{"mail.send"}},
		dispatch.Order{AgentID: "c", Name: "ledger", Mission: "m"})
	for id, want := range map[string]string{"a": "worker", "b": "worker", "c": needs} {
		if r := got[id]; !strings.Contains(r.Result, want) {
			t.Errorf("%s: %+v, want %q", id, r, want)
		}
	}
}
