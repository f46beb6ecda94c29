package skilltools

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// run sends a call through the executor, whatever face it came from.
func (t *Tools) run(ctx context.Context, call *skill.Call) llm.ToolResult {
	r := t.withSteps(ctx, t.executor.Execute(ctx, call, t.env))
	out := llm.ToolResult{Text: r.Content, Failed: r.Failed(), Ask: r.Ask}
	if call.Source == mesh.SourceCommand && !r.Template() {
		out.Text = command.Defuse(out.Text) // of a template, the blocks are meant
	}
	if trip := limit.TripOf(r.Err); trip != nil {
		out.Trip = &llm.Trip{Limit: trip.Limit, Used: trip.Used, Most: trip.Most, Detail: trip.Detail(), Free: trip.Free, Conclude: !limit.Renewed(trip.Limit)}
		// What to do about it is the loop's to say: results get into reports.
		out.Text = text.CallFailed(call.Skill, trip.Text())
	}
	out.Cause, out.Metadata = cause(r.Err, t.Settles(call.ID)), metadata(r)
	return out
}

// cause is why a call came to nothing. Of one that was made, what the skill says
// is not the mesh's to judge.
func cause(err error, made bool) mesh.Cause {
	var e *mesh.Error
	switch code := mesh.CodeOf(err); {
	case err == nil:
	case code == mesh.Timeout:
		return mesh.CauseTimeout
	case made:
	case limit.TripOf(err) != nil:
		return mesh.CauseLimit
	case errors.As(err, &e) && e.Reason == mesh.ReasonDeclined:
		return mesh.CauseRefused
	case code == mesh.Invalid:
		return mesh.CauseInvalid
	case code == mesh.NotFound, code == mesh.Denied:
		return mesh.CauseMissing
	case code == mesh.Unavailable:
		return mesh.CauseUnavailable
	}
	return ""
}

// runCall is the id of the one call of an execution that runs a skill without a
// model: the same one when the execution goes on.
const runCall = "run"

// Take implements [skill.Budget]: the agent's own limit of calls. Those of the
// turn, the thread and the user the mesh keeps.
func (t *Tools) Take(ctx context.Context, _ string) error {
	if t.most == Unlimited {
		return nil
	}
	t.mu.Lock()
	used, first := t.used, !t.tripped
	if used < t.most {
		t.used++
		t.mu.Unlock()
		return nil
	}
	t.tripped = true
	t.mu.Unlock()
	trip := &limit.Trip{Limit: limit.AgentToolCalls, Used: int64(used), Most: int64(t.most)}
	if first {
		if _, err := t.inv.Mesh.Record(ctx, &mesh.Event{Body: trip.Fact()}); err != nil { // it holds all the same
			t.logger.WarnContext(ctx, "the trip of a limit could not be recorded", "limit", trip.Limit, "err", err)
		}
	}
	return trip.Err("skilltools.Take")
}

// Begin implements [skill.Journal]: a call whose intent cannot be recorded does
// not happen. A call whose intent is in the log, but not what came of it, is made again
// only if the skill reads: of another one nobody knows whether it had its effect.
func (t *Tools) Begin(ctx context.Context, s *skill.Skill, call *skill.Call) (skill.Begun, error) {
	const op = "skilltools.Begin"
	args, err := json.Marshal(call.Args)
	if err != nil {
		return skill.Begun{}, mesh.InvalidField(op, "arguments", "have no JSON form")
	}
	called := mesh.SkillCalled{Call: call.ID, Skill: call.Skill, Args: string(args), Source: call.Source, Version: s.Version}
	key, unknown := mesh.NewEventID(), false
	t.inv.Mesh.Did(func(did *thread.Actions) {
		if c := did.Call(call.ID); c != nil && c.Unsettled() && c.Skill == call.Skill && c.Args == string(args) {
			called.Source, called.Version = c.Source, c.Version // it is announced again, just so
			key, unknown = c.Key, s.Access != skill.AccessRead
		}
	})
	if unknown {
		return skill.Begun{}, &mesh.Error{Code: mesh.Unknown, Op: op, Reason: mesh.ReasonUnknown, Detail: text.OutcomeUnknown()}
	}
	permit, err := t.inv.Mesh.RecordCall(ctx, key, called)
	if err != nil {
		return skill.Begun{}, mesh.Wrap(op, err)
	}
	return skill.Begun{Key: key, Permit: permit, NotMade: permit == nil}, nil
}

// End implements [skill.Journal]. That an effect has been had is sent at once: a call
// of which the log does not know what came of it, somebody has to look after.
func (t *Tools) End(ctx context.Context, s *skill.Skill, call *skill.Call, r *skill.Result, o limit.Outcome, took time.Duration) {
	add := t.inv.Mesh.Send
	if s.Access == skill.AccessRead {
		add = t.inv.Mesh.Keep
	}
	err := add(ctx, &mesh.Event{Body: mesh.SkillReturned{
		Call: call.ID, Failed: r.Failed(), Content: mesh.Clip(r.Content, mesh.MaxResult-len("…")), Files: r.Files, Duration: took, Metadata: metadata(r),
		Blameless: r.Failed() && o == limit.Unused,
	}})
	if err != nil { // it did happen: the model must know what came of it
		t.logger.WarnContext(ctx, "the end of a skill call could not be recorded", "skill", call.Skill, "err", err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recorded[call.ID] = true
}

// create implements [skill.Env]. That the skill is there already, as it is to be, is as
// good.
func (t *Tools) create(ctx context.Context, s *skill.Skill) error {
	const op = "skilltools.create"
	_, err := t.inv.Mesh.CreateSkill(ctx, string(s.Source), "")
	if !mesh.IsCode(err, mesh.Precondition) {
		return mesh.Wrap(op, err)
	}
	have, missing := t.inv.Mesh.Skill(ctx, s.Name)
	switch {
	case missing != nil:
		return mesh.Wrap(op, err)
	case have.GetSource() == string(s.Source):
		return nil
	}
	return mesh.Errorf(mesh.Conflict, op, "there is a skill %s already: %w", s.Name, err)
}

// metadata is what the result says for programs, as JSON.
func metadata(r *skill.Result) string {
	data, err := json.Marshal(r.Metadata)
	if len(r.Metadata) == 0 || err != nil {
		return ""
	}
	return string(data)
}

// Settles implements modelrun.Settler.
func (t *Tools) Settles(call string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.recorded[call]
}

// Wait returns when no handler is running any more, also none that was given
// up for being late. Whoever made the tools calls it when the run is over.
func (t *Tools) Wait() { t.executor.Wait() }
