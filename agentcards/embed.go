// Package agentcards holds the A2A cards of the agents that the mesh brings
// along: one file NAME.json for the agent NAME.
//
// Cards say what agents are, not where: the runtime that serves an agent adds
// its address. What they say to a mesh (handoff, triggers, workflow states) is
// in the params of the extension [agentmesh/mesh.ExtensionURI].
//
// The package only carries the files; package registry reads and checks them.
package agentcards

import "embed"

// FS has the cards, as NAME.json.
//
//go:embed *.json
var FS embed.FS
