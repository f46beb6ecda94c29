package telemetry

import "go.opentelemetry.io/otel/attribute"

// The names under which others find what is told, all of them here: those of
// OpenTelemetry's semantic conventions, of which the ones for generative AI (gen_ai, status
// Development, v1.41) may still change, and our own, which begin with "agentmesh.".

// Attributes of OpenTelemetry.
const (
	keyService  = attribute.Key("service.name")
	keyVersion  = attribute.Key("service.version")
	keyInstance = attribute.Key("service.instance.id")

	keyRPCSystem = attribute.Key("rpc.system.name")
	keyRPCMethod = attribute.Key("rpc.method")
	keyRPCStatus = attribute.Key("rpc.response.status_code")
	keyErrorType = attribute.Key("error.type")

	keyOperation     = attribute.Key("gen_ai.operation.name")
	keyAgentID       = attribute.Key("gen_ai.agent.id")
	keyAgentName     = attribute.Key("gen_ai.agent.name")
	keyConversation  = attribute.Key("gen_ai.conversation.id")
	keyModel         = attribute.Key("gen_ai.request.model")
	keyInputTokens   = attribute.Key("gen_ai.usage.input_tokens")
	keyOutputTokens  = attribute.Key("gen_ai.usage.output_tokens")
	keyCacheRead     = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	keyCacheCreation = attribute.Key("gen_ai.usage.cache_creation.input_tokens")
	keyTokenType     = attribute.Key("gen_ai.token.type")
	keyTool          = attribute.Key("gen_ai.tool.name")
	keyToolType      = attribute.Key("gen_ai.tool.type")
	keyToolCall      = attribute.Key("gen_ai.tool.call.id")

	// Content, which is told only when the operator wants it.
	keyInput      = attribute.Key("gen_ai.input.messages")
	keyOutput     = attribute.Key("gen_ai.output.messages")
	keyToolArgs   = attribute.Key("gen_ai.tool.call.arguments")
	keyToolResult = attribute.Key("gen_ai.tool.call.result")
)

// Attributes of ours.
const (
	keyTenant    = attribute.Key("agentmesh.tenant")
	keyExecution = attribute.Key("agentmesh.execution.id")
	keyKind      = attribute.Key("agentmesh.execution.kind") // turn, agent or handoff
	keyLabel     = attribute.Key("agentmesh.execution.label")
	keyState     = attribute.Key("agentmesh.state")
	keyReason    = attribute.Key("agentmesh.reason")
	keySource    = attribute.Key("agentmesh.skill.source")
	keyOutcome   = attribute.Key("agentmesh.outcome")
	keyStep      = attribute.Key("agentmesh.model.step")
	keyCost      = attribute.Key("agentmesh.model.cost") // US dollars
	keyLimit     = attribute.Key("agentmesh.limit")
	keyRule      = attribute.Key("agentmesh.rule")
	keyAgent     = keyAgentName
	keySkill     = keyTool
)

// Values of attributes.
const (
	opAgent  = "invoke_agent"
	opChat   = "chat"
	opTool   = "execute_tool"
	system   = "grpc"
	toolType = "function"
	input    = "input"
	output   = "output"
	// other stands for values that a metric has no room for.
	other = "_OTHER"
)

// Metrics.
const (
	metricRPC        = "rpc.server.call.duration"
	metricModel      = "gen_ai.client.operation.duration"
	metricTokens     = "gen_ai.client.token.usage"
	metricCalls      = "agentmesh.model.calls"
	metricCost       = "agentmesh.model.cost"
	metricTurn       = "agentmesh.turn.duration"
	metricRunning    = "agentmesh.turns.running"
	metricWaiting    = "agentmesh.turns.waiting"
	metricFirstChunk = "agentmesh.turn.time_to_first_chunk"
	metricAgent      = "agentmesh.agent.duration"
	metricSkill      = "agentmesh.skill.duration"
	metricLimit      = "agentmesh.limit.trips"
	metricCommit     = "agentmesh.log.commit.duration"
	metricEvents     = "agentmesh.log.events"
	metricUnchecked  = "agentmesh.log.unchecked"
	metricKept       = "agentmesh.tenant.bytes"
	metricDropped    = "agentmesh.telemetry.dropped"
	metricDeleted    = "agentmesh.retention.deleted"
)

// scope is the name under which the spans and metrics are made.
const scope = "agentmesh"
