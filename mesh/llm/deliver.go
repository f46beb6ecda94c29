package llm

import (
	"context"
	"encoding/json"

	"agentmesh/mesh"
)

// A Collector brings a model what becomes of the agents that it set to work, without its
// asking. It is called by one goroutine at a time.
type Collector interface {
	// Drain returns what has come, each result once, and does not wait. last says that
	// only one reply follows, which calls nothing.
	Drain(ctx context.Context, last bool) []Delivery
	// Wait returns the same for a model that has answered, as soon as there is some.
	// Nothing means that nothing more comes; then ask is what the user has to be asked
	// before anything goes on, or nil.
	Wait(ctx context.Context) (come []Delivery, ask *Ask)
	// Suspend says that the run ends with a question to the user and goes on with the
	// answer: what is at work ends by itself, and is delivered then.
	Suspend()
}

// A Delivery is a message to the model that the user did not write: what became of
// agents.
type Delivery struct {
	// Executions are those of the agents, at least one.
	Executions []mesh.ExecutionID
	Text       string
	// Results are the same for programs: see [AgentResult].
	Results []*CallResult
}

// Message is the delivery as an entry of a conversation.
func (d Delivery) Message() Message {
	return Message{Role: RoleUser, Text: d.Text, ToolID: string(d.Executions[0]), Results: d.Results}
}

// AgentTool is the name of the call in an [AgentResult]; no tool has it.
const AgentTool = "agent"

// AgentResult is what became of an agent that was set to work under the id: the status
// is the Metadata of the result.
func AgentResult(execution mesh.ExecutionID, id, status, result string) *CallResult {
	args, err := json.Marshal(map[string]string{"agent_id": id})
	if err != nil {
		panic(err) // of a text
	}
	return &CallResult{Use: mesh.ToolUse{ID: string(execution), Name: AgentTool, Arguments: string(args)}, ToolResult: ToolResult{Text: result, Metadata: status}}
}

// drain adds what has come to the conversation. It returns false once nobody listens.
func (r *run) drain(ctx context.Context, last bool) bool {
	if r.loop.Collector == nil {
		return true
	}
	return r.deliver(r.loop.Collector.Drain(ctx, last))
}

func (r *run) deliver(come []Delivery) bool {
	for _, d := range come {
		r.messages = append(r.messages, d.Message())
		if !r.emit(Event{Delivered: &d}) {
			return false
		}
	}
	return true
}

// wait is what follows a reply that calls nothing: more, if agents brought something;
// end, if the run is over because the user has to be asked, or nobody listens.
func (r *run) wait(ctx context.Context) (more, end bool) {
	if r.loop.Collector == nil {
		return false, false
	}
	come, ask := r.loop.Collector.Wait(ctx)
	switch {
	case len(come) > 0:
		more = r.deliver(come)
		return more, !more
	case ctx.Err() != nil:
		return false, true
	case ask != nil:
		r.emit(Event{Ask: ask})
		return false, true
	}
	return false, r.left
}
