package thread

import "agentmesh/mesh"

// OpensTurn reports whether the event opens a task of a user, as one in every thread does.
func OpensTurn(e *mesh.Event) bool {
	b, ok := e.Body.(mesh.TaskOpened)
	return ok && e.Execution != "" && opens(e, b.Execution)
}

// ClaimOf returns the epoch of a claim of the thread; false for other events.
func ClaimOf(e *mesh.Event) (mesh.Epoch, bool) {
	b, ok := e.Body.(mesh.ThreadClaimed)
	return b.Epoch, ok
}
