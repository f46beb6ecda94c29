package modelrun

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/telemetry"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// Options is how an agent lets a model answer a message.
type Options struct {
	Model llm.Model
	// Name is the model to ask for; "" is the provider's default.
	Name string
	// System, Context and Fresh are those of llm.Request.
	System, Context, Fresh string
	// Collector brings results of agents, for those that have others work; nil for none.
	Collector llm.Collector
	// Tools may be nil. Commands is set where the model calls them in its text.
	Tools    llm.Tools
	Commands llm.Commands
	// NativeTools are those of llm.Request.
	NativeTools []string
	// Page is what the model carries out, if the execution is for a skill that is one:
	// see skilltools.Tools.RunCall. Without one the model answers the message, and is
	// shown as much of the conversation as Fit leaves.
	Page *llm.Page
	// MaxSteps is how many replies may call tools; 0 is llm.DefaultMaxSteps.
	MaxSteps int
	// Pause asks the user whether to go on also when the agent's own limits are
	// met, for agents that have the user's stream. Others answer with what they
	// have then.
	Pause bool
	// Fit and Cost are those of llm.Loop: the window of the model, and its
	// prices.
	Fit  func(req *llm.Request, last mesh.Usage) (dropped int)
	Cost func(model string, u mesh.Usage) mesh.Usage
	// Progress returns what the user is told when a tool starts; false for
	// nothing. By default nothing is.
	Progress func(use mesh.ToolUse) (agent.Progress, bool)
	// Logger gets the model calls and the stacks of tools that panic. The
	// default discards.
	Logger *slog.Logger
}

// An Asker is Tools of which some calls wait for other agents, and those for the
// user.
type Asker interface {
	// Asked returns what the call that asks waits for, once all calls of its reply
	// have ended: what is asked about calls, and the report of a limit or nil;
	// false if it asks for itself.
	Asked(ctx context.Context, call string) (questions []mesh.Question, report *agent.Report, ok bool)
}

// A Limiter is Tools that work for others beside their calls, and may meet a limit so: it
// then stands before the next call of the model.
type Limiter interface{ Limit() *llm.Trip }

// A Reporter is Tools by which others work. Report is asked when the run pauses because of
// a limit. It returns when nothing is at work any more, with what the user has to be asked
// for the others' sake, and what they did and did not begin.
type Reporter interface {
	Report(ctx context.Context) (questions []mesh.Question, report agent.Report)
}

// A Settler is Tools that record some results of calls in the thread
// themselves, so that the run need not.
type Settler interface {
	Settles(call string) bool
}

// Run lets the model answer the invocation's message: it yields the text
// as it comes, records every reply and what its calls came to in the thread,
// and ends when the model has answered or asked the user something, a tool stops
// it, a call has to wait for the user, or a limit was met that counts for the whole turn, conversation or
// user (with Pause, any limit); the user is then asked. The next
// message of the user finds everything where it was: calls that wait are made,
// and what is done is not done again. After a limit, a plain no ends the work of
// an agent that another one dispatched, as canceled; one that the user talks to
// answers it. A failure of the model ends the run with its error.
func Run(ctx context.Context, inv *agent.Invocation, run Options) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		m := modelRun{inv: inv, Options: run}
		if m.Logger == nil {
			m.Logger = slog.New(slog.DiscardHandler)
		}
		err := m.prepare(ctx)
		if m.said != "" && !yield(agent.Text{Text: m.said}, nil) {
			return
		}
		for e, failure := range m.events(ctx, err) {
			out, err := m.output(ctx, e, failure)
			if err != nil {
				m.leave(ctx)
				yield(nil, err)
				return
			}
			if out != nil && !yield(out, nil) {
				m.leave(ctx)
				return
			}
			if m.pauses() && !m.trip.Conclude {
				break
			}
		}
		ask := m.ask(ctx)
		switch err := m.end(ctx); {
		case err != nil:
			yield(nil, err)
		case ask.Text != "":
			yield(ask, nil)
		case m.trip != nil && m.said == "": // nothing was left for a last word
			yield(agent.Text{Text: text.LimitEnded(m.trip.Limit, m.trip.Used, m.trip.Most)}, nil)
		}
	}
}

// modelRun is one Run under way.
type modelRun struct {
	Options
	inv      *agent.Invocation
	history  []llm.Message
	pending  []*mesh.Event
	asks     []mesh.Question // about calls that the user is asked to allow when the run is over
	reports  []agent.Report  // of agents that met a limit
	trip     *llm.Trip
	about    llm.About
	before   actions    // what was done and open when the user answered
	open     []string   // calls that the limit kept from happening
	said     string     // the last text
	asking   string     // what the model asks the user
	help     *agent.Ask // what the model asks who dispatched the agent, or nil
	answered bool       // before the run was cut off: the model has nothing more to say, unless it hears of agents
	gap      bool       // a reply with text ended: what comes next is a new paragraph
}

// prepare reads the conversation, and what it takes to go on where it stopped.
func (m *modelRun) prepare(ctx context.Context) (err error) {
	m.about.Page, m.about.Facts = m.Page, facts(m.Tools)
	if m.about.Mission, err = missionOf(ctx, m.inv); err != nil {
		return err
	}
	if err = m.mayAsk(ctx); err != nil {
		return err
	}
	switch {
	case m.Page != nil:
		if m.history, err = carryOut(ctx, m.inv, m.Page.Text); err != nil {
			return err
		}
	case m.about.Mission != nil && !m.inv.GoesOn(): // it knows nothing else, however long the thread is
		m.history = []llm.Message{said(text.Task(m.inv.Text()), m.inv.Message)}
	default:
		m.history, err = Conversation(ctx, m.inv, m.fills(ctx))
		switch {
		case err != nil && m.inv.GoesOn():
			return err
		case err != nil: // an answer without memory is better than none
			m.Logger.WarnContext(ctx, "the conversation cannot be read", "thread", m.inv.Thread, "err", err)
			m.history = []llm.Message{said(m.inv.Text(), m.inv.Message)}
		}
	}
	if err := m.show(ctx); err != nil {
		return err
	}
	if m.inv.Continued {
		if err := m.retell(ctx); err != nil {
			return err
		}
	}
	if !m.inv.Resumed {
		return nil
	}
	did, err := m.inv.Mesh.Actions(ctx)
	if err != nil {
		return err
	}
	before := soFar(did)
	m.before = before
	note, answer := "", mesh.AnswerOf(m.inv.Text())
	switch answered := answered(did); {
	case len(answered) > 0:
		m.about.Resume, note = llm.ResumeSettle, text.Settle(answered, before.done)
	case before.tripped && answer == mesh.AnswerYes:
		m.about.Resume, note = llm.ResumeContinue, text.Continue(slices.Concat(before.done, before.others))
	case before.tripped && answer == mesh.AnswerNo && m.about.Mission != nil:
		return declined(slices.Concat(before.did, before.others), before.open)
	case before.tripped:
		m.about.Resume, note = llm.ResumeStop, text.Stop(slices.Concat(before.did, before.others), before.open)
	}
	if questions := relayed(did); len(questions) > 0 {
		m.about.Relayed = true
		note = strings.TrimSpace(note + "\n\n" + text.PassedOn(questions, answer != mesh.AnswerOther))
	}
	m.Fresh = strings.TrimSpace(m.Fresh + "\n\n" + note)
	return nil
}

func (m *modelRun) events(ctx context.Context, err error) iter.Seq2[llm.Event, error] {
	if err != nil {
		return func(yield func(llm.Event, error) bool) { yield(llm.Event{}, err) }
	}
	if m.answered && m.asking != "" {
		if m.Collector != nil {
			m.Collector.Suspend()
		}
		return func(func(llm.Event, error) bool) {}
	}
	loop := &llm.Loop{
		Model: m.Model, Tools: m.Tools, Timeout: toolTime, Commands: m.Commands, Check: m.check, Afford: m.afford, Name: m.Name, System: m.System, Context: m.Context, Fresh: m.Fresh, About: m.about,
		NativeTools: m.NativeTools, MaxSteps: m.MaxSteps, Pause: m.Pause, Collector: m.Collector, Answered: m.answered, Fit: m.Fit, Cost: m.Cost, Logger: m.Logger, Observe: m.observe, Told: m.instructions,
	}
	return loop.Run(ctx, m.history)
}

// instructions returns what the execution was told meanwhile, which its model reads from here on,
// each once. Nobody tells one something that the user talks to. What came of calls goes to
// the log first, whose answer says whether there is something to read.
func (m *modelRun) instructions(ctx context.Context) ([]llm.Message, error) {
	if m.inv.Grant == nil || m.inv.Grant.Direct() {
		return nil, nil
	}
	if err := m.record(ctx); err != nil {
		return nil, err
	}
	read, err := m.inv.Mesh.ReadInstructions(ctx)
	return instructed(nil, read), err
}

// check returns the limit that stands before a call of the model (S3-029), as far
// as the log that was read tells: within a window that is used up, no call can be
// made before there is room again, so that a run of an agent that makes them
// itself need not begin. What else counts the mesh knows when a call is made.
func (m *modelRun) check(_ context.Context, step int) (trip *llm.Trip) {
	if t, ok := m.Tools.(Limiter); ok {
		if trip := t.Limit(); trip != nil {
			return trip
		}
	}
	if step > 1 || !m.Pause || m.before.tripped && mesh.AnswerOf(m.inv.Text()) == mesh.AnswerNo {
		return nil // who wants no more calls need not wait for room
	}
	m.inv.Mesh.Did(func(did *thread.Actions) { trip = full(did) })
	return trip
}

// observe logs a call of the model, and tells of it (S3-067).
func (m *modelRun) observe(ctx context.Context, c llm.Call) {
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.String("model", c.Model), // thread and execution are the context's
		slog.Int("iteration", c.Iteration), slog.Int64("input", c.Input), slog.Int64("cache_read", c.Cached),
		slog.Int64("cache_creation", c.CacheWrite), slog.Int64("output", c.Output), slog.Float64("hit_ratio", c.HitRatio), slog.Duration("took", c.Duration),
	}
	if c.Err != nil && ctx.Err() == nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("err", c.Err))
	}
	ctx = m.inv.Mesh.Context(ctx)
	telemetry.From(ctx).Model(ctx, telemetry.ModelCall{Model: c.Model, Agent: m.agent(), Step: c.Iteration, Input: c.Input, Output: c.Output, Cached: c.Cached, CacheWrite: c.CacheWrite, Took: c.Duration, Err: c.Err})
	m.Logger.LogAttrs(ctx, level, "model called", attrs...)
}

// agent is the name under which the run's agent works.
func (m *modelRun) agent() string {
	if m.inv.Grant == nil {
		return ""
	}
	return m.inv.Grant.Agent
}

// output returns what the agent says about the event, or nil.
func (m *modelRun) output(ctx context.Context, e llm.Event, err error) (agent.Output, error) {
	switch {
	case err != nil:
		return nil, err
	case e.Text != "":
		text := e.Text
		if m.gap && !strings.HasSuffix(m.said, "\n") {
			text = "\n\n" + strings.TrimLeft(text, "\n")
		}
		m.said, m.gap = e.Text, false
		return agent.Text{Text: text}, nil
	case e.Reply != nil:
		m.gap = m.said != ""
		m.pending = append(m.pending, &mesh.Event{Body: *e.Reply})
		return nil, m.record(ctx)
	case e.Result != nil:
		m.result(ctx, e.Result)
	case e.Native != nil:
		m.native(e.Native)
		return agent.Progress{Text: text.NativeTool(e.Native.Tool, mesh.Clip(strings.Join(strings.Fields(e.Native.Detail), " "), maxShown))}, nil
	case e.Call != nil && m.Progress != nil:
		if p, ok := m.Progress(*e.Call); ok {
			return p, nil
		}
	case e.Delivered != nil: // one event is the message and the mark that it was told
		m.pending = append(m.pending, &mesh.Event{Body: mesh.ResultsDelivered{Executions: e.Delivered.Executions, Text: e.Delivered.Text}})
		return nil, m.record(ctx)
	case e.Limit != nil:
		m.limit(e.Limit)
	case e.Ask != nil:
		m.asked(ctx, e.Ask)
	}
	return nil, nil
}

// maxToolName bounds the names of tools in the log, in bytes: models make names
// up.
const maxToolName = 100

// maxShown bounds what the user is shown of what a tool of the provider did, in bytes.
const maxShown = 200

// toolTime bounds a call of a tool that is no skill (S3-036). Skills have a bound
// of their own.
const toolTime = 30 * time.Second

// result keeps what a call came to for the log, unless the log has it. What a call returned
// because the process stops is not what it comes to, as where it waits for agents: the run
// that goes on makes it again.
func (m *modelRun) result(ctx context.Context, r *llm.CallResult) {
	if r.Trip != nil {
		m.open = append(m.open, summary(m.Tools, r.Use))
	}
	if s, ok := m.Tools.(Settler); ok && s.Settles(r.Use.ID) || errors.Is(context.Cause(ctx), agent.ErrShutdown) && !r.Stop {
		return
	}
	m.pending = append(m.pending, &mesh.Event{Body: mesh.ToolReturned{
		Call: r.Use.ID, Name: cmp.Or(mesh.Clip(r.Use.Name, maxToolName), "unknown"), Failed: r.Failed, Content: mesh.Clip(r.Text, mesh.MaxResult-len("…")), Cause: r.Cause, Delivered: r.Delivered,
	}})
}

// native keeps what a tool of the provider did for the log, where it stands as a return
// without a call: no reply waits for it.
func (m *modelRun) native(u *llm.NativeUse) {
	m.pending = append(m.pending, &mesh.Event{Body: mesh.ToolReturned{
		Call: mesh.Clip(u.ID, maxToolName), Name: mesh.Clip(u.Tool, maxToolName), Failed: u.Failed, Content: u.Detail,
	}})
}

// limit keeps the limit that ended the run for the log, which has those
// already that the mesh holds.
func (m *modelRun) limit(t *llm.Trip) {
	m.trip = t
	if !limit.Noted(t.Limit) && t.Limit != limit.TurnAgents && t.Limit != limit.AgentToolCalls {
		m.pending = append(m.pending, &mesh.Event{Body: mesh.LimitTripped{Limit: t.Limit, Detail: t.Detail, Used: t.Used, Most: t.Most}})
	}
}

// record has what is pending logged. Results wait for the reply that follows them,
// to be one write with it.
func (m *modelRun) record(ctx context.Context) error {
	if len(m.pending) == 0 {
		return nil
	}
	events := m.pending
	m.pending = nil
	return m.inv.Mesh.Keep(ctx, events...)
}

// end has all that is pending logged before the run is over.
func (m *modelRun) end(ctx context.Context) error {
	if err := m.record(ctx); err != nil {
		return err
	}
	return m.inv.Mesh.Flush(ctx)
}

// leave logs what is pending when nothing follows it. What was said stands
// whether that succeeds or not.
func (m *modelRun) leave(ctx context.Context) {
	if err := m.end(ctx); err != nil && ctx.Err() == nil {
		m.Logger.WarnContext(ctx, "the last results of a run could not be recorded", "execution", m.inv.Execution, "err", err)
	}
}
