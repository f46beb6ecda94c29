package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
)

// grouped is a number as people read it: 4,210.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// dollars is an amount as people read it, to the cent or, where that says little, to a hundredth
// of one.
func dollars(d float64) string {
	switch {
	case d > 0 && d < 0.0001:
		return "under $0.0001"
	case d < 1:
		return fmt.Sprintf("$%.4f", d)
	}
	whole, cents, _ := strings.Cut(fmt.Sprintf("%.2f", d), ".")
	if n, err := strconv.ParseInt(whole, 10, 64); err == nil {
		whole = grouped(n)
	}
	return "$" + whole + "." + cents
}

// tokensOf counts the tokens of prompts and replies.
func tokensOf(u *meshv1.Usage) int64 { return u.GetPrompt() + u.GetCompletion() }

// money is what tokens cost, and says so where that is not known of all.
func money(u *meshv1.Usage) string {
	switch n := u.GetUnpriced(); {
	case n == 0:
		return dollars(u.GetCost())
	case n >= tokensOf(u):
		return "price not known"
	default:
		return fmt.Sprintf("%s without %s tokens whose price is not known", dollars(u.GetCost()), grouped(n))
	}
}

// usageWords are tokens and what they cost, "" for none.
func usageWords(u *meshv1.Usage) string {
	n := tokensOf(u)
	switch n {
	case 0:
		return ""
	case 1:
		return "1 token, " + money(u)
	}
	return grouped(n) + " tokens, " + money(u)
}

// tellCost says on stderr, or where a chat writes, what the answer to the task has cost, and the
// conversation. Where no model was asked, or nobody can tell, it says nothing: the answer is there.
func (c *client) tellCost(ctx context.Context, thread, task string) {
	if task == "" || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	resp, err := c.execution.ListExecutions(c.call(ctx, thread), &meshv1.ListExecutionsRequest{ThreadId: thread, TurnId: task, PageSize: 1})
	if err != nil || len(resp.GetExecutions()) == 0 {
		return
	}
	turn := resp.GetExecutions()[0]
	if words := usageWords(turn.GetTotalUsage()); words != "" {
		c.app.notef("· %s, %s; conversation %s\n", plural(turn.GetSubAgents(), "agent"), words, usageWords(resp.GetUsage()))
	}
}
