package text

import "strings"

// AgentLate is said of a run that is cut when its grant is over.
func AgentLate() string { return Sprintf("The agent did not finish in time") }

// AgentTookTooLong is the end of an agent that was cut off for being late.
func AgentTookTooLong() string { return Sprintf("The agent took too long and was stopped.") }

// AgentCanceled is the result of an agent that was ended.
func AgentCanceled() string { return Sprintf("The agent was stopped before it was done.") }

// AgentInterrupted is the result of an agent that nobody heard the end of.
func AgentInterrupted() string {
	return Sprintf("The agent was interrupted; it is not known what became of its task.")
}

// AgentNotAsked is said where an agent cannot be asked, and no more is known.
func AgentNotAsked() string { return Sprintf("The agent could not be asked.") }

// ModelFailed is why an agent failed whose language model gave no reply.
func ModelFailed(why string) string { return Sprintf("LLM error: %s", why) }

// AgentSkipped is the result of an agent that waited for one that failed.
func AgentSkipped(dependency string) string {
	return Sprintf("Skipped because dependency '%s' failed.", dependency)
}

// AgentFailed is the line of an agent that did not complete (S0-090).
func AgentFailed(agent, result string) string { return Sprintf("Agent '%s' failed: %s", agent, result) }

// ResultsLater says how to get at the result of an agent that has begun.
func ResultsLater(tool string) string {
	return Sprintf("The result is not known yet; get it with %s.", tool)
}

// ResultsCome says that a result comes by itself: models make results up that they do not
// have yet.
func ResultsCome() string {
	return Sprintf("The agent has the task. Its result is not known yet; it is delivered to you when the agent is done. Do not guess it.")
}

// AgentAtWork stands for the result of an agent that is not done.
func AgentAtWork() string { return Sprintf("The agent is still at work.") }

// SubAgentCompleted tells a model what an agent came to that it set to work (S1-018). The
// result is quoted.
func SubAgentCompleted(name, execution, quoted string) string {
	return Sprintf("[Sub-agent completed] %s (%s): %s", name, execution, quoted)
}

// SubAgentFailed is the same of one that failed (S1-019).
func SubAgentFailed(name, execution, quoted string) string {
	return Sprintf("[Sub-agent failed] %s (%s): %s", name, execution, quoted)
}

// SubAgentTimedOut is the same of one that took too long.
func SubAgentTimedOut(name, execution, quoted string) string {
	return Sprintf("[Sub-agent timed out] %s (%s): %s", name, execution, quoted)
}

// SubAgentCancelled is the same of one that was ended.
func SubAgentCancelled(name, execution, quoted string) string {
	return Sprintf("[Sub-agent cancelled] %s (%s): %s", name, execution, quoted)
}

// SubAgentSkipped is the same of one that was never asked.
func SubAgentSkipped(name, execution, quoted string) string {
	return Sprintf("[Sub-agent skipped] %s (%s): %s", name, execution, quoted)
}

// SubAgentAsks is the same of one that ended with a question.
func SubAgentAsks(name, execution, quoted string) string {
	return Sprintf("[Sub-agent asks] %s (%s): %s", name, execution, quoted)
}

// SubAgentNeedsHelp tells a model what an agent asks that waits for the answer. What it
// asks, and what it has so far, is quoted.
func SubAgentNeedsHelp(name, execution, quoted, tool string) string {
	return Sprintf("[Sub-agent asks] %s (%s): %s", name, execution, quoted) + "\n" +
		Sprintf("It waits. Answer it with %s, have the user answer with ask_user of that tool, or cancel it.", tool)
}

// SubAgentHas is what an agent needs, and what it has so far.
func SubAgentHas(reason, partial string) string {
	if partial == "" {
		return reason
	}
	return reason + "\n\n" + Sprintf("So far:") + "\n" + partial
}

// AgentNeedsHelp stands for the result of an agent that waits for an answer.
func AgentNeedsHelp(tool string) string {
	return Sprintf("The agent asks you something, and waits; it is delivered to you. Answer with %s.", tool)
}

// HelpAnswered is what the model of an agent is told that asked for help.
func HelpAnswered(answer string) string { return Sprintf("You are answered:\n%s", answer) }

// HelpPassedOn is said of a question that the user has answered.
func HelpPassedOn() string {
	return Sprintf("The user has answered. The agent has the answer and goes on.")
}

// AgentAsksUser is what a user is asked for an agent that another one dispatched.
func AgentAsksUser(name, question string) string { return Sprintf("%s asks: %s", name, question) }

// AgentUnanswered is the result of an agent that asked for help in vain, with what it has.
func AgentUnanswered(reason, partial string) string {
	s := Sprintf("The agent asked for help and got no answer in time. It asked:\n%s", reason)
	if partial != "" {
		s = partial + "\n\n" + s
	}
	return s
}

// maxOpen is how many calls a result names.
const maxOpen = 10

// EffectsUnknown lists calls of which nobody knows whether they had an effect.
func EffectsUnknown(calls []string) string {
	return Sprintf("\n\nIt is not known whether these skill calls had an effect. Find out before anything is done again:") + list(calls, maxOpen)
}

// A Remedy is what can be done about the rest of a result that was too long.
type Remedy uint8

// The remedies.
const (
	SayIfItMatters Remedy = iota
	NameItAlone
	AskForLess
	DispatchForLess
)

func (r Remedy) words() string {
	switch r {
	case NameItAlone:
		return Sprintf("get them with agent_ids that names this agent alone")
	case AskForLess:
		return Sprintf("there is no way to get them: ask the agent for less, or for one part after the other")
	case DispatchForLess:
		return Sprintf("there is no way to get them: dispatch an agent for less, or for one part after the other")
	}
	return Sprintf("there is no way to get them: if they matter, say so")
}

// BytesMissing stands for the rest of a result.
func BytesMissing(bytes, all int, r Remedy) string {
	return Sprintf("\n[%d of %d bytes are missing here; %s.]", bytes, all, r.words())
}

// EndMissing stands for what an agent said after there was no more room for it.
func EndMissing(bytes int, r Remedy) string {
	return Sprintf("\n[%d bytes that the agent said after this are missing here; %s.]", bytes, r.words())
}

// AgentUnfinished is how the task of an agent ends whose stream ended before it.
func AgentUnfinished() string { return Sprintf("The agent stopped without finishing its task.") }

// AgentForgot is said of an agent that lost its task.
func AgentForgot() string {
	return Sprintf("The agent does not know the task any more; what became of it is unknown.")
}

// AgentToldAgain is said of an agent that no longer knows the conversation.
func AgentToldAgain() string {
	return Sprintf("The agent does not take messages in the conversation that it had; it is asked in a new one, and told what it was told and said.")
}

// AgentUnreachable is said where there is no connection.
func AgentUnreachable() string { return Sprintf("The agent could not be reached.") }

// AgentRefused is said with the agent's reason, or with "".
func AgentRefused(detail string) string {
	return because(Sprintf("The agent refused the request"), detail)
}

// AgentCannot is said of an agent that does not know what it is asked to do.
func AgentCannot(detail string) string {
	return because(Sprintf("The agent does not support what it was asked for"), detail)
}

// AgentOtherVersion is said of an agent that speaks another version of A2A.
func AgentOtherVersion(detail string) string {
	return because(Sprintf("The agent does not speak the version of A2A that its card names"), detail)
}

// AgentWantsCredentials is said of an agent that does not know who asks.
func AgentWantsCredentials(detail string) string {
	return because(Sprintf("The agent wants credentials that the mesh does not have, or that do not count"), detail)
}

// AgentDenied is said of an agent that knows who asks and does not want to.
func AgentDenied(detail string) string {
	return because(Sprintf("The agent does not allow the mesh to ask it this"), detail)
}

// AgentNotThere is said where nobody serves A2A.
func AgentNotThere() string {
	return Sprintf("There is no agent at the address that its card names.")
}

// AgentDoesNotKnow is said of an agent that does not know what it is to go on with.
func AgentDoesNotKnow(detail string) string {
	return because(Sprintf("The agent does not know what it was asked to go on with"), detail)
}

// AgentBusy is said of an agent that takes no more for now.
func AgentBusy(detail string) string {
	return because(Sprintf("The agent has too much to do at the moment"), detail)
}

// AgentBroke is said of an agent in which something failed.
func AgentBroke(detail string) string {
	return because(Sprintf("The agent met an error of its own"), detail)
}

// AgentUnreadable is said of an answer that is not A2A at a place, "" for the whole,
// where something else belongs.
func AgentUnreadable(at, want string) string {
	if at == "" {
		return Sprintf("The agent's answer cannot be read: it is not %s.", want)
	}
	return Sprintf("The agent's answer cannot be read: its %q is not %s.", at, want)
}

// HTTPStatus is what a server said that said nothing else.
func HTTPStatus(status int) string {
	return Sprintf("the agent's server answered with HTTP status %d", status)
}

// because adds the reason to a sentence without its end, if there is one.
func because(what, detail string) string {
	if detail == "" {
		return what + "."
	}
	return what + ": " + detail
}

// AgentNotCalled is said of an agent that is not called, and why.
func AgentNotCalled(why string) string { return Sprintf("The agent was not called: %s", why) }

// AgentSentTooMuch is said of what an agent sent as one that has more bytes than the limit.
// How many is 0 where nobody counted.
func AgentSentTooMuch(bytes, limit int) string {
	if bytes == 0 {
		return Sprintf("The agent sent more than %d bytes at once, which is the limit; have it send less, in pieces or in a part with a url.", limit)
	}
	return Sprintf("The agent sent %d bytes at once, and the limit is %d; have it send less, in pieces or in a part with a url.", bytes, limit)
}

// AgentSentNothing is said of an update without content.
func AgentSentNothing() string { return Sprintf("The agent sent an empty answer.") }

// StillWorking tells the user of a turn of which nothing was heard for a while who is at
// work, how many of the agents that were asked are done, and whether that takes longer than
// expected.
func StillWorking(who []string, done, total int, slow bool) string {
	said := Sprintf("Still working")
	if slow {
		said = Sprintf("This is taking longer than expected; still working")
	}
	if len(who) > 0 {
		named := who[:min(len(who), maxNamed)]
		said += ": " + strings.Join(named, ", ")
		if more := len(who) - len(named); more > 0 {
			said += Sprintf(" and %d more", more)
		}
	}
	if total > 0 {
		said += Sprintf("; %d of %d done", done, total)
	}
	return said + "."
}

// NobodyWorks answers who asks how far a task is on which no agent is at work.
func NobodyWorks() string { return Sprintf("No agent is at work on this.") }

// Connecting tells the user that another agent takes over.
func Connecting(agent string) string { return stable("Connecting you with %s...", agent) }

// Returning tells the user that the main agent takes over again.
func Returning() string { return stable("Returning you to the main assistant.") }

// WayOut tells the user by which words, one at least, the agent that asks is left.
func WayOut(words ...string) string {
	if len(words) == 1 {
		return Sprintf("(Say “%s” to go back to the main assistant.)", words[0])
	}
	return Sprintf("(Say one of “%s” to go back to the main assistant.)", strings.Join(words, "”, “"))
}

// BackWithMain tells the user that the main agent has the conversation again; other is the user
// who left the agent that asks, if it was another one.
func BackWithMain(from, other string) string {
	if other != "" {
		return Sprintf("%s left %s for everybody in this conversation. You are back with the main assistant; %s can be continued later.", other, from, from)
	}
	return Sprintf("No problem! You are back with the main assistant; %s can be continued later.", from)
}

// MeshStopped and MeshRestarted are what interrupted a task, as a clause.
func MeshStopped() string { return Sprintf("The mesh was stopped while this was running") }

// MeshRestarted is said when a node finds tasks of its own from before.
func MeshRestarted() string { return Sprintf("The mesh was restarted while this was running") }

// Imported is said of what was at work, or waited for its user, where a conversation comes from.
func Imported() string {
	return Sprintf("This conversation was brought here from elsewhere while this was not finished")
}

// AgentLost is said where the agent that worked on a task was lost, and did not come back
// or does not know of it; a clause.
func AgentLost(agent string) string { return Sprintf("%s was lost while this was running", agent) }

// AgentAwaited tells the user of a turn that its agent was there a moment ago and may be
// back.
func AgentAwaited(agent string) string { return Sprintf("Waiting for %s to return", agent) }

// SendAgain ends a clause where a task had no effect.
func SendAgain(what string) string { return what + Sprintf("; send the message again.") }

// CutOff is how a task ends whose agent is gone.
func CutOff() string { return Sprintf("The task was cut off.") }

// MessagesTooLong says that messages are more than an agent can be given.
func MessagesTooLong(bytes, most int) string {
	return Sprintf("Your messages have %d bytes together, and an agent can be given %d at once; send less, or a part with a url.", bytes, most)
}

// AgentNotAvailable is said of an agent that cannot be connected with.
func AgentNotAvailable(agent string) string {
	return Sprintf("%s is not available right now; try again later.", agent)
}

// NotLogged is how a task ends that cannot be written down.
func NotLogged() string {
	return Sprintf("The conversation could not be written to; try again.")
}

// TooManyHandoffs is how a task ends that agents hand to each other.
func TooManyHandoffs() string {
	return Sprintf("The agents kept handing over to each other; the task was stopped.")
}

// LostTrack is how a task ends whose conversation changed hands unseen.
func LostTrack() string {
	return Sprintf("The conversation changed hands in a way that cannot be followed; send the message again.")
}

// CouldNotGoOn is what came of a handoff to an agent that failed, with its words or "".
func CouldNotGoOn(agent, words string) string {
	if words == "" {
		return Sprintf("%s could not go on.", agent)
	}
	return Sprintf("%s could not go on: %s", agent, words)
}

// Returned tells an agent that control comes back to it, and what came of it.
func Returned(from, outcome, result string) string {
	return Sprintf("Control returns from %s (%s). %s", from, outcome, result)
}

// Canceled is how a task ends that its user canceled.
func Canceled() string { return Sprintf("Canceled.") }
