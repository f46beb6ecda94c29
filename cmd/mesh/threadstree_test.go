package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// A tree that is followed is read anew once in a while and not for each event, the first time at
// once; who does not want it any more does not wait.
func TestAFollowedTreeIsReadOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, p := time.Now(), pace{every: treeEvery}
		for n := range 4 {
			if err := p.wait(t.Context()); err != nil || time.Since(began) != time.Duration(n)*treeEvery {
				t.Errorf("read %d after %v, %v", n, time.Since(began), err)
			}
		}
		time.Sleep(time.Minute)
		began = time.Now()
		gone, stop := context.WithCancel(t.Context())
		stop()
		if err := p.wait(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("after a pause read after %v, %v", time.Since(began), err)
		}
		if err := p.wait(gone); !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
			t.Errorf("who is gone waits %v, %v", time.Since(began), err)
		}
	})
}

// S1-064, S1-076, S1-079, S1-082, S1-105, S1-111: the tree tells who was asked by whom, for what, how
// that ended and why, what it cost alone and in all, each call, and after whom it came; a
// failure below is no failure above.
func TestTheTreeTellsWhoDidWhatForWhom(t *testing.T) {
	at := func(s int) *timestamppb.Timestamp { return timestamppb.New(time.Unix(1_800_000_000+int64(s), 0)) }
	used := func(in, out int64, cost float64) *meshv1.Usage {
		return &meshv1.Usage{Prompt: in, Completion: out, Cost: cost}
	}
	tr := &tree{
		all: []*meshv1.ExecutionInfo{
			{Execution: &meshv1.Execution{Id: "t", Kind: "turn", Agent: "main"}, Status: "running", Started: at(0), TotalUsage: used(130, 13, 0.25), SubAgents: 3,
				TotalSkillCalls: 1, State: a2apb.TaskState_TASK_STATE_WORKING},
			{Execution: &meshv1.Execution{Id: "o", Parent: "t", Kind: "agent", Agent: "orchestrator"}, Depth: 1, Status: "running", Started: at(0),
				Usage: used(100, 10, 0.2), TotalUsage: used(130, 13, 0.25), SubAgents: 2, TotalSkillCalls: 1, ToolCalls: 2, TotalToolCalls: 2, State: a2apb.TaskState_TASK_STATE_WORKING},
			{Execution: &meshv1.Execution{Id: "a", Parent: "o", Kind: "agent", Agent: "worker", Label: "mail", Text: "mail\nbob"}, Depth: 2, Status: "failed", Started: at(1), Ended: at(3),
				Usage: used(30, 3, 0.05), TotalUsage: used(30, 3, 0.05), SkillCalls: 1, TotalSkillCalls: 1, State: a2apb.TaskState_TASK_STATE_FAILED, Detail: "the mailbox\x1b[2J is full"},
			{Execution: &meshv1.Execution{Id: "b", Parent: "o", Kind: "agent", Agent: "worker", Label: "sum", DependsOn: []string{"a"}}, Depth: 2, Status: "skipped", Reason: "DEPENDENCY_FAILED",
				Started: at(3), Ended: at(3), State: a2apb.TaskState_TASK_STATE_REJECTED, Instructions: 1},
			{Execution: &meshv1.Execution{Id: "c", Parent: "o", Kind: "agent", Agent: "worker", Label: "plan"}, Depth: 2, Status: "awaiting", Reason: "INPUT_REQUIRED",
				Started: at(3), Ended: at(3), State: a2apb.TaskState_TASK_STATE_CANCELED},
		},
		calls: map[string][]*meshv1.SkillCall{"a": {{Skill: "mail.send", Arguments: `{"to":"bob"}`, Status: "failed", Content: "the mailbox is full", Duration: durationpb.New(20 * time.Millisecond)}}},
	}
	want := strings.Join([]string{
		`turn main  · running  4s  with all below 130+13 tokens $0.2500  1 skill call below`,
		`└─ orchestrator  · running  4s  100+10 tokens $0.2000  with all below 130+13 tokens $0.2500  1 skill call below  2 tool calls  2 sub-agents  o`,
		`   ├─ mail (worker)  ✗ failed (the mailbox[2J is full)  2s  30+3 tokens $0.0500  1 skill call  "mail bob"  a`,
		`   │  └─ skill ` + mesh.CallSummary("mail.send", `{"to":"bob"}`) + `  ✗ failed  20ms  "the mailbox is full"`,
		`   ├─ sum (worker)  ✗ skipped (DEPENDENCY_FAILED)  0s  1 unread instruction  after mail  b`,
		`   └─ plan (worker)  ? ended with a question  0s  c`, "",
	}, "\n")
	if diff := cmp.Diff(want, tr.text(at(4).AsTime())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !tr.works() {
		t.Error("nobody is at work")
	}
}

// S1-080: a turn in which nobody was dispatched is a tree as well.
func TestATreeWithoutSubAgents(t *testing.T) {
	at := timestamppb.New(time.Unix(1_800_000_000, 0))
	tr := &tree{all: []*meshv1.ExecutionInfo{
		{Execution: &meshv1.Execution{Id: "t0", Kind: "turn", Agent: "main"}, Status: "failed", Reason: "TIMEOUT", Started: at, Ended: at, State: a2apb.TaskState_TASK_STATE_FAILED},
		{Execution: &meshv1.Execution{Id: "t", Kind: "turn", Agent: "main"}, Status: "completed", Started: at, Ended: at, State: a2apb.TaskState_TASK_STATE_COMPLETED},
		{Execution: &meshv1.Execution{Id: "m", Parent: "t", Kind: "agent", Agent: "main"}, Depth: 1, Status: "completed", Started: at, Ended: at, State: a2apb.TaskState_TASK_STATE_COMPLETED},
	}}
	want := "turn main  ✓ completed  0s\n└─ main  ✓ completed  0s  m\n"
	if got := tr.last().text(at.AsTime()); got != want || tr.works() {
		t.Errorf("got %q", got)
	}
	if got := tr.text(at.AsTime()); got != "turn main  ✗ failed (TIMEOUT)  0s\n"+want {
		t.Errorf("all: %q", got)
	}
}
