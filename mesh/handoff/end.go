package handoff

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// An End asks that a handoff ends.
type End struct {
	Outcome mesh.HandoffOutcome // "" is completed
	Summary string
	// Artifacts are ids of artifacts of the thread, as its tasks have them or as the caller
	// has its own.
	Artifacts []string
	// UpdatesSent is how many artifact updates the caller sent before.
	UpdatesSent int64
}

func (r *End) validate() error {
	const op = "handoff.End"
	switch r.Outcome {
	case "":
		r.Outcome = mesh.HandoffCompleted
	case mesh.HandoffCompleted, mesh.HandoffCancelled, mesh.HandoffError:
	default:
		return mesh.InvalidField(op, "outcome", "is %q; it must be completed, cancelled or error", r.Outcome)
	}
	if len(r.Summary) > MaxSummary {
		return mesh.InvalidField(op, "summary", "has %d bytes; at most %d are allowed", len(r.Summary), MaxSummary)
	}
	if n := len(r.Artifacts); n > MaxArtifacts {
		return mesh.InvalidField(op, "artifact_ids", "names %d artifacts; at most %d are allowed", n, MaxArtifacts)
	}
	if r.UpdatesSent < 0 {
		return mesh.InvalidField(op, "updates_sent", "is %d; it must not be negative", r.UpdatesSent)
	}
	for i, id := range r.Artifacts {
		field := fmt.Sprintf("artifact_ids[%d]", i)
		if id == "" || len(id) > MaxArtifactID {
			return mesh.InvalidField(op, field, "has %d bytes; it must have 1 to %d", len(id), MaxArtifactID)
		}
		if slices.Contains(r.Artifacts[:i], id) {
			return mesh.InvalidField(op, field, "is there twice; name each artifact once")
		}
	}
	return nil
}

// End gives control back to the main agent: by the active agent under its grant, or
// without one by a user who takes part in the thread. It returns the handoff as it ended.
// One from which nobody is to return goes on when its agent completes it: what came of it
// is noted, and stands when the user leaves.
//
// Errors: Precondition when no handoff is active or another agent has it;
// Invalid for an unknown outcome, a summary that is too long, or an artifact that the
// thread does not have.
func (h *Handoffs) End(ctx context.Context, key mesh.ThreadKey, p mesh.Principal, req End) (*thread.Handoff, error) {
	const op = "handoff.End"
	if err := req.validate(); err != nil {
		return nil, err
	}
	g, by := p.Grant, "user:"+p.User
	if g != nil {
		by = "agent:" + g.Agent
		if err := h.await(ctx, g, req.UpdatesSent); err != nil {
			return nil, err
		}
	}
	refs, err := h.artifacts(ctx, key, p, req.Artifacts)
	if err != nil {
		return nil, err
	}
	var ended thread.Handoff
	err = h.states.Decide(ctx, key, func(s *thread.State) (cache.Decision, error) {
		if s.Seq == 0 || !s.MayRead(p) {
			return cache.Decision{}, mesh.ThreadNotFound(op)
		}
		if g == nil && !s.TakesPart(p) {
			return cache.Decision{}, s.Outsider(op)
		}
		if err := mayEnd(s, g); err != nil {
			return cache.Decision{}, err
		}
		end := conclude(s.Handoff, g, by, req, refs)
		ended = *s.Handoff
		ended.Outcome, ended.Result, ended.Artifacts, ended.State = end.Outcome, end.Summary, end.Artifacts, mesh.HandoffState(end.Outcome)
		return h.ending(s, g, by, end), nil
	})
	if err != nil {
		return nil, err
	}
	err = h.states.With(ctx, key, func(s *thread.State) error {
		if s.Handoff != nil && s.Handoff.Seq == ended.Seq { // else the conversation has gone on
			ended = *s.Handoff
		}
		return nil
	})
	return &ended, err
}

// conclude is how the handoff ends. What came of one that was done before is not changed by
// the user who leaves.
func conclude(s *thread.Handoff, g *mesh.Grant, by string, req End, refs []mesh.ArtifactRef) mesh.HandoffEnded {
	end := mesh.HandoffEnded{Started: s.Seq, Outcome: req.Outcome, Summary: req.Summary, By: by, Artifacts: refs}
	if g == nil && s.Outcome != "" {
		end.Outcome, end.Summary, end.Artifacts = s.Outcome, s.Result, s.Artifacts
	}
	end.Stays = g != nil && !s.ReturnExpected && end.Outcome == mesh.HandoffCompleted
	if !s.PreserveState && end.Outcome.Early() {
		end.Dropped = s.To
	}
	return end
}

func mayEnd(s *thread.State, g *mesh.Grant) error {
	const op = "handoff.End"
	if !s.Handoff.Active() {
		return mesh.Errorf(mesh.Precondition, op, "no handoff is active; the main assistant has the conversation")
	}
	if g == nil {
		return nil
	}
	t := s.Turn(g.Turn)
	if g.Agent != s.Handoff.To || t == nil || t.Leg() == nil || t.Leg().Execution != g.Execution {
		return mesh.Errorf(mesh.Precondition, op, "%s does not have the conversation, so it cannot give it back; %s has it", g.Agent, s.Handoff.To)
	}
	return nil
}

// ending is the decision that ends the handoff, with that event first. A turn
// that waits for its user with the agent that loses the stream ends with it; one
// that runs goes on with main, which package turn sees to.
func (h *Handoffs) ending(s *thread.State, g *mesh.Grant, by string, end mesh.HandoffEnded) cache.Decision {
	now := h.now().UTC().Truncate(time.Millisecond)
	event := func(id mesh.ExecutionID, b mesh.Body) *mesh.Event {
		return &mesh.Event{Time: now, Execution: id, Actor: by, Body: b}
	}
	if g != nil {
		return cache.Decision{Events: []*mesh.Event{event(g.Execution, end)}, Scopes: []mesh.Scope{mesh.Scope(g.Turn)}}
	}
	about := s.Handoff.Turn
	if t := s.NextTurn(); t != nil && len(t.Legs) > 0 {
		return cache.Decision{Events: []*mesh.Event{event(t.ID, end)}, Scopes: []mesh.Scope{mesh.Scope(t.ID)}}
	}
	var events []*mesh.Event
	if t := s.InterruptedTurn(); t != nil && t.Leg() != nil && t.Leg().Agent == s.Handoff.To {
		about = t.ID
		for _, x := range s.Unfinished(t.ID) {
			events = append(events, event(x.Parent, mesh.DispatchSettled{Child: x.ID, State: a2apb.TaskState_TASK_STATE_CANCELED, Reason: mesh.ReasonHandedOff}))
		}
		events = append(events, event(t.ID, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED, Reason: mesh.ReasonHandedOff,
			Message: mesh.Say(text.BackWithMain(s.Handoff.To, t.User, strings.TrimPrefix(by, "user:")))}))
	}
	return cache.Decision{Events: append([]*mesh.Event{event(about, end)}, events...)}
}

// artifacts finds the artifacts that the ids name among what the tasks of the thread have: the
// last of each id, those of the caller by the ids that it gave them itself first.
func (h *Handoffs) artifacts(ctx context.Context, key mesh.ThreadKey, p mesh.Principal, ids []string) ([]mesh.ArtifactRef, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	const op = "handoff.artifacts"
	shown := map[mesh.ExecutionID]mesh.ExecutionID{} // whose artifacts a task has, by execution
	ordinal := 0                                     // of the caller's in its task
	err := h.states.With(ctx, key, func(s *thread.State) error {
		if s.Seq == 0 || !s.MayRead(p) {
			return mesh.ThreadNotFound(op)
		}
		for _, t := range s.Turns() {
			for i, l := range t.Legs {
				if shown[l.Execution] = t.ID; p.Grant != nil && l.Execution == p.Grant.Execution && ordinal == 0 {
					ordinal = i + 1
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	known, own := map[string]mesh.ArtifactRef{}, map[string]mesh.ArtifactRef{}
	for after := mesh.Seq(0); ; {
		page, err := h.log.Read(ctx, key, after, 256)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			after = e.Seq
			b, output := e.Body.(mesh.ArtifactAppended)
			task, has := shown[e.Execution]
			if !output || !has {
				continue
			}
			ref := mesh.ArtifactRef{Task: task, ID: b.Artifact.GetArtifactId(), Name: b.Artifact.GetName()}
			if before := known[ref.ID]; ref.Name == "" && before.Task == task { // a piece of it
				ref.Name = before.Name
			}
			known[ref.ID] = ref
			if p.Grant != nil && e.Execution == p.Grant.Execution {
				own[thread.OwnArtifactID(ref.ID, ordinal)] = ref
			}
		}
	}
	refs := make([]mesh.ArtifactRef, 0, len(ids))
	for i, id := range ids {
		ref, ok := own[id]
		if !ok {
			ref, ok = known[id]
		}
		if !ok {
			return nil, mesh.InvalidField("handoff.End", fmt.Sprintf("artifact_ids[%d]", i), "is no artifact of the thread; name one that was sent before, by its id")
		}
		if !slices.Contains(refs, ref) { // under both of its ids
			refs = append(refs, ref)
		}
	}
	return refs, nil
}
