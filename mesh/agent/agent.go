// Package agent is the runtime that serves one agent over A2A: whoever can
// say what to do with a message as an [Agent] gets an A2A server with task
// states, streaming, cancellation and identity.
//
// Its rooms are packages of their own: meshclient is the mesh as an agent sees it,
// below this one; modelrun, for agents that think with a model, and skilltools, for
// the skills that an execution was granted, are above it and know nothing of each
// other.
//
// # What it guarantees
//
// Whatever the agent does, a client sees a legal A2A stream: the task, then
// updates in order, then exactly one terminal update, or a question to the
// user. A panic fails the task and is logged; a run that never ends is cut
// when its grant expires. A run does not depend on the caller's stream. The
// cost of a stream is linear in its updates.
//
// # What may run concurrently
//
// One agent runs many invocations at a time. An [Invocation] belongs to one
// run; its Mesh may be used by all goroutines of the run.
//
// # What it is not
//
// It has no state of its own that outlives the process: the task of a run is
// the execution that the caller logs, and a restarted runtime reopens it when
// the next message comes under its grant. It knows nothing of other agents
// but what the mesh's services tell, and nothing of models and skills.
package agent

import (
	"context"
	"iter"

	"agentmesh/mesh"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/thread"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// An Agent answers messages. Both methods may be called concurrently.
type Agent interface {
	// Card describes the agent. The runtime completes a copy of it with its
	// own address and capabilities.
	Card() *a2apb.AgentCard

	// Run works on one message and yields what it has to say, as it comes. A
	// run that ends without an error has completed its task; after [Ask] the
	// task waits for the user, and the next message starts another Run. An
	// error fails the task: the user reads the Detail of a [mesh.Error], and
	// "internal error" for any other. When ctx ends, so must Run, soon.
	Run(ctx context.Context, inv *Invocation) iter.Seq2[Output, error]
}

// An Invocation is one message to an agent, with what it may know about it.
type Invocation struct {
	// Message is the message as it came; it is shared and read-only.
	Message   *a2apb.Message
	Execution mesh.ExecutionID
	Thread    mesh.ThreadKey
	User      string
	// Grant says what the execution may do.
	Grant *mesh.Grant
	// Handoff is set when the agent takes control of the user's stream with
	// this message, and RecentMessages are what was said last before.
	Handoff        *meshv1.Handoff
	RecentMessages []HistoryItem
	// Returned is set when control came back to the agent with this message:
	// it is the handoff that ended.
	Returned *meshv1.Handoff
	// Parked is set when the user of a session said nothing for too long, and the conversation
	// is the agent's again with this message, which nobody told the user yet: it is the
	// handoff, from which its target can go on when it gets the conversation once more.
	Parked *meshv1.Handoff
	// Resume is set when the user left, or let be parked, before it was done, a session with an agent to which
	// this one had handed the conversation over, and which can be gone on with.
	Resume *Resume
	// Resumed says that the message continues the task: it answers an [Ask].
	Resumed bool
	// Continued says that work on the message was cut off, with its process or its node,
	// and goes on: what is in the log was done. The text that the user was shown of it is
	// replaced by what the run says.
	Continued bool
	// SkillCall is set when the message asks for one skill by name, for the user;
	// agents that run skills do so without asking a model. See
	// [Invocation.Requested].
	SkillCall *SkillCall
	// MaxToolCalls is how many skill calls whoever dispatched the agent allows
	// it; 0 leaves it to the agent.
	MaxToolCalls int
	// Channel is by which way the user writes, as "email", if the program that
	// sent the user's message says so: in our extension's data, as "channel".
	Channel string
	// Mesh is the mesh as this execution may see it.
	Mesh *meshclient.Client
}

// A Resume is a session that the user left and can go on with: [meshclient.Client.StartHandoff]
// with Resume gives it back to its agent.
type Resume struct {
	Agent string
	Name  string // what people call the agent
	// Reason and Summary are those of the handoff.
	Reason, Summary string
	// Step of Steps is where it was left, from 1; 0 if the agent did not say. State is what the
	// agent calls that, or "".
	Step, Steps int
	State       string
	// Parked says that the user was away for too long, and did not leave it.
	Parked bool
	// Offered says that the user was offered to go on with it, and that this message is the
	// answer. If not, whoever has this message offers it once it is answered.
	Offered bool
}

// GoesOn reports whether the thread may have something that the execution did before.
func (inv *Invocation) GoesOn() bool { return inv.Resumed || inv.Continued }

// Text returns the text of the message.
func (inv *Invocation) Text() string { return a2a.TextOf(inv.Message) }

// A HistoryItem is one thing that was said in the thread.
type HistoryItem = thread.Utterance

// Roles of a [HistoryItem].
const (
	RoleUser  = thread.RoleUser
	RoleAgent = thread.RoleAgent
)

// An Output is something that an agent says while it runs: one of the types
// of this file.
type Output interface{ isOutput() }

type (
	// Text is a piece of the answer. The pieces of a run are one artifact;
	// the runtime puts small ones together.
	Text struct{ Text string }

	// Artifact is a whole artifact. The runtime owns it from here on. The id
	// must be the agent's own for this artifact; without one the runtime
	// makes one. An artifact with the id of an earlier one replaces it.
	Artifact struct{ Artifact *a2apb.Artifact }

	// Data is an artifact with one value, which must be representable in JSON.
	Data struct {
		Name  string
		Value any
	}

	// Progress tells the user what the agent is doing. Step and Steps, as in
	// "step 2 of 5", and State, the agent's own workflow state, are optional.
	Progress struct {
		Text  string
		Step  int
		Steps int
		State string
	}

	// Ask asks the user and ends the run; what is yielded after it is lost.
	Ask struct {
		Text string
		// Approval says that a call waits for the user's word, which no other
		// agent can give.
		Approval bool
		// Help is set where not the user is asked but who dispatched the agent.
		Help *mesh.Help
		// Report is set when a limit was met; Text has it already.
		Report *Report
		// Questions are what Text asks about calls.
		Questions []mesh.Question
	}
)

func (Text) isOutput()     {}
func (Artifact) isOutput() {}
func (Data) isOutput()     {}
func (Progress) isOutput() {}
func (Ask) isOutput()      {}
