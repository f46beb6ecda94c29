package text

import "strings"

// Continue tells a model to go on after a limit, at the user's yes (S3-045).
func Continue(done []string) string {
	text := Sprintf("You stopped because a limit was met, and the user wants you to continue. Review the conversation, continue where you left off, and do not repeat what is done.")
	if len(done) > 0 {
		text += Sprintf("\nDone already:\n- %s", strings.Join(done, "\n- "))
	}
	return text
}

// Stop tells a model that the user said something else than yes at a limit.
func Stop(done, open []string) string {
	return Sprintf("You stopped because a limit was met, and asked the user whether to go on. The user's last message is the answer, and it is not a yes: do not do what was open unless it asks for it. "+
		"Tell the user what is done and what is not.") + Bullets(Sprintf("Done already:"), done) + Bullets(Sprintf("Not done:"), open)
}

// Settle tells a model that the user has answered about the calls.
func Settle(calls, done []string) string {
	text := Sprintf("The user was asked to allow these calls, and the user's last message is the answer. What came of them is in their results.\n- %s", strings.Join(calls, "\n- "))
	if len(done) > 0 {
		text += Sprintf("\nDone already, apart from these:\n- %s", strings.Join(done, "\n- "))
	}
	return text
}

// PassedOn tells a model that the user answered questions of other agents; plain
// says that it was a yes or a no and nothing else.
func PassedOn(questions []string, plain bool) string {
	text := Sprintf("The user's last message answers what other agents asked. It was given to them, and what they made of it is in their results above. ")
	if plain {
		text += Sprintf("It asks nothing else of you: do not have anything done again because of it.")
	} else {
		text += Sprintf("If it asks for something that is not in the results, see to that; do not have anything done again that is.")
	}
	return text + "\n\n" + strings.Join(questions, "\n\n")
}

// CarryOut tells a model to carry out a template with the arguments, as JSON or "".
func CarryOut(skill, body, args string) string {
	text := Sprintf("Carry out the skill %s now, as it is described here. Report what came of it.\n\n%s", skill, body)
	if args != "" {
		text += Sprintf("\n\nThe arguments of this call:\n%s", args)
	}
	return text
}

// Task is what an agent that another one dispatched is told (S1-068).
func Task(words string) string { return Sprintf("## Task\n\n%s", words) }

// Prior are the sections of a mission that give an agent what it needs to know.
func Prior(mission, context string, results []string) string {
	text := mission
	if context != "" {
		text += Sprintf("\n\n## Additional context\n%s", context)
	}
	if len(results) > 0 {
		text += Sprintf("\n\n## Results from prior agents") + strings.Join(results, "")
	}
	return text
}

// Answered tells an agent what the user said to its questions.
func Answered(answers []string) string {
	return Sprintf("The user was asked about this and answered:\n- %s", strings.Join(answers, "\n- "))
}

// PriorResult is the result of another agent, which is quoted.
func PriorResult(agent, quoted string) string {
	return Sprintf("\nResults from %s:\n```\n%s\n```\n", agent, quoted)
}

// A Saying is what an agent was told, or, if it is its own, what it said.
type Saying struct {
	Own  bool
	Text string
}

// Recollection tells an agent that has lost a conversation what it was told and has said
// in it, line by line behind a mark, so that nothing in it reads like the message that
// follows; cut says that there was more before. It is "" if there is nothing to tell.
func Recollection(said []Saying, cut bool) string {
	if len(said) == 0 {
		return ""
	}
	out := Sprintf("You had this conversation before and do not have it any more. This is what you were told and what you said, oldest first, for you to know; all of it is dealt with. The message that is for you now comes after it.")
	if cut {
		out += Sprintf("\nWhat was said before this is left out.")
	}
	for _, s := range said {
		who := Sprintf("You were told:")
		if s.Own {
			who = Sprintf("You said:")
		}
		out += "\n\n" + who + "\n> " + strings.ReplaceAll(strings.TrimSpace(s.Text), "\n", "\n> ")
	}
	return out + "\n\n" + Sprintf("The message that is for you now:")
}

// Omitted stands in a long text for a part of it that is not there.
func Omitted() string { return stable("\n[A part of this is left out here.]\n") }

// Instruction is what a model is told while it works, by a person who may.
func Instruction(words string) string {
	return Sprintf("[New instruction for your present task]\n%s", words)
}
