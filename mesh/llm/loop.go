package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
)

// DefaultMaxSteps is how often a loop asks its model with tools (S0-068).
const DefaultMaxSteps = 6

// maxReply bounds one reply with its calls, in bytes: it must fit in an event,
// and a model that repeats itself without end must end.
const maxReply = mesh.MaxEvent / 2

// A ToolResult is what a call came to.
type ToolResult struct {
	// Text is what the model is told.
	Text string
	// Failed says that Text describes a failure.
	Failed bool
	// Stop ends the run once the calls of the reply have ended: the model is
	// not asked again, and Text is for the log only.
	Stop bool
}

// Tools is what a loop may call. Call is called concurrently for the calls of
// one reply.
type Tools interface {
	// List returns the tools sorted by name: the same bytes each time while
	// nothing changed, so that providers can cache the prompt.
	List(ctx context.Context) []Tool
	// Call runs one call. It is only asked for tools that List named, with
	// arguments that are a JSON object.
	Call(ctx context.Context, use mesh.ToolUse) ToolResult
}

// A Batcher is Tools that must see the calls of a reply together, before any
// of them runs.
type Batcher interface {
	Tools
	// Batch is called once for each reply with calls, before Call.
	Batch(ctx context.Context, uses []mesh.ToolUse)
}

// A CallResult is the end of a call.
type CallResult struct {
	Use mesh.ToolUse
	ToolResult
	Duration time.Duration
}

// An Event is what a loop reports while it runs: exactly one of its fields is
// set.
type Event struct {
	// Text is a piece of the reply, as it arrived.
	Text string
	// Reply is one whole reply of the model, after its text.
	Reply *mesh.ModelReplied
	// Call is a call that is about to start.
	Call *mesh.ToolUse
	// Result is a call that ended. Calls that run at the same time end in any
	// order.
	Result *CallResult
	// Limit says that MaxSteps was reached: one last reply without tools
	// follows.
	Limit bool
}

// A Loop asks a model and runs the tools it calls, until it answers without
// calling any. It must not be changed while it runs.
type Loop struct {
	Model Model
	// Tools may be nil for an agent that has none.
	Tools Tools
	// Name is the model to ask for; "" is the provider's default.
	Name   string
	System string
	// MaxSteps is how many replies may call tools; 0 is DefaultMaxSteps. When
	// it is reached, the model is asked once more, without tools, so that the
	// user gets an answer.
	MaxSteps int
	// Logger gets the stacks of tools that panic; nil discards them.
	Logger *slog.Logger
}

// Run answers the last message of history, which it does not change. A failure
// of the model ends it with a *mesh.Error; failures of tools are told to the
// model. Breaking the sequence cancels the model and the calls that are under
// way, and waits for them.
func (l *Loop) Run(ctx context.Context, history []Message) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		r := &run{loop: l, messages: slices.Clone(history), yield: yield, cancel: cancel}
		if err := r.steps(ctx); err != nil && !r.left {
			yield(Event{}, mesh.Wrap("llm.Loop", err))
		}
	}
}

// run is one Run of a loop.
type run struct {
	loop     *Loop
	messages []Message
	yield    func(Event, error) bool
	cancel   context.CancelFunc
	left     bool // the consumer broke the sequence
}

// emit reports e and returns false once nobody listens.
func (r *run) emit(e Event) bool {
	if !r.left && !r.yield(e, nil) {
		r.left = true
		r.cancel()
	}
	return !r.left
}

func (r *run) steps(ctx context.Context) error {
	most := r.loop.MaxSteps
	if most <= 0 {
		most = DefaultMaxSteps
	}
	for range most {
		var tools []Tool
		if r.loop.Tools != nil {
			tools = r.loop.Tools.List(ctx)
		}
		reply, err := r.ask(ctx, tools, false)
		if err != nil || r.left || len(reply.Tools) == 0 {
			return err
		}
		if stop := r.call(ctx, reply.Tools, tools); stop || r.left {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if r.emit(Event{Limit: true}) {
		_, err := r.ask(ctx, nil, true)
		return err
	}
	return nil
}

// ask streams one reply of the model and adds it to the conversation. The last
// reply of a run has no tools: calls that a model makes nevertheless are
// dropped.
func (r *run) ask(ctx context.Context, tools []Tool, last bool) (*mesh.ModelReplied, error) {
	req := &Request{Model: r.loop.Name, System: r.loop.System, Messages: r.messages, Tools: tools}
	var text strings.Builder
	reply := &mesh.ModelReplied{}
	done, size := false, 0
	for c, err := range r.loop.Model.Generate(ctx, req) {
		if err != nil {
			return nil, err
		}
		switch {
		case c.Done != nil:
			done = true
			reply.Model, reply.Usage, reply.Finish = c.Done.Model, c.Done.Usage, c.Done.Finish
		case c.Tool != nil:
			size += len(c.Tool.Name) + len(c.Tool.Arguments)
			if !last {
				reply.Tools = append(reply.Tools, *c.Tool)
			}
		case c.Text != "":
			size += len(c.Text)
			text.WriteString(c.Text)
			if !r.emit(Event{Text: c.Text}) {
				return reply, nil
			}
		}
		if size > maxReply {
			return nil, mesh.Errorf(mesh.Exhausted, "llm.Loop", "The model's reply is longer than %d KiB and was cut off; ask for less at once", maxReply>>10)
		}
	}
	if !done {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, mesh.Errorf(mesh.Unknown, "llm.Loop", "The model's reply ended before it was complete")
	}
	reply.Text = text.String()
	r.identify(reply.Tools)
	r.messages = append(r.messages, Message{Role: RoleAssistant, Text: reply.Text, Tools: reply.Tools})
	r.emit(Event{Reply: reply})
	return reply, nil
}

// identify gives an id to calls that have none, or one that was used before in
// this conversation, so that results can be told apart.
func (r *run) identify(uses []mesh.ToolUse) {
	seen := map[string]bool{"": true}
	for _, m := range r.messages {
		for _, u := range m.Tools {
			seen[u.ID] = true
		}
	}
	for i := range uses {
		for n := i; seen[uses[i].ID]; n++ {
			uses[i].ID = fmt.Sprintf("call-%d-%d", len(r.messages), n)
		}
		seen[uses[i].ID] = true
	}
}

// call runs the calls of one reply in parallel, adds their results to the
// conversation in the order of the calls, and reports whether one of them
// stops the run.
func (r *run) call(ctx context.Context, uses []mesh.ToolUse, tools []Tool) (stop bool) {
	if b, ok := r.loop.Tools.(Batcher); ok {
		b.Batch(ctx, uses)
	}
	results := make([]*CallResult, len(uses))
	ended := make(chan int, len(uses))
	var running sync.WaitGroup
	defer running.Wait()
	started := 0
	for i, use := range uses {
		if !r.emit(Event{Call: &use}) {
			return false
		}
		started++
		running.Go(func() {
			begin := time.Now()
			res := r.callOne(ctx, use, tools)
			results[i] = &CallResult{Use: use, ToolResult: res, Duration: time.Since(begin)}
			ended <- i
		})
	}
	for range started {
		i := <-ended
		stop = stop || results[i].Stop
		if !r.emit(Event{Result: results[i]}) {
			return stop
		}
	}
	for _, res := range results {
		r.messages = append(r.messages, Message{
			Role: RoleTool, Text: res.Text, ToolID: res.Use.ID, Name: res.Use.Name, Failed: res.Failed,
		})
	}
	return stop
}

// callOne runs one call and turns whatever goes wrong into a failed result.
func (r *run) callOne(ctx context.Context, use mesh.ToolUse, tools []Tool) (res ToolResult) {
	if !slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == use.Name }) {
		return ToolResult{Text: "Unknown tool: " + use.Name, Failed: true}
	}
	if strings.TrimSpace(use.Arguments) == "" {
		use.Arguments = "{}"
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(use.Arguments), &object); err != nil || object == nil {
		return ToolResult{Text: fmt.Sprintf("The arguments of %s are not a JSON object; "+
			"call it again with one", use.Name), Failed: true}
	}
	defer func() {
		if p := recover(); p != nil {
			if r.loop.Logger != nil {
				r.loop.Logger.ErrorContext(ctx, "tool panicked", "tool", use.Name, "panic", p,
					"stack", string(debug.Stack()))
			}
			res = ToolResult{Text: "internal error in tool " + use.Name, Failed: true}
		}
	}()
	return r.loop.Tools.Call(ctx, use)
}
