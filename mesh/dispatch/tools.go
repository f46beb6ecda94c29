package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
)

// Names of the tools.
const (
	ToolDispatch = "dispatch_agent"
	ToolResults  = "get_agent_results"
	ToolConsult  = "consult_agent"
)

// maxWait is how long get_agent_results waits, at most.
const maxWait = 10 * time.Minute

// Orchestration are the tools with which a model dispatches agents and
// collects their results. All dispatches of one reply are one batch.
type Orchestration struct {
	asked

	planning sync.Mutex
	planned  map[string]error // by id of the call, from Batch
}

var (
	_ llm.Tools      = (*Orchestration)(nil)
	_ llm.Batcher    = (*Orchestration)(nil)
	_ modelrun.Asker = (*Orchestration)(nil)
)

// NewOrchestration returns the tools over d.
func NewOrchestration(d *Dispatcher) *Orchestration {
	return &Orchestration{asked: asked{d: d}, planned: map[string]error{}}
}

// List implements llm.Tools.
func (o *Orchestration) List(context.Context) []llm.Tool {
	return []llm.Tool{
		{Name: ToolDispatch, Description: "Dispatch an agent to do one task with the skills that you name. Use it after get_skill. " +
			"Several may be dispatched at once and work in parallel, unless depends_on says to wait: then the results of those agents are given to this one. " +
			"Wait for all results with get_agent_results before you answer the user.",
			Parameters: json.RawMessage(dispatchSchema)},
		{Name: ToolResults, Description: "Wait for agents that you dispatched and get their results. Without agent_ids, of all of them.",
			Parameters: json.RawMessage(resultsSchema)},
	}
}

// Know implements llm.Knower.
func (o *Orchestration) Know(_ context.Context, f *llm.Facts) error {
	f.Dispatches = true
	return nil
}

// The six parameters of S0-014 to S0-020, and name, for an agent by its name.
const dispatchSchema = `{"type":"object","properties":{` +
	`"agent_id":{"type":"string","description":"An id of your choice for this agent, unique in the conversation turn; depends_on and results use it."},` +
	`"context":{"type":"string","description":"Extra context in a few words, such as what the user prefers."},` +
	`"depends_on":{"type":"array","items":{"type":"string"},"description":"agent_ids that must be done first; their results are given to this agent."},` +
	`"max_tool_calls":{"type":"integer","description":"Most skill calls of the agent; default 5."},` +
	`"mission":{"type":"string","description":"What to do, with all inputs, what to return, and when it is done."},` +
	`"name":{"type":"string","description":"The agent to ask, when it must be that one; otherwise it is chosen by its skills."},` +
	`"skills":{"type":"array","items":{"type":"string"},"description":"Names of the skills that the agent may use, as few as will do."}},` +
	`"required":["agent_id","mission","skills"]}`

const resultsSchema = `{"type":"object","properties":{` +
	`"agent_ids":{"type":"array","items":{"type":"string"},"description":"Which agents; all when left out."}}}`

// Batch implements llm.Batcher: it starts all dispatches of a reply together,
// or none of them.
func (o *Orchestration) Batch(ctx context.Context, uses []mesh.ToolUse) {
	var batch []Order
	var ids []string
	errs := map[string]error{}
	for _, u := range uses {
		if u.Name != ToolDispatch {
			continue
		}
		order, err := parseOrder(u.Arguments)
		if err == nil {
			err = o.known(ctx, order)
		}
		if err != nil {
			errs[u.ID] = err
		}
		batch, ids = append(batch, order), append(ids, u.ID)
	}
	switch {
	case len(batch) == 0:
		return
	case len(errs) > 0:
		for _, id := range ids {
			if errs[id] == nil {
				errs[id] = mesh.Errorf(mesh.Invalid, "dispatch.Batch", "not dispatched, because another dispatch of the same reply is wrong; correct that and dispatch all again")
			}
		}
	default:
		for i, err := range o.d.Dispatch(ctx, batch) {
			errs[ids[i]] = err
		}
		for _, id := range ids {
			if _, ok := errs[id]; !ok {
				errs[id] = nil
			}
		}
	}
	o.planning.Lock()
	defer o.planning.Unlock()
	for id, err := range errs {
		o.planned[id] = err
	}
}

// known refuses skills that the mesh does not have (S0-031, S0-119).
func (o *Orchestration) known(ctx context.Context, order Order) error {
	if len(order.Skills) == 0 {
		return nil
	}
	// Asked for by name, however many there are.
	names := slices.DeleteFunc(slices.Clone(order.Skills), func(name string) bool { return strings.Contains(name, "*") })
	found, _, err := o.d.inv.Mesh.FindSkills(ctx, &meshv1.ListSkillsRequest{Patterns: names}, len(names))
	if err != nil {
		return err
	}
	for _, name := range order.Skills {
		if !slices.ContainsFunc(found, func(s *meshv1.Skill) bool { return s.GetName() == name }) {
			return mesh.InvalidField("dispatch.Batch", "skills", "names %q, and there is no such skill; use get_skill to see which there are", name)
		}
	}
	return nil
}

// parseOrder reads the arguments of dispatch_agent; task is another word for
// mission.
func parseOrder(args string) (Order, error) {
	var a struct {
		AgentID      string   `json:"agent_id"`
		Name         string   `json:"name"`
		Mission      string   `json:"mission"`
		Task         string   `json:"task"`
		Skills       []string `json:"skills"`
		Context      string   `json:"context"`
		DependsOn    []string `json:"depends_on"`
		MaxToolCalls int      `json:"max_tool_calls"`
	}
	if err := json.Unmarshal([]byte(args), &a); err != nil {
		return Order{}, mesh.InvalidField("dispatch.parseOrder", "arguments", "cannot be read: %v", err)
	}
	if a.Mission == "" {
		a.Mission = a.Task
	}
	return Order{AgentID: a.AgentID, Name: a.Name, Mission: a.Mission, Skills: a.Skills, Context: a.Context, DependsOn: a.DependsOn, MaxToolCalls: a.MaxToolCalls}, nil
}

// Waits implements llm.Waiter: who waits for results waits as long as it takes.
func (o *Orchestration) Waits(tool string) bool { return tool == ToolResults }

// Call implements llm.Tools.
func (o *Orchestration) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	if use.Name == ToolResults {
		return o.collect(ctx, use)
	}
	o.planning.Lock()
	err, planned := o.planned[use.ID]
	delete(o.planned, use.ID)
	o.planning.Unlock()
	if !planned {
		o.Batch(ctx, []mesh.ToolUse{use})
		o.planning.Lock()
		err = o.planned[use.ID]
		delete(o.planned, use.ID)
		o.planning.Unlock()
	}
	if err != nil {
		return failure(err)
	}
	order, _ := parseOrder(use.Arguments) // parsed by Batch
	for _, r := range o.d.List() {
		if r.AgentID == order.AgentID {
			return answer(map[string]any{"execution_id": r.ExecutionID, "agent_id": r.AgentID, "status": "accepted",
				"note": text.ResultsLater(ToolResults)})
		}
	}
	return failure(mesh.Errorf(mesh.Unknown, "dispatch.Call", "the dispatch was lost"))
}

func (o *Orchestration) collect(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	var a struct {
		AgentIDs []string `json:"agent_ids"`
	}
	if err := json.Unmarshal([]byte(use.Arguments), &a); err != nil {
		return failure(mesh.InvalidField("dispatch.collect", "arguments", "cannot be read: %v", err))
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	results, err := o.d.Wait(ctx, a.AgentIDs)
	if err != nil {
		return failure(err)
	}
	if waiting := o.d.pause(ctx, a.AgentIDs); len(waiting) > 0 {
		return o.ask(ctx, use.ID, waiting)
	}
	remedy := text.DispatchForLess
	if len(results) > 1 {
		remedy = text.NameItAlone
	}
	return fitting(results, remedy, func(results []Result) llm.ToolResult {
		out := map[string]any{"agents": results}
		if failures := failuresIn(results); len(failures) > 0 {
			out["failures"] = failures
		}
		return answer(out)
	})
}

// fitting returns what a model is told of the results: all of it, or as much of each
// as the model can be shown of all, for a cut in the middle would take the last
// ones away and leave no JSON.
func fitting(results []Result, remedy text.Remedy, tell func([]Result) llm.ToolResult) llm.ToolResult {
	shown := append([]Result{}, results...)
	told := tell(shown)
	for most := mesh.MaxResult / max(1, len(results)); len(told.Text) > mesh.MaxResult && most > 0; most = most * 3 / 4 {
		for i, r := range results {
			shown[i].Result = shortened(r.Result, most, remedy)
		}
		told = tell(shown)
	}
	return told
}

// maxFailure is how much of a failed agent's result is told twice, in bytes.
const maxFailure = 1000

// failuresIn says in a line each what did not complete (S0-090).
func failuresIn(results []Result) []string {
	var out []string
	for _, r := range results {
		switch r.Status {
		case StatusFailed, StatusTimeout, StatusSkipped, StatusCanceled:
			out = append(out, text.AgentFailed(r.AgentID, mesh.Clip(r.Result, maxFailure)))
		}
	}
	return out
}

func answer(v any) llm.ToolResult {
	data, err := json.Marshal(v)
	if err != nil {
		return failure(err)
	}
	return llm.ToolResult{Text: string(data)}
}

func failure(err error) llm.ToolResult {
	words := mesh.DetailOf(err)
	if field := mesh.FieldOf(err); field != "" && words != "" {
		words = field + " " + words
	}
	r := llm.ToolResult{Text: cmp.Or(words, text.ToolFailed()), Failed: true, Cause: cause(err)}
	if trip := limit.TripOf(err); trip != nil {
		r.Trip = tripped(trip)
	}
	return r
}

// cause is why nothing was dispatched, or no result is there.
func cause(err error) mesh.Cause {
	switch {
	case limit.TripOf(err) != nil:
		return mesh.CauseLimit
	case mesh.IsCode(err, mesh.Invalid), mesh.IsCode(err, mesh.NotFound):
		return mesh.CauseInvalid
	case mesh.IsCode(err, mesh.Unavailable):
		return mesh.CauseUnavailable
	}
	return ""
}
