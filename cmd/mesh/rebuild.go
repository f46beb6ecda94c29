package main

import (
	"context"

	"github.com/spf13/cobra"

	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
)

func (a *app) rebuildCommand() *cobra.Command {
	var file string
	flags := &node.Config{}
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Make the index and the lists of conversations of the log again, and check the log",
		Long: `rebuild makes mesh.index and mesh.rows of mesh.log again, in the data folder of a mesh
that does not run, and checks all that is in the log. A mesh does so itself when it starts
and a file is missing or damaged; nothing that was said is in these files alone.

It repairs nothing: what is damaged in the log stays as it is, and so does mesh.index
then, without which no mesh starts on such a log. 'mesh data verify' says what is damaged.`,
		Example: `  mesh data rebuild --data /var/lib/mesh`,
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&flags.Data, "data", node.DefaultData, "`folder` of the store and of what skills write (MESH_DATA)")
	f.StringVar(&file, "config", "", "configuration `file` (default mesh.yaml, if it is there)")
	cmd.RunE = a.raw(func(ctx context.Context, _ []string) error {
		cfg, err := a.config(cmd, file, flags)
		if err != nil {
			return err
		}
		logger, err := a.logger(cfg.LogLevel)
		if err != nil {
			return err
		}
		events, err := datafolder.Rebuild(ctx, cfg.Data, logger)
		if err != nil {
			return err
		}
		a.printf("the index of %d events was made, and all of the log was checked\n", events)
		return nil
	})
	return cmd
}
