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
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/skill"
	"agentmesh/skills/memory"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// aware is a mesh with the memory, whose users talk to the orchestrator with the planner, and
// whose one worker has the skills of the memory. known is what the orchestrator's model is told
// before it is asked; nil for nothing.
func aware(t *testing.T, planner, worker *scripted.Model, known func(ctx context.Context, store *memory.Store, inv *agent.Invocation) string) *meshtest.Mesh {
	t.Helper()
	store := memory.Open(t.TempDir())
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return meshtest.Start(t, meshtest.Agents{
		"main": func(env node.Env) (agent.Agent, error) {
			cfg := orchestrator.Config{
				Card: meshtest.Card(t, "orchestrator"), Model: planner, Conns: env.Conns, Now: friday,
				Learns: func(ctx context.Context, inv *agent.Invocation) bool {
					s, err := memory.SettingsOf(ctx, inv.Mesh.State())
					if err != nil {
						t.Error(err)
					}
					return s.Learn
				},
			}
			if known != nil {
				cfg.Context = func(ctx context.Context, inv *agent.Invocation) string { return known(ctx, store, inv) }
			}
			return orchestrator.New(cfg)
		},
		"worker": func(node.Env) (agent.Agent, error) {
			return specialist.New(specialist.Config{Card: meshtest.Card(t, "worker"), Model: worker, Domains: []string{specialist.AnyDomain}, Handlers: memory.Handlers(store), Now: friday})
		},
	}, meshtest.Options{})
}

const fact = "Bob is on holiday every August."

// S0-139, S1-096: what a sub-agent found out reaches memory.save, by an agent that is given it, when
// its user has set that; whose user has not, has nothing saved by a model that saves if it is told to. Memory is skills, which
// agents are given as others: one whose mission is to recall finds in another conversation, by other words, what was saved.
func TestWhatAgentsFindOutIsRememberedWhereTheUserWantsIt(t *testing.T) {
	finds := func() []scripted.Step {
		return []scripted.Step{scripted.Call("dispatch_agent", `{"agent_id":"find","mission":"Find out when Bob is away","skills":["memory.search"]}`), scripted.Call("get_agent_results", `{}`)}
	}
	planner := scripted.New(finds()...)
	planner.Add(
		scripted.Call("dispatch_agent", `{"agent_id":"keep","mission":"Save the fact","skills":["memory.save"],"depends_on":["find"]}`).For(scripted.System("memory.save")).For(scripted.Last(fact)),
		scripted.Say(fact),
		scripted.Call("dispatch_agent", `{"agent_id":"on","mission":"Remember results from now on","skills":["memory.settings"]}`),
		scripted.Call("get_agent_results", `{}`), scripted.Say("From now on I do."),
	)
	planner.Add(finds()...)
	planner.Add(
		scripted.Call("get_agent_results", `{}`), scripted.Say(fact+" I have saved that."),
		scripted.Call("dispatch_agent", `{"agent_id":"recall","mission":"Look up what we know of August","skills":["memory.search"]}`),
		scripted.Call("get_agent_results", `{}`), scripted.Say("It is on record."),
	)
	worker := scripted.New(
		useSkill("memory.settings", `{"learn":true}`).For(scripted.Last("from now on")), scripted.Say("It is set.").For(scripted.Last("are saved")),
		scripted.Say(fact).For(scripted.Last("Find out when")).Repeat(),
		useSkill("memory.save", `{"content":"`+fact+`","category":"fact"}`).For(scripted.Last(fact)), scripted.Say("Saved.").For(scripted.Last("Saved: ")),
		useSkill("memory.search", `{"query":"August holidays"}`).For(scripted.Last("Look up what we know")), scripted.Say("On record: "+fact).For(scripted.Last(fact)),
	)
	m := aware(t, planner, worker, nil)
	ask := func(thread string) (saved []string) {
		s := m.Say(thread, "When is Bob away?")
		if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(s.Text, fact) {
			t.Fatalf("ended %v: %q", s.State, s.Text)
		}
		for _, e := range m.Events(thread) {
			if r, ok := e.Body.(mesh.SkillReturned); ok && strings.HasPrefix(r.Content, "Saved: ") {
				saved = append(saved, r.Content)
			}
		}
		return saved
	}
	if saved := ask(mesh.NewThreadID()); len(saved) > 0 {
		t.Errorf("without the setting, saved %q", saved)
	}
	thread := mesh.NewThreadID()
	m.Say(thread, "Remember what you find out")
	if saved := ask(thread); len(saved) != 1 || saved[0] != "Saved: "+fact {
		t.Errorf("saved %q", saved)
	}
	m.Say(mesh.NewThreadID(), "Who is away in August?")
	reqs := planner.Requests()
	last := reqs[len(reqs)-1].Messages
	if told := last[len(last)-1].Text; !strings.Contains(told, "On record: "+fact) || planner.Left() != 0 {
		t.Errorf("in another conversation the model was told %s, and it has %d replies left", told, planner.Left())
	}
}

// S1-123: what was saved in one conversation is searched for in another before the orchestrator
// dispatches anybody, and goes with the task of who needs it.
func TestWhatIsRememberedIsKnownBeforeAgentsAreDispatched(t *testing.T) {
	planner := scripted.New(
		scripted.Call("dispatch_agent", `{"agent_id":"keep","mission":"Save the fact","skills":["memory.save"]}`), scripted.Call("get_agent_results", `{}`), scripted.Say("It is saved."),
		scripted.Call("dispatch_agent", `{"agent_id":"plan","mission":"Plan a meeting","context":"`+fact+`","skills":["memory.search"]}`).
			For(func(r *llm.Request) bool { return strings.Contains(r.Context, fact) }),
		scripted.Call("get_agent_results", `{}`), scripted.Say("In September."),
	)
	worker := scripted.New(
		useSkill("memory.save", `{"content":"`+fact+`","category":"fact"}`).For(scripted.Last("Save the fact")), scripted.Say("Saved.").For(scripted.Last("Saved: ")),
		scripted.Say("Not in August.").For(scripted.Last("Plan a meeting")),
	)
	m := aware(t, planner, worker, func(ctx context.Context, store *memory.Store, inv *agent.Invocation) string {
		r, err := store.Search(ctx, &skill.Call{Skill: "memory.search", Args: map[string]any{"query": inv.Text(), "limit": int64(5)}},
			&skill.Env{Tenant: inv.Thread.Tenant, User: inv.User, Thread: inv.Thread.ID, State: inv.Mesh.State(), Now: friday})
		if err != nil {
			t.Error(err)
			return ""
		}
		return r.Content
	})
	m.Say(mesh.NewThreadID(), "Note that "+fact)
	if s := m.Say(mesh.NewThreadID(), "Plan a meeting with Bob in August"); s.Text != "In September." {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	asked := worker.Requests()
	last := asked[len(asked)-1]
	if told := last.System + last.Context + last.Messages[0].Text; !strings.Contains(told, fact) {
		t.Errorf("the agent was told %s", told)
	}
}
