package dispatch

import (
	"cmp"
	"context"
	"slices"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// A SubAgent is an agent that may be dispatched.
type SubAgent struct {
	Name string // what orders call it
	// Agent is as whom it is registered; "" for Name.
	Agent string
}

// Terms are what holds for an agent whoever dispatches it.
type Terms struct {
	// MaxToolCalls is how many skills it may call where an order does not say; 0 for what
	// holds for all.
	MaxToolCalls int
	// Budget is what it may use with all below it at most, whatever an order says.
	Budget mesh.Budget
	// Tools are what it works with, in lines for models, as "MCP tools: loki"; without
	// any, its card says it.
	Tools []string
}

// registered is as whom the agent that an order names is registered; false if it may not
// be dispatched.
func (o *Options) registered(name string) (string, bool) {
	if o.SubAgents == nil {
		return name, true
	}
	i := slices.IndexFunc(o.SubAgents, func(s SubAgent) bool { return s.Name == name })
	if i < 0 {
		return "", false
	}
	return cmp.Or(o.SubAgents[i].Agent, name), true
}

// called is what orders call the agent that is registered so.
func (o *Options) called(agent string) string {
	if i := slices.IndexFunc(o.SubAgents, func(s SubAgent) bool { return s.Agent == agent }); i >= 0 && agent != "" {
		return o.SubAgents[i].Name
	}
	return agent
}

// may reports whether the agent may be dispatched, of those that are listed.
func (o *Options) may(a *meshv1.Agent) bool {
	if o.SubAgents != nil {
		return slices.ContainsFunc(o.SubAgents, func(s SubAgent) bool { return cmp.Or(s.Agent, s.Name) == a.GetName() })
	}
	return !o.Leaves || !said(a.GetCard(), "orchestration") && !said(a.GetCard(), "stateful_workflows") &&
		!slices.Contains(o.Talkers, a.GetName()) && strings.TrimSpace(a.GetCard().GetDescription()) != ""
}

// mostCalls is how many skills the order allows.
func (d *Dispatcher) mostCalls(o Order) int {
	name, _ := d.opts.registered(o.Name)
	return cmp.Or(o.MaxToolCalls, d.opts.Terms[name].MaxToolCalls)
}

// named finds the agent that an order names, which need not be listed. With Unavailable it
// returns what is known of it.
func (d *Dispatcher) named(ctx context.Context, name string, listed []*meshv1.Agent) (*meshv1.Agent, error) {
	const op = "dispatch.choose"
	as, ok := d.opts.registered(name)
	if !ok {
		var names []string
		for _, s := range d.opts.SubAgents {
			names = append(names, s.Name)
		}
		return nil, mesh.Errorf(mesh.NotFound, op, "%q cannot be dispatched; there are %s", name, strings.Join(names, ", "))
	}
	var a *meshv1.Agent
	if i := slices.IndexFunc(listed, func(a *meshv1.Agent) bool { return a.GetName() == as }); i >= 0 {
		a = listed[i]
	} else if found, err := d.inv.Mesh.Agent(ctx, as); err == nil {
		a = found
	} else if !mesh.IsCode(err, mesh.NotFound) {
		return nil, err
	}
	switch {
	case a == nil && d.returning():
		return nil, mesh.Errorf(mesh.Unavailable, op, "there is no agent %q, or not again yet", name)
	case a == nil:
		return nil, mesh.Errorf(mesh.NotFound, op, "there is no agent %q; list the agents to see which there are", name)
	case !d.opts.may(a):
		return nil, mesh.Errorf(mesh.NotFound, op, "%q has others work itself, talks with users only, or does not say what it is for, and cannot be dispatched", name)
	case len(a.GetMissingPermissions()) > 0:
		return nil, mesh.Requires(op, name, a.GetMissingPermissions()[0])
	case !a.GetLive():
		return a, mesh.Errorf(mesh.Unavailable, op, "%s is not available: %s", name, a.GetProblem())
	}
	return a, nil
}

// A listing is an agent that may be dispatched by the name.
type listing struct {
	name string
	*meshv1.Agent
}

// listings are the agents that the execution may dispatch by name: those that are there, of
// the ones that it may have, and that are not at work above it.
func (d *Dispatcher) listings(ctx context.Context) (out []listing, err error) {
	listed, err := d.inv.Mesh.Agents(ctx, &meshv1.ListAgentsRequest{})
	if err != nil {
		return nil, mesh.Wrap("dispatch.Catalog", err)
	}
	if d.opts.SubAgents == nil {
		for _, a := range listed {
			if d.opts.may(a) {
				out = append(out, listing{a.GetName(), a})
			}
		}
	}
	for _, s := range d.opts.SubAgents {
		if a, err := d.named(ctx, s.Name, listed); err == nil {
			out = append(out, listing{s.Name, a})
		}
	}
	chain := d.inv.Grant.Agents()
	return slices.DeleteFunc(out, func(l listing) bool { return !l.GetLive() || denied(l.Agent) || slices.Contains(chain, l.GetName()) }), nil
}

// Ask returns what the user has to be asked before anything goes on, once nothing is at
// work; false if nothing waits for the user. The run then ends with it.
func (d *Dispatcher) Ask(ctx context.Context) (agent.Ask, bool) {
	waiting := d.pause(ctx, nil)
	if len(waiting) == 0 {
		return agent.Ask{}, false
	}
	questions, report := d.question(ctx, waiting)
	return agent.AskAbout(questions, report), true
}
