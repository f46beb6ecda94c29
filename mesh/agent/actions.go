package agent

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// actions returns the skill calls of this execution that had success, in short,
// and whether it met a limit before the user's last message.
func (m *Mesh) actions(ctx context.Context) (done []string, tripped bool, err error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if err := m.read(ctx); err != nil {
		return nil, false, mesh.Wrap("agent.actions", err)
	}
	for _, a := range m.story.actions[m.story.since:] {
		if a.worked() {
			done = append(done, skillSummary(a.skill, a.args))
		}
	}
	return done, m.story.stopped, nil
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
	if err := m.read(ctx); err != nil {
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
			out = append(out, skillSummary(a.skill, a.args))
		}
	}
	return out
}

// maxSummary bounds an action in a list for people, in bytes.
const maxSummary = 160

// skillSummary is a call in short, as "mail.send(subject: Hi, to: bob)" (S3-033).
func skillSummary(name, args string) string {
	var values map[string]any
	if json.Unmarshal([]byte(args), &values) != nil {
		return name
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(values)) {
		v, ok := values[k].(string)
		if !ok {
			v = toJSON(values[k])
		}
		parts = append(parts, k+": "+mesh.Clip(strings.Join(strings.Fields(v), " "), maxSummary/4))
	}
	return name + "(" + mesh.Clip(strings.Join(parts, ", "), maxSummary) + ")"
}

// summary is a model's call in short.
func summary(use mesh.ToolUse) string {
	var args struct {
		Skill     string          `json:"skill"`
		Arguments json.RawMessage `json:"arguments"`
		Line      string          `json:"line"`
	}
	switch err := json.Unmarshal([]byte(use.Arguments), &args); {
	case err == nil && args.Line != "":
		return mesh.Clip(args.Line, maxSummary)
	case err == nil && args.Skill != "":
		return skillSummary(args.Skill, string(args.Arguments))
	}
	return skillSummary(use.Name, use.Arguments)
}
