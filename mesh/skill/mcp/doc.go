// Package mcp connects the mesh with the Model Context Protocol
// (modelcontextprotocol.io), in both directions: the tools of MCP servers become
// skills, and the skills of the mesh are the tools of an MCP server.
//
// # Servers of others
//
// [Open] takes the operator's servers, processes that talk over their standard
// streams or endpoints of streamable HTTP. [Servers.Run] connects to them,
// offers their tools as skills named SERVER.TOOL to a [Sink], follows their
// changes, and connects again, with growing pauses, to a server that died or
// was not there: no server keeps the mesh or another server waiting.
// [Servers.Handlers] are what runs these skills. While a server is away its
// skills stay, and calls of them fail as Unavailable.
//
// The name of a skill depends only on the names of the tools that its server
// has, so that all processes of a mesh give a tool the same name.
//
// What a server says is data. Descriptions become one line, and what else is
// kept of them is quoted; results keep no control characters and no fences of
// commands; sizes are bounded. A process gets the environment that it is given,
// PATH and HOME, and a process group of its own, of which nothing is left when
// Run returns. Headers, with the secrets in them, go to the configured origin
// alone; redirects are not followed.
//
// # The mesh as a server
//
// [NewHandler] serves the skills of a [Backend] over HTTP, in sessions to clients whose
// version of the protocol has them, and [Serve] over one connection. Each request is
// served under its own identity, which whoever mounts the handler has put into the
// request's context. Answering, asking users and all that versions differ in is the
// SDK's own dispatch.
//
// # What may run concurrently
//
// Handlers of skills and of HTTP requests, with each other and with Run.
//
// # What it is not
//
// It decides nothing about a call: scope, approval, limits, retries and audit
// are the business of package skill and of the mesh. It serves and uses tools,
// no other features of the protocol: a tool of a server that asks for input from a
// person or a model gets none.
package mcp
