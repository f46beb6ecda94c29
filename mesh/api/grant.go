package api

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog/eventpb"
)

// Grants serves mesh.v1.GrantService: agents redeem their tickets, and have new ones for
// what they dispatched.
type Grants struct {
	meshv1.UnimplementedGrantServiceServer
	States  *cache.States
	Admits  *admission.Controller
	Tickets Tickets
}

// Tickets makes tickets for grants, and permits for calls.
type Tickets struct {
	Signer *grant.Signer
	Agents *registry.Registry
	// Local reports whether a call comes from this process, where nothing need be signed;
	// nil for none.
	Local func(ctx context.Context) bool
}

// Permit returns the permit for a call that was taken from the holder of the grant.
func (t Tickets) Permit(ctx context.Context, g *mesh.Grant, c mesh.SkillCalled) string {
	return t.Signer.Permit(grant.Claims{Holder: g.Holder, Agent: g.Agent, Execution: g.Execution, Call: c.Call, Skill: c.Skill, Version: c.Version,
		What: mesh.CallDigest(c.Skill, c.Version, c.Args), Expires: time.Now().Add(grant.PermitTime).Unix()}, t.Local != nil && t.Local(ctx))
}

// Make returns a ticket for the grant, whose agent is found by its name.
func (t Tickets) Make(g mesh.Grant) string {
	g.Holder = g.Tenant
	if e, err := t.Agents.Get(g.Tenant, g.Agent); err == nil {
		g.Holder = e.Tenant
	}
	return t.Signer.Ticket(g, time.Now())
}

// RedeemTicket implements the RPC. That the caller holds the ticket, and that its
// execution is at work, the [Authority] has seen.
func (s *Grants) RedeemTicket(ctx context.Context, _ *meshv1.RedeemTicketRequest) (*meshv1.RedeemTicketResponse, error) {
	g, err := grantOf(ctx, "api.RedeemTicket")
	if err != nil {
		return nil, err
	}
	res := &meshv1.RedeemTicketResponse{
		Grant: s.Tickets.Signer.Issue(*g), Expires: timestamppb.New(time.Unix(g.Expires, 0)), ExecutionId: string(g.Execution),
		ThreadId: g.Thread, UserId: g.User, Skills: g.Skills, Depth: int32(g.Depth), Budget: eventpb.BudgetToProto(g.Budget), Dry: g.Dry,
	}
	for _, c := range g.Capabilities {
		res.Capabilities = append(res.Capabilities, string(c))
	}
	res.Instructions, err = instructions(ctx, s.States, g)
	return res, mesh.Wrap("api.RedeemTicket", err)
}

// IssueTicket implements the RPC. It issues tickets for what is over, too: they cannot be
// redeemed, and its agent is told with one to end it.
func (s *Grants) IssueTicket(ctx context.Context, req *meshv1.IssueTicketRequest) (*meshv1.IssueTicketResponse, error) {
	const op = "api.IssueTicket"
	g, err := grantOf(ctx, op)
	if err != nil {
		return nil, err
	}
	var child mesh.Grant
	err = s.States.With(ctx, g.Key(), func(st *thread.State) error {
		x := st.Execution(mesh.ExecutionID(req.GetExecutionId()))
		if x == nil || x.Parent != g.Execution || x.Issued == 0 {
			return &mesh.Error{Code: mesh.NotFound, Op: op, Field: "execution_id", Detail: "is no execution that this one dispatched"}
		}
		child, err = s.Admits.ChildGrant(g, x)
		return mesh.Wrap(op, err)
	})
	if err != nil {
		return nil, err
	}
	return &meshv1.IssueTicketResponse{Ticket: s.Tickets.Make(child)}, nil
}
