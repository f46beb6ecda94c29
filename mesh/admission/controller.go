// Package admission has the rules of what agents may append to a thread: a
// [Controller] takes what an execution wants to add under its grant, and adds all
// of it or nothing.
//
// What an execution may say is: its own model, tool and skill calls, approvals,
// notes and limits, its dispatches and how they ended, and, as it is who reads
// their streams, the output and states of the executions that it dispatched.
//
// What is counted or settles something is reserved while it is on its way to the
// disk: of many that ask at once for the last call of a limit one gets it, and it
// is free again if that one's append fails. Nothing is locked meanwhile, and all
// may be called concurrently. Nothing is said by an execution after its end: the
// log judges that, wherever the end was written.
package admission

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/quota"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// A Controller admits what agents append. Use New.
type Controller struct {
	log    *threadlog.Log
	states *cache.States
	now    func() time.Time

	budgets    limit.Budgets
	users      *limit.Windows
	quotas     *quota.Keeper // nil if there are none
	places     *Places       // nil for as many agents as there are
	known      recalled      // tenants whose users' calls are in users
	output     limit.Output
	skills     Skills // nil where nobody knows any
	delegators delegators
	trusted    func(tenant mesh.TenantID, agent string) bool
	standing   func(tenant mesh.TenantID, turn *thread.Execution) error
	terms      func(tenant mesh.TenantID, by, agent string) Terms
	policy     func(p mesh.Principal, a mesh.Action, name string) error
	breakers   func(tenant mesh.TenantID, skill string) Breaker // nil if there are none
	deferral   *slog.Logger                                     // nil where nothing is deferred
	accepting  sync.WaitGroup
	live       context.Context //nolint:containedctx // until Wait: what was accepted outlives its call
	close      context.CancelFunc
}

// maxUsers is how many users' calls are counted at a time.
const maxUsers = 10_000

// An Option changes a default of [New].
type Option func(*Controller)

// WithBudgets limits the skill calls of agents. The budgets must be valid. The
// default is the zero value, which has all the defaults.
func WithBudgets(b limit.Budgets) Option { return func(c *Controller) { c.budgets = b } }

// WithQuotas has users and tenants have no more agents at work, and use no more within a
// day, than their quotas say.
func WithQuotas(k *quota.Keeper) Option { return func(c *Controller) { c.quotas = k } }

// Skills finds the skills of tenants: a *skill.Library.
type Skills interface {
	// For returns what the tenant has, its own skills and the shared ones.
	For(t mesh.TenantID) *skill.Catalog
}

// WithSkills has the mesh take no call of a skill that needs the user's approval without
// one, as the tenant's skills are at that moment, whatever the agent knew of them. Skills
// that are not among them are their agent's own.
func WithSkills(skills Skills) Option { return func(c *Controller) { c.skills = skills } }

// WithDelegators has the mesh take no call of a skill from the agents of these
// names, who have others do their work, nor a question whether they may make one.
// With read, it takes those of skills whose access is read as the tenant's skills
// are at that moment, whatever the agent knew of them. What they may grant to others
// stays as it is.
func WithDelegators(read bool, names ...string) Option {
	return func(c *Controller) { c.delegators = delegators{read, names} }
}

// WithTrust has agents that are dispatched get no skills, no dispatch and no capability
// unless trusted says that somebody trusts them. By default all are.
func WithTrust(trusted func(tenant mesh.TenantID, agent string) bool) Option {
	return func(c *Controller) { c.trusted = trusted }
}

// WithStanding has nothing begun for turns of the tenant for which standing has an error.
// By default all is.
func WithStanding(standing func(tenant mesh.TenantID, turn *thread.Execution) error) Option {
	return func(c *Controller) { c.standing = standing }
}

// WithPolicy has agents call no skill and dispatch no agent for which policy has an error:
// it is asked for the user with the grant, the roles that the user had with the last
// message, and the name of the skill or the agent. By default all may be.
func WithPolicy(policy func(p mesh.Principal, a mesh.Action, name string) error) Option {
	return func(c *Controller) { c.policy = policy }
}

// New returns a Controller of the threads in log. A nil now is time.Now.
func New(log *threadlog.Log, states *cache.States, now func() time.Time, opts ...Option) *Controller {
	if now == nil {
		now = time.Now
	}
	c := &Controller{log: log, states: states, now: now, trusted: func(mesh.TenantID, string) bool { return true },
		standing: func(mesh.TenantID, *thread.Execution) error { return nil },
		terms:    func(mesh.TenantID, string, string) Terms { return Terms{} },
		policy:   func(mesh.Principal, mesh.Action, string) error { return nil }}
	for _, opt := range opts {
		opt(c)
	}
	c.users = limit.NewWindows(c.budgets, maxUsers)
	return c
}

// Admitted is what became of the events of an Append.
type Admitted struct {
	// Seq is that of the last of them.
	Seq mesh.Seq
	// Grants are those of the executions that were dispatched, or that went on
	// with a message of the user.
	Grants map[mesh.ExecutionID]mesh.Grant
	// Calls are those that the events announced and that may be made now.
	Calls []mesh.SkillCalled
	// Left is what the execution may still use; nil where that was not asked, as what was
	// sent again was there.
	Left *limit.Left
}

// Append adds the events to the thread of the grant, as what its execution
// says; they must have ids, and are the Controller's from then on. A skill call
// that exceeds a limit is refused with all that came with it: nothing is added but
// the fact that the limit was met, once for each message of the user. When the
// execution is over, only what the log has already is taken again, so that a
// writer who missed the answer gets one.
func (c *Controller) Append(ctx context.Context, g *mesh.Grant, events []*mesh.Event) (Admitted, error) {
	return c.append(ctx, &request{grant: g, events: events})
}

// append is Append of a request, of which what is the controller's is filled in.
func (c *Controller) append(ctx context.Context, r *request) (Admitted, error) {
	const op = "admission.Append"
	g, events := r.grant, r.events
	if r.left == nil {
		r.left = new(atomic.Pointer[limit.Left])
	}
	if err := prepare(op, events, c.now()); err != nil {
		return Admitted{}, err
	}
	if err := c.recall(ctx, g.Tenant, events); err != nil {
		return Admitted{}, mesh.Wrap(op, err)
	}
	if err := c.quotas.Prepare(ctx, g.Tenant, g.User, dispatches(events)); err != nil {
		return Admitted{}, mesh.Wrap(op, err)
	}
	r.by, r.op, r.now, r.logged = c, op, c.now().UTC().Truncate(time.Millisecond), map[string]bool{}
	begun, err := c.begin(ctx, g, events)
	if err != nil {
		return Admitted{}, mesh.Wrap(op, err)
	}
	got, err := c.rule(ctx, r)
	if err != nil {
		got.giveBack()
		c.end(ctx, g, begun)
		return Admitted{}, err
	}
	c.end(ctx, g, got.ended)
	got.settle()
	if err := got.dispatchedAll(); err != nil {
		return Admitted{}, err
	}
	out := Admitted{Grants: got.grants, Left: r.left.Load()}
	for _, e := range events {
		out.Seq = max(out.Seq, e.Seq)
	}
	out.Calls, err = c.begun(ctx, g, events)
	return out, mesh.Wrap(op, err)
}

// begun returns the calls that the events announced, as the log has them, and that have
// not returned.
func (c *Controller) begun(ctx context.Context, g *mesh.Grant, events []*mesh.Event) (calls []mesh.SkillCalled, err error) {
	called := func(e *mesh.Event) bool { _, ok := e.Body.(mesh.SkillCalled); return ok && e.Execution == g.Execution }
	if !slices.ContainsFunc(events, called) {
		return nil, nil
	}
	err = c.states.With(ctx, g.Key(), func(st *thread.State) error {
		x := st.Execution(g.Execution)
		for _, e := range events {
			if called(e) && x != nil && x.Begun(e) {
				calls = append(calls, e.Body.(mesh.SkillCalled))
			}
		}
		return nil
	})
	return calls, err
}

// rule decides the request, as often as it takes, and returns the last ruling.
func (c *Controller) rule(ctx context.Context, r *request) (got *ruling, err error) {
	got = new(ruling)
	for {
		err = c.states.Reserve(ctx, r.grant.Key(), func(st *thread.State, on cache.Reserved) (cache.Decision, error) {
			got.giveBack()
			got = newRuling(r, st, on)
			return got.decide()
		})
		var need *unknownIDs
		if !errors.As(err, &need) {
			break
		}
		if err := c.lookUp(ctx, r, need); err != nil {
			return got, mesh.Wrap(r.op, err)
		}
	}
	if err == nil && got.trip != nil {
		err = got.trip.Err(r.op)
	}
	return got, err
}

// Over is what becomes of a grant when its execution has ended.
func Over(op string) *mesh.Error {
	e := mesh.Errorf(mesh.Precondition, op, "the execution is over; its grant neither reads the thread nor adds to it any more")
	e.Forbidden = true
	return e
}
