package thread_test

import (
	"fmt"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
)

// A circle is a thread in which agents of others are asked, and what its events come to.
type circle struct {
	*office
	log []*mesh.Event
}

func newCircle() *circle {
	c := &circle{office: newOffice()}
	for _, b := range []struct {
		of   mesh.ExecutionID
		body mesh.Body
	}{
		{"t", mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn, Agent: "main", User: "ann"}}},
		{"t", mesh.DispatchIssued{Child: mesh.Execution{ID: "a", Parent: "t", Kind: mesh.KindAgent, Agent: "main"}}},
	} {
		c.log = append(c.log, &mesh.Event{Seq: mesh.Seq(len(c.log) + 1), Time: midnight, Execution: b.of, Body: b.body})
	}
	return c
}

func (c *circle) add(of mesh.ExecutionID, b mesh.Body) {
	c.log = append(c.log, c.tell(midnight, of, b))
}

// ask dispatches the agent "x", and returns the context in which it is called.
func (c *circle) ask(id mesh.ExecutionID, words string) string {
	c.add("a", mesh.DispatchIssued{Child: mesh.Execution{ID: id, Parent: "a", Kind: mesh.KindAgent, Agent: "x"}, Message: mesh.Say(words)})
	return c.Execution(id).RemoteContext
}

func (c *circle) answer(id mesh.ExecutionID, context string) {
	c.add(id, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, RemoteContext: context})
}

func (c *circle) end(id mesh.ExecutionID) {
	c.add("a", mesh.DispatchSettled{Child: id, State: a2apb.TaskState_TASK_STATE_COMPLETED})
}

// finding N1: an agent is called in the context that it last answered in, which is one's
// alone as long as that is at work.
func TestAnAgentsContextIsRemembered(t *testing.T) {
	c := newCircle()
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: in %q, want %q", what, got, want)
		}
	}
	want("first", c.ask("1", ""), "")
	c.answer("1", "A")
	want("beside it", c.ask("2", ""), "")
	c.answer("2", "own")
	c.end("1")
	c.end("2")
	want("after both", c.ask("3", ""), "A")
	c.add("3", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED})
	want("while it waits", c.ask("4", ""), "")
	c.answer("3", "B") // its choice
	c.end("3")
	want("after another choice", c.ask("5", ""), "B")
	c.answer("4", "late")
	c.add("5", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonReplaced})
	want("one that was refused", c.Execution("5").RemoteContext, "")
	c.end("5")
	want("as long as there is no other", c.ask("6", ""), "B")
	c.add("6", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonReplaced})
	c.answer("6", "C")
	c.end("6")
	want("after it was replaced", c.ask("7", ""), "C")
	c.answer("7", strings.Repeat("c", 1<<10+1))
	c.end("7")
	want("one that is too long", c.ask("8", ""), "")
	if again := thread.Fold(c.log).Execution("5"); !again.Remembers || thread.Fold(c.log).Execution("2").Remembers {
		t.Error("another fold of the log says otherwise")
	}
}

// A thread remembers the contexts of so many agents.
func TestContextsAreBounded(t *testing.T) {
	c := newCircle()
	remembered := 0
	for i := range 1000 {
		id := mesh.ExecutionID(fmt.Sprint("x", i))
		c.add("a", mesh.DispatchIssued{Child: mesh.Execution{ID: id, Parent: "a", Kind: mesh.KindAgent, Agent: string(id)}})
		if c.Execution(id).Remembers {
			remembered++
		}
	}
	if remembered != 255 { // and main
		t.Errorf("%d are remembered", remembered)
	}
}

// Whatever a log has, no two executions of an agent are at work in one context.
func TestNoTwoAreAtWorkInOneContext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := new(thread.State)
		for _, e := range aLog(t) {
			s.Apply(e)
			at := map[string]mesh.ExecutionID{}
			for _, x := range s.Executions() {
				if !x.Remembers || mesh.Terminal(x.State) {
					continue
				}
				if at[x.Agent] != "" {
					t.Fatalf("%s and %s of %s at %d", at[x.Agent], x.ID, x.Agent, e.Seq)
				}
				at[x.Agent] = x.ID
			}
		}
	})
}

// finding N1: an agent that has lost its context is told what it was told and said in it,
// and nothing of others or of what went on beside.
func TestARecollectionIsTheAgentsOwn(t *testing.T) {
	texttest.Fixed(t)
	c := newCircle()
	said := func(id mesh.ExecutionID, words string, more bool) {
		c.add(id, mesh.ArtifactAppended{Artifact: artifact("p", words), Append: more})
	}
	c.add("t", posted("ann", "for main"))
	said("a", "of main", false)
	c.ask("1", "first")
	c.ask("2", "beside it")
	said("2", "secret", false)
	said("1", "one, ", false)
	said("1", "two", true)
	said("1", "three", false)
	c.add("1", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Message: mesh.Say("at it")})
	c.add("1", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, Message: mesh.Say("Which?")})
	c.add("t", posted("ann", "the red one"))
	c.add("t", posted("ann", "please"))
	c.add("1", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonDelivered})
	c.add("a", mesh.DispatchSettled{Child: "1", State: a2apb.TaskState_TASK_STATE_COMPLETED, Result: "only words"})
	c.ask("3", "fails")
	c.add("3", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonUnavailable, Message: mesh.Say("of the node")})
	c.add("t", mesh.DispatchIssued{Child: mesh.Execution{ID: "4", Parent: "t", Kind: mesh.KindHandoff, Agent: "x"}, Message: takeOver("take over", "a quarrel")})
	c.add("t", mesh.DispatchSettled{Child: "4", State: a2apb.TaskState_TASK_STATE_COMPLETED})
	c.add("t", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_COMPLETED, Message: mesh.Say("settled")})
	c.ask("5", "now")
	r := thread.NewRecollection("x", "5")
	for _, e := range c.log {
		r.Apply(e)
	}
	const want = "\n\nYou were told:\n> first\n\nYou said:\n> one, two\n> three\n> Which?\n\nYou were told:\n> the red one\n> please\n\nYou said:\n> only words" +
		"\n\nYou were told:\n> fails\n\nYou were told:\n> Context: a quarrel\n> take over\n\nYou said:\n> settled\n\n"
	if got := r.Text(); !strings.Contains(got, want) {
		t.Errorf("it is told %s\nwant %s", got, want)
	}
	for _, other := range []string{"main", "secret", "beside", "at it", "of the node", "now\n"} {
		if strings.Contains(r.Text(), "> "+other) || strings.Contains(r.Text(), "of "+other) {
			t.Errorf("it is told %q", other)
		}
	}
	if got := thread.NewRecollection("x", "5").Text(); got != "" {
		t.Errorf("of nothing it is told %q", got)
	}
}

func takeOver(words, summary string) *a2apb.Message {
	m := mesh.Say(words)
	about, _ := structpb.NewStruct(map[string]any{mesh.ExtensionURI: map[string]any{"handoff": map[string]any{"context_summary": summary}}})
	m.Metadata = about
	return m
}

// A recollection has the newest of what was said, and says that there was more.
func TestARecollectionHasTheNewest(t *testing.T) {
	texttest.Fixed(t)
	c := newCircle()
	for i := range 40 {
		id := mesh.ExecutionID(fmt.Sprint("x", i))
		c.ask(id, fmt.Sprintf("task %d.", i))
		for range 4 {
			c.add(id, mesh.ArtifactAppended{Artifact: artifact("p", strings.Repeat("é", 250)), Append: true})
		}
		c.end(id)
	}
	r := thread.NewRecollection("x", "")
	for _, e := range c.log {
		r.Apply(e)
	}
	switch got := r.Text(); {
	case len(got) < 30<<10 || len(got) > 36<<10:
		t.Errorf("it has %d bytes", len(got))
	case !strings.Contains(got, "task 39.") || strings.Contains(got, "task 3."):
		t.Error("it does not have the newest")
	case !strings.Contains(got, "left out") || strings.ToValidUTF8(got, "") != got:
		t.Error("it does not say that there was more, or is no text")
	}
}
