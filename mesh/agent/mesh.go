package agent

import (
	"context"
	"math"
	"sync"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/thread"

	"google.golang.org/grpc"
)

// A Mesh is the mesh as one execution sees it: the node's services over gRPC,
// called under the execution's grant whatever identity the context has. It is
// safe for concurrent use. Its errors are those of the services.
type Mesh struct {
	conn     grpc.ClientConnInterface
	call     mesh.Call
	grant    *mesh.Grant
	threads  meshv1.ThreadServiceClient
	handoffs meshv1.HandoffServiceClient
	registry meshv1.RegistryServiceClient
	skills   meshv1.SkillServiceClient
	states   meshv1.StateServiceClient

	// writing serialises Record, so that events land in the order in which
	// they were recorded.
	writing    sync.Mutex
	reading    sync.Mutex
	tail       tail               // what was read so far; under reading, as all that is made of it
	begins     int                // where in it the transcript does
	transcript *thread.Transcript // nil if it cannot begin there yet
	actions    *thread.Actions    // use did
	// handOver sends what the run has said and is not sent yet, and counts the
	// artifact updates; nil outside of a run.
	handOver func() int64
}

// NewMesh returns the mesh as seen over conn, a connection of package rpc to
// the node, under the grant of the call.
func NewMesh(conn grpc.ClientConnInterface, call mesh.Call) (*Mesh, error) {
	g := call.Principal.Grant
	if g == nil {
		return nil, mesh.Errorf(mesh.Unauthenticated, "agent.NewMesh",
			"Agents are called under a grant; send metadata mesh-grant with the grant that the node issued")
	}
	// A cursor and extensions belong to the call that came, not to ours.
	call.AfterSeq, call.HasCursor, call.Extensions = 0, false, nil
	call.Thread, call.Execution, call.ParentTask = g.Thread, g.Execution, string(g.Parent)
	m := &Mesh{
		conn: conn, call: call, grant: g,
		threads:  meshv1.NewThreadServiceClient(conn),
		handoffs: meshv1.NewHandoffServiceClient(conn),
		registry: meshv1.NewRegistryServiceClient(conn),
		skills:   meshv1.NewSkillServiceClient(conn),
		states:   meshv1.NewStateServiceClient(conn),
	}
	m.tail.page = m.page
	return m, nil
}

// Conn returns the connection to the node, for services that Mesh has no
// method for. Calls over it need the identity of [Mesh.Context].
func (m *Mesh) Conn() grpc.ClientConnInterface { return m.conn }

// Context returns ctx with the identity of the execution.
func (m *Mesh) Context(ctx context.Context) context.Context { return mesh.WithCall(ctx, m.call) }

// Agents lists the agents that the tenant may see. A nil request lists all.
func (m *Mesh) Agents(ctx context.Context, req *meshv1.ListAgentsRequest) ([]*meshv1.Agent, error) {
	res, err := m.registry.ListAgents(m.Context(ctx), req)
	return res.GetAgents(), failed("agent.Agents", err)
}

// Skills lists all skills of the mesh by name, without their sources.
func (m *Mesh) Skills(ctx context.Context) ([]*meshv1.Skill, error) {
	skills, _, err := m.FindSkills(ctx, &meshv1.ListSkillsRequest{}, math.MaxInt)
	return skills, mesh.Wrap("agent.Skills", err)
}

// maxPage is the largest page of skills.
const maxPage = 1000

// FindSkills returns the skills that the request asks for, on however many
// pages they are, but at most that many, and whether there are more. Page size
// and token are filled in.
func (m *Mesh) FindSkills(ctx context.Context, req *meshv1.ListSkillsRequest, most int) (skills []*meshv1.Skill, more bool, err error) {
	for req.PageToken = ""; len(skills) < most; {
		req.PageSize = int32(min(most-len(skills), maxPage))
		res, err := m.skills.ListSkills(m.Context(ctx), req)
		if err != nil {
			return nil, false, failed("agent.FindSkills", err)
		}
		skills = append(skills, res.GetSkills()...)
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return skills, false, nil
		}
	}
	return skills, true, nil
}

// SkillDomains lists the domains that have skills which one of the patterns
// matches, by name.
func (m *Mesh) SkillDomains(ctx context.Context, patterns []string) ([]*meshv1.SkillDomain, error) {
	res, err := m.skills.ListSkillDomains(m.Context(ctx), &meshv1.ListSkillDomainsRequest{Patterns: patterns})
	return res.GetDomains(), failed("agent.SkillDomains", err)
}

// Skill returns one skill with its source.
func (m *Mesh) Skill(ctx context.Context, name string) (*meshv1.Skill, error) {
	res, err := m.skills.GetSkill(m.Context(ctx), &meshv1.GetSkillRequest{Name: name})
	return res.GetSkill(), failed("agent.Skill", err)
}

// ValidateSkill checks a skill file. It returns the problems that it has, or
// else the skill.
func (m *Mesh) ValidateSkill(ctx context.Context, source string) (*meshv1.Skill, []*meshv1.SkillProblem, error) {
	res, err := m.skills.ValidateSkill(m.Context(ctx), &meshv1.ValidateSkillRequest{Source: source})
	return res.GetSkill(), res.GetProblems(), failed("agent.ValidateSkill", err)
}

// CreateSkill writes a new skill file and offers the skill. The user needs the
// permission skill:create.
func (m *Mesh) CreateSkill(ctx context.Context, source string) (*meshv1.Skill, error) {
	res, err := m.skills.CreateSkill(m.Context(ctx), &meshv1.CreateSkillRequest{Source: source})
	return res.GetSkill(), failed("agent.CreateSkill", err)
}

// sent makes sure that what was said so far is on its way, and counts it.
func (m *Mesh) sent() int64 {
	if m.handOver == nil {
		return 0
	}
	return m.handOver()
}

// StartHandoff gives the user's stream to another agent, after all that the
// run has said so far. The thread is filled in. When it returns, the caller's run should end.
func (m *Mesh) StartHandoff(ctx context.Context, req *meshv1.StartHandoffRequest) (*meshv1.Handoff, error) {
	req.ThreadId, req.UpdatesSent = m.grant.Thread, m.sent()
	res, err := m.handoffs.StartHandoff(m.Context(ctx), req)
	return res.GetHandoff(), failed("agent.StartHandoff", err)
}

// EndHandoff gives control back, after all that the run has said so far. The
// thread is filled in.
func (m *Mesh) EndHandoff(ctx context.Context, req *meshv1.EndHandoffRequest) (*meshv1.Handoff, error) {
	req.ThreadId, req.UpdatesSent = m.grant.Thread, m.sent()
	res, err := m.handoffs.EndHandoff(m.Context(ctx), req)
	return res.GetHandoff(), failed("agent.EndHandoff", err)
}

// State returns the tenant's values of the kinds that the grant names.
func (m *Mesh) State() skill.State { return &state{m} }

// failed gives err, as a call returned it, the name of the operation.
func failed(op string, err error) error {
	return mesh.Wrap(op, rpc.FromStatus(err))
}
