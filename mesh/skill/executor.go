package skill

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/text"
)

const (
	// DefaultTimeout is how long one call may take (S3-039).
	DefaultTimeout = 30 * time.Second
	// DefaultMaxContent is how much a model is told of one result, in bytes.
	DefaultMaxContent = 16 << 10
	// settleTime bounds what is still done when a call is over, whether its
	// caller waits or not.
	settleTime = 10 * time.Second
)

// A Config says how an [Executor] decides. Lookup is required, and where skills have
// handlers, Journal: it gets the permits. What is nil of
// the rest is a stage that lets every call pass. All of it is used
// concurrently, and none of it is changed any more.
type Config struct {
	// Lookup returns the skill of that name, NotFound if there is none. The
	// call keeps the version that it got.
	Lookup func(ctx context.Context, name string) (*Skill, error)
	// Handlers run the skills, by what skills name in Handler.
	Handlers map[string]Handler
	// Allowed says which skills may be called.
	Allowed func(name string) bool
	// Names lists names of skills, from which one is proposed where a name
	// was mistyped.
	Names func() []string
	// Timeout bounds one call. The default is DefaultTimeout.
	Timeout time.Duration
	// MaxContent is the longest content that a model is told, in bytes. What
	// is longer is cut at a line, with a note; templates are not, since half
	// an instruction is worse than a long one. The default is
	// DefaultMaxContent.
	MaxContent int
	// Dry says that of the calls those that have an effect are not made, which the Journal
	// decides. Nobody is asked to approve what is not made.
	Dry bool
	// Approver is asked about the skills that want the user's approval. Where
	// there is none, nobody is asked and they run.
	Approver Approver
	Breaker  Breaker
	Budget   Budget
	Journal  Journal
	Notifier Notifier
}

// A Verdict is the word on a call that wants approval. The zero Verdict is
// Refused.
type Verdict uint8

// The verdicts.
const (
	Refused Verdict = iota
	Approved
	Wait // the user has to be asked
)

// An Approver decides calls of skills that want the user's approval.
type Approver interface {
	// Approve returns the verdict without waiting for the user and, with Wait,
	// what the user is asked, as it was recorded. Of an error the Detail is told
	// to the model; the call is not made.
	Approve(ctx context.Context, s *Skill, call *Call) (v Verdict, ask string, err error)
}

// A Breaker stops calls to skills that keep failing. It is what [limit.Breaker]
// is.
type Breaker interface {
	// Allow returns Unavailable for a skill that is not to be called now.
	// Otherwise done is called once, after the call.
	Allow(ctx context.Context, skill string) (done func(ctx context.Context, o limit.Outcome), err error)
}

// A Budget counts calls.
type Budget interface {
	// Take takes one call off the budget. The error is Exhausted if there is
	// none left; its Detail is told to the model.
	Take(ctx context.Context, skill string) error
}

// A Journal is the audit of calls. What is to be recorded of a call is its
// intent, before it can have an effect, and its end.
type Journal interface {
	// Begin records the intent and returns what came of that. After an error the
	// call is not made, and the error's Detail is told to the model.
	Begin(ctx context.Context, s *Skill, call *Call) (Begun, error)
	// End records what came of a call that Begin has recorded, and what that says of
	// the skill. Its context outlives the caller's.
	End(ctx context.Context, s *Skill, call *Call, r *Result, o limit.Outcome, took time.Duration)
}

// Begun is a call whose intent is recorded.
type Begun struct {
	// Key is the idempotency key that the handler gets; "" leaves the one that the call
	// has.
	Key string
	// Permit lets the handler run.
	Permit *grant.Permit
	// NotMade says that the call is recorded and not to be made: its caller is told what it
	// would have been.
	NotMade bool
}

// A Notifier tells others what came of calls.
type Notifier interface {
	// Notify must not block. The result is shared and not to be changed.
	Notify(ctx context.Context, s *Skill, call *Call, r *Result)
}

// An Executor runs skills: every call goes through it, whoever makes it.
type Executor struct {
	config  Config
	running sync.WaitGroup
}

// NewExecutor returns an Executor.
func NewExecutor(c Config) *Executor {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxContent = cmp.Or(c.MaxContent, DefaultMaxContent)
	return &Executor{config: c}
}

// Lookup makes a Config.Lookup of the Get of a [Catalog].
func Lookup(get func(name string) (*Skill, bool)) func(ctx context.Context, name string) (*Skill, error) {
	return func(_ context.Context, name string) (*Skill, error) {
		if s, ok := get(name); ok {
			return s, nil
		}
		return nil, mesh.Errorf(mesh.NotFound, "skill.Lookup", "There is no skill '%s'", clip(name))
	}
}

// Execute runs the call and always returns a result: whatever goes wrong is in
// it as text that lets a model go on (S3-026). The call and env stay as they
// are.
//
// These are the stages of a call, in their order. Each is passed once, and one
// that refuses the call is the last (S3-021): scope, look-up, validation,
// permission, breaker, timeout, budget, idempotency key and audit, handler,
// end of the audit, report to the breaker, notification.
func (x *Executor) Execute(ctx context.Context, call *Call, env *Env) *Result {
	env = env.complete()
	s, ready, refusal := x.prepare(ctx, call, env)
	if refusal == nil && !x.config.Dry {
		refusal = x.permit(ctx, s, ready, env)
	}
	if refusal != nil {
		return refusal
	}
	done := func(context.Context, limit.Outcome) {}
	if x.config.Breaker != nil {
		allowed, err := x.config.Breaker.Allow(ctx, s.Name)
		if err != nil {
			return because(err, text.SkillUnavailable(s.Name))
		}
		done = allowed
	}
	end := x.attempt(ctx, s, ready, env)
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	done(settling, end.outcome)
	if end.made && x.config.Notifier != nil {
		x.config.Notifier.Notify(settling, s, ready, end.result)
	}
	return end.result
}

// Wait returns when no handler is running any more, also none that was given
// up for being late. No call may be started meanwhile.
func (x *Executor) Wait() { x.running.Wait() }

// prepare is scope, look-up and validation. It returns the call as a handler
// gets it, or a refusal.
func (x *Executor) prepare(ctx context.Context, call *Call, env *Env) (*Skill, *Call, *Result) {
	if x.config.Allowed != nil && !x.config.Allowed(call.Skill) {
		err := mesh.Errorf(mesh.Denied, "skill.Execute", "The skill is out of scope")
		return nil, nil, because(err, text.SkillNotGiven(clip(call.Skill)))
	}
	s, err := x.config.Lookup(ctx, call.Skill)
	switch {
	case mesh.IsCode(err, mesh.NotFound):
		return nil, nil, because(err, text.UnknownSkill(clip(call.Skill), x.hint(call.Skill)))
	case err != nil:
		return nil, nil, refused(ctx, env.logger(call.Skill), clip(call.Skill), err)
	}
	args, problems := s.arguments(call.Args)
	if len(problems) > 0 {
		err := mesh.InvalidField("skill.Execute", "arguments", "%s", strings.Join(problems, "; "))
		return nil, nil, because(err, text.InvalidArguments(s.Name, strings.Join(problems, "; "), s.usage()))
	}
	if _, ok := x.config.Handlers[s.Handler]; !ok && s.Handler != "" {
		err := mesh.Errorf(mesh.Unsupported, "skill.Execute", "its handler '%s' is not installed here", s.Handler)
		return nil, nil, refused(ctx, env.logger(s.Name), s.Name, err)
	}
	ready := *call
	ready.Skill, ready.Of, ready.Args = s.Name, s, args
	return s, &ready, nil
}

// permit asks for the user's approval where the skill wants it, and returns
// what keeps the call from going on, or nil.
func (x *Executor) permit(ctx context.Context, s *Skill, call *Call, env *Env) *Result {
	if effect := x.config.Handlers[s.Handler].effect; effect != nil {
		var err error
		if call.Effect, err = effect(call, env); err != nil {
			return refused(ctx, env.logger(s.Name), s.Name, err)
		}
	}
	if x.config.Approver == nil || !s.Asks() && call.Effect == nil {
		return nil
	}
	verdict, ask, err := x.config.Approver.Approve(ctx, s, call)
	switch {
	case err != nil:
		return refused(ctx, env.logger(s.Name), s.Name, err)
	case verdict == Approved:
		return nil
	case verdict == Wait:
		return &Result{Status: StatusWaiting, Content: text.WaitsForApproval(s.Name), Ask: ask}
	}
	err = &mesh.Error{Code: mesh.Denied, Op: "skill.Execute", Reason: mesh.ReasonDeclined, Detail: text.Refused()}
	return refused(ctx, env.logger(s.Name), s.Name, err)
}

// An end is what an admitted call came to.
type end struct {
	result  *Result
	outcome limit.Outcome
	made    bool // the handler was called
}

// attempt is what happens within the timeout: budget, key and intent, and the
// handler; and after it the record of the end.
func (x *Executor) attempt(ctx context.Context, s *Skill, call *Call, env *Env) end {
	timed, cancel := context.WithTimeoutCause(ctx, x.config.Timeout, errLate)
	defer cancel()
	begin, err := x.begin(timed, s, call)
	if err != nil {
		return end{result: refused(timed, env.logger(s.Name), s.Name, err)}
	}
	begun := time.Now()
	var e end
	if begin.NotMade {
		e = x.show(timed, s, call, env)
	} else {
		e = x.run(timed, s, begin.Permit, call, env)
		e.made = true
	}
	if s.Handler != "" {
		e.result = cut(e.result, x.config.MaxContent, s, call.Source)
	}
	if x.config.Journal != nil {
		settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		x.config.Journal.End(settling, s, call, e.result, e.outcome, time.Since(begun))
	}
	return e
}

// begin takes the call off the budget, records its intent and gives it its key.
func (x *Executor) begin(ctx context.Context, s *Skill, call *Call) (begun Begun, err error) {
	if x.config.Budget != nil {
		if err := x.config.Budget.Take(ctx, s.Name); err != nil {
			return begun, err
		}
	}
	if x.config.Journal != nil {
		if begun, err = x.config.Journal.Begin(ctx, s, call); err != nil {
			return begun, err
		}
	}
	call.Key = cmp.Or(begun.Key, call.Key)
	if call.Key == "" {
		call.Key = mesh.NewEventID()
	}
	return begun, nil
}

// errLate is the cause of a context whose call took longer than a call may.
var errLate = errors.New("the call took too long")

// refused is the result of a call that was not made for that reason.
func refused(ctx context.Context, log *slog.Logger, name string, err error) *Result {
	if ctx.Err() != nil && mesh.DetailOf(err) == "" {
		return because(err, text.CallUntimely(name))
	}
	return because(err, text.CallFailed(name, reason(ctx, log, err)))
}

// reason is what a model may know of the error, without a full stop; what it
// may not is logged.
func reason(ctx context.Context, log *slog.Logger, err error) string {
	detail := mesh.DetailOf(err)
	if detail == "" {
		log.ErrorContext(ctx, "skill failed", "err", err)
		detail = "internal error"
	}
	if field := mesh.FieldOf(err); field != "" {
		detail = "'" + field + "' " + detail
	}
	return strings.TrimSuffix(detail, ".")
}

// because is a failed result with its cause.
func because(err error, words string) *Result {
	return &Result{Status: StatusError, Content: words, Err: err}
}
