package handoff

import (
	"context"
	"fmt"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// searchPage is how many events are read at once in search of artifacts.
const searchPage = 256

// artifacts finds the artifacts that the ids name among what the tasks of the thread have: the
// last of each id, those of the caller by the ids that it gave them itself first. The log is read
// from its end on, and no further than they are.
func (h *Handoffs) artifacts(ctx context.Context, key mesh.ThreadKey, p mesh.Principal, ids []string) ([]mesh.ArtifactRef, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	const op = "handoff.artifacts"
	look := search{ids: ids, shown: map[mesh.ExecutionID]output{}, known: map[string]*output{}, own: map[string]*output{}}
	err := h.states.With(ctx, key, func(s *thread.State) error { look.begin(s, p.Grant); return nil })
	if err != nil {
		return nil, err
	}
	for look.at > look.floor && !look.done() {
		after := max(look.at-searchPage, look.floor)
		page, err := h.log.Read(ctx, key, after, int(look.at-after))
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		for _, e := range slices.Backward(page) {
			look.see(e)
		}
		look.at = after
	}
	return look.refs()
}

// A search looks for artifacts of a thread, by their ids, from the thread's end on.
type search struct {
	ids     []string
	caller  mesh.ExecutionID // "" for a user
	ordinal int              // of the caller's in its task
	shown   map[mesh.ExecutionID]output
	// at is the Seq up to which nothing was seen yet, floor that up to which there is nothing.
	at, floor  mesh.Seq
	known, own map[string]*output // by the id that users read, and by the caller's own
}

// An output is an artifact that a task has of an execution which began after the Seq.
type output struct {
	mesh.ArtifactRef
	began mesh.Seq
}

// begin notes which executions of the thread have artifacts that users read.
func (l *search) begin(s *thread.State, g *mesh.Grant) {
	l.at, l.floor = s.Seq, s.Seq
	part := s.Part(g)
	for _, t := range s.Turns() {
		for i, leg := range t.Legs {
			x := s.Execution(leg.Execution)
			if x.Artifacts == 0 || !part.Has(x.ID) {
				continue
			}
			l.shown[x.ID] = output{mesh.ArtifactRef{Task: t.ID}, x.Opened}
			l.floor = min(l.floor, x.Opened)
			if g != nil && x.ID == g.Execution && l.caller == "" {
				l.caller, l.ordinal = x.ID, i+1
			}
		}
	}
}

// see notes what the event has that is looked for, and that none behind it had.
func (l *search) see(e *mesh.Event) {
	b, is := e.Body.(mesh.ArtifactAppended)
	o, has := l.shown[e.Execution]
	if !is || !has {
		return
	}
	o.ID, o.Name = b.Artifact.GetArtifactId(), b.Artifact.GetName()
	l.note(l.known, o.ID, o)
	if e.Execution == l.caller {
		l.note(l.own, thread.OwnArtifactID(o.ID, l.ordinal), o)
	}
}

func (l *search) note(found map[string]*output, id string, o output) {
	switch last := found[id]; {
	case last == nil && slices.Contains(l.ids, id):
		found[id] = &o
	case last != nil && last.Name == "" && last.Task == o.Task: // a piece of it
		last.Name = o.Name
	}
}

// done reports whether nothing that is still to be seen says more of what is looked for.
func (l *search) done() bool {
	for _, id := range l.ids {
		o := l.own[id]
		if o == nil && l.caller != "" && l.at > l.shown[l.caller].began {
			return false
		}
		if o == nil {
			o = l.known[id]
		}
		if o == nil || o.Name == "" && l.at > o.began {
			return false
		}
	}
	return true
}

// refs are the artifacts that were found, in the order of their ids.
func (l *search) refs() ([]mesh.ArtifactRef, error) {
	refs := make([]mesh.ArtifactRef, 0, len(l.ids))
	for i, id := range l.ids {
		o := l.own[id]
		if o == nil {
			o = l.known[id]
		}
		if o == nil {
			return nil, mesh.InvalidField("handoff.End", fmt.Sprintf("artifact_ids[%d]", i), "is no artifact of the thread; name one that was sent before, by its id")
		}
		if !slices.Contains(refs, o.ArtifactRef) { // under both of its ids
			refs = append(refs, o.ArtifactRef)
		}
	}
	return refs, nil
}
