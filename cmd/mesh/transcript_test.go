package main

import (
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
)

// conversation is a log with each kind of event that a reader of it meets.
func conversation() []*meshv1.Event {
	var log []*meshv1.Event
	add := func(execution, actor string, ev *meshv1.Event) {
		ev.Seq, ev.ExecutionId, ev.Actor = int64(len(log)+1), execution, actor
		ev.Time = timestamppb.New(epoch.Add(time.Duration(ev.Seq) * time.Second))
		log = append(log, ev)
	}
	message := func(text string) *a2apb.Message { return &a2apb.Message{Parts: textParts(text)} }
	piece := func(text string, more bool) *meshv1.Event {
		return &meshv1.Event{Body: &meshv1.Event_ArtifactAppended{ArtifactAppended: &meshv1.ArtifactAppended{
			Artifact: &a2apb.Artifact{Parts: textParts(text)}, Append: more}}}
	}
	issue := func(x *meshv1.Execution) *meshv1.Event {
		return &meshv1.Event{Body: &meshv1.Event_DispatchIssued{DispatchIssued: &meshv1.DispatchIssued{Child: x}}}
	}
	settle := func(child, reason string, state a2apb.TaskState) *meshv1.Event {
		return &meshv1.Event{Body: &meshv1.Event_DispatchSettled{DispatchSettled: &meshv1.DispatchSettled{Child: child, Reason: reason, State: state}}}
	}
	move := func(state a2apb.TaskState, text string) *meshv1.Event {
		return &meshv1.Event{Body: &meshv1.Event_TaskMoved{TaskMoved: &meshv1.TaskMoved{State: state, Message: message(text)}}}
	}
	add("", "node", &meshv1.Event{Body: &meshv1.Event_ThreadClaimed{ThreadClaimed: &meshv1.ThreadClaimed{Epoch: 1, Node: "n1"}}})
	add("t", "user:ann", &meshv1.Event{Body: &meshv1.Event_TaskOpened{TaskOpened: &meshv1.TaskOpened{
		Execution: &meshv1.Execution{Id: "t", Kind: "turn", Agent: "main"}}}})
	add("t", "user:ann", &meshv1.Event{Body: &meshv1.Event_MessagePosted{MessagePosted: &meshv1.MessagePosted{User: "ann", Message: message("Mail bob.")}}})
	add("t", "node", issue(&meshv1.Execution{Id: "m", Parent: "t", Kind: "agent", Agent: "main"}))
	add("m", "agent:main", &meshv1.Event{Body: &meshv1.Event_ModelReplied{ModelReplied: &meshv1.ModelReplied{Text: "hm"}}})
	add("m", "agent:main", piece("On ", false))
	add("m", "agent:main", piece("it.", true))
	add("m", "agent:main", issue(&meshv1.Execution{Id: "s", Parent: "m", Kind: "agent", Agent: "mail", Label: "post", Text: "mail bob"}))
	add("s", "agent:mail", piece("not for the user", false))
	add("s", "agent:mail", &meshv1.Event{Body: &meshv1.Event_SkillCalled{SkillCalled: &meshv1.SkillCalled{Skill: "mail.send", Args: `{"to":"bob"}`}}})
	add("s", "agent:mail", &meshv1.Event{Body: &meshv1.Event_SkillReturned{SkillReturned: &meshv1.SkillReturned{Failed: true, Content: "no such bob"}}})
	add("s", "agent:mail", &meshv1.Event{Body: &meshv1.Event_LimitTripped{LimitTripped: &meshv1.LimitTripped{Limit: "tool calls", Detail: "5 of 5"}}})
	add("m", "agent:main", settle("s", "bob is unknown", a2apb.TaskState_TASK_STATE_FAILED))
	add("m", "agent:main", &meshv1.Event{Body: &meshv1.Event_HandoffStarted{HandoffStarted: &meshv1.HandoffStarted{From: "main", To: "people", Reason: "who is bob"}}})
	add("t", "node", issue(&meshv1.Execution{Id: "p", Parent: "t", Kind: "handoff", Agent: "people"}))
	add("p", "agent:people", piece("Which bob?", false))
	add("t", "node", move(a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, "Which bob?"))
	add("t", "user:ann", &meshv1.Event{Body: &meshv1.Event_CancelRequested{CancelRequested: &meshv1.CancelRequested{By: "ann", Reason: "never mind"}}})
	add("p", "agent:people", &meshv1.Event{Body: &meshv1.Event_HandoffEnded{HandoffEnded: &meshv1.HandoffEnded{Outcome: "cancelled"}}})
	add("t", "node", move(a2apb.TaskState_TASK_STATE_CANCELED, "Canceled."))
	add("x", "agent:new", &meshv1.Event{})
	return log
}

// A thread reads as the conversation that it was (S4-026, S4-030): what the
// user and who had the stream said, and what the others did in a line each.
func TestATranscriptReadsAsTheConversation(t *testing.T) {
	tr := new(transcript)
	var got strings.Builder
	for _, ev := range conversation() {
		got.WriteString(tr.add(ev))
	}
	got.WriteString(tr.end())
	want := `09:00:03  ann › Mail bob.
09:00:06  main › On it.
09:00:08    · main asks post (mail): mail bob
09:00:10    · mail: mail.send {"to":"bob"}
09:00:11    ✗ mail: the skill failed: no such bob
09:00:12    ! limit tool calls: 5 of 5
09:00:13    ✗ post (mail) failed: bob is unknown
09:00:14    → main hands over to people: who is bob
09:00:16  people › Which bob?
09:00:18    ■ ann cancels: never mind
09:00:19    ← handoff cancelled
09:00:20    ■ canceled
`
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// What is no text is shown too, of who has the stream alone.
func TestATranscriptShowsData(t *testing.T) {
	tr, got := new(transcript), ""
	table := &a2apb.Part{Content: &a2apb.Part_Data{Data: structpb.NewNumberValue(7)}}
	for _, ev := range append(conversation()[:4],
		&meshv1.Event{ExecutionId: "m", Body: &meshv1.Event_ArtifactAppended{ArtifactAppended: &meshv1.ArtifactAppended{Artifact: &a2apb.Artifact{Parts: []*a2apb.Part{table}}}}},
		&meshv1.Event{ExecutionId: "s", Body: &meshv1.Event_ArtifactAppended{ArtifactAppended: &meshv1.ArtifactAppended{Artifact: &a2apb.Artifact{Parts: []*a2apb.Part{table}}}}},
	) {
		got += tr.add(ev)
	}
	if !strings.HasSuffix(got, "main › 7") {
		t.Errorf("got %q", got)
	}
}

// What waits for the user's word is told by the agent that has the stream, and
// named again with the answer; what a limit tells agents is not for people.
func TestATranscriptTellsOfQuestionsToPeople(t *testing.T) {
	tr := new(transcript)
	var got strings.Builder
	for i, ev := range []*meshv1.Event{
		{ExecutionId: "t", Body: &meshv1.Event_TaskOpened{TaskOpened: &meshv1.TaskOpened{Execution: &meshv1.Execution{Id: "t", Kind: "turn", Agent: "main"}}}},
		{ExecutionId: "t", Body: &meshv1.Event_DispatchIssued{DispatchIssued: &meshv1.DispatchIssued{Child: &meshv1.Execution{Id: "m", Parent: "t", Agent: "main"}}}},
		{ExecutionId: "m", Actor: "agent:main", Body: &meshv1.Event_ApprovalAsked{ApprovalAsked: &meshv1.ApprovalAsked{Call: "1", Skill: "mail.send", Args: `{"to":"bob"}`}}},
		{ExecutionId: "m", Actor: "agent:main", Body: &meshv1.Event_LimitTripped{LimitTripped: &meshv1.LimitTripped{Limit: "turn.skill_calls", Detail: "The limit is reached (1 of 1)"}}},
		{ExecutionId: "t", Actor: "node", Body: &meshv1.Event_TaskMoved{TaskMoved: &meshv1.TaskMoved{State: asks, Message: &a2apb.Message{Parts: textParts("Send it?")}}}},
		{ExecutionId: "m", Actor: "agent:main", Body: &meshv1.Event_ApprovalSettled{ApprovalSettled: &meshv1.ApprovalSettled{Call: "1", Approved: true, Text: "yes"}}},
	} {
		ev.Time = timestamppb.New(epoch.Add(time.Duration(i+1) * time.Second))
		got.WriteString(tr.add(ev))
	}
	want := `09:00:03    ? main asks before mail.send: {"to":"bob"}
09:00:04    ! limit turn.skill_calls: The limit is reached (1 of 1)
09:00:05  main › Send it?
09:00:06    ! approved mail.send: yes
`
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// Each event is one line with its Seq, also those of kinds to come.
func TestEveryEventHasALine(t *testing.T) {
	var got strings.Builder
	for _, ev := range conversation() {
		line := eventLine(ev)
		if strings.Contains(line, "\n") {
			t.Errorf("event %d has more than one line: %q", ev.GetSeq(), line)
		}
		got.WriteString(line + "\n")
	}
	for _, want := range []string{
		"     1  09:00:01  node                thread claimed      by n1\n",
		"     3  09:00:03  user:ann            message posted      Mail bob.\n",
		"     8  09:00:08  agent:main          dispatch issued     post (mail): mail bob\n",
		"    13  09:00:13  agent:main          dispatch settled    failed: bob is unknown\n",
		"    14  09:00:14  agent:main          handoff started     main → people: who is bob\n",
		"    20  09:00:20  node                task moved          canceled: Canceled.\n",
		"    21  09:00:21  agent:new           event\n",
	} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("no line %q in\n%s", want, got.String())
		}
	}
}

func TestTheExecutionTreeHasEachOnceBelowItsParent(t *testing.T) {
	x := func(id, parent, kind, agent string, state a2apb.TaskState) *meshv1.ExecutionState {
		return &meshv1.ExecutionState{Execution: &meshv1.Execution{Id: id, Parent: parent, Kind: kind, Agent: agent}, State: state}
	}
	root := x("t", "", "turn", "main", completed)
	root.Started, root.Ended = timestamppb.New(epoch), timestamppb.New(epoch.Add(1234*time.Millisecond))
	broken := x("b", "m", "agent", "mail", failed)
	broken.Reason, broken.Usage = "no bob", &meshv1.Usage{Prompt: 10, Completion: 2}
	got := executionTree(&meshv1.Thread{Executions: []*meshv1.ExecutionState{
		root, x("m", "t", "agent", "main", completed), x("a", "m", "agent", "knowledge", completed), broken,
		x("c", "a", "agent", "index", completed), x("h", "t", "handoff", "people", asks),
		x("lost", "unknown", "agent", "stray", canceled),
	}})
	want := `
executions
turn main  ✓ completed  1.23s
├─ main  ✓ completed
│  ├─ knowledge  ✓ completed
│  │  └─ index  ✓ completed
│  └─ mail  ✗ failed (no bob)  10+2 tokens
└─ handoff people  ? input required
stray  ■ canceled
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if got := executionTree(&meshv1.Thread{}); got != "" {
		t.Errorf("an empty thread has the tree %q", got)
	}
}

// finding N1: the transcript says that an agent had lost the conversation, of whoever.
func TestATranscriptSaysThatAContextWasReplaced(t *testing.T) {
	tr := new(transcript)
	issue := func(seq int64, of string, x *meshv1.Execution) string {
		return tr.add(&meshv1.Event{Seq: seq, ExecutionId: of, Time: timestamppb.New(epoch), Body: &meshv1.Event_DispatchIssued{DispatchIssued: &meshv1.DispatchIssued{Child: x}}})
	}
	tr.add(&meshv1.Event{Seq: 1, ExecutionId: "t", Time: timestamppb.New(epoch), Body: &meshv1.Event_TaskOpened{TaskOpened: &meshv1.TaskOpened{
		Execution: &meshv1.Execution{Id: "t", Kind: "turn", Agent: "main"}}}})
	issue(2, "t", &meshv1.Execution{Id: "m", Parent: "t", Kind: "agent", Agent: "main"})
	issue(3, "m", &meshv1.Execution{Id: "s", Parent: "m", Kind: "agent", Agent: "diary"})
	got := tr.add(&meshv1.Event{Seq: 4, ExecutionId: "s", Actor: "agent:main", Time: timestamppb.New(epoch), Body: &meshv1.Event_TaskMoved{TaskMoved: &meshv1.TaskMoved{
		State: a2apb.TaskState_TASK_STATE_WORKING, Reason: "CONTEXT_REPLACED", Message: &a2apb.Message{Parts: textParts("It had lost it.")}}}})
	if !strings.HasSuffix(got, "  · diary: It had lost it.\n") {
		t.Errorf("it says %q", got)
	}
}
