package agent

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// actions is what an execution did, in short.
type actions struct {
	done    []string // skill calls that had success for the present instruction
	did     []string // and for the one that the user's last message follows
	tripped bool     // it met a limit before the user's last message
	open    []string // what that limit kept from happening
}

// soFar returns what this execution did. What it did counts for the instruction
// that it was done for: a message of the user that comes after a limit, and is more
// than a yes, is a new one (S3-031).
func (m *Mesh) soFar(ctx context.Context) (actions, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if err := m.read(ctx, nil); err != nil {
		return actions{}, mesh.Wrap("agent.soFar", err)
	}
	var out actions
	var calls []*thread.SkillCall
	since, before := 0, 0 // calls for earlier instructions than the present one, and than the one that it follows
	tripped := false
	for _, r := range m.did().Rounds {
		if r.Posted > 0 {
			if len(calls) > since {
				before = since
			}
			if tripped && mesh.AnswerOf(r.Text) != mesh.AnswerYes {
				since = len(calls)
			}
			out.tripped, tripped = tripped, false
		}
		calls, tripped = append(calls, r.Calls...), tripped || r.Tripped
		if open, ok := keptFrom(r); ok {
			tripped, out.open = true, open
			if len(calls) == since { // nothing came of the instruction, and the one before still counts
				since = before
			}
		}
	}
	out.done, out.did = summaries(calls[since:]), summaries(calls[before:])
	return out, nil
}

// keptFrom returns what the execution reported as open when it waited for the user
// because it met a limit. The fact that the limit was met need not be its own: of a
// turn's limit it is that of the first execution which met it.
func keptFrom(r *thread.Round) (open []string, ok bool) {
	for _, moved := range r.Waits {
		report := ReportOf(moved.Metadata)
		if report == nil {
			continue
		}
		for _, w := range report.Work {
			if w.Execution == "" {
				open, ok = w.Open, true
			}
		}
	}
	return open, ok
}

// summaries are the calls that had success, in short.
func summaries(calls []*thread.SkillCall) []string {
	var out []string
	for _, c := range calls {
		if c.Status == thread.CallCompleted {
			out = append(out, mesh.CallSummary(c.Skill, c.Args))
		}
	}
	return out
}

// full returns the limit of a window that had no room yet when the user wrote
// last, as far as was read; nil for none. Both times are the node's.
func (m *Mesh) full() *llm.Trip {
	m.reading.Lock()
	defer m.reading.Unlock()
	a := m.did()
	fact, ok := a.Limits[limit.ThreadSkillCalls]
	if !ok {
		return nil
	}
	// The window of the conversation is all users'; who else's window is used up says
	// nothing here, and other limits are noted by agents.
	t := limit.Trip{Limit: fact.Limit, Used: fact.Used, Most: fact.Most, Free: fact.Free}
	if !a.Round().Time.Before(t.Free) {
		return nil
	}
	return &llm.Trip{Limit: t.Limit, Used: t.Used, Most: t.Most, Detail: t.Detail(), Free: t.Free}
}

// unsettled returns the key of the same call, if it was announced before, as far
// as that was read, and what came of it is not known; else "".
func (m *Mesh) unsettled(call *skill.Call, args string) (key string) {
	m.reading.Lock()
	defer m.reading.Unlock()
	c := m.did().Call(call.ID)
	if c == nil || !c.Unsettled() || c.Skill != call.Skill || c.Args != args {
		return ""
	}
	return c.Key
}

// approval returns what the log says of the call's approval, or nil, and what
// the user wrote since the question was shown; "" if nothing.
func (m *Mesh) approval(ctx context.Context, call string) (*thread.CallApproval, string, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if err := m.read(ctx, nil); err != nil {
		return nil, "", mesh.Wrap("agent.approval", err)
	}
	a := m.did().Approval(call)
	if a == nil {
		return nil, "", nil
	}
	known := *a
	return &known, m.did().Answer(call), nil
}

// wasAsked reports whether the user was asked just this, about that version of the
// skill. A log that does not tell the version counts as one of the same.
func wasAsked(a *thread.CallApproval, s *skill.Skill, args, question string) bool {
	same := a.Version == s.Version
	if a.Version == "" || s.Version == "" {
		same = a.Text == question
	}
	return a.Skill == s.Name && a.Args == args && same
}

// answered returns the calls, in short, that waited for the user's word until
// the last message, as far as was read.
func (m *Mesh) answered() []string {
	m.reading.Lock()
	defer m.reading.Unlock()
	var out []string
	for _, a := range m.did().Answered() {
		out = append(out, mesh.CallSummary(a.Skill, a.Args))
	}
	return out
}

// relayed returns what agents that this execution dispatched asked the user until
// the last message, as far as was read: who asked, and the question.
func (m *Mesh) relayed() []string {
	m.reading.Lock()
	defer m.reading.Unlock()
	var out []string
	for _, q := range m.did().Round().Answers {
		out = append(out, text.AskedBy(q.Agent, q.Label, command.Quote(mesh.Clip(q.Text, maxAsk))))
	}
	return out
}

// Unsettled returns those of the skill calls, in short, that have not come back.
// When who made them is over, nobody knows whether they had an effect.
func Unsettled(calls []*thread.SkillCall) []string {
	var out []string
	for _, c := range calls {
		if c.Unsettled() {
			out = append(out, mesh.CallSummary(c.Skill, c.Args))
		}
	}
	return out
}

// Done returns those of the skill calls, in short, that had success, of each
// execution that made any.
func Done(calls []*thread.SkillCall) []Work {
	var out Report
	for _, c := range calls {
		if c.Status == thread.CallCompleted {
			w := out.of(string(c.Execution))
			w.Done = append(w.Done, mesh.CallSummary(c.Skill, c.Args))
		}
	}
	return out.Work
}

// A namer is Tools that know which call of a skill a model's call makes.
type namer interface {
	// skillCall returns the skill and its arguments, as JSON; false if the call is
	// none of a skill.
	skillCall(use mesh.ToolUse) (name, args string, ok bool)
}

// summary is a model's call in short, in the words that it has in the log once it
// is made.
func summary(tools llm.Tools, use mesh.ToolUse) string {
	if n, ok := tools.(namer); ok {
		if name, args, ok := n.skillCall(use); ok {
			return mesh.CallSummary(name, args)
		}
	}
	if line := commandLine(use); line != "" {
		return mesh.Clip(line, mesh.MaxCallSummary)
	}
	return mesh.CallSummary(use.Name, use.Arguments)
}
