package handoff

import (
	"context"
	"fmt"
	"slices"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
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
	if err := req.validate(); err != nil {
		return nil, err
	}
	g, by := p.Grant, "user:"+p.User
	err := h.states.With(ctx, key, func(s *thread.State) error { return mayEnd(s, p) }) // who may not has nothing read or waited for
	if err != nil {
		return nil, err
	}
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
	var waiting []thread.Execution
	err = h.states.Decide(ctx, key, func(s *thread.State) (dec cache.Decision, err error) {
		if err := mayEnd(s, p); err != nil {
			return dec, err
		}
		end := conclude(s.Handoff, g, by, req, refs)
		ended = *s.Handoff
		ended.Outcome, ended.Result, ended.Artifacts, ended.State = end.Outcome, end.Summary, end.Artifacts, mesh.HandoffState(end.Outcome)
		dec, waiting = h.ending(s, g, by, end)
		return dec, nil
	})
	if err != nil {
		return nil, err
	}
	h.turns.EndTasks(ctx, key, waiting)
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

// mayEnd checks that the caller may end the handoff of the thread, as it is.
func mayEnd(s *thread.State, p mesh.Principal) error {
	const op = "handoff.End"
	g := p.Grant
	if s.Seq == 0 || !s.MayRead(p) {
		return mesh.ThreadNotFound(op)
	}
	if g == nil && !s.TakesPart(p) {
		return s.Outsider(op)
	}
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

// ending is the decision that ends the handoff, with that event first, and the executions that
// waited for users: their agents are told by the caller. Turns in which the agent that loses
// the stream waits are over with it; one that runs goes on with main, which package turn sees to.
func (h *Handoffs) ending(s *thread.State, g *mesh.Grant, by string, end mesh.HandoffEnded) (cache.Decision, []thread.Execution) {
	now := h.now().UTC().Truncate(time.Millisecond)
	about, turns := s.Handoff.Turn, s.InSession()
	var d cache.Decision
	if g != nil {
		about, d.Scopes = g.Execution, []mesh.Scope{mesh.Scope(g.Turn)}
		turns = slices.DeleteFunc(turns, func(t *thread.Execution) bool { // which runs, though it may wait for credentials
			return end.Stays || t.ID == g.Turn && t.State != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
		})
	}
	c := s.Close(by, turns, func(*thread.Execution) bool { return false })
	switch n := len(turns); {
	case g != nil:
	case len(c.Working) > 0: // its user reads it
		about, d.Scopes = mesh.ExecutionID(c.Working[0]), c.Working
	case n > 0:
		about = turns[n-1].ID
	}
	d.Events = []*mesh.Event{{Execution: about, Body: end}}
	d.Events = append(d.Events, c.Events...)
	for _, e := range d.Events {
		e.Time, e.Actor = now, by
	}
	return d, c.Waiting
}
