package mesh

// HandoffOutcome says how a handoff ended.
type HandoffOutcome string

// The outcomes.
const (
	HandoffCompleted HandoffOutcome = "completed"
	HandoffCancelled HandoffOutcome = "cancelled"
	HandoffError     HandoffOutcome = "error"
	// HandoffParked is one whose user said nothing for too long: nothing of it is lost.
	HandoffParked HandoffOutcome = "parked"
)

// A HandoffState is how far a handoff is.
type HandoffState string

// The states, and what leads to them. From pending and active there is a way to all that
// follow, from returning to the outcomes, which are states too, and from an outcome to
// none: the next handoff is another one.
const (
	// HandoffPending is one that was decided (HandoffStarted), and whose target was not
	// heard yet.
	HandoffPending HandoffState = "pending"
	// HandoffActive is one whose target was heard: by the first event that it wrote about
	// an execution of its own with the user's stream, or as that execution completed.
	HandoffActive HandoffState = "active"
	// HandoffReturning is one that was ended (HandoffEnded) while its turn was at work, and
	// who has the stream back was not heard yet, in the same sense. It is over when it is, or
	// when the turn rests without: then the state is the outcome.
	HandoffReturning HandoffState = "returning"
)

// Stands reports whether the target has the conversation.
func (s HandoffState) Stands() bool { return s == HandoffPending || s == HandoffActive }

// Early reports whether the handoff was broken off: neither done nor only parked.
func (o HandoffOutcome) Early() bool { return o == HandoffCancelled || o == HandoffError }

// An ArtifactRef names an artifact of a thread, as users read it: by the task that has it.
type ArtifactRef struct {
	Task ExecutionID
	ID   string
	Name string // or ""
}
