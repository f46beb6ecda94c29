package skill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
)

// DefaultTimeout is how long one call may take (S3-039).
const DefaultTimeout = 30 * time.Second

// An Executor runs skills: every call goes through it, whoever makes it.
type Executor struct {
	lookup   func(name string) (*Skill, bool)
	handlers map[string]Handler
	names    func() []string
	timeout  time.Duration
	running  sync.WaitGroup
}

// An Option changes a default of [NewExecutor].
type Option func(*Executor)

// WithTimeout limits a call to d. The default is DefaultTimeout.
func WithTimeout(d time.Duration) Option { return func(x *Executor) { x.timeout = d } }

// WithNames lets the executor propose a name of the list where one was
// mistyped. By default it proposes nothing.
func WithNames(list func() []string) Option { return func(x *Executor) { x.names = list } }

// NewExecutor returns an Executor that finds skills by lookup and runs them by
// the handlers, which are keyed by what skills name in Handler. Neither is
// changed any more; lookup is called concurrently.
func NewExecutor(lookup func(name string) (*Skill, bool), handlers map[string]Handler, opts ...Option) *Executor {
	x := &Executor{lookup: lookup, handlers: handlers, timeout: DefaultTimeout}
	for _, opt := range opts {
		opt(x)
	}
	return x
}

// Execute runs the call and always returns a result: whatever goes wrong is in
// it as text that lets a model go on (S3-026). allowed says which skills the
// agent may call; nil allows all. The call and env stay as they are.
func (x *Executor) Execute(ctx context.Context, call *Call, env *Env, allowed func(name string) bool) *Result {
	if allowed != nil && !allowed(call.Skill) {
		return failed("Skill '%s' is not available to this agent.", clip(call.Skill))
	}
	s, ok := x.lookup(call.Skill)
	if !ok {
		return failed("Unknown skill '%s'. %sCall get_skill to discover available skills.", clip(call.Skill), x.hint(call.Skill, allowed))
	}
	args, problems := s.arguments(call.Args)
	if len(problems) > 0 {
		return failed("Invalid arguments for '%s': %s. %s", s.Name, strings.Join(problems, "; "), s.usage())
	}
	if s.Handler == "" {
		return template(s, args)
	}
	h, ok := x.handlers[s.Handler]
	if !ok {
		return failed("Failed to execute '%s': its handler '%s' is not installed here.", s.Name, s.Handler)
	}
	ready := &Call{Skill: s.Name, Args: args, Key: call.Key}
	if ready.Key == "" {
		ready.Key = mesh.NewEventID()
	}
	return x.run(ctx, h, ready, env.complete())
}

// Wait returns when no handler is running any more, also none that was given
// up for being late. No call may be started meanwhile.
func (x *Executor) Wait() { x.running.Wait() }

func template(s *Skill, args map[string]any) *Result {
	meta := map[string]any{"type": "template", "requires_interpretation": true}
	if len(args) > 0 {
		meta["arguments"] = args
	}
	return &Result{Status: StatusOK, Content: s.Body, Metadata: meta}
}

// run gives the handler until the timeout. A handler that ignores its context
// is left behind then, because its caller must go on; Wait waits for it.
func (x *Executor) run(ctx context.Context, h Handler, call *Call, env *Env) *Result {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	done := make(chan *Result, 1)
	x.running.Go(func() { done <- guarded(ctx, h, call, env) })
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		return late(ctx, call.Skill)
	}
}

// late is the result of a call that ended with its context.
func late(ctx context.Context, name string) *Result {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return failed("Failed to execute '%s': it did not finish in time, and it is unknown whether it had an effect.", name)
	}
	return failed("Failed to execute '%s': it was canceled, and it is unknown whether it had an effect.", name)
}

func guarded(ctx context.Context, h Handler, call *Call, env *Env) (r *Result) {
	log := env.Logger.With("skill", call.Skill, "tenant", env.Tenant, "thread", env.Thread)
	defer func() {
		if p := recover(); p != nil {
			log.ErrorContext(ctx, "skill panicked", "panic", p, "stack", string(debug.Stack()))
			r = failed("Failed to execute '%s': internal error.", call.Skill)
		}
	}()
	r, err := h.Execute(ctx, call, env)
	switch {
	case err != nil:
		return explain(ctx, log, call.Skill, err)
	case r == nil:
		log.ErrorContext(ctx, "skill returned nothing")
		return failed("Failed to execute '%s': internal error.", call.Skill)
	case r.Status == "":
		r.Status = StatusOK
	}
	return r
}

// explain tells the model what it may know of the error and logs the rest.
func explain(ctx context.Context, log *slog.Logger, name string, err error) *Result {
	if code := mesh.CodeOf(err); ctx.Err() != nil && (code == mesh.Canceled || code == mesh.Timeout) {
		return late(ctx, name)
	}
	detail := mesh.DetailOf(err)
	if detail == "" {
		log.ErrorContext(ctx, "skill failed", "err", err)
		detail = "internal error"
	}
	if field := mesh.FieldOf(err); field != "" {
		detail = "'" + field + "' " + detail
	}
	if mesh.IsCode(err, mesh.Invalid) {
		return failed("Invalid arguments for '%s': %s.", name, strings.TrimSuffix(detail, "."))
	}
	return failed("Failed to execute '%s': %s.", name, strings.TrimSuffix(detail, "."))
}

func failed(format string, args ...any) *Result {
	return &Result{Status: StatusError, Content: fmt.Sprintf(format, args...)}
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
