package modelrun_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/text"
	"agentmesh/mesh/text/texttest"
)

// dispatched has the desk's agent work for another one, which dispatched it with the mission.
func dispatched(d *agenttest.Desk, mission string) {
	parent := mesh.NewExecutionID(agenttest.Thread)
	d.Grant.Parent, d.Last = parent, mission
	asked := agenttest.Dispatch(parent, d.Grant.Execution, d.Grant.Agent)
	asked.Body = mesh.DispatchIssued{Child: asked.Body.(mesh.DispatchIssued).Child, Message: agenttest.Message(mission)}
	d.Node.Log(agenttest.Opened(d.Turn), agenttest.Posted(d.Turn, 1, "a secret"), agenttest.Dispatch(d.Turn, parent, "orchestrator"), asked)
}

// instruct has somebody tell the desk's agent something.
func instruct(d *agenttest.Desk, id, words string) {
	d.Node.Log(&mesh.Event{Execution: d.Grant.Execution, Actor: "user:ann", Body: mesh.InstructionPosted{By: "ann", Text: words, ID: id}})
}

// read are the ids of the instructions that the log says were read.
func read(d *agenttest.Desk) (ids []string) {
	for _, b := range agenttest.Logged[mesh.InstructionPosted](d) {
		if b.Read {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// finding O6, S1-126: what an agent is told while it works, its model reads before its next
// reply, once, and that is in the log; also what comes while it answers.
func TestAModelReadsWhatTheAgentIsTold(t *testing.T) {
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.NewTask), agenttest.Does(face, "", agenttest.SendBob), scripted.Say("Done."), scripted.Say("In blue."))
		dispatched(d, "note it and mail bob")
		d.Result = func(c *skill.Call) (*skill.Result, error) {
			if c.Skill == "tasks.create" {
				instruct(d, "i-1", "write it in red")
				instruct(d, "i-2", "and in bold")
			} else {
				instruct(d, "i-3", "no, in blue")
			}
			return &skill.Result{Content: "did it"}, nil
		}
		h := d.Run(false)
		if h.Err != nil || !strings.HasSuffix(h.Text, "Done.") {
			t.Fatalf("said %q, %v", h.Text, h.Err)
		}
		reqs := d.Model.Requests()
		lines := agenttest.Lines(reqs[1].Messages)
		if want := []string{"user: " + text.Instruction("write it in red"), "user: " + text.Instruction("and in bold")}; !slices.Equal(lines[len(lines)-2:], want) {
			t.Errorf("before its second reply it read %q", lines)
		}
		if got := strings.Join(agenttest.Lines(reqs[2].Messages), "\n"); strings.Count(got, "write it in red") != 1 || !strings.HasSuffix(got, text.Instruction("no, in blue")) {
			t.Errorf("before its third: %q", got)
		}
		if got := read(d); !slices.Equal(got, []string{"i-1", "i-2", "i-3"}) {
			t.Errorf("read are %q", got)
		}
	})
}

// What comes while the model answers is read before the run ends.
func TestNothingThatAnAgentIsToldIsLostAtItsEnd(t *testing.T) {
	texttest.Fixed(t)
	d := agenttest.NewDesk(t, skilltools.FaceDirect, scripted.Say("Done.").Wait("answer"), scripted.Say("In blue."))
	dispatched(d, "note it")
	var told sync.WaitGroup
	told.Go(func() {
		if d.Model.WaitBlocked(t.Context(), 1) == nil {
			instruct(d, "i-1", "in blue")
		}
		d.Model.Release("answer")
	})
	h := d.Run(false)
	told.Wait()
	if h.Err != nil || !strings.HasSuffix(h.Text, "In blue.") || d.LastRead() != text.Instruction("in blue") {
		t.Errorf("said %q, %v, after %q", h.Text, h.Err, d.LastRead())
	}
}

// An agent that goes on in another process knows what it read before, once, where it read
// it, and reads what came meanwhile.
func TestWhatAnAgentWasToldOutlivesItsProcess(t *testing.T) {
	agenttest.EachFace(t, func(t *testing.T, face skilltools.Face) {
		d := agenttest.NewDesk(t, face, agenttest.Does(face, "", agenttest.NewTask), agenttest.Does(face, "", agenttest.SendBob), scripted.Say("Both done."))
		dispatched(d, "note it and mail bob")
		d.Result = func(c *skill.Call) (*skill.Result, error) {
			if c.Skill == "tasks.create" {
				instruct(d, "i-1", "write it in red")
			}
			return &skill.Result{Content: "did it"}, nil
		}
		cut(d, false)
		if got := read(d); !slices.Equal(got, []string{"i-1"}) {
			t.Fatalf("read are %q", got)
		}
		instruct(d, "i-2", "and in bold")
		if h := d.Run(true); h.Err != nil || h.Text != "Both done." {
			t.Fatalf("said %q, %v", h.Text, h.Err)
		}
		got := strings.Join(d.Read(), "\n")
		red, bold := strings.Index(got, "write it in red"), strings.Index(got, "and in bold")
		if strings.Count(got, "write it in red") != 1 || red < strings.Index(got, "did it") || red > bold || !strings.HasSuffix(got, text.Instruction("and in bold")) {
			t.Errorf("it reads %q", got)
		}
		if got := read(d); !slices.Equal(got, []string{"i-1", "i-2"}) {
			t.Errorf("read are %q", got)
		}
	})
}

// finding O6: what an agent was told before it begins, as while it waited for its turn, or
// before it goes on in a new process that has done nothing yet, its first reply knows.
func TestAModelReadsWhatTheAgentWasToldBeforeItsFirstReply(t *testing.T) {
	texttest.Fixed(t)
	for name, before := range map[string]func(*agent.Invocation){
		"it begins":               func(*agent.Invocation) {},
		"it is resumed":           func(inv *agent.Invocation) { inv.Resumed = true },
		"it goes on after a kill": func(inv *agent.Invocation) { inv.Continued = true },
	} {
		t.Run(name, func(t *testing.T) {
			d := agenttest.NewDesk(t, skilltools.FaceDirect, scripted.Say("In red."))
			dispatched(d, "note it")
			instruct(d, "i-1", "write it in red")
			inv := d.Invocation(false)
			before(inv)
			if _, err := agenttest.Outputs(t, inv, modelrun.Options{Model: d.Model}); err != nil {
				t.Fatal(err)
			}
			reqs := d.Model.Requests()
			if len(reqs) != 1 || !strings.HasSuffix(strings.Join(agenttest.Lines(reqs[0].Messages), "\n"), text.Instruction("write it in red")) {
				t.Errorf("of %d calls of the model the last read %q", len(reqs), d.Read())
			}
			if got := read(d); !slices.Equal(got, []string{"i-1"}) {
				t.Errorf("read are %q", got)
			}
		})
	}
}

// Who is told nothing asks for nothing.
func TestAnAgentThatIsToldNothingReadsNoThread(t *testing.T) {
	d := agenttest.NewDesk(t, skilltools.FaceDirect, agenttest.Does(skilltools.FaceDirect, "", agenttest.NewTask), scripted.Say("Done."))
	dispatched(d, "note it")
	if h := d.Run(false); h.Err != nil || h.Text != "Done." || d.Node.Reads != 0 {
		t.Errorf("said %q, %v, and read %d times", h.Text, h.Err, d.Node.Reads)
	}
}
