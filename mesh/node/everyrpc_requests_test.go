package node_test

import (
	"crypto/rand"
	"strings"
	"time"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// things are what a request may name.
type things struct {
	thread, task string
	agent, skill string
	kind         string // of state
}

// under says which agents may call a method for their work.
type under int

const (
	never   under = iota // no agent at work
	always               // all
	trusted              // those that somebody trusts
	ticket               // who was called and is not at work yet
	open                 // everybody: the method looks for a proof of its own
)

// An ask is a method as a caller makes it.
type ask struct {
	method  string // by which it is asked for in the table
	request func(x things) proto.Message
	agents  under
	own     codes.Code // what an agent at work is told that may call it and names its own things
	dead    codes.Code // and when its work is over; the default is FailedPrecondition
}

// The SHA-256 of no bytes, and one that nobody has uploaded the bytes of.
const (
	noBytes      = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	unknownBytes = "00b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

const configs = "/pushNotificationConfigs/c"

// asks has every method that a node serves: one that is new has no entry, and fails the
// tests that go through them all.
var asks = map[string]ask{
	a2apb.A2AService_SendMessage_FullMethodName:          {request: func(x things) proto.Message { return messageTo(x) }},
	a2apb.A2AService_SendStreamingMessage_FullMethodName: {request: func(x things) proto.Message { return messageTo(x) }},
	a2apb.A2AService_GetTask_FullMethodName:              {request: func(x things) proto.Message { return &a2apb.GetTaskRequest{Id: x.task} }},
	a2apb.A2AService_ListTasks_FullMethodName:            {request: func(x things) proto.Message { return &a2apb.ListTasksRequest{ContextId: x.thread} }},
	a2apb.A2AService_SubscribeToTask_FullMethodName:      {request: func(x things) proto.Message { return &a2apb.SubscribeToTaskRequest{Id: x.task} }},
	a2apb.A2AService_CancelTask_FullMethodName:           {request: func(x things) proto.Message { return &a2apb.CancelTaskRequest{Id: x.task} }},
	a2apb.A2AService_CreateTaskPushNotificationConfig_FullMethodName: {request: func(x things) proto.Message {
		return &a2apb.TaskPushNotificationConfig{TaskId: x.task, Id: "c", Url: "https://127.0.0.1:9"}
	}},
	a2apb.A2AService_GetTaskPushNotificationConfig_FullMethodName: {request: func(x things) proto.Message {
		return &a2apb.GetTaskPushNotificationConfigRequest{TaskId: x.task, Id: "c"}
	}},
	a2apb.A2AService_ListTaskPushNotificationConfigs_FullMethodName: {request: func(x things) proto.Message {
		return &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: x.task}
	}},
	a2apb.A2AService_DeleteTaskPushNotificationConfig_FullMethodName: {request: func(x things) proto.Message {
		return &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: x.task, Id: "c"}
	}},
	a2apb.A2AService_GetExtendedAgentCard_FullMethodName: {request: func(things) proto.Message { return &a2apb.GetExtendedAgentCardRequest{} }},

	legacypb.A2AService_SendMessage_FullMethodName:          {request: func(x things) proto.Message { return legacyMessageTo(x) }},
	legacypb.A2AService_SendStreamingMessage_FullMethodName: {request: func(x things) proto.Message { return legacyMessageTo(x) }},
	legacypb.A2AService_GetTask_FullMethodName:              {request: func(x things) proto.Message { return &legacypb.GetTaskRequest{Name: "tasks/" + x.task} }},
	legacypb.A2AService_ListTasks_FullMethodName:            {request: func(x things) proto.Message { return &legacypb.ListTasksRequest{ContextId: x.thread} }},
	legacypb.A2AService_TaskSubscription_FullMethodName:     {request: func(x things) proto.Message { return &legacypb.TaskSubscriptionRequest{Name: "tasks/" + x.task} }},
	legacypb.A2AService_CancelTask_FullMethodName:           {request: func(x things) proto.Message { return &legacypb.CancelTaskRequest{Name: "tasks/" + x.task} }},
	legacypb.A2AService_CreateTaskPushNotificationConfig_FullMethodName: {request: func(x things) proto.Message {
		return &legacypb.CreateTaskPushNotificationConfigRequest{Parent: "tasks/" + x.task + "/pushNotificationConfigs", ConfigId: "c",
			Config: &legacypb.TaskPushNotificationConfig{Name: "tasks/" + x.task + configs, PushNotificationConfig: &legacypb.PushNotificationConfig{Url: "https://127.0.0.1:9"}}}
	}},
	legacypb.A2AService_GetTaskPushNotificationConfig_FullMethodName: {request: func(x things) proto.Message {
		return &legacypb.GetTaskPushNotificationConfigRequest{Name: "tasks/" + x.task + configs}
	}},
	legacypb.A2AService_ListTaskPushNotificationConfig_FullMethodName: {request: func(x things) proto.Message {
		return &legacypb.ListTaskPushNotificationConfigRequest{Parent: "tasks/" + x.task}
	}},
	legacypb.A2AService_DeleteTaskPushNotificationConfig_FullMethodName: {request: func(x things) proto.Message {
		return &legacypb.DeleteTaskPushNotificationConfigRequest{Name: "tasks/" + x.task + configs}
	}},
	legacypb.A2AService_GetAgentCard_FullMethodName: {request: func(things) proto.Message { return &legacypb.GetAgentCardRequest{} }},

	meshv1.ThreadService_GetThread_FullMethodName:    {agents: always, request: func(x things) proto.Message { return &meshv1.GetThreadRequest{ThreadId: x.thread} }},
	meshv1.ThreadService_ReadThread_FullMethodName:   {agents: always, request: func(x things) proto.Message { return &meshv1.ReadThreadRequest{ThreadId: x.thread} }},
	meshv1.ThreadService_FollowThread_FullMethodName: {agents: always, request: func(x things) proto.Message { return &meshv1.FollowThreadRequest{ThreadId: x.thread} }},
	meshv1.ThreadService_ListThreads_FullMethodName:  {request: func(things) proto.Message { return &meshv1.ListThreadsRequest{} }},
	meshv1.ThreadService_ListUsage_FullMethodName:    {request: func(things) proto.Message { return &meshv1.ListUsageRequest{} }},
	meshv1.ThreadService_AppendEvents_FullMethodName: {agents: always, request: func(x things) proto.Message {
		return &meshv1.AppendEventsRequest{ThreadId: x.thread, Events: []*meshv1.Event{{Id: mesh.NewEventID(), ExecutionId: x.task,
			Body: &meshv1.Event_StateNoted{StateNoted: &meshv1.StateNoted{Agent: x.kind, Data: []byte("{}")}}}}}
	}},
	meshv1.ThreadService_ShareThread_FullMethodName: {request: func(x things) proto.Message {
		return &meshv1.ShareThreadRequest{ThreadId: x.thread, Add: []string{"mallory"}}
	}},
	meshv1.ThreadService_ImportThread_FullMethodName: {request: func(x things) proto.Message { return &meshv1.ImportThreadRequest{ThreadId: x.thread, Total: 1} }},
	meshv1.ThreadService_DeleteThread_FullMethodName: {request: func(x things) proto.Message { return &meshv1.DeleteThreadRequest{ThreadId: x.thread} }},
	meshv1.ThreadService_DeleteThreads_FullMethodName: {request: func(things) proto.Message {
		return &meshv1.DeleteThreadsRequest{Before: timestamppb.New(time.Unix(1, 0))}
	}},

	// An upload is for a thread of any id, and says nothing of it.
	meshv1.BlobService_UploadBlob_FullMethodName: {agents: always, request: func(x things) proto.Message {
		return &meshv1.UploadBlobRequest{ThreadId: x.thread, Sha256: noBytes}
	}},
	meshv1.BlobService_ReadBlob_FullMethodName: {agents: always, own: codes.NotFound, request: func(x things) proto.Message {
		return &meshv1.ReadBlobRequest{ThreadId: x.thread, Sha256: unknownBytes}
	}},
	meshv1.BlobService_GetBlob_FullMethodName: {agents: always, own: codes.NotFound, request: func(x things) proto.Message {
		return &meshv1.GetBlobRequest{ThreadId: x.thread, Sha256: unknownBytes}
	}},

	meshv1.ExecutionService_ListExecutions_FullMethodName: {request: func(x things) proto.Message { return &meshv1.ListExecutionsRequest{ThreadId: x.thread} }},
	meshv1.ExecutionService_GetExecution_FullMethodName: {request: func(x things) proto.Message {
		return &meshv1.GetExecutionRequest{ThreadId: x.thread, ExecutionId: x.task}
	}},
	meshv1.ExecutionService_CancelExecution_FullMethodName: {request: func(x things) proto.Message {
		return &meshv1.CancelExecutionRequest{ThreadId: x.thread, ExecutionId: x.task}
	}},
	meshv1.ExecutionService_TellExecution_FullMethodName: {request: func(x things) proto.Message {
		return &meshv1.TellExecutionRequest{ThreadId: x.thread, ExecutionId: x.task, Text: "look here"}
	}},

	meshv1.HandoffService_StartHandoff_FullMethodName: {agents: trusted, own: codes.NotFound, request: func(x things) proto.Message {
		return &meshv1.StartHandoffRequest{ThreadId: x.thread, TargetAgent: "nobody"}
	}},
	meshv1.HandoffService_EndHandoff_FullMethodName: {agents: always, own: codes.FailedPrecondition, request: func(x things) proto.Message {
		return &meshv1.EndHandoffRequest{ThreadId: x.thread, Outcome: "cancelled"}
	}},
	meshv1.HandoffService_GetHandoff_FullMethodName: {agents: always, request: func(x things) proto.Message { return &meshv1.GetHandoffRequest{ThreadId: x.thread} }},

	meshv1.RegistryService_RegisterAgent_FullMethodName: {request: func(x things) proto.Message {
		return &meshv1.RegisterAgentRequest{Name: x.agent, Card: card("x"), Endpoint: "127.0.0.1:9"}
	}},
	meshv1.RegistryService_KeepAlive_FullMethodName:       {request: func(x things) proto.Message { return &meshv1.KeepAliveRequest{Name: x.agent, LeaseId: "x"} }},
	meshv1.RegistryService_DeregisterAgent_FullMethodName: {request: func(x things) proto.Message { return &meshv1.DeregisterAgentRequest{Name: x.agent} }},
	meshv1.RegistryService_SetAgentCredentials_FullMethodName: {request: func(x things) proto.Message {
		return &meshv1.SetAgentCredentialsRequest{Name: x.agent, Credentials: []*meshv1.AgentCredential{{Scheme: "bearer", Value: "x"}}}
	}},
	meshv1.RegistryService_GetAgent_FullMethodName:    {agents: always, request: func(x things) proto.Message { return &meshv1.GetAgentRequest{Name: x.agent} }},
	meshv1.RegistryService_ListAgents_FullMethodName:  {agents: always, request: func(things) proto.Message { return &meshv1.ListAgentsRequest{} }},
	meshv1.RegistryService_WatchAgents_FullMethodName: {agents: always, request: func(things) proto.Message { return &meshv1.WatchAgentsRequest{} }},

	meshv1.SkillService_ListSkills_FullMethodName:       {agents: always, request: func(things) proto.Message { return &meshv1.ListSkillsRequest{WithSource: true} }},
	meshv1.SkillService_GetSkill_FullMethodName:         {agents: always, request: func(x things) proto.Message { return &meshv1.GetSkillRequest{Name: x.skill} }},
	meshv1.SkillService_ListSkillDomains_FullMethodName: {agents: always, request: func(things) proto.Message { return &meshv1.ListSkillDomainsRequest{} }},
	meshv1.SkillService_WatchSkills_FullMethodName:      {agents: always, request: func(things) proto.Message { return &meshv1.WatchSkillsRequest{} }},
	meshv1.SkillService_ValidateSkill_FullMethodName:    {agents: always, request: func(x things) proto.Message { return &meshv1.ValidateSkillRequest{Source: source(x.skill)} }},
	meshv1.SkillService_CreateSkill_FullMethodName: {agents: trusted, own: codes.FailedPrecondition, request: func(things) proto.Message { // without the user's yes
		return &meshv1.CreateSkillRequest{Source: source("workflows.x" + strings.ToLower(rand.Text()))}
	}},
	meshv1.SkillService_DeleteSkill_FullMethodName:   {request: func(x things) proto.Message { return &meshv1.DeleteSkillRequest{Name: x.skill} }},
	meshv1.SkillService_ReloadSkills_FullMethodName:  {request: func(things) proto.Message { return &meshv1.ReloadSkillsRequest{} }},
	meshv1.SkillService_RunSkill_FullMethodName:      {request: func(x things) proto.Message { return &meshv1.RunSkillRequest{Name: x.skill, ThreadId: x.thread} }},
	meshv1.SkillService_ListSkillRuns_FullMethodName: {request: func(x things) proto.Message { return &meshv1.ListSkillRunsRequest{Name: x.skill} }},
	meshv1.SkillService_ListBreakers_FullMethodName:  {request: func(things) proto.Message { return &meshv1.ListBreakersRequest{} }},
	meshv1.SkillService_ResetBreaker_FullMethodName:  {request: func(x things) proto.Message { return &meshv1.ResetBreakerRequest{Name: x.skill} }},

	meshv1.StateService_GetState_FullMethodName: {agents: always, own: codes.NotFound, request: func(x things) proto.Message {
		return &meshv1.GetStateRequest{Kind: x.kind, Key: "none"}
	}},
	meshv1.StateService_PutState_FullMethodName: {agents: always, request: func(x things) proto.Message {
		return &meshv1.PutStateRequest{Kind: x.kind, Key: mesh.NewEventID(), Data: []byte("x")}
	}},
	meshv1.StateService_DeleteState_FullMethodName: {agents: always, own: codes.NotFound, request: func(x things) proto.Message {
		return &meshv1.DeleteStateRequest{Kind: x.kind, Key: "none", Version: 1}
	}},
	meshv1.StateService_ListState_FullMethodName: {agents: always, request: func(x things) proto.Message { return &meshv1.ListStateRequest{Kind: x.kind} }},

	meshv1.GrantService_RedeemTicket_FullMethodName: {agents: ticket, request: func(things) proto.Message { return &meshv1.RedeemTicketRequest{} }},
	meshv1.GrantService_IssueTicket_FullMethodName: {agents: always, own: codes.NotFound, dead: codes.NotFound, request: func(x things) proto.Message {
		return &meshv1.IssueTicketRequest{ExecutionId: x.task}
	}},

	meshv1.AccessService_GetAccess_FullMethodName:         {request: func(things) proto.Message { return &meshv1.GetAccessRequest{} }},
	meshv1.AccessService_EraseUser_FullMethodName:         {request: func(things) proto.Message { return &meshv1.EraseUserRequest{UserId: "mallory"} }},
	meshv1.AccessService_RevokeUser_FullMethodName:        {request: func(things) proto.Message { return &meshv1.RevokeUserRequest{UserId: "mallory"} }},
	meshv1.AuditService_ListAuditRecords_FullMethodName:   {request: func(things) proto.Message { return &meshv1.ListAuditRecordsRequest{} }},
	meshv1.AuditService_FollowAuditRecords_FullMethodName: {request: func(things) proto.Message { return &meshv1.FollowAuditRecordsRequest{} }},
	meshv1.AuditService_ListAuditTrail_FullMethodName:     {request: func(x things) proto.Message { return &meshv1.ListAuditTrailRequest{ThreadId: x.thread} }},
	meshv1.NodeService_ListAlarms_FullMethodName:          {request: func(things) proto.Message { return &meshv1.ListAlarmsRequest{} }},
	meshv1.NodeService_ListTenants_FullMethodName:         {request: func(things) proto.Message { return &meshv1.ListTenantsRequest{} }},
	meshv1.NodeService_BackupData_FullMethodName:          {request: func(things) proto.Message { return &meshv1.BackupDataRequest{} }},
	meshv1.NodeService_ExportTenant_FullMethodName:        {request: func(things) proto.Message { return &meshv1.ExportTenantRequest{} }},
	meshv1.NodeService_ImportTenant_FullMethodName:        {request: func(things) proto.Message { return &meshv1.ImportTenantRequest{} }},

	meshv1.IdentityService_InviteAgent_FullMethodName:      {request: func(x things) proto.Message { return &meshv1.InviteAgentRequest{Name: x.agent} }},
	meshv1.IdentityService_JoinAgent_FullMethodName:        {agents: open, request: func(things) proto.Message { return &meshv1.JoinAgentRequest{Token: "x", Csr: []byte("x")} }},
	meshv1.IdentityService_RenewCertificate_FullMethodName: {agents: open, request: func(things) proto.Message { return &meshv1.RenewCertificateRequest{Csr: []byte("x")} }},
}

// legacyParams has the methods of JSON-RPC in A2A v0.3, which no service describes, with
// their parameters: TASK stands for the task's id, THREAD for the thread's.
var legacyParams = map[string]string{
	"message/send":                        `{"message": {"kind": "message", "messageId": "m", "role": "user", "taskId": "TASK", "contextId": "THREAD", "parts": [{"kind": "text", "text": "hi"}]}}`,
	"message/stream":                      `{"message": {"kind": "message", "messageId": "m", "role": "user", "taskId": "TASK", "contextId": "THREAD", "parts": [{"kind": "text", "text": "hi"}]}}`,
	"tasks/get":                           `{"id": "TASK"}`,
	"tasks/cancel":                        `{"id": "TASK"}`,
	"tasks/resubscribe":                   `{"id": "TASK"}`,
	"tasks/pushNotificationConfig/set":    `{"taskId": "TASK", "pushNotificationConfig": {"id": "c", "url": "https://127.0.0.1:9"}}`,
	"tasks/pushNotificationConfig/get":    `{"id": "TASK", "pushNotificationConfigId": "c"}`,
	"tasks/pushNotificationConfig/list":   `{"id": "TASK"}`,
	"tasks/pushNotificationConfig/delete": `{"id": "TASK", "pushNotificationConfigId": "c"}`,
	"agent/getAuthenticatedExtendedCard":  `{}`,
}

func messageTo(x things) *a2apb.SendMessageRequest {
	req := say("hi")
	req.Message.TaskId, req.Message.ContextId = x.task, x.thread
	return req
}

func legacyMessageTo(x things) *legacypb.SendMessageRequest {
	req := legacySay("hi")
	req.Request.TaskId, req.Request.ContextId = x.task, x.thread
	return req
}

// source is the file of a skill.
func source(name string) string {
	return "---\nname: " + name + "\ndescription: Does.\n---\n# x\n\nDo.\n"
}
