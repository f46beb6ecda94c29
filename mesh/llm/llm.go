// Package llm is the port to language models, and the loop in which a model
// works with tools.
//
// # Model
//
// A [Model] turns a request into a stream of chunks. Package openai reaches
// any OpenAI-compatible endpoint, package offline plans by rules without a
// network, and package scripted answers what a test tells it to. They are
// interchangeable: whoever uses a Model does not know which one it is.
//
// # Loop
//
// A [Loop] asks the model, runs the tools that the reply calls, and asks again
// with their results, until a reply calls none. It guarantees that text is
// reported as it arrives, that each call is reported when it starts and when
// it ends, that the model reads results in the order of its calls, that the
// requests of one run begin with the same bytes, and that nothing which the
// loop started is left when its sequence ends. Only what the model itself says
// in the reply at hand can cause a call: results, histories and memories are
// read and never run, whatever they contain.
//
// A model that needs to know something of the user asks ([Done].Ask): the run ends
// with the question, and the history of the next one has the answer.
//
// What a model may call are JSON tools, and commands in its text, which
// [Commands] takes out of it. A tool's name with a prefix that some models give
// it, as "functions." or "default_api:", means the tool, and is replaced by the
// tool's own in what is logged and sent back.
//
// What a model thought while it wrote a reply ([Thought]) lives as long as one
// Run: the loop sends it back with the reply until the run ends, and no event
// has it. A run that resumes a history, after a pause or a crash, goes on
// without the thoughts of the one before. That costs the model some thinking
// and changes nothing else: providers take a reply without its thoughts, and
// logs hold nothing that only a provider could read.
//
// A result may have passages of documents ([Passage]), which a reply cites by their numbers. The
// loop counts those that are cited from 1, ends the answer with where they are from, and takes any
// other number out: what an answer names as its sources was found, whatever a model or a
// document says.
//
// A provider may have tools of its own, as a search of the web ([Request].NativeTools). They
// have run when the model tells of them ([NativeUse]); the loop reports that and does no more.
//
// Models and tools are called concurrently by the loops of many agents. A Loop
// may run several times at once if its Model and Tools allow that.
//
// # What it is not
//
// The package keeps no conversation: the history comes from the caller, and
// what happened is told to the caller as events. A Loop knows nothing of skills,
// approvals and budgets of calls: Tools do, and tell it by a [ToolResult] that
// the user has to be asked or that a limit was met. What requests may cost and
// how long they may be is for Loop.Cost and Loop.Fit, and which model stands in
// for another one for package fallback.
package llm

import (
	"context"
	"encoding/json"
	"iter"

	"agentmesh/mesh"
)

// A Role says who a message is from.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// A Message is one entry of a conversation with a model.
type Message struct {
	Role Role
	Text string
	// Files came with the text, and are read after it.
	Files []File
	// Tools are the calls that the assistant made with this message.
	Tools []mesh.ToolUse
	// ToolID says which call a RoleTool message answers. A RoleUser message
	// that has one was not written by the user: it brings the results of
	// commands, and belongs to the turn before it.
	ToolID string
	// Name is the tool's name for RoleTool, and otherwise optionally who
	// speaks.
	Name string
	// Failed marks a RoleTool message whose Text says what went wrong, and Cause
	// says for programs what that is, if it is known.
	Failed bool
	Cause  mesh.Cause
	// Metadata is what the skill of a RoleTool message says for programs, a JSON
	// object, or "".
	Metadata string
	// Results are, of a RoleUser message with a ToolID, the results that it
	// brings, in their order: those in Text.
	Results []*CallResult
	// Asks is set on the message of an assistant that the user's next one answers:
	// FinishAsk where the model asks, or, where the mesh asked in its name, why the
	// task waited, as mesh.ReasonLimit.
	Asks string
	// Thoughts are what the model thought while it wrote this message. They
	// last for the turn: histories that come from elsewhere have none.
	Thoughts []Thought
}

// A Thought is what a provider wants to get back of a reply that has calls, so
// that the model need not think it again: bytes that mean something to the
// provider alone, which is told by By. Others leave it out.
type Thought struct {
	By string
	// Text says that the text of the reply came before it, and Calls how many
	// of its calls did.
	Text  bool
	Calls int
	Data  json.RawMessage
}

// A Tool is a function that the model may call.
type Tool struct {
	Name        string
	Description string
	// Parameters is a JSON Schema of type object.
	Parameters json.RawMessage
}

// A Request is what a model answers. Models neither change nor keep it.
type Request struct {
	// Model names the model; "" is the provider's default.
	Model string
	// System is what stays the same from conversation to conversation: who
	// the agent is, its rules and its skills, and who the user is. Providers
	// that can are told to keep it in their cache.
	System string
	// Context is what is known for this conversation, as tasks and memories.
	// It comes after System and before Messages.
	Context  string
	Messages []Message
	// Settled is how many of Messages were there before this turn began, so
	// that calls of the same turn share them. Providers that can are told to
	// keep Context and these in their cache; what comes after is new.
	Settled int
	// Fresh is what changes from turn to turn, as the time of day. It comes
	// with the last message that the user wrote, which is the first after
	// Settled, and is never cached.
	Fresh string
	Tools []Tool
	// NativeTools are tools that the provider itself has and runs, by its names, as
	// "web_search". Models whose provider does not have one leave it out: see [Offers].
	NativeTools []string
	// MaxTokens bounds the reply, in tokens; 0 leaves it to the provider.
	MaxTokens int
	// About says for programs what Fresh and the tools say to a model.
	About About
}

// About is what is known of a request, for models that are programs. Providers
// are not sent it: everything in it is said in words as well.
type About struct {
	// Last says that a limit was met: this is the last reply, and what it calls
	// is not called.
	Last bool
	// Resume says why the run goes on with the user's last message.
	Resume Resume
	// Relayed says that this message answers what other agents asked, and was
	// given to them. What they made of it is in the results of their calls.
	Relayed bool
	// Mission is what another agent asks for, and not the user: the first message
	// says the same in words.
	Mission *Mission
	// Page is what the first message wants carried out; nil for nothing of a skill.
	Page *Page
	// Facts tells what the agent can do; nil where nobody knows.
	Facts func(ctx context.Context) (*Facts, error)
}

// A Page is a skill that is a text for a model to carry out.
type Page struct {
	// Skill is its name, and Text what a model is told.
	Skill, Text string
	// Metadata is what the result of the call that asked for it says for programs, as
	// JSON.
	Metadata string
}

// A Resume says why a run goes on that had stopped for the word of the user.
type Resume string

// The reasons; "" is that of runs which had not stopped.
const (
	ResumeContinue Resume = "continue" // a limit had stopped it, and the user said yes
	ResumeStop     Resume = "stop"     // a limit had stopped it, and the user said something else
	ResumeSettle   Resume = "settle"   // calls had waited for the answer; what came of them is in their results
)

// CommandTool is the name of calls that a model made by a line of a command
// block in its text. Their Arguments are {"line": "tasks.get --recent"}.
const CommandTool = "cmd"

// A Chunk is a piece of a reply: exactly one of its fields is set.
type Chunk struct {
	Text string
	// Tool is one complete call.
	Tool *mesh.ToolUse
	// Native is something that a tool of the provider did.
	Native *NativeUse
	Done   *Done
}

// FinishAsk is the finish reason of replies that ask the user.
const FinishAsk = mesh.FinishAsk

// Done ends a reply.
type Done struct {
	// Finish is the provider's finish reason, as "stop", "tool_calls",
	// "length" or "content_filter".
	Finish string
	// Ask is what the model asks the user, as all that it says in this reply,
	// which calls nothing: the run ends with it and waits for the answer. "" for
	// replies that ask nothing. The Finish of such a reply is FinishAsk.
	Ask   string
	Usage mesh.Usage
	// Model is the model that answered, as the provider names it.
	Model string
	// Thoughts are to come with the message in later requests of the turn.
	Thoughts []Thought
	// Sources are the pages that the reply says it is based on, in their order.
	Sources []Source
}

// A Model answers requests. It is safe for concurrent use.
type Model interface {
	// Generate streams one reply. The last chunk is a Done; a sequence that
	// ends with neither Done nor an error is a bug of the model. Errors are
	// *mesh.Error and end the sequence. Breaking the loop, or the end of ctx,
	// cancels the reply, and when the sequence has ended nothing of it is
	// left running.
	Generate(ctx context.Context, req *Request) iter.Seq2[Chunk, error]
}
