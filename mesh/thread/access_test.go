package thread_test

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// Whose a thread is follows from its log alone: the first task's user owns it, and the
// last word on who shares it counts.
func TestWhoMayDoWhatWithAThread(t *testing.T) {
	open := func(id, user string) *mesh.Event {
		return &mesh.Event{Execution: mesh.ExecutionID(id), Body: mesh.TaskOpened{Execution: mesh.Execution{ID: mesh.ExecutionID(id), Kind: mesh.KindTurn, User: user}}}
	}
	share := func(readable bool, users ...string) *mesh.Event {
		return &mesh.Event{Body: mesh.ThreadShared{Readable: readable, Participants: users}}
	}
	type may struct{ read, part, cancel, share bool }
	none, all := may{}, may{true, true, true, true}
	takesPart := may{read: true, part: true, cancel: true}
	for name, tt := range map[string]struct {
		log  []*mesh.Event
		who  mesh.Principal
		want may
	}{
		"the owner":                 {nil, mesh.Principal{User: "ann"}, all},
		"a colleague":               {nil, mesh.Principal{User: "eve", Roles: []mesh.Role{mesh.RoleUser, mesh.RoleSkillAuthor}}, none},
		"who opened a later task":   {[]*mesh.Event{open("t2", "eve")}, mesh.Principal{User: "eve"}, none},
		"a participant":             {[]*mesh.Event{share(false, "bob", "eve")}, mesh.Principal{User: "eve"}, takesPart},
		"one who was":               {[]*mesh.Event{share(false, "eve"), share(false, "bob")}, mesh.Principal{User: "eve"}, none},
		"anybody, of an open one":   {[]*mesh.Event{share(true)}, mesh.Principal{User: "eve"}, may{read: true}},
		"anybody, of a closed one":  {[]*mesh.Event{share(true), share(false)}, mesh.Principal{User: "eve"}, none},
		"a reader":                  {nil, mesh.Principal{User: "eve", Roles: []mesh.Role{mesh.RoleReader}}, may{read: true}},
		"an approver":               {nil, mesh.Principal{User: "eve", Roles: []mesh.Role{mesh.RoleApprover}}, may{read: true}},
		"the tenant's admin":        {nil, mesh.Principal{User: "eve", Roles: []mesh.Role{mesh.RoleTenantAdmin}}, all},
		"the operator":              {nil, mesh.Principal{User: "eve", Roles: []mesh.Role{mesh.RoleOperator}}, all},
		"an agent under its grant":  {nil, mesh.Principal{User: "eve", Grant: &mesh.Grant{}}, may{read: true}},
		"nobody, who has no name":   {nil, mesh.Principal{}, none},
		"one of the owner's tokens": {nil, mesh.Principal{User: "ann", Roles: []mesh.Role{mesh.RoleViewer}}, all},
	} {
		s := thread.Fold(append([]*mesh.Event{open("t1", "ann")}, tt.log...))
		if got := (may{s.MayRead(tt.who), s.TakesPart(tt.who), s.MayCancel(tt.who), s.MayShare(tt.who)}); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	if a := thread.Fold(nil); a.Owner != "" || a.TakesPart(mesh.Principal{User: "ann"}) {
		t.Error("an empty thread is somebody's")
	}
}
