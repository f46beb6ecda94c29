package main

import (
	"context"
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	mcptools "agentmesh/mesh/bind/mcp"
	"agentmesh/mesh/skill/mcp"
)

// mcpCommand is an MCP server on the standard streams, for programs that start one.
func (a *app) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Offer the mesh's skills to an MCP client that starts this command",
		Long: `mcp is an MCP server on stdin and stdout: a client that starts it, as desktop
clients do, has the skills of the mesh at --addr as tools, with your credentials:
MESH_TOKEN, or what 'mesh login' keeps. It ends when stdin does.

Each call is a turn of a thread, with its log. A call that the client cancels is
cancelled in the mesh. What needs your approval is asked in the client, if it can
ask, and your answer is a message of yours in that thread.

Enter it into the client's configuration as a server with the command mesh and the
argument mcp; where the client wants JSON:

  {"mcpServers": {"mesh": {"command": "mesh", "args": ["mcp"],
    "env": {"MESH_ADDR": "127.0.0.1:7420", "MESH_TOKEN": "..."}}}}`,
		Example: "  mesh mcp\n  mesh mcp --addr grpcs://mesh.example.com:7420",
		Args:    nothing,
		RunE:    a.action(func(ctx context.Context, args []string) error { return a.connected(ctx, args, serveMCP) }),
	}
}

// serveMCP is 'mesh mcp'.
func serveMCP(ctx context.Context, c *client, _ []string) error {
	a := c.app
	if err := c.welcome(ctx); err != nil { // clients show nobody why a tool fails
		return err
	}
	in, ok := a.stdin.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(a.stdin)
	}
	info, _ := debug.ReadBuildInfo()
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return mcp.Serve(c.call(ctx, a.flags.thread), mcptools.Remote(c.conn), in, unclosed{a.stdout}, mcp.HandlerOptions{Version: versionOf(info), Logger: log})
}

// welcome returns why the mesh would not let the caller in, or nil.
func (c *client) welcome(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	_, err := c.access.GetAccess(c.call(ctx, ""), &meshv1.GetAccessRequest{})
	return err
}

// unclosed is a writer that others may close in vain.
type unclosed struct{ io.Writer }

// Close implements [io.Closer].
func (unclosed) Close() error { return nil }
