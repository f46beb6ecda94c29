package admission

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// effects reports whether a call of the skill may have one, as far as the mesh knows it.
func (w *ruling) effects(name string) bool {
	s, ok := w.skill(name)
	return !ok || s.HasEffects()
}

// Effect has the mesh do what an agent asks of it and its user has to approve, as
// [mesh.CallCreateSkill]: do is called if the user has said yes to just these arguments,
// or has made the very request, and that word counts once. It is in the log before,
// as a call of the execution, and so is what came of it. Without the user's word it is
// Precondition, and nothing is done.
func (c *Controller) Effect(ctx context.Context, g *mesh.Grant, name, args string, do func() error) error {
	const op = "admission.Effect"
	call, said := "", false
	err := c.states.With(ctx, g.Key(), func(st *thread.State) error {
		if x := st.Execution(g.Execution); x != nil {
			call, said = approvedCall(x, name, args)
		}
		return nil
	})
	if err != nil {
		return mesh.Wrap(op, err)
	}
	note := func(ctx context.Context, bodies ...mesh.Body) error {
		events := make([]*mesh.Event, len(bodies))
		for i, b := range bodies {
			events[i] = &mesh.Event{ID: mesh.NewEventID(), Execution: g.Execution, Body: b}
		}
		_, err := c.append(ctx, &request{grant: g, events: events, byNode: true})
		return mesh.Wrap(op, err)
	}
	if call == "" {
		return &mesh.Error{Code: mesh.Precondition, Op: op, Reason: mesh.ReasonApproval, Forbidden: true, Detail: "the user has not said yes to this: " +
			"record an ApprovalAsked of " + name + " with the same arguments, ask the user, and call again after the answer"}
	}
	id := thread.EffectOf(call)
	intent := []mesh.Body{mesh.ApprovalSettled{Call: call, Approved: true}, mesh.SkillCalled{Call: id, Skill: name, Args: args}}
	if said {
		intent = intent[1:]
	}
	if err := note(ctx, intent...); err != nil {
		return err
	}
	err = do()
	// Nobody waits for that: an execution that is over by now has the intent in its log.
	_ = note(context.WithoutCancel(ctx), mesh.SkillReturned{Call: id, Failed: err != nil, Content: mesh.Clip(mesh.DetailOf(err), maxDetail), Blameless: true})
	return err
}

// approvedCall returns the call of the execution to which the user's word applies, and
// whether that word is in the log; "" if there is none.
func approvedCall(x *thread.Execution, name, args string) (call string, said bool) {
	what := mesh.CallDigest(name, "", args)
	for call, d := range x.Approved {
		if d == what {
			return call, true
		}
	}
	for _, a := range x.Approvals {
		if a.What == what && a.Answer == mesh.AnswerYes {
			return a.Call, false
		}
	}
	if c := x.Requested; c != nil && c.Skill == name {
		return "requested", true
	}
	return "", false
}
