package mainagent_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/text/texttest"
)

// finders has the agent tasks search for its id, once, and then say that it found it.
func (o *office) finders(ids ...string) {
	var steps []scripted.Step
	for _, id := range ids {
		mission := about("Search " + id)
		steps = append(steps, use("tasks.search", "query", id).For(mission).For(not(found)).Repeat(), scripted.Say("Found "+id+".").For(mission).For(found).Repeat())
	}
	o.model("tasks", steps...)
}

func collect() scripted.Step { return scripted.Call("get_agent_results", `{}`) }

// Where more are asked for at once than may be, none begins, and nobody is told that some did.
func TestOfMoreAgentsThanMayBeNoneIsSaidToHaveBegun(t *testing.T) {
	texttest.Fixed(t)
	o := newOffice(t)
	o.limits = node.Limits{TurnAgents: 2}
	o.model("main", consult(scripted.Step{}, "orchestrator", "Search"))
	o.model("orchestrator", order(order(order(scripted.Step{}, "x", ""), "y", ""), "z", ""))
	o.finders("x", "y", "z")
	o.open(o.all())
	s := o.Say(mesh.NewThreadID(), "Search x, y and z")
	asked := s.Asked()
	if s.State != input || !strings.HasPrefix(asked, "I may set at most 2 agents to work for one message.") || strings.Count(asked, "(not begun: the limit was met)") != 3 {
		t.Errorf("ended %v, asked %q", s.State, asked)
	}
}

// tripped are the limits that the log has as met, each once with how much was used.
func (o *office) tripped(thread string) (out []string) {
	for _, e := range o.Events(thread) {
		if b, ok := e.Body.(mesh.LimitTripped); ok {
			out = append(out, fmt.Sprintf("%s %d/%d", b.Limit, b.Used, b.Most))
		}
	}
	return out
}

// S0-073: of a batch for which there is no room, the user and the log read which limit it
// was; a yes goes on with fresh counts.
func TestTheLimitThatABatchMeetsIsNamed(t *testing.T) {
	texttest.Fixed(t)
	o := newOffice(t)
	o.limits = node.Limits{Children: 3}
	batch := order(order(order(scripted.Step{}, "x", ""), "y", ""), "z", "")
	o.model("main", consult(scripted.Step{}, "orchestrator", "Search"), scripted.Say("That is it."))
	o.model("orchestrator", order(scripted.Step{}, "w", "").Call("get_agent_results", `{}`), batch, batch, collect(), scripted.Say("Orchestrated."))
	o.finders("w", "x", "y", "z")
	o.open(o.all())
	thread := mesh.NewThreadID()
	s := o.Say(thread, "Search w, x, y and z")
	if s.State != input || !strings.HasPrefix(s.Asked(), "The limit of agents that one agent dispatches is reached (3 of 3).") || strings.Count(s.Asked(), "(not begun: the limit was met)") != 3 {
		t.Errorf("ended %v, asked %q", s.State, s.Asked())
	}
	same(t, "limits", o.tripped(thread), "agent.children 3/3")
	if s = o.Say(thread, "yes"); s.State != completed || s.Text != "That is it." {
		t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
	}
	same(t, "effects", o.happened(), "tasks.search map[query:w]", "tasks.search map[query:x]", "tasks.search map[query:y]", "tasks.search map[query:z]")
}

// finding T7: where a yes would make no room, as under a quota of the day, nobody is asked:
// who is at work ends, and the agents conclude with what there is.
func TestUnderAQuotaAgentsConcludeAndNobodyIsAsked(t *testing.T) {
	o := newOffice(t)
	o.quotas.User.Dispatches = 2 // the orchestrator, and one more
	o.model("main", consult(scripted.Step{}, "orchestrator", "Search"), scripted.Say("That is it."))
	atWork := func(r *llm.Request) bool { return !r.About.Last } // it may be asked before x is over, and before y is refused
	o.model("orchestrator", order(order(scripted.Step{}, "x", ""), "y", `"x"`), scripted.Say("I wait.").For(atWork).Repeat(), scripted.Say("Orchestrated."))
	o.finders("x", "y")
	o.open(o.all())
	thread := mesh.NewThreadID()
	if s := o.Say(thread, "Search x and y"); s.State != completed || s.Text != "That is it." {
		t.Errorf("ended %v: %q, asked %q", s.State, s.Text, s.Asked())
	}
	same(t, "effects", o.happened(), "tasks.search map[query:x]")
	same(t, "limits", o.tripped(thread), "user.dispatches 2/2")
	reqs := o.models["orchestrator"].Requests()
	if last := reqs[len(reqs)-1]; !last.About.Last || len(last.Tools) != 0 || !strings.Contains(fmt.Sprint(last.Messages), "Found x.") {
		t.Errorf("the orchestrator concludes with %d tools from %v", len(last.Tools), last.Messages)
	}
}

// finding T7: how many agents a user may have at work is no limit of a batch of which no more
// are at work at a time.
func TestABatchIsNotRefusedForAgentsThatWorkOneAfterTheOther(t *testing.T) {
	o := newOffice(t)
	o.quotas.User.Agents = 2 // the orchestrator, and one more
	o.dispatch.MaxConcurrent = 1
	o.model("main", consult(scripted.Step{}, "orchestrator", "Search"), scripted.Say("That is it."))
	o.model("orchestrator", order(order(order(scripted.Step{}, "x", ""), "y", ""), "z", "").Call("get_agent_results", `{}`), scripted.Say("Orchestrated."))
	o.finders("x", "y", "z")
	o.open(o.all())
	thread := mesh.NewThreadID()
	if s := o.Say(thread, "Search x, y and z"); s.State != completed || s.Text != "That is it." {
		t.Errorf("ended %v: %q %q %q", s.State, s.Text, s.Status, s.Asked())
	}
	same(t, "effects", o.happened(), "tasks.search map[query:x]", "tasks.search map[query:y]", "tasks.search map[query:z]")
	same(t, "limits", o.tripped(thread))
}

// finding O2. finding O10. S0-067, S0-070, S0-076, S0-077, S0-123, S0-124: at the limit of agents the
// user reads who is done and who was not begun, and is asked; a yes goes on with fresh
// counts, also in a mesh that was started again, and a no ends with an answer that knows
// what was done.
func TestAtTheLimitOfAgentsTheUserIsAskedWhetherToGoOn(t *testing.T) {
	texttest.Fixed(t)
	for name, tt := range map[string]struct {
		restart bool
		answer  string
	}{"yes": {false, "yes"}, "yes after a restart": {true, "yes"}, "no": {false, "no"}} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			o.limits = node.Limits{TurnAgents: 2}
			o.model("main", consult(scripted.Step{}, "orchestrator", "Search"), scripted.Say("That is it."))
			o.model("orchestrator", order(order(scripted.Step{}, "x", ""), "y", "").Call("get_agent_results", `{}`), order(scripted.Step{}, "z", ""),
				order(scripted.Step{}, "z", ""), collect(), scripted.Say("Orchestrated."))
			o.finders("x", "y", "z")
			o.open(o.all())
			thread := mesh.NewThreadID()
			s := o.Say(thread, "Search x, y and z")
			asked := s.Asked()
			for _, want := range []string{"I may set at most 2 agents to work for one message.", "\n- tasks.search(query: x)", "\n- tasks.search(query: y)",
				"\n\nStill open:\n- Search z (not begun: the limit was met)\n\n", "Would you like me to continue?"} {
				if n := strings.Count(asked, want); s.State != input || n != 1 && !texttest.Random() {
					t.Fatalf("ended %v, asked %q without one %q", s.State, asked, want)
				}
			}
			if tt.restart {
				o.open(o.all())
			}
			s = o.Say(thread, tt.answer)
			if s.State != completed || s.Text != "That is it." {
				t.Fatalf("ended %v: %q %q", s.State, s.Text, s.Status)
			}
			if tt.answer == "no" {
				same(t, "effects", o.happened(), "tasks.search map[query:x]", "tasks.search map[query:y]")
				if told := o.told("main"); !strings.Contains(told, "tasks.search(query: x)") || !strings.Contains(told, "tasks.search(query: y)") {
					t.Errorf("main is told %q", told)
				}
				return
			}
			same(t, "effects", o.happened(), "tasks.search map[query:x]", "tasks.search map[query:y]", "tasks.search map[query:z]")
			reqs := o.models["orchestrator"].Requests()
			if r := reqs[2]; r.About.Resume != llm.ResumeContinue || !strings.Contains(r.Fresh, "- tasks.search(query: x)") {
				t.Errorf("the orchestrator is told %q", r.Fresh)
			}
			if told := o.told("orchestrator"); !strings.Contains(told, "Found x.") || !strings.Contains(told, "Found z.") {
				t.Errorf("the results are %s", told)
			}
		})
	}
}

// finding O2. S0-068, S0-071, S0-124, S1-025: when the orchestrator has taken all its steps, who is
// at work ends first, and the report has it; a yes goes on with the results.
func TestAtTheLimitOfStepsWhatIsAtWorkEndsBeforeTheUserIsAsked(t *testing.T) {
	texttest.Fixed(t)
	o := newOffice(t)
	o.limits = node.Limits{AgentSteps: 2}
	o.model("main", consult(scripted.Step{}, "orchestrator", "Search"), scripted.Say("That is it."))
	o.model("orchestrator", order(scripted.Step{}, "x", ""), order(scripted.Step{}, "y", `"x"`), collect(), scripted.Say("Orchestrated."))
	o.finders("x")
	y := about("Search y")
	o.models["tasks"].Add(scripted.Wait("y").Call("use_skill", `{"skill":"tasks.search","arguments":{"query":"y"}}`).For(y).For(not(found)).Repeat(), scripted.Say("Found y.").For(y).For(found).Repeat())
	o.open(o.all())
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { // y is at work when the limit is met, and for a while after that
		if err := o.models["tasks"].WaitBlocked(t.Context(), 1); err != nil {
			t.Error(err)
		}
		time.Sleep(200 * time.Millisecond)
		o.models["tasks"].Release("y")
	})
	thread := mesh.NewThreadID()
	s := o.Say(thread, "Search x and y")
	for _, want := range []string{"I have taken the 2 steps that I may take for one message.", "\n- tasks.search(query: x)", "\n- tasks.search(query: y)"} {
		if n := strings.Count(s.Asked(), want); s.State != input || n != 1 && !texttest.Random() {
			t.Fatalf("ended %v, asked %q without one %q", s.State, s.Asked(), want)
		}
	}
	if s = o.Say(thread, "yes"); s.State != completed || s.Text != "That is it." {
		t.Fatalf("ended %v: %q %q", s.State, s.Text, s.Status)
	}
	if told := o.told("orchestrator"); !strings.Contains(told, "Found x.") || !strings.Contains(told, "Found y.") {
		t.Errorf("the results are %s", told)
	}
	same(t, "effects", o.happened(), "tasks.search map[query:x]", "tasks.search map[query:y]")
}

// S0-124: also who talks with the user asks at the limit of its own steps.
func TestTheAgentWithTheUsersStreamAsksAtItsLimitOfSteps(t *testing.T) {
	texttest.Fixed(t)
	o := newOffice(t)
	o.limits = node.Limits{AgentSteps: 1}
	o.model("main", consult(scripted.Step{}, "tasks", "Search x"), consult(scripted.Step{}, "tasks", "Search y"), scripted.Say("That is it."))
	o.finders("x", "y")
	o.open(o.all())
	thread := mesh.NewThreadID()
	s := o.Say(thread, "Search x and y")
	if s.State != input || !strings.Contains(s.Asked(), "\n- tasks.search(query: x)") {
		t.Fatalf("ended %v, asked %q", s.State, s.Asked())
	}
	if s = o.Say(thread, "yes"); s.State != input || !strings.Contains(s.Asked(), "\n- tasks.search(query: y)") {
		t.Fatalf("ended %v, asked %q", s.State, s.Asked())
	}
	if s = o.Say(thread, "yes"); s.State != completed || s.Text != "That is it." {
		t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
	}
}

// pitfalls B2. S1-038: when the time of the orchestrator is over, who is at work is
// canceled, what arrived is delivered, the model concludes without tools, and the user reads
// the conclusion and is asked; what waited is not begun. A yes goes on with a fresh time.
func TestWhenTheTimeOfAnOrchestratorIsOverItConcludesWithWhatArrived(t *testing.T) {
	o := newOffice(t)
	o.dispatch.Budget = 3 * time.Second // in which the quick one is done, also on a busy machine
	o.model("main", consult(scripted.Step{}, "orchestrator", "Search"), scripted.Say("That is it."))
	o.model("orchestrator", order(order(order(scripted.Step{}, "x", ""), "slow", ""), "later", `"slow"`).Call("get_agent_results", `{}`),
		scripted.Say("So far there is x."), order(scripted.Step{}, "more", "").Call("get_agent_results", `{}`), scripted.Say("Orchestrated."))
	o.finders("x", "more")
	o.models["tasks"].Add(scripted.Wait("never").For(about("Search slow")))
	o.open(o.all())
	thread := mesh.NewThreadID()
	s := o.Say(thread, "Search")
	for _, want := range []string{"So far there is x.\n\n", "The 3 seconds for the agents are over.", "\n- tasks.search(query: x)", "\n- Search slow (cancelled)", "\n- Search later (cancelled)"} {
		if n := strings.Count(s.Asked(), want); s.State != input || n != 1 && !texttest.Random() {
			t.Errorf("ended %v, asked %q without one %q", s.State, s.Asked(), want)
		}
	}
	reqs := o.models["orchestrator"].Requests()
	last := reqs[len(reqs)-1]
	if len(last.Tools) != 0 || !last.About.Last {
		t.Errorf("for its conclusion the model has %d tools", len(last.Tools))
	}
	if told := fmt.Sprint(last.Messages); !strings.Contains(told, "Found x.") || !strings.Contains(told, `"status":"cancelled"`) {
		t.Errorf("the model concludes from %s", told)
	}
	if s = o.Say(thread, "yes"); s.State != completed || s.Text != "That is it." {
		t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
	}
	same(t, "effects", o.happened(), "tasks.search map[query:more]", "tasks.search map[query:x]")
}

// The model is not asked for what is left of the tokens or the money of the turn; the user
// is, and a yes makes them fresh. A sub-agent ends with what it has.
func TestWhatIsLeftPaysForTheNextStepOrTheUserIsAsked(t *testing.T) {
	used := mesh.Usage{Prompt: 59_000, Completion: 900, Cost: 0.04}
	for name, limits := range map[string]node.Limits{"tokens": {TurnTokens: 60_000}, "cost": {TurnCost: 0.04}} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			o.limits = limits
			o.model("main", consult(scripted.Step{}, "tasks", "Search x"), scripted.Say("That is it."))
			o.model("tasks", use("tasks.search", "query", "x").Usage(used), scripted.Say("Found x."))
			o.open(o.all())
			thread := mesh.NewThreadID()
			s := o.Say(thread, "Search x")
			if asked := len(o.models["tasks"].Requests()); asked != 1 {
				t.Errorf("the agent's model was asked %d times", asked)
			}
			if s.State != input || !strings.Contains(s.Asked(), "x") {
				t.Fatalf("ended %v, asked %q: %q", s.State, s.Asked(), s.Text)
			}
			if s = o.Say(thread, "yes"); s.State != completed || s.Text != "That is it." {
				t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
			}
		})
	}
}

// finding O2, S0-067: fourteen agents that two dispatchers want in one turn are eight that
// run, and then the user is asked; who only has others work is none of them.
func TestTwoDispatchersShareTheAgentsOfATurn(t *testing.T) {
	texttest.Fixed(t)
	o := newOffice(t)
	o.limits = node.Limits{AgentSteps: 20}
	var consults scripted.Step
	var ids []string
	for i := range 6 {
		ids = append(ids, fmt.Sprint("m", i))
		consults = consult(consults, "tasks", "Search "+ids[i])
	}
	steps := []scripted.Step{}
	for i := range 8 {
		id := fmt.Sprint("o", i)
		ids, steps = append(ids, id), append(steps, order(scripted.Step{}, id, ""))
	}
	o.model("main", consults, consult(scripted.Step{}, "orchestrator", "Search"), scripted.Say("That is it."))
	o.model("orchestrator", append(steps, collect(), scripted.Say("Orchestrated."))...)
	o.finders(ids...)
	o.open(o.all())
	thread := mesh.NewThreadID()
	s := o.Say(thread, "Search all")
	ran, tripped := 0, 0
	for _, e := range o.Events(thread) {
		switch b := e.Body.(type) {
		case mesh.DispatchIssued:
			if b.Child.Agent == "tasks" {
				ran++
			}
		case mesh.LimitTripped:
			tripped++
		}
	}
	if s.State != input || ran != 8 || tripped == 0 {
		t.Errorf("ended %v, %d agents ran, %d limits in the log: %q", s.State, ran, tripped, s.Asked())
	}
	if len(o.happened()) != 8 || strings.Count(s.Asked(), "\n- tasks.search(") != 8 && !texttest.Random() || !strings.Contains(s.Asked(), "\n- Search o2 (") {
		t.Errorf("happened %q, asked %q", o.happened(), s.Asked())
	}
}

// C7.2. S0-045, S0-092: eight dispatches, of which three depend on one that fails, with five
// at work at a time: the others all come to their end, the three are skipped by name, and the
// answer knows of all.
func TestEightDispatchesWithThreeThatDependOnOneThatFails(t *testing.T) {
	texttest.Fixed(t)
	o := newOffice(t)
	batch := order(scripted.Step{}, "wrong", "")
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids {
		batch = order(batch, id, "")
	}
	for _, id := range []string{"e", "f", "g"} {
		batch = order(batch, id, `"wrong"`)
	}
	o.model("main", consult(scripted.Step{}, "orchestrator", "Search"), scripted.Say("That is it."))
	o.model("orchestrator", batch.Call("get_agent_results", `{}`), scripted.Say("Orchestrated."))
	o.finders(ids...)
	o.models["tasks"].Add(scripted.Fail(mesh.Errorf(mesh.Invalid, "test", "no")).For(about("Search wrong")))
	o.open(o.all())
	s := o.Say(mesh.NewThreadID(), "Search")
	if s.State != completed || s.Text != "That is it." {
		t.Fatalf("ended %v: %q %q", s.State, s.Text, s.Status)
	}
	same(t, "effects", o.happened(), "tasks.search map[query:a]", "tasks.search map[query:b]", "tasks.search map[query:c]", "tasks.search map[query:d]")
	told := o.told("orchestrator")
	if n := strings.Count(told, `"status":"skipped"`); n != 3 || !texttest.Random() && strings.Count(told, "Skipped because dependency 'wrong' failed.") < 3 {
		t.Errorf("%d are skipped: %s", n, told)
	}
}
