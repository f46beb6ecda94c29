package mainagent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text/texttest"
)

// specialists' ways to call tasks.search, which wants no approval.
func search(face skilltools.Face, query string) scripted.Step {
	if face == skilltools.FaceCommands {
		return scripted.Say("```cmd\ntasks.search --query " + query + "\n```")
	}
	return use("tasks.search", "query", query)
}

func order(s scripted.Step, id, after string) scripted.Step {
	return s.Call("dispatch_agent", fmt.Sprintf(`{"agent_id":%q,"mission":"Search %s","skills":["tasks.search"],"depends_on":[%s]}`, id, id, after))
}

// S3-042, S3-044, S3-045, S3-114, S0-056, S0-076: in the default mode, too, the user is
// asked at the limit of a turn, however many agents are between, and reads what
// is done and what is open. A yes goes on where it was, also in a mesh that was
// started again; nothing is done twice. Nobody who was refused is shown as done.
func TestAnAgentAtTheLimitOfATurnAsksTheUserAndGoesOn(t *testing.T) {
	for level, consulted := range map[string]bool{"consulted": true, "dispatched": false} {
		for _, face := range []skilltools.Face{skilltools.FaceUseSkill, skilltools.FaceCommands} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s restart=%v", level, face, restart), func(t *testing.T) {
					o := newOffice(t)
					o.limits, o.face = node.Limits{TurnCalls: 1}, face
					if consulted {
						o.model("main", consult(scripted.Step{}, "tasks", "Search"), scripted.Say("All done."))
					} else {
						o.model("main", consult(scripted.Step{}, "orchestrator", "Search"), scripted.Say("All done."))
						o.model("orchestrator", order(scripted.Step{}, "t", ""), scripted.Call("get_agent_results", `{}`), scripted.Say("Orchestrated."))
					}
					o.model("tasks", search(face, "one"), search(face, "two"), search(face, "two"), scripted.Say("Found both."))
					o.open(o.all())
					thread := mesh.NewThreadID()
					first := o.Say(thread, "Search one and two")
					want := "I have used the 1 skill call that I may make for one message.\n\nDone so far:\n- tasks.search(query: one)\n\nStill open:\n- " +
						"tasks.search(query: two)\n\nWould you like me to continue?"
					if diff := texttest.Diff(want, first.Asked()); diff != "" || first.State != input {
						t.Fatalf("ended %v (-want +got):\n%s", first.State, diff)
					}
					for _, end := range o.ends(thread) {
						if !strings.HasSuffix(end, " INPUT_REQUIRED") {
							t.Errorf("at the limit, %s", end)
						}
					}
					if restart {
						o.open(o.all())
					}
					s := o.Say(thread, "sure, go on")
					if s.State != completed || s.Text != "All done." || s.TaskID != first.TaskID {
						t.Fatalf("ended %v: %q %q", s.State, s.Text, s.Status)
					}
					same(t, "effects", o.happened(), "tasks.search map[query:one]", "tasks.search map[query:two]")
					if fresh := o.models["tasks"].Requests()[2].Fresh; o.models["tasks"].Requests()[2].About.Resume != llm.ResumeContinue || !texttest.Has(fresh, "wants you to continue") || !strings.Contains(fresh, "- tasks.search(query: one)") {
						t.Errorf("the agent is told %q", fresh)
					}
					for _, name := range []string{"main", "orchestrator"} {
						if m := o.models[name]; m != nil && len(m.Requests()) > 0 {
							reqs := m.Requests()
							passedOn(t, name, reqs[len(reqs)-1], "> Still open:")
						}
					}
					for name, m := range o.models {
						if m.Left() > 0 {
							t.Errorf("%s was asked less often than it should have been", name)
						}
					}
				})
			}
		}
	}
}

// passedOn checks what the model of an agent is told when the user's answer was one
// to an agent that it dispatched: the question, and that the answer was given to it.
func passedOn(t *testing.T, name string, r *llm.Request, question string) {
	t.Helper()
	if !r.About.Relayed {
		t.Errorf("%s is not told that the answer was for others", name)
	}
	for _, want := range []string{"answers what other agents asked", "do not have anything done again", " asked:\n", question} {
		if n := strings.Count(r.Fresh, want); n != 1 && !texttest.Random() {
			t.Errorf("%s is told %q, want one %q", name, r.Fresh, want)
		}
	}
}

// four has the orchestrator dispatch an agent that uses up the limit of one
// call, then two more at the same time, and one that depends on the first of
// those. Each searches for its id until it has found it.
func (o *office) four() {
	o.limits = node.Limits{TurnCalls: 1}
	o.model("main", consult(scripted.Step{}, "orchestrator", "Search"), scripted.Say("That is it."))
	o.model("orchestrator", order(scripted.Step{}, "z", "").Call("get_agent_results", `{}`),
		order(order(order(scripted.Step{}, "a", ""), "b", ""), "c", `"a"`).Call("get_agent_results", `{}`), scripted.Say("Orchestrated."))
	var steps []scripted.Step
	for _, id := range []string{"z", "a", "b", "c"} {
		mission := about("Search " + id)
		steps = append(steps, use("tasks.search", "query", id).For(mission).For(not(found)).Repeat(), scripted.Say("Found "+id+".").For(mission).For(found).Repeat())
	}
	o.model("tasks", steps...)
}

// found matches requests after a call that had success.
func found(r *llm.Request) bool {
	return slices.ContainsFunc(r.Messages, func(m llm.Message) bool { return m.Role == llm.RoleTool && !m.Failed })
}

func not(match scripted.Match) scripted.Match {
	return func(r *llm.Request) bool { return !match(r) }
}

const fourAtTheLimit = `I have used the 1 skill call that I may make for one message.

Done so far:
- tasks.search(query: z)

Still open:
- tasks.search(query: a)
- tasks.search(query: b)
- Search c (not begun: it waits for others)

Would you like me to continue?`

// S0-076, S0-077: several agents that met the same limit ask one question, with
// a report that names each with what it did and what is open, and what has not
// begun because of them. Each yes gets as far as the limit allows, and nothing is
// done twice.
func TestAgentsThatMeetALimitAskOnce(t *testing.T) {
	o := newOffice(t)
	o.four()
	o.open(o.all())
	thread := mesh.NewThreadID()
	s := o.Say(thread, "Search z, a, b and c")
	if diff := texttest.Diff(fourAtTheLimit, s.Asked()); diff != "" || s.State != input {
		t.Fatalf("ended %v (-want +got):\n%s", s.State, diff)
	}
	for n := 2; n < 4; n++ { // calls that were made
		if s = o.Say(thread, "yes"); s.State != input || !texttest.Random() && strings.Count(s.Asked(), "Would you like") != 1 || len(o.happened()) != n {
			t.Fatalf("ended %v, asked %q, made %q", s.State, s.Asked(), o.happened())
		}
	}
	if s = o.Say(thread, "yes"); s.State != completed || s.Text != "That is it." {
		t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
	}
	same(t, "effects", o.happened(), "tasks.search map[query:a]", "tasks.search map[query:b]", "tasks.search map[query:c]", "tasks.search map[query:z]")
}

// A no ends what is open, and who dispatched it is told what was done and what
// was not; what depends on it does not begin (S0-092).
func TestANoAtALimitEndsWhatIsOpen(t *testing.T) {
	for name, restart := range map[string]bool{"in one process": false, "with a restart": true} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			o.four()
			o.open(o.all())
			thread := mesh.NewThreadID()
			if s := o.Say(thread, "Search z, a, b and c"); !texttest.Is(s.Asked(), fourAtTheLimit) {
				t.Fatalf("ended %v, asked %q", s.State, s.Asked())
			}
			if restart {
				o.open(o.all())
			}
			if s := o.Say(thread, "no, stop"); s.State != completed || s.Text != "That is it." {
				t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
			}
			same(t, "effects", o.happened(), "tasks.search map[query:z]")
			same(t, "executions", o.ends(thread), "main COMPLETED", "orchestrator COMPLETED", "tasks CANCELED", "tasks CANCELED", "tasks COMPLETED", "turn COMPLETED")
			told := o.told("orchestrator")
			for _, want := range []string{
				`"agent_id":"a"`, `"status":"cancelled","result":"Stopped, as the user wishes.\n\nNot done:\n- tasks.search(query: a)"`,
				`"status":"completed","result":"Found z."`, `"status":"skipped"`,
			} {
				if texttest.Random() && strings.Contains(want, "Stopped") {
					want = `\n- tasks.search(query: a)"`
				}
				if !strings.Contains(told, want) {
					t.Errorf("the orchestrator was told\n%s\nwithout %s", told, want)
				}
			}
		})
	}
}

// S3-031: what is neither yes nor no goes to the agents as a new instruction.
func TestAtALimitAnotherAnswerIsANewInstruction(t *testing.T) {
	o := newOffice(t)
	o.limits = node.Limits{TurnCalls: 1}
	o.model("main", consult(scripted.Step{}, "tasks", "Search"), scripted.Say("All done."))
	o.model("tasks", search("", "one"), search("", "two"), search("", "three"), scripted.Say("Found three."))
	o.open(o.all())
	thread := mesh.NewThreadID()
	o.Say(thread, "Search one and two")
	if s := o.Say(thread, "better look for three"); s.State != completed {
		t.Errorf("ended %v: %q", s.State, s.Status)
	}
	if reqs := o.models["main"].Requests(); !texttest.Has(reqs[1].Fresh, "see to that") || !texttest.Has(reqs[1].Fresh, "> Still open:\n> - tasks.search(query: two)") {
		t.Errorf("main is told %q", reqs[1].Fresh)
	}
	reqs := o.models["tasks"].Requests()
	if m := reqs[2].Messages; m[len(m)-1].Text != "better look for three" || strings.Contains(reqs[2].Fresh, "continue") {
		t.Errorf("the agent is told %q and %q", m[len(m)-1].Text, reqs[2].Fresh)
	}
	same(t, "effects", o.happened(), "tasks.search map[query:one]", "tasks.search map[query:three]")
}

// S3-043: the limit of a conversation says so, once, also of two agents that are
// consulted at the same time.
func TestConsultedAgentsReportTheLimitOfAConversationOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		limits node.Limits
		begin  string
		open   [2]string
	}{
		// S0-072: nobody is asked any more, who could call nothing.
		"thread": {node.Limits{ThreadCalls: 1}, "This conversation has used the 1 skill call", [2]string{"\n- Search a (", "\n- Search b ("}},
		"user":   {node.Limits{UserCalls: 1}, "You have used the 1 skill call", [2]string{"\n- tasks.search(query: a)", "\n- tasks.search(query: b)"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			o.limits = tt.limits
			o.model("main", consult(scripted.Step{}, "tasks", "Search z"), consult(consult(scripted.Step{}, "tasks", "Search a"), "tasks", "Search b"))
			var steps []scripted.Step
			for _, id := range []string{"z", "a", "b"} {
				steps = append(steps, use("tasks.search", "query", id).For(about("Search "+id)))
			}
			o.model("tasks", append(steps, scripted.Say("Found z."))...)
			o.open(o.all())
			s := o.Say(mesh.NewThreadID(), "Search z, a and b")
			asked := s.Asked()
			for _, want := range []string{
				tt.begin, "\n- tasks.search(query: z)", tt.open[0], tt.open[1],
				"\n\nThere is room for more at ", `Would you like me to continue then? Answer "yes" when it is time.`,
			} {
				if n := strings.Count(asked, want); n != 1 && !(texttest.Random() && !strings.HasPrefix(want, "\n- ")) {
					t.Errorf("ended %v, asked %q without one %q", s.State, asked, want)
				}
			}
		})
	}
}

// An approval and a limit are asked about together, in one question; a yes is
// for both.
func TestAnApprovalAndALimitAreAskedTogether(t *testing.T) {
	o := newOffice(t)
	o.limits = node.Limits{TurnCalls: 1}
	o.model("main", consult(scripted.Step{}, "orchestrator", "Do both"), scripted.Say("All done."))
	o.model("orchestrator", scripted.Call("dispatch_agent", `{"agent_id":"m","mission":"Mail bob","skills":["mail.send"]}`).
		Call("dispatch_agent", `{"agent_id":"s","mission":"Search","skills":["tasks.search"]}`).Call("get_agent_results", `{}`), scripted.Say("Orchestrated."))
	o.model("mail", use("mail.send", "to", "bob").For(not(found)).Repeat(), scripted.Say("Mailed.").For(found))
	o.model("tasks", search("", "one"), search("", "two").For(not(scripted.Last("found two"))).Repeat(), scripted.Say("Found."))
	o.result = func(call *skill.Call) string {
		if call.Args["query"] == "two" {
			return "found two"
		}
		return "did " + call.Skill
	}
	o.open(o.all())
	thread := mesh.NewThreadID()
	s := o.Say(thread, "Mail bob and search")
	want := "1. May I run mail.send? Does mail.send\n   - to: bob\n\n2. I have used the 1 skill call that I may make for one message.\n\n" +
		"   Done so far:\n   - tasks.search(query: one)\n\n   Still open:\n   - tasks.search(query: two)\n\n   Would you like me to continue?\n\nYour answer counts for all of these."
	if diff := texttest.Diff(want, s.Asked()); diff != "" {
		t.Errorf("ended %v (-want +got):\n%s", s.State, diff)
	}
	for range 5 { // one call for each yes, and a call that met the limit is asked for again
		if s.State == input {
			s = o.Say(thread, "yes")
		}
	}
	if s.State != completed || s.Text != "All done." {
		t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
	}
	same(t, "effects", o.happened(), "mail.send map[to:bob]", "tasks.search map[query:one]", "tasks.search map[query:two]")
}

// S3-044, S3-114: without a model, too, each yes goes on with what is open, and
// nothing is done twice.
func TestWithoutAModelAYesGoesOnAtTheLimit(t *testing.T) {
	for _, face := range []skilltools.Face{skilltools.FaceUseSkill, skilltools.FaceCommands} {
		t.Run(string(face), func(t *testing.T) {
			w := newWorld(t)
			w.face = face
			m := meshtest.Start(t, w.all(), meshtest.Options{Limits: node.Limits{TurnCalls: 1}})
			thread := mesh.NewThreadID()
			s := m.Say(thread, "Create a task to call Ann, create a task to call Bob and create a task to call Carol")
			for _, yes := range []string{"yes", "ok, go on"} {
				if s.State != input || !texttest.Has(s.Asked(), "Would you like me to continue?") {
					t.Fatalf("before %q: ended %v, asked %q", yes, s.State, s.Asked())
				}
				s = m.Say(thread, yes)
			}
			if s.State != completed || strings.Contains(s.Text, "could not") {
				t.Errorf("ended %v, asked %q, said %q", s.State, s.Asked(), s.Text)
			}
			var titles []string
			for _, c := range bodies[mesh.SkillCalled](m.Events(thread)) {
				titles = append(titles, c.Skill+" "+c.Args)
			}
			slices.Sort(titles)
			same(t, "calls", titles, `tasks.create {"title":"Call Ann"}`, `tasks.create {"title":"Call Bob"}`, `tasks.create {"title":"Call Carol"}`)
		})
	}
}

// S3-042, S0-076: without a model, too, the user is asked at the limit, by
// whichever face the agents work, and reads no instruction that is meant for
// models; after a no, what was done and what was not.
func TestWithoutAModelTheUserIsAskedAtTheLimit(t *testing.T) {
	for _, face := range []skilltools.Face{skilltools.FaceUseSkill, skilltools.FaceCommands} {
		t.Run(string(face), func(t *testing.T) {
			w := newWorld(t)
			w.face = face
			m := meshtest.Start(t, w.all(), meshtest.Options{Limits: node.Limits{TurnCalls: 1}})
			thread := mesh.NewThreadID()
			s := m.Say(thread, "Create a task to call Ann, create a task to call Bob and create a task to call Carol")
			asked := s.Asked()
			if s.State != input || strings.Count(asked, "- tasks.create(title: Call ") != 3 || strings.Contains(asked, "say what is done") ||
				!texttest.Has(asked, "Done so far:") || !texttest.Has(asked, "Still open:") || !texttest.Has(asked, "Would you like me to continue?") {
				t.Errorf("ended %v, asked %q", s.State, asked)
			}
			s = m.Say(thread, "no")
			if strings.Count(s.Text, "Created task") != 1 || strings.Count(s.Text, "- tasks.create(title: Call ") != 2 ||
				!texttest.Has(s.Text, "Stopped, as the user wishes.") || strings.Contains(s.Text, "say what is done") {
				t.Errorf("ended %v, said %q", s.State, s.Text)
			}
			if calls := bodies[mesh.SkillCalled](m.Events(thread)); s.State != completed || len(calls) != 1 {
				t.Errorf("ended %v, called %+v", s.State, calls)
			}
		})
	}
}
