package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"agentmesh/mesh"
	"agentmesh/mesh/security/auth"
)

func (a *app) tokenCommand() *cobra.Command {
	return group("token", "Work with bearer tokens", "  mesh token hash <token.txt", a.tokenHashCommand())
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
