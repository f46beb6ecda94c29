package text

import (
	"strings"
	"time"
)

// CallFailed says that a skill was not carried out, and why, without a full stop.
func CallFailed(skill, why string) string { return Sprintf("Failed to execute '%s': %s.", skill, why) }

// NotMade says that a call of a skill was not made, because nothing may have an effect, and
// what it would have sent, if that is not "".
func NotMade(skill, request string) string {
	said := Sprintf("'%s' was not called: this is a dry run, in which nothing is changed or sent. The call is noted as it would have been made. Go on as if it had worked.", skill)
	if request != "" {
		said += Sprintf(" It would have sent:\n\n%s", request)
	}
	return said
}

// CallUntimely says that there was no time left for a call of a skill.
func CallUntimely(skill string) string {
	return Sprintf("Failed to execute '%s': there was no time left for it; it was not called.", skill)
}

// SkillNotGiven says that an agent may not call the skill.
func SkillNotGiven(skill string) string {
	return Sprintf("Skill '%s' is not available to this agent.", skill)
}

// SkillUnavailable says that calls of a skill are stopped for a while.
func SkillUnavailable(skill string) string {
	return Sprintf("'%s' is temporarily unavailable. Please try again later.", skill)
}

// CallInterrupted stands for the result of a call that nobody knows the end of.
func CallInterrupted() string {
	return Sprintf("The call was interrupted; it is not known whether it had an effect.")
}

// OutcomeUnknown is why a call is not made again that was cut off.
func OutcomeUnknown() string {
	return Sprintf("the call was cut off, and it is not known whether it had its effect; find that out before you make it again")
}

// CallWaiting stands for the result of a call of another task that waits for the user.
func CallWaiting() string {
	return Sprintf("The call has not been made yet: it waits for the user's answer to an earlier task.")
}

// UnknownTool says that there is no such tool.
func UnknownTool(tool string) string { return Sprintf("Unknown tool: %s", tool) }

// NoObject says that the arguments of a call cannot be read.
func NoObject(tool string) string {
	return Sprintf("The arguments of %s are not a JSON object; call it again with one", tool)
}

// ToolCrashed says that a tool broke.
func ToolCrashed(tool string) string { return Sprintf("task_crashed: internal error in tool %s", tool) }

// ToolLate says that a tool took longer than it may.
func ToolLate(tool string, most time.Duration) string {
	return Sprintf("timeout: %s did not answer within %v; it is not known whether it had an effect", tool, most)
}

// LeftOut says how much of a result a model is not shown.
func LeftOut(bytes, all int) string {
	return Sprintf("\n[%d of %d bytes are left out. Ask for less at once, as with --limit, or for one part after the other.]", bytes, all)
}

// ToolFailed is said where nothing else is known.
func ToolFailed() string { return Sprintf("The tool failed.") }

// NativeTool tells the user what a tool of the model's provider did.
func NativeTool(tool, detail string) string {
	name := strings.ReplaceAll(tool, "_", " ")
	if detail == "" {
		return Sprintf("Used %s", name)
	}
	return Sprintf("Used %s: %s", name, detail)
}

// Sources ends an answer with the pages that it is based on, each as Source has it.
func Sources(all []string) string { return Sprintf("\n\nSources:\n%s", strings.Join(all, "\n")) }

// Source is a page in such a list; the title may be "".
func Source(title, url string) string {
	if title == "" {
		return "- " + url
	}
	return Sprintf("- %s: %s", title, url)
}

// Cited is a document in such a list, by the number that the answer has for it. It has a page,
// or a line.
func Cited(number int, path string, line, page int, title string) string {
	if page > 0 {
		return Sprintf("- [%d] %s, page %d: %s", number, path, page, title)
	}
	return Sprintf("- [%d] %s, line %d: %s", number, path, line, title)
}

// CutByLength ends an answer that a model's limit of length cut off.
func CutByLength() string {
	return Sprintf("\n\n[The answer is cut off here, at the model's limit of length. Say \"go on\" for the rest.]")
}

// CutByFilter ends an answer that a provider's filter cut off.
func CutByFilter() string {
	return Sprintf("\n\n[The answer is cut off here, by the content filter of the model's provider.]")
}

// UnreadableCommand says that a command is not one.
func UnreadableCommand() string { return Sprintf("The command cannot be read") }

// NoDiscovery says that an agent does not look skills up.
func NoDiscovery() string {
	return Sprintf("get_skill is not available to this agent; its skills are listed in its instructions.")
}

// GiveUseSkill says what use_skill takes.
func GiveUseSkill() string {
	return Sprintf(`Give use_skill an object with "skill", a name, and "arguments", an object`)
}

// GiveGetSkill says what get_skill takes.
func GiveGetSkill() string {
	return Sprintf("The arguments domain and search of get_skill must be strings")
}

// UnknownSkill says that there is no such skill; hint is a sentence or "".
func UnknownSkill(skill, hint string) string {
	return Sprintf("Unknown skill '%s'. %sCall get_skill to discover available skills.", skill, hint)
}

// InvalidArguments says what is wrong with the arguments of a call, and how they
// should be.
func InvalidArguments(skill, problems, usage string) string {
	return Sprintf("Invalid arguments for '%s': %s. %s", skill, problems, usage)
}

// CallRefused says what a skill itself finds wrong with the arguments.
func CallRefused(skill, problem string) string {
	return Sprintf("Invalid arguments for '%s': %s.", skill, problem)
}

// SkillLate and SkillCanceled say how a call ended of which nobody knows what it did.
func SkillLate(skill string) string {
	return Sprintf("Failed to execute '%s': it did not finish in time, and it is unknown whether it had an effect.", skill)
}

// SkillCanceled is said of a call whose caller went away.
func SkillCanceled(skill string) string {
	return Sprintf("Failed to execute '%s': it was canceled, and it is unknown whether it had an effect.", skill)
}

// CallOutcomes are the skill calls of a task that was interrupted.
type CallOutcomes struct {
	Done, Failed, Unknown []string
}

// Interrupted tells the user what happened, what became of the calls, and what to
// do. What happened is a clause.
func Interrupted(what string, f CallOutcomes) string {
	if len(f.Done)+len(f.Failed)+len(f.Unknown) == 0 {
		return SendAgain(what)
	}
	said, remedy := what+".", Sprintf("Ask only for what is missing")
	if len(f.Done) > 0 {
		said += Sprintf(" Done before that: %s.", named(f.Done))
	}
	if len(f.Failed) > 0 {
		said += Sprintf(" Failed before that: %s.", named(f.Failed))
	}
	if len(f.Unknown) > 0 {
		said += Sprintf(" It is not known whether this had its effect: %s.", named(f.Unknown))
		remedy = Sprintf("Find that out, and then ask only for what is missing")
	}
	return said + " " + remedy + Sprintf(": the same message again could have its effects twice.")
}

// maxNamed bounds the calls that a sentence names.
const maxNamed = 8

func named(calls []string) string {
	said := strings.Join(calls[:min(len(calls), maxNamed)], "; ")
	if more := len(calls) - maxNamed; more > 0 {
		said += Sprintf("; and %d more", more)
	}
	return said
}
