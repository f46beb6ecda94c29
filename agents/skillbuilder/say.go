package skillbuilder

import (
	"fmt"
	"strings"

	"agentmesh/mesh/session"
	"agentmesh/mesh/skill"
)

// exit is the way out, which every question names (S4-036).
const exit = "(Say “cancel” at any time to go back.)"

// question is what the user is asked where t stands, behind what the mesh asks, if that
// is not "".
func (t talk) question(mesh string) string {
	text := t.Hint
	if text != "" {
		text += "\n\n"
	}
	if mesh != "" {
		text += mesh + "\n\n"
	}
	switch t.Waits {
	case session.ForResume:
		text += t.welcomeBack()
	case session.ForChoice:
		text += t.choice()
	case session.ForMeant:
		text += fmt.Sprintf("Is “%s” an answer for the skill, or something for the main assistant? Say “answer” or “main”.", phrase(t.Other))
	default:
		text += t.stepQuestion()
	}
	return text + "\n\n" + exit
}

func (t talk) stepQuestion() string {
	d := t.Draft
	problem := ""
	if d.Problem != "" {
		problem = "I cannot write the skill like this: " + d.Problem + "\n\n"
	}
	switch {
	case len(d.Similar) > 0:
		return t.similarQuestion()
	case t.Step == Gathering && d.Purpose == "":
		return problem + "What should the new skill do? One sentence is enough, such as: it sends alerts to Slack."
	case t.Step == Gathering:
		return problem + "1. How does it work, step by step?\n" +
			"2. What does it need to know each time it is used? For example: " + listed(names(usualInputs(d.Purpose))) + ".\n\n" +
			"Say “you decide” if my suggestion is fine."
	case t.Step == Triggers:
		return problem + fmt.Sprintf("1. What should the skill be called? I suggest %s.\n"+
			"2. When should it be used? Tell me words or phrases; I suggest: %s.\n\n"+
			"Say “ok” to take both, or for example: call it %s, use it for “%s”.",
			d.Name, quoted(d.Triggers), d.Name, d.Triggers[0])
	case d.Source == "":
		return problem + d.changes()
	case d.Replaces != "":
		return d.tried() + "Shall I change " + d.Name + " to this? Say “yes”, or tell me what to change. " + d.changes()
	}
	return d.tried() + "Shall I save it as " + d.Name + "? Say “yes”, or tell me what to change. " + d.changes()
}

// tried is what came of the trial, before the question whether to save.
func (d draft) tried() string {
	if d.Trial == "" {
		return ""
	}
	return d.Trial + "\n\n"
}

// similarQuestion asks what becomes of skills that may do the same.
func (t talk) similarQuestion() string {
	var b strings.Builder
	b.WriteString("There may be a skill for that already:\n")
	own := ""
	for _, s := range t.Draft.Similar {
		fmt.Fprintf(&b, "- %s: %s\n", s.Name, s.Description)
		if s.Own && own == "" {
			own = s.Name
		}
	}
	fmt.Fprintf(&b, "\nSay “use %s” to take it as it is, ", t.Draft.Similar[0].Name)
	if own != "" {
		fmt.Fprintf(&b, "“change %s” to change it, ", own)
	}
	return b.String() + "or “new” for a new one."
}

// changes says by example what can be changed.
func (d draft) changes() string {
	domain, _, _ := strings.Cut(d.Name, ".")
	rename := "rename it to " + domain + ".other_name; "
	if d.Replaces != "" {
		rename = ""
	}
	return "For example: " + rename + "inputs: channel, message; triggers: alert the team; steps: …; description: …; ask me before each call; confirm: Shall I do it?"
}

// title names the session for the user.
func (d draft) title() string {
	if d.Purpose == "" {
		return "your skill"
	}
	return "your skill that " + d.Purpose
}

// welcomeBack is asked of a user who comes back to an unfinished session
// (S4-064).
func (t talk) welcomeBack() string {
	if t.offering() {
		return "You also wanted a skill that " + t.Draft.Purpose + ". Shall we begin with it? Say “yes”, or “no” to leave it."
	}
	text := "Welcome back! Would you like to continue creating " + t.Draft.title() + "? Say “yes” to continue"
	if t.Other != "" {
		text += ", or “no” to start with the one that " + t.Other
	} else {
		text += ", or “no” to start a new one"
	}
	return text + ", which drops what there is of this one."
}

// choice is asked of a user who wants another skill while one is being built: it names the
// session that is active (S4-065), and offers what there is room for.
func (t talk) choice() string {
	other := "the other one"
	if t.Other != "" {
		other = "the one that " + t.Other
	}
	text := "You are creating " + t.Draft.title() + ". "
	if t.CanWait() {
		text += "Would you like to finish that first? Say “finish” to go on with it, "
	} else {
		text += fmt.Sprintf("You want %d more after it already, and I cannot note %s besides: to go on without that, answer what I asked last about this one. Say ", len(t.Later), other)
	}
	if t.CanPark() {
		text += "“park” to set it aside and start " + other + ", or "
	}
	return text + "“leave” to keep it and go back to the main assistant."
}

// explanation answers a question about the step.
func (t talk) explanation() string {
	d := t.Draft
	switch {
	case t.Waits != session.ForAnswer:
		return ""
	case len(d.Similar) > 0:
		return "A skill that is there can be used at once; a change of it is for everybody who uses it."
	case t.Step == Gathering && d.Purpose == "":
		return "A skill is something that the assistant can do for you by its name. I need one sentence about what it does."
	case t.Step == Gathering:
		return "Tell me what happens when the skill is used, in order, and what has to be given to it each time. “You decide” is an answer, too."
	case t.Step == Triggers:
		return "The skill is found by its name and by phrases: what people say when they want it. Put a phrase in quotes if it sounds like a question."
	}
	return "This is the whole skill as it would be saved: what it does, what it needs to know, and when it is used. Nothing is saved before your “yes”."
}

// unfinishedSkill names what was begun.
func (d draft) unfinishedSkill() string {
	if d.Purpose == "" {
		return "The unfinished skill"
	}
	return "The unfinished skill that " + d.Purpose
}

// greeting opens a session (S4-037).
func (d draft) greeting() string {
	if d.Purpose == "" {
		return "Hi! I am here to help you create a skill."
	}
	return "Hi! I am here to help you create a skill that " + d.Purpose + "."
}

func names(inputs []skill.Parameter) []string {
	var out []string
	for _, p := range inputs {
		out = append(out, p.Name)
	}
	return out
}

// listed joins words as "a, b and c".
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func quoted(phrases []string) string {
	out := make([]string, len(phrases))
	for i, p := range phrases {
		out[i] = "“" + p + "”"
	}
	return strings.Join(out, ", ")
}
