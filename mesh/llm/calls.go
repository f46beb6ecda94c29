package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
)

// A ToolResult is what a call came to.
type ToolResult struct {
	// Text is what the model is told.
	Text string
	// Failed says that Text describes a failure, and Cause which, if that is
	// known.
	Failed bool
	Cause  mesh.Cause
	// Metadata is that of Message.
	Metadata string
	// Stop ends the run once the calls of the reply have ended: the model is
	// not asked again, and Text is for the log only.
	Stop bool
	// Ask is what the user is asked before the call may happen, or "". The
	// call then has no result: the other calls of the reply end, the run ends
	// with Event.Ask, and a run whose history ends so makes the call again.
	Ask string
	// Delivered are executions of agents whose results Text tells for the first time.
	Delivered []mesh.ExecutionID
	// Trip says that the call met a limit, which then stands before the next
	// call of the model.
	Trip *Trip
}

// Tools is what a loop may call. Call is called concurrently for the calls of
// one reply.
type Tools interface {
	// List returns the tools sorted by name: the same bytes each time while
	// nothing changed, so that providers can cache the prompt.
	List(ctx context.Context) []Tool
	// Call runs one call. It is only asked for tools that List named, and for
	// CommandTool of loops with Commands, with arguments that are a JSON
	// object.
	Call(ctx context.Context, use mesh.ToolUse) ToolResult
}

// A Batcher is Tools that set agents to work together for the calls of a reply.
type Batcher interface {
	Tools
	// Batch is called once for each reply with calls, with all of them: after those that
	// find out or end something and before those that wait. It has no time but that of the
	// run: what began is not to be told as given up.
	Batch(ctx context.Context, uses []mesh.ToolUse)
	// Follows reports whether calls of the tool tell what came of the batch, and run after
	// it.
	Follows(name string) bool
}

// A Discoverer is Tools of which some only find out what the others can do.
type Discoverer interface {
	Tools
	// Discovers reports whether calls of the tool run before the others of
	// their reply, one after the other.
	Discovers(name string) bool
}

// A Waiter is Tools of which some calls wait by design, for other agents or for
// skills, and have a bound of their own: Loop.Timeout is not for them.
type Waiter interface {
	Tools
	// Waits reports whether calls of the tool wait.
	Waits(name string) bool
}

// A CallResult is the end of a call.
type CallResult struct {
	Use mesh.ToolUse
	ToolResult
	Duration time.Duration
}

// A batch is the calls of one reply under way.
type batch struct {
	uses    []mesh.ToolUse
	tools   []Tool
	results []*CallResult // nil for those that have not ended
}

// listedName returns the name of the tool that is meant. Some models put the
// name of a namespace before it, as in "default_api:dispatch_agent" and
// "functions.use_skill".
func listedName(name string, tools []Tool) string {
	listed := func(n string) bool { return slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == n }) }
	if listed(name) {
		return name
	}
	for _, mark := range []string{":", "."} {
		if i := strings.LastIndex(name, mark); i >= 0 && listed(name[i+1:]) {
			return name[i+1:]
		}
	}
	return name
}

// call runs the calls of one reply in their phases. It returns the results in the order of
// the calls, and whether the run ends with them. With a problem, the last call stands for it
// and is not run.
func (r *run) call(ctx context.Context, uses []mesh.ToolUse, tools []Tool, problem string) (results []*CallResult, end bool) {
	r.called = true
	b := &batch{uses, tools, make([]*CallResult, len(uses))}
	wrong := -1
	if problem != "" {
		wrong = len(uses) - 1
	}
	p := r.order(b.uses, wrong)
	ok := r.inTurn(ctx, b, p.discovery) && r.beside(ctx, b, p.local) && r.inTurn(ctx, b, p.commands)
	if all, batches := r.loop.Tools.(Batcher); ok && batches {
		all.Batch(ctx, b.uses)
	}
	ok = ok && r.beside(ctx, b, p.batched) && r.beside(ctx, b, p.waits)
	if ok && wrong >= 0 {
		r.settle(b, wrong, ToolResult{Text: problem, Failed: true, Cause: mesh.CauseInvalid}, 0)
	}
	return b.results, r.conclude(b) || r.left
}

// phases are the calls of a reply in the order in which they run: those that only find out
// what there is, one after the other; then what needs nobody else, the commands one after the
// other; then, when a [Batcher] has set agents to work, those that tell what came of it; and
// last those that wait, for others or for skills, which hold nothing up so.
type phases struct{ discovery, local, commands, batched, waits []int }

// order puts the calls into their phases, without the one that is wrong.
func (r *run) order(uses []mesh.ToolUse, wrong int) (p phases) {
	d, _ := r.loop.Tools.(Discoverer)
	all, _ := r.loop.Tools.(Batcher)
	waits, _ := r.loop.Tools.(Waiter)
	for i, u := range uses {
		switch {
		case i == wrong:
		case r.loop.Commands != nil && u.Name == CommandTool:
			p.commands = append(p.commands, i)
		case d != nil && d.Discovers(u.Name):
			p.discovery = append(p.discovery, i)
		case waits != nil && waits.Waits(u.Name):
			p.waits = append(p.waits, i)
		case all != nil && all.Follows(u.Name):
			p.batched = append(p.batched, i)
		default:
			p.local = append(p.local, i)
		}
	}
	return p
}

// beside runs calls at the same time, and one that is alone here.
func (r *run) beside(ctx context.Context, b *batch, at []int) bool {
	if len(at) < 2 {
		return r.inTurn(ctx, b, at)
	}
	return r.together(ctx, b, at)
}

// inTurn runs calls one after the other, without goroutines. Those after a
// call that asks the user wait with it. It returns false once nobody listens, or
// ctx has ended: what has not begun then never does.
func (r *run) inTurn(ctx context.Context, b *batch, at []int) bool {
	for _, i := range at {
		use := b.uses[i]
		if ctx.Err() != nil || !r.emit(Event{Call: &use}) {
			return false
		}
		begin := time.Now()
		res := r.callInTime(ctx, b.uses[i], b.tools)
		if !r.settle(b, i, res, time.Since(begin)) {
			return false
		}
		if res.Ask != "" {
			return true
		}
	}
	return true
}

// together runs calls at the same time. A call that is late is given up, and
// left to Run to wait for. It returns false once nobody listens.
func (r *run) together(ctx context.Context, b *batch, at []int) bool {
	type end struct {
		i    int
		res  ToolResult
		took time.Duration
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	ended := make(chan end, len(at))
	for _, i := range at {
		use := b.uses[i]
		if ctx.Err() != nil || !r.emit(Event{Call: &use}) {
			return false
		}
		r.running.Go(func() {
			res := crashed(b.uses[i].Name) // stands if the tool ends this goroutine
			defer func() { ended <- end{i, res, time.Since(begin)} }()
			res = r.callInTime(ctx, b.uses[i], b.tools)
		})
	}
	var late <-chan time.Time
	if r.loop.Timeout > 0 {
		timer := time.NewTimer(r.loop.Timeout)
		defer timer.Stop()
		late = timer.C
	}
	took := func(e end) bool { // unless it was given up before
		return b.results[e.i] != nil || r.settle(b, e.i, e.res, e.took)
	}
	for slices.ContainsFunc(at, func(i int) bool { return b.results[i] == nil }) {
		select {
		case e := <-ended:
			if !took(e) {
				return false
			}
		case <-late:
			for range len(ended) { // what ended in time is not late because of others
				if !took(<-ended) {
					return false
				}
			}
			for _, i := range at {
				if b.results[i] == nil && r.bound(b.uses[i].Name) > 0 && !r.settle(b, i, r.overdue(b.uses[i].Name), time.Since(begin)) {
					return false
				}
			}
		}
	}
	return true
}

// bound is how long a call of the tool may take, or 0 for as long as it does.
func (r *run) bound(tool string) time.Duration {
	if tool == CommandTool {
		return 0
	}
	if w, ok := r.loop.Tools.(Waiter); ok && w.Waits(tool) {
		return 0
	}
	return r.loop.Timeout
}

// settle keeps what a call came to, and reports it unless it asks the user.
func (r *run) settle(b *batch, i int, res ToolResult, took time.Duration) bool {
	res.Text = cut(res.Text, cmp.Or(r.loop.MaxResult, mesh.MaxResult))
	b.results[i] = &CallResult{Use: b.uses[i], ToolResult: res, Duration: took}
	if res.Ask != "" {
		return !r.left
	}
	return r.emit(Event{Result: b.results[i]})
}

// conclude looks at the results of a reply: what the user is asked is
// reported, a limit that was met is kept, and it says whether the run ends.
func (r *run) conclude(b *batch) (end bool) {
	for _, res := range b.results {
		if res == nil {
			continue // it waits behind one that asks, or nobody listens
		}
		end = end || res.Stop
		if r.trip == nil {
			r.trip = res.Trip
		}
		if res.Ask != "" {
			end = true
			r.emit(Event{Ask: &Ask{Use: res.Use, Text: res.Ask}})
		}
	}
	return end
}

// toolMessages are the results that there are, as messages.
func toolMessages(results []*CallResult) []Message {
	var out []Message
	for _, res := range results {
		if res != nil && res.Ask == "" {
			out = append(out, Message{
				Role: RoleTool, Text: res.Text, ToolID: res.Use.ID, Name: res.Use.Name, Failed: res.Failed, Cause: res.Cause, Metadata: res.Metadata,
			})
		}
	}
	return out
}

// callInTime is callOne with the tool's bound as the deadline of its context.
func (r *run) callInTime(ctx context.Context, use mesh.ToolUse, tools []Tool) ToolResult {
	most := r.bound(use.Name)
	if most <= 0 {
		return r.callOne(ctx, use, tools)
	}
	timed, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	res := r.callOne(timed, use, tools)
	if res.Failed && timed.Err() != nil && ctx.Err() == nil {
		return r.overdue(use.Name)
	}
	return res
}

// callOne runs one call and turns whatever goes wrong into a failed result.
func (r *run) callOne(ctx context.Context, use mesh.ToolUse, tools []Tool) (res ToolResult) {
	command := use.Name == CommandTool && r.loop.Commands != nil && r.loop.Tools != nil
	if !command && !slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == use.Name }) {
		return ToolResult{Text: text.UnknownTool(use.Name), Failed: true, Cause: mesh.CauseMissing}
	}
	if strings.TrimSpace(use.Arguments) == "" {
		use.Arguments = "{}"
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(use.Arguments), &object); err != nil || object == nil {
		return ToolResult{Text: text.NoObject(use.Name), Failed: true, Cause: mesh.CauseInvalid}
	}
	defer func() {
		if p := recover(); p != nil {
			if r.loop.Logger != nil {
				r.loop.Logger.ErrorContext(ctx, "tool panicked", "tool", use.Name, "panic", p,
					"stack", string(debug.Stack()))
			}
			res = crashed(use.Name)
		}
	}()
	return r.loop.Tools.Call(ctx, use)
}

func crashed(tool string) ToolResult {
	return ToolResult{Text: text.ToolCrashed(tool), Failed: true, Cause: mesh.CauseInterrupted}
}

func (r *run) overdue(tool string) ToolResult {
	return ToolResult{Text: text.ToolLate(tool, r.loop.Timeout), Failed: true, Cause: mesh.CauseTimeout}
}

// cut shortens text to most bytes, at the end of a line if there is one not
// too far, and says what is missing.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := max(0, most-maxNote)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	if line := strings.LastIndexByte(s[:n], '\n'); line > n/2 {
		n = line
	}
	return s[:n] + text.LeftOut(len(s)-n, len(s))
}

// maxNote is how long the note about what is left out is, at most.
const maxNote = 160
