package orchestrator_test

import (
	"context"
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/orchestrator"
	"agentmesh/agents/specialist"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/skills/memory"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// S0-139, S1-096: what a sub-agent found out reaches memory.save, by an agent that is given it, when
// its user has set that; whose user has not, is told nothing of it. Memory is skills, which agents are given as others: one
// whose mission is to recall finds in another conversation, by other words, what was saved.
func TestWhatAgentsFindOutIsRememberedWhereTheUserWantsIt(t *testing.T) {
	store := memory.Open(t.TempDir())
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	const fact = "Bob is on holiday every August."
	planner := scripted.New(
		scripted.Call("dispatch_agent", `{"agent_id":"on","mission":"Remember results from now on","skills":["memory.settings"]}`),
		scripted.Call("get_agent_results", `{}`), scripted.Say("From now on I do."),
		scripted.Call("dispatch_agent", `{"agent_id":"find","mission":"Find out when Bob is away","skills":["memory.search"]}`),
		scripted.Call("get_agent_results", `{}`),
		scripted.Call("dispatch_agent", `{"agent_id":"keep","mission":"Save the fact","skills":["memory.save"],"depends_on":["find"]}`),
		scripted.Call("get_agent_results", `{}`), scripted.Say(fact+" I have saved that."),
		scripted.Call("dispatch_agent", `{"agent_id":"recall","mission":"Look up what we know of August","skills":["memory.search"]}`),
		scripted.Call("get_agent_results", `{}`), scripted.Say("It is on record."),
	)
	use := func(skill, args string) scripted.Step {
		return scripted.Call("use_skill", `{"skill":"`+skill+`","arguments":`+args+`}`)
	}
	worker := scripted.New(
		use("memory.settings", `{"learn":true}`).For(scripted.Last("from now on")), scripted.Say("It is set.").For(scripted.Last("are saved")),
		scripted.Say(fact).For(scripted.Last("Find out when")),
		use("memory.save", `{"content":"`+fact+`","category":"fact"}`).For(scripted.Last(fact)), scripted.Say("Saved.").For(scripted.Last("Saved: ")),
		use("memory.search", `{"query":"August holidays"}`).For(scripted.Last("Look up what we know")), scripted.Say("On record: "+fact).For(scripted.Last(fact)),
	)
	m := meshtest.Start(t, meshtest.Agents{
		"main": func(env node.Env) (agent.Agent, error) {
			return orchestrator.New(orchestrator.Config{
				Card: meshtest.Card(t, "orchestrator"), Model: planner, Conns: env.Conns, Now: friday,
				Learns: func(ctx context.Context, inv *agent.Invocation) bool {
					s, err := memory.SettingsOf(ctx, inv.Mesh.State())
					if err != nil {
						t.Error(err)
					}
					return s.Learn
				},
			})
		},
		"worker": func(node.Env) (agent.Agent, error) {
			return specialist.New(specialist.Config{Card: meshtest.Card(t, "worker"), Model: worker, Domains: []string{specialist.AnyDomain}, Handlers: memory.Handlers(store), Now: friday})
		},
	}, meshtest.Options{})
	thread := mesh.NewThreadID()
	m.Say(thread, "Remember what you find out")
	s := m.Say(thread, "When is Bob away?")
	if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(s.Text, fact) {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	var saved []string
	for _, e := range m.Events(thread) {
		if r, ok := e.Body.(mesh.SkillReturned); ok && strings.HasPrefix(r.Content, "Saved: ") {
			saved = append(saved, r.Content)
		}
	}
	if len(saved) != 1 || saved[0] != "Saved: "+fact {
		t.Errorf("saved %q", saved)
	}
	m.Say(mesh.NewThreadID(), "Who is away in August?")
	reqs := planner.Requests()
	last := reqs[len(reqs)-1].Messages
	if told := last[len(last)-1].Text; !strings.Contains(told, "On record: "+fact) {
		t.Errorf("in another conversation the model was told %s", told)
	}
	if first, later := reqs[0].System, reqs[3].System; strings.Contains(first, "memory.save") || !strings.Contains(later, "memory.save") {
		t.Errorf("before the setting the model was told\n%s\nand after it\n%s", first, later)
	}
}
