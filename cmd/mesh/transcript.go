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
	fold "agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

// A transcript turns a thread's log into a conversation to read: what the user
// and the agents that had the stream said, and in a line each what others did.
type transcript struct {
	conversation fold.Transcript
	state        fold.State // before the event that is added
	speaker      string
	midline      bool
}

// decoded is the event; of a kind to come, or without a body, one that says nothing.
func decoded(p *meshv1.Event) *mesh.Event {
	e, err := eventpb.EventFromProto(p)
	if err != nil {
		e = &mesh.Event{Seq: mesh.Seq(p.GetSeq()), Time: p.GetTime().AsTime(), Execution: mesh.ExecutionID(p.GetExecutionId()), Actor: p.GetActor(), Body: mesh.Foreign{}}
	}
	return e
}

// add returns what the next event adds.
func (t *transcript) add(p *meshv1.Event) string {
	e := decoded(p)
	defer t.state.Apply(e)
	line := t.conversation.Apply(e)
	switch b := e.Body.(type) {
	case mesh.MessagePosted:
		return t.say(e, cmp.Or(b.User, "user"), partsText(b.Message.GetParts()), true)
	case mesh.ArtifactAppended:
		if line != nil {
			return t.say(e, speakerName(line.Agent()), partsText(b.Artifact.GetParts()), !b.Append)
		}
	case mesh.TaskMoved:
		return t.moved(e, b, line)
	case mesh.DispatchAccepted:
		if b.Wave > 1 {
			return t.note(e, "· "+withText(worker(b.Child)+" waits for others", clip(b.Child.Text, 120)))
		}
	case mesh.DispatchIssued:
		if !t.speaks(b.Child.ID) {
			return t.note(e, "· "+withText(t.agent(e)+" asks "+worker(b.Child), clip(b.Child.Text, 120)))
		}
	case mesh.DispatchSettled:
		if !t.speaks(b.Child) {
			state, words := outcome(b.State, b.Reason, b.Result)
			return t.note(e, stateMark(state)+" "+withText(worker(t.execution(b.Child).Execution)+" "+stateName(state), clip(words, 120)))
		}
	case mesh.SkillCalled:
		if b.NotMade {
			return t.note(e, "· "+t.agent(e)+": not made: "+clip(b.Skill+" "+b.Args, 120))
		}
		return t.note(e, "· "+t.agent(e)+": "+clip(b.Skill+" "+b.Args, 120))
	case mesh.SkillReturned:
		if b.Failed {
			return t.note(e, "✗ "+withText(t.agent(e)+": the skill failed", clip(b.Content, 120)))
		}
	case mesh.ApprovalAsked:
		return t.note(e, "? "+withText(t.agent(e)+" asks before "+b.Skill, clip(b.Args, 120)))
	case mesh.ApprovalSettled:
		return t.note(e, "! "+withText(t.word(e.Execution, b), clip(b.Text, 120)))
	case mesh.CancelRequested:
		return t.note(e, "■ "+withText(b.By+" cancels", b.Reason))
	case mesh.LimitTripped:
		return t.note(e, "! "+withText("limit "+b.Limit, b.Detail))
	case mesh.HandoffStarted:
		return t.note(e, "→ "+withText(b.From+" hands over to "+b.To, b.Reason))
	case mesh.ThreadShared:
		return t.note(e, shared(b))
	case mesh.HandoffEnded:
		return t.note(e, "← "+withText("handoff "+string(b.Outcome), b.Summary))
	}
	return ""
}

// speaks reports whether the execution has or had the user's stream.
func (t *transcript) speaks(id mesh.ExecutionID) bool { return t.conversation.Party(id).Turn != "" }

// execution is what is known of an execution.
func (t *transcript) execution(id mesh.ExecutionID) *fold.Execution {
	return cmp.Or(t.state.Execution(id), &fold.Execution{})
}

// word is the user's word on a call, with its skill.
func (t *transcript) word(id mesh.ExecutionID, b mesh.ApprovalSettled) string {
	word := "refused"
	if b.Approved {
		word = "approved"
	}
	if asked := t.execution(id).Approval(b.Call); asked != nil {
		word += " " + asked.Skill
	}
	return word
}

// end returns what closes the transcript.
func (t *transcript) end() string { return t.newline() }

// moved shows how a turn ended or what it waits for; what becomes of others
// shows where they were asked.
func (t *transcript) moved(e *mesh.Event, b mesh.TaskMoved, line *fold.Line) string {
	text := partsText(b.Message.GetParts())
	if b.Reason == mesh.ReasonReplaced {
		return t.note(e, "· "+withText(worker(t.execution(e.Execution).Execution), text))
	}
	if t.state.Turn(e.Execution) == nil {
		return ""
	}
	switch b.State {
	case a2apb.TaskState_TASK_STATE_COMPLETED, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED:
		if line == nil { // it was said before
			return ""
		}
		return t.say(e, speakerName(cmp.Or(line.Agent(), t.speaker)), text, true)
	case a2apb.TaskState_TASK_STATE_SUBMITTED, a2apb.TaskState_TASK_STATE_WORKING:
		return ""
	case a2apb.TaskState_TASK_STATE_CANCELED:
		text = why(text)
	}
	return t.note(e, stateMark(b.State)+" "+withText(stateName(b.State), cmp.Or(text, b.Reason)))
}

// agent names who an event is about.
func (t *transcript) agent(e *mesh.Event) string {
	if name, ok := strings.CutPrefix(e.Actor, "agent:"); ok {
		return oneLine(name)
	}
	return speakerName(t.execution(e.Execution).Agent)
}

// say adds text of a speaker; fresh text begins on a line of its own.
func (t *transcript) say(e *mesh.Event, who, text string, fresh bool) string {
	if text == "" {
		return ""
	}
	out := ""
	if fresh || who != t.speaker {
		out = t.newline() + clock(e) + oneLine(who) + " › "
		t.speaker = who
	}
	text = printable(text)
	t.midline = !strings.HasSuffix(text, "\n")
	return out + text
}

func (t *transcript) note(e *mesh.Event, line string) string {
	t.speaker = ""
	return t.newline() + clock(e) + "  " + oneLine(line) + "\n"
}

func (t *transcript) newline() string {
	if !t.midline {
		return ""
	}
	t.midline = false
	return "\n"
}

// worker names an execution's agent, with its label where it has one.
func worker(x mesh.Execution) string {
	if x.Agent == "" { // it is not chosen yet
		return oneLine(x.Label)
	}
	name := speakerName(x.Agent)
	if l := x.Label; l != "" && l != x.Agent {
		name = oneLine(l) + " (" + name + ")"
	}
	return name
}

// clock is the time of day of an event, UTC, as the log has it.
func clock(e *mesh.Event) string { return e.Time.Format("15:04:05") + "  " }

// stamp is a time for people, UTC.
func stamp(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Format("2006-01-02 15:04:05")
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
	b.WriteString(sumLine(th.GetUsage()))
	return b.String()
}

// sumLine says what a conversation cost; "" if no model was asked.
func sumLine(u *meshv1.Usage) string {
	if words := usageWords(u); words != "" {
		return "in all " + words + "\n"
	}
	return ""
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
	name := worker(eventpb.ExecutionFromProto(x.GetExecution()))
	if kind := x.GetExecution().GetKind(); kind != string(mesh.KindAgent) {
		name = strings.TrimSpace(kind + " " + name)
	}
	state, why := outcome(x.GetState(), x.GetReason(), "")
	fields := []string{name, stateMark(state) + " " + stateName(state)}
	if why != "" {
		fields[1] += " (" + clip(why, 80) + ")"
	}
	if x.GetStarted() != nil && x.GetEnded() != nil {
		took := x.GetEnded().AsTime().Sub(x.GetStarted().AsTime())
		fields = append(fields, took.Round(10*time.Millisecond).String())
	}
	if u := x.GetUsage(); tokensOf(u) > 0 {
		fields = append(fields, tokenWords(u))
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

// outcome is how an agent ended, for a person: who asked something has not failed.
func outcome(s mesh.TaskState, reason, result string) (mesh.TaskState, string) {
	if reason == mesh.ReasonAsked {
		return a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, result
	}
	if reason == mesh.ReasonDependency {
		return s, result
	}
	return s, cmp.Or(reason, result)
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
func eventLine(p *meshv1.Event) string {
	e, kind := decoded(p), "event"
	if p.GetBody() != nil {
		kind = strings.ReplaceAll(eventpb.KindOf(p), "_", " ")
	}
	return strings.TrimRight(fmt.Sprintf("%6d  %s%-18s  %-18s  %s", e.Seq, clock(e), oneLine(e.Actor), kind, clip(gist(e.Body), 100)), " ")
}

// gist is the text of an event; "" of kinds that have none.
func gist(b mesh.Body) string {
	switch b := b.(type) {
	case mesh.MessagePosted:
		return partsText(b.Message.GetParts())
	case mesh.ArtifactAppended:
		return partsText(b.Artifact.GetParts())
	case mesh.SkillCalled:
		return b.Skill + " " + b.Args
	case mesh.SkillReturned:
		return b.Content
	case mesh.ModelReplied:
		return b.Text
	case mesh.ToolReturned:
		return withText(strings.TrimPrefix(fold.ServerOf(b.Name)+"."+b.Name, "."), b.Content)
	case mesh.ApprovalAsked:
		return withText(b.Skill+" "+b.Args, b.Text)
	case mesh.ApprovalSettled:
		return withText(strconv.FormatBool(b.Approved), b.Text)
	case mesh.DispatchAccepted:
		return withText(worker(b.Child), b.Child.Text)
	case mesh.DispatchIssued:
		return withText(worker(b.Child), b.Child.Text)
	case mesh.ResultsDelivered:
		return b.Text
	case mesh.DispatchSettled:
		state, words := outcome(b.State, b.Reason, b.Result)
		return withText(stateName(state), words)
	case mesh.CancelRequested:
		return withText(b.By, b.Reason)
	case mesh.LimitTripped:
		return withText(b.Limit, b.Detail)
	case mesh.ThreadClaimed:
		return "by " + b.Node
	case mesh.TaskOpened:
		return b.Execution.Text
	case mesh.TaskMoved:
		return withText(stateName(b.State), cmp.Or(partsText(b.Message.GetParts()), b.Reason))
	case mesh.HandoffStarted:
		return withText(b.From+" → "+b.To, b.Reason)
	case mesh.ThreadShared:
		return shared(b)
	case mesh.HandoffEnded:
		return withText(string(b.Outcome), b.Summary)
	}
	return ""
}
