package authz_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"agentmesh/mesh"
	"agentmesh/mesh/security/authz"
)

// served has the methods of all services that a node may serve, by reflection.
func served() (all []string) {
	for _, name := range []string{"lf.a2a.v1", "a2a.v1", "mesh.v1"} {
		protoregistry.GlobalFiles.RangeFilesByPackage(protoreflect.FullName(name), func(f protoreflect.FileDescriptor) bool {
			for s := range f.Services().Len() {
				service := f.Services().Get(s)
				for m := range service.Methods().Len() {
					all = append(all, "/"+string(service.FullName())+"/"+string(service.Methods().Get(m).Name()))
				}
			}
			return true
		})
	}
	return all
}

func TestEveryMethodHasARowAndEveryRowAMethod(t *testing.T) {
	all, table := served(), authz.Node()
	if err := table.Check(all); err != nil {
		t.Error(err)
	}
	for method := range table {
		if !slices.Contains(all, method) {
			t.Errorf("%s is no method", method)
		}
	}
	if len(all) < 50 {
		t.Errorf("%d methods were looked at", len(all))
	}
	if err := table.Check([]string{"/mesh.v1.NewService/Two", "/mesh.v1.NewService/One"}); err == nil || !strings.Contains(err.Error(), "One, /mesh") {
		t.Errorf("methods without a row: %v", err)
	}
	if err := table.Authorize(t.Context(), mesh.Principal{Roles: mesh.Roles()}, "/mesh.v1.NewService/One"); !mesh.IsCode(err, mesh.Denied) {
		t.Errorf("one of them is called: %v", err)
	}
}

// Whoever adds one to these says here why it needs no credential: who joins has a token
// of its own, and who renews a certificate, which the service asks for.
func TestFewMethodsAreOpen(t *testing.T) {
	want := []string{"/mesh.v1.IdentityService/JoinAgent", "/mesh.v1.IdentityService/RenewCertificate"}
	if got := authz.Node().Open(); !slices.Equal(got, want) {
		t.Errorf("open are %v", got)
	}
}

// may is what a caller may call, of all there is.
func may(p mesh.Principal) map[string]bool {
	out := map[string]bool{}
	for _, m := range authz.Node().Explain(p) {
		out[m[strings.LastIndex(m, "/")+1:]] = true
	}
	return out
}

// part of T6: what an agent may call under the grant of its work is listed here, and
// nothing else is, whatever the roles of its user are.
func TestUnderAGrantTheDefaultIsNo(t *testing.T) {
	allowed := []string{"GetThread", "ReadThread", "FollowThread", "AppendEvents", "EndHandoff", "GetHandoff", "GetAgent", "ListAgents",
		"WatchAgents", "ListSkills", "GetSkill", "ListSkillDomains", "WatchSkills", "ValidateSkill", "GetState", "PutState", "DeleteState", "ListState", "IssueTicket", "UploadBlob", "ReadBlob", "GetBlob"}
	for name, roles := range map[string][]mesh.Role{"nobody's": nil, "a user's": {mesh.RoleUser}, "the operator's": {mesh.RoleOperator}} {
		got, want := may(mesh.Principal{Grant: &mesh.Grant{Capabilities: mesh.CapabilitiesFor(mesh.Roles())}, Roles: roles}), slices.Clone(allowed)
		switch name { // what the user must be allowed, too
		case "the operator's":
			want = append(want, "StartHandoff", "CreateSkill")
		case "a user's":
			want = append(want, "StartHandoff")
		}
		for _, m := range want {
			if !got[m] {
				t.Errorf("under %s grant %s is refused", name, m)
			}
			delete(got, m)
		}
		for m := range got {
			t.Errorf("under %s grant %s may be called", name, m)
		}
	}
	bare := may(mesh.Principal{Grant: &mesh.Grant{}, Roles: mesh.Roles()})
	if bare["StartHandoff"] || bare["CreateSkill"] || len(bare) != len(allowed) {
		t.Errorf("under a grant without capabilities an agent may call %v", bare)
	}
	dry := may(mesh.Principal{Grant: &mesh.Grant{Dry: true, Capabilities: mesh.CapabilitiesFor(mesh.Roles())}, Roles: mesh.Roles()})
	for _, m := range []string{"StartHandoff", "EndHandoff", "CreateSkill", "PutState", "DeleteState"} {
		if dry[m] {
			t.Errorf("under a grant that is dry %s may be called", m)
		}
	}
	if !dry["AppendEvents"] || !dry["GetState"] || len(dry) != len(allowed)-3 {
		t.Errorf("under a grant that is dry an agent may call %v", dry)
	}
	err := authz.Node().Authorize(t.Context(), mesh.Principal{Roles: mesh.Roles()}, "/mesh.v1.StateService/PutState")
	if !mesh.IsCode(err, mesh.Unauthenticated) || mesh.FieldOf(err) != "mesh-grant" {
		t.Errorf("without a grant, what is for agents alone: %v", err)
	}
}

func TestRolesDecideWhatUsersMayCall(t *testing.T) {
	for role, tt := range map[mesh.Role]struct{ yes, no []string }{
		mesh.RoleViewer: {[]string{"GetTask", "SubscribeToTask", "TaskSubscription", "ListThreads", "FollowThread", "ListSkills", "ListAgents"},
			[]string{"SendMessage", "SendStreamingMessage", "CancelTask", "RunSkill", "EndHandoff", "CreateTaskPushNotificationConfig", "RegisterAgent", "DeleteThread"}},
		mesh.RoleUser: {[]string{"SendMessage", "CancelTask", "RunSkill", "EndHandoff", "CreateTaskPushNotificationConfig"},
			[]string{"RegisterAgent", "KeepAlive", "DeregisterAgent", "CreateSkill", "DeleteSkill", "ReloadSkills", "ResetBreaker", "DeleteThread", "AppendEvents", "PutState"}},
		mesh.RoleAgentPublisher: {[]string{"RegisterAgent", "KeepAlive", "DeregisterAgent", "ListAgents"}, []string{"SendMessage", "GetTask", "ReadThread"}},
		mesh.RoleSkillAuthor:    {[]string{"CreateSkill", "DeleteSkill", "ReloadSkills", "ResetBreaker"}, []string{"SendMessage", "RunSkill", "GetTask"}},
		mesh.RoleDeleter:        {[]string{"DeleteThread"}, []string{"ReadThread", "SendMessage"}},
		mesh.RoleAuditor:        {[]string{"ReadThread", "ListTasks"}, []string{"SendMessage", "CancelTask", "DeleteThread"}},
		mesh.RoleTenantAdmin:    {[]string{"SendMessage", "RegisterAgent", "CreateSkill", "DeleteThread"}, []string{"AppendEvents", "StartHandoff", "GetState"}},
	} {
		got := may(mesh.Principal{Roles: []mesh.Role{role}})
		for _, m := range tt.yes {
			if !got[m] {
				t.Errorf("%s may not call %s", role, m)
			}
		}
		for _, m := range tt.no {
			if got[m] {
				t.Errorf("%s may call %s", role, m)
			}
		}
	}
	err := authz.Node().Authorize(t.Context(), mesh.Principal{Roles: []mesh.Role{mesh.RoleViewer}}, "/mesh.v1.ThreadService/DeleteThread")
	if !mesh.IsCode(err, mesh.Denied) || !strings.Contains(mesh.DetailOf(err), "thread.delete, which these roles allow: operator, tenant-admin, thread-deleter") {
		t.Errorf("the refusal does not say what to ask for: %v", err)
	}
}
