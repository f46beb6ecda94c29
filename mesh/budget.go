package mesh

import "math"

// A Budget is the most that an execution may use together with all below it; a field that
// is 0 is no limit. It is a ceiling and never grows: what is used of it the node knows,
// from the log.
type Budget struct {
	Calls  int64 // of skills
	Tokens int64 // of models: prompts and replies
	// Cost is in micro-dollars, millionths of a US dollar, as far as prices are known.
	Cost   int64
	Agents int64 // that may be dispatched
}

// Within returns the budget with nothing in it that most does not allow.
func (b Budget) Within(most Budget) Budget {
	return Budget{within(b.Calls, most.Calls), within(b.Tokens, most.Tokens), within(b.Cost, most.Cost), within(b.Agents, most.Agents)}
}

func within(n, most int64) int64 {
	if n == 0 || most != 0 && most < n {
		return most
	}
	return n
}

// Add returns the sum, of what is used.
func (b Budget) Add(c Budget) Budget {
	return Budget{b.Calls + c.Calls, b.Tokens + c.Tokens, b.Cost + c.Cost, b.Agents + c.Agents}
}

// Less returns what is left when so much is used, of a budget that is not used up: at least
// 1 of each part, for 0 would be no limit.
func (b Budget) Less(used Budget) Budget {
	return Budget{less(b.Calls, used.Calls), less(b.Tokens, used.Tokens), less(b.Cost, used.Cost), less(b.Agents, used.Agents)}
}

func less(n, used int64) int64 {
	if n == 0 {
		return 0
	}
	return max(n-used, 1)
}

// Spent is the usage as it counts for budgets.
func (u Usage) Spent() Budget {
	return Budget{Tokens: u.Prompt + u.Completion, Cost: int64(math.Round(u.Cost * 1e6))}
}
