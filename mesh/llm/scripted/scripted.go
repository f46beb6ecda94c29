// Package scripted is a language model for tests: it replies what the test
// told it to, waits where the test wants it to wait, and remembers what it was
// asked.
//
// A reply is a [Step]. Steps are used once each, in order, and only for
// requests that they are meant for, so that one Model can serve several agents
// that run at the same time:
//
//	m := scripted.New(
//		scripted.Call("get_skill", `{}`).For(scripted.System("orchestrator")),
//		scripted.Say("One ", "moment.").Wait("go").Say(" Done.").For(scripted.System("worker")),
//	)
//
// A Model is safe for concurrent use. It has no goroutines. A request that no
// step is left for fails: a test never gets an answer that it did not write.
package scripted

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// A Match says whether a step is meant for a request.
type Match func(*llm.Request) bool

// System matches requests whose system prompt contains s.
func System(s string) Match {
	return func(r *llm.Request) bool { return strings.Contains(r.System, s) }
}

// Last matches requests whose last message contains s.
func Last(s string) Match {
	return func(r *llm.Request) bool {
		return len(r.Messages) > 0 && strings.Contains(r.Messages[len(r.Messages)-1].Text, s)
	}
}

// HasTool matches requests that offer the tool.
func HasTool(name string) Match {
	return func(r *llm.Request) bool {
		return slices.ContainsFunc(r.Tools, func(t llm.Tool) bool { return t.Name == name })
	}
}

// An action is one thing that a step does; exactly one field is set.
type action struct {
	text string
	tool *mesh.ToolUse
	wait string
	err  error
}

// A Step is one reply. Its methods return a longer step and leave s as it is.
// The zero Step is an empty reply.
type Step struct {
	actions []action
	match   []Match
	repeat  bool
	usage   mesh.Usage
	finish  string
	ask     string
}

// Say begins a step that streams the chunks of text.
func Say(chunks ...string) Step { return Step{}.Say(chunks...) }

// Call begins a step that calls the tool with the arguments, a JSON object.
func Call(tool, arguments string) Step { return Step{}.Call(tool, arguments) }

// Wait begins a step that waits at the barrier.
func Wait(barrier string) Step { return Step{}.Wait(barrier) }

// Fail begins a step that ends with the error.
func Fail(err error) Step { return Step{}.Fail(err) }

func (s Step) with(a ...action) Step {
	s.actions = append(slices.Clip(s.actions), a...)
	return s
}

// Say streams the chunks of text.
func (s Step) Say(chunks ...string) Step {
	for _, c := range chunks {
		s = s.with(action{text: c})
	}
	return s
}

// Call calls the tool with the arguments, a JSON object. The id of the call is
// unique within the Model.
func (s Step) Call(tool, arguments string) Step {
	return s.with(action{tool: &mesh.ToolUse{Name: tool, Arguments: arguments}})
}

// Wait holds the reply at the barrier until the test releases it. A barrier
// that was released stays open.
func (s Step) Wait(barrier string) Step { return s.with(action{wait: barrier}) }

// Fail ends the reply with the error.
func (s Step) Fail(err error) Step { return s.with(action{err: err}) }

// For restricts the step to requests that match; several restrictions must all
// hold.
func (s Step) For(m Match) Step {
	s.match = append(slices.Clip(s.match), m)
	return s
}

// Repeat lets the step be used any number of times.
func (s Step) Repeat() Step {
	s.repeat = true
	return s
}

// Usage sets the token counts of the reply.
func (s Step) Usage(u mesh.Usage) Step {
	s.usage = u
	return s
}

// Finish sets the finish reason, which is otherwise "tool_calls" for a reply
// with calls and "stop" for one without.
func (s Step) Finish(reason string) Step {
	s.finish = reason
	return s
}

// Ask is a step that asks the user.
func Ask(question string) Step { return Step{ask: question} }

func (s Step) accepts(r *llm.Request) bool {
	for _, m := range s.match {
		if !m(r) {
			return false
		}
	}
	return true
}

// A Model replies by script. Use [New].
type Model struct {
	mu       sync.Mutex
	steps    []Step
	requests []*llm.Request
	barriers map[string]chan struct{}
	blocked  int
	changed  chan struct{} // closed when blocked changes
	calls    int
}

var _ llm.Model = (*Model)(nil)

// New returns a model with the steps.
func New(steps ...Step) *Model {
	return &Model{steps: slices.Clone(steps), barriers: map[string]chan struct{}{}, changed: make(chan struct{})}
}

// Add appends steps.
func (m *Model) Add(steps ...Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps = append(m.steps, steps...)
}

// Left returns how many steps that do not repeat are still unused.
func (m *Model) Left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, s := range m.steps {
		if !s.repeat {
			n++
		}
	}
	return n
}

// Requests returns copies of the requests so far, in the order they came.
func (m *Model) Requests() []*llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Release opens the barrier for all who wait there and all who come later.
func (m *Model) Release(barrier string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ch := m.barrier(barrier)
	select {
	case <-ch:
	default:
		close(ch)
	}
}

// WaitBlocked returns once at least n replies are held at barriers, or with
// the error of ctx.
func (m *Model) WaitBlocked(ctx context.Context, n int) error {
	for {
		m.mu.Lock()
		enough, changed := m.blocked >= n, m.changed
		m.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return mesh.Wrap("scripted.WaitBlocked", ctx.Err())
		}
	}
}

// Generate replies with the first unused step that is meant for the request.
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		step, ok := m.take(req)
		if !ok {
			yield(llm.Chunk{}, mesh.Errorf(mesh.Unknown, "scripted", "no step for the request: %s", describe(req)))
			return
		}
		finish := "stop"
		for _, a := range step.actions {
			chunk, err := m.do(ctx, a)
			if err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			if chunk.Tool != nil {
				finish = "tool_calls"
			}
			if chunk != (llm.Chunk{}) && !yield(chunk, nil) {
				return
			}
		}
		if step.finish != "" {
			finish = step.finish
		}
		if step.ask != "" {
			finish = llm.FinishAsk
		}
		yield(llm.Chunk{Done: &llm.Done{Finish: finish, Ask: step.ask, Usage: step.usage, Model: "scripted"}}, nil)
	}
}

func (m *Model) take(req *llm.Request) (Step, bool) {
	kept := *req
	kept.Messages, kept.Tools = slices.Clone(req.Messages), slices.Clone(req.Tools)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, &kept)
	i := slices.IndexFunc(m.steps, func(s Step) bool { return s.accepts(&kept) })
	if i < 0 {
		return Step{}, false
	}
	s := m.steps[i]
	if !s.repeat {
		m.steps = slices.Delete(slices.Clone(m.steps), i, i+1)
	}
	return s, true
}

func (m *Model) do(ctx context.Context, a action) (llm.Chunk, error) {
	if err := ctx.Err(); err != nil {
		return llm.Chunk{}, mesh.Wrap("scripted.Generate", err)
	}
	switch {
	case a.err != nil:
		return llm.Chunk{}, a.err
	case a.wait != "":
		return llm.Chunk{}, m.hold(ctx, a.wait)
	case a.tool != nil:
		use := *a.tool
		m.mu.Lock()
		m.calls++
		use.ID = fmt.Sprintf("scripted-%d", m.calls)
		m.mu.Unlock()
		return llm.Chunk{Tool: &use}, nil
	}
	return llm.Chunk{Text: a.text}, nil
}

func (m *Model) hold(ctx context.Context, barrier string) error {
	m.mu.Lock()
	ch := m.barrier(barrier)
	m.block(+1)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.block(-1)
		m.mu.Unlock()
	}()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return mesh.Wrap("scripted.Generate", ctx.Err())
	}
}

// block changes the number of held replies; m.mu is held.
func (m *Model) block(by int) {
	m.blocked += by
	close(m.changed)
	m.changed = make(chan struct{})
}

// barrier returns the barrier's channel; m.mu is held.
func (m *Model) barrier(name string) chan struct{} {
	ch, ok := m.barriers[name]
	if !ok {
		ch = make(chan struct{})
		m.barriers[name] = ch
	}
	return ch
}

// describe says enough about a request to find out which step is missing.
func describe(r *llm.Request) string {
	last := "no messages"
	if n := len(r.Messages); n > 0 {
		last = fmt.Sprintf("last message (%s) %.80q", r.Messages[n-1].Role, r.Messages[n-1].Text)
	}
	return fmt.Sprintf("system %.60q, %s, %d tools", r.System, last, len(r.Tools))
}
