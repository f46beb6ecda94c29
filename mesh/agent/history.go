package agent

import (
	"context"
	"slices"

	"agentmesh/mesh"
)

// History returns the last things said in the thread, at most limit (0 for
// all), oldest first: what the user wrote, and what was answered where the
// user could read it, by whichever agent.
func (m *Mesh) History(ctx context.Context, limit int) ([]HistoryItem, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	enough := func() bool { return limit > 0 && len(m.transcript.Said()) >= limit }
	if err := m.read(ctx, enough); err != nil {
		return nil, mesh.Wrap("agent.History", err)
	}
	items := m.transcript.Said()
	if limit > 0 && len(items) > limit {
		items = items[len(items)-limit:]
	}
	return items, nil
}

// Noted returns what this agent last noted in the thread, in this execution or
// in one that had the user's stream; false if it never did.
func (m *Mesh) Noted(ctx context.Context) ([]byte, bool, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	note := func() []byte { return m.transcript.Note(m.grant.Agent, m.grant.Execution) }
	if err := m.read(ctx, func() bool { return note() != nil }); err != nil {
		return nil, false, mesh.Wrap("agent.Noted", err)
	}
	data := note()
	return slices.Clone(data), data != nil, nil
}
