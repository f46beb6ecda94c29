package agenttest

import (
	"context"
	"slices"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// AddSkill adds the skill of a file.
func (n *Node) AddSkill(t *testing.T, source string) {
	t.Helper()
	s, err := skill.Parse("", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	n.Skills.Put(s)
}

// ListSkills gives pages that are smaller than asked for, as it may.
func (n *Node) ListSkills(_ context.Context, req *meshv1.ListSkillsRequest) (*meshv1.ListSkillsResponse, error) {
	const most = 40
	found := n.Skills.List()
	if q := req.GetQuery(); q != "" {
		found = n.Skills.Search(q)
	}
	found = slices.DeleteFunc(slices.Clone(found), func(s *skill.Skill) bool {
		return req.GetDomain() != "" && s.Domain != req.GetDomain() || len(req.GetPatterns()) > 0 && !matched(req.GetPatterns(), s.Name)
	})
	if at := slices.IndexFunc(found, func(s *skill.Skill) bool { return s.Name == req.GetPageToken() }); at >= 0 {
		found = found[at+1:]
	}
	res := &meshv1.ListSkillsResponse{}
	for i, s := range found {
		if i == most || i == int(req.GetPageSize()) {
			res.NextPageToken = found[i-1].Name
			break
		}
		p := toProto(s)
		if !req.GetWithSource() {
			p.Source, p.Body, p.InputSchema = "", "", ""
		}
		res.Skills = append(res.Skills, p)
	}
	return res, nil
}

func matched(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return mesh.SkillMatches(p, name) })
}

// ListSkillDomains implements the RPC.
func (n *Node) ListSkillDomains(_ context.Context, req *meshv1.ListSkillDomainsRequest) (*meshv1.ListSkillDomainsResponse, error) {
	res := &meshv1.ListSkillDomainsResponse{}
	for _, d := range n.Skills.MatchDomains(req.GetPatterns()) {
		res.Domains = append(res.Domains, &meshv1.SkillDomain{Name: d.Domain, Description: d.Description, Skills: int32(d.Skills), Body: d.Body})
	}
	return res, nil
}

// GetSkill implements the RPC.
func (n *Node) GetSkill(_ context.Context, req *meshv1.GetSkillRequest) (*meshv1.GetSkillResponse, error) {
	s, ok := n.Skills.Get(req.GetName())
	if !ok {
		return nil, mesh.Errorf(mesh.NotFound, "node", "There is no skill %s", req.GetName())
	}
	return &meshv1.GetSkillResponse{Skill: toProto(s)}, nil
}

// ValidateSkill implements the RPC.
func (n *Node) ValidateSkill(_ context.Context, req *meshv1.ValidateSkillRequest) (*meshv1.ValidateSkillResponse, error) {
	if p := n.fault(req.GetSource(), false); p != nil {
		return &meshv1.ValidateSkillResponse{Problems: []*meshv1.SkillProblem{p}}, nil
	}
	return &meshv1.ValidateSkillResponse{}, nil
}

func (n *Node) fault(source string, create bool) *meshv1.SkillProblem {
	if n.Faults == nil {
		return nil
	}
	return n.Faults(source, create)
}

// CreateSkill implements the RPC.
func (n *Node) CreateSkill(_ context.Context, req *meshv1.CreateSkillRequest) (*meshv1.CreateSkillResponse, error) {
	if p := n.fault(req.GetSource(), true); p != nil {
		return nil, mesh.InvalidField("node", "source."+p.GetField(), "%s", p.GetDetail())
	}
	s, err := skill.Parse("", []byte(req.GetSource()))
	if err != nil {
		return nil, err
	}
	n.Skills.Put(s)
	return &meshv1.CreateSkillResponse{Skill: toProto(s)}, nil
}

func toProto(s *skill.Skill) *meshv1.Skill {
	p := &meshv1.Skill{
		Name: s.Name, Description: s.Description, Tags: s.Tags, Access: s.Access, Handler: s.Handler, Source: string(s.Source), Path: s.Path,
		Body: s.Body, Version: s.Version, Confirm: s.Confirm, RequiresApproval: s.RequiresApproval, InputSchema: string(s.Schema),
	}
	for _, q := range s.Parameters {
		p.Parameters = append(p.Parameters, &meshv1.SkillParameter{
			Name: q.Name, Type: q.Type, Required: q.Required, Description: q.Description, Items: q.Items, Default: q.Default, Enum: q.Enum,
		})
	}
	return p
}
