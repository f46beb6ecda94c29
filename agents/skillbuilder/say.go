package skillbuilder

import (
	"fmt"
	"strings"

	"agentmesh/mesh/skill"
)

// exit is the way out, which every question names (S4-036).
const exit = "(Say “cancel” at any time to go back.)"

// question is what the user is asked where s stands, behind what the mesh asks, if that
// is not "".
func (s session) question(mesh string) string {
	text := s.Hint
	if text != "" {
		text += "\n\n"
	}
	if mesh != "" {
		text += mesh + "\n\n"
	}
	if s.Paused {
		text += s.welcomeBack()
	} else {
		text += s.stateQuestion()
	}
	return text + "\n\n" + exit
}

func (s session) stateQuestion() string {
	switch {
	case s.State == Gathering && s.Purpose == "":
		return "What should the new skill do? One sentence is enough, such as: it sends alerts to Slack."
	case s.State == Gathering:
		return "1. How does it work, step by step?\n" +
			"2. What does it need to know each time it is used? For example: " + listed(names(usualInputs(s.Purpose))) + ".\n\n" +
			"Say “you decide” if my suggestion is fine."
	case s.State == Triggers:
		return fmt.Sprintf("1. What should the skill be called? I suggest %s.\n"+
			"2. When should it be used? Tell me words or phrases; I suggest: %s.\n\n"+
			"Say “ok” to take both, or for example: call it %s, use it for “%s”.",
			s.Name, quoted(s.Triggers), s.Name, s.Triggers[0])
	case s.Source == "":
		return "I cannot write the skill like this: " + s.Problem + "\n\n" + s.changes()
	}
	return "Shall I save it as " + s.Name + "? Say “yes”, or tell me what to change. " + s.changes()
}

// changes says by example what can be changed.
func (s session) changes() string {
	domain, _, _ := strings.Cut(s.Name, ".")
	return "For example: rename it to " + domain + ".other_name; inputs: channel, message; triggers: alert the team; steps: …; description: …; ask me before each call; confirm: Shall I do it?"
}

// welcomeBack is asked of a user who comes back to an unfinished session
// (S4-064).
func (s session) welcomeBack() string {
	what := "your skill"
	if s.Purpose != "" {
		what = "your skill that " + s.Purpose
	}
	text := "Welcome back! Would you like to continue creating " + what + "? Say “yes” to continue"
	if s.Offer != "" {
		return text + ", or “no” to start with the one that " + s.Offer + "."
	}
	return text + ", or “no” to start a new one."
}

// unfinishedSkill names what was begun.
func (s session) unfinishedSkill() string {
	if s.Purpose == "" {
		return "The unfinished skill"
	}
	return "The unfinished skill that " + s.Purpose
}

// greeting opens a session (S4-037).
func (s session) greeting() string {
	if s.Purpose == "" {
		return "Hi! I am here to help you create a skill."
	}
	return "Hi! I am here to help you create a skill that " + s.Purpose + "."
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
