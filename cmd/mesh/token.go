package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/security/auth"
)

func (a *app) tokenCommand() *cobra.Command {
	return group("token", "Work with bearer tokens", "  mesh token hash <token.txt\n  mesh token explain", a.tokenHashCommand(), a.tokenExplainCommand())
}

func (a *app) tokenHashCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hash",
		Short: "Print the hash of a token for the tokens file",
		Long: `Read a bearer token from stdin and print its hash, as it is written into the
mesh's tokens file. Tokens must be long and random.`,
		Example: `  openssl rand -hex 32 | tee token.txt | mesh token hash`,
		Args:    nothing,
		RunE: a.action(func(context.Context, []string) error {
			const most = 4096
			data, err := io.ReadAll(io.LimitReader(a.stdin, most+1))
			if err != nil {
				return mesh.Errorf(mesh.Invalid, "mesh.token", "stdin cannot be read: %v", err)
			}
			token := strings.TrimSpace(string(data))
			switch {
			case token == "":
				return mesh.InvalidField("mesh.token", "token", "is empty; give it on stdin")
			case len(data) > most, strings.ContainsAny(token, " \t\r\n"):
				return mesh.InvalidField("mesh.token", "token", "must be one word of at most 4 KiB")
			}
			a.printf("%s\n", auth.Hash(token))
			return nil
		}),
	}
}

func (a *app) tokenExplainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say who a token makes one, and what it allows",
		Long: `Ask the mesh who the token of MESH_TOKEN or --token belongs to, until when it
counts, and what its roles allow. Without authentication, the mesh says what
everybody may who can reach it.`,
		Example: `  mesh token explain
  mesh token explain --json`,
		Args: nothing,
		RunE: a.lookup(func(ctx context.Context, c *client, _ []string) error {
			who, err := c.access.GetAccess(c.call(ctx, ""), &meshv1.GetAccessRequest{})
			switch {
			case err != nil:
				return err
			case asJSON:
				return printAll(a, who)
			}
			a.printf("%s", accessTable(who))
			return nil
		}),
	}
	a.structured(cmd, &asJSON, "print all of it, with the methods, as one line of JSON")
	return cmd
}

// accessTable says what a caller may do.
func accessTable(who *meshv1.GetAccessResponse) string {
	expires := "does not expire"
	if t := who.GetExpires(); t != nil {
		expires = "expires " + t.AsTime().Format(time.RFC3339)
	}
	rows := [][2]string{
		{"tenant", who.GetTenantId()}, {"user", who.GetUserId()}, {"credential", "none is needed"},
		{"roles", strings.Join(who.GetRoles(), ", ")}, {"may", strings.Join(who.GetActions(), ", ")},
	}
	if name := who.GetCredential(); name != "" {
		rows[2][1] = name + ", " + expires
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-11s %s\n", r[0], oneLine(r[1]))
	}
	return b.String()
}
