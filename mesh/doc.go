// Package mesh holds the nouns of agentmesh: threads, events, executions,
// principals, grants and errors. It does nothing; the packages below mesh/ do.
//
// # The story of a message
//
// A person's message comes in over a binding (packages a2a, rest, jsonrpc and v03)
// and reaches the edge (package edge), once it is known who is calling (package rpc).
// The edge takes it: it appends [MessagePosted] and [TaskOpened] to the thread's log
// (package threadlog), and only then answers. The node that holds the thread's lease
// (package lease) drives the turn, detached from the caller (package turn): it claims
// the thread ([ThreadClaimed]), issues a dispatch ([DispatchIssued]) to the thread's
// active agent, opens that agent's A2A stream (package call), and logs what comes
// back: [ArtifactAppended], [TaskMoved].
//
// The agent runs in the agent runtime (package agent), in this process or in another
// one. It sees the mesh only through the mesh.v1 services (package api), under the
// [Grant] that the node issued for its execution. It may call skills (package skill),
// each announced in the log before it happens ([SkillCalled]), where it is counted
// (packages admission and limit); dispatch other agents (package dispatch), which are called the
// same way; or start a handoff (package handoff), upon which the turn goes on with the
// target's stream in the same task of the user. A call that needs the user's word
// ([ApprovalAsked]) leaves the task waiting, and happens after the next message.
//
// A skill that is run by name, by its schedule or over MCP (packages runs and
// mcp) is such a message too, which needs no model.
//
// The user's stream is a reader of the log, as everything else is: whoever
// comes back with a cursor reads on from there.
//
// # What may run concurrently
//
// The types here are values. Events that were read from a log are shared and
// are never changed.
package mesh
