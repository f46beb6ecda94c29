package admission

import (
	"context"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread"
)

// A Breaker keeps calls from skills that fail: a *limit.Breaker. It goes by what was
// logged, and by no agent's word beside that.
type Breaker interface {
	Begin(ctx context.Context, skill, call string) error
	End(ctx context.Context, skill, call string, o limit.Outcome)
}

// WithBreakers has calls of skills refused that fail, as of says: it returns the breaker
// of a tenant's skill, or nil if there is no such skill. By default there are none.
func WithBreakers(of func(tenant mesh.TenantID, skill string) Breaker) Option {
	return func(c *Controller) { c.breakers = of }
}

// breakerTime bounds what is written to breakers when events are in the log.
const breakerTime = 5 * time.Second

// An outcome is what came of a call of a skill.
type outcome struct {
	skill, call string
	limit.Outcome
}

func (w *ruling) outcomeOf(skill string, b mesh.SkillReturned) outcome {
	switch {
	case w.grant.Dry && w.effects(skill): // it was not made
		return outcome{skill, b.Call, limit.Unused}
	case !b.Failed:
		return outcome{skill, b.Call, limit.Success}
	case b.Blameless:
		return outcome{skill, b.Call, limit.Unused}
	}
	return outcome{skill, b.Call, limit.Failure}
}

// begin asks the breakers about the calls among the events that the thread does not have.
// It returns those that were let through, as ones that were not made.
func (c *Controller) begin(ctx context.Context, g *mesh.Grant, events []*mesh.Event) (begun []outcome, err error) {
	if c.breakers == nil {
		return nil, nil
	}
	for _, e := range events {
		b, ok := e.Body.(mesh.SkillCalled)
		if !ok || !g.AllowsSkill(b.Skill) {
			continue
		}
		seen := false
		err := c.states.With(ctx, g.Key(), func(st *thread.State) error { seen = st.Seen(e.ID); return nil })
		if err == nil && !seen {
			if of := c.breakers(g.Tenant, b.Skill); of != nil {
				err = of.Begin(ctx, b.Skill, callOf(g, b.Call))
			}
		}
		if err != nil {
			c.end(ctx, g, begun)
			if mesh.IsCode(err, mesh.Unavailable) { // to send it again at once does not help
				err = &mesh.Error{Code: mesh.Precondition, Op: "admission.begin", Detail: mesh.DetailOf(err)}
			}
			return nil, err
		}
		if !seen {
			begun = append(begun, outcome{b.Skill, b.Call, limit.Unused})
		}
	}
	return begun, nil
}

// end tells the breakers what came of calls.
func (c *Controller) end(ctx context.Context, g *mesh.Grant, all []outcome) {
	if c.breakers == nil || len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), breakerTime)
	defer cancel()
	for _, o := range all {
		if of := c.breakers(g.Tenant, o.skill); of != nil {
			of.End(ctx, o.skill, callOf(g, o.call), o.Outcome)
		}
	}
}

// callOf names a call among those of all executions.
func callOf(g *mesh.Grant, call string) string { return string(g.Execution) + "/" + call }
