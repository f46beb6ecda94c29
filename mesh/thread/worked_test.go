package thread_test

import (
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// How long an execution worked is counted until it, or one below it, was last heard of, and
// from when it goes on: not while nobody worked, whatever users did then. With a message
// it begins anew. One whose time was over when it was last heard of has no more than it takes
// to end it.
func TestHowLongAnExecutionWorked(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, seq := new(thread.State), mesh.Seq(0)
	at := func(sec int, of mesh.ExecutionID, actor string, b mesh.Body) {
		seq++
		s.Apply(&mesh.Event{Seq: seq, Time: t0.Add(time.Duration(sec) * time.Second), Execution: of, Actor: actor, Body: b})
	}
	moved := func(reason string) mesh.TaskMoved {
		return mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: reason}
	}
	want := func(worked, left time.Duration) {
		t.Helper()
		if x := s.Execution("main"); x.Worked != worked || x.Left() != left {
			t.Errorf("it worked %v and has %v left, want %v and %v", x.Worked, x.Left(), worked, left)
		}
	}
	at(0, "turn", "user:ann", mesh.TaskOpened{Execution: mesh.Execution{ID: "turn", Kind: mesh.KindTurn, User: "ann"}})
	at(10, "turn", "node", mesh.DispatchIssued{Child: mesh.Execution{ID: "main", Parent: "turn", Kind: mesh.KindAgent, Deadline: t0.Add(110 * time.Second)}})
	at(20, "main", "agent:main", mesh.DispatchIssued{Child: mesh.Execution{ID: "sub", Parent: "main", Kind: mesh.KindAgent}})
	at(40, "sub", "agent:sub", mesh.SkillCalled{Call: "1", Skill: "s"})
	at(900, "sub", "user:ann", mesh.InstructionPosted{ID: "i", By: "ann", Text: "hurry"})
	at(1000, "main", "node", moved(mesh.ReasonContinued))
	want(30*time.Second, 70*time.Second)
	at(1005, "main", "agent:main", mesh.ModelReplied{})
	at(2000, "main", "node", moved(mesh.ReasonContinued))
	want(35*time.Second, 65*time.Second)
	at(2010, "main", "node", moved(mesh.ReasonDelivered))
	want(0, 100*time.Second)
	at(2111, "main", "agent:main", mesh.ModelReplied{})
	at(3000, "main", "node", moved(mesh.ReasonContinued))
	want(101*time.Second, time.Second)
}

// finding R7: an agent that went on saying something while its node was away came on, and is
// followed as often as nodes die; what one says again that has its message again is nothing
// new.
func TestOutputOfAnAgentThatWasAtWorkIsProgress(t *testing.T) {
	out := func(more bool) mesh.Body {
		return mesh.ArtifactAppended{Append: more, Artifact: &a2apb.Artifact{ArtifactId: "a"}}
	}
	goesOn := mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonContinued}
	for name, tt := range map[string]struct {
		says []mesh.Body
		want int
	}{
		"it goes on":                    {[]mesh.Body{out(true)}, 0},
		"it goes on, and says more":     {[]mesh.Body{out(true), out(false)}, 0},
		"it says it again":              {[]mesh.Body{out(false), out(true)}, 1},
		"it says nothing":               {nil, 1},
		"it goes on, and then is lost":  {[]mesh.Body{out(true), goesOn, out(false)}, 1},
		"it is lost, and then followed": {[]mesh.Body{out(false), goesOn, out(true)}, 0},
	} {
		s, seq := new(thread.State), mesh.Seq(0)
		at := func(of mesh.ExecutionID, b mesh.Body) {
			seq++
			s.Apply(&mesh.Event{Seq: seq, Execution: of, Actor: "node", Body: b})
		}
		at("turn", mesh.TaskOpened{Execution: mesh.Execution{ID: "turn", Kind: mesh.KindTurn, User: "ann"}})
		at("turn", mesh.DispatchIssued{Child: mesh.Execution{ID: "main", Parent: "turn", Kind: mesh.KindAgent}})
		at("main", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING})
		at("main", out(false))
		at("main", goesOn)
		for _, b := range tt.says {
			at("main", b)
		}
		if got := s.Execution("main").Adoptions; got != tt.want {
			t.Errorf("%s: %d adoptions, want %d", name, got, tt.want)
		}
	}
}
