package thread

import (
	"cmp"
	"slices"

	"agentmesh/mesh"
)

// Access says whose a thread is, and who else may see it. The zero value is that of a
// thread without a task, which is nobody's.
type Access struct {
	// Owner is the user who opened the first task, or was given the thread since.
	Owner string
	// Participants take part as the owner does, but share it with nobody. They are
	// sorted, and shared: nobody changes them.
	Participants []string
	// Readable says that everybody in the tenant may read it.
	Readable bool
}

// Apply adds the next event of the thread.
func (a *Access) Apply(e *mesh.Event) {
	switch b := e.Body.(type) {
	case mesh.TaskOpened:
		if a.Owner == "" && opens(e, b.Execution) {
			a.Owner = b.Execution.User
		}
	case mesh.ThreadShared:
		a.Readable, a.Participants = b.Readable, b.Participants
		a.Owner = cmp.Or(b.Owner, a.Owner)
	}
}

// Involves reports whether the principal needs no role to read the thread.
func (a *Access) Involves(p mesh.Principal) bool {
	return p.Grant != nil || a.Readable || a.Owner == p.User || slices.Contains(a.Participants, p.User)
}

// TakesPart reports whether the user, of the thread's tenant, is the owner or a
// participant, or may act for both.
func (a *Access) TakesPart(p mesh.Principal) bool {
	return a.Owner == p.User || p.Can(mesh.ActAdminTenant) || slices.Contains(a.Participants, p.User)
}

// MayRead reports whether the principal, of the thread's tenant, may read the thread. An
// agent reads that of its grant.
func (a *Access) MayRead(p mesh.Principal) bool {
	return a.Involves(p) || p.Can(mesh.ActAdminTenant) || p.Can(mesh.ActReadTenant)
}

// MayCancel reports whether the principal may cancel the tasks of the thread.
func (a *Access) MayCancel(p mesh.Principal) bool {
	return a.TakesPart(p) || p.Can(mesh.ActCancelTenant)
}

// MayShare reports whether the principal says who may see the thread.
func (a *Access) MayShare(p mesh.Principal) bool {
	return a.Owner == p.User || p.Can(mesh.ActAdminTenant)
}

// Outsider is the refusal of what only those do who take part, for who may read.
func (a *Access) Outsider(op string) *mesh.Error {
	return mesh.Errorf(mesh.Denied, op, "you may read this conversation and do not take part in it; ask %s to share it with you", a.Owner)
}

// Reshares reports whether others may read the thread after the event than before.
func Reshares(e *mesh.Event) bool {
	_, ok := e.Body.(mesh.ThreadShared)
	return ok
}

// TurnFor returns the turn of the id if the principal, of the thread's tenant, may read
// it and addresses its agent, or the mesh as one by "": else it is as unknown as one
// that does not exist, and nil.
func (s *State) TurnFor(p mesh.Principal, id mesh.ExecutionID, agent string) *Execution {
	t := s.Turn(id)
	if t == nil || agent != "" && agent != t.Agent || !s.MayRead(p) {
		return nil
	}
	return t
}

// Answers reports whether what the user says is said for the turn: by its own user, or
// by who may answer for all.
func (x *Execution) Answers(user string, roles []mesh.Role) bool {
	return x.User == user || mesh.Allow(roles, mesh.ActApproveAny)
}
