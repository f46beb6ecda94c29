package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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
	ToolAnswer   = "answer_agent"
	ToolDispatch = "dispatch_agent"
	ToolResults  = "get_agent_results"
	ToolCancel   = "cancel_agent"
	ToolList     = "list_agents"
	ToolConsult  = "consult_agent"
)

// Bounds of what a model may say, in bytes.
const (
	maxAgentID = mesh.MaxLabel
	maxTask    = 16 << 10
)

// maxWait is how long get_agent_results waits, at most.
const maxWait = 10 * time.Minute

// Orchestration are the tools with which a model dispatches agents and
// collects their results, as the dispatcher's profile says. All dispatches of one reply
// are one batch.
type Orchestration struct {
	asked

	planning sync.Mutex
	planned  map[string]error                                // by id of the call, from Batch
	answers  map[string]func(context.Context) llm.ToolResult // of calls of ToolAnswer, from Batch
}

var (
	_ llm.Tools      = (*Orchestration)(nil)
	_ llm.Batcher    = (*Orchestration)(nil)
	_ llm.Collector  = (*Orchestration)(nil)
	_ modelrun.Asker = (*Orchestration)(nil)
)

// NewOrchestration returns the tools over d.
func NewOrchestration(d *Dispatcher) *Orchestration {
	return &Orchestration{asked: asked{d: d}, planned: map[string]error{}, answers: map[string]func(context.Context) llm.ToolResult{}}
}

// List implements llm.Tools: sorted by name.
func (o *Orchestration) List(context.Context) []llm.Tool {
	tools := o.tools()
	if o.d.opts.HelpTime > 0 {
		tools = slices.Insert(tools, 0, llm.Tool{Name: ToolAnswer, Description: "Answer an agent that you dispatched and that asks you something; it goes on with that. " +
			"What only the user can know, have the user asked.", Parameters: json.RawMessage(answerSchema)})
	}
	return tools
}

func (o *Orchestration) tools() []llm.Tool {
	cancel := llm.Tool{Name: ToolCancel, Description: "End an agent that is not needed any more. The others go on.", Parameters: json.RawMessage(cancelSchema)}
	list := llm.Tool{Name: ToolList, Description: "See all agents that you dispatched, and how far they are.", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}
	switch o.d.opts.Profile {
	case ProfilePush:
		return []llm.Tool{cancel, {Name: ToolDispatch, Description: "Dispatch an agent to do one task. It returns at once; the result is delivered to you when the agent is done. " +
			"Several may be dispatched at once and work in parallel.", Parameters: json.RawMessage(pushSchema)}, list}
	case ProfileCollect:
		return []llm.Tool{
			{Name: ToolDispatch, Description: dispatchWords + "Wait for all results with get_agent_results before you answer the user.", Parameters: json.RawMessage(collectSchema)},
			{Name: ToolResults, Description: "Wait for agents that you dispatched and get their results. Without agent_ids, of all of them.", Parameters: json.RawMessage(resultsSchema + "}}")},
		}
	}
	return []llm.Tool{cancel, {Name: ToolDispatch, Description: dispatchWords + "Results are delivered to you when they are there; wait for them with get_agent_results before you answer the user.",
		Parameters: json.RawMessage(fullSchema)},
		{Name: ToolResults, Description: "Wait for agents that you dispatched and get their results. Without agent_ids, of all of them.", Parameters: json.RawMessage(resultsSchema + waitSchema)}, list}
}

// Know implements llm.Knower.
func (o *Orchestration) Know(ctx context.Context, f *llm.Facts) error {
	f.Dispatches, f.Pushed = true, o.d.opts.Profile == ProfilePush
	if f.Pushed {
		return o.d.knownAgents(ctx, f)
	}
	return nil
}

const dispatchWords = "Dispatch an agent to do one task with the skills that you name. Use it after get_skill. " +
	"Several may be dispatched at once and work in parallel, unless depends_on says to wait: then the results of those agents are given to this one. "

// The six parameters of S0-014 to S0-020; the two of S1-054; and both spellings.
const (
	orderSchema = `{"type":"object","properties":{` +
		`"agent_id":{"type":"string","description":"An id of your choice for this agent, unique in the conversation turn, of a-z, 0-9, _ and -; depends_on and results use it."},` +
		`"context":{"type":"string","description":"Extra context in a few words, such as what the user prefers."},` +
		`"depends_on":{"type":"array","items":{"type":"string"},"description":"agent_ids that must be done first; their results are given to this agent."},` +
		`"max_tool_calls":{"type":"integer","description":"Most skill calls of the agent; default 5."},` +
		`"mission":{"type":"string","description":"What to do, with all inputs, what to return, and when it is done."},`
	skillsSchema  = `"skills":{"type":"array","items":{"type":"string"},"description":"Names of the skills that the agent may use, as few as will do."}`
	nameSchema    = `"name":{"type":"string","description":"The agent to ask, when it must be that one; otherwise it is chosen by its skills."},`
	collectSchema = orderSchema + skillsSchema + `},"required":["agent_id","mission","skills"]}`
	fullSchema    = orderSchema + nameSchema + skillsSchema + `,"task":{"type":"string","description":"Another word for mission; give one of them."}}}`
	pushSchema    = `{"type":"object","properties":{` +
		`"name":{"type":"string","description":"The agent to ask, as it is called under Available Sub-Agents."},` +
		`"task":{"type":"string","description":"What to do, with all inputs, what to return, and when it is done; the agent sees nothing else."}},"required":["name","task"]}`
	resultsSchema = `{"type":"object","properties":{` +
		`"agent_ids":{"type":"array","items":{"type":"string"},"description":"Which agents; all when left out."}`
	waitSchema = `,"mode":{"type":"string","enum":["all","any","none"],"description":"Wait until all are done (the default), until one more is, or not at all."},` +
		`"wait_seconds":{"type":"integer","minimum":0,"maximum":600,"description":"Wait no longer than that; default 600."}}}`
	answerSchema = `{"type":"object","properties":{` +
		`"agent_id":{"type":"string","description":"Which agent, by its agent_id."},` +
		`"ask_user":{"type":"boolean","description":"Ask the user instead: with the message as question or, without one, what the agent asks. The answer goes to the agent."},` +
		`"execution_id":{"type":"string","description":"Which agent, by its execution_id; give one of the two."},` +
		`"message":{"type":"string","description":"What the agent asks for, in full; it sees nothing else."}}}`
	cancelSchema = `{"type":"object","properties":{` +
		`"agent_id":{"type":"string","description":"Which agent, by its agent_id."},` +
		`"execution_id":{"type":"string","description":"Which agent, by its execution_id; give one of the two."}}}`
)

// Batch implements llm.Batcher: it starts all dispatches of a reply together,
// or none of them. Calls that ordered before, in a run that was cut, order nothing again.
func (o *Orchestration) Batch(ctx context.Context, uses []mesh.ToolUse) {
	var batch []Order
	var ids []string
	errs := map[string]error{}
	taken := map[string]bool{}
	for _, u := range uses {
		if u.Name == ToolAnswer {
			o.settle(ctx, u)
		}
		if u.Name != ToolDispatch {
			continue
		}
		if o.d.ordered(u.ID) != "" {
			errs[u.ID] = nil
			continue
		}
		order, err := o.parse(u)
		if err == nil {
			err = o.known(ctx, order)
		}
		if err != nil {
			errs[u.ID] = err
		}
		order.Call = u.ID
		taken[order.AgentID] = true
		batch, ids = append(batch, order), append(ids, u.ID)
	}
	o.label(batch, taken)
	switch {
	case len(batch) == 0:
	case len(errs) > 0 && slices.ContainsFunc(ids, func(id string) bool { return errs[id] != nil }):
		for _, id := range ids {
			if errs[id] == nil {
				errs[id] = mesh.Errorf(mesh.Invalid, "dispatch.Batch", "not dispatched, because another dispatch of the same reply is wrong; correct that and dispatch all again")
			}
		}
	default:
		refused := o.d.Dispatch(ctx, batch)
		for i, id := range ids {
			if errs[id] = nil; refused != nil {
				errs[id] = refused[i]
			}
		}
	}
	o.planning.Lock()
	defer o.planning.Unlock()
	for id, err := range errs {
		o.planned[id] = err
	}
}

// Follows implements llm.Batcher: who looks at the agents sees those of the same reply. Agents
// are ended before, which makes room.
func (o *Orchestration) Follows(tool string) bool { return tool == ToolDispatch || tool == ToolList }

// label gives an id to orders that have none: <name>-<n>.
func (o *Orchestration) label(batch []Order, taken map[string]bool) {
	for i := range batch {
		if batch[i].AgentID != "" {
			continue
		}
		for n := 1; batch[i].AgentID == ""; n++ {
			id := numbered(batch[i].Name, n)
			if !taken[id] && !o.d.has(id) {
				batch[i].AgentID, taken[id] = id, true
			}
		}
	}
}

// numbered is a label for the n-th order of an agent. What cannot be the name of one is not
// in it, nor the end of a name that is as long as names may be.
func numbered(name string, n int) string {
	if !mesh.ValidAgentName(name) {
		name = "agent"
	}
	number := fmt.Sprint("-", n)
	return name[:min(len(name), mesh.MaxLabel-len(number))] + number
}

// known refuses an agent that is not there or may not be dispatched, and skills that the
// mesh does not have (S0-031, S0-119): the model can correct it in its next reply. An agent
// that is only away may come back.
func (o *Orchestration) known(ctx context.Context, order Order) error {
	if order.Name != "" {
		if _, err := o.d.named(ctx, order.Name, nil); mesh.IsCode(err, mesh.NotFound) {
			return mesh.InvalidField("dispatch.Batch", "name", "is wrong: %s", mesh.DetailOf(err))
		}
	}
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

// parse reads the arguments of dispatch_agent; task is another word for mission.
func (o *Orchestration) parse(use mesh.ToolUse) (Order, error) {
	const op = "dispatch.parse"
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
	if err := llm.Arguments(op, use, &a); err != nil {
		return Order{}, err
	}
	field := "mission"
	if a.Mission == "" && a.Task != "" || o.d.opts.Profile == ProfilePush {
		field, a.Mission = "task", cmp.Or(a.Task, a.Mission)
	}
	order := Order{AgentID: a.AgentID, Name: a.Name, Mission: a.Mission, Skills: a.Skills, Context: a.Context, DependsOn: a.DependsOn, MaxToolCalls: a.MaxToolCalls}
	switch {
	case !mesh.ValidLabel(a.AgentID):
		return order, mesh.InvalidField(op, "agent_id", "is %q; use 1 to %d characters of a-z, 0-9, _ and -", mesh.Clip(a.AgentID, maxAgentID), maxAgentID)
	case a.AgentID == "" && o.d.opts.Profile == ProfileCollect:
		return order, mesh.InvalidField(op, "agent_id", "is missing; give each agent an id of its own")
	case wrongTask(op, field, a.Mission) != nil:
		return order, wrongTask(op, field, a.Mission)
	case len(a.Context) > mesh.MaxContext:
		return order, mesh.InvalidField(op, "context", "has %d bytes; shorten it to at most %d", len(a.Context), mesh.MaxContext)
	case a.Name == "" && o.d.opts.Profile == ProfilePush:
		return order, mesh.InvalidField(op, "name", "is missing; name one of the available sub-agents")
	}
	return order, nil
}

// wrongTask is what is wrong with what an agent is to do, in the field of a model's call; nil
// if nothing.
func wrongTask(op, field, task string) error {
	switch {
	case strings.TrimSpace(task) == "":
		return mesh.InvalidField(op, field, "is missing; say what the agent is to do")
	case len(task) > maxTask:
		return mesh.InvalidField(op, field, "has %d bytes; shorten it to at most %d", len(task), maxTask)
	}
	return nil
}

// Waits implements llm.Waiter: who waits for results waits as long as it takes.
func (o *Orchestration) Waits(tool string) bool { return tool == ToolResults || tool == ToolAnswer }

// settle answers an agent, and keeps what the call comes to.
func (o *Orchestration) settle(ctx context.Context, use mesh.ToolUse) {
	r, ask := o.answer(ctx, use)
	o.planning.Lock()
	defer o.planning.Unlock()
	o.answers[use.ID] = func(ctx context.Context) llm.ToolResult {
		if ask != "" {
			return o.askUser(ctx, use, ask)
		}
		return r
	}
}

// settled is what the call of ToolAnswer came to; nil if no batch had it.
func (o *Orchestration) settled(call string) func(context.Context) llm.ToolResult {
	o.planning.Lock()
	defer o.planning.Unlock()
	defer delete(o.answers, call)
	return o.answers[call]
}

// Call implements llm.Tools.
func (o *Orchestration) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	switch use.Name {
	case ToolAnswer:
		end := o.settled(use.ID)
		if end == nil {
			o.settle(ctx, use)
			end = o.settled(use.ID)
		}
		return end(ctx)
	case ToolResults:
		return o.collect(ctx, use)
	case ToolCancel:
		return o.cancel(use)
	case ToolList:
		return o.list()
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
	for _, r := range o.d.List() {
		if r.AgentID == o.d.ordered(use.ID) {
			status, note := "accepted", text.ResultsLater(ToolResults)
			if r.Status == StatusPending {
				status = "queued"
			}
			if o.d.opts.Profile != ProfileCollect {
				note = text.ResultsCome()
			}
			return answer(map[string]any{"execution_id": r.ExecutionID, "agent_id": r.AgentID, "status": status, "note": note})
		}
	}
	return failure(mesh.Errorf(mesh.Unknown, "dispatch.Call", "the dispatch was lost"))
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
	if field := mesh.FieldOf(err); field != "" && words != "" && mesh.LackOf(err) == nil { // which names the agent
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
	case mesh.IsCode(err, mesh.Denied):
		return mesh.CauseDenied
	}
	return ""
}
