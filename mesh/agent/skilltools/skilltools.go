package skilltools

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
)

// UseSkill is the name of the tool that calls skills.
const UseSkill = "use_skill"

// A Face is how a model calls skills. Whichever it is, calls come to the same.
type Face = llm.Face

// The faces.
const (
	FaceCommands = llm.FaceCommands
	FaceUseSkill = llm.FaceUseSkill
	FaceDirect   = llm.FaceDirect
)

// Bounds of what a model is shown of its skills.
const (
	// DefaultMaxToolCalls is how many skills one execution calls (S0-059).
	DefaultMaxToolCalls = 5
	// maxListed is how many skills are described in full; more have to be
	// looked up.
	maxListed = 24
	// maxNamed is how many skills that are to be looked up are named; of more,
	// only the domains are.
	maxNamed = 100
	// maxDirect is how many skills have a tool each: providers refuse more than
	// 128 tools, and one may hand the conversation over.
	maxDirect = 127
	// maxDomains is how many domains a prompt names.
	maxDomains = 40
	// Unlimited as Options.MaxToolCalls is no limit of the agent's own.
	Unlimited = -1
)

// Options are the choices of New.
type Options struct {
	// Face is how the model calls skills. The default is FaceUseSkill.
	Face Face
	// Discovery has the model look its skills up, and describes none of them in
	// full. It is so too where more are granted than can be described. A face
	// with a tool for each skill has nothing to look up.
	Discovery bool
	// Handlers run the skills, by what skills name in Handler.
	Handlers map[string]skill.Handler
	// Skills are the skills offered, as patterns; those that the grant does
	// not allow are left out. The default is all that the grant allows.
	Skills []string
	// ReadOnly leaves only skills with the access read, for agents that have
	// others do the rest: no other is shown, found or run, also not by its name
	// and not because a template says so. The mesh keeps to it too, as
	// admission.WithDelegators says.
	ReadOnly bool
	// MaxToolCalls bounds the calls, if the invocation does not. The default
	// is DefaultMaxToolCalls; Unlimited leaves it to the mesh.
	MaxToolCalls int
	// Timeout bounds one call. The default is skill.DefaultTimeout.
	Timeout time.Duration
	// Breaker keeps calls from skills that fail. By default one that follows the
	// tenant's, which the node writes.
	Breaker func(skill.State) skill.Breaker
	// Notify returns who is told of each call's end, or is nil.
	Notify func(inv *agent.Invocation) skill.Notifier
	// Now tells handlers the time, in the user's zone. The default is time.Now.
	Now func() time.Time
	// Logger is for the operator. The default discards.
	Logger *slog.Logger
}

// Tools is the skills that an execution was granted, as a model calls
// them: it sees and runs those and no other (S0-036 to S0-038). Every call is
// recorded before it starts, under its idempotency key, and when it ended.
type Tools struct {
	inv      *agent.Invocation
	o        Options
	scope    []string       // patterns of what may be called
	look     bool           // skills are to be looked up
	listed   []*skill.Skill // described in full, by name
	named    []*skill.Skill // only named, by name; without their texts
	quick    []*skill.Skill // described besides, of those that are to be looked up
	domains  []skill.Index  // if skills are to be looked up
	tools    []llm.Tool
	executor *skill.Executor
	env      *skill.Env
	most     int
	asked    *agent.SkillCall // that runs without a model, or nil
	logger   *slog.Logger

	mu       sync.Mutex
	used     int
	tripped  bool                    // the limit of calls was met
	loaded   map[string]*skill.Skill // a run keeps the version that it saw first
	near     []string                // names like one that was not found
	recorded map[string]bool         // ids of calls whose end is in the log
}

// New asks the mesh for the skills that are granted. Equal sets of
// skills give the same tools and the same prompt, byte by byte (S0-081).
func New(ctx context.Context, inv *agent.Invocation, o Options) (*Tools, error) {
	const op = "skilltools.New"
	t := &Tools{
		inv: inv, o: o, most: cmp.Or(inv.MaxToolCalls, o.MaxToolCalls, DefaultMaxToolCalls), logger: o.Logger,
		loaded: map[string]*skill.Skill{}, recorded: map[string]bool{},
	}
	t.o.Face = cmp.Or(o.Face, FaceUseSkill)
	if t.logger == nil {
		t.logger = slog.New(slog.DiscardHandler)
	}
	t.scope = narrowed(inv.Grant.Skills, o.Skills)
	if err := t.list(ctx); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if err := t.define(); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	t.env = &skill.Env{
		Tenant: inv.Thread.Tenant, User: inv.User, Thread: inv.Thread.ID,
		State: inv.Mesh.State(), CreateSkill: t.create, Now: o.Now, Logger: t.logger,
	}
	breaker := o.Breaker
	if breaker == nil {
		breaker = func(s skill.State) skill.Breaker {
			return limit.NewBreaker(s, limit.BreakerOptions{Probe: limit.ProbeTime(o.Timeout), Logger: t.logger, Follows: true})
		}
	}
	var notifier skill.Notifier
	if o.Notify != nil {
		notifier = o.Notify(inv)
	}
	t.executor = skill.NewExecutor(skill.Config{
		Lookup: t.lookup, Handlers: o.Handlers, Allowed: t.allowed, Names: t.names, Timeout: o.Timeout,
		Approver: approver{t}, Breaker: breaker(t.env.State), Budget: t, Journal: t, Notifier: notifier,
		Dry: inv.Grant.Dry,
	})
	return t, nil
}

// NewReadOnly returns the skills that only read, for an agent that has others do
// the rest: it looks them up, and the limits of calls are the mesh's. What o says of
// Face, Skills, Handlers, Timeout, Breaker and Notify holds.
func NewReadOnly(ctx context.Context, inv *agent.Invocation, o Options, now func() time.Time, logger *slog.Logger) (*Tools, error) {
	o.ReadOnly, o.Discovery, o.MaxToolCalls, o.Now, o.Logger = true, true, Unlimited, now, logger
	return New(ctx, inv, o)
}

// narrowed returns the patterns of what both lists allow. No wanted patterns
// want all.
func narrowed(granted, wanted []string) []string {
	if len(wanted) == 0 {
		wanted = []string{"*"}
	}
	var out []string
	for _, g := range granted {
		for _, w := range wanted {
			switch {
			case mesh.SkillMatches(g, w): // w lies within g
				out = append(out, w)
			case mesh.SkillMatches(w, g):
				out = append(out, g)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// list gets what the model is shown: all skills in full if they are few, and
// otherwise their domains and, if they are not too many, their names.
func (t *Tools) list(ctx context.Context) error {
	if len(t.scope) == 0 {
		return nil
	}
	if t.o.Face == FaceDirect || !t.o.Discovery {
		most := maxListed
		if t.o.Face == FaceDirect {
			most = maxDirect
		}
		found, more, err := t.catalog().find(ctx, &meshv1.ListSkillsRequest{Patterns: t.scope, WithSource: true}, most)
		switch {
		case err != nil:
			return err
		case !more:
			t.listed = found
			for _, s := range found {
				t.loaded[s.Name] = s
			}
			return nil
		case t.o.Face == FaceDirect:
			return mesh.Errorf(mesh.Precondition, "skilltools.Tools", "more than %d skills are granted, too many for a tool each; grant fewer, or use the interface json or cli", maxDirect)
		}
	}
	t.look = true
	return t.overview(ctx)
}

// overview gets what the model is shown of skills that it looks up.
func (t *Tools) overview(ctx context.Context) (err error) {
	if t.domains, err = t.catalog().Domains(ctx); err != nil {
		return err
	}
	named, more, err := t.catalog().find(ctx, &meshv1.ListSkillsRequest{Patterns: t.scope}, maxNamed)
	if err != nil {
		return err
	}
	if !more {
		t.named = named
	}
	if wanted := narrowed(t.scope, common); t.o.Face == FaceCommands && len(wanted) > 0 {
		t.quick, _, err = t.catalog().find(ctx, &meshv1.ListSkillsRequest{Patterns: wanted, WithSource: true}, len(wanted))
		slices.SortFunc(t.quick, func(a, b *skill.Skill) int {
			return cmp.Compare(slices.Index(common, a.Name), slices.Index(common, b.Name))
		})
	}
	return err
}

// common are the skills of the quick reference (S3-089), in its order.
var common = []string{
	"tasks.create", "tasks.search", "tasks.get", "mail.send", "mail.search", "calendar.create", "memory.save", "memory.search",
}

// allowed reports whether the execution may call the skill of that name.
func (t *Tools) allowed(name string) bool {
	return slices.ContainsFunc(t.scope, func(p string) bool { return mesh.SkillMatches(p, name) })
}

// names are those that may be proposed for a mistyped one.
func (t *Tools) names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := append(slices.Collect(maps.Keys(t.loaded)), t.near...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Offered returns the names of the skills that are described to the model in
// full, sorted. None are when no skill is granted, or when they are to be looked
// up; [Tools.Empty] tells.
func (t *Tools) Offered() []string {
	out := make([]string, len(t.listed))
	for i, s := range t.listed {
		out[i] = s.Name
	}
	return out
}

// Empty reports whether there is nothing to call.
func (t *Tools) Empty() bool { return len(t.listed) == 0 && len(t.domains) == 0 }

// lookup returns the skill in the version that this run has seen first.
func (t *Tools) lookup(ctx context.Context, name string) (*skill.Skill, error) {
	t.mu.Lock()
	s := t.loaded[name]
	t.mu.Unlock()
	if s != nil {
		return s, nil
	}
	p, err := t.inv.Mesh.Skill(ctx, name)
	if err != nil {
		if t.look && mesh.IsCode(err, mesh.NotFound) {
			t.search(ctx, name)
		}
		return nil, err
	}
	s = SkillOf(p)
	if err := t.catalog().readable(s); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.loaded[name]; have != nil {
		return have, nil
	}
	t.loaded[name] = s
	return s, nil
}

// search finds names like one that there is not. Without any, nothing is
// proposed.
func (t *Tools) search(ctx context.Context, name string) {
	domain, action, _ := strings.Cut(name, ".")
	found, _, err := t.catalog().find(ctx, &meshv1.ListSkillsRequest{Domain: domain, Patterns: t.scope}, maxNamed)
	if err == nil && len(found) == 0 {
		found, _, err = t.catalog().find(ctx, &meshv1.ListSkillsRequest{Query: domain + " " + action, Patterns: t.scope}, maxFound)
	}
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.near = nil
	for _, s := range found {
		t.near = append(t.near, s.Name)
	}
}

// catalog is what help and discovery may tell of.
func (t *Tools) catalog() remote { return remote{t.inv.Mesh, t.scope, t.o.ReadOnly} }
