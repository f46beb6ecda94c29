package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
)

func (a *app) usersCommand() *cobra.Command {
	return group("users", "End what users may do, and remove what is theirs", "  mesh users revoke alice\n  mesh users erase alice --dry-run", a.usersRevokeCommand(), a.usersEraseCommand())
}

func (a *app) usersRevokeCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke USER",
		Short: "Have the credentials of a user not count any more",
		Long: `Have all credentials of a user of the tenant not count that were issued until now:
tokens of providers, and tokens of the file whose not_before is not later. Within
seconds their streams end, and agents that work for the user begin nothing more. The
user logs in again to go on. It takes the role tenant-admin; credentials of operators
only an operator ends.`,
		Example: `  mesh users revoke alice
  mesh users revoke corp:alice --json`,
		Args: exactly("USER"),
	}
	a.structured(cmd, &asJSON, "print the answer as one line of JSON")
	cmd.RunE = a.lookup(func(ctx context.Context, c *client, args []string) error {
		resp, err := c.access.RevokeUser(c.call(ctx, ""), &meshv1.RevokeUserRequest{UserId: args[0]})
		switch {
		case err != nil:
			return err
		case asJSON:
			return printAll(a, resp)
		}
		a.printf("credentials of %s that were issued until %s do not count\n", oneLine(args[0]), resp.GetRevokedAt().AsTime().Format(time.RFC3339))
		return nil
	})
	return cmd
}
