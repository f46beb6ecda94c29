package skills_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/api"
	"agentmesh/mesh/skill"
)

// S3-054, S3-135: the skills that prompts speak of are there, with read or
// write access as their verbs say.
func TestFS_hasTheSkillsOfEachDomain(t *testing.T) {
	c := load(t)
	domains := map[string]string{
		"mail": "send search read draft move save", "tasks": "create search get update delete archive",
		"calendar": "create list update", "files": "list read search write update", "markdown": "create read edit search",
		"memory": "save search settings", "knowledge": "search", "system": "build_skill", "workflow": "build",
	}
	for domain, actions := range domains {
		if n := len(c.InDomain(domain)); n != len(strings.Fields(actions)) {
			t.Errorf("%s has %d skills, and not %s", domain, n, actions)
		}
		for action := range strings.FieldsSeq(actions) {
			s, ok := c.Get(domain + "." + action)
			if !ok {
				t.Errorf("there is no %s.%s", domain, action)
			} else if s.Access != skill.DefaultAccess(action) || s.RequiresApproval || s.Confirm != "" {
				t.Errorf("%s has access %q and asks %q", s.Name, s.Access, s.Confirm)
			}
		}
	}
}

// S3-089: the common commands have the flags of the quick reference.
func TestFS_hasTheFlagsOfTheQuickReference(t *testing.T) {
	c := load(t)
	for name, flags := range map[string]string{
		"tasks.create": "title due priority tags", "tasks.search": "query status limit", "tasks.get": "task_id task_ids recent limit",
		"mail.send": "to subject body", "mail.search": "query from limit", "calendar.create": "title start end attendees",
		"memory.save": "content tags category importance", "memory.search": "query tags category limit",
	} {
		s, ok := c.Get(name)
		for flag := range strings.FieldsSeq(flags) {
			if !ok || !slices.ContainsFunc(s.Parameters, func(p skill.Parameter) bool { return p.Name == flag }) {
				t.Errorf("%s has no flag --%s", name, flag)
			}
		}
	}
}

// shipped is the skills of a mesh that has those of [skills.FS] alone.
type shipped struct {
	api.Skills
	catalog *skill.Catalog
}

func (s shipped) For(mesh.TenantID) *skill.Catalog       { return s.catalog }
func (s shipped) Problems(mesh.TenantID) []skill.Problem { return nil }

// inProcess is a connection to the service of these skills without a network.
type inProcess struct {
	grpc.ClientConnInterface
	service *api.SkillService
}

func (c inProcess) Invoke(ctx context.Context, method string, req, res any, _ ...grpc.CallOption) error {
	for _, m := range meshv1.SkillService_ServiceDesc.Methods {
		if !strings.HasSuffix(method, "/"+m.MethodName) {
			continue
		}
		answer, err := m.Handler(c.service, ctx, func(to any) error {
			proto.Merge(to.(proto.Message), req.(proto.Message))
			return nil
		}, nil)
		if err == nil {
			proto.Merge(res.(proto.Message), answer.(proto.Message))
		}
		return err
	}
	return fmt.Errorf("%s is not served", method)
}

// S3-089, S3-054: what a model is told of the shipped skills where it has to
// look them up: all domains with their skills, and the quick reference of
// exactly these eight commands with their flags, in this order.
func TestFS_isInThePromptWithAQuickReference(t *testing.T) {
	g := &mesh.Grant{Tenant: mesh.DefaultTenant, User: "ann", Thread: "t", Execution: "e", Skills: []string{"*"}}
	call := mesh.Call{Principal: mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g}}
	m, err := meshclient.New(inProcess{service: api.NewSkills(shipped{catalog: load(t)}, nil)}, call)
	if err != nil {
		t.Fatal(err)
	}
	inv := &agent.Invocation{Execution: g.Execution, Thread: g.Key(), User: g.User, Grant: g, Mesh: m}
	tools, err := skilltools.New(t.Context(), inv, skilltools.Options{Face: skilltools.FaceCommands, Discovery: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tools.Wait()
	_, prompt := tools.Prompt()
	for _, domain := range []string{
		"(create, list, update)", "(list, read, search, update, write)", "(search)", "(draft, move, read, save, search, send)", "(create, edit, read, search)",
		"(save, search, settings)", "(build_skill)", "(archive, create, delete, get, search, update)", "(build)",
	} {
		if !strings.Contains(prompt, domain+"\n") {
			t.Errorf("no domain has the skills %s in\n%s", domain, prompt)
		}
	}
	_, reference, _ := strings.Cut(prompt, "\nThe commands that are used most:\n\n")
	var names []string
	for line := range strings.Lines(reference) {
		name, flags, _ := strings.Cut(strings.TrimSpace(line), " ")
		if names = append(names, name); !strings.Contains(flags, "--") {
			t.Errorf("%s is told without its flags", name)
		}
	}
	want := []string{"tasks.create", "tasks.search", "tasks.get", "mail.send", "mail.search", "calendar.create", "memory.save", "memory.search"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if want := "\n    mail.send --to <array> [--cc <array>] --subject <string> --body <string> [--attach <array>]\n"; !strings.Contains(reference, want) {
		t.Errorf("%q is not in\n%s", want, reference)
	}
}
