package thread

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"agentmesh/mesh"
)

// A DeedKind says what kind of thing a deed is.
type DeedKind string

// The kinds.
const (
	DeedMessage  DeedKind = "message"  // a user's message, or what an agent at work was told
	DeedOutput   DeedKind = "output"   // what an agent gave out
	DeedTask     DeedKind = "task"     // a task was opened, moved or asked to end
	DeedDispatch DeedKind = "dispatch" // an agent is to be asked, was asked, or is done
	DeedCall     DeedKind = "call"     // of a skill or tool: announced, allowed or returned
	DeedModel    DeedKind = "model"    // a model replied
	DeedTransfer DeedKind = "transfer" // the user's stream went to another agent, or came back
	DeedRefusal  DeedKind = "refusal"  // by an agent, a limit, a policy or the user
	DeedAct      DeedKind = "act"      // who may see the thread
	DeedInternal DeedKind = "internal" // of the mesh's own work
)

// A Deed is an event as those are told of it who look into what happened: who did what for
// whom, and what was said.
type Deed struct {
	Kind DeedKind
	User string // for whom
	// Chain is who acts for whom: "user:NAME", and "agent:NAME" for each agent down to the one
	// at work.
	Chain       []string
	Execution   mesh.ExecutionID
	Parent      mesh.ExecutionID
	Agent       string // of the execution; "" for turns
	Traceparent string // of the execution, or of one above it
	Subject     string // what it is about: an agent, skill, tool, model or limit
	Call        string // the id of a call or, of a dispatch, the execution that is asked
	Outcome     string // in a word; "" where it is still to come
	Reason      string
	Said        []string // texts, each by itself
}

// Outcomes that are no states of tasks.
const (
	doneOutcome     = "completed"
	failedOutcome   = "failed"
	approvedOutcome = "approved"
	refusedOutcome  = "refused"
	stoppedOutcome  = "stopped"
)

// KindOfDeed is the kind of the event's deed.
func KindOfDeed(e *mesh.Event) DeedKind {
	switch b := e.Body.(type) {
	case mesh.MessagePosted:
		return DeedMessage
	case mesh.ArtifactAppended:
		return DeedOutput
	case mesh.TaskMoved:
		return unless(rejected(b.State, b.Reason), DeedTask)
	case mesh.TaskOpened, mesh.CancelRequested:
		return DeedTask
	case mesh.DispatchSettled:
		return unless(rejected(b.State, b.Reason), DeedDispatch)
	case mesh.DispatchAccepted, mesh.DispatchIssued:
		return DeedDispatch
	case mesh.ToolReturned:
		return unless(b.Cause == mesh.CauseLimit || b.Cause == mesh.CauseRefused || b.Cause == mesh.CauseDenied, DeedCall)
	case mesh.ApprovalSettled:
		return unless(!b.Approved, DeedCall)
	case mesh.SkillCalled, mesh.SkillReturned, mesh.ApprovalAsked:
		return DeedCall
	case mesh.ModelReplied:
		return DeedModel
	case mesh.HandoffStarted, mesh.HandoffEnded:
		return DeedTransfer
	case mesh.LimitTripped:
		return DeedRefusal
	case mesh.ThreadShared:
		return DeedAct
	case mesh.InstructionPosted:
		if !b.Read {
			return DeedMessage
		}
	}
	return DeedInternal
}

// unless is the kind, unless it was refused.
func unless(refused bool, kind DeedKind) DeedKind {
	if refused {
		return DeedRefusal
	}
	return kind
}

// rejected reports whether somebody did not take the work, or it was not allowed.
func rejected(s mesh.TaskState, reason string) bool {
	return s == a2apb.TaskState_TASK_STATE_REJECTED || reason == mesh.ReasonPolicy || reason == mesh.ReasonPermission
}

// Deed returns that of an event which the state has.
func (s *State) Deed(e *mesh.Event) Deed {
	d := s.Doer(e.Execution)
	if by, ok := strings.CutPrefix(e.Actor, "user:"); ok && d.User == "" { // it is about the thread
		d.User, d.Chain = by, []string{e.Actor}
	}
	d.Kind = KindOfDeed(e)
	if !d.conversation(e) && !s.control(&d, e) {
		s.work(&d, e)
	}
	return d
}

// Doer is a deed of the execution of which nothing else is known.
func (s *State) Doer(id mesh.ExecutionID) Deed {
	d := Deed{Execution: id}
	x := s.Execution(id)
	if x == nil {
		return d
	}
	d.User, d.Parent, d.Chain = x.User, x.Parent, s.chain(x)
	if x.Kind != mesh.KindTurn {
		d.Agent = x.Agent
	}
	for at := range s.Up(id) {
		if d.Traceparent = at.Traceparent; d.Traceparent != "" {
			break
		}
	}
	return d
}

// chain is who acts for whom, from the user down to the execution. An agent that was given
// the user's stream by another one in the same turn acts for that.
func (s *State) chain(x *Execution) []string {
	var up []string
	for at := range s.Up(x.ID) {
		if at.Kind == mesh.KindTurn {
			up = append(up, "user:"+at.User)
			break
		}
		up = append(up, "agent:"+at.Agent)
		if at.Kind == mesh.KindHandoff {
			up = append(up, s.givers(at)...)
		}
	}
	slices.Reverse(up)
	return up
}

// givers are the agents of the turn that gave the stream to the execution, the last one
// first, up to the one with which the turn began or to which it had come back.
func (s *State) givers(x *Execution) (up []string) {
	turn := s.Turn(x.Parent)
	if turn == nil {
		return nil
	}
	i := slices.IndexFunc(turn.Legs, func(l Leg) bool { return l.Execution == x.ID })
	for i--; i >= 0; i-- {
		from := s.Execution(turn.Legs[i].Execution)
		if from == nil || from.Agent == x.Agent {
			break
		}
		if name := "agent:" + from.Agent; !slices.Contains(up, name) {
			up = append(up, name)
		}
		if from.Kind != mesh.KindHandoff {
			break
		}
	}
	return up
}

// conversation fills in what events say that are said to the user or by them, and reports
// whether it is one.
func (d *Deed) conversation(e *mesh.Event) bool {
	switch b := e.Body.(type) {
	case mesh.MessagePosted:
		d.User = cmp.Or(b.User, d.User)
		d.Chain = []string{"user:" + d.User}
		d.parts(b.Message.GetParts())
	case mesh.InstructionPosted:
		d.Subject, d.Call = d.Agent, b.ID
		d.say(b.Text)
	case mesh.ArtifactAppended:
		d.Subject = b.Artifact.GetName()
		d.parts(b.Artifact.GetParts())
	case mesh.TaskOpened:
		d.User, d.Chain = b.Execution.User, []string{"user:" + b.Execution.User}
		d.Execution, d.Subject = b.Execution.ID, b.Execution.Agent
		d.say(b.Execution.Text)
	case mesh.TaskMoved:
		d.Outcome, d.Reason = stateWord(b.State), b.Reason
		d.parts(b.Message.GetParts())
	case mesh.CancelRequested:
		d.Reason = b.Reason
	case mesh.LimitTripped:
		d.Subject, d.Outcome, d.Reason = b.Limit, stoppedOutcome, fmt.Sprintf("%d of %d used", b.Used, b.Most)
		d.say(b.Detail)
	default:
		return false
	}
	return true
}

// control is conversation for who has the stream, who sees the thread, and what the mesh
// itself keeps.
func (s *State) control(d *Deed, e *mesh.Event) bool {
	switch b := e.Body.(type) {
	case mesh.HandoffStarted:
		d.Subject, d.Reason = b.To, b.Reason
		if d.Agent == "" { // it is an event of the turn
			d.Agent, d.Chain = b.From, append(d.Chain, "agent:"+b.From)
		}
		d.say(b.Summary)
	case mesh.HandoffEnded:
		d.Outcome, d.Reason = string(b.Outcome), b.By
		if h := s.Handoff; h != nil && h.Seq == b.Started {
			d.Subject = h.To
		}
		d.say(b.Summary)
		for _, a := range b.Artifacts {
			d.say("artifact " + cmp.Or(a.Name, a.ID) + " of task " + string(a.Task))
		}
	case mesh.ThreadShared:
		said := "participants: " + strings.Join(b.Participants, ", ")
		if b.Readable {
			said += "; readable by the tenant"
		}
		if b.Owner != "" {
			said += "; owner: " + b.Owner
		}
		d.say(said)
	case mesh.ThreadClaimed:
		d.Subject = b.Node
	case mesh.StateNoted:
		d.Subject = b.Agent
		d.say(string(b.Data))
	default:
		return false
	}
	return true
}

// work fills in what events of dispatches, calls and models say.
func (s *State) work(d *Deed, e *mesh.Event) {
	switch b := e.Body.(type) {
	case mesh.DispatchAccepted:
		d.child(b.Child)
		d.say(b.Context)
	case mesh.DispatchIssued:
		if d.child(b.Child); b.Child.Text == "" {
			d.parts(b.Message.GetParts())
		}
	case mesh.DispatchSettled:
		d.Call, d.Outcome, d.Reason = string(b.Child), stateWord(b.State), b.Reason
		if child := s.Execution(b.Child); child != nil {
			d.Subject = child.Agent
		}
		d.say(b.Result)
	case mesh.SkillCalled:
		if d.Subject, d.Call, d.Reason = b.Skill, b.Call, b.Source; b.NotMade {
			d.Outcome = string(CallNotMade)
		}
		d.say(b.Args)
	case mesh.SkillReturned:
		d.Call, d.Outcome = b.Call, ended(b.Failed)
		d.say(b.Content)
		d.say(strings.Join(b.Files, "\n"))
	case mesh.ToolReturned:
		d.Subject, d.Call, d.Outcome, d.Reason = b.Name, b.Call, ended(b.Failed), string(b.Cause)
		if d.Kind == DeedRefusal {
			d.Outcome = refusedOutcome
		}
		d.say(b.Content)
	case mesh.ApprovalAsked:
		d.Subject, d.Call = b.Skill, b.Call
		d.say(b.Args)
		d.say(b.Text)
	case mesh.ApprovalSettled:
		if d.Call, d.Outcome = b.Call, refusedOutcome; b.Approved {
			d.Outcome = approvedOutcome
		}
		d.say(b.Text)
	case mesh.ModelReplied:
		d.Subject, d.Reason = b.Model, b.Finish
		d.say(b.Text)
		for _, t := range b.Tools {
			d.say(t.Name)
			d.say(t.Arguments)
		}
	case mesh.ResultsDelivered:
		d.say(b.Text)
	}
}

func (d *Deed) child(x mesh.Execution) {
	d.Subject, d.Call, d.Reason = x.Agent, string(x.ID), x.Label
	d.say(x.Text)
}

func (d *Deed) say(text string) {
	if text != "" {
		d.Said = append(d.Said, text)
	}
}

func (d *Deed) parts(all []*a2apb.Part) {
	for _, p := range all {
		d.say(partWords(p))
	}
}

// partWords says what a part is: text and data as they are, files by name, type and size or
// by where they are.
func partWords(p *a2apb.Part) string {
	about := cmp.Or(strings.TrimSpace(p.GetFilename()+" "+p.GetMediaType()), "without name")
	switch c := p.GetContent().(type) {
	case *a2apb.Part_Text:
		return c.Text
	case *a2apb.Part_Raw:
		return fmt.Sprintf("(file %s, %d bytes)", about, len(c.Raw))
	case *a2apb.Part_Url:
		return fmt.Sprintf("(file %s at %s)", about, c.Url)
	case *a2apb.Part_Data:
		data, err := protojson.Marshal(c.Data)
		if err != nil {
			return "(data that cannot be shown)"
		}
		return string(data)
	}
	return ""
}

// stateWord is a state of a task in a word.
func stateWord(s mesh.TaskState) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATE_")), "_", "-")
}

func ended(failed bool) string {
	if failed {
		return failedOutcome
	}
	return doneOutcome
}
