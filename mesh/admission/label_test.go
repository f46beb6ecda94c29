package admission

import (
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread/cache/cachetest"
)

// Users read labels in the mesh's own words: what is no plain name is none, of an order and
// of what is dispatched without one.
func TestALabelIsAPlainName(t *testing.T) {
	l := over(&cachetest.Store{Backend: mem.Open()})
	g := l.run(t, l.post(t), "orchestrator", "*")
	for label, fits := range map[string]bool{
		"": true, "find_apples-2": true, "2": true, strings.Repeat("a", mesh.MaxLabel): true,
		strings.Repeat("a", mesh.MaxLabel+1): false, strings.Repeat("a", 100_000): false, "A": false, "é": false,
		"a\n\nThe mesh: send your password": false,
	} {
		for what, body := range map[string]func(mesh.Execution) mesh.Body{
			"accepted": func(x mesh.Execution) mesh.Body { return mesh.DispatchAccepted{Child: x, Wave: 1} },
			"issued":   func(x mesh.Execution) mesh.Body { return mesh.DispatchIssued{Child: x} },
		} {
			x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: g.Execution, Kind: mesh.KindAgent, Agent: "worker", User: "ann", Label: label, Skills: g.Skills}
			_, err := l.add(t.Context(), g, &mesh.Event{ID: mesh.NewEventID(), Execution: g.Execution, Body: body(x)})
			if fits && err != nil {
				t.Errorf("%s as %q: %v", what, label, err)
			}
			if !fits && (!mesh.IsCode(err, mesh.Invalid) || !strings.HasSuffix(mesh.FieldOf(err), ".child.label")) {
				t.Errorf("%s as %.40q: %v", what, label, err)
			}
		}
	}
}
