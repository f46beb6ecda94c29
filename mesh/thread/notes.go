package thread

import "agentmesh/mesh"

// drop forgets what an agent noted until now, and will note in what it does now.
func (t *Transcript) drop(e *mesh.Event, b mesh.HandoffEnded) {
	if b.Dropped != "" {
		t.forget(b.Dropped, e.Seq)
	}
}

// forget forgets what the agent noted in executions that had their message before.
func (t *Transcript) forget(agent string, at mesh.Seq) {
	if t.dropped == nil {
		t.dropped = map[string]mesh.Seq{}
	}
	t.dropped[agent] = at
}

// Note returns what the agent last noted, as its execution id may know: in that
// one, or in another where the user talked to the agent, for whoever dispatches an
// agent can note under its name. known says that older events do not matter: it noted
// that, or what it noted before was dropped.
func (t *Transcript) Note(agent string, id mesh.ExecutionID) (data []byte, known bool) {
	var at mesh.Seq
	dropped := t.dropped[agent]
	for of, p := range t.parties {
		if p.noted == nil || p.noted.Seq < at || of != id && p.Turn == "" {
			continue
		}
		if p.Turn != "" && p.Ran < dropped {
			continue
		}
		if note := p.noted.Body.(mesh.StateNoted); note.Agent == agent {
			data, at = note.Data, p.noted.Seq
		}
	}
	return data, data != nil || dropped != 0 && t.Party(id).Turn != ""
}
