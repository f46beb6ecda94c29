package limit

import (
	"time"

	"agentmesh/mesh"
)

// What an account keeps from beginning when it is used up. Outcomes of what was begun are
// always taken.
const (
	StopsCalls Stops = 1 << iota // of skills
	StopsDispatches
	StopsStarts // of agents whose dispatch was accepted
)

// Stops are kinds of beginnings.
type Stops uint8

// A Measure is what an account counts.
type Measure uint8

// The measures.
const (
	Calls   Measure = iota // of skills
	Agents                 // dispatched
	Steps                  // replies of models that call tools
	Tokens                 // of models
	Cost                   // of models, in micro-dollars
	Seconds                // in which others may work
)

// An Account is one limit, and how much of it is used.
type Account struct {
	Limit      string // its name
	Of         Measure
	Stops      Stops
	Used, Most int64     // Most is 0 or less where there is no limit
	Free       time.Time // when there is room again, if that is a matter of time
}

// A Ledger are the accounts that count for an execution, from its own to those of the
// turn, the conversation, the user and the tenant, in the order in which they are checked.
type Ledger []Account

// Check returns the trip of the first account that is used up and stops what is about to
// begin; nil if it may.
func (l Ledger) Check(begins Stops) *Trip {
	for _, a := range l {
		if a.Stops&begins != 0 && a.Most > 0 && a.Used >= a.Most {
			return &Trip{Limit: a.Limit, Used: a.Used, Most: a.Most, Free: a.Free}
		}
	}
	return nil
}

// Left is what may still be used of each measure, at least 0, or Unlimited.
type Left struct{ Calls, Agents, Tokens, Cost int64 }

// NoLimit is the Left of who may use as much as there is.
func NoLimit() Left { return Left{Unlimited, Unlimited, Unlimited, Unlimited} }

// Left returns the least that any account leaves.
func (l Ledger) Left() Left {
	left := NoLimit()
	at := map[Measure]*int64{Calls: &left.Calls, Agents: &left.Agents, Tokens: &left.Tokens, Cost: &left.Cost}
	for _, a := range l {
		n := at[a.Of]
		if n == nil || a.Most <= 0 {
			continue
		}
		if room := max(a.Most-a.Used, 0); *n == Unlimited || room < *n {
			*n = room
		}
	}
	return left
}

// Within returns the lesser of each.
func (l Left) Within(o Left) Left {
	least := func(a, b int64) int64 {
		if a == Unlimited || b != Unlimited && b < a {
			return b
		}
		return a
	}
	return Left{least(l.Calls, o.Calls), least(l.Agents, o.Agents), least(l.Tokens, o.Tokens), least(l.Cost, o.Cost)}
}

// LeftOf returns the budget as what is left of it.
func LeftOf(b mesh.Budget) Left { return Shares(b, mesh.Budget{}).Left() }

// Shares are the accounts of what an execution may use with all below it.
func Shares(most, used mesh.Budget) Ledger {
	const all = StopsCalls | StopsDispatches | StopsStarts
	return Ledger{
		{Limit: BudgetCalls, Of: Calls, Stops: all, Used: used.Calls, Most: most.Calls},
		{Limit: BudgetTokens, Of: Tokens, Stops: all, Used: used.Tokens, Most: most.Tokens},
		{Limit: BudgetCost, Of: Cost, Stops: all, Used: used.Cost, Most: most.Cost},
		{Limit: BudgetAgents, Of: Agents, Stops: StopsDispatches, Used: used.Agents, Most: most.Agents},
	}
}

// Spent is what was used of the limits that a [Budgets] has.
type Spent struct {
	Agents   int // dispatched in the turn since the user's last message
	Steps    int // replies of the execution's model that called tools, since then
	Children int // agents that the execution dispatched since then
	Calls    int // of skills, by the execution since then
	// MostCalls is the execution's own limit; 0 is that of the budgets for one that an
	// agent dispatched, and none for others.
	MostCalls  int
	Dispatched bool
	Turn       int // calls in the turn since then
	Thread     int // in the thread within the window
	// ThreadFirst is when the first of those was made.
	ThreadFirst time.Time
	Cost        int64 // of models in the thread
}

// Ledger returns the accounts of the budgets, in the order in which they are checked: the
// turn's agents, the steps, the children, the execution's own calls, the turn's, and the
// conversation's within the window (S0-073, S3-041), and in money.
func (b Budgets) Ledger(s Spent) Ledger {
	own := s.MostCalls
	if own <= 0 && s.Dispatched {
		own = b.Most(AgentToolCalls)
	}
	window := Account{Limit: ThreadSkillCalls, Of: Calls, Stops: StopsCalls | StopsDispatches, Used: int64(s.Thread), Most: int64(b.Most(ThreadSkillCalls))}
	if window.Most > 0 && window.Used >= window.Most {
		window.Free = s.ThreadFirst.Add(b.Period() + after)
	}
	return Ledger{
		{Limit: TurnAgents, Of: Agents, Stops: StopsDispatches, Used: int64(s.Agents), Most: int64(b.Most(TurnAgents))},
		// The last step's own calls are made.
		{Limit: AgentSteps, Of: Steps, Stops: StopsDispatches, Used: int64(max(s.Steps-1, 0)), Most: int64(b.Most(AgentSteps))},
		{Limit: AgentChildren, Of: Agents, Stops: StopsDispatches, Used: int64(s.Children), Most: int64(b.Most(AgentChildren))},
		{Limit: AgentToolCalls, Of: Calls, Stops: StopsCalls, Used: int64(s.Calls), Most: int64(own)},
		{Limit: TurnSkillCalls, Of: Calls, Stops: StopsCalls, Used: int64(s.Turn), Most: int64(b.Most(TurnSkillCalls))},
		window,
		b.Conversation(s.Cost),
	}
}

// Conversation is the account of what models cost in a conversation, of which so much is used.
func (b Budgets) Conversation(used int64) Account {
	return Account{Limit: ThreadCost, Of: Cost, Stops: StopsCalls | StopsDispatches | StopsStarts, Used: used, Most: b.ThreadCost}
}
