package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/state"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// A probe calls one RPC about something of that name and returns what it learns.
type probe func(n *node, ctx context.Context, name, lease string) (proto.Message, error)

// probes has every RPC of these services.
var probes = map[string]struct {
	user string // of tenant globex
	call probe
}{
	"RegistryService/RegisterAgent": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		res, err := n.registry.RegisterAgent(ctx, &meshv1.RegisterAgentRequest{Name: name, Card: card("x"), Endpoint: "h:5"})
		return &meshv1.Agent{Name: res.GetAgent().GetName(), Live: res.GetAgent().GetLive(), Tenant: res.GetAgent().GetTenant()}, err
	}},
	"RegistryService/KeepAlive": {"bob", func(n *node, ctx context.Context, name, lease string) (proto.Message, error) {
		s, err := n.registry.KeepAlive(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.Send(&meshv1.KeepAliveRequest{Name: name, LeaseId: lease}); err != nil {
			return nil, err
		}
		return s.Recv()
	}},
	"RegistryService/DeregisterAgent": {"bob", func(n *node, ctx context.Context, name, lease string) (proto.Message, error) {
		res, byLease := n.registry.DeregisterAgent(ctx, &meshv1.DeregisterAgentRequest{Name: name, LeaseId: lease})
		_, without := n.registry.DeregisterAgent(ctx, &meshv1.DeregisterAgentRequest{Name: name})
		return res, errors.Join(byLease, without)
	}},
	"RegistryService/SetAgentCredentials": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.registry.SetAgentCredentials(ctx, &meshv1.SetAgentCredentialsRequest{Name: name, Credentials: []*meshv1.AgentCredential{{Scheme: "bearer", Value: "x"}}})
	}},
	"RegistryService/GetAgent": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.registry.GetAgent(ctx, &meshv1.GetAgentRequest{Name: name})
	}},
	"RegistryService/ListAgents": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.registry.ListAgents(ctx, &meshv1.ListAgentsRequest{Query: name})
	}},
	"RegistryService/WatchAgents": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		s, err := n.registry.WatchAgents(ctx, &meshv1.WatchAgentsRequest{})
		if err != nil {
			return nil, err
		}
		return s.Recv() // SYNCED if there is nothing to see
	}},
	"StateService/GetState": {"mailer-b", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.state.GetState(ctx, &meshv1.GetStateRequest{Kind: "mail", Key: name})
	}},
	"StateService/PutState": {"mailer-b", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		_, stale := n.state.PutState(ctx, &meshv1.PutStateRequest{Kind: "mail", Key: name, Version: 1})
		res, err := n.state.PutState(ctx, &meshv1.PutStateRequest{Kind: "mail", Key: name, Version: 0})
		if err == nil && stale == nil {
			return nil, errors.New("a version that is not there was replaced")
		}
		return res, err
	}},
	"StateService/DeleteState": {"mailer-b", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.state.DeleteState(ctx, &meshv1.DeleteStateRequest{Kind: "mail", Key: name, Version: -1})
	}},
	"StateService/ListState": {"mailer-b", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.state.ListState(ctx, &meshv1.ListStateRequest{Kind: "mail", Prefix: name})
	}},
	"SkillService/ListSkills": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.skills.ListSkills(ctx, &meshv1.ListSkillsRequest{Patterns: []string{"*", "workflows." + name}, WithSource: true})
	}},
	"SkillService/ListSkillDomains": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.skills.ListSkillDomains(ctx, &meshv1.ListSkillDomainsRequest{Patterns: []string{"mail.*", "workflows." + name}})
	}},
	"SkillService/GetSkill": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.skills.GetSkill(ctx, &meshv1.GetSkillRequest{Name: "workflows." + name, File: "notes.md"})
	}},
	"SkillService/CreateSkill": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		res, err := n.skills.CreateSkill(ctx, &meshv1.CreateSkillRequest{Source: template(name)})
		if err == nil {
			res.Skill.Version = "" // of its own text
		}
		return res, err
	}},
	"SkillService/ValidateSkill": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		res, err := n.skills.ValidateSkill(ctx, &meshv1.ValidateSkillRequest{Source: template(name)})
		if err == nil {
			res.Skill.Version = ""
		}
		return res, err
	}},
	"SkillService/DeleteSkill": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.skills.DeleteSkill(ctx, &meshv1.DeleteSkillRequest{Name: "workflows." + name})
	}},
	"SkillService/ReloadSkills": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.skills.ReloadSkills(ctx, &meshv1.ReloadSkillsRequest{})
	}},
	"SkillService/RunSkill": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.skills.RunSkill(ctx, &meshv1.RunSkillRequest{Name: "workflows." + name})
	}},
	"SkillService/ListSkillRuns": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.skills.ListSkillRuns(ctx, &meshv1.ListSkillRunsRequest{Name: "workflows." + name})
	}},
	"SkillService/ListBreakers": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		after := base64.RawURLEncoding.EncodeToString([]byte("workflows." + name[:len(name)-1]))
		return n.skills.ListBreakers(ctx, &meshv1.ListBreakersRequest{PageToken: after})
	}},
	"SkillService/ResetBreaker": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		return n.skills.ResetBreaker(ctx, &meshv1.ResetBreakerRequest{Name: "workflows." + name})
	}},
	"SkillService/WatchSkills": {"bob", func(n *node, ctx context.Context, name, _ string) (proto.Message, error) {
		s, err := n.skills.WatchSkills(ctx, &meshv1.WatchSkillsRequest{})
		all := &meshv1.ListSkillsResponse{}
		for err == nil {
			var res *meshv1.WatchSkillsResponse
			if res, err = s.Recv(); res.GetKind() == meshv1.WatchSkillsResponse_KIND_SYNCED {
				return all, nil
			}
			all.Skills = append(all.Skills, res.GetSkill())
		}
		return nil, err
	}},
}

// template is the file of a skill of that name.
func template(name string) string {
	return "---\nname: workflows." + name + "\ndescription: Does it.\n---\nDo it.\n"
}

// S4-052, S4-068: for every RPC, what belongs to another tenant is exactly as
// what does not exist, and comes to no harm.
func TestForeignIsUnknownToEveryRPC(t *testing.T) {
	for _, d := range []grpc.ServiceDesc{meshv1.RegistryService_ServiceDesc, meshv1.StateService_ServiceDesc, meshv1.SkillService_ServiceDesc} {
		service := strings.TrimPrefix(d.ServiceName, "mesh.v1.")
		for _, m := range d.Methods {
			if probes[service+"/"+m.MethodName].call == nil {
				t.Errorf("%s/%s has no case here", service, m.MethodName)
			}
		}
		for _, s := range d.Streams {
			if probes[service+"/"+s.StreamName].call == nil {
				t.Errorf("%s/%s has no case here", service, s.StreamName)
			}
		}
	}
	for name, tt := range probes {
		t.Run(name, func(t *testing.T) {
			n, lease := occupied(t)
			foreign := learn(t, n, tt.call, as(t, tt.user), "secret", lease)
			n, lease = occupied(t)
			unknown := learn(t, n, tt.call, as(t, tt.user), "absent", lease)
			if strings.ReplaceAll(foreign, "secret", "absent") != unknown {
				t.Errorf("of a foreign name a caller learns %s, of an unknown one %s", foreign, unknown)
			}
		})
	}
}

// occupied returns a node on which tenant acme has an agent, a value and a skill
// that are called "secret", the last one with an open circuit, a skill that nobody has read and a file that is
// broken, and the agent's lease.
func occupied(t *testing.T) (*node, string) {
	t.Helper()
	n := serve(t)
	reg, err := n.registry.RegisterAgent(as(t, "alice"), &meshv1.RegisterAgentRequest{Name: "secret", Card: card("x")})
	if err != nil {
		t.Fatal(err)
	}
	ctx := as(t, "mailer")
	if _, err := n.state.PutState(ctx, &meshv1.PutStateRequest{Kind: "mail", Key: "secret", Data: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.skills.CreateSkill(as(t, "alice"), &meshv1.CreateSkillRequest{Source: template("secret")}); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(n.tenants, "acme", "workflows", "unread.md"), template("unread"))
	writeFile(t, filepath.Join(n.tenants, "acme", "workflows", "broken.md"), "broken")
	n.circuit(t, "acme", "workflows.secret", `{"state":"open","failures":5,"opened_at":"2026-01-01T00:00:00Z"}`)
	t.Cleanup(func() {
		if v, err := n.kv.Get(context.Background(), state.Key{Tenant: "acme", Kind: "breaker", Name: "workflows.secret"}); err != nil || v.Version != 1 {
			t.Errorf("after the attempts the circuit is %s, %v", v.Data, err)
		}
		if sk, ok := n.library.For("acme").Get("workflows.secret"); !ok || string(sk.Source) != template("secret") {
			t.Errorf("after the attempts the skill is %+v", sk)
		}
		e, err := n.agents.Resolve("acme", "secret")
		if err != nil || e.Endpoint != "h:1" {
			t.Errorf("after the attempts the agent is %+v, %v", e, err)
		}
	})
	return n, reg.GetLeaseId()
}

// learn returns in text what the call tells its caller, and checks that the
// owner's things are as they were.
func learn(t *testing.T, n *node, call probe, ctx context.Context, name, lease string) string {
	t.Helper()
	res, err := call(n, ctx, name, lease)
	v, verr := n.state.GetState(as(t, "mailer"), &meshv1.GetStateRequest{Kind: "mail", Key: "secret"})
	if verr != nil || string(v.GetValue().GetData()) != "v" || v.GetValue().GetVersion() != 1 {
		t.Errorf("the owner's value is now %v, %v", v, verr)
	}
	if err != nil {
		return fmt.Sprintf("%v: %v", mesh.CodeOf(err), err)
	}
	if text := fmt.Sprint(res); strings.Contains(text, "unread") || strings.Contains(text, "workflows/broken.md") {
		t.Errorf("another tenant's files are told of: %s", text)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%q", data)
}

func TestNobodyIsServedWithoutAnIdentity(t *testing.T) {
	n := serve(t)
	// Without the interceptors, no Call is in the context.
	_, err := NewRegistry(n.agents, nil).ListAgents(t.Context(), &meshv1.ListAgentsRequest{})
	wantCode(t, err, mesh.Unknown)
	_, err = NewState(n.kv, nil).GetState(t.Context(), &meshv1.GetStateRequest{Kind: "mail", Key: "k"})
	wantCode(t, err, mesh.Unknown)
	_, err = NewSkills(n.library, n.runner).ListSkills(t.Context(), &meshv1.ListSkillsRequest{})
	wantCode(t, err, mesh.Unknown)
	// An open method's Call has no tenant.
	ctx := mesh.WithCall(t.Context(), mesh.Call{})
	_, err = NewSkills(n.library, n.runner).ListSkills(ctx, &meshv1.ListSkillsRequest{})
	wantCode(t, err, mesh.Invalid, "tenant-id")

	stream, err := n.registry.WatchAgents(as(t, "nobody"), &meshv1.WatchAgentsRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		t.Fatal("a stream of nobody ended well")
	}
	wantCode(t, err, mesh.Unauthenticated)
}
