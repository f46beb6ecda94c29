package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// A transcript turns a thread's log into a conversation to read: what the user
// and the agents that had the stream said, and in a line each what others did.
type transcript struct {
	// work has an entry for each execution that was opened.
	work map[string]*meshv1.Execution
	// leg is the agent that has the stream, and asked the skills of the calls that
	// wait for the user's word, by execution and call.
	leg     string
	asked   map[[2]string]string
	said    strings.Builder
	speaker string
	midline bool
}

func newTranscript() *transcript {
	return &transcript{work: map[string]*meshv1.Execution{}, asked: map[[2]string]string{}}
}

// add returns what the next event adds.
func (t *transcript) add(ev *meshv1.Event) string {
	switch b := ev.GetBody().(type) {
	case *meshv1.Event_TaskOpened:
		t.work[b.TaskOpened.GetExecution().GetId()] = b.TaskOpened.GetExecution()
	case *meshv1.Event_MessagePosted:
		t.said.Reset()
		return t.say(ev, cmp.Or(b.MessagePosted.GetUser(), "user"), partsText(b.MessagePosted.GetMessage().GetParts()), true)
	case *meshv1.Event_ArtifactAppended:
		if t.hasStream(ev.GetExecutionId()) {
			return t.say(ev, t.agent(ev), partsText(b.ArtifactAppended.GetArtifact().GetParts()), !b.ArtifactAppended.GetAppend())
		}
	case *meshv1.Event_TaskMoved:
		return t.moved(ev, b.TaskMoved)
	case *meshv1.Event_DispatchIssued:
		child := b.DispatchIssued.GetChild()
		t.work[child.GetId()] = child
		if !t.hasStream(child.GetId()) {
			return t.note(ev, "· "+withText(t.agent(ev)+" asks "+worker(child), clip(child.GetText(), 120)))
		}
		t.leg = child.GetAgent()
	case *meshv1.Event_DispatchSettled:
		return t.settled(ev, b.DispatchSettled)
	case *meshv1.Event_SkillCalled:
		return t.note(ev, "· "+t.agent(ev)+": "+clip(b.SkillCalled.GetSkill()+" "+b.SkillCalled.GetArgs(), 120))
	case *meshv1.Event_SkillReturned:
		if b.SkillReturned.GetFailed() {
			return t.note(ev, "✗ "+withText(t.agent(ev)+": the skill failed", clip(b.SkillReturned.GetContent(), 120)))
		}
	case *meshv1.Event_ApprovalAsked:
		t.asked[[2]string{ev.GetExecutionId(), b.ApprovalAsked.GetCall()}] = b.ApprovalAsked.GetSkill()
		return t.note(ev, "? "+withText(t.agent(ev)+" asks before "+b.ApprovalAsked.GetSkill(), clip(b.ApprovalAsked.GetArgs(), 120)))
	case *meshv1.Event_ApprovalSettled:
		word := "refused"
		if b.ApprovalSettled.GetApproved() {
			word = "approved"
		}
		if skill := t.asked[[2]string{ev.GetExecutionId(), b.ApprovalSettled.GetCall()}]; skill != "" {
			word += " " + skill
		}
		return t.note(ev, "! "+withText(word, clip(b.ApprovalSettled.GetText(), 120)))
	case *meshv1.Event_CancelRequested:
		return t.note(ev, "■ "+withText(b.CancelRequested.GetBy()+" cancels", b.CancelRequested.GetReason()))
	case *meshv1.Event_LimitTripped:
		return t.note(ev, "! "+withText("limit "+b.LimitTripped.GetLimit(), b.LimitTripped.GetDetail()))
	case *meshv1.Event_HandoffStarted:
		return t.note(ev, "→ "+withText(b.HandoffStarted.GetFrom()+" hands over to "+b.HandoffStarted.GetTo(), b.HandoffStarted.GetReason()))
	case *meshv1.Event_HandoffEnded:
		return t.note(ev, "← "+withText("handoff "+b.HandoffEnded.GetOutcome(), b.HandoffEnded.GetSummary()))
	}
	return ""
}

// end returns what closes the transcript.
func (t *transcript) end() string { return t.newline() }

// moved shows how a turn ended or what it waits for; what becomes of others
// shows where they were asked.
func (t *transcript) moved(ev *meshv1.Event, m *meshv1.TaskMoved) string {
	if t.work[ev.GetExecutionId()].GetKind() != string(mesh.KindTurn) {
		return ""
	}
	text := partsText(m.GetMessage().GetParts())
	switch m.GetState() {
	case a2apb.TaskState_TASK_STATE_COMPLETED, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED:
		if text != "" && !strings.HasSuffix(strings.TrimSpace(t.said.String()), strings.TrimSpace(text)) {
			return t.say(ev, cmp.Or(t.leg, t.speaker, "agent"), text, true)
		}
		return ""
	case a2apb.TaskState_TASK_STATE_SUBMITTED, a2apb.TaskState_TASK_STATE_WORKING:
		return ""
	}
	if m.GetState() == a2apb.TaskState_TASK_STATE_CANCELED {
		text = why(text)
	}
	return t.note(ev, stateMark(m.GetState())+" "+withText(stateName(m.GetState()), cmp.Or(text, m.GetReason())))
}

func (t *transcript) settled(ev *meshv1.Event, d *meshv1.DispatchSettled) string {
	if t.hasStream(d.GetChild()) {
		return ""
	}
	return t.note(ev, stateMark(d.GetState())+" "+
		withText(worker(t.work[d.GetChild()])+" "+stateName(d.GetState()), clip(cmp.Or(d.GetReason(), d.GetResult()), 120)))
}

// hasStream reports whether the execution speaks to the user: those that a
// turn asked do, and those that the log does not introduce may.
func (t *transcript) hasStream(id string) bool {
	x, ok := t.work[id]
	if !ok {
		return true
	}
	return t.work[x.GetParent()].GetKind() == string(mesh.KindTurn)
}

// agent names who an event is about.
func (t *transcript) agent(ev *meshv1.Event) string {
	if name, ok := strings.CutPrefix(ev.GetActor(), "agent:"); ok {
		return oneLine(name)
	}
	return speakerName(t.work[ev.GetExecutionId()].GetAgent())
}

// say adds text of a speaker; fresh text begins on a line of its own.
func (t *transcript) say(ev *meshv1.Event, who, text string, fresh bool) string {
	if text == "" {
		return ""
	}
	out := ""
	if fresh || who != t.speaker {
		out = t.newline() + clock(ev) + oneLine(who) + " › "
		t.speaker = who
	}
	t.said.WriteString(text)
	text = printable(text)
	t.midline = !strings.HasSuffix(text, "\n")
	return out + text
}

func (t *transcript) note(ev *meshv1.Event, line string) string {
	t.speaker = ""
	return t.newline() + clock(ev) + "  " + oneLine(line) + "\n"
}

func (t *transcript) newline() string {
	if !t.midline {
		return ""
	}
	t.midline = false
	return "\n"
}

// worker names an execution's agent, with its label where it has one.
func worker(x *meshv1.Execution) string {
	name := speakerName(x.GetAgent())
	if l := x.GetLabel(); l != "" && l != x.GetAgent() {
		name = oneLine(l) + " (" + name + ")"
	}
	return name
}

// clock is the time of day of an event, UTC, as the log has it.
func clock(ev *meshv1.Event) string { return ev.GetTime().AsTime().Format("15:04:05") + "  " }

// stamp is a time for people, UTC.
func stamp(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Format("2006-01-02 15:04:05")
}

// threadHead says in a line what a thread is.
func threadHead(th *meshv1.Thread) string {
	return fmt.Sprintf("thread %s, %d events, with %s, begun %s UTC\n",
		th.GetThreadId(), th.GetSeq(), speakerName(th.GetActiveAgent()), stamp(th.GetCreated()))
}

// threadTable returns threads as a table, one line each.
func threadTable(list []*meshv1.Thread) string {
	if len(list) == 0 {
		return "no threads\n"
	}
	rows := [][]string{{"THREAD", "UPDATED (UTC)", "EVENTS", "WITH", "TITLE"}}
	for _, th := range list {
		rows = append(rows, []string{th.GetThreadId(), stamp(th.GetUpdated()), fmt.Sprint(th.GetSeq()),
			speakerName(th.GetActiveAgent()), clip(th.GetTitle(), 60)})
	}
	return table(rows)
}

// executionTree returns the thread's executions, each below the one that
// asked for it.
func executionTree(th *meshv1.Thread) string {
	below := map[string][]*meshv1.ExecutionState{}
	known := map[string]bool{}
	for _, x := range th.GetExecutions() {
		known[x.GetExecution().GetId()] = true
	}
	for _, x := range th.GetExecutions() {
		parent := x.GetExecution().GetParent()
		if !known[parent] {
			parent = ""
		}
		below[parent] = append(below[parent], x)
	}
	var b strings.Builder
	if len(below[""]) > 0 {
		b.WriteString("\nexecutions\n")
	}
	for _, x := range below[""] {
		b.WriteString(executionLine(x) + "\n")
		branches(&b, below, x.GetExecution().GetId(), "")
	}
	return b.String()
}

// branches writes the executions below one. Nothing is below itself: a node
// refuses such an execution, and each is listed once.
func branches(b *strings.Builder, below map[string][]*meshv1.ExecutionState, id, indent string) {
	list := below[id]
	delete(below, id)
	for i, x := range list {
		stem, next := "├─ ", "│  "
		if i == len(list)-1 {
			stem, next = "└─ ", "   "
		}
		b.WriteString(indent + stem + executionLine(x) + "\n")
		branches(b, below, x.GetExecution().GetId(), indent+next)
	}
}

// executionLine says what an execution was, how it went and what it cost.
func executionLine(x *meshv1.ExecutionState) string {
	name := worker(x.GetExecution())
	if kind := x.GetExecution().GetKind(); kind != string(mesh.KindAgent) {
		name = strings.TrimSpace(kind + " " + name)
	}
	fields := []string{name, stateMark(x.GetState()) + " " + stateName(x.GetState())}
	if x.GetReason() != "" {
		fields[1] += " (" + clip(x.GetReason(), 80) + ")"
	}
	if x.GetStarted() != nil && x.GetEnded() != nil {
		took := x.GetEnded().AsTime().Sub(x.GetStarted().AsTime())
		fields = append(fields, took.Round(10*time.Millisecond).String())
	}
	if u := x.GetUsage(); u.GetPrompt()+u.GetCompletion() > 0 {
		fields = append(fields, fmt.Sprintf("%d+%d tokens", u.GetPrompt(), u.GetCompletion()))
	}
	if text := x.GetExecution().GetText(); text != "" {
		fields = append(fields, fmt.Sprintf("%q", clip(text, 60)))
	}
	if len(x.GetUnsettled()) > 0 {
		fields = append(fields, unsettled(x))
	}
	return strings.Join(fields, "  ")
}

// unsettled says which skills were called without the log having what came of
// it: they are at work or, when the execution has ended, it is not known whether
// they had their effect.
func unsettled(x *meshv1.ExecutionState) string {
	names := slices.Compact(slices.Sorted(maps.Values(x.GetUnsettled())))
	word := "at work: "
	if mesh.Terminal(x.GetState()) {
		word = "outcome unknown: "
	}
	return word + clip(strings.Join(names, ", "), 120)
}

// stateName is a state in the words of a person.
func stateName(s mesh.TaskState) string {
	name := strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATE_"))
	return strings.ReplaceAll(name, "_", " ")
}

// stateMark is a state in one character.
func stateMark(s mesh.TaskState) string {
	switch s {
	case a2apb.TaskState_TASK_STATE_COMPLETED:
		return "✓"
	case a2apb.TaskState_TASK_STATE_FAILED, a2apb.TaskState_TASK_STATE_REJECTED:
		return "✗"
	case a2apb.TaskState_TASK_STATE_CANCELED:
		return "■"
	case a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_AUTH_REQUIRED:
		return "?"
	}
	return "·"
}

// eventLine says in one line what an event is.
func eventLine(ev *meshv1.Event) string {
	kind, text := "event", ""
	if f := ev.ProtoReflect().WhichOneof(ev.ProtoReflect().Descriptor().Oneofs().ByName("body")); f != nil {
		kind = strings.ReplaceAll(string(f.Name()), "_", " ")
	}
	switch b := ev.GetBody().(type) {
	case *meshv1.Event_MessagePosted:
		text = partsText(b.MessagePosted.GetMessage().GetParts())
	case *meshv1.Event_ArtifactAppended:
		text = partsText(b.ArtifactAppended.GetArtifact().GetParts())
	case *meshv1.Event_SkillCalled:
		text = b.SkillCalled.GetSkill() + " " + b.SkillCalled.GetArgs()
	case *meshv1.Event_SkillReturned:
		text = b.SkillReturned.GetContent()
	case *meshv1.Event_ModelReplied:
		text = b.ModelReplied.GetText()
	case *meshv1.Event_ToolReturned:
		text = withText(b.ToolReturned.GetName(), b.ToolReturned.GetContent())
	case *meshv1.Event_ApprovalAsked:
		text = withText(b.ApprovalAsked.GetSkill()+" "+b.ApprovalAsked.GetArgs(), b.ApprovalAsked.GetText())
	case *meshv1.Event_ApprovalSettled:
		text = withText(strconv.FormatBool(b.ApprovalSettled.GetApproved()), b.ApprovalSettled.GetText())
	case *meshv1.Event_DispatchIssued:
		text = withText(worker(b.DispatchIssued.GetChild()), b.DispatchIssued.GetChild().GetText())
	case *meshv1.Event_DispatchSettled:
		text = withText(stateName(b.DispatchSettled.GetState()), cmp.Or(b.DispatchSettled.GetReason(), b.DispatchSettled.GetResult()))
	case *meshv1.Event_CancelRequested:
		text = withText(b.CancelRequested.GetBy(), b.CancelRequested.GetReason())
	case *meshv1.Event_LimitTripped:
		text = withText(b.LimitTripped.GetLimit(), b.LimitTripped.GetDetail())
	case *meshv1.Event_ThreadClaimed:
		text = "by " + b.ThreadClaimed.GetNode()
	case *meshv1.Event_TaskOpened:
		text = b.TaskOpened.GetExecution().GetText()
	case *meshv1.Event_TaskMoved:
		text = withText(stateName(b.TaskMoved.GetState()), cmp.Or(partsText(b.TaskMoved.GetMessage().GetParts()), b.TaskMoved.GetReason()))
	case *meshv1.Event_HandoffStarted:
		text = withText(b.HandoffStarted.GetFrom()+" → "+b.HandoffStarted.GetTo(), b.HandoffStarted.GetReason())
	case *meshv1.Event_HandoffEnded:
		text = withText(b.HandoffEnded.GetOutcome(), b.HandoffEnded.GetSummary())
	}
	return strings.TrimRight(fmt.Sprintf("%6d  %s%-18s  %-18s  %s", ev.GetSeq(), clock(ev), oneLine(ev.GetActor()), kind, clip(text, 100)), " ")
}
