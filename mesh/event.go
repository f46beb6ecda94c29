package mesh

import (
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// TaskState is the A2A state of a task, and so of an execution.
type TaskState = a2apb.TaskState

// An Event is one record of a thread's log. Events that come from the log are
// shared: nobody changes them or what they point to.
type Event struct {
	// Seq is the event's place in its thread and Pos its place among all
	// threads; the log sets both.
	Seq Seq
	Pos Pos
	// Size is that of its record in bytes, where the event was appended or read here; else 0.
	Size int
	// ID is the writer's own id for the event, which makes appending it
	// idempotent and is the idempotency key of the effect that it announces.
	// It is empty where the writer does not need that.
	ID string
	// Time is when the writer wrote it, to the millisecond, UTC.
	Time time.Time
	// Execution is what the event is about.
	Execution ExecutionID
	// Actor is who caused it: "user:NAME", "agent:NAME" or "node".
	Actor string
	// Epoch is the claim under which a driver wrote it, or 0.
	Epoch Epoch
	Body  Body
}

// A Body says what happened. It is one of the types of this file; a switch
// over them must have all of them, or a default that leaves the others alone.
type Body interface{ isBody() }

// A Decision is a body that changes what may happen next. A decision loses
// with [Conflict] against a later one of the same scope than its writer knew;
// facts, all other bodies, never do.
type Decision interface {
	Body
	isDecision()
}

// A Scope is what a decision is about: the thread or one execution.
type Scope string

// ThreadScope is the scope of decisions about the whole thread.
const ThreadScope Scope = ""

// ScopeOf returns the scope of the event's decision; false for facts.
// ThreadClaimed has none: it is ordered by its epoch.
func ScopeOf(e *Event) (Scope, bool) {
	switch b := e.Body.(type) {
	case TaskOpened, ThreadShared, HandoffStarted, HandoffEnded:
		return ThreadScope, true
	case TaskMoved, DispatchAccepted, DispatchIssued:
		return Scope(e.Execution), true
	case DispatchSettled:
		return Scope(b.Child), true
	}
	return "", false
}

// Facts.
type (
	// MessagePosted says that the user sent a message for the task, which is
	// the event's execution.
	MessagePosted struct {
		Message *a2apb.Message
		User    string
		// Digest is a hash of the message as sent, by which a resend is known.
		Digest []byte
		// Roles are the sender's; agents get no more. Credential is by what it proved who
		// it is; when that ends, agents begin nothing more for the message.
		Roles      []Role
		Credential string
		// Exit says that it did nothing but end the handoff that was active: no agent gets it.
		Exit bool
	}

	// ArtifactAppended is a piece of output of the execution: a new artifact,
	// or more of one (A2A TaskArtifactUpdateEvent). Parts are verbatim.
	ArtifactAppended struct {
		Artifact  *a2apb.Artifact
		Append    bool
		LastChunk bool
		Metadata  *structpb.Struct
		// Wire spares those who encode the artifact the work, or is nil; see Bytes.
		Wire *Wire
	}

	// SkillCalled says that the execution is about to run a skill: the intent.
	SkillCalled struct {
		Call  string // id of the call within the execution
		Skill string // as "mail.send"
		Args  string // JSON object
		// Source says how it was called: one of the Source constants.
		Source string
		// Version is that of the skill's file which was called.
		Version string
		// NotMade says that the mesh had the call not made, because its execution is dry:
		// it is here as it would have been made.
		NotMade bool
	}

	// SkillReturned settles the SkillCalled with the same Call.
	SkillReturned struct {
		Call     string
		Failed   bool
		Content  string   // what the model is told
		Files    []string // names of files produced
		Duration time.Duration
		Metadata string // what the skill says for programs, a JSON object, or ""
		// Blameless is set of a failure that says nothing about the skill's health.
		Blameless bool
	}

	// ToolReturned settles a call of ModelReplied to a tool that is no skill:
	// what the model was told.
	ToolReturned struct {
		Call    string // id of the call within the execution
		Name    string // the tool's
		Failed  bool
		Content string // at most MaxResult bytes
		Cause   Cause  // why it came to nothing, if that is known
		// Delivered are executions whose results the model was told here for the
		// first time.
		Delivered []ExecutionID
	}

	// ResultsDelivered says that the execution's model was told, by one message, what
	// came of executions that it dispatched. None is delivered twice.
	ResultsDelivered struct {
		Executions []ExecutionID
		Text       string // the message, in the role of the user; at most MaxResult bytes
	}

	// ApprovalAsked says that the execution waits for the user's word before
	// it runs a skill.
	ApprovalAsked struct {
		Call  string
		Skill string
		Args  string // JSON object
		Text  string // what the user is asked
		// Version is the skill's, as in SkillCalled; the user's word is on that
		// one alone.
		Version string
	}

	// ApprovalSettled is the user's word on the ApprovalAsked with the same
	// Call. It counts only after a message of the user.
	ApprovalSettled struct {
		Call     string
		Approved bool
		Text     string // what the user wrote
	}

	// InstructionPosted tells something to the agent of the event's execution, which is
	// at work: once as it was posted, and once, from the agent, as it was read.
	InstructionPosted struct {
		By   string // who tells it
		Text string // "" where it was read
		ID   string // within the execution
		Read bool   // the agent's model is shown it from here on
	}

	// ModelReplied is one whole reply of a model.
	ModelReplied struct {
		Model  string
		Text   string
		Tools  []ToolUse
		Usage  Usage
		Finish string // the provider's finish reason
	}

	// StateNoted keeps an agent's own workflow state in the thread.
	StateNoted struct {
		Agent string
		Data  []byte // JSON, at most MaxState bytes; empty where what was noted is dropped
	}

	// CancelRequested asks that the event's execution and all below end.
	CancelRequested struct {
		By     string
		Reason string
	}

	// LimitTripped says that a limit stopped something.
	LimitTripped struct {
		Limit  string // name, as "turn.agents"
		Detail string // for people
		Used   int64
		Most   int64
		Free   time.Time // when there is room again; zero where time alone makes none
	}
)

// Decisions.
type (
	// ThreadClaimed says that a node drives the thread from here on. The
	// store refuses an epoch that is not above the thread's current one.
	ThreadClaimed struct {
		Epoch Epoch
		Node  string
	}

	// TaskOpened opens a task of the user: an execution of kind turn.
	TaskOpened struct{ Execution Execution }

	// ThreadShared says anew who may read the thread and who takes part in it, beside
	// its owner, who opened its first task or was given it since.
	ThreadShared struct {
		// Readable says that everybody in the tenant may read it.
		Readable bool
		// Participants are users, sorted.
		Participants []string
		// Owner is whose the thread is from here on, or "" where that stays as it is.
		Owner string
	}

	// TaskMoved changes the state of the event's execution.
	TaskMoved struct {
		State   TaskState
		Message *a2apb.Message // what the agent says about it, or nil
		Reason  string         // machine-readable, as ReasonInterrupted
		// RemoteTask and RemoteContext are the agent's own ids for the task,
		// when it uses others than ours.
		RemoteTask    string
		RemoteContext string
		Metadata      *structpb.Struct
		// Instance is which process of an agent that may have several has the execution
		// from here on; "" where nothing new is to be said.
		Instance string
	}

	// DispatchAccepted says that the event's execution will have an agent asked as
	// soon as those that it depends on have completed and there is room.
	DispatchAccepted struct {
		Child   Execution // without Agent where that is chosen by the skills
		Context string    // what it is told beside the task, at most MaxContext bytes
		Wave    int       // 1 if it depends on nothing, else 1 more than the last that it depends on
		Call    string    // id of the model's call that ordered it, or ""
		Answers []string  // what the user answered to questions about the task
	}

	// DispatchIssued announces that an agent is about to be asked; the event's
	// execution is who asks, and the event's ID the idempotency key.
	DispatchIssued struct {
		Child   Execution
		Message *a2apb.Message
	}

	// DispatchSettled settles a DispatchAccepted or DispatchIssued of the same
	// execution. Its scope is the child's: nothing is said by an execution that was
	// settled.
	DispatchSettled struct {
		Child  ExecutionID
		State  TaskState // terminal
		Result string    // the child's text, at most MaxResult bytes
		Reason string    // why it failed, for people, or ReasonAsked: Result is the question
	}

	// HandoffStarted gives the user's stream to another agent.
	HandoffStarted struct {
		From           string // agent
		To             string // agent
		ToName         string // what people call it
		Reason         string
		Summary        string
		RecentMessages int  // how many of the last messages go along
		PreserveState  bool // keep the specialist's state when it ends early
		ReturnExpected bool // else it keeps the stream when it is done
		Resume         bool // the user wants to go on with what To noted before
		// Session is how long after the user's last word, or the target's last work, it is
		// parked; 0 is never.
		Session time.Duration
	}

	// HandoffEnded gives the stream back. Started names what it ends. One that Stays says
	// that the work is done, and that the agent keeps the stream.
	HandoffEnded struct {
		Started   Seq
		Outcome   HandoffOutcome
		Summary   string
		By        string
		Artifacts []ArtifactRef // that came of it
		Stays     bool
		Dropped   string // the agent whose notes are dropped, or ""
	}
)

// Foreign is an event of a kind that this version does not know. Raw is the
// whole stored event, which survives untouched.
type Foreign struct{ Raw []byte }

// The values of SkillCalled.Source: which face of the skills was used.
const (
	SourceCommand  = "cmd"       // a line of a command block
	SourceUseSkill = "use_skill" // the JSON tool for all skills
	SourceDirect   = "direct"    // a JSON tool of the skill's own
	SourceRun      = "run"       // a person or program that named the skill
	SourceSchedule = "schedule"
	SourceMCP      = "mcp"
)

// A Cause says why a call of a model came to nothing, for programs: what the
// model reads of it is Content.
type Cause string

// The causes.
const (
	CauseLimit       Cause = "limit"       // a limit was met; the call was not made
	CauseRefused     Cause = "refused"     // the user did not allow it
	CauseWaiting     Cause = "waiting"     // it is not made before the user has answered another task
	CauseInterrupted Cause = "interrupted" // it was cut off; whether it had an effect is not known
	CauseTimeout     Cause = "timeout"     // it took too long; whether it had an effect is not known
	CauseInvalid     Cause = "invalid"     // it cannot be read, or its arguments are wrong
	CauseMissing     Cause = "missing"     // there is no such tool or skill, or none for this agent
	CauseUnavailable Cause = "unavailable" // it cannot be made for the time being
	CauseDenied      Cause = "denied"      // the user may not have it done
)

// Reasons of TaskMoved that programs may act on.
const (
	ReasonInterrupted = "INTERRUPTED"       // the node that ran the task died
	ReasonUnavailable = "AGENT_UNAVAILABLE" // the agent could not be reached
	ReasonNoAnswer    = "NO_TERMINAL_EVENT" // the agent's stream ended without a result
	ReasonPanic       = "AGENT_PANIC"       // the agent crashed in our runtime
	ReasonTimeout     = "TIMEOUT"
	ReasonModel       = "MODEL_FAILED"   // the agent's language model gave no reply
	ReasonNeedsModel  = "MODEL_REQUIRED" // the skill is a text for a language model, and the mesh has none
	ReasonSkill       = "SKILL_FAILED"   // a call of a skill failed that the work was for
	ReasonHandedOff   = "HANDED_OFF"     // the agent's part ended with a handoff
	ReasonIllegal     = "INVALID_AGENT_RESPONSE"
	ReasonApproval    = "APPROVAL_REQUIRED"   // a call waits for the user's yes
	ReasonLimit       = "LIMIT_REACHED"       // a limit was met; the user says whether to go on
	ReasonHelp        = "HELP_REQUIRED"       // it needs something from who dispatched it, see Help; of one that failed: nobody answered in time
	ReasonPermission  = "PERMISSION_REQUIRED" // of refusals: the agent's card requires a permission that the user lacks
	ReasonPolicy      = "FORBIDDEN_BY_POLICY" // of refusals: a policy of the operator forbids it
	ReasonDeclined    = "DECLINED"            // the user did not want it to go on
	ReasonDelivered   = "MESSAGE_DELIVERED"   // the user's further message goes to the agent
	ReasonContinued   = "CONTINUED"           // the agent's work was cut off, and goes on
	ReasonAwaitsPlace = "AWAITS_PLACE"        // of an order, in no event: who dispatched it has as many agents at work as it may
	ReasonAwaitsOther = "AWAITS_DEPENDENCY"   // of an order, in no event: what it depends on is not over
	ReasonQueued      = "NODE_BUSY"           // of an order or a turn: it waits until fewer agents work on the node, or on fewer turns
	ReasonAwaited     = "AGENT_AWAITED"       // its agent is not there, and may be back in a moment
	ReasonUnknown     = "OUTCOME_UNKNOWN"     // nobody can say what became of it: its agent was cut off, and is not asked twice
	ReasonOutput      = "TOO_MUCH_OUTPUT"     // the agent said more than the log takes of one execution
	ReasonReplaced    = "CONTEXT_REPLACED"    // the agent refused its context, and is told anew in another one
	ReasonCanceled    = "CANCELED_BY_USER"    // somebody who may asked that it ends, or that what it works for does
	ReasonDismissed   = "CANCELED_BY_AGENT"   // who dispatched it ended it, or ended without it
	ReasonAsked       = "INPUT_REQUIRED"      // of DispatchSettled: it asked, and whoever answers asks anew
	ReasonDependency  = "DEPENDENCY_FAILED"   // of DispatchSettled: what it depends on did not complete, and it was not asked
)

// FinishAsk is the Finish of a ModelReplied whose text asks the user.
const FinishAsk = "ask"

// ToolUse is a tool call that a model asked for.
type ToolUse struct {
	ID        string
	Name      string
	Arguments string // JSON
}

// Usage counts tokens, as far as the provider told, and what they cost, as far
// as prices are known.
type Usage struct {
	Prompt     int64 `json:"prompt,omitempty"`
	Completion int64 `json:"completion,omitempty"`
	Cached     int64 `json:"cached,omitempty"`      // part of Prompt: read from the provider's cache
	CacheWrite int64 `json:"cache_write,omitempty"` // part of Prompt: written to it
	// Cost is in US dollars. Unpriced counts the tokens that are not in it,
	// because their price is not known.
	Cost     float64 `json:"cost,omitempty"`
	Unpriced int64   `json:"unpriced,omitempty"`
}

// Add returns the sum.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Prompt: u.Prompt + v.Prompt, Completion: u.Completion + v.Completion, Cached: u.Cached + v.Cached,
		CacheWrite: u.CacheWrite + v.CacheWrite, Cost: u.Cost + v.Cost, Unpriced: u.Unpriced + v.Unpriced,
	}
}
