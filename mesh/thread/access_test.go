package thread_test

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

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

// part of T3: a task that waits for its user waits for the new owner when the conversation
// is given away, who lends it nobody's rights; one that does not wait stays whose it was.
func TestWhatWaitsForTheOwnerWaitsForTheNewOne(t *testing.T) {
	open := func(id, user string) *mesh.Event {
		return &mesh.Event{Execution: mesh.ExecutionID(id), Body: mesh.TaskOpened{Execution: mesh.Execution{ID: mesh.ExecutionID(id), Kind: mesh.KindTurn, User: user}}}
	}
	below := func(turn, id, user string) *mesh.Event {
		return &mesh.Event{Execution: mesh.ExecutionID(turn), Body: mesh.DispatchIssued{Child: mesh.Execution{ID: mesh.ExecutionID(id), Parent: mesh.ExecutionID(turn), Kind: mesh.KindAgent, Agent: "x", User: user}}}
	}
	move := func(id string, state mesh.TaskState) *mesh.Event {
		return &mesh.Event{Execution: mesh.ExecutionID(id), Body: mesh.TaskMoved{State: state}}
	}
	posted := func(id, user string, roles ...mesh.Role) *mesh.Event {
		return &mesh.Event{Execution: mesh.ExecutionID(id), Body: mesh.MessagePosted{User: user, Roles: roles, Message: &a2apb.Message{MessageId: id + user}}}
	}
	const asks, works, done = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_WORKING, a2apb.TaskState_TASK_STATE_COMPLETED
	log := []*mesh.Event{
		open("waits", "ann"), posted("waits", "ann", mesh.RoleOperator), below("waits", "child", "ann"), move("waits", asks),
		open("works", "ann"), posted("works", "ann", mesh.RoleOperator), move("works", works),
		open("over", "ann"), below("over", "ended", "ann"), move("ended", done), move("over", done),
		open("eve's", "eve"), posted("eve's", "eve", mesh.RoleUser), move("eve's", asks),
		{Body: mesh.ThreadShared{Participants: []string{"eve"}}},
		{Body: mesh.ThreadShared{Participants: []string{"eve"}, Owner: "bob"}},
	}
	for i, e := range log {
		e.Seq = mesh.Seq(i + 1)
	}
	s := thread.Fold(log)
	for id, want := range map[mesh.ExecutionID]string{"waits": "bob", "child": "bob", "works": "ann", "over": "ann", "ended": "ann", "eve's": "eve"} {
		if x := s.Execution(id); x.User != want {
			t.Errorf("%s is %s's, want %s's", id, x.User, want)
		}
	}
	if got := s.Turn("waits"); len(got.Roles) != 0 || got.Answers("ann", nil) || !got.Answers("bob", nil) {
		t.Errorf("it goes on with the roles %v, and ann answers: %t", got.Roles, got.Answers("ann", nil))
	}
	if got := s.Turn("works").Roles; len(got) != 1 {
		t.Errorf("one that works has the roles %v", got)
	}
	answer := posted("waits", "bob", mesh.RoleUser)
	answer.Seq = s.Seq + 1
	if s.Apply(answer); len(s.Turn("waits").Roles) != 1 || s.Turn("waits").Roles[0] != mesh.RoleUser {
		t.Errorf("after its new user's answer it has the roles %v", s.Turn("waits").Roles)
	}
}
