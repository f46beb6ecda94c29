package runs

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// Erase removes the records of the runs that were a user's, or counts them alone, and returns
// how many there were. Plans forget that the last run was the user's; those of skills that
// are gone go with them.
func (r *Runner) Erase(ctx context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	const op = "runs.Erase"
	prefix, n := string(o.Tenant)+"/", 0
	if !countOnly { // first: what a plan says was begun is looked for
		if err := r.journal.disown(ctx, prefix, o.User); err != nil {
			return nil, mesh.Wrap(op, err)
		}
	}
	for it, err := range r.journal.all(ctx, prefix) {
		if err == nil && it.rec.User != o.User {
			continue
		}
		if err == nil && !countOnly {
			err = r.journal.kv.Delete(ctx, it.key, state.AnyVersion)
		}
		if mesh.IsCode(err, mesh.NotFound) {
			continue
		}
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		n++
	}
	return []mesh.Held{{What: "scheduled runs", Count: n}}, nil
}

// disown takes the user out of the plans whose names begin with the prefix.
func (j journal) disown(ctx context.Context, prefix, user string) error {
	plans, err := j.plans(ctx, prefix)
	if err != nil {
		return err
	}
	for _, p := range plans {
		if p.plan.User != user {
			continue
		}
		p.plan.User, p.plan.Begun = "", 0
		err := j.putPlan(ctx, p.id, p.plan, p.version)
		if err != nil && !mesh.IsCode(err, mesh.Conflict) { // a scheduler did something; the next round sees it
			return err
		}
	}
	return nil
}
