package text

import (
	"fmt"
	"strings"
	"time"
)

// counts are what the limits count, by their names.
var counts = map[string]string{
	"agent.tool_calls":   "skill calls of this agent",
	"agent.steps":        "steps of this agent",
	"turn.skill_calls":   "skill calls for one message of the user",
	"turn.agents":        "agents for one message of the user",
	"agent.children":     "agents that one agent dispatches",
	"thread.skill_calls": "skill calls in this conversation",
	"user.skill_calls":   "skill calls of this user",
	"thread.cost":        "what models may cost in this conversation",

	"orchestrator.max_budget":            "seconds for agents that were dispatched",
	"orchestrator.max_concurrent_agents": "agents at work at once that one agent dispatched",
	"node.agents":                        "agents at work at once on this node",
	"agent.output_events":                "events that the log takes of one execution",
	"agent.output_bytes":                 "bytes that the log takes of one execution",
	"turns.queued":                       "conversations that wait until this node works on them",

	"model.tokens": "tokens that are left for a step of the model",
	"model.cost":   "what a step of the model may cost",

	"agent.budget.agents": "agents in the budget of this task",
	"agent.budget.calls":  "skill calls in the budget of this task",
	"agent.budget.tokens": "tokens in the budget of this task",
	"agent.budget.cost":   "what models may cost for this task",

	"user.threads":      "conversations of this user",
	"user.agents":       "agents at work for this user",
	"user.dispatches":   "agents dispatched for this user within a day",
	"user.schedules":    "schedules of this user",
	"user.tokens":       "tokens of this user within a day",
	"user.cost":         "what models may cost for this user within a day",
	"user.requests":     "requests at once of this user",
	"tenant.bytes":      "bytes that are kept of conversations of this tenant",
	"tenant.threads":    "conversations of this tenant",
	"tenant.agents":     "agents at work for this tenant",
	"tenant.dispatches": "agents dispatched for this tenant within a day",
	"tenant.schedules":  "schedules of this tenant",
	"tenant.tokens":     "tokens of this tenant within a day",
	"tenant.cost":       "what models may cost for this tenant within a day",
}

// Dollars are micro-dollars as people read them, exactly, and with cents.
func Dollars(micro int64) string {
	s := strings.TrimRight(fmt.Sprintf("%d.%06d", micro/1e6, micro%1e6), "0")
	if cents := len(s) - 1 - strings.IndexByte(s, '.'); cents < 2 {
		s += "00"[cents:]
	}
	return "$" + s
}

// LimitReached says that so much of the limit is used, and so much is all.
func LimitReached(limit string, used, most int64) string {
	if what, ok := counts[limit]; ok && strings.HasSuffix(limit, "cost") {
		return Sprintf("The limit of "+what+" is reached (%s of %s)", Dollars(used), Dollars(most))
	}
	if what, ok := counts[limit]; ok {
		return Sprintf("The limit of "+what+" is reached (%d of %d)", used, most)
	}
	return Sprintf("The limit of %s is reached (%d of %d)", limit, used, most)
}

// LimitEnded is the result of an agent that a limit ended and whose model had no last word.
func LimitEnded(limit string, used, most int64) string {
	if limit == "agent.tool_calls" {
		return Sprintf("Reached tool call limit (%d). Partial work completed.", most)
	}
	return LimitReached(limit, used, most)
}

// LimitAdvice says what whoever met the limit should do, as the end of a sentence.
// Free is when there is room again, or zero.
func LimitAdvice(limit string, free time.Time) string {
	advice := Sprintf("answer with what there is")
	switch limit {
	case "turn.skill_calls", "turn.agents":
		advice = Sprintf("say what is done and what is not, and ask whether to continue")
	case "thread.skill_calls", "user.skill_calls":
		advice = Sprintf("say what is done and what is not")
	case "agent.output_events", "agent.output_bytes":
		return Sprintf("only the ends of what was begun can be added; end it, and begin another")
	case "tenant.bytes":
		return Sprintf("what was begun can end, and nothing more is taken until there is room: delete conversations, as with mesh threads delete --before, or have the operator set retention or raise quotas.tenant.bytes")
	case "thread.cost":
		return Sprintf("say what is done and what is not, and that the rest needs a new conversation, or an operator who raises limits.thread_cost")
	case "turns.queued": // its reader is no model
		return Sprintf("nothing was accepted; send the message again in a moment, or have the operator raise turns.running or turns.queued")
	}
	if !free.IsZero() {
		// To the second, and not before there is.
		advice += Sprintf(", and that there is room for more at %s", free.UTC().Add(time.Second-1).Format(time.DateTime+" UTC"))
	}
	if limit == "user.cost" || limit == "tenant.cost" {
		advice += Sprintf("; an operator can raise quotas.%s", limit)
	}
	return advice
}

// TurnQueued tells the user of a turn at which place it waits until it is worked on.
func TurnQueued(place int) string {
	return Sprintf("There is much to do; your message waits at place %d.", place)
}

// TooMuchOutput is the end of an agent that said more than is kept of one: so many events, or
// bytes.
func TooMuchOutput(limit string, most int64) string {
	if limit == "tenant.bytes" {
		return Sprintf("No more is kept of the conversations of this tenant (%d bytes), and the agent was stopped; what it had said until then is there. Delete conversations to go on.", most)
	}
	what := Sprintf("%d pieces", most)
	if limit == "agent.output_bytes" {
		what = Sprintf("%d bytes", most)
	}
	return Sprintf("The agent said more than is kept of one answer (%s) and was stopped; what it had said until then is there.", what)
}

// TooManyAgents refuses a batch of agents that would make so many.
func TooManyAgents(most, would int) string {
	return Sprintf("at most %d agents may be dispatched for one request, and this would make %d", most, would)
}

// LastReply says that a model has taken all its steps.
func LastReply() string { return Sprintf("The model had to answer without further tools") }

// AnswerNow tells a model that a limit was met, and that it calls nothing more.
func AnswerNow(limit string) string {
	return limit + Sprintf(". Answer now with what you have; no command is run any more.")
}

// UsedInConversation is said of the limit of a conversation.
func UsedInConversation(most int64) string {
	return Sprintf("This conversation has used ") + allOf(most)
}

// UsedByUser is said of the limit of all that a user does.
func UsedByUser(most int64) string { return Sprintf("You have used ") + allOf(most) }

// TookSteps is said of the limit of an agent's steps.
func TookSteps(most int64) string {
	return Sprintf("I have taken the %s that I may take for one message.", counted(most, "step"))
}

// DispatchedAgents is said of the limit of agents for one message, however many of them it
// let begin.
func DispatchedAgents(most int64) string {
	return Sprintf("I may set at most %s to work for one message.", counted(most, "agent"))
}

// TimeIsOver is said of the limit of the time for agents, in seconds.
func TimeIsOver(most int64) string {
	return Sprintf("The %s for the agents are over.", counted(most, "second"))
}

// NotEnough is said of what is left of tokens, or of micro-dollars, for the next step.
func NotEnough(limit string, left int64) string {
	what := counted(left, "token")
	if limit == "model.cost" {
		what = Dollars(left)
	}
	return Sprintf("What is left of the budget (%s) is not enough for another step.", what)
}

// NotDone is a mission that an agent did not complete, and how it ended.
func NotDone(mission, status string) string { return Sprintf("%s (%s)", mission, status) }

// NotAsked is a mission that nobody was given, because of a limit.
func NotAsked(mission string) string { return Sprintf("%s (not begun: the limit was met)", mission) }

// MadeCalls is said of the limit of calls for one message.
func MadeCalls(most int64) string {
	return Sprintf("I have used the %s that I may make for one message.", counted(most, "skill call"))
}

func allOf(calls int64) string {
	if calls == 1 {
		return Sprintf("the 1 skill call that is allowed within a few minutes.")
	}
	return Sprintf("all of the %s that are allowed within a few minutes.", counted(calls, "skill call"))
}

func counted(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Sprintf("%d "+thing, n)
}

// RoomAt says when calls are allowed again; zero is in a few minutes.
func RoomAt(free time.Time) string {
	if free.IsZero() {
		return Sprintf("There is room for more in a few minutes.")
	}
	return Sprintf("There is room for more at %s.", free.UTC().Format("15:04:05 UTC"))
}

// MayContinue asks the user whether to go on, which takes time if when says so.
func MayContinue(when string) string {
	if when == "" {
		return Sprintf("Would you like me to continue?")
	}
	return when + Sprintf(" Would you like me to continue then? Answer \"yes\" when it is time.")
}

// WorkSoFar lists what is done and what is open when the user is asked.
func WorkSoFar(done, open []string) string {
	return Bullets(Sprintf("Done so far:"), done) + Bullets(Sprintf("Still open:"), open)
}

// NotBegun is a mission that waits for others.
func NotBegun(mission string) string { return Sprintf("%s (not begun: it waits for others)", mission) }

// Stopped is the end of work that the user did not want to go on.
func Stopped(done, open []string) string {
	return Sprintf("Stopped, as the user wishes.") + Bullets(Sprintf("Done:"), done) + Bullets(Sprintf("Not done:"), open)
}

// maxItems bounds each list that is read.
const maxItems = 50

// Bullets is a paragraph with the title and the items, or "" without items.
func Bullets(title string, items []string) string {
	if len(items) == 0 {
		return ""
	}
	return "\n\n" + title + list(items, maxItems)
}

// list is a line for each of the first items, and one for the number of the rest.
func list(items []string, most int) string {
	var out string
	for _, x := range items[:min(len(items), most)] {
		out += "\n- " + x
	}
	if n := len(items) - most; n > 0 {
		out += Sprintf("\n- and %d more", n)
	}
	return out
}
