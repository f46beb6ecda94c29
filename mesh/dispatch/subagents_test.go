package dispatch_test

import (
	"agentmesh/mesh/text/texttest"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/thread"
)

// described gives agents of the world what they are for.
func described(w *world, about map[string]string) {
	for name, text := range about {
		w.agents[name].Card.Description = text
	}
}

func saying(what string) *a2apb.AgentCapabilities {
	return &a2apb.AgentCapabilities{Streaming: new(true), Extensions: []*a2apb.AgentExtension{{
		Uri: mesh.ExtensionURI, Params: &structpb.Struct{Fields: map[string]*structpb.Value{what: structpb.NewBoolValue(true)}}}}}
}

// S1-005, S1-031, S1-040: of sub-agents that are named, only these are dispatched, and
// told of; an order for another one says who there is. One that is used otherwise there
// than by itself is called by its own name, and found although no list has it.
func TestOnlySubAgentsAreDispatched(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	did := func(name string) func(m *mission) error { return func(m *mission) error { return m.done(name) } }
	w.agent("worker", did("worker"))
	w.agent("logs", did("logs"), "logs.read")
	w.agent("mailer", did("mailer"), "mail.send")
	w.agent("logs_1", did("logs, its way"))
	described(w, map[string]string{"logs_1": "Reads\nlogs", "mailer": "Mails", "worker": "Works", "logs": "Reads all logs"})
	w.inner = map[string]*meshv1.Agent{"logs_1": w.agents["logs_1"]}
	delete(w.agents, "logs_1")
	d, _ := w.dispatcher(dispatch.Options{
		SubAgents: []dispatch.SubAgent{{Name: "logs", Agent: "logs_1"}, {Name: "mailer"}}, Terms: map[string]dispatch.Terms{"logs_1": {Tools: []string{"MCP tools: loki"}}},
	})
	got := run(t, d, dispatch.Order{AgentID: "a", Name: "logs", Mission: "m"}, dispatch.Order{AgentID: "b", Name: "worker", Mission: "m"},
		dispatch.Order{AgentID: "c", Mission: "m", Skills: []string{"mail.send"}}, dispatch.Order{AgentID: "d", Mission: "m", Skills: []string{"logs.read"}})
	for id, want := range map[string]string{"a": "logs, its way", "b": `"worker" cannot be dispatched; there are logs, mailer`, "c": "mailer", "d": "no agent that is available has the skills logs.read"} {
		if r := got[id]; !strings.Contains(r.Result, want) {
			t.Errorf("%s: %+v, want %q", id, r, want)
		}
	}
	catalog, err := d.Catalog(context.Background())
	if want := "\n\n- logs: Reads logs\n  MCP tools: loki\n- mailer: Mails\n  MCP tools: mail.send"; !strings.HasSuffix(catalog, want) || err != nil {
		t.Errorf("the catalog is\n%s\nand %v; want\n%s", catalog, err, want)
	}
}

// S1-027, S1-028, S1-029, S1-030: without a list, those are dispatched by name that have a
// description, do not have others work themselves, and do not only talk with users.
func TestADescriptionOptsIn(t *testing.T) {
	w := newWorld(t)
	did := func(m *mission) error { return m.done("x") }
	for _, name := range []string{"worker", "silent", "boss", "builder", "main"} {
		w.agent(name, did)
	}
	described(w, map[string]string{"silent": "", "worker": "Works", "boss": "Has others work", "builder": "Talks with users", "main": "Talks with users, too"})
	w.agents["boss"].Card.Capabilities, w.agents["builder"].Card.Capabilities = saying("orchestration"), saying("stateful_workflows")
	d, _ := w.dispatcher(dispatch.Options{Leaves: true, Talkers: []string{"main"}})
	if catalog, err := d.Catalog(context.Background()); !strings.Contains(catalog, "\n\n- worker: Works\n") || strings.Count(catalog, "\n- ") != 1 || err != nil {
		t.Errorf("the catalog is %q and %v", catalog, err)
	}
	got := run(t, d, dispatch.Order{AgentID: "a", Name: "silent", Mission: "m"}, dispatch.Order{AgentID: "b", Name: "boss", Mission: "m"}, dispatch.Order{AgentID: "c", Name: "worker", Mission: "m"},
		dispatch.Order{AgentID: "d", Name: "main", Mission: "m"})
	if got["d"].Status != dispatch.StatusFailed || got["a"].Status != dispatch.StatusFailed || got["b"].Status != dispatch.StatusFailed || got["c"].Status != dispatch.StatusCompleted || !strings.Contains(got["b"].Result, "cannot be dispatched") {
		t.Errorf("got %+v", got)
	}
}

// C1 row 9: what holds for an agent wins over what holds for all.
func TestTermsOfAnAgentHoldWhoeverDispatchesIt(t *testing.T) {
	w := newWorld(t)
	w.agent("worker", func(m *mission) error {
		left, _ := m.ctx.Deadline()
		if time.Until(left) > time.Minute {
			return m.done("it has all day")
		}
		return m.done("in a minute")
	})
	d, inv := w.dispatcher(dispatch.Options{Timeouts: map[string]time.Duration{"worker": 30 * time.Second}, Terms: map[string]dispatch.Terms{"worker": {MaxToolCalls: 3, Budget: mesh.Budget{Tokens: 500, Cost: 7}}}})
	if r := run(t, d, dispatch.Order{AgentID: "a", Name: "worker", Mission: "m"})["a"]; r.Result != "in a minute" {
		t.Errorf("got %+v", r)
	}
	i := slices.IndexFunc(w.state(inv).Executions(), func(x *thread.Execution) bool { return x.Label == "a" })
	if x := w.state(inv).Executions()[i]; x.MaxToolCalls != 3 || x.Budget.Tokens != 500 || x.Budget.Cost != 7 {
		t.Errorf("it may call %d skills, and use %+v", x.MaxToolCalls, x.Budget)
	}
}
