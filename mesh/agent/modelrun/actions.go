package modelrun

import (
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
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
	others  []string // what agents that it dispatched had done by then
}

// soFar returns what this execution did. What it did counts for the instruction
// that it was done for: a message of the user that comes after a limit, and is more
// than a yes, is a new one (S3-031).
func soFar(did *thread.Actions) actions {
	var out actions
	var calls []*thread.SkillCall
	since, before := 0, 0 // calls for earlier instructions than the present one, and than the one that it follows
	tripped := false
	for _, r := range did.Rounds {
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
		if open, others, ok := keptFrom(r); ok {
			tripped, out.open, out.others = true, open, others
			if len(calls) == since { // nothing came of the instruction, and the one before still counts
				since = before
			}
		}
	}
	out.done, out.did = summaries(calls[since:]), summaries(calls[before:])
	return out
}

// keptFrom returns what the execution reported as open when it waited for the user
// because it met a limit. The fact that the limit was met need not be its own: of a
// turn's limit it is that of the first execution which met it. others is what those had
// done that it dispatched.
func keptFrom(r *thread.Round) (open, others []string, ok bool) {
	for _, moved := range r.Waits {
		report := agent.ReportOf(moved.Metadata)
		if report == nil {
			continue
		}
		for _, w := range report.Work {
			if w.Execution == "" {
				open, ok = w.Open, true
			} else {
				others = append(others, w.Done...)
			}
		}
	}
	return open, others, ok
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
// last; nil for none. Both times are the node's.
func full(did *thread.Actions) *llm.Trip {
	fact, ok := did.Limits[limit.ThreadSkillCalls]
	if !ok {
		return nil
	}
	// The window of the conversation is all users'; who else's window is used up says
	// nothing here, and other limits are noted by agents.
	t := limit.Trip{Limit: fact.Limit, Used: fact.Used, Most: fact.Most, Free: fact.Free}
	if !did.Round().Time.Before(t.Free) {
		return nil
	}
	return &llm.Trip{Limit: t.Limit, Used: t.Used, Most: t.Most, Detail: t.Detail(), Free: t.Free}
}

// answered returns the calls, in short, that waited for the user's word until
// the last message.
func answered(did *thread.Actions) []string {
	var out []string
	for _, a := range did.Answered() {
		out = append(out, mesh.CallSummary(a.Skill, a.Args))
	}
	return out
}

// relayed returns what agents that this execution dispatched asked the user until
// the last message: who asked, and the question.
func relayed(did *thread.Actions) []string {
	var out []string
	for _, q := range did.Round().Answers {
		out = append(out, text.AskedBy(q.Agent, q.Label, command.Quote(mesh.Clip(q.Text, agent.MaxAsk))))
	}
	return out
}

// A summarizer is Tools that know how a call is told of in short, in the words that
// it has in the log once it is made; false for calls of others.
type summarizer interface {
	Summary(use mesh.ToolUse) (string, bool)
}

// summary is a model's call in short.
func summary(tools llm.Tools, use mesh.ToolUse) string {
	if s, ok := tools.(summarizer); ok {
		if short, ok := s.Summary(use); ok {
			return short
		}
	}
	return mesh.CallSummary(use.Name, use.Arguments)
}
