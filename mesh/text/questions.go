package text

// MayRun asks the user before the skill runs, which does what the description says.
func MayRun(skill, description string) string { return Sprintf("May I run %s? %s", skill, description) }

// NotShown says how many characters of an argument the user is not shown.
func NotShown(n int) string { return Sprintf("(%d more characters are not shown)", n) }

// MayCreate asks the user before a skill is created, whose file is shown below.
func MayCreate(skill string) string {
	return Sprintf("May I create the skill %s from this file?", skill)
}

// MayChange asks the user before a skill is replaced by that of the file which is shown below.
func MayChange(skill string) string {
	return Sprintf("May I change the skill %s to this file?", skill)
}

// RunsBy says that a skill would run by itself.
func RunsBy(schedule string) string {
	return Sprintf("It would run by itself, in your name: %s", schedule)
}

// AnswersAll says that one answer is for several questions.
func AnswersAll() string { return Sprintf("Your answer counts for all of these.") }

// WaitsForApproval is what a call came to that the user is asked about.
func WaitsForApproval(skill string) string {
	return Sprintf("'%s' waits for the user's approval.", skill)
}

// Refused says that the user did not allow a call.
func Refused() string {
	return Sprintf("the user did not allow it; do not call it again unless the user asks for it")
}

// RefusedBy says that the user did not allow a call, with the user's words.
func RefusedBy(answer string) string {
	return Sprintf("the user did not allow it and answered %q; do not call it again as it is", answer)
}

// AskedBy is what an agent asked, quoted below.
func AskedBy(agent, label, quoted string) string {
	if label != "" {
		agent += " (" + label + ")"
	}
	return Sprintf("%s asked:\n%s", agent, quoted)
}
