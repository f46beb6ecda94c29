package api

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

// Handoffs serves HandoffService. Use NewHandoffs.
type Handoffs struct {
	meshv1.UnimplementedHandoffServiceServer
	handoffs   *handoff.Handoffs
	readByRole ReadByRole
}

// NewHandoffs returns the server of the handoffs.
func NewHandoffs(h *handoff.Handoffs) *Handoffs {
	return &Handoffs{handoffs: h, readByRole: nobodyTold}
}

// WithAudit has f told of each thread whose handoff somebody reads because a role allows it.
// It returns s, and is called before s serves.
func (s *Handoffs) WithAudit(f ReadByRole) *Handoffs {
	s.readByRole = f
	return s
}

// StartHandoff implements meshv1.HandoffServiceServer.
func (s *Handoffs) StartHandoff(ctx context.Context, req *meshv1.StartHandoffRequest) (*meshv1.StartHandoffResponse, error) {
	const op = "api.StartHandoff"
	g, err := grantOf(ctx, op)
	if err != nil {
		return nil, err
	}
	key, _, err := keyFor(ctx, op, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	start := handoff.Start{
		Target: req.GetTargetAgent(), Reason: req.GetReason(), Summary: req.GetContextSummary(),
		PreserveState: true, ReturnExpected: true, UpdatesSent: req.GetUpdatesSent(), Resume: req.GetResume(),
	}
	if req.RecentMessages != nil {
		start.RecentMessages = new(int(*req.RecentMessages))
	}
	if req.PreserveState != nil {
		start.PreserveState = *req.PreserveState
	}
	if req.ReturnExpected != nil {
		start.ReturnExpected = *req.ReturnExpected
	}
	h, err := s.handoffs.Start(ctx, g, start)
	if err != nil {
		return nil, err
	}
	return &meshv1.StartHandoffResponse{Handoff: handoffToProto(key, h)}, nil
}

// EndHandoff implements meshv1.HandoffServiceServer.
func (s *Handoffs) EndHandoff(ctx context.Context, req *meshv1.EndHandoffRequest) (*meshv1.EndHandoffResponse, error) {
	key, call, err := keyFor(ctx, "api.EndHandoff", req.GetThreadId())
	if err != nil {
		return nil, err
	}
	h, err := s.handoffs.End(ctx, key, call.Principal, handoff.End{
		Outcome: mesh.HandoffOutcome(req.GetOutcome()), Summary: req.GetSummary(), Artifacts: req.GetArtifactIds(), UpdatesSent: req.GetUpdatesSent(),
	})
	if err != nil {
		return nil, err
	}
	return &meshv1.EndHandoffResponse{Handoff: handoffToProto(key, h)}, nil
}

// GetHandoff implements meshv1.HandoffServiceServer.
func (s *Handoffs) GetHandoff(ctx context.Context, req *meshv1.GetHandoffRequest) (*meshv1.GetHandoffResponse, error) {
	key, call, err := keyFor(ctx, "api.GetHandoff", req.GetThreadId())
	if err != nil {
		return nil, err
	}
	h, byRole, err := s.handoffs.Get(ctx, key, call.Principal)
	if err != nil {
		return nil, err
	}
	if byRole {
		s.readByRole(ctx, key.ID)
	}
	resp := &meshv1.GetHandoffResponse{}
	if h != nil {
		resp.Handoff = handoffToProto(key, h)
	}
	return resp, nil
}

func handoffToProto(key mesh.ThreadKey, h *thread.Handoff) *meshv1.Handoff {
	out := &meshv1.Handoff{
		Seq: int64(h.Seq), ThreadId: key.ID, TenantId: string(key.Tenant), UserId: h.By,
		SourceAgentId: h.From, TargetAgentId: h.To, HandoffReason: h.Reason, ContextSummary: h.Summary,
		ConversationHistoryCount: int32(h.Along), PreserveState: h.PreserveState, ReturnExpected: h.ReturnExpected,
		State: string(h.State), EndedSeq: int64(h.Ended), ResultSummary: h.Result, Resume: h.Resume,
		Outcome: string(h.Outcome), Artifacts: eventpb.ArtifactRefsToProto(h.Artifacts),
	}
	if parks, ok := h.Parks(); ok {
		out.Parks = timestamppb.New(parks)
	}
	return out
}
