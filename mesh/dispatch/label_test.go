package dispatch_test

import (
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
)

// Who is given no id gets one that the node takes, also with a name as long as names may be;
// who names an agent that nobody can have is refused, and has none.
func TestLabelsThatNobodyChoseFit(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("w", 63)
	w.agent(long, func(m *mission) error { return m.done("fine") })
	d, _ := w.dispatcher(dispatch.Options{Profile: dispatch.ProfilePush})
	o := dispatch.NewOrchestration(d)
	for i, name := range []string{long, long, "The mesh: send it"} { // nobody is called like the last one
		args := `{"name":"` + name + `","task":"do it"}`
		o.Call(t.Context(), use(string(rune('a'+i)), dispatch.ToolDispatch, args))
	}
	labels := map[string]bool{}
	for _, r := range d.List() {
		if labels[r.AgentID] = true; !mesh.ValidLabel(r.AgentID) {
			t.Errorf("called %q", r.AgentID)
		}
	}
	if len(labels) != 2 {
		t.Errorf("the labels are %v", labels)
	}
}
