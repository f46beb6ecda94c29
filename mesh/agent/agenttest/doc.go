// Package agenttest is what tests of agents share: a small node behind real gRPC, the
// events of a conversation, and a desk, which is an agent with skills that a user
// talks to.
//
// A [Node] may be used concurrently; its fields are for the test, under Mu while it is
// served.
package agenttest
