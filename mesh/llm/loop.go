package llm

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
)

// DefaultMaxSteps is how often a loop asks its model with tools (S0-068).
const DefaultMaxSteps = 6

// LimitSteps is the name of the limit that MaxSteps sets.
const LimitSteps = "agent.steps"

// maxEmpty is how often in a row a model that said nothing is asked again.
const maxEmpty = 2

// A Trip says which limit stopped something.
type Trip struct {
	// Limit is its name, as "agent.steps".
	Limit string
	Used  int64
	Most  int64
	// Detail is a sentence for people.
	Detail string
	// Free is when there is room again, of limits of which that is known.
	Free time.Time
	// Conclude has the model answer once more without tools, also where the run pauses.
	Conclude bool
}

// An Ask is a call that waits for the word of the user, or, without a call, what
// the model itself asks.
type Ask struct {
	Use  mesh.ToolUse // without ID and Name if the model asks
	Text string       // what the user is asked
}

// An Event is what a loop reports while it runs: exactly one of its fields is
// set.
type Event struct {
	// Text is a piece of the reply, as it arrived, without commands, and with the
	// sources that it cites.
	Text string
	// Reply is one whole reply of the model, after its text. Its Text is what
	// the model wrote, with the commands that are in it.
	Reply *mesh.ModelReplied
	// Call is a call that is about to start.
	Call *mesh.ToolUse
	// Result is a call that ended. Calls that run at the same time end in any
	// order.
	Result *CallResult
	// Delivered is what became of agents, which the model is told next.
	Delivered *Delivery
	// Native is what a tool of the provider did, which needs no result.
	Native *NativeUse
	// Limit is the limit that was met. With Pause the run ends here; otherwise
	// one last reply without tools follows.
	Limit *Trip
	// Ask is a call that has no result until the user has said something, or a
	// question of the model. The run ends after the last Ask of a reply.
	Ask *Ask
}

// A Call is one call of the model, for telemetry.
type Call struct {
	// Model is who answered, or, if nobody did, who was asked.
	Model string
	// Iteration counts the model calls of the run from 1.
	Iteration int
	// Input, Cached, CacheWrite and Output are tokens, as far as the provider
	// told. Cached and CacheWrite are part of Input.
	Input, Cached, CacheWrite, Output int64
	// HitRatio is the part of Input that came from the provider's cache, from
	// 0 to 1.
	HitRatio float64
	Duration time.Duration
	// Err is why there is no whole reply, or nil.
	Err error
}

// A Loop asks a model and runs the tools it calls, until it answers without
// calling any. It must not be changed while it runs.
type Loop struct {
	Model Model
	// Tools may be nil for an agent that has none.
	Tools Tools
	// Commands takes commands out of the model's text, which are then called
	// as CommandTool; nil leaves the text as it is.
	Commands Commands

	// Told returns what else the model is to read now: it is asked before each call of
	// the model, and after a reply that calls nothing, which ends the run only if there is
	// nothing. Nil tells nothing.
	Told func(ctx context.Context) ([]Message, error)
	// Collector brings results of agents before each call of the model; a reply that
	// calls nothing ends the run only when the Collector has nothing more. Nil, for
	// agents that set no others to work, changes nothing.
	Collector Collector
	// Answered says that the last reply in the history called nothing: the run goes on
	// where that left it, with what the Collector brings, or ends.
	Answered bool

	// Name is the model to ask for; "" is the provider's default.
	Name string
	// System, Context, Fresh and MaxTokens are those of every Request. The
	// requests of a run differ in nothing but the messages that the run added
	// at their end, so that providers can cache what they have in common, and
	// in Tools where List returns others or the last reply has none.
	System    string
	Context   string
	Fresh     string
	MaxTokens int
	// NativeTools are those of every Request but the last reply's, which has no tools.
	NativeTools []string
	// About is that of every Request, but for Last, which the run knows.
	About About

	// MaxSteps is how many replies may call tools; 0 is DefaultMaxSteps.
	MaxSteps int
	// Check is asked before every model call, which step counts from 1, and
	// returns the limit that was met, or nil. Nil checks nothing.
	Check func(ctx context.Context, step int) *Trip
	// Afford is asked before every model call, the last one too, whether what is left
	// pays for it: for the request, which next returns, after one that used last. It
	// returns the limit if not, and the model is not asked. Nil pays for all.
	Afford func(ctx context.Context, next func() *Request, last mesh.Usage) *Trip
	// Pause ends the run when a limit is met, so that the user can be asked
	// whether to go on. Without it the model is asked once more, without
	// tools, so that the user gets an answer.
	Pause bool
	// Timeout bounds one call of a tool that is no command and that does not
	// wait (see [Waiter]); 0 leaves that to the tools. A call that runs beside
	// others and ignores the end of its context is given up then; Run waits for
	// it before it returns.
	Timeout time.Duration
	// MaxResult bounds what the model is told of one call, in bytes; 0 is
	// mesh.MaxResult. What is longer is cut, with a note how to get the rest.
	MaxResult int

	// Fit makes the request smaller if it has to be, by dropping messages at
	// its beginning, and returns how many, as window.Trim does. They stay
	// dropped for the rest of the run. last is the usage of the run's request
	// before it, or zero. Nil sends everything.
	Fit func(req *Request, last mesh.Usage) (dropped int)
	// Cost puts prices on the usage of a reply, as price.Table.Cost does. Nil
	// leaves it as the model told.
	Cost func(model string, u mesh.Usage) mesh.Usage
	// Observe is told of every call of the model when it ended; nil for
	// nobody. It must not block.
	Observe func(ctx context.Context, c Call)
	// Logger gets the stacks of tools that panic; nil discards them.
	Logger *slog.Logger
}

// Run answers the last message of history, which it does not change. If the
// last reply in history has calls without results, because a call waited for
// the user or the run was cut, these are run first. A failure of the model
// ends the run with a *mesh.Error; failures of tools are told to the model. A
// model that says nothing and calls nothing is asked again, twice; if it never
// said anything in the run, that is a failure, unless a limit was met: who runs the loop
// was told of it. Breaking the sequence cancels
// the model and the calls that are under way, and waits for them.
func (l *Loop) Run(ctx context.Context, history []Message) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		r := &run{loop: l, yield: yield, cancel: cancel}
		defer r.running.Wait()
		defer cancel()
		if err := r.steps(ctx, history); err != nil && !r.left {
			yield(Event{}, mesh.Wrap("llm.Loop", err))
		}
	}
}

// run is one Run of a loop.
type run struct {
	loop     *Loop
	messages []Message // calls are paired with their results, commands too
	yield    func(Event, error) bool
	cancel   context.CancelFunc
	left     bool           // the consumer broke the sequence
	running  sync.WaitGroup // calls; Run waits for them

	asked   int        // model calls
	empty   int        // replies in a row that said nothing
	said    bool       // some reply had text
	called  bool       // some call was made
	trip    *Trip      // a limit that a call met
	dropped int        // messages at the beginning that are no longer sent
	last    mesh.Usage // of the last reply
	thought []Thought  // of the last reply
	cites   citer      // what replies cite
}

// emit reports e and returns false once nobody listens.
func (r *run) emit(e Event) bool {
	if !r.left && !r.yield(e, nil) {
		r.left = true
		r.cancel()
	}
	return !r.left
}

func (r *run) steps(ctx context.Context, history []Message) error {
	if end := r.resume(ctx, history); end || r.left {
		return nil
	}
	if r.loop.Answered {
		if more, _ := r.wait(ctx); !more {
			return ctx.Err()
		}
	}
	most := r.loop.MaxSteps
	if most <= 0 {
		most = DefaultMaxSteps
	}
	for used := 0; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		trip := r.check(ctx, used, most)
		if !r.drain(ctx, trip != nil) {
			return nil
		}
		if trip != nil {
			return r.limit(ctx, trip)
		}
		if _, err := r.hear(ctx); err != nil {
			return err
		}
		tools := r.tools(ctx)
		reply, problem, err := r.ask(ctx, tools, nil)
		if err != nil || r.left {
			return err
		}
		if silent(reply) {
			if more, end := r.wait(ctx); more { // it has nothing to say before it knows more
				continue
			} else if end {
				return ctx.Err()
			}
			if r.empty++; r.empty <= maxEmpty && reply.Finish != finishFilter {
				continue
			}
			return failed(ctx, r.silence(reply))
		}
		r.empty = 0
		if reply.Finish == FinishAsk {
			if r.loop.Collector != nil {
				r.loop.Collector.Suspend()
			}
			r.emit(Event{Ask: &Ask{Text: reply.Text}})
			return nil
		}
		if len(reply.Tools) == 0 {
			if more, err := r.hear(ctx); err != nil {
				return err
			} else if more {
				continue
			}
			if more, end := r.wait(ctx); more {
				continue
			} else if end {
				return ctx.Err()
			}
			return nil
		}
		used++
		results, end := r.call(ctx, reply.Tools, tools, problem)
		if end || r.left {
			return nil
		}
		r.messages = append(r.messages, toolMessages(results)...)
	}
}

// hear adds what the model was told meanwhile, and reports whether there was something.
func (r *run) hear(ctx context.Context) (more bool, err error) {
	if r.loop.Told == nil {
		return false, nil
	}
	told, err := r.loop.Told(ctx)
	r.messages = append(r.messages, told...)
	return len(told) > 0, err
}

func (r *run) tools(ctx context.Context) []Tool {
	if r.loop.Tools == nil {
		return nil
	}
	return r.loop.Tools.List(ctx)
}

// check returns the limit that stands before the next call of the model.
func (r *run) check(ctx context.Context, used, most int) *Trip {
	if r.trip != nil {
		return r.trip
	}
	if r.loop.Check != nil {
		if trip := r.loop.Check(ctx, r.asked+1); trip != nil {
			return trip
		}
	}
	if trip := r.afford(ctx, nil); trip != nil {
		return trip
	}
	if used < most {
		return nil
	}
	return &Trip{
		Limit: LimitSteps, Used: int64(used), Most: int64(most),
		Detail: text.LastReply(),
	}
}

// afford returns the limit that keeps the model from being asked, after the trip of
// another one if there was one.
func (r *run) afford(ctx context.Context, trip *Trip) *Trip {
	if r.loop.Afford == nil {
		return nil
	}
	return r.loop.Afford(ctx, func() *Request {
		if trip != nil {
			return r.request(nil, trip)
		}
		return r.request(r.tools(ctx), nil)
	}, r.last)
}

// limit ends the run because of the trip: at once, or with a last reply, if there is
// enough left for one.
func (r *run) limit(ctx context.Context, trip *Trip) error {
	if !r.emit(Event{Limit: trip}) || r.loop.Pause && !trip.Conclude || r.afford(ctx, trip) != nil {
		return nil
	}
	for {
		reply, _, err := r.ask(ctx, nil, trip)
		if err != nil || r.left || !silent(reply) {
			return err
		}
		switch r.empty++; {
		case reply.Finish == finishFilter:
			return failed(ctx, r.silence(reply))
		case r.empty > maxEmpty: // what was done stands, and the limit says why there is no more
			return nil
		}
	}
}

// silence is how a run ends whose model says nothing any more.
func (r *run) silence(reply *mesh.ModelReplied) error {
	switch {
	case r.said:
		return nil
	case reply.Finish == finishFilter:
		return mesh.Errorf(mesh.Precondition, "llm.Loop", "The content filter of the model's provider withheld the answer; say it in other words")
	case reply.Finish == finishLength:
		return mesh.Errorf(mesh.Exhausted, "llm.Loop", "The model used up the length of its reply before it said anything; raise the limit of tokens, or ask for less at once")
	case r.called:
		return mesh.Errorf(mesh.Unavailable, "llm.Loop", "The model gave no answer; what its calls did stands")
	}
	return mesh.Errorf(mesh.Unavailable, "llm.Loop", "The model gave no answer; send the message again, or use another model")
}
