// Package chain is the agent that has others work in stages: one agent, or several at the
// same time whose results a model puts together, and then the next stage with what came of
// it.
//
// To whoever asks it, it is one agent that takes a text and gives a text; to it, an agent of
// a stage is one, too, whatever that is: an orchestrator is one agent of a stage, whose
// failing agents are its own business. The stages are orders of package dispatch, each with
// those of the stage before it in depends_on: the chain itself decides nothing and schedules
// nothing.
//
// It guarantees that a stage begins when all of the stage before it is done; that every
// agent gets the chain's input and what came of the stage before its own, and nothing else;
// and that a stage that fails ends the chain, with what there is until then and what failed.
//
// It keeps no state; invocations run concurrently. It calls no skills.
package chain

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// Config is what the agent cannot work without (Card, Stages, Conns), and what it can
// choose.
type Config struct {
	Card   *a2apb.AgentCard
	Stages []Stage
	// Conns are connections to other agents: a *rpc.Pool.
	Conns dispatch.Conns
	// Dispatch says how; what it says of sub-agents, of their number and of the profile has no
	// effect.
	Dispatch dispatch.Options
	// Logger is for the operator. The default discards.
	Logger *slog.Logger
}

// A Stage is the work of one agent, or of several at the same time.
type Stage struct {
	Name string
	// Task is what its agents are to do with the input; "" leaves it at the input.
	Task   string
	Agents []Agent
	// Synthesis is the agent that puts the results of several together; without one the
	// next stage gets them as they are.
	Synthesis string
}

// An Agent is one of a stage: what it is called there, and as whom it is registered.
type Agent struct{ Name, Agent string }

// New returns the agent. The error is Invalid and names the field.
func New(cfg Config) (agent.Agent, error) {
	const op = "chain.New"
	switch {
	case cfg.Card == nil:
		return nil, mesh.InvalidField(op, "card", "is missing")
	case len(cfg.Stages) == 0:
		return nil, mesh.InvalidField(op, "stages", "are missing; a chain has at least one")
	case cfg.Conns == nil:
		return nil, mesh.InvalidField(op, "conns", "are missing; give a connection pool")
	}
	ids := map[string]bool{}
	for _, o := range plan(cfg.Stages, "-") {
		if ids[o.AgentID] {
			return nil, mesh.InvalidField(op, "stages", "have names of which two mean the same, %s; rename one", o.AgentID)
		}
		ids[o.AgentID] = true
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Dispatch.SubAgents, cfg.Dispatch.Leaves, cfg.Dispatch.Logger = nil, false, cfg.Logger
	cfg.Dispatch.MaxAgents, cfg.Dispatch.Budget = -1, -1 // its caller and the node bound it
	cfg.Dispatch.Profile = dispatch.ProfileFull          // no model dispatches
	return &chain{cfg}, nil
}

type chain struct{ Config }

func (c *chain) Card() *a2apb.AgentCard { return c.Config.Card }

func (c *chain) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		d := dispatch.New(ctx, inv, c.Conns, c.Dispatch)
		defer d.Close()
		if err := c.begin(ctx, inv, d); err != nil {
			yield(nil, mesh.Wrap("chain.Run", err))
			return
		}
		var before []dispatch.Result // of the stages that are done
		for i, s := range c.Stages {
			if !yield(agent.Progress{Text: fmt.Sprintf("Stage %s (%d of %d)", s.Name, i+1, len(c.Stages)), Step: i + 1, Steps: len(c.Stages)}, nil) {
				return
			}
			results, err := d.Wait(ctx, labels(s))
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, mesh.Wrap("chain.Run", err))
				return
			}
			if ask, waits := d.Ask(ctx); waits {
				yield(ask, nil)
				return
			}
			if failed := failures(results); len(failed) > 0 {
				c.fail(yield, s, before, results, failed)
				return
			}
			before = outcome(s, results)
		}
		yield(agent.Text{Text: together(before)}, nil)
	}
}

// begin dispatches all stages at once, but for what an execution that goes on has
// dispatched before.
func (c *chain) begin(ctx context.Context, inv *agent.Invocation, d *dispatch.Dispatcher) error {
	input := inv.Text()
	had := d.List()
	if inv.Resumed && len(had) > 0 {
		input = inputOf(had[0].Mission, c.Stages[0].Task)
	}
	batch := slices.DeleteFunc(plan(c.Stages, input), func(o dispatch.Order) bool {
		return slices.ContainsFunc(had, func(r dispatch.Result) bool { return r.AgentID == o.AgentID })
	})
	for _, err := range d.Dispatch(ctx, batch) {
		if err != nil {
			return err
		}
	}
	return nil
}

// plan are the orders of all stages: each stage depends on what the one before it gives.
func plan(stages []Stage, input string) (orders []dispatch.Order) {
	var after []string
	for _, s := range stages {
		ids := labels(s)
		for i, a := range s.Agents {
			orders = append(orders, dispatch.Order{AgentID: ids[i], Name: a.Agent, Mission: mission(s.Task, input), DependsOn: after})
		}
		after = ids
		if s.Synthesis != "" {
			last := len(ids) - 1
			orders = append(orders, dispatch.Order{AgentID: ids[last], Name: s.Synthesis, Mission: mission(synthesise, input), DependsOn: ids[:last]})
			after = ids[last:]
		}
	}
	return orders
}

// synthesise is the task of who puts the results of a stage together.
const synthesise = "Put the results of the agents together into one answer to the input. Say where they agree, where they differ, and what is missing."

// inputMark is between what a stage is to do and the chain's input.
const inputMark = "\n\n## Input\n"

func mission(task, input string) string {
	if task == "" {
		return input
	}
	return task + inputMark + input
}

// inputOf is the input that a mission for the task was made of.
func inputOf(mission, task string) string {
	if task == "" {
		return mission
	}
	return strings.TrimPrefix(mission, task+inputMark)
}

// labels are the ids of the orders of a stage; that of its synthesis is last.
func labels(s Stage) (ids []string) {
	if len(s.Agents) == 1 {
		return []string{s.Name}
	}
	for i := range s.Agents {
		ids = append(ids, fmt.Sprintf("%s-%d", s.Name, i+1))
	}
	if s.Synthesis != "" {
		ids = append(ids, s.Name+"-synthesis")
	}
	return ids
}

// failures are the results that are none.
func failures(results []dispatch.Result) []dispatch.Result {
	return slices.DeleteFunc(slices.Clone(results), func(r dispatch.Result) bool {
		return r.Status == dispatch.StatusCompleted || r.Status == dispatch.StatusSkipped
	})
}

// outcome is what a stage that is done gives the next one.
func outcome(s Stage, results []dispatch.Result) []dispatch.Result {
	if s.Synthesis != "" {
		return results[len(results)-1:]
	}
	return results
}

// together is a text of the results; of one, it is that.
func together(results []dispatch.Result) string {
	if len(results) == 1 {
		return results[0].Result
	}
	var parts []string
	for _, r := range results {
		parts = append(parts, "## "+r.AgentID+"\n\n"+r.Result)
	}
	return strings.Join(parts, "\n\n")
}

// fail says what there is, and fails with what there is not.
func (c *chain) fail(yield func(agent.Output, error) bool, s Stage, before, results, failed []dispatch.Result) {
	have := slices.DeleteFunc(slices.Clone(results), func(r dispatch.Result) bool { return r.Status != dispatch.StatusCompleted })
	if len(have) == 0 {
		have = before
	}
	if len(have) > 0 && !yield(agent.Text{Text: together(have)}, nil) {
		return
	}
	var why []string
	for _, r := range failed {
		why = append(why, fmt.Sprintf("%s: %s", c.called(s, r), mesh.Clip(strings.Join(strings.Fields(r.Result), " "), maxWhy)))
	}
	yield(nil, mesh.Errorf(mesh.Unavailable, "chain.Run", "the chain ended in its stage %s, and what comes after it was not done; %s", s.Name, strings.Join(why, "; ")))
}

// maxWhy is how much is said of one failure, in bytes.
const maxWhy = 300

// called is what the agent of a result is called in the chain.
func (c *chain) called(s Stage, r dispatch.Result) string {
	if i := slices.Index(labels(s), r.AgentID); i >= 0 && i < len(s.Agents) {
		return s.Agents[i].Name + " (" + r.Status + ")"
	}
	return "synthesis (" + r.Status + ")"
}
