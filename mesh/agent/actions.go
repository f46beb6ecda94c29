package agent

import (
	"context"
	"maps"
	"slices"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
)

// actions is what an execution did, in short.
type actions struct {
	done    []string // skill calls that had success for the present instruction
	did     []string // and for the one that the user's last message follows
	tripped bool     // it met a limit before the user's last message
	open    []string // what that limit kept from happening
}

// actions returns what this execution did.
func (m *Mesh) actions(ctx context.Context) (actions, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if err := m.read(ctx, nil); err != nil {
		return actions{}, mesh.Wrap("agent.actions", err)
	}
	out := actions{tripped: m.story.stopped, open: m.story.open}
	for i, a := range m.story.actions {
		if !a.worked() {
			continue
		}
		short := mesh.CallSummary(a.skill, a.args)
		if i >= m.story.since {
			out.done = append(out.done, short)
		}
		if i >= m.story.before {
			out.did = append(out.did, short)
		}
	}
	return out, nil
}

// full returns the limit of a window that had no room yet when the user wrote
// last, as far as was read; nil for none. Both times are the node's.
func (m *Mesh) full() *llm.Trip {
	m.reading.Lock()
	defer m.reading.Unlock()
	t := m.story.window
	if t == nil || !m.story.wrote.Before(t.Free) {
		return nil
	}
	return &llm.Trip{Limit: t.Limit, Used: t.Used, Most: t.Most, Detail: t.Detail(), Free: t.Free}
}

// unsettled returns the key of the same call, if it was announced before, as far
// as that was read, and what came of it is not known; else "".
func (m *Mesh) unsettled(call *skill.Call, args string) (key string) {
	m.reading.Lock()
	defer m.reading.Unlock()
	a := m.story.action(call.ID)
	if a == nil || a.returned != nil || a.skill != call.Skill || a.args != args {
		return ""
	}
	return a.key
}

// approval returns what the log says of the call's approval, or nil, and what
// the user wrote since the question was shown; "" if nothing.
func (m *Mesh) approval(ctx context.Context, call string) (*approval, string, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if err := m.read(ctx, nil); err != nil {
		return nil, "", mesh.Wrap("agent.approval", err)
	}
	a := m.story.approvals[call]
	if a == nil {
		return nil, "", nil
	}
	known := *a
	if m.story.heard(a) {
		return &known, m.story.answer, nil
	}
	return &known, "", nil
}

// heard reports whether the user wrote something since the question was shown.
func (s *story) heard(a *approval) bool { return a.shown > 0 && s.posted > a.shown }

// answered returns the calls, in short, that waited for the user's word until
// the last message, as far as was read.
func (m *Mesh) answered() []string {
	m.reading.Lock()
	defer m.reading.Unlock()
	var out []string
	for _, call := range slices.Sorted(maps.Keys(m.story.approvals)) {
		if a := m.story.approvals[call]; !a.settled && m.story.heard(a) {
			out = append(out, mesh.CallSummary(a.skill, a.args))
		}
	}
	return out
}

// relayed returns what agents that this execution dispatched asked the user until
// the last message, as far as was read: who asked, and the question.
func (m *Mesh) relayed() []string {
	m.reading.Lock()
	defer m.reading.Unlock()
	var out []string
	for _, a := range m.story.relayed {
		out = append(out, text.AskedBy(a.agent, a.label, command.Quote(mesh.Clip(a.question, maxAsk))))
	}
	return out
}

// tripOf returns the trip that the fact tells of.
func tripOf(b *meshv1.LimitTripped) *limit.Trip {
	trip := &limit.Trip{Limit: b.GetLimit(), Used: b.GetUsed(), Most: b.GetMost()}
	if b.GetFree() != nil {
		trip.Free = b.GetFree().AsTime()
	}
	return trip
}

// Unsettled returns the skill calls in the events, in short, that the execution or
// one that it led to has made and that have not come back. When it is over, nobody
// knows whether they had an effect.
func Unsettled(events []*meshv1.Event, execution mesh.ExecutionID) []string {
	open, _ := callsBelow(events, execution)
	return open
}

// Done returns the skill calls in the events, in short, that the execution and
// those that it led to have made with success, of each of them that has any.
func Done(events []*meshv1.Event, execution mesh.ExecutionID) []Work {
	_, done := callsBelow(events, execution)
	return done
}

// callsBelow returns the skill calls of the execution and of those that it led to,
// in short: those that have not come back, and those that did with success.
func callsBelow(events []*meshv1.Event, execution mesh.ExecutionID) (open []string, done []Work) {
	type call struct{ execution, id, short string }
	var pending []call
	find := func(execution, id string) int {
		return slices.IndexFunc(pending, func(c call) bool { return c.execution == execution && c.id == id })
	}
	below := map[string]bool{string(execution): true}
	var out Report
	for _, e := range events {
		x := e.GetExecutionId()
		if !below[x] {
			continue
		}
		switch b := e.GetBody().(type) {
		case *meshv1.Event_DispatchIssued:
			below[b.DispatchIssued.GetChild().GetId()] = true
		case *meshv1.Event_SkillCalled:
			c := call{x, b.SkillCalled.GetCall(), mesh.CallSummary(b.SkillCalled.GetSkill(), b.SkillCalled.GetArgs())}
			if at := find(x, c.id); at >= 0 { // it was announced before
				pending[at] = c
			} else {
				pending = append(pending, c)
			}
		case *meshv1.Event_SkillReturned:
			at := find(x, b.SkillReturned.GetCall())
			if at < 0 {
				continue
			}
			if !b.SkillReturned.GetFailed() {
				w := out.of(x)
				w.Done = append(w.Done, pending[at].short)
			}
			pending = slices.Delete(pending, at, at+1)
		}
	}
	for _, c := range pending {
		open = append(open, c.short)
	}
	return open, out.Work
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
