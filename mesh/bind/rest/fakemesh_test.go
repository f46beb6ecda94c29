package rest_test

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/api/apitest"
)

func (n *node) RegisterAgent(_ context.Context, r *meshv1.RegisterAgentRequest) (*meshv1.RegisterAgentResponse, error) {
	return &meshv1.RegisterAgentResponse{LeaseId: "lease-1"}, nil
}

func (n *node) DeregisterAgent(context.Context, *meshv1.DeregisterAgentRequest) (*meshv1.DeregisterAgentResponse, error) {
	return &meshv1.DeregisterAgentResponse{}, nil
}

func (n *node) SetAgentCredentials(_ context.Context, r *meshv1.SetAgentCredentialsRequest) (*meshv1.SetAgentCredentialsResponse, error) {
	return &meshv1.SetAgentCredentialsResponse{Agent: &meshv1.Agent{Name: r.GetName(),
		Credentials: []*meshv1.AgentCredentialState{{Scheme: r.GetCredentials()[0].GetScheme()}}}}, nil
}

func (n *node) GetAgent(_ context.Context, r *meshv1.GetAgentRequest) (*meshv1.GetAgentResponse, error) {
	return &meshv1.GetAgentResponse{Agent: &meshv1.Agent{Name: r.GetName()}}, nil
}

func (n *node) ListAgents(_ context.Context, r *meshv1.ListAgentsRequest) (*meshv1.ListAgentsResponse, error) {
	if r.GetTag() == "none" {
		return &meshv1.ListAgentsResponse{}, nil
	}
	return &meshv1.ListAgentsResponse{Agents: []*meshv1.Agent{{Name: "main"}}}, nil
}

func (n *node) WatchAgents(_ *meshv1.WatchAgentsRequest, s grpc.ServerStreamingServer[meshv1.WatchAgentsResponse]) error {
	for _, e := range []*meshv1.WatchAgentsResponse{
		{Kind: meshv1.WatchAgentsResponse_KIND_PUT, Agent: &meshv1.Agent{Name: "main"}},
		{Kind: meshv1.WatchAgentsResponse_KIND_SYNCED},
	} {
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return nil
}

// known fails for threads other than threadID, and when metadata and request
// name different ones.
func (n *node) known(method, id string) error {
	md, _ := n.call(method)
	if in := md.Get("thread-id"); len(in) != 1 || in[0] != id {
		return failure(codes.InvalidArgument, "thread-id: metadata and request differ")
	}
	if id != threadID {
		return errThread(id)
	}
	return nil
}

func (n *node) GetThread(_ context.Context, r *meshv1.GetThreadRequest) (*meshv1.GetThreadResponse, error) {
	if err := n.known("GetThread", r.GetThreadId()); err != nil {
		return nil, err
	}
	return &meshv1.GetThreadResponse{Thread: &meshv1.Thread{ThreadId: r.GetThreadId(), Seq: 3}}, nil
}

func (n *node) ListThreads(context.Context, *meshv1.ListThreadsRequest) (*meshv1.ListThreadsResponse, error) {
	return &meshv1.ListThreadsResponse{Threads: []*meshv1.Thread{{ThreadId: threadID}}}, nil
}

func (n *node) ListUsage(_ context.Context, r *meshv1.ListUsageRequest) (*meshv1.ListUsageResponse, error) {
	return &meshv1.ListUsageResponse{Sums: []*meshv1.UsageSum{{Key: r.GetBy() + " of " + r.GetUserId()}}}, nil
}

func events(after int64) []*meshv1.Event {
	var all []*meshv1.Event
	for seq := after + 1; seq <= 3; seq++ {
		all = append(all, &meshv1.Event{Seq: seq, Actor: "user:ann"})
	}
	return all
}

func (n *node) ReadThread(_ context.Context, r *meshv1.ReadThreadRequest) (*meshv1.ReadThreadResponse, error) {
	return apitest.Page(events(0), r, 0), n.known("ReadThread", r.GetThreadId())
}

// FollowThread sends what there is and then stays silent, as a log does.
func (n *node) FollowThread(r *meshv1.FollowThreadRequest, s grpc.ServerStreamingServer[meshv1.FollowThreadResponse]) error {
	if err := n.known("FollowThread", r.GetThreadId()); err != nil {
		return err
	}
	if err := s.SendHeader(nil); err != nil {
		return err
	}
	for _, e := range events(r.GetAfterSeq()) {
		if s.Send(&meshv1.FollowThreadResponse{Event: e}) != nil {
			break // the caller is gone already
		}
	}
	<-s.Context().Done()
	n.ended <- s.Context().Err()
	return s.Context().Err()
}

func (n *node) ShareThread(_ context.Context, r *meshv1.ShareThreadRequest) (*meshv1.ShareThreadResponse, error) {
	return &meshv1.ShareThreadResponse{Thread: &meshv1.Thread{ThreadId: r.GetThreadId(), Participants: r.GetAdd()}}, nil
}

func (n *node) DeleteThreads(_ context.Context, r *meshv1.DeleteThreadsRequest) (*meshv1.DeleteThreadsResponse, error) {
	return &meshv1.DeleteThreadsResponse{Deleted: r.GetPageSize()}, nil
}

func (n *node) DeleteThread(_ context.Context, r *meshv1.DeleteThreadRequest) (*meshv1.DeleteThreadResponse, error) {
	return &meshv1.DeleteThreadResponse{}, n.known("DeleteThread", r.GetThreadId())
}

func (n *node) ListExecutions(_ context.Context, r *meshv1.ListExecutionsRequest) (*meshv1.ListExecutionsResponse, error) {
	return &meshv1.ListExecutionsResponse{Executions: []*meshv1.ExecutionInfo{{Status: r.GetStatuses()[0]}}}, n.known("ListExecutions", r.GetThreadId())
}

func (n *node) GetExecution(_ context.Context, r *meshv1.GetExecutionRequest) (*meshv1.GetExecutionResponse, error) {
	return &meshv1.GetExecutionResponse{Execution: &meshv1.ExecutionInfo{Result: r.GetExecutionId()}}, n.known("GetExecution", r.GetThreadId())
}

func (n *node) CancelExecution(_ context.Context, r *meshv1.CancelExecutionRequest) (*meshv1.CancelExecutionResponse, error) {
	return &meshv1.CancelExecutionResponse{Outcome: r.GetReason()}, n.known("CancelExecution", r.GetThreadId())
}

func (n *node) TellExecution(_ context.Context, r *meshv1.TellExecutionRequest) (*meshv1.TellExecutionResponse, error) {
	return &meshv1.TellExecutionResponse{InstructionId: r.GetText() + r.GetExecutionId()}, n.known("TellExecution", r.GetThreadId())
}

func (n *node) StartHandoff(_ context.Context, r *meshv1.StartHandoffRequest) (*meshv1.StartHandoffResponse, error) {
	return &meshv1.StartHandoffResponse{Handoff: &meshv1.Handoff{}}, n.known("StartHandoff", r.GetThreadId())
}

func (n *node) EndHandoff(_ context.Context, r *meshv1.EndHandoffRequest) (*meshv1.EndHandoffResponse, error) {
	return &meshv1.EndHandoffResponse{}, n.known("EndHandoff", r.GetThreadId())
}

func (n *node) GetHandoff(_ context.Context, r *meshv1.GetHandoffRequest) (*meshv1.GetHandoffResponse, error) {
	return &meshv1.GetHandoffResponse{}, n.known("GetHandoff", r.GetThreadId())
}

func (n *node) GetBlob(_ context.Context, r *meshv1.GetBlobRequest) (*meshv1.GetBlobResponse, error) {
	return &meshv1.GetBlobResponse{Received: int64(len(r.GetSha256())), Complete: true}, n.known("GetBlob", r.GetThreadId())
}

func (n *node) ListSkills(context.Context, *meshv1.ListSkillsRequest) (*meshv1.ListSkillsResponse, error) {
	return &meshv1.ListSkillsResponse{Skills: []*meshv1.Skill{{Name: "mail.send"}}}, nil
}

func (n *node) GetSkill(_ context.Context, r *meshv1.GetSkillRequest) (*meshv1.GetSkillResponse, error) {
	return &meshv1.GetSkillResponse{Skill: &meshv1.Skill{Name: r.GetName()}}, nil
}

func (n *node) CreateSkill(_ context.Context, r *meshv1.CreateSkillRequest) (*meshv1.CreateSkillResponse, error) {
	return &meshv1.CreateSkillResponse{Skill: &meshv1.Skill{Source: r.GetSource()}}, nil
}

func (n *node) ValidateSkill(_ context.Context, r *meshv1.ValidateSkillRequest) (*meshv1.ValidateSkillResponse, error) {
	return &meshv1.ValidateSkillResponse{Problems: []*meshv1.SkillProblem{{Detail: strconv.Itoa(len(r.GetSource()))}}}, nil
}

func (n *node) ListSkillDomains(_ context.Context, r *meshv1.ListSkillDomainsRequest) (*meshv1.ListSkillDomainsResponse, error) {
	return &meshv1.ListSkillDomainsResponse{Domains: []*meshv1.SkillDomain{{Name: r.GetPatterns()[0]}}}, nil
}

func (n *node) ReloadSkills(context.Context, *meshv1.ReloadSkillsRequest) (*meshv1.ReloadSkillsResponse, error) {
	return &meshv1.ReloadSkillsResponse{Skills: 7}, nil
}

func (n *node) RunSkill(_ context.Context, r *meshv1.RunSkillRequest) (*meshv1.RunSkillResponse, error) {
	return &meshv1.RunSkillResponse{Content: r.GetName() + " to " + r.GetArguments().GetFields()["to"].GetStringValue()}, nil
}

func (n *node) ListBreakers(_ context.Context, r *meshv1.ListBreakersRequest) (*meshv1.ListBreakersResponse, error) {
	return &meshv1.ListBreakersResponse{Breakers: []*meshv1.SkillBreaker{{Skill: r.GetPageToken(), Failures: r.GetPageSize()}}}, nil
}

func (n *node) ResetBreaker(_ context.Context, r *meshv1.ResetBreakerRequest) (*meshv1.ResetBreakerResponse, error) {
	return &meshv1.ResetBreakerResponse{Before: &meshv1.SkillBreaker{Skill: r.GetName()}}, nil
}

func (n *node) ListSkillRuns(_ context.Context, r *meshv1.ListSkillRunsRequest) (*meshv1.ListSkillRunsResponse, error) {
	return &meshv1.ListSkillRunsResponse{Runs: []*meshv1.SkillRun{{Skill: r.GetName()}}}, nil
}

func (n *node) DeleteSkill(context.Context, *meshv1.DeleteSkillRequest) (*meshv1.DeleteSkillResponse, error) {
	return &meshv1.DeleteSkillResponse{}, nil
}

func (n *node) WatchSkills(_ *meshv1.WatchSkillsRequest, s grpc.ServerStreamingServer[meshv1.WatchSkillsResponse]) error {
	return s.Send(&meshv1.WatchSkillsResponse{Kind: meshv1.WatchSkillsResponse_KIND_SYNCED})
}

func (n *node) GetState(_ context.Context, r *meshv1.GetStateRequest) (*meshv1.GetStateResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.state[r.GetKind()+" "+r.GetKey()]
	if v == nil {
		return nil, failure(codes.NotFound, "no such value")
	}
	return &meshv1.GetStateResponse{Value: v}, nil
}

func (n *node) PutState(_ context.Context, r *meshv1.PutStateRequest) (*meshv1.PutStateResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state[r.GetKind()+" "+r.GetKey()] = &meshv1.Value{Key: r.GetKey(), Data: r.GetData(), Version: 1}
	return &meshv1.PutStateResponse{Version: 1}, nil
}

func (n *node) DeleteState(_ context.Context, r *meshv1.DeleteStateRequest) (*meshv1.DeleteStateResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.state, r.GetKind()+" "+r.GetKey())
	return &meshv1.DeleteStateResponse{}, nil
}

func (n *node) ListState(context.Context, *meshv1.ListStateRequest) (*meshv1.ListStateResponse, error) {
	return &meshv1.ListStateResponse{}, nil
}

func (n *node) EraseUser(_ context.Context, r *meshv1.EraseUserRequest) (*meshv1.EraseUserResponse, error) {
	return &meshv1.EraseUserResponse{Erased: []*meshv1.Erased{{Kind: r.GetUserId(), Count: 1}}, More: r.GetCountOnly()}, nil
}

func (n *node) RevokeUser(_ context.Context, r *meshv1.RevokeUserRequest) (*meshv1.RevokeUserResponse, error) {
	return &meshv1.RevokeUserResponse{RevokedAt: &timestamppb.Timestamp{Seconds: int64(len(r.GetUserId()))}}, nil
}

func (n *node) GetAccess(context.Context, *meshv1.GetAccessRequest) (*meshv1.GetAccessResponse, error) {
	return &meshv1.GetAccessResponse{Roles: []string{"user"}}, nil
}

func (n *node) ListAuditRecords(_ context.Context, r *meshv1.ListAuditRecordsRequest) (*meshv1.ListAuditRecordsResponse, error) {
	return &meshv1.ListAuditRecordsResponse{Records: []*meshv1.AuditRecord{{UserId: r.GetFilter().GetUserId()}}}, nil
}

func (n *node) ListAlarms(context.Context, *meshv1.ListAlarmsRequest) (*meshv1.ListAlarmsResponse, error) {
	return &meshv1.ListAlarmsResponse{Alarms: []*meshv1.Alarm{{Setting: "tokens"}}}, nil
}

func (n *node) ListTenants(context.Context, *meshv1.ListTenantsRequest) (*meshv1.ListTenantsResponse, error) {
	return &meshv1.ListTenantsResponse{Tenants: []*meshv1.TenantUsage{{Tenant: "acme"}}}, nil
}

func (n *node) InviteAgent(_ context.Context, r *meshv1.InviteAgentRequest) (*meshv1.InviteAgentResponse, error) {
	return &meshv1.InviteAgentResponse{Token: r.GetName() + "/" + strings.Join(r.GetHosts(), " ")}, nil
}

func (n *node) ListAuditTrail(_ context.Context, r *meshv1.ListAuditTrailRequest) (*meshv1.ListAuditTrailResponse, error) {
	resp := &meshv1.ListAuditTrailResponse{}
	for _, k := range r.GetKinds() {
		resp.Entries = append(resp.Entries, &meshv1.AuditTrailEntry{ThreadId: r.GetThreadId(), Kind: k, Time: r.GetSince()})
	}
	return resp, nil
}

func (n *node) FollowAuditRecords(r *meshv1.FollowAuditRecordsRequest, s grpc.ServerStreamingServer[meshv1.FollowAuditRecordsResponse]) error {
	return s.Send(&meshv1.FollowAuditRecordsResponse{Record: &meshv1.AuditRecord{Seq: r.GetAfterSeq() + 1}})
}
