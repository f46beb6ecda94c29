package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
	"agentmesh/mesh/security/auth"
	"agentmesh/skills/calendar"
	"agentmesh/skills/files"
	"agentmesh/skills/mail"
	"agentmesh/skills/markdown"
	"agentmesh/skills/memory"
	"agentmesh/skills/tasks"
)

// fromShared is, as an owner, what all users of a tenant share.
const fromShared = "shared"

func (a *app) dataCommand() *cobra.Command {
	return group("data", "Back up, restore, verify and rebuild a data folder, and give what is in it to others",
		"  mesh data backup /backups/mesh-2026-11-27\n  mesh data restore /backups/mesh-2026-11-27 --data /var/lib/mesh\n  mesh data verify --data /var/lib/mesh\n  mesh data chown local ann",
		a.backupCommand(), a.restoreCommand(), a.verifyDataCommand(), a.rebuildCommand(), a.chownCommand())
}

func (a *app) chownCommand() *cobra.Command {
	var file string
	var kinds []string
	flags := &node.Config{}
	cmd := &cobra.Command{
		Use:   "chown FROM TO",
		Short: "Give a user what another one has, or what all share",
		Long: `chown moves mail, files, notes, events, tasks and memories, and makes TO the
owner of conversations, also for what is asked there and not answered yet, and of
skills with their schedules, in the data folder of a mesh that does not run.

FROM is a user, or "shared" for what all users of the tenant share, or "local" for
all that was kept under auth none: that is both what is shared and what the user
local has. TO is a user. --tenant names the tenant.

Nothing is replaced: where TO has another file of a name, the one that comes gets
~moved into its own. What was cut short is finished when it is run again.`,
		Example: `  mesh data chown local ann
  mesh data chown shared ann --data /var/lib/mesh --tenant acme
  mesh data chown bob ann --kind crm`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("FROM and TO are two arguments, and there are %d", len(args))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.Data, "data", node.DefaultData, "`folder` of the store and of what skills write (MESH_DATA)")
	f.StringVar(&file, "config", "", "configuration `file` (default mesh.yaml, if it is there)")
	f.StringArrayVar(&kinds, "kind", nil, "also values of that `kind`, as agents of your own keep them; may be repeated")
	cmd.RunE = a.raw(func(ctx context.Context, args []string) error {
		cfg, err := a.config(cmd, file, flags)
		if err != nil {
			return err
		}
		return a.chown(ctx, cfg, args[0], args[1], kinds)
	})
	return cmd
}

func (a *app) chown(ctx context.Context, cfg node.Config, from, to string, kinds []string) error {
	switch {
	case from == "" || to == "" || to == fromShared:
		return mesh.InvalidField("mesh.data", "TO", "must be a user, as must FROM, which may be %q too", fromShared)
	case from == to:
		return mesh.InvalidField("mesh.data", "TO", "is %s, as FROM; name another user", to)
	}
	tenant := mesh.TenantID(orText(a.flags.tenant, string(mesh.DefaultTenant)))
	owners := []string{from}
	switch from {
	case fromShared:
		owners = []string{""}
	case auth.LocalUser:
		owners = []string{"", from}
	}
	logger, err := a.logger(cfg.LogLevel)
	if err != nil {
		return err
	}
	var all []datafolder.Moved
	for _, of := range owners {
		moved, err2 := chown(ctx, cfg, mesh.Owner{Tenant: tenant, User: of}, mesh.Owner{Tenant: tenant, User: to}, kinds, logger)
		all = append(all, moved...)
		if err = err2; err != nil {
			break
		}
	}
	if len(all) > 0 || err == nil { // what was moved before an error is told too
		a.printMoved(all, from, to)
	}
	return err
}

func (a *app) printMoved(all []datafolder.Moved, from, to string) {
	counts, order := map[string]int{}, []string(nil)
	for _, m := range all {
		if counts[m.What] += m.Count; !slices.Contains(order, m.What) && counts[m.What] > 0 {
			order = append(order, m.What)
		}
	}
	if len(order) == 0 {
		a.printf("nothing of %s is left to give to %s\n", from, to)
	}
	for _, what := range order {
		a.printf("%s: %d\n", what, counts[what])
	}
}

// mark is in the names of files of which their new owner has others.
const mark = "moved"

func chown(ctx context.Context, cfg node.Config, from, to mesh.Owner, kinds []string, logger *slog.Logger) ([]datafolder.Moved, error) {
	return datafolder.Chown{
		Data: cfg.Data, From: from, To: to, Kinds: slices.Concat([]string{tasks.Kind, memory.Kind}, kinds),
		Merge: func(kind, name string, had, more []byte) ([]byte, error) {
			switch {
			case kind == memory.Kind:
				return memory.Merge(to.User, name, had, more)
			case kind == tasks.Kind:
				return tasks.Merge(name, had, more)
			case had != nil:
				return nil, mesh.Errorf(mesh.Precondition, "mesh.data", "both have a value %q of the kind %s; have its agent remove one", name, kind)
			}
			return more, nil
		},
		Files: func() (moved []datafolder.Moved, err error) {
			for _, s := range []struct {
				what, dir string
				move      func(dir string, from, to mesh.Owner, mark string) (int, error)
			}{
				{"mail", cfg.Data, mail.Chown}, {"calendar", cfg.Data, calendar.Chown},
				{"files", filepath.Join(cfg.Data, filesFolder), files.Chown}, {"notes", filepath.Join(cfg.Data, vaultFolder), markdown.Chown},
			} {
				n, err := s.move(s.dir, from, to, mark)
				if moved = append(moved, datafolder.Moved{What: s.what, Count: n}); err != nil {
					return moved, err
				}
			}
			dir := filepath.Join(cfg.Data, memoryFolder)
			return moved, errors.Join(memory.Forget(dir, from), memory.Forget(dir, to))
		},
	}.Run(ctx, logger)
}

// unclaimed are the domains of which something is where all users of a tenant share it,
// and which they do not share any more.
func unclaimed(cfg *node.Config, keptShared bool) []string {
	has := map[string]bool{
		"mail": mail.Shared(cfg.Data), "calendar": calendar.Shared(cfg.Data), "files": files.Shared(filepath.Join(cfg.Data, filesFolder)),
		"markdown": markdown.Shared(filepath.Join(cfg.Data, vaultFolder)), "tasks": keptShared,
	}
	return slices.DeleteFunc(node.UserData(), func(domain string) bool { return !has[domain] || cfg.Shares(domain) })
}
