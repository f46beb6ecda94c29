package limit

import (
	"errors"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
)

// The names of the limits, as they are in the log and in errors.
const (
	AgentToolCalls   = "agent.tool_calls"   // skill calls of an agent that another one dispatched
	AgentSteps       = "agent.steps"        // replies of an agent's model in one run
	TurnSkillCalls   = "turn.skill_calls"   // skill calls of all agents since the user's last message
	TurnAgents       = "turn.agents"        // agents dispatched since then
	ThreadSkillCalls = "thread.skill_calls" // skill calls of a conversation within the window
	UserSkillCalls   = "user.skill_calls"   // skill calls of a user within the window
	ThreadCost       = "thread.cost"        // of models in a conversation, as long as there is it; in micro-dollars
	AgentChildren    = "agent.children"     // agents that one execution dispatches between two messages of the user
	// NodeAgents is how many agents that others dispatched work on a node at once: who is
	// one more waits.
	NodeAgents = "node.agents"
	// TurnsWaiting is how many threads wait until turns of theirs are worked on: a message
	// that would have one more wait is refused. It is the name of its setting.
	TurnsWaiting = "turns.queued"
	// What the log takes of one execution: see [Output].
	OutputEvents = "agent.output_events"
	OutputBytes  = "agent.output_bytes"
	// OrchestratorTime is how long an agent may go on dispatching others, in seconds: see
	// package dispatch. The node keeps it, too, with the time to conclude.
	OrchestratorTime = "orchestrator.max_budget"
	// OrchestratorAgents is how many agents that one dispatched work at once: who is one more
	// waits.
	OrchestratorAgents = "orchestrator.max_concurrent_agents"

	// What is left for the next call of a model, when that is not enough.
	ModelTokens = "model.tokens"
	ModelCost   = "model.cost" // in micro-dollars

	// What an execution may use with all below it: see [mesh.Budget].
	BudgetCalls  = "agent.budget.calls"
	BudgetTokens = "agent.budget.tokens"
	BudgetCost   = "agent.budget.cost" // in micro-dollars
	BudgetAgents = "agent.budget.agents"
)

// Shared reports whether what several agents do counts for the limit of that name, so that
// only the node knows when it is met, and going on is the user's to decide.
func Shared(name string) bool { return name == TurnAgents || sharedCalls(name) }

func sharedCalls(name string) bool {
	return name == TurnSkillCalls || name == ThreadSkillCalls || name == UserSkillCalls
}

// Waits reports whether who meets the limit of that name waits until there is room, and asks
// again.
func Waits(name string) bool { return name == NodeAgents || name == OrchestratorAgents }

// Renewed reports whether the user's word makes room under the limit of that name: what is
// counted since the last message is counted afresh, and a window slides on while the user is
// asked. Under quotas nothing but time, or the end of something else, makes room, and what a
// conversation cost stays.
func Renewed(name string) bool {
	return name == UserSkillCalls || name != ThreadCost && !ofQuota(name)
}

func ofQuota(name string) bool {
	return strings.HasPrefix(name, perUser) || strings.HasPrefix(name, perTenant)
}

// Noted reports whether the mesh itself counts for the limit of that name, and notes in
// the log that it was met: no agent does. That a batch of agents would be too many, of which
// the mesh is not asked for any, its dispatcher notes.
func Noted(name string) bool {
	return sharedCalls(name) || name == AgentChildren || name == ThreadCost || strings.HasPrefix(name, "agent.budget.") || ofQuota(name)
}

// The defaults of Budgets, and their bounds: of what is counted within a window as much as is
// remembered, of the others more than any turn makes sense with.
const (
	DefaultAgentCalls  = 5
	DefaultAgentSteps  = 6
	DefaultTurnCalls   = 30
	SoloTurnCalls      = 10 // of TurnCalls where one agent works alone
	DefaultTurnAgents  = 8
	DefaultThreadCalls = 50
	DefaultChildren    = 64
	DefaultWindow      = 5 * time.Minute

	MaxAgentCalls  = 1000
	MaxAgentSteps  = 1000
	MaxTurnCalls   = 10_000
	MaxTurnAgents  = 1000
	MaxChildren    = 1000
	MaxWindowCalls = 1000
	MaxWindow      = time.Hour
)

// The defaults of who has others work.
const (
	DefaultConcurrent  = 5                 // agents at work at a time (S1-036)
	DefaultAgentTime   = 300 * time.Second // for each (S1-037)
	CollectedAgentTime = 30 * time.Second  // for each, of whose results are fetched (S0-060)
	DefaultDispatching = 600 * time.Second // for all together (S1-038)
	// Concluding is how long a conclusion may take when that is over.
	Concluding = time.Minute
)

// Unlimited as a field of Budgets is no limit.
const Unlimited = -1

// Budgets say how much may be used. A field that is 0 has its default, one that
// is Unlimited has no limit. The zero value has all the defaults.
type Budgets struct {
	AgentCalls int // DefaultAgentCalls, at most MaxAgentCalls; an execution's own MaxToolCalls goes first
	AgentSteps int // DefaultAgentSteps, at most MaxAgentSteps
	TurnCalls  int // DefaultTurnCalls, at most MaxTurnCalls
	TurnAgents int // DefaultTurnAgents, at most MaxTurnAgents
	Children   int // DefaultChildren, at most MaxChildren
	// ThreadCalls and UserCalls are within Window, and at most MaxWindowCalls.
	// The defaults are DefaultThreadCalls and, for users, no limit.
	ThreadCalls int
	UserCalls   int
	// ThreadCost is what models may cost in a conversation, in micro-dollars; 0 or less is no
	// limit. Tokens whose price is not known cost nothing.
	ThreadCost int64
	// Window slides; it is DefaultWindow by default and at most MaxWindow.
	Window time.Duration
}

// Validate returns an Invalid error that names each field that cannot be.
func (b Budgets) Validate() error {
	const op = "limit.Budgets"
	var bad []error
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"agent_calls", b.AgentCalls, MaxAgentCalls}, {"agent_steps", b.AgentSteps, MaxAgentSteps},
		{"turn_calls", b.TurnCalls, MaxTurnCalls}, {"turn_agents", b.TurnAgents, MaxTurnAgents},
		{"children", b.Children, MaxChildren},
		{"thread_calls", b.ThreadCalls, MaxWindowCalls}, {"user_calls", b.UserCalls, MaxWindowCalls},
	} {
		switch {
		case f.name == "children" && (f.value < 0 || f.value > MaxChildren): // there is a bound always
			bad = append(bad, mesh.InvalidField(op, f.name, "must be 1 to %d, or 0 for %d, and is %d", MaxChildren, DefaultChildren, f.value))
		case f.value < Unlimited:
			bad = append(bad, mesh.InvalidField(op, f.name, "must be a number, 0 for the default or %d for no limit, and is %d", Unlimited, f.value))
		case f.value > f.most:
			bad = append(bad, mesh.InvalidField(op, f.name, "must be at most %d, and is %d; use %d for no limit", f.most, f.value, Unlimited))
		}
	}
	if b.Window < 0 || b.Window > MaxWindow {
		bad = append(bad, mesh.InvalidField(op, "window", "must be at most %v, and is %v", MaxWindow, b.Window))
	}
	return errors.Join(bad...)
}

// Period is the length of the window.
func (b Budgets) Period() time.Duration {
	if b.Window == 0 {
		return DefaultWindow
	}
	return b.Window
}

// Most returns how much the limit of that name allows; 0 for no limit.
func (b Budgets) Most(name string) int {
	value, standard := 0, 0
	switch name {
	case AgentToolCalls:
		value, standard = b.AgentCalls, DefaultAgentCalls
	case AgentSteps:
		value, standard = b.AgentSteps, DefaultAgentSteps
	case TurnSkillCalls:
		value, standard = b.TurnCalls, DefaultTurnCalls
	case TurnAgents:
		value, standard = b.TurnAgents, DefaultTurnAgents
	case AgentChildren:
		value, standard = b.Children, DefaultChildren
	case ThreadSkillCalls:
		value, standard = b.ThreadCalls, DefaultThreadCalls
	case UserSkillCalls:
		value = b.UserCalls
	}
	if value == 0 {
		value = standard
	}
	return max(value, 0)
}

// Check returns the trip of the limit of that name when so much of it is used
// that one more would exceed it, else nil.
func (b Budgets) Check(name string, used int) *Trip {
	return trip(name, used, b.Most(name))
}

func trip(name string, used, most int) *Trip {
	if most <= 0 || used < most {
		return nil
	}
	return &Trip{Limit: name, Used: int64(used), Most: int64(most)}
}

// after is how long after a window's length a call has left it: it is in it for
// as long as no more than that has passed, and times are in milliseconds.
const after = time.Millisecond

// A Trip says which limit stopped something.
type Trip struct {
	Limit string // one of the names
	Used  int64
	Most  int64
	// Free is when a window has room again; zero for limits without one.
	Free time.Time
}

// reason begins the Reason of the errors of trips.
const reason = "LIMIT:"

// Text says which limit is reached, for people, with the numbers as "(30 of 30)".
func (t *Trip) Text() string { return text.LimitReached(t.Limit, t.Used, t.Most) }

// Detail says what Text does, and what to do, for models.
func (t *Trip) Detail() string { return t.Text() + "; " + text.LimitAdvice(t.Limit, t.Free) }

// Err returns the trip as an Exhausted error with the Reason "LIMIT:<name>",
// of which [TripOf] makes the trip again, also on the other side of a call.
func (t *Trip) Err(op string) *mesh.Error {
	fact := t.Fact()
	fact.Detail = ""
	return &mesh.Error{Code: mesh.Exhausted, Op: op, Reason: reason + t.Limit, Detail: t.Detail(), Limit: &fact}
}

// Fact returns the trip as a fact for the log.
func (t *Trip) Fact() mesh.LimitTripped {
	return mesh.LimitTripped{Limit: t.Limit, Detail: t.Text(), Used: t.Used, Most: t.Most, Free: t.Free}
}

// TripOf returns the trip that the error came from, also on the other side of a
// call; nil if it came from none.
func TripOf(err error) *Trip {
	var e *mesh.Error
	if !errors.As(err, &e) {
		return nil
	}
	if e.Limit != nil {
		return Tripped(*e.Limit)
	}
	if name, ok := strings.CutPrefix(e.Reason, reason); ok { // of a node that tells no more
		return &Trip{Limit: name}
	}
	return nil
}

// Tripped returns the trip that the fact tells of.
func Tripped(f mesh.LimitTripped) *Trip {
	return &Trip{Limit: f.Limit, Used: f.Used, Most: f.Most, Free: f.Free}
}
