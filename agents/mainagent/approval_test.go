package mainagent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

const question = "May I run mail.send? Does mail.send\n- to: bob"

// S3-032: a call that needs the user's word pauses the turn, however many
// agents are between it and the user, who reads what will be done; the answer
// goes down the same way, nothing is dispatched twice, and what the user allowed
// happens once.
func TestAnApprovalGoesUpToTheUserAndTheAnswerDown(t *testing.T) {
	for level, agents := range levels {
		for name, tt := range map[string]struct {
			steps   []scripted.Step // of the mail agent, after it asked
			answers []string
			effects []string
			told    string
		}{
			"yes": {
				[]scripted.Step{scripted.Say("Sent.")}, []string{"yes"}, []string{"mail.send map[to:bob]"}, "did mail.send",
			},
			"no": {
				[]scripted.Step{scripted.Say("Not sent.")}, []string{"no"}, nil, `the user did not allow it and answered "no"`,
			},
			"yes, but otherwise": {
				[]scripted.Step{use("mail.send", "to", "carol"), scripted.Say("Sent to carol.")},
				[]string{"yes, but to carol", "ok"}, []string{"mail.send map[to:carol]"}, "did mail.send",
			},
		} {
			t.Run(level+" levels, "+name, func(t *testing.T) {
				o := newOffice(t)
				o.model("mail", append([]scripted.Step{use("mail.send", "to", "bob")}, tt.steps...)...)
				o.open(agents(o))
				thread := mesh.NewThreadID()
				s := o.Say(thread, "Mail bob")
				task := s.TaskID
				if s.State != input || !texttest.Is(s.Asked(), question) {
					t.Fatalf("ended %v, asked %q", s.State, s.Asked())
				}
				for i, answer := range tt.answers {
					same(t, "effects before the user has answered", o.happened())
					s = o.Say(thread, answer)
					if again := i < len(tt.answers)-1; again && !texttest.Is(s.Asked(), strings.Replace(question, "bob", "carol", 1)) {
						t.Fatalf("asked %q", s.Asked())
					}
				}
				if s.State != completed || s.TaskID != task {
					t.Errorf("ended %v: %q", s.State, s.Status)
				}
				same(t, "effects", o.happened(), tt.effects...)
				for _, name := range []string{"main", "orchestrator"} {
					if m := o.models[name]; m != nil && len(m.Requests()) > 0 {
						reqs := m.Requests()
						passedOn(t, name, reqs[len(reqs)-1], "> May I run mail.send?")
					}
				}
				if told := o.told("mail"); !texttest.Has(told, tt.told) {
					t.Errorf("the model was told %q", told)
				}
				for _, end := range o.ends(thread) {
					if !strings.HasSuffix(end, " COMPLETED") {
						t.Errorf("ended as %q", end)
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

// about matches the requests of a mission.
func about(mission string) scripted.Match {
	return func(r *llm.Request) bool {
		told := r.Messages[0].Text
		return strings.HasPrefix(told, mission) || strings.Contains(told, "\n\n"+mission)
	}
}

const bothQuestions = "1. May I run mail.send? Does mail.send\n   - to: bob\n\n2. May I run tasks.delete? Does tasks.delete\n   - id: t1\n\n" +
	"Your answer counts for all of these."

// several has the orchestrator dispatch two agents that need approval, one that
// does not, and one that depends on the first.
func (o *office) several() {
	dispatch := func(s scripted.Step, id, mission, skill, after string) scripted.Step {
		return s.Call("dispatch_agent", fmt.Sprintf(`{"agent_id":%q,"mission":%q,"skills":[%q],"depends_on":[%s]}`, id, mission, skill, after))
	}
	batch := dispatch(scripted.Step{}, "m", "Mail bob", "mail.send", "")
	batch = dispatch(batch, "d", "Delete t1", "tasks.delete", "")
	batch = dispatch(batch, "s", "Search now", "tasks.search", "")
	batch = dispatch(batch, "l", "Later search", "tasks.search", `"m"`)
	o.model("main", consult(scripted.Step{}, "orchestrator", "Clean up"), scripted.Say("All done."))
	o.model("orchestrator", batch.Call("get_agent_results", `{"agent_ids":["l","m"]}`), scripted.Call("get_agent_results", `{}`), scripted.Say("Orchestrated."))
	o.model("mail", use("mail.send", "to", "bob"), scripted.Say("Mailed."))
	o.model("tasks",
		scripted.Say("I shall. ").Call("use_skill", `{"skill":"tasks.delete","arguments":{"id":"t1"}}`).For(about("Delete")), scripted.Say("Deleted.").For(about("Delete")),
		use("tasks.search", "query", "now").For(about("Search")), scripted.Say("Found.").For(about("Search")),
		use("tasks.search", "query", "later").For(about("Later")), scripted.Say("Found later.").For(about("Later")),
	)
}

// S3-032: several calls of several agents are asked for together; what needs no
// approval is done meanwhile, what depends on it is done after it, and the mesh
// may be stopped in between.
func TestSeveralApprovalsAreAskedForTogether(t *testing.T) {
	for name, restart := range map[string]bool{"in one process": false, "with a restart": true} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			o.several()
			o.open(o.all())
			thread := mesh.NewThreadID()
			s := o.Say(thread, "Clean up")
			if s.State != input || !texttest.Is(s.Asked(), bothQuestions) {
				t.Fatalf("ended %v, asked %q", s.State, s.Asked())
			}
			same(t, "effects before the user has answered", o.happened(), "tasks.search map[query:now]")
			same(t, "executions that wait", o.ends(thread), "mail INPUT_REQUIRED", "main INPUT_REQUIRED", "orchestrator INPUT_REQUIRED",
				"tasks COMPLETED", "tasks INPUT_REQUIRED", "turn INPUT_REQUIRED")
			if restart {
				o.open(o.all())
			}
			if s = o.Say(thread, "yes"); s.State != completed || s.Text != "All done." {
				t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
			}
			same(t, "effects", o.happened(), "mail.send map[to:bob]", "tasks.delete map[id:t1]", "tasks.search map[query:later]", "tasks.search map[query:now]")
			same(t, "executions", o.ends(thread), "mail COMPLETED", "main COMPLETED", "orchestrator COMPLETED",
				"tasks COMPLETED", "tasks COMPLETED", "tasks COMPLETED", "turn COMPLETED")
			told := o.told("orchestrator")
			for _, want := range []string{
				`"agent_id":"m"`, `"status":"completed","result":"Mailed.","tool_calls_used":1`,
				`"status":"completed","result":"Deleted.","tool_calls_used":1`,
				`"status":"completed","result":"Found.","tool_calls_used":1`, `"status":"completed","result":"Found later.","tool_calls_used":1`,
			} {
				if !strings.Contains(told, want) {
					t.Errorf("the orchestrator was told\n%s\nwithout %s", told, want)
				}
			}
		})
	}
}

// Two agents that are consulted at the same time ask together, and go on when
// the user refuses.
func TestConsultedAgentsAskTogether(t *testing.T) {
	o := newOffice(t)
	o.model("main", consult(consult(scripted.Step{}, "mail", "Mail bob"), "tasks", "Delete t1"), scripted.Say("All done."))
	o.model("mail", use("mail.send", "to", "bob"), scripted.Say("Mailed."))
	o.model("tasks", use("tasks.delete", "id", "t1"), scripted.Say("Deleted."))
	o.open(o.all())
	thread := mesh.NewThreadID()
	if s := o.Say(thread, "Clean up"); !texttest.Is(s.Asked(), bothQuestions) {
		t.Fatalf("ended %v, asked %q", s.State, s.Asked())
	}
	// finding C8: the turn's status says which calls it asks about.
	var recorded, asked []string
	for _, e := range o.Events(thread) {
		switch b := e.Body.(type) {
		case mesh.ApprovalAsked:
			recorded = append(recorded, fmt.Sprint(e.Execution, " ", b.Call, " ", b.Text))
		case mesh.TaskMoved:
			questions, _ := mesh.Asks(b.Metadata)
			for _, q := range questions {
				if b.State == input && mesh.Shown(a2a.TextOf(b.Message), b.Metadata, q) && e.Actor == "node" {
					asked = append(asked, fmt.Sprint(q.Execution, " ", q.Call, " ", q.Text))
				}
			}
		}
	}
	slices.Sort(recorded)
	slices.Sort(asked)
	same(t, "asked", asked, recorded...)
	if s := o.Say(thread, "no"); s.State != completed || s.Text != "All done." {
		t.Errorf("ended %v: %q", s.State, s.Status)
	}
	same(t, "effects", o.happened())
	for _, agent := range []string{"mail", "tasks"} {
		if told := o.told(agent); !texttest.Has(told, "the user did not allow it") {
			t.Errorf("%s was told %q", agent, told)
		}
	}
}

// An agent in a process of its own that ended while it waited goes on in the
// next one.
func TestAnAgentThatWasStartedAgainGoesOn(t *testing.T) {
	o := newOffice(t)
	agents := levels["three"](o)
	o.model("mail", use("mail.send", "to", "bob"), scripted.Say("Sent."))
	delete(agents, "mail")
	o.open(agents)
	stop := o.serve("mail")
	thread := mesh.NewThreadID()
	if s := o.Say(thread, "Mail bob"); !texttest.Is(s.Asked(), question) {
		t.Fatalf("ended %v, asked %q, heard %q", s.State, s.Asked(), s.Status)
	}
	stop()
	o.serve("mail")
	if s := o.Say(thread, "yes"); s.State != completed {
		t.Errorf("ended %v: %q", s.State, s.Status)
	}
	same(t, "effects", o.happened(), "mail.send map[to:bob]")
	if told := o.told("mail"); told != "did mail.send" {
		t.Errorf("the model was told %q", told)
	}
}

// A turn that is canceled while it waits takes all that wait with it.
func TestATurnThatWaitsIsCanceled(t *testing.T) {
	o := newOffice(t)
	agents := levels["three"](o)
	o.model("mail", use("mail.send", "to", "bob"))
	o.open(agents)
	thread := mesh.NewThreadID()
	s := o.Say(thread, "Mail bob")
	if !texttest.Is(s.Asked(), question) {
		t.Fatalf("asked %q", s.Asked())
	}
	if _, err := o.client(thread).CancelTask(o.client(thread).ctx(), &a2apb.CancelTaskRequest{Id: s.TaskID}); err != nil {
		t.Fatal(err)
	}
	same(t, "executions", o.ends(thread), "mail CANCELED", "main CANCELED", "orchestrator CANCELED", "turn CANCELED")
	if s := o.Say(thread, "yes"); s.State != completed {
		t.Errorf("the next task ended %v", s.State)
	}
	same(t, "effects of a yes that came too late", o.happened())
}

// A message that is no answer to the question allows nothing: as a new task of
// its own, it leaves the question open; within the task, it goes to the agents.
func TestAnotherMessageIsNoAnswer(t *testing.T) {
	o := newOffice(t)
	o.model("main", consult(scripted.Step{}, "mail", "Mail bob"), scripted.Say("Yes to what?").For(scripted.Last("yes")), scripted.Say("All done."))
	o.model("mail", use("mail.send", "to", "bob"), scripted.Say("Not sent."))
	o.open(o.all())
	thread := mesh.NewThreadID()
	c := o.client(thread)
	first := c.post("", "Mail bob")
	if _, asked, _ := c.rests(0, first); !texttest.Is(asked, question) {
		t.Fatalf("asked %q", asked)
	}
	second := c.post("", "yes")
	if state, _, _ := c.rests(0, second); second == first || state != completed {
		t.Errorf("the new task ended %v", state)
	}
	same(t, "effects of a yes to nothing", o.happened())
	_, _, seq := c.rests(0, first)
	if c.post(first, "What is the weather?") != first {
		t.Error("the message went elsewhere")
	}
	if state, _, _ := c.rests(seq, first); state != completed {
		t.Errorf("the task ended %v", state)
	}
	same(t, "effects", o.happened())
}

// What the user writes before the question came is no answer to it.
func TestAYesToNothingApprovesNothing(t *testing.T) {
	o := newOffice(t)
	o.model("main", consult(consult(scripted.Step{}, "mail", "Mail bob"), "tasks", "Search now"), scripted.Say("All done."))
	o.model("mail", use("mail.send", "to", "bob"), scripted.Say("Mailed."))
	o.model("tasks", scripted.Wait("go").Say("Found."))
	o.open(o.all())
	thread := mesh.NewThreadID()
	c := o.client(thread)
	task := c.post("", "Clean up")
	seq := c.until(0, "mail waits", func(e *meshv1.Event) bool { return e.GetTaskMoved().GetReason() == mesh.ReasonApproval })
	c.post(task, "ok")
	o.models["tasks"].Release("go")
	state, asked, seq := c.rests(seq, task)
	if state != input || !texttest.Is(asked, question) {
		t.Fatalf("ended %v, asked %q", state, asked)
	}
	same(t, "effects", o.happened())
	c.post(task, "ok")
	if state, _, _ := c.rests(seq, task); state != completed {
		t.Errorf("ended %v", state)
	}
	same(t, "effects", o.happened(), "mail.send map[to:bob]")
}
