package main

import (
	"context"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
)

func (a *app) skillsDeleteCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a skill that the mesh keeps for your tenant",
		Long: `Delete a skill that the mesh keeps for your tenant: one of 'mesh skills new --mesh' or of
the skill builder. Runs that have begun end as they would. A skill of the folder that all
share is deleted with its file, and one of the binary stays.

It asks at a terminal; elsewhere it needs --yes, and deletes nothing without. It takes the
role skill-author.`,
		Example:           `  mesh skills delete workflows.late_tasks --yes`,
		ValidArgsFunction: a.offer(skillNames),
		Args:              exactly("the skill's name"),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "delete, and ask nobody")
	cmd.RunE = a.stream(func(ctx context.Context, c *client, args []string) error {
		if err := a.agrees(ctx, yes, "Delete the skill "+oneLine(args[0])+"?"); err != nil {
			return err
		}
		if _, err := c.skills.DeleteSkill(c.call(ctx, a.flags.thread), &meshv1.DeleteSkillRequest{Name: args[0]}); err != nil {
			return err
		}
		a.printf("deleted the skill %s\n", oneLine(args[0]))
		return nil
	})
	return cmd
}
