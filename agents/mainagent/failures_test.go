package mainagent_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/specialist"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text/texttest"

	"github.com/google/go-cmp/cmp"
)

// worker is a specialist for tasks whose skill is done by the handler.
func (o *office) worker(timeout time.Duration, h skill.Code) func(node.Env) (agent.Agent, error) {
	return func(env node.Env) (agent.Agent, error) {
		return specialist.New(specialist.Config{
			Card: meshtest.Card(o.t, "tasks"), Model: o.modelOf("tasks"), Domains: []string{"tasks"},
			Handlers: map[string]skill.Handler{"tasks.search": skill.HandlerFunc(h)}, SkillTimeout: timeout,
			Prompt: "You do tasks.", Now: friday, Logger: env.Logger,
		})
	}
}

// orchestrated opens a mesh whose users talk to an orchestrator, whose only agent does tasks.
func (o *office) orchestrated(timeout time.Duration, h skill.Code) {
	o.open(meshtest.Agents{"main": o.orchestrator, "tasks": o.worker(timeout, h)})
}

// lastTold is what the model was told last in its n-th request, from 0.
func (o *office) lastTold(name string, n int) llm.Message {
	o.t.Helper()
	reqs := o.models[name].Requests()
	if n >= len(reqs) {
		o.t.Fatalf("%s was asked %d times", name, len(reqs))
	}
	return reqs[n].Messages[len(reqs[n].Messages)-1]
}

// S0-075, S0-085, S0-131, S0-143: the circuit of a skill opens while an agent works with it.
// The next agent is refused the call, whoever dispatched it, reports it, and whoever
// orchestrates sees that in the results and tells the user.
func TestACircuitThatOpensIsReportedByTheAgentAndToldToTheUser(t *testing.T) {
	texttest.Fixed(t)
	o := newOffice(t)
	var steps []scripted.Step
	for i := range 5 { // differently each time, as a model that tries
		steps = append(steps, use("tasks.search", "query", fmt.Sprint("late ", i)))
	}
	o.model("tasks", append(steps, scripted.Say("The list did not answer."),
		use("tasks.search", "query", "late"), scripted.Say("The search is switched off for now."))...)
	o.model("orchestrator",
		scripted.Call("dispatch_agent", `{"agent_id":"a","mission":"Find what is late","skills":["tasks.search"]}`).
			Call("dispatch_agent", `{"agent_id":"b","mission":"Find it again","skills":["tasks.search"],"depends_on":["a"]}`),
		scripted.Call("get_agent_results", `{}`),
		scripted.Say("I cannot search the tasks for now."))
	var calls atomic.Int32
	o.orchestrated(0, func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
		calls.Add(1)
		return nil, mesh.Errorf(mesh.Unavailable, "test", "the list is away")
	})
	s := o.Say(mesh.NewThreadID(), "What is late?")
	if s.State != completed || s.Text != "I cannot search the tasks for now." {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	if n := calls.Load(); n != 5 {
		t.Errorf("the skill was called %d times, want the 5 that open its circuit", n)
	}
	if refused := o.lastTold("tasks", 7); !refused.Failed || !strings.Contains(refused.Text, "tasks.search") || strings.Contains(refused.Text, "the list is away") {
		t.Errorf("the second agent was told %+v", refused)
	}
	if told := o.lastTold("orchestrator", 2).Text; !strings.Contains(told, "The list did not answer.") || !strings.Contains(told, "The search is switched off for now.") {
		t.Errorf("the orchestrator was told %s", told)
	}
}

// S0-084: a skill that takes too long is a result like another, and the agent goes on; S0-086,
// S0-116, S0-129: an agent whose model fails is a failed agent, and what the others found stands.
func TestWhatFailsInAnAgentIsAResult(t *testing.T) {
	texttest.Fixed(t)
	o := newOffice(t)
	o.model("tasks",
		use("tasks.search", "query", "slow").For(scripted.Last("Find slowly")), scripted.Say("It took too long.").For(scripted.Last("in time")),
		scripted.Fail(mesh.Errorf(mesh.Unavailable, "test", "the model answered 503")).For(scripted.Last("Find fast")))
	o.model("orchestrator",
		scripted.Call("dispatch_agent", `{"agent_id":"slow","mission":"Find slowly","skills":["tasks.search"]}`).
			Call("dispatch_agent", `{"agent_id":"fast","mission":"Find fast","skills":["tasks.search"]}`),
		scripted.Call("get_agent_results", `{}`),
		scripted.Say("One was late, one is broken."))
	o.orchestrated(time.Second, func(ctx context.Context, _ *skill.Call, _ *skill.Env) (*skill.Result, error) { // in which it begins, however busy the machine is
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if s := o.Say(mesh.NewThreadID(), "Find"); s.State != completed || s.Text != "One was late, one is broken." {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	told := o.lastTold("orchestrator", 2).Text
	for _, want := range []string{`"agent_id":"slow"`, `"status":"completed"`, "It took too long.", `"agent_id":"fast"`, `"status":"failed"`, "the model answered 503"} {
		if !strings.Contains(told, want) {
			t.Errorf("the orchestrator was told %s\nwithout %s", told, want)
		}
	}
}

// S0-078, S0-080, S0-082: two agents with the same skills begin with the same bytes, tools and
// prompt, so that the provider's cache has them; their missions come last. S0-138: and they
// know nothing of the conversation, nor of what is remembered of the user.
func TestAgentsWithTheSameSkillsShareTheirPrefix(t *testing.T) {
	o := newOffice(t)
	o.model("tasks", scripted.Say("Nothing.").Repeat())
	o.model("orchestrator",
		scripted.Say("Noted."),
		scripted.Call("dispatch_agent", `{"agent_id":"a","mission":"Find what is late","skills":["tasks.search"],"context":"Ann likes lists."}`).
			Call("dispatch_agent", `{"agent_id":"b","mission":"Find what is open","skills":["tasks.search"]}`),
		scripted.Call("get_agent_results", `{}`),
		scripted.Say("Nothing is late or open."))
	agents := o.all()
	agents["main"] = o.orchestrator
	o.open(agents)
	thread := mesh.NewThreadID()
	o.Say(thread, "I am Ann and my cat is called Mia")
	o.Say(thread, "What is late, and what is open?")
	reqs := o.models["tasks"].Requests()
	if len(reqs) != 2 {
		t.Fatalf("%d agents were asked", len(reqs))
	}
	a, b := reqs[0], reqs[1]
	if a.System != b.System || a.Context != "" || b.Context != "" {
		t.Errorf("the prompts differ, or have a context:\n%q %q\n%q %q", a.System, a.Context, b.System, b.Context)
	}
	if diff := cmp.Diff(a.Tools, b.Tools); diff != "" {
		t.Errorf("the tools differ:\n%s", diff)
	}
	for _, r := range reqs {
		if len(r.Messages) != 1 || !strings.Contains(r.Messages[0].Text, "Find what is") {
			t.Errorf("an agent is told %+v, want its mission alone", r.Messages)
		}
		if all := fmt.Sprint(r.System, r.Context, r.Fresh, r.Messages); strings.Contains(all, "Mia") {
			t.Errorf("an agent knows the conversation: %s", all)
		}
	}
}

// finding O7: what an agent says before it calls its skills is for who watches; its result is
// its last reply.
func TestAResultIsTheLastReply(t *testing.T) {
	o := newOffice(t)
	o.model("tasks", scripted.Say("Let me look.").Call("use_skill", `{"skill":"tasks.search","arguments":{"query":"late"}}`), scripted.Say("Two are late."))
	o.model("orchestrator",
		scripted.Call("dispatch_agent", `{"agent_id":"a","mission":"Find what is late","skills":["tasks.search"]}`),
		scripted.Call("get_agent_results", `{}`), scripted.Say("Two."))
	o.orchestrated(0, func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
		return &skill.Result{Status: skill.StatusOK, Content: "paper, ink"}, nil
	})
	thread := mesh.NewThreadID()
	if s := o.Say(thread, "What is late?"); s.Text != "Two." {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	if told := o.lastTold("orchestrator", 2).Text; !strings.Contains(told, `"result":"Two are late."`) {
		t.Errorf("the orchestrator was told %s", told)
	}
	for _, b := range bodies[mesh.DispatchSettled](o.Events(thread)) {
		if strings.Contains(b.Result, "Let me look") {
			t.Errorf("the log has the result %q", b.Result)
		}
	}
}
