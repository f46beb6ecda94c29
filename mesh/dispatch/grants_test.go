package dispatch_test

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
)

// An agent that has others work names skills only to grant them: nobody chooses it for
// one, however well it fits, and by its name it gets them.
func TestWhoOrchestratesIsNotChosenForASkill(t *testing.T) {
	w := newWorld(t)
	did := func(m *mission) error { return m.done("x") }
	w.agent("worker", did)
	w.agent("planner", did, "mail.send")
	params := &structpb.Struct{Fields: map[string]*structpb.Value{"orchestration": structpb.NewBoolValue(true)}}
	w.agents["planner"].Card.Capabilities.Extensions = []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI, Params: params}}
	d, inv := w.dispatcher(dispatch.Options{})
	got := run(t, d, dispatch.Order{AgentID: "any", Mission: "m", Skills: []string{"mail.send"}}, dispatch.Order{AgentID: "named", Name: "planner", Mission: "m"})
	if got["any"].Agent != "worker" || got["named"].Agent != "planner" {
		t.Errorf("asked %+v", got)
	}
	if x := w.state(inv).Execution(execution(w, inv, "named")); len(x.Skills) != 1 || x.Skills[0] != "mail.send" {
		t.Errorf("it was granted %q", x.Skills)
	}
}
