package skill

import (
	"context"
	"encoding/json"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/grant"
)

// Code is what a skill does. Its arguments are checked as far as the
// skill declares them. It ends soon after ctx does, has one effect per key, and
// may be called concurrently. Of an error that is a [mesh.Error], Field and
// Detail are told to the model; of any other error nothing is. An error with
// the code Invalid, NotFound, Precondition, Conflict or Exhausted says that the
// call was wrong, or one too many of its caller's; any other one that the skill
// is not well, as does StatusError.
type Code func(ctx context.Context, call *Call, env *Env) (*Result, error)

// A Handler is the code of a skill, which nobody calls without the node's permit. Use
// HandlerFunc.
type Handler struct {
	run    Code
	effect func(call *Call, env *Env) (*Effect, error) // or nil
	shows  func(call *Call, env *Env) (string, error)  // or nil
}

// HandlerFunc makes a Handler of code.
func HandlerFunc(run Code) Handler { return Handler{run: run} }

// EffectHandler makes a Handler of code that has the mesh do what effect says, which has
// the same answer whenever it is asked about the same call on one day.
func EffectHandler(run Code, effect func(call *Call, env *Env) (*Effect, error)) Handler {
	return Handler{run: run, effect: effect}
}

// Showing returns the handler, of whose calls that are not made shows says what they would
// send, without doing it and without anything secret. Its errors are as those of the code.
func (h Handler) Showing(shows func(call *Call, env *Env) (string, error)) Handler {
	h.shows = shows
	return h
}

// Do runs the call, which the permit is for, and spends it. Without one, or with one for
// another call or other arguments, it is Denied and nothing runs. The call's key is not
// part of the permit.
func (h Handler) Do(ctx context.Context, permit *grant.Permit, call *Call, env *Env) (*Result, error) {
	const op = "skill.Do"
	args, err := json.Marshal(call.Args)
	if err != nil {
		return nil, mesh.InvalidField(op, "arguments", "have no JSON form")
	}
	if err := permit.Use(call.ID, call.Skill, string(args), time.Now()); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return h.run(ctx, call, env)
}

// In returns the handler, whose calls work in the world that place makes of theirs.
func (h Handler) In(place func(env *Env)) Handler {
	return Handler{effect: h.effect, shows: h.shows, run: func(ctx context.Context, call *Call, env *Env) (*Result, error) {
		of := *env
		place(&of)
		return h.run(ctx, call, &of)
	}}
}

// Shared returns the handlers, which work with what all users of a tenant share.
func Shared(handlers map[string]Handler) map[string]Handler {
	out := make(map[string]Handler, len(handlers))
	for name, h := range handlers {
		out[name] = h.In(func(env *Env) { env.Shared = true })
	}
	return out
}
