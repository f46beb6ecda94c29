package skill

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/text"
)

// run calls the handler and gives it until the context ends. A handler that
// ignores its context is left behind then, because its caller must go on; Wait
// waits for it. A skill without a handler is its own result.
func (x *Executor) run(ctx context.Context, s *Skill, permit *grant.Permit, call *Call, env *Env) end {
	if s.Handler == "" {
		return end{result: template(s, call.Args), outcome: limit.Success}
	}
	h := x.config.Handlers[s.Handler]
	done := make(chan end, 1)
	x.running.Go(func() {
		done <- guarded(ctx, call, env, func() (*Result, error) { return h.Do(ctx, permit, call, env) })
	})
	select {
	case e := <-done:
		return inTime(ctx, call, e)
	case <-ctx.Done():
	}
	select { // a result that came at the last moment is one
	case e := <-done:
		return inTime(ctx, call, e)
	default:
		return late(ctx, call.Skill)
	}
}

// KeyRequest is where the metadata of a call that was not made say what it would have sent.
const KeyRequest = "request"

// maxRequest bounds that, in bytes.
const maxRequest = 8 << 10

// show is the end of a call that is not made: what it would have been. That it could not be
// made either is its failure, and none of the skill's.
func (x *Executor) show(ctx context.Context, s *Skill, call *Call, env *Env) end {
	e := end{result: &Result{Status: StatusOK, Content: text.NotMade(s.Name, "")}}
	if shows := x.config.Handlers[s.Handler].shows; shows != nil {
		e = guarded(ctx, call, env, func() (*Result, error) {
			what, err := shows(call, env)
			what = mesh.Clip(what, maxRequest)
			return &Result{Content: text.NotMade(s.Name, what), Metadata: map[string]any{KeyRequest: what}}, err
		})
	}
	e.outcome = limit.Unused
	return e
}

// inTime is the end of the handler, unless it failed because its time was over:
// then that is said, in the same words for every handler.
func inTime(ctx context.Context, call *Call, e end) end {
	if e.result.Failed() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return late(ctx, call.Skill)
	}
	return e
}

// interpret in the metadata of a result tells the agent that its content is a
// template, which the model carries out. What a handler returns is information
// and never that.
const interpret = "requires_interpretation"

func template(s *Skill, args map[string]any) *Result {
	meta := map[string]any{"type": "template", interpret: true}
	if len(args) > 0 {
		meta["arguments"] = args
	}
	return &Result{Status: StatusOK, Content: s.Body, Metadata: meta}
}

// guarded calls the handler; whatever it does, there is an end.
func guarded(ctx context.Context, call *Call, env *Env, do func() (*Result, error)) (e end) {
	log := env.logger(call.Skill)
	crashed := func() end {
		err := mesh.Errorf(mesh.Unknown, "skill.Execute", "internal error")
		return end{result: because(err, text.CallFailed(call.Skill, "internal error")), outcome: limit.Failure}
	}
	defer func() {
		if p := recover(); p != nil {
			log.ErrorContext(ctx, "skill panicked", "panic", p, "stack", string(debug.Stack()))
			e = crashed()
		}
	}()
	r, err := do()
	switch {
	case err != nil:
		return explain(ctx, log, call.Skill, err)
	case r == nil:
		log.ErrorContext(ctx, "skill returned nothing")
		return crashed()
	}
	own := *r // what the handler returned may be shared
	if _, ok := own.Metadata[interpret]; ok {
		own.Metadata = maps.Clone(own.Metadata)
		delete(own.Metadata, interpret) // that is for skills without a handler
	}
	if own.Status == "" {
		own.Status = StatusOK
	}
	if own.Failed() {
		return end{result: &own, outcome: limit.Failure}
	}
	return end{result: &own, outcome: limit.Success}
}

// explain makes the end of a call whose handler failed. A call that was wrong,
// or whose caller has used up what is there for it, says nothing about the
// skill's health.
func explain(ctx context.Context, log *slog.Logger, name string, err error) end {
	code := mesh.CodeOf(err)
	if ctx.Err() != nil && (code == mesh.Canceled || code == mesh.Timeout) {
		return late(ctx, name)
	}
	told := reason(ctx, log, err)
	switch code {
	case mesh.Invalid:
		return end{result: because(err, text.CallRefused(name, told))}
	case mesh.NotFound, mesh.Precondition, mesh.Conflict, mesh.Exhausted:
		return end{result: because(err, text.CallFailed(name, told))}
	}
	return end{result: because(err, text.CallFailed(name, told)), outcome: limit.Failure}
}

// late is the end of a call that ended with its context. Only of one that had
// its whole time the skill is to blame.
func late(ctx context.Context, name string) end {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errLate):
		err := mesh.Errorf(mesh.Timeout, "skill.Execute", "The skill did not finish in time: %w", cause)
		return end{result: because(err, text.SkillLate(name)), outcome: limit.Failure}
	case errors.Is(cause, context.DeadlineExceeded):
		return end{result: because(mesh.Wrap("skill.Execute", cause), text.SkillLate(name))}
	}
	return end{result: because(mesh.Errorf(mesh.Canceled, "skill.Execute", "The call was canceled: %w", cause),
		text.SkillCanceled(name))}
}

// complete returns a copy of env in which nothing that has a default is nil.
func (e *Env) complete() *Env {
	var out Env
	if e != nil {
		out = *e
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return &out
}

// logger returns the logger for a call of that skill.
func (e *Env) logger(skill string) *slog.Logger {
	return e.Logger.With("skill", skill, "tenant", e.Tenant, "thread", e.Thread)
}
