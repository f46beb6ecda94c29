package thread

import (
	"maps"
	"slices"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// Actions is what an execution did, and those that it led to: the replies of its
// models, its calls of skills and of other agents, what it asked the user, and
// what of all this is not settled. Its State is that of the events, which may begin
// at a [Beginning]. Use NewActions.
type Actions struct {
	State
	// Replies are those of the execution's models.
	Replies []*Reply
	// Rounds are what it did between two messages of its turn's user. The first
	// one may have begun without one.
	Rounds []*Round
	// Limits has the last LimitTripped of each limit, of whatever execution.
	Limits map[string]mesh.LimitTripped

	own, turn mesh.ExecutionID
	calls     calls
	approvals map[string]*CallApproval
	outputs   map[mesh.ExecutionID][]mesh.Body
	missions  map[mesh.ExecutionID]*a2apb.Message
	answers   map[mesh.ExecutionID]*a2apb.Message    // with which those go on that asked for help
	waited    *mesh.TaskMoved                        // by which the execution last began to wait, or nil
	last      map[mesh.ExecutionID]mesh.ModelReplied // of those that it dispatched
}

// A Round is what an execution did between two messages of its user.
type Round struct {
	Posted mesh.Seq // of the message that began it, or 0
	Text   string   // the message's
	Time   time.Time
	// Answers are the questions of agents that the execution had dispatched, as
	// far as the message answers them.
	Answers []Question
	Calls   []*SkillCall
	Tripped bool             // it met a limit
	Waits   []mesh.TaskMoved // by which it began to wait for the user
}

// A Question is what an agent that the execution dispatched asks the user.
type Question struct {
	Execution mesh.ExecutionID
	Agent     string
	Label     string // as the execution calls it
	Text      string
}

// A CallApproval is a call that waited for the user's word, or still does.
type CallApproval struct {
	mesh.ApprovalAsked
	Word *mesh.ApprovalSettled // the user's, or nil
}

// NewActions returns the actions of an execution that serves the turn. The events
// go to Apply, in order.
func NewActions(own, turn mesh.ExecutionID) *Actions {
	return &Actions{
		own: own, turn: turn, Limits: map[string]mesh.LimitTripped{},
		approvals: map[string]*CallApproval{}, outputs: map[mesh.ExecutionID][]mesh.Body{}, missions: map[mesh.ExecutionID]*a2apb.Message{}, answers: map[mesh.ExecutionID]*a2apb.Message{}, last: map[mesh.ExecutionID]mesh.ModelReplied{},
	}
}

// Apply adds the next event.
func (a *Actions) Apply(e *mesh.Event) {
	a.State.Apply(e)
	call := a.calls.apply(&a.State, e)
	if e.Execution == a.own {
		a.applyOwn(e, call)
	}
	switch b := e.Body.(type) {
	case mesh.MessagePosted:
		if e.Execution == a.turn {
			a.post(e, b)
		}
	case mesh.ArtifactAppended:
		if x := a.Execution(e.Execution); x != nil && x.Parent == a.own {
			a.outputs[x.ID] = append(a.outputs[x.ID], b)
		}
	case mesh.TaskMoved:
		switch x := a.Execution(e.Execution); {
		case x == nil || x.Parent != a.own:
		case b.Reason == mesh.ReasonDelivered: // the words are not its own
			a.answers[x.ID] = b.Message
		case b.Message != nil:
			a.outputs[x.ID] = append(a.outputs[x.ID], b)
		}
	case mesh.DispatchIssued:
		if b.Child.Parent == a.own && a.missions[b.Child.ID] == nil {
			a.missions[b.Child.ID] = b.Message
		}
	case mesh.ModelReplied:
		if x := a.Execution(e.Execution); x != nil && x.Parent == a.own {
			a.last[x.ID] = b
		}
	case mesh.LimitTripped:
		a.Limits[b.Limit] = b
	}
}

// applyOwn adds what the execution itself did.
func (a *Actions) applyOwn(e *mesh.Event, call *SkillCall) {
	(*replies)(&a.Replies).apply(e)
	if call != nil {
		a.Round().Calls = append(a.Round().Calls, call)
	}
	switch b := e.Body.(type) {
	case mesh.TaskMoved:
		if mesh.Interrupted(b.State) {
			a.waited, a.Round().Waits = &b, append(a.Round().Waits, b)
		}
	case mesh.LimitTripped:
		a.Round().Tripped = true
	case mesh.ApprovalAsked:
		a.approvals[b.Call] = &CallApproval{ApprovalAsked: b}
	case mesh.ApprovalSettled:
		if p := a.approvals[b.Call]; p != nil {
			p.Word = &b
		}
	}
}

// Round returns the round that goes on.
func (a *Actions) Round() *Round {
	if len(a.Rounds) == 0 {
		a.Rounds = append(a.Rounds, new(Round))
	}
	return a.Rounds[len(a.Rounds)-1]
}

func (a *Actions) post(e *mesh.Event, b mesh.MessagePosted) {
	r := &Round{Posted: e.Seq, Text: mesh.TextOf(b.Message), Time: e.Time}
	for _, x := range a.Dispatched() {
		if text := mesh.TextOf(x.Message); text != "" && mesh.Interrupted(x.State) && (!x.WaitsForHelp() || a.PassedOn(x.ID)) {
			r.Answers = append(r.Answers, Question{Execution: x.ID, Agent: x.Agent, Label: x.Label, Text: text})
		}
	}
	a.Rounds = append(a.Rounds, r)
}

// PassedOn reports whether the execution, when it last began to wait for its user, asked
// them what the other one needs, which waits for help.
func (a *Actions) PassedOn(id mesh.ExecutionID) bool {
	if a.waited == nil {
		return false
	}
	help, _ := a.Help(id)
	asks, _ := mesh.Asks(a.waited.Metadata)
	return help != nil && slices.ContainsFunc(asks, func(q mesh.Question) bool { return q.Execution == id && q.Call == help.Call })
}

// Help returns what an execution that this one dispatched waits for, if it waits for help,
// and what it asks.
func (a *Actions) Help(id mesh.ExecutionID) (help *mesh.Help, reason string) {
	x := a.Execution(id)
	if x == nil || !x.WaitsForHelp() {
		return nil, ""
	}
	help = new(mesh.Help)
	if said := a.outputs[id]; len(said) > 0 {
		if last, ok := said[len(said)-1].(mesh.TaskMoved); ok {
			*help, _ = mesh.HelpOf(last.Metadata)
		}
	}
	return help, mesh.TextOf(x.Message)
}

// HelpAnswer returns the message with which an execution that this one dispatched last went
// on after it had asked for help; nil if it has not, or went on with the user's since.
func (a *Actions) HelpAnswer(id mesh.ExecutionID) *a2apb.Message { return a.answers[id] }

// Call returns the execution's last call of a skill with the id, or nil.
func (a *Actions) Call(id string) *SkillCall {
	for _, c := range slices.Backward(a.calls.all) {
		if c.Execution == a.own && c.Call == id {
			return c
		}
	}
	return nil
}

// Approval returns what is known of the approval of the execution's call, or nil.
func (a *Actions) Approval(call string) *CallApproval { return a.approvals[call] }

// Answer returns what the user wrote last, if that was after the question of a call
// that waits had been shown; "" otherwise.
func (a *Actions) Answer(call string) string {
	x := a.Execution(a.own)
	if x == nil {
		return ""
	}
	if p := x.Approval(call); p != nil && p.Shown > 0 && a.Round().Posted > p.Shown {
		return a.Round().Text
	}
	return ""
}

// Answered returns the calls that the user's last message answers, by their ids.
func (a *Actions) Answered() []*CallApproval {
	var out []*CallApproval
	for _, call := range slices.Sorted(maps.Keys(a.approvals)) {
		if a.Answer(call) != "" {
			out = append(out, a.approvals[call])
		}
	}
	return out
}

// Dispatched returns the executions that this one dispatched, in order.
func (a *Actions) Dispatched() []*Execution {
	return slices.DeleteFunc(slices.Clone(a.order), func(x *Execution) bool { return x.Parent != a.own })
}

// Output returns what an execution that this one dispatched has put out, and its words of
// its state.
func (a *Actions) Output(id mesh.ExecutionID) []mesh.Body { return a.outputs[id] }

// Mission returns the message with which this execution dispatched another.
func (a *Actions) Mission(id mesh.ExecutionID) *a2apb.Message { return a.missions[id] }

// LastWords returns what the model of an execution that this one dispatched said in its
// last reply, if that called nothing; "" otherwise.
func (a *Actions) LastWords(id mesh.ExecutionID) string {
	if last := a.last[id]; len(last.Tools) == 0 {
		return last.Text
	}
	return ""
}

// Below returns the calls of skills that an execution and those that it led to
// have made, in order. A call that was announced again, without a return between,
// is there once.
func (a *Actions) Below(id mesh.ExecutionID) []*SkillCall {
	return slices.DeleteFunc(slices.Clone(a.calls.all), func(c *SkillCall) bool {
		return !a.below(c.Execution, id) || c.Returned == 0 && a.calls.open[callID{c.Execution, c.Call}] != c
	})
}
