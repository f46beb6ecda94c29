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
// it ends, that the model reads results in the order of its calls, and that
// nothing which the loop started is left when its sequence ends.
//
// Models and tools are called concurrently by the loops of many agents. A Loop
// may run several times at once if its Model and Tools allow that.
//
// The package keeps no conversation: the history comes from the caller, and
// what happened is told to the caller as events.
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
	// Tools are the calls that the assistant made with this message.
	Tools []mesh.ToolUse
	// ToolID says which call a RoleTool message answers.
	ToolID string
	// Name is the tool's name for RoleTool, and otherwise optionally who
	// speaks.
	Name string
	// Failed marks a RoleTool message whose Text says what went wrong.
	Failed bool
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
	Model    string
	System   string
	Messages []Message
	Tools    []Tool
}

// A Chunk is a piece of a reply: exactly one of its fields is set.
type Chunk struct {
	Text string
	// Tool is one complete call.
	Tool *mesh.ToolUse
	Done *Done
}

// Done ends a reply.
type Done struct {
	// Finish is the provider's finish reason, as "stop", "tool_calls",
	// "length" or "content_filter".
	Finish string
	Usage  mesh.Usage
	// Model is the model that answered, as the provider names it.
	Model string
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
