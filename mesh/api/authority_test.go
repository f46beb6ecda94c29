package api

import (
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/security/authz"
)

// part of T6: under a grant whose execution is over, or is none of its thread's, nothing
// is called but what settles what had begun; of others, all that their grants allow.
func TestADeadGrantStartsNothing(t *testing.T) {
	l := newLibrary(t)
	turn := l.post(t)
	ended, works := l.run(t, turn, "mailer", "*"), l.run(t, turn, "writer", "*")
	for _, g := range []*mesh.Grant{ended, works} {
		g.Capabilities = mesh.CapabilitiesFor(mesh.Roles())
	}
	gone := *works
	gone.Execution = mesh.NewExecutionID(l.key.ID)
	if err := l.decide(t.Context(), &mesh.Event{Execution: ended.Execution, Body: mesh.TaskMoved{State: completed}}); err != nil {
		t.Fatal(err)
	}
	a := Authority{Table: authz.Node(), States: l.states, Holders: anybody{}}
	tried := 0
	for method, rule := range a.Table {
		as := func(g *mesh.Grant) mesh.Principal {
			return mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g}
		}
		want := a.Table.Authorize(t.Context(), as(works), method)
		if _, err := a.Authorize(t.Context(), as(works), method, nil); (err == nil) != (want == nil) {
			t.Errorf("%s by one that works: %v, want %v", method, err, want)
		}
		if want != nil {
			continue
		}
		tried++
		for g, code := range map[*mesh.Grant]mesh.Code{ended: mesh.Precondition, &gone: mesh.NotFound} {
			if _, err := a.Authorize(t.Context(), as(g), method, nil); rule.Settles && err != nil || !rule.Settles && !mesh.IsCode(err, code) {
				t.Errorf("%s under the grant of %s: %v", method, g.Execution, err)
			}
		}
	}
	if tried < 15 {
		t.Errorf("%d methods were tried", tried)
	}
	if _, err := a.Authorize(t.Context(), mesh.Principal{Tenant: "acme", User: "ann", Roles: []mesh.Role{mesh.RoleUser}}, "/mesh.v1.ThreadService/ReadThread", nil); err != nil {
		t.Errorf("a user reads: %v", err)
	}
}

type anybody struct{}

func (anybody) Holds(mesh.TenantID, string, string) bool { return true }

// Whoever adds one to these says here why its calls name nothing: all files of skills are
// read again; of threads that are deleted together, each has a record of its own; and a
// backup is of all.
var namesNothing = []string{meshv1.SkillService_ReloadSkills_FullMethodName, meshv1.ThreadService_DeleteThreads_FullMethodName, meshv1.NodeService_BackupData_FullMethodName, meshv1.NodeService_ExportTenant_FullMethodName, meshv1.NodeService_ImportTenant_FullMethodName}

// finding T9: the record of an administrative call names what it was about also where it is
// refused, so by the request; and no row of the table names a field that is not there.
func TestEveryActIsNamedByItsRequest(t *testing.T) {
	acts := 0
	for method, rule := range authz.Node() {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(method[1:], "/", ".")))
		if err != nil {
			t.Fatal(err)
		}
		req := dynamicpb.NewMessage(d.(protoreflect.MethodDescriptor).Input())
		if method == meshv1.SkillService_CreateSkill_FullMethodName {
			continue
		}
		fill(req, rule.Resource, "a name")
		named := Named(req, rule.Resource) == "a name"
		if rule.Audit {
			acts++
		}
		if wanted := rule.Resource != "" || rule.Audit && !slices.Contains(namesNothing, method); named != wanted {
			t.Errorf("%s: named by %q is %v, want %v", method, rule.Resource, named, wanted)
		}
	}
	if acts < 8 {
		t.Errorf("%d acts were looked at", acts)
	}
	path := authz.Node()[meshv1.SkillService_CreateSkill_FullMethodName].Resource
	for source, want := range map[string]string{alert: "workflows.slack_alert", "no skill": "", "": ""} {
		if got := Named(&meshv1.CreateSkillRequest{Source: source}, path); got != want {
			t.Errorf("a skill to be created is named %q, want %q", got, want)
		}
	}
	card := &meshv1.RegisterAgentRequest{Card: &a2apb.AgentCard{Name: "The Helper"}}
	if got := Named(card, "name"); got != "the-helper" {
		t.Errorf("an agent with a name from its card is named %q", got)
	}
	if got := Named(&meshv1.CreateSkillResponse{Skill: &meshv1.Skill{Name: "a.b"}}, path); got != "a.b" {
		t.Errorf("a skill that was created is named %q", got)
	}
}

// fill sets the text at the path, as far as there is one.
func fill(m protoreflect.Message, path, to string) {
	name, rest, more := strings.Cut(path, ".")
	switch f := m.Descriptor().Fields().ByName(protoreflect.Name(name)); {
	case f == nil:
	case more && f.Kind() == protoreflect.MessageKind:
		fill(m.Mutable(f).Message(), rest, to)
	case !more && f.Kind() == protoreflect.StringKind:
		m.Set(f, protoreflect.ValueOfString(to))
	}
}
