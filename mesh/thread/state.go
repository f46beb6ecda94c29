// Package thread says what a thread's log means, for the node, for agents and for
// the command line alike: which agent is active and which tasks are open ([State]),
// what the user of a task sees ([View], [Snapshot]), what was said ([Transcript]) and
// what an execution did ([Actions]).
//
// Everything here is a pure function of events: no clock, no I/O and no
// randomness. [Fold] never fails: a log is what happened, and an event that
// makes no sense where it stands changes nothing.
//
// A [State] is changed by [State.Apply] alone and is not safe for concurrent
// use; the others likewise. A State grows with messages and executions alone, and with how
// often these rest for long; a View with executions at work; the others grow with what was
// said and called.
//
// This package is not the place for rules of who may append what; those are
// the writers' (packages edge, turn, handoff and admission).
package thread

import (
	"iter"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// State is a folded thread. The zero value is the empty thread.
type State struct {
	Seq     mesh.Seq // of the last event applied
	First   mesh.Pos // of the first: which of the threads that have had its id it is
	Epoch   mesh.Epoch
	Node    string // who holds the epoch
	Created time.Time
	Updated time.Time
	Title   string // first words of the first message
	Access
	Usage mesh.Usage
	// Handoff is the handoff that is active or was last, or nil.
	Handoff *Handoff

	session  session          // of the handoff
	passages []*passage       // of all handoffs
	notes    map[string]noted // by agent

	execs     map[mesh.ExecutionID]*Execution
	order     []*Execution
	turns     []*Execution
	decisions map[mesh.Scope]mesh.Seq
	posted    map[string][]Posted
	contexts  map[string]*remoteContext       // by agent
	talks     map[string]*stretches           // by agent: what it has of the turns whose stream it had
	parts     map[mesh.ExecutionID]*stretches // see State.place
	media     []medium                        // at most MaxMedia, oldest first
	window    window
	seen      ids
}

// An Execution is a mesh.Execution and what became of it.
type Execution struct {
	mesh.Execution
	State   mesh.TaskState
	Reason  string
	Message *a2apb.Message // what was last said about the state
	Opened  mesh.Seq
	Ended   mesh.Seq // of the event that made it terminal, or 0
	// Issued is the Seq of its DispatchIssued; 0 for turns and for those that still
	// wait. Accepted is by what it waits or has waited; nil for others.
	Issued   mesh.Seq
	Accepted *mesh.DispatchAccepted
	// Delivery is the id of the event by which the model of its parent was told what
	// came of it; "" if that is still to come.
	Delivery string
	// HelpTold is the id of the event by which the model of its parent was told for what help
	// it waits; "" if that is still to come, or it waits for none.
	HelpTold string
	Started  time.Time // when it was opened or, if it waited, dispatched
	Updated  time.Time
	Result   string
	// Remote ids are the agent's own, where they differ from ours. The context is known
	// before the agent has answered where the execution goes on in one that it had.
	RemoteTask    string
	RemoteContext string
	// Instance is the process of its agent that has it, or had it last, where the agent may
	// have several; "" as long as none has said anything.
	Instance string
	// Remembers says that the thread's next execution of the agent goes on in the
	// context of this one.
	Remembers bool
	Usage     mesh.Usage
	// Used is what it and all below it have used, as it counts for budgets.
	Used mesh.Budget
	// Artifacts counts the ArtifactAppended of the execution.
	Artifacts int64
	// Logged is how much of the log the events are that are about it, where these know their
	// size.
	Logged mesh.Volume
	// SkillCalls counts the skills called; Unsettled has those without return,
	// at most MaxUnsettled.
	SkillCalls int
	// ToolCalls counts those of tools that are no skills.
	ToolCalls int
	Unsettled map[string]string      // call -> skill
	Intents   map[string]*mesh.Event // of those, by which they were announced; shared
	// Calls counts what was called since the user's last message: of a turn, in
	// it and everything below; of others, by themselves since they began or went
	// on with a message.
	Calls Calls
	// Tripped has the limits that stopped something since then, each once: of a
	// turn, also those below that are not an agent's own.
	Tripped []mesh.LimitTripped
	// Approvals are the calls that wait for the user's word, in the order in
	// which it was asked for.
	Approvals []Approval
	// Approved has the digests of calls that the user has approved and that were not
	// made yet, by their ids; MaxApprovals at most. Requested is the call for which the
	// user's own message had the execution opened, until it is made.
	Approved  map[string]mesh.Digest
	Requested *mesh.SkillCall
	// Adoptions counts how often its work was cut off and went on, since it, or what it
	// led to, last came on: by a reply of a model, by a call or its result, or by output of
	// an agent that was at work all the while.
	Adoptions int
	// Anew says that an artifact of it began since it last went on: what follows may be what
	// an agent says again that has its message again.
	Anew bool
	// CutOff says that it was cut off and went on at some time: what its agent had said until
	// then may be in fewer events than it was said in.
	CutOff bool
	// Allowed is how long it may work, if it has a deadline.
	Allowed time.Duration
	// Worked is how long it worked since it began, or went on with a message, until it
	// last went on after it was cut off: without the time while nobody worked.
	Worked time.Duration
	Began  time.Time // when it began, or went on
	Heard  time.Time // when the log last had it, or one below it, at work
	// WentOn is the id of the event by which the execution last went on with a
	// message of the user (ReasonDelivered).
	WentOn string
	// Canceled says that somebody asked for its end.
	Canceled bool
	// Instructions are what it was told and has not read, MaxInstructions at most; Told
	// are the ids of the last ones that it was told.
	Instructions []Instruction
	Told         []string
	// Legs are, for turns, who had the user's stream and when.
	Legs []Leg
	// Handoffs counts, for turns, the handoffs that began in it.
	Handoffs int
	// Posts are, for turns, the Seqs of the user's messages; those after
	// Delivered have not gone to an agent.
	Posts     []mesh.Seq
	Delivered mesh.Seq
	// Got are, for what has or had the stream of a turn, the Seqs of the user's messages that
	// went to it.
	Got []mesh.Seq
	// Detail is, for turns, the Seq of the first message that wanted to be told what agents
	// say which others dispatched, or 0.
	Detail mesh.Seq
	// Roles are, for turns, those that their user had with the last message, which came at
	// Asked under Credential.
	Roles      []mesh.Role
	Credential string
	Asked      time.Time
}

// Waits reports whether the execution was accepted and neither dispatched nor ended.
func (x *Execution) Waits() bool {
	return x.Accepted != nil && x.Issued == 0 && !mesh.Terminal(x.State)
}

// Why is the reason for the state of the execution: of one that waits, also where no event
// says so.
func (s *State) Why(x *Execution) string {
	if !x.Waits() || x.Reason != "" {
		return x.Reason
	}
	for _, id := range x.DependsOn {
		if y := s.execs[id]; y != nil && !mesh.Terminal(y.State) {
			return mesh.ReasonAwaitsOther
		}
	}
	return mesh.ReasonAwaitsPlace
}

// A Leg is a stretch of a turn in which one execution has the user's stream.
type Leg struct {
	Execution mesh.ExecutionID
	Agent     string
	From      mesh.Seq // of its DispatchIssued
	To        mesh.Seq // of what took the stream away, or 0
}

// Posted is a message that the thread has had, by which a resend is known.
type Posted struct {
	User   string
	Digest string
	Task   mesh.ExecutionID
	Seq    mesh.Seq
}

// Fold returns the state that the events, from Seq 1 on, add up to.
func Fold(events []*mesh.Event) *State {
	s := new(State)
	for _, e := range events {
		s.Apply(e)
	}
	return s
}

// ActiveAgent returns the agent that answers the next message: the target of
// the active handoff, else main.
func (s *State) ActiveAgent(main string) string {
	if s.Handoff.Active() {
		return s.Handoff.To
	}
	return main
}

// Execution returns an execution, or nil.
func (s *State) Execution(id mesh.ExecutionID) *Execution { return s.execs[id] }

// Turn returns a turn, or nil if there is none with the id.
func (s *State) Turn(id mesh.ExecutionID) *Execution {
	if x := s.execs[id]; x != nil && x.Kind == mesh.KindTurn {
		return x
	}
	return nil
}

// Begins reports whether the event is that an agent begins which somebody dispatched.
func Begins(e *mesh.Event) bool {
	_, begins := e.Body.(mesh.DispatchIssued)
	return begins
}

// Opening returns the turn that the events, which are to be appended, open, and its
// first message; false if they do not, or do something else besides.
func Opening(events []*mesh.Event) (turn mesh.Execution, first mesh.MessagePosted, ok bool) {
	if len(events) != 2 {
		return turn, first, false
	}
	opened, opens := events[0].Body.(mesh.TaskOpened)
	first, says := events[1].Body.(mesh.MessagePosted)
	return opened.Execution, first, opens && says
}

// Continuing returns the turn and the message of events that put a message into a turn
// which waits for it; false for others.
func (s *State) Continuing(events []*mesh.Event) (turn *Execution, next mesh.MessagePosted, ok bool) {
	if len(events) != 2 {
		return nil, next, false
	}
	next, says := events[0].Body.(mesh.MessagePosted)
	_, moves := events[1].Body.(mesh.TaskMoved)
	t := s.Turn(events[0].Execution)
	return t, next, says && moves && t != nil && mesh.Interrupted(t.State) && events[1].Execution == t.ID
}

// Begins returns which turn of the thread, which is at rest, is to be worked on because of
// the events, and for whom; false if none is.
func (s *State) Begins(events []*mesh.Event) (turn mesh.ExecutionID, user string, ok bool) {
	for _, e := range events {
		if b, says := e.Body.(mesh.MessagePosted); says {
			if t := s.Turn(e.Execution); t != nil {
				return t.ID, t.User, true
			}
			return e.Execution, b.User, true
		}
	}
	return "", "", false
}

// Executions returns all executions, parents before children.
func (s *State) Executions() []*Execution { return s.order }

// Turns returns all turns in the order in which they were opened.
func (s *State) Turns() []*Execution { return s.turns }

// NextTurn returns the first turn that is to be worked on, or nil.
func (s *State) NextTurn() *Execution {
	for _, t := range s.turns {
		if !mesh.Terminal(t.State) && !mesh.Interrupted(t.State) {
			return t
		}
	}
	return nil
}

// InterruptedTurn returns the last turn that waits for its user, or nil.
func (s *State) InterruptedTurn() *Execution {
	for i := len(s.turns) - 1; i >= 0; i-- {
		if mesh.Interrupted(s.turns[i].State) {
			return s.turns[i]
		}
	}
	return nil
}

// Unfinished returns the executions below id that are not terminal, children
// before parents, without id itself.
func (s *State) Unfinished(id mesh.ExecutionID) []*Execution {
	var out []*Execution
	for i := len(s.order) - 1; i >= 0; i-- {
		if x := s.order[i]; x.ID != id && !mesh.Terminal(x.State) && s.below(x.ID, id) {
			out = append(out, x)
		}
	}
	return out
}

// Up are the execution and those above it, up to its turn.
func (s *State) Up(id mesh.ExecutionID) iter.Seq[*Execution] {
	return func(yield func(*Execution) bool) {
		for x := s.execs[id]; x != nil && yield(x) && x.Parent != ""; x = s.execs[x.Parent] {
		}
	}
}

// below reports whether the execution is ancestor's, at any depth, or is it.
func (s *State) below(id, ancestor mesh.ExecutionID) bool {
	for x := range s.Up(id) {
		if x.ID == ancestor {
			return true
		}
	}
	return false
}

// TurnOf returns the turn that the execution serves, or nil.
func (s *State) TurnOf(id mesh.ExecutionID) *Execution {
	for x := range s.Up(id) {
		if x.Kind == mesh.KindTurn {
			return x
		}
	}
	return nil
}

// LastDecision returns the Seq of the last decision in the scope, or 0.
func (s *State) LastDecision(scope mesh.Scope) mesh.Seq { return s.decisions[scope] }

// Posted returns what is known of messages with the id.
func (s *State) Posted(messageID string) []Posted { return s.posted[messageID] }

// Pending returns the Seqs of the turn's messages that no agent has had.
func (x *Execution) Pending() []mesh.Seq {
	for i, seq := range x.Posts {
		if seq > x.Delivered {
			return x.Posts[i:]
		}
	}
	return nil
}

// Holder returns the agent that has the turn's stream and works, or waits for its user; ""
// if none does. t may be nil.
func (s *State) Holder(t *Execution) string {
	if t == nil {
		return ""
	}
	if l := t.Leg(); l != nil && !mesh.Terminal(s.execs[l.Execution].State) {
		return l.Agent
	}
	return ""
}

// Leg returns the leg that has the user's stream, or nil.
func (x *Execution) Leg() *Leg {
	if n := len(x.Legs); n > 0 && x.Legs[n-1].To == 0 {
		return &x.Legs[n-1]
	}
	return nil
}
