package authz

import (
	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// Node is the table of the methods that a node serves.
func Node() Table { //nolint:funlen // a line for each method
	return Table{
		// A2A, for users and programs.
		a2apb.A2AService_SendMessage_FullMethodName:                      {Action: mesh.ActChat},
		a2apb.A2AService_SendStreamingMessage_FullMethodName:             {Action: mesh.ActChat},
		a2apb.A2AService_GetTask_FullMethodName:                          {Action: mesh.ActReadOwn, Resource: "id"},
		a2apb.A2AService_ListTasks_FullMethodName:                        {Action: mesh.ActReadOwn},
		a2apb.A2AService_SubscribeToTask_FullMethodName:                  {Action: mesh.ActReadOwn, Resource: "id"},
		a2apb.A2AService_CancelTask_FullMethodName:                       {Action: mesh.ActCancelOwn, Resource: "id"},
		a2apb.A2AService_CreateTaskPushNotificationConfig_FullMethodName: {Action: mesh.ActChat},
		a2apb.A2AService_GetTaskPushNotificationConfig_FullMethodName:    {Action: mesh.ActReadOwn},
		a2apb.A2AService_ListTaskPushNotificationConfigs_FullMethodName:  {Action: mesh.ActReadOwn},
		a2apb.A2AService_DeleteTaskPushNotificationConfig_FullMethodName: {Action: mesh.ActChat},
		a2apb.A2AService_GetExtendedAgentCard_FullMethodName:             {},

		// A2A v0.3, the same.
		legacypb.A2AService_SendMessage_FullMethodName:                      {Action: mesh.ActChat},
		legacypb.A2AService_SendStreamingMessage_FullMethodName:             {Action: mesh.ActChat},
		legacypb.A2AService_GetTask_FullMethodName:                          {Action: mesh.ActReadOwn},
		legacypb.A2AService_ListTasks_FullMethodName:                        {Action: mesh.ActReadOwn},
		legacypb.A2AService_TaskSubscription_FullMethodName:                 {Action: mesh.ActReadOwn},
		legacypb.A2AService_CancelTask_FullMethodName:                       {Action: mesh.ActCancelOwn},
		legacypb.A2AService_CreateTaskPushNotificationConfig_FullMethodName: {Action: mesh.ActChat},
		legacypb.A2AService_GetTaskPushNotificationConfig_FullMethodName:    {Action: mesh.ActReadOwn},
		legacypb.A2AService_ListTaskPushNotificationConfig_FullMethodName:   {Action: mesh.ActReadOwn},
		legacypb.A2AService_DeleteTaskPushNotificationConfig_FullMethodName: {Action: mesh.ActChat},
		legacypb.A2AService_GetAgentCard_FullMethodName:                     {},

		meshv1.ThreadService_GetThread_FullMethodName:    {Action: mesh.ActReadOwn, Grant: MayGrant, Resource: "thread_id"},
		meshv1.ThreadService_ReadThread_FullMethodName:   {Action: mesh.ActReadOwn, Grant: MayGrant, Resource: "thread_id"},
		meshv1.ThreadService_FollowThread_FullMethodName: {Action: mesh.ActReadOwn, Grant: MayGrant, Resource: "thread_id"},
		meshv1.ThreadService_ListThreads_FullMethodName:  {Action: mesh.ActReadOwn},
		meshv1.ThreadService_ListUsage_FullMethodName:    {Action: mesh.ActReadOwn},
		meshv1.ThreadService_AppendEvents_FullMethodName: {Grant: OnlyGrant, Settles: true, Resource: "thread_id"},
		meshv1.ThreadService_ShareThread_FullMethodName:  {Action: mesh.ActChat, Audit: true, Resource: "thread_id"},
		meshv1.ThreadService_ImportThread_FullMethodName: {Action: mesh.ActAdminTenant, Audit: true, Resource: "thread_id"},
		meshv1.ThreadService_DeleteThread_FullMethodName: {Action: mesh.ActDeleteThread, Audit: true, Resource: "thread_id"},
		// Of each thread that it deletes there is a record too, and policies are asked.
		meshv1.ThreadService_DeleteThreads_FullMethodName: {Action: mesh.ActDeleteThread, Audit: true},

		meshv1.BlobService_UploadBlob_FullMethodName: {Action: mesh.ActChat, Grant: MayGrant},
		meshv1.BlobService_ReadBlob_FullMethodName:   {Action: mesh.ActReadOwn, Grant: MayGrant, Resource: "thread_id"},
		meshv1.BlobService_GetBlob_FullMethodName:    {Action: mesh.ActReadOwn, Grant: MayGrant, Resource: "thread_id"},

		meshv1.ExecutionService_ListExecutions_FullMethodName:  {Action: mesh.ActReadOwn, Resource: "thread_id"},
		meshv1.ExecutionService_GetExecution_FullMethodName:    {Action: mesh.ActReadOwn, Resource: "execution_id"},
		meshv1.ExecutionService_CancelExecution_FullMethodName: {Action: mesh.ActCancelOwn, Audit: true, Resource: "execution_id"},
		meshv1.ExecutionService_TellExecution_FullMethodName:   {Action: mesh.ActChat, Audit: true, Resource: "execution_id"},

		meshv1.HandoffService_StartHandoff_FullMethodName: {Action: mesh.ActHandoff, Grant: OnlyGrant, Capability: mesh.CapHandoff, Resource: "target_agent", Effects: true},
		meshv1.HandoffService_EndHandoff_FullMethodName:   {Action: mesh.ActHandoff, Grant: MayGrant, Effects: true},
		meshv1.HandoffService_GetHandoff_FullMethodName:   {Action: mesh.ActReadOwn, Grant: MayGrant},

		meshv1.RegistryService_RegisterAgent_FullMethodName:       {Action: mesh.ActRegister, Audit: true, Resource: "name"},
		meshv1.RegistryService_KeepAlive_FullMethodName:           {Action: mesh.ActRegister, Resource: "name"},
		meshv1.RegistryService_DeregisterAgent_FullMethodName:     {Action: mesh.ActRegister, Audit: true, Resource: "name"},
		meshv1.RegistryService_SetAgentCredentials_FullMethodName: {Action: mesh.ActRegister, Audit: true, Resource: "name"},
		meshv1.RegistryService_GetAgent_FullMethodName:            {Grant: MayGrant},
		meshv1.RegistryService_ListAgents_FullMethodName:          {Grant: MayGrant},
		meshv1.RegistryService_WatchAgents_FullMethodName:         {Grant: MayGrant},

		meshv1.SkillService_ListSkills_FullMethodName:       {Grant: MayGrant},
		meshv1.SkillService_GetSkill_FullMethodName:         {Grant: MayGrant},
		meshv1.SkillService_ListSkillDomains_FullMethodName: {Grant: MayGrant},
		meshv1.SkillService_WatchSkills_FullMethodName:      {Grant: MayGrant},
		meshv1.SkillService_ValidateSkill_FullMethodName:    {Grant: MayGrant},
		meshv1.SkillService_CreateSkill_FullMethodName:      {Action: mesh.ActCreateSkill, Grant: AlsoGrant, Capability: mesh.CapCreateSkill, Audit: true, Resource: "skill.name", Effects: true},
		meshv1.SkillService_DeleteSkill_FullMethodName:      {Action: mesh.ActCreateSkill, Audit: true, Resource: "name"},
		meshv1.SkillService_ReloadSkills_FullMethodName:     {Action: mesh.ActCreateSkill, Audit: true},
		meshv1.SkillService_RunSkill_FullMethodName:         {Action: mesh.ActSkillCall, Resource: "name"},
		meshv1.SkillService_ListSkillRuns_FullMethodName:    {Action: mesh.ActReadOwn},
		meshv1.SkillService_ListBreakers_FullMethodName:     {Action: mesh.ActReadOwn},
		meshv1.SkillService_ResetBreaker_FullMethodName:     {Action: mesh.ActResetBreaker, Audit: true, Resource: "name"},

		meshv1.StateService_GetState_FullMethodName:    {Grant: OnlyGrant, Resource: "kind"},
		meshv1.StateService_PutState_FullMethodName:    {Grant: OnlyGrant, Resource: "kind", Effects: true},
		meshv1.StateService_DeleteState_FullMethodName: {Grant: OnlyGrant, Resource: "kind", Effects: true},
		meshv1.StateService_ListState_FullMethodName:   {Grant: OnlyGrant, Resource: "kind"},

		meshv1.GrantService_RedeemTicket_FullMethodName: {Grant: OnlyTicket},
		meshv1.GrantService_IssueTicket_FullMethodName:  {Grant: OnlyGrant, Settles: true, Resource: "execution_id"},

		meshv1.AccessService_GetAccess_FullMethodName:         {},
		meshv1.AccessService_RevokeUser_FullMethodName:        {Action: mesh.ActAdminTenant, Audit: true, Resource: "user_id"},
		meshv1.AccessService_EraseUser_FullMethodName:         {Action: mesh.ActEraseUser, Audit: true, Resource: "user_id"},
		meshv1.AuditService_ListAuditRecords_FullMethodName:   {Action: mesh.ActReadAudit},
		meshv1.AuditService_FollowAuditRecords_FullMethodName: {Action: mesh.ActReadAudit},
		meshv1.AuditService_ListAuditTrail_FullMethodName:     {Action: mesh.ActReadAudit, Resource: "thread_id"},

		// Who joins has a token of its own, and who renews a certificate.
		meshv1.IdentityService_InviteAgent_FullMethodName:      {Action: mesh.ActAdminTenant, Audit: true, Resource: "name"},
		meshv1.IdentityService_JoinAgent_FullMethodName:        {Open: true},
		meshv1.IdentityService_RenewCertificate_FullMethodName: {Open: true},

		meshv1.NodeService_ListAlarms_FullMethodName:  {Action: mesh.ActAdminNode},
		meshv1.NodeService_BackupData_FullMethodName:  {Action: mesh.ActAdminNode, Audit: true},
		meshv1.NodeService_ListTenants_FullMethodName: {Action: mesh.ActAdminNode},
		// The tenant is the caller's, as the record says.
		meshv1.NodeService_ExportTenant_FullMethodName: {Action: mesh.ActAdminNode, Audit: true},
		meshv1.NodeService_ImportTenant_FullMethodName: {Action: mesh.ActAdminNode, Audit: true},
	}
}
