// Package mesh holds the nouns of agentmesh: threads, events, executions,
// principals, grants and errors. It does nothing; the packages below mesh/ do.
//
// # The story of a message
//
// A person's message reaches the edge (package edge), which is an A2A server.
// The edge finds out who is calling (package rpc), claims the thread (package
// lease), appends [MessagePosted] and [TaskOpened] to the thread's log (package
// threadlog), and only then answers. A turn, detached from the caller, issues a
// dispatch ([DispatchIssued]) to the thread's active agent, opens its A2A
// stream, and logs what comes back: [ArtifactAppended], [TaskMoved].
//
// The agent runs in the agent runtime (package agent), in this process or in
// another one. It sees the mesh only through the mesh.v1 services, under the
// [Grant] that the node issued for its execution. It may call skills (package
// skill), each announced in the log before it happens ([SkillCalled]), where the
// node counts it (package limit); dispatch other agents (package dispatch); or
// start a handoff (package handoff), upon which the edge opens the target's
// stream and goes on writing into the same task of the user. A call that needs
// the user's word ([ApprovalAsked]) leaves the task waiting, and happens after the
// next message.
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
