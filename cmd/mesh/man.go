package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the pages that packages install: there are as many as commands, and
// they say what --help says.
func (a *app) manCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Hidden: true,
		Short:  "Write manual pages of all commands into a folder",
		Long: `Write a manual page of each command into the folder, which 'man' reads: mesh.1,
mesh-up.1 and so on. They bear the date SOURCE_DATE_EPOCH, in seconds, or today's.`,
		Example: `  mesh man ~/.local/share/man/man1`,
		Args:    exactly("the folder"),
		RunE: a.action(func(_ context.Context, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			info, _ := debug.ReadBuildInfo()
			root.DisableAutoGenTag = true // it has the day, and who made the generator
			header := &doc.GenManHeader{Section: "1", Source: "mesh " + versionOf(info), Manual: "agentmesh"}
			return doc.GenManTree(root, header, args[0])
		}),
	}
}
