package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
)

// UseSkill is the name of the tool that calls skills.
const UseSkill = "use_skill"

// DefaultMaxToolCalls is how many skills one execution calls (S0-059).
const DefaultMaxToolCalls = 5

// SkillOptions are the choices of NewSkillTools.
type SkillOptions struct {
	// Handlers run the skills, by what skills name in Handler.
	Handlers map[string]skill.Handler
	// Skills are the skills offered, as patterns; those that the grant does
	// not allow are left out. The default is all that the grant allows.
	Skills []string
	// MaxToolCalls bounds the calls, if the invocation does not. The default
	// is DefaultMaxToolCalls.
	MaxToolCalls int
	// Timeout bounds one call. The default is skill.DefaultTimeout.
	Timeout time.Duration
	// Now tells handlers the time, in the user's zone. The default is time.Now.
	Now func() time.Time
	// Logger is for the operator. The default discards.
	Logger *slog.Logger
}

// SkillTools is the tool use_skill, by which a model calls the skills that its
// execution was granted, and no other: they are all that its definition names,
// and all that it runs (S0-036 to S0-038). Every call is recorded before it
// starts, under its idempotency key, and when it ended.
type SkillTools struct {
	inv      *Invocation
	offered  []string // names, sorted
	tool     llm.Tool
	executor *skill.Executor
	env      *skill.Env
	most     int
	logger   *slog.Logger

	mu     sync.Mutex
	used   int
	loaded map[string]*skill.Skill
}

// NewSkillTools asks the mesh for its skills and returns the tool for those
// that are granted. Equal sets of skills give the same bytes (S0-081).
func NewSkillTools(ctx context.Context, inv *Invocation, o SkillOptions) (*SkillTools, error) {
	skills, err := inv.Mesh.Skills(ctx)
	if err != nil {
		return nil, mesh.Wrap("agent.NewSkillTools", err)
	}
	skills = slices.DeleteFunc(slices.Clone(skills), func(s *meshv1.Skill) bool {
		return !inv.Grant.AllowsSkill(s.GetName()) || !wanted(o.Skills, s.GetName())
	})
	slices.SortFunc(skills, func(a, b *meshv1.Skill) int { return cmp.Compare(a.GetName(), b.GetName()) })
	t := &SkillTools{
		inv: inv, most: cmp.Or(inv.MaxToolCalls, o.MaxToolCalls, DefaultMaxToolCalls),
		logger: o.Logger, loaded: map[string]*skill.Skill{},
	}
	if t.logger == nil {
		t.logger = slog.New(slog.DiscardHandler)
	}
	for _, s := range skills {
		t.offered = append(t.offered, s.GetName())
	}
	t.tool = useSkill(skills, t.offered)
	opts := []skill.Option{skill.WithNames(func() []string { return t.offered })}
	if o.Timeout > 0 {
		opts = append(opts, skill.WithTimeout(o.Timeout))
	}
	t.executor = skill.NewExecutor(t.lookup, o.Handlers, opts...)
	t.env = &skill.Env{
		Tenant: inv.Thread.Tenant, User: inv.User, Thread: inv.Thread.ID,
		State: inv.Mesh.State(), Now: o.Now, Logger: t.logger,
	}
	return t, nil
}

func wanted(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return mesh.SkillMatches(p, name) })
}

// useSkill defines the tool for the skills, which are sorted.
func useSkill(skills []*meshv1.Skill, names []string) llm.Tool {
	var b strings.Builder
	b.WriteString("Calls one of your skills. Give its name and its arguments, as the parameters listed here say.")
	for _, s := range skills {
		fmt.Fprintf(&b, "\n\n### %s\n%s\n%s", s.GetName(), s.GetDescription(), toJSON(parameters(s)))
	}
	return llm.Tool{
		Name: UseSkill, Description: b.String(),
		Parameters: json.RawMessage(`{"type":"object","properties":{"skill":{"type":"string","enum":` + toJSON(names) +
			`},"arguments":{"type":"object"}},"required":["skill","arguments"],"additionalProperties":false}`),
	}
}

// Offered returns the names of the skills that may be called, sorted.
func (t *SkillTools) Offered() []string { return slices.Clone(t.offered) }

// List returns the tool; nothing if no skill is granted.
func (t *SkillTools) List(context.Context) []llm.Tool {
	if len(t.offered) == 0 {
		return nil
	}
	return []llm.Tool{t.tool}
}

// Call runs a skill.
func (t *SkillTools) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	if use.Name != UseSkill {
		return failedTool("Unknown tool: " + use.Name)
	}
	var args struct {
		Skill     string         `json:"skill"`
		Arguments map[string]any `json:"arguments"`
	}
	if err := json.Unmarshal([]byte(use.Arguments), &args); err != nil {
		return failedTool(`Give use_skill an object with "skill", a name, and "arguments", an object`)
	}
	if !t.spend(ctx) {
		return failedTool(fmt.Sprintf("The limit of %d skill calls is reached; answer with what you have", t.most))
	}
	call := &skill.Call{Skill: args.Skill, Args: args.Arguments}
	if t.allowed(args.Skill) {
		return t.recorded(ctx, use.ID, call)
	}
	return result(t.executor.Execute(ctx, call, t.env, t.allowed))
}

// Wait returns when no handler is running any more, also none that was given
// up for being late. Whoever made the tools calls it when the run is over.
func (t *SkillTools) Wait() { t.executor.Wait() }

// spend takes one call off the budget.
func (t *SkillTools) spend(ctx context.Context) bool {
	t.mu.Lock()
	t.used++
	used := t.used
	t.mu.Unlock()
	if used <= t.most {
		return true
	}
	_, err := t.inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.LimitTripped{
		Limit: "agent.tool_calls", Detail: "A skill call was refused", Used: int64(used), Most: int64(t.most),
	}})
	if err != nil {
		t.logger.WarnContext(ctx, "a limit could not be recorded", "err", err)
	}
	return false
}

func (t *SkillTools) allowed(name string) bool { return slices.Contains(t.offered, name) }

// recorded runs a call between the record of its intent and that of its end.
// A call whose intent cannot be recorded does not happen.
func (t *SkillTools) recorded(ctx context.Context, id string, call *skill.Call) llm.ToolResult {
	if err := t.load(ctx, call.Skill); err != nil {
		return failedTool(explain("The skill "+call.Skill+" cannot be loaded", err))
	}
	args, err := json.Marshal(call.Args)
	if err != nil {
		return failedTool("The arguments have no JSON form")
	}
	intent := &mesh.Event{ID: mesh.NewEventID(), Body: mesh.SkillCalled{Call: id, Skill: call.Skill, Args: string(args)}}
	if _, err := t.inv.Mesh.Record(ctx, intent); err != nil {
		return failedTool(explain("The skill "+call.Skill+" was not called", err))
	}
	call.Key = intent.ID
	begun := time.Now()
	r := t.executor.Execute(ctx, call, t.env, t.allowed)
	_, err = t.inv.Mesh.Record(context.WithoutCancel(ctx), &mesh.Event{Body: mesh.SkillReturned{
		Call: id, Failed: r.Failed(), Content: clipText(r.Content), Files: r.Files, Duration: time.Since(begun),
	}})
	if err != nil { // it did happen: the model must know what came of it
		t.logger.WarnContext(ctx, "the end of a skill call could not be recorded", "skill", call.Skill, "err", err)
	}
	return result(r)
}

func result(r *skill.Result) llm.ToolResult {
	return llm.ToolResult{Text: clipText(r.Content), Failed: r.Failed()}
}

// load gets the skill's file from the mesh.
func (t *SkillTools) load(ctx context.Context, name string) error {
	if _, ok := t.lookup(name); ok {
		return nil
	}
	s, err := t.inv.Mesh.Skill(ctx, name)
	if err != nil {
		return err
	}
	parsed, err := skill.Parse(s.GetPath(), []byte(s.GetSource()))
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded[name] = parsed
	return nil
}

func (t *SkillTools) lookup(name string) (*skill.Skill, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.loaded[name]
	return s, ok
}

// clipText shortens a result to what an event may have.
func clipText(s string) string {
	if len(s) <= mesh.MaxResult {
		return s
	}
	end := mesh.MaxResult
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "\n[cut]"
}
