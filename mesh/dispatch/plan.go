package dispatch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
)

// An Order asks for one agent to do one task.
type Order struct {
	// AgentID names the order within its dispatcher, for DependsOn and
	// results; it is not the name of an agent.
	AgentID string
	// Name is the agent to ask; empty to choose one by Skills.
	Name         string
	Mission      string
	Skills       []string
	Context      string
	DependsOn    []string
	MaxToolCalls int
	// Budget is what the agent may use with all below it. The mesh gives it no more than
	// is left.
	Budget mesh.Budget
	// Timeout is how long the agent may take; 0 is what the dispatcher has for it.
	Timeout time.Duration
	// Answers are what the user said to questions that the agent asked before.
	Answers []string
	// Dry says that nothing that the agent does may have an effect; see [mesh.Execution].
	// Only an agent that speaks our extension is asked so.
	Dry bool
	// SkillCall is for an order that is dry, and an agent that runs skills: the call that it
	// is to try, without a model; or nil.
	SkillCall *mesh.SkillCall
	// Call is the id of the model's call by which it was ordered, or "". A call orders
	// once, also after a restart.
	Call string
}

// plan returns the jobs of a batch that can be accepted, or what is wrong with each
// order.
func (d *Dispatcher) plan(ctx context.Context, batch []Order) (jobs []*job, bad []error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.ctx.Err() != nil:
		return nil, slices.Repeat([]error{errClosed}, len(batch))
	case d.lost != nil:
		return nil, slices.Repeat([]error{d.lost}, len(batch))
	}
	places, bad := problems(d.jobs, batch)
	if bad != nil {
		return nil, bad
	}
	if met := cmp.Or(d.met, d.late); met != nil {
		d.meet(met)
		return nil, slices.Repeat([]error{tripOf(met).Err("dispatch.Dispatch")}, len(batch))
	}
	if bad = d.tooMany(ctx, len(batch)); bad != nil {
		return nil, bad
	}
	jobs = make([]*job, len(batch))
	fresh := make([]job, len(batch))
	for i, o := range batch {
		jobs[i] = &fresh[i]
		d.fill(jobs[i], o, mesh.NewExecutionID(d.inv.Thread.ID))
	}
	known := func(id string) *job {
		if i, here := places[id]; here {
			return jobs[i]
		}
		return d.jobs[id]
	}
	edges := 0
	for i := range batch {
		edges += len(batch[i].DependsOn)
	}
	deps, ids := make([]*job, 0, edges), make([]mesh.ExecutionID, 0, edges) // of all, to be cut
	for _, j := range jobs {
		j.deps = deps
		j.resolve(known)
		n := len(j.deps)
		deps, j.deps = j.deps[n:], j.deps[:n:n]
		for _, dep := range j.deps {
			ids = append(ids, dep.exec.ID)
		}
		j.exec.DependsOn, ids = ids[:n:n], ids[n:]
	}
	for _, j := range jobs {
		j.inWave()
	}
	return jobs, nil
}

// resolve finds the jobs that the job depends on.
func (j *job) resolve(known func(id string) *job) {
	for _, id := range j.Order.DependsOn {
		if dep := known(id); dep != nil {
			j.deps = append(j.deps, dep)
		}
	}
}

// inWave works out the job's wave, of a graph without circles.
func (j *job) inWave() int {
	if j.wave == 0 {
		before := 0
		for _, dep := range j.deps {
			before = max(before, dep.inWave())
		}
		j.wave = before + 1
	}
	return j.wave
}

// fill makes the job an order under the id of its execution.
func (d *Dispatcher) fill(j *job, o Order, id mesh.ExecutionID) {
	o.MaxToolCalls = d.mostCalls(o)
	as, ok := d.opts.registered(o.Name)
	if !ok { // it is refused when it is to be asked
		as = o.Name
	}
	j.Order, j.Result = o, Result{AgentID: o.AgentID, Status: StatusPending, ExecutionID: id, Agent: o.Name, Mission: o.Mission}
	j.exec = mesh.Execution{
		ID: id, Parent: d.inv.Execution, Kind: mesh.KindAgent, Agent: as,
		User: d.inv.User, Label: o.AgentID, Text: o.Mission, Skills: o.Skills, MaxToolCalls: o.MaxToolCalls, Budget: o.Budget, Dry: o.Dry,
	}
}

// problems checks the orders of one batch together, against those that there
// are already: everything wrong with any of them refuses the whole batch, so
// that nothing of it has begun (S0-043). It returns a problem for each order or, if
// all are right, the place of each in the batch by its id.
func problems(have map[string]*job, batch []Order) (places map[string]int, bad []error) {
	const op = "dispatch.Plan"
	bad = make([]error, len(batch))
	first := -1
	note := func(i int, err error) {
		if bad[i] == nil {
			bad[i] = err
		}
		if first < 0 {
			first = i
		}
	}
	at := make(map[string]int, len(batch))
	for i, o := range batch {
		switch {
		case o.AgentID == "":
			note(i, mesh.InvalidField(op, "agent_id", "is missing; give each agent an id of its own"))
		case have[o.AgentID] != nil:
			note(i, mesh.InvalidField(op, "agent_id", "%q was dispatched before; use another id", o.AgentID))
		default:
			if _, twice := at[o.AgentID]; twice {
				note(i, mesh.InvalidField(op, "agent_id", "%q is used twice; use different ids", o.AgentID))
			}
		}
		if o.Mission == "" {
			note(i, mesh.InvalidField(op, "mission", "is missing; say what the agent is to do"))
		}
		if o.Name == "" && len(o.Skills) == 0 {
			note(i, mesh.InvalidField(op, "skills", "is missing; name the skills that the agent may use, or the agent"))
		}
		if o.MaxToolCalls < 0 {
			note(i, mesh.InvalidField(op, "max_tool_calls", "is %d; it must not be negative", o.MaxToolCalls))
		}
		at[o.AgentID] = i
	}
	for i, o := range batch {
		for _, dep := range o.DependsOn {
			switch _, inBatch := at[dep]; {
			case dep == o.AgentID:
				note(i, mesh.InvalidField(op, "depends_on", "%q depends on itself", dep))
			case !inBatch && have[dep] == nil:
				note(i, mesh.InvalidField(op, "depends_on", "names %q, which was not dispatched", dep))
			}
		}
	}
	if first < 0 {
		if loop := cycle(batch, at); loop != nil {
			var path strings.Builder
			for _, i := range loop {
				path.WriteString(batch[i].AgentID + " -> ")
			}
			path.WriteString(batch[loop[0]].AgentID)
			note(loop[0], mesh.InvalidField(op, "depends_on", "goes in a circle: %s; nothing was dispatched", path.String()))
		}
	}
	if first < 0 {
		return at, nil
	}
	for i := range bad {
		if bad[i] == nil {
			bad[i] = mesh.Errorf(mesh.Invalid, op, "not dispatched, because %q of the same batch is wrong; correct that and dispatch all again", batch[first].AgentID)
		}
	}
	return nil, bad
}

// cycle returns the orders of a circle, each of which depends on the next one and the
// last one on the first, or nil.
func cycle(batch []Order, at map[string]int) []int {
	const under, done = 1, 2
	state := make([]int, len(batch))
	var path []int
	var visit func(i int) []int
	visit = func(i int) []int {
		switch state[i] {
		case under:
			return slices.Clone(path[slices.Index(path, i):])
		case done:
			return nil
		}
		state[i], path = under, append(path, i)
		for _, dep := range batch[i].DependsOn {
			if next, ok := at[dep]; ok {
				if loop := visit(next); loop != nil {
					return loop
				}
			}
		}
		state[i], path = done, path[:len(path)-1]
		return nil
	}
	for i := range batch {
		if loop := visit(i); loop != nil {
			return loop
		}
	}
	return nil
}

// prompt is the message that an agent gets: its mission and, where there are
// any, the extra context and the results of the agents it waited for (S0-032,
// S0-034, S0-035). Results are data of other agents, not words to it: each stands in a block,
// quoted, of at most that many bytes.
func prompt(o Order, results []Result, most int) string {
	var prior []string
	for _, r := range results {
		prior = append(prior, text.PriorResult(r.AgentID, quoted(r.Result, most, text.SayIfItMatters)))
	}
	context := o.Context
	if len(o.Answers) > 0 {
		context = strings.TrimSpace(context + "\n" + text.Answered(o.Answers))
	}
	return text.Prior(o.Mission, context, prior)
}

// mission is the same for programs, and whether it may ask for help.
func (d *Dispatcher) mission(o Order, results []Result) llm.Mission {
	m := llm.Mission{Text: o.Mission, Context: o.Context, Answers: o.Answers, Results: map[string]string{}, Help: d.opts.HelpTime > 0}
	for _, r := range results {
		m.Results[r.AgentID] = shortened(r.Result, maxPrior, text.SayIfItMatters)
	}
	return m
}
