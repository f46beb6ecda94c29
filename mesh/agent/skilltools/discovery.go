package skilltools

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
)

// GetSkill is the name of the tool that finds skills.
const GetSkill = command.GetSkill

// Discovery returns the tool get_skill, by which a model finds the skills that
// the execution may grant to others. See [command.Discover] for its answers. Its
// definition names the domains that there are now, and stays the same, byte by
// byte, for the execution: a domain that is new is in the answers at once, and in
// the definition from the next execution on.
func Discovery(ctx context.Context, inv *agent.Invocation) (llm.Tools, error) {
	d := discovery{catalog: remote{mesh: inv.Mesh, scope: inv.Grant.Skills}}
	domains, err := d.catalog.Domains(ctx)
	if err != nil {
		return nil, mesh.Wrap("skilltools.Discovery", err)
	}
	d.tool = getSkill(domains)
	return d, nil
}

// getSkill defines the tool. Domains beyond maxDomains are found by searching.
func getSkill(domains []skill.Index) llm.Tool {
	if len(domains) > maxDomains {
		domains = nil
	}
	description, parameters := command.Definition(domains)
	return llm.Tool{Name: GetSkill, Description: description, Parameters: parameters}
}

type discovery struct {
	catalog remote
	tool    llm.Tool
}

func (d discovery) List(context.Context) []llm.Tool { return []llm.Tool{d.tool} }

// Discovers implements llm.Discoverer: get_skill runs before the calls that
// use what it finds.
func (d discovery) Discovers(name string) bool { return name == GetSkill }

func (d discovery) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	return discover(ctx, d.catalog, use)
}

// discover answers the JSON tool get_skill.
func discover(ctx context.Context, c command.Catalog, use mesh.ToolUse) llm.ToolResult {
	var q command.Query
	if err := json.Unmarshal([]byte(use.Arguments), &q); err != nil {
		return failedTool(mesh.CauseInvalid, text.GiveGetSkill())
	}
	return plainResult(command.Discover(ctx, c, q))
}

// remote is the mesh's catalog as far as the patterns include it, and the access
// is read if it is to be.
type remote struct {
	mesh     *meshclient.Client
	scope    []string
	readOnly bool
}

// readable refuses a skill that only others may run.
func (r remote) readable(s *skill.Skill) error {
	if !r.readOnly || s.Access == skill.AccessRead {
		return nil
	}
	return mesh.Errorf(mesh.Denied, "skilltools.Skill",
		"its access is %s, and this agent itself runs only skills with the access read; have another agent do it", cmp.Or(s.Access, skill.AccessWrite))
}

// Bounds of what is looked at to answer one question: skills that a search
// finds, skills of a domain, and skills of which those that read are picked.
const (
	maxFound  = 50
	maxShown  = 1000
	maxPicked = 10_000
)

// Domains implements [command.Catalog].
func (r remote) Domains(ctx context.Context) ([]skill.Index, error) {
	if len(r.scope) == 0 {
		return nil, nil
	}
	found, err := r.mesh.SkillDomains(ctx, r.scope)
	if err != nil {
		return nil, err
	}
	all := indexes(found)
	if !r.readOnly {
		return all, nil
	}
	readable, _, err := r.find(ctx, &meshv1.ListSkillsRequest{Patterns: r.scope}, maxPicked)
	if err != nil {
		return nil, err
	}
	count := map[string]int{}
	for _, s := range readable {
		count[s.Domain]++
	}
	for i := range all {
		all[i].Skills = count[all[i].Domain]
	}
	return slices.DeleteFunc(all, func(d skill.Index) bool { return d.Skills == 0 }), nil
}

func indexes(found []*meshv1.SkillDomain) []skill.Index {
	out := make([]skill.Index, len(found))
	for i, d := range found {
		out[i] = skill.Index{Domain: d.GetName(), Description: d.GetDescription(), Body: d.GetBody(), Skills: int(d.GetSkills())}
	}
	return out
}

// List implements [command.Catalog].
func (r remote) List(ctx context.Context, domain string) ([]*skill.Skill, error) {
	found, _, err := r.find(ctx, &meshv1.ListSkillsRequest{Domain: domain, Patterns: r.scope, WithSource: true}, maxShown)
	return found, err
}

// Get implements [command.Catalog]: a skill out of scope is one that is not
// there.
func (r remote) Get(ctx context.Context, name string) (*skill.Skill, error) {
	if !slices.ContainsFunc(r.scope, func(p string) bool { return mesh.SkillMatches(p, name) }) {
		return nil, mesh.Errorf(mesh.NotFound, "skilltools.Skill", "There is no such skill; look for it with get_skill")
	}
	s, err := r.mesh.Skill(ctx, name)
	if err != nil {
		return nil, err
	}
	found := SkillOf(s)
	if err := r.readable(found); err != nil {
		return nil, err
	}
	return found, nil
}

// Search implements [command.Catalog].
func (r remote) Search(ctx context.Context, query string) ([]*skill.Skill, error) {
	found, _, err := r.find(ctx, &meshv1.ListSkillsRequest{Query: query, Patterns: r.scope, WithSource: true}, maxFound)
	return found, err
}

// find returns what the mesh lists, at most that many, and whether there is
// more.
func (r remote) find(ctx context.Context, req *meshv1.ListSkillsRequest, most int) (found []*skill.Skill, more bool, err error) {
	if len(r.scope) == 0 {
		return nil, false, nil
	}
	look := most
	if r.readOnly { // the mesh lists skills of both kinds
		look = max(most, maxPicked)
	}
	list, more, err := r.mesh.FindSkills(ctx, req, look)
	if err != nil {
		return nil, false, err
	}
	found = make([]*skill.Skill, 0, min(len(list), most))
	for _, p := range list {
		if r.readOnly && p.GetAccess() != skill.AccessRead {
			continue
		}
		if len(found) == most {
			return found, true, nil
		}
		found = append(found, SkillOf(p))
	}
	return found, more, nil
}

// SkillOf returns the skill as the mesh tells of it.
func SkillOf(s *meshv1.Skill) *skill.Skill {
	domain, action, _ := strings.Cut(s.GetName(), ".")
	out := &skill.Skill{
		Name: s.GetName(), Domain: domain, Action: action, Description: s.GetDescription(), Handler: s.GetHandler(),
		Schedule: s.GetSchedule(), Timezone: s.GetTimezone(), Confirm: s.GetConfirm(), RequiresApproval: s.GetRequiresApproval(),
		Access: s.GetAccess(), Tags: s.GetTags(), Body: s.GetBody(), Path: s.GetPath(), Source: []byte(s.GetSource()),
		Version: s.GetVersion(), Files: s.GetFiles(), Tenant: mesh.TenantID(s.GetTenant()),
	}
	if schema := s.GetInputSchema(); schema != "" {
		out.Schema = json.RawMessage(schema)
	}
	if schema := s.GetOutputSchema(); schema != "" {
		out.Output = json.RawMessage(schema)
	}
	for _, p := range s.GetParameters() {
		out.Parameters = append(out.Parameters, skill.Parameter{
			Name: p.GetName(), Type: p.GetType(), Required: p.GetRequired(), Description: p.GetDescription(),
			Items: p.GetItems(), Default: p.GetDefault(), Enum: p.GetEnum(),
		})
	}
	return out
}
