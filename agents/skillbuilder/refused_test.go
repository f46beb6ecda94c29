package skillbuilder_test

import (
	"fmt"
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/skillbuilder"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
)

// A strict mesh refuses files for a field, when they are checked or when they are created.
type strict struct {
	t     *testing.T
	node  *agenttest.Node
	grant *mesh.Grant
	agent agent.Agent
	begun bool
}

func newStrict(t *testing.T) *strict {
	t.Helper()
	a, err := skillbuilder.New(skillbuilder.Config{Card: meshtest.Card(t, "skill-builder"), Now: friday})
	if err != nil {
		t.Fatal(err)
	}
	s := &strict{t: t, node: agenttest.NewNode(t), grant: agenttest.NewGrant(), agent: a}
	s.grant.Turn, s.grant.Capabilities = mesh.NewExecutionID(agenttest.Thread), []mesh.Capability{mesh.CapCreateSkill}
	s.node.Log(agenttest.Opened(s.grant.Turn), agenttest.Posted(s.grant.Turn, 1, "a skill"), agenttest.Dispatch(s.grant.Turn, s.grant.Execution, s.grant.Agent))
	return s
}

// say has the builder hear the message, and returns its last word and the step before that.
func (s *strict) say(text string) (asked, step string) {
	s.t.Helper()
	inv := &agent.Invocation{
		Message: agenttest.Message(text), Execution: s.grant.Execution, Thread: s.grant.Key(), User: s.grant.User, Grant: s.grant,
		Mesh: s.node.Client(s.t, s.grant), Resumed: s.begun,
	}
	s.begun = true
	for out, err := range s.agent.Run(s.t.Context(), inv) {
		if err != nil {
			s.t.Fatal(err)
		}
		switch o := out.(type) {
		case agent.Ask:
			asked = o.Text
		case agent.Progress:
			step = o.State
		}
	}
	if err := inv.Mesh.Close(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return asked, step
}

// What the mesh finds wrong with a file, when it checks it and when it is to create it, leads
// back to the step whose answer causes it, as what the builder finds does itself.
func TestWhatTheMeshRefusesLeadsBackToItsCause(t *testing.T) {
	t.Parallel()
	const name, how, what = "What should the skill be called?", "How does it work", "What should the new skill do?"
	for field, tt := range map[string]struct{ step, asks string }{
		"name": {skillbuilder.Triggers, name}, "domain": {skillbuilder.Triggers, name}, "tags[0]": {skillbuilder.Triggers, name},
		"description": {skillbuilder.Gathering, what}, "body": {skillbuilder.Gathering, how},
		"parameters[0].type": {skillbuilder.Gathering, how}, "parameters": {skillbuilder.Gathering, how},
		"confirm": {skillbuilder.Testing, "confirm: "}, "access": {skillbuilder.Testing, "description: "}, "": {skillbuilder.Testing, "steps: "},
	} {
		for _, create := range []bool{false, true} {
			s, refused := newStrict(t), 0
			why := fmt.Sprintf("what is in %q is not to the taste of this mesh", field)
			s.node.Faults = func(_ string, creating bool) *meshv1.SkillProblem {
				if creating != create || refused > 0 {
					return nil
				}
				refused++
				return &meshv1.SkillProblem{Field: field, Detail: why}
			}
			asked, step, until := "", "", 3
			if create {
				until = 4
			}
			for _, text := range []string{"a skill that sends Slack alerts", "ok", "ok", "yes"}[:until] {
				asked, step = s.say(text)
			}
			if refused != 1 || step != tt.step || !strings.Contains(asked, "I cannot write the skill like this: "+why) || !strings.Contains(asked, tt.asks) {
				t.Errorf("%q, created %v: refused %d times, leads to %s and asks\n%s", field, create, refused, step, asked)
				continue
			}
			for _, answer := range []string{"it sends alerts to Slack", "ok", "call it slack.ping, use it for “ping”", "inputs: channel"} {
				if !strings.Contains(asked, "Shall I save it") {
					asked, step = s.say(answer)
				}
			}
			if !strings.Contains(asked, "Shall I save it") {
				t.Errorf("%q, created %v, cannot be mended: at %s it asks\n%s", field, create, step, asked)
			}
		}
	}
}
