package eventpb

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// bodyToProto sets p.Body. The kinds that a stream is made of come first.
func bodyToProto(p *meshv1.Event, body mesh.Body) {
	switch b := body.(type) {
	case mesh.ArtifactAppended:
		p.Body = &meshv1.Event_ArtifactAppended{ArtifactAppended: &meshv1.ArtifactAppended{
			Artifact: b.Artifact, Append: b.Append, LastChunk: b.LastChunk, Metadata: b.Metadata}}
	case mesh.TaskMoved:
		p.Body = &meshv1.Event_TaskMoved{TaskMoved: &meshv1.TaskMoved{
			State: b.State, Message: b.Message, Reason: b.Reason,
			RemoteTask: b.RemoteTask, RemoteContext: b.RemoteContext, Metadata: b.Metadata, Instance: b.Instance}}
	case mesh.MessagePosted:
		p.Body = &meshv1.Event_MessagePosted{MessagePosted: &meshv1.MessagePosted{
			Message: b.Message, User: b.User, Digest: b.Digest, Permissions: texts[mesh.Role, string](b.Roles), Credential: b.Credential, Exit: b.Exit}}
	case mesh.SkillCalled:
		p.Body = &meshv1.Event_SkillCalled{SkillCalled: &meshv1.SkillCalled{
			Call: b.Call, Skill: b.Skill, Args: b.Args, Source: b.Source, Version: b.Version, NotMade: b.NotMade}}
	case mesh.SkillReturned:
		p.Body = &meshv1.Event_SkillReturned{SkillReturned: &meshv1.SkillReturned{
			Call: b.Call, Failed: b.Failed, Content: b.Content, Files: b.Files,
			Duration: durationToProto(b.Duration), Metadata: b.Metadata, Blameless: b.Blameless}}
	case mesh.ToolReturned:
		p.Body = &meshv1.Event_ToolReturned{ToolReturned: &meshv1.ToolReturned{
			Call: b.Call, Name: b.Name, Failed: b.Failed, Content: b.Content, Cause: string(b.Cause), Delivered: texts[mesh.ExecutionID, string](b.Delivered)}}
	case mesh.ResultsDelivered:
		p.Body = &meshv1.Event_ResultsDelivered{ResultsDelivered: &meshv1.ResultsDelivered{Executions: texts[mesh.ExecutionID, string](b.Executions), Text: b.Text}}
	case mesh.ApprovalAsked:
		p.Body = &meshv1.Event_ApprovalAsked{ApprovalAsked: &meshv1.ApprovalAsked{
			Call: b.Call, Skill: b.Skill, Args: b.Args, Text: b.Text, Version: b.Version}}
	case mesh.ApprovalSettled:
		p.Body = &meshv1.Event_ApprovalSettled{ApprovalSettled: &meshv1.ApprovalSettled{
			Call: b.Call, Approved: b.Approved, Text: b.Text}}
	case mesh.ModelReplied:
		p.Body = &meshv1.Event_ModelReplied{ModelReplied: &meshv1.ModelReplied{
			Model: b.Model, Text: b.Text, Tools: toolsToProto(b.Tools), Usage: usageOrNil(b.Usage), Finish: b.Finish}}
	case mesh.InstructionPosted:
		p.Body = &meshv1.Event_InstructionPosted{InstructionPosted: &meshv1.InstructionPosted{By: b.By, Text: b.Text, Id: b.ID, Read: b.Read}}
	case mesh.DispatchSettled:
		p.Body = &meshv1.Event_DispatchSettled{DispatchSettled: &meshv1.DispatchSettled{
			Child: string(b.Child), State: b.State, Result: b.Result, Reason: b.Reason}}
	case mesh.StateNoted:
		p.Body = &meshv1.Event_StateNoted{StateNoted: &meshv1.StateNoted{Agent: b.Agent, Data: b.Data}}
	case mesh.CancelRequested:
		p.Body = &meshv1.Event_CancelRequested{CancelRequested: &meshv1.CancelRequested{By: b.By, Reason: b.Reason}}
	case mesh.LimitTripped:
		p.Body = &meshv1.Event_LimitTripped{LimitTripped: LimitToProto(b)}
	case mesh.ThreadClaimed:
		p.Body = &meshv1.Event_ThreadClaimed{ThreadClaimed: &meshv1.ThreadClaimed{
			Epoch: int64(b.Epoch), Node: b.Node}}
	case mesh.TaskOpened:
		p.Body = &meshv1.Event_TaskOpened{TaskOpened: &meshv1.TaskOpened{Execution: ExecutionToProto(b.Execution)}}
	case mesh.DispatchAccepted:
		p.Body = &meshv1.Event_DispatchAccepted{DispatchAccepted: &meshv1.DispatchAccepted{
			Child: ExecutionToProto(b.Child), Context: b.Context, Wave: toInt32(b.Wave), Call: b.Call, Answers: b.Answers}}
	case mesh.DispatchIssued:
		p.Body = &meshv1.Event_DispatchIssued{DispatchIssued: &meshv1.DispatchIssued{
			Child: ExecutionToProto(b.Child), Message: b.Message}}
	case mesh.HandoffStarted:
		p.Body = &meshv1.Event_HandoffStarted{HandoffStarted: &meshv1.HandoffStarted{
			From: b.From, To: b.To, Reason: b.Reason, Summary: b.Summary,
			RecentMessages: toInt32(b.RecentMessages), PreserveState: b.PreserveState, ReturnExpected: b.ReturnExpected, ToName: b.ToName,
			Session: durationToProto(b.Session), Resume: b.Resume}}
	case mesh.ThreadShared:
		p.Body = &meshv1.Event_ThreadShared{ThreadShared: &meshv1.ThreadShared{Readable: b.Readable, Participants: b.Participants, Owner: b.Owner}}
	case mesh.HandoffEnded:
		p.Body = &meshv1.Event_HandoffEnded{HandoffEnded: &meshv1.HandoffEnded{
			Started: int64(b.Started), Outcome: string(b.Outcome), Summary: b.Summary, By: b.By,
			Artifacts: ArtifactRefsToProto(b.Artifacts), Stays: b.Stays, Dropped: b.Dropped}}
	}
}

// bodyFromProto returns nil for a body that it does not know.
func bodyFromProto(p *meshv1.Event) mesh.Body {
	switch b := p.Body.(type) {
	case *meshv1.Event_ArtifactAppended:
		v := b.ArtifactAppended
		return mesh.ArtifactAppended{Artifact: v.GetArtifact(), Append: v.GetAppend(),
			LastChunk: v.GetLastChunk(), Metadata: v.GetMetadata()}
	case *meshv1.Event_TaskMoved:
		v := b.TaskMoved
		return mesh.TaskMoved{State: v.GetState(), Message: v.GetMessage(), Reason: v.GetReason(),
			RemoteTask: v.GetRemoteTask(), RemoteContext: v.GetRemoteContext(), Metadata: v.GetMetadata(), Instance: v.GetInstance()}
	case *meshv1.Event_MessagePosted:
		v := b.MessagePosted
		return mesh.MessagePosted{Message: v.GetMessage(), User: v.GetUser(), Digest: v.GetDigest(),
			Roles: rolesOf(v.GetPermissions()), Credential: v.GetCredential(), Exit: v.GetExit()}
	case *meshv1.Event_SkillCalled:
		v := b.SkillCalled
		return mesh.SkillCalled{Call: v.GetCall(), Skill: v.GetSkill(), Args: v.GetArgs(), Source: v.GetSource(), Version: v.GetVersion(), NotMade: v.GetNotMade()}
	case *meshv1.Event_SkillReturned:
		v := b.SkillReturned
		return mesh.SkillReturned{Call: v.GetCall(), Failed: v.GetFailed(), Content: v.GetContent(),
			Files: v.GetFiles(), Duration: v.GetDuration().AsDuration(), Metadata: v.GetMetadata(), Blameless: v.GetBlameless()}
	case *meshv1.Event_ToolReturned:
		v := b.ToolReturned
		return mesh.ToolReturned{Call: v.GetCall(), Name: v.GetName(), Failed: v.GetFailed(), Content: v.GetContent(), Cause: mesh.Cause(v.GetCause()),
			Delivered: texts[string, mesh.ExecutionID](v.GetDelivered())}
	case *meshv1.Event_ResultsDelivered:
		v := b.ResultsDelivered
		return mesh.ResultsDelivered{Executions: texts[string, mesh.ExecutionID](v.GetExecutions()), Text: v.GetText()}
	case *meshv1.Event_ApprovalAsked:
		v := b.ApprovalAsked
		return mesh.ApprovalAsked{Call: v.GetCall(), Skill: v.GetSkill(), Args: v.GetArgs(), Text: v.GetText(), Version: v.GetVersion()}
	case *meshv1.Event_ApprovalSettled:
		v := b.ApprovalSettled
		return mesh.ApprovalSettled{Call: v.GetCall(), Approved: v.GetApproved(), Text: v.GetText()}
	case *meshv1.Event_ModelReplied:
		v := b.ModelReplied
		return mesh.ModelReplied{Model: v.GetModel(), Text: v.GetText(), Tools: toolsFromProto(v.GetTools()),
			Usage: UsageFromProto(v.GetUsage()), Finish: v.GetFinish()}
	case *meshv1.Event_InstructionPosted:
		v := b.InstructionPosted
		return mesh.InstructionPosted{By: v.GetBy(), Text: v.GetText(), ID: v.GetId(), Read: v.GetRead()}
	case *meshv1.Event_DispatchSettled:
		v := b.DispatchSettled
		return mesh.DispatchSettled{Child: mesh.ExecutionID(v.GetChild()), State: v.GetState(),
			Result: v.GetResult(), Reason: v.GetReason()}
	case *meshv1.Event_StateNoted:
		return mesh.StateNoted{Agent: b.StateNoted.GetAgent(), Data: b.StateNoted.GetData()}
	case *meshv1.Event_CancelRequested:
		return mesh.CancelRequested{By: b.CancelRequested.GetBy(), Reason: b.CancelRequested.GetReason()}
	case *meshv1.Event_LimitTripped:
		v := b.LimitTripped
		return mesh.LimitTripped{Limit: v.GetLimit(), Detail: v.GetDetail(), Used: v.GetUsed(), Most: v.GetMost(), Free: timeFromProto(v.GetFree())}
	}
	return decisionFromProto(p)
}

// LimitToProto returns the sent form of a limit that stopped something.
func LimitToProto(b mesh.LimitTripped) *meshv1.LimitTripped {
	return &meshv1.LimitTripped{Limit: b.Limit, Detail: b.Detail, Used: b.Used, Most: b.Most, Free: timeToProto(b.Free)}
}

// decisionFromProto is the rest of bodyFromProto.
func decisionFromProto(p *meshv1.Event) mesh.Body {
	switch b := p.Body.(type) {
	case *meshv1.Event_ThreadClaimed:
		return mesh.ThreadClaimed{Epoch: mesh.Epoch(b.ThreadClaimed.GetEpoch()), Node: b.ThreadClaimed.GetNode()}
	case *meshv1.Event_TaskOpened:
		return mesh.TaskOpened{Execution: ExecutionFromProto(b.TaskOpened.GetExecution())}
	case *meshv1.Event_DispatchAccepted:
		v := b.DispatchAccepted
		return mesh.DispatchAccepted{Child: ExecutionFromProto(v.GetChild()), Context: v.GetContext(), Wave: int(v.GetWave()), Call: v.GetCall(), Answers: v.GetAnswers()}
	case *meshv1.Event_DispatchIssued:
		v := b.DispatchIssued
		return mesh.DispatchIssued{Child: ExecutionFromProto(v.GetChild()), Message: v.GetMessage()}
	case *meshv1.Event_HandoffStarted:
		v := b.HandoffStarted
		return mesh.HandoffStarted{From: v.GetFrom(), To: v.GetTo(), Reason: v.GetReason(), Summary: v.GetSummary(),
			RecentMessages: int(v.GetRecentMessages()), PreserveState: v.GetPreserveState(), ReturnExpected: v.GetReturnExpected(),
			ToName: v.GetToName(), Session: v.GetSession().AsDuration(), Resume: v.GetResume()}
	case *meshv1.Event_ThreadShared:
		v := b.ThreadShared
		return mesh.ThreadShared{Readable: v.GetReadable(), Participants: v.GetParticipants(), Owner: v.GetOwner()}
	case *meshv1.Event_HandoffEnded:
		v := b.HandoffEnded
		return mesh.HandoffEnded{Started: mesh.Seq(v.GetStarted()), Outcome: mesh.HandoffOutcome(v.GetOutcome()),
			Summary: v.GetSummary(), By: v.GetBy(), Artifacts: artifactRefs(v.GetArtifacts()), Stays: v.GetStays(), Dropped: v.GetDropped()}
	}
	return nil
}

// ArtifactRefsToProto encodes references.
func ArtifactRefsToProto(refs []mesh.ArtifactRef) []*meshv1.ArtifactReference {
	var out []*meshv1.ArtifactReference
	for _, r := range refs {
		out = append(out, &meshv1.ArtifactReference{TaskId: string(r.Task), ArtifactId: r.ID, Name: r.Name})
	}
	return out
}

func artifactRefs(refs []*meshv1.ArtifactReference) []mesh.ArtifactRef {
	var out []mesh.ArtifactRef
	for _, r := range refs {
		out = append(out, mesh.ArtifactRef{Task: mesh.ExecutionID(r.GetTaskId()), ID: r.GetArtifactId(), Name: r.GetName()})
	}
	return out
}

// rolesOf reads names of roles, also those of before there were roles. Others that are
// none allow nothing.
func rolesOf(names []string) []mesh.Role {
	out := texts[string, mesh.Role](names)
	for i, name := range names {
		out[i], _ = mesh.RoleOf(name)
	}
	return out
}

// texts converts between kinds of text; nil stays nil.
func texts[A, B ~string](in []A) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i, s := range in {
		out[i] = B(s)
	}
	return out
}

// ExecutionToProto returns the execution as a message. Counts beyond 32 bits
// become the largest that fits.
func ExecutionToProto(x mesh.Execution) *meshv1.Execution {
	p := &meshv1.Execution{
		Id: string(x.ID), Parent: string(x.Parent), Kind: string(x.Kind), Agent: x.Agent, User: x.User,
		Label: x.Label, Text: x.Text, Skills: x.Skills,
		MaxToolCalls: toInt32(x.MaxToolCalls), Deadline: timeToProto(x.Deadline), Budget: BudgetToProto(x.Budget),
		Context: x.Context, Traceparent: x.Traceparent, Dry: x.Dry,
	}
	for _, d := range x.DependsOn {
		p.DependsOn = append(p.DependsOn, string(d))
	}
	return p
}

// ExecutionFromProto returns the execution that the message describes; the zero
// one for nil.
func ExecutionFromProto(p *meshv1.Execution) mesh.Execution {
	x := mesh.Execution{
		ID: mesh.ExecutionID(p.GetId()), Parent: mesh.ExecutionID(p.GetParent()), Kind: mesh.Kind(p.GetKind()),
		Agent: p.GetAgent(), User: p.GetUser(), Label: p.GetLabel(), Text: p.GetText(), Skills: p.GetSkills(),
		MaxToolCalls: int(p.GetMaxToolCalls()), Deadline: timeFromProto(p.GetDeadline()),
		Budget:  mesh.Budget{Calls: p.GetBudget().GetCalls(), Tokens: p.GetBudget().GetTokens(), Cost: p.GetBudget().GetCostMicrodollars(), Agents: p.GetBudget().GetAgents()},
		Context: p.GetContext(), Traceparent: p.GetTraceparent(), Dry: p.GetDry(),
	}
	for _, d := range p.GetDependsOn() {
		x.DependsOn = append(x.DependsOn, mesh.ExecutionID(d))
	}
	return x
}

// BudgetToProto returns the budget as a message; nil for one without limits.
func BudgetToProto(b mesh.Budget) *meshv1.Budget {
	if b == (mesh.Budget{}) {
		return nil
	}
	return &meshv1.Budget{Calls: b.Calls, Tokens: b.Tokens, CostMicrodollars: b.Cost, Agents: b.Agents}
}

// UsageToProto returns the usage as a message.
func UsageToProto(u mesh.Usage) *meshv1.Usage {
	return &meshv1.Usage{Prompt: u.Prompt, Completion: u.Completion, Cached: u.Cached,
		CacheWrite: u.CacheWrite, Cost: u.Cost, Unpriced: u.Unpriced}
}

// UsageFromProto returns the usage that the message describes; none for nil.
func UsageFromProto(p *meshv1.Usage) mesh.Usage {
	return mesh.Usage{Prompt: p.GetPrompt(), Completion: p.GetCompletion(), Cached: p.GetCached(),
		CacheWrite: p.GetCacheWrite(), Cost: p.GetCost(), Unpriced: p.GetUnpriced()}
}

func usageOrNil(u mesh.Usage) *meshv1.Usage {
	if u == (mesh.Usage{}) {
		return nil
	}
	return UsageToProto(u)
}

func toolsToProto(tools []mesh.ToolUse) []*meshv1.ToolUse {
	var out []*meshv1.ToolUse
	for _, t := range tools {
		out = append(out, &meshv1.ToolUse{Id: t.ID, Name: t.Name, Arguments: t.Arguments})
	}
	return out
}

func toolsFromProto(tools []*meshv1.ToolUse) []mesh.ToolUse {
	var out []mesh.ToolUse
	for _, t := range tools {
		out = append(out, mesh.ToolUse{ID: t.GetId(), Name: t.GetName(), Arguments: t.GetArguments()})
	}
	return out
}

func durationToProto(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func toInt32(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
