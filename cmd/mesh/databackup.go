package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/backup"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
	"agentmesh/mesh/text"
)

func (a *app) backupCommand() *cobra.Command {
	var data string
	var unverified bool
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy the data folder of a mesh, also while it serves",
		Long: `Copy the data folder of the mesh at --addr into DIR on this machine, while it serves;
or, with --data, that of a mesh that does not run. It has all that was acknowledged
before it began: conversations, values, the record, files of skills, and the keys of the
mesh. Whoever has it can act as the mesh: keep it as secret as the folder. Skills,
documents and settings that are kept elsewhere are not in it.

DIR is made by it, and is there only when it is whole and was verified; before, and after
Ctrl-C or a kill, there is no DIR. It has data/ and backup.json, which says what it is, with
the SHA-256 of each file.

It takes the role operator, and is in the record of administrative acts. One is made at a
time.`,
		Example: `  mesh data backup /backups/mesh-2026-11-27
  mesh data backup /backups/mesh-2026-11-27 --data /var/lib/mesh`,
		Args: exactly("DIR"),
	}
	cmd.Flags().StringVar(&data, "data", "", "the `folder` of a mesh that does not run, in place of one that does")
	cmd.Flags().BoolVar(&unverified, "no-verify", false, "also keep the copy of a folder that is damaged")
	online := a.stream(func(ctx context.Context, c *client, args []string) error {
		return a.backUp(args[0], unverified, func(take backup.Take) error { return c.backUp(ctx, take) })
	})
	offline := a.action(func(ctx context.Context, args []string) error {
		info, _ := debug.ReadBuildInfo()
		made := &meshv1.BackupManifest{Program: versionOf(info), Node: data}
		return a.backUp(args[0], unverified, func(take backup.Take) error { return datafolder.Backup(ctx, data, made, take) })
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if data != "" {
			return offline(cmd, args)
		}
		return online(cmd, args)
	}
	return cmd
}

// backUp has the pieces of make written to the folder.
func (a *app) backUp(dir string, unverified bool, pieces func(backup.Take) error) (err error) {
	f, err := backup.Create(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Abandon()) }() // after Done it does nothing
	if err := pieces(a.watched(f)); err != nil {
		return err
	}
	var v *datafolder.Verified
	m, err := f.Done(func(data string) error {
		if unverified {
			return nil
		}
		a.progress("verifying")
		v, err = datafolder.VerifyAll(data)
		if err != nil {
			return unreadable("mesh.data", "--data", data, err)
		}
		if n := a.findings(v); n > 0 {
			return mesh.Errorf(mesh.Precondition, "mesh.data", "the folder that was copied is damaged (findings: %d), and nothing was kept; restore an older backup, or keep this one with --no-verify", n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	what := "not verified"
	if v != nil {
		what = fmt.Sprintf("%d events and %d records verified", v.Events, v.Records)
	}
	a.printf("%s: %d files, %s, as of %s; %s\nit has the keys of the mesh: keep it as secret as the data folder\n",
		dir, len(m.GetFiles()), text.Size(backup.Size(m)), m.GetTime().AsTime().Format(time.RFC3339), what)
	return nil
}

// backUp asks the mesh for a backup.
func (c *client) backUp(ctx context.Context, take backup.Take) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := meshv1.NewNodeServiceClient(c.conn).BackupData(c.call(ctx, ""), &meshv1.BackupDataRequest{})
	for err == nil {
		var piece *meshv1.BackupDataResponse
		piece, err = stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = take(piece)
		}
	}
	return timeUp(ctx, err)
}

// watched is the folder's Take, of which a person hears who watches.
func (a *app) watched(f *backup.Folder) backup.Take {
	told := a.now()
	return func(p *meshv1.BackupDataResponse) error {
		err := f.Take(p)
		if now := a.now(); now.Sub(told) >= time.Second {
			told = now
			taken, total := f.Progress()
			a.progress("copied %s of about %s", text.Size(taken), text.Size(total))
		}
		return err
	}
}

func (a *app) restoreCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Make a data folder of a backup",
		Long: `Make the data folder --data of the backup in DIR, which is left as it is. All files of
the backup are compared with what its backup.json says first; if one is another, it is
named and nothing is made. The folder must not be there, or be empty, and is there only
when it is whole; what a kill leaves beside it, as FOLDER.partial, is no mesh, and goes
with the next try.

The mesh is then what it was when the backup was made: what was deleted since is there
again, and tokens and users that were revoked since may count again. Do not run it beside
the one that it is a copy of.`,
		Example: `  mesh data restore /backups/mesh-2026-11-27 --data /var/lib/mesh`,
		Args:    exactly("DIR"),
	}
	cmd.Flags().StringVar(&data, "data", node.DefaultData, "the data `folder` to make (MESH_DATA)")
	cmd.RunE = a.action(func(ctx context.Context, args []string) error {
		if !cmd.Flags().Changed("data") {
			data = a.env("MESH_DATA", data)
		}
		return a.restore(ctx, args[0], data)
	})
	return cmd
}

func (a *app) restore(ctx context.Context, dir, data string) (err error) {
	f, err := backup.Restore(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Abandon()) }() // after Done it does nothing
	if err := a.checked(dir); err != nil {
		return err
	}
	take := a.watched(f)
	err = backup.Read(dir, func(p *meshv1.BackupDataResponse) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return take(p)
	})
	if err != nil {
		return err
	}
	m, err := f.Done(nil)
	if err != nil {
		return err
	}
	a.printf("%s: %d files, %s, as of %s\n", data, len(m.GetFiles()), text.Size(backup.Size(m)), m.GetTime().AsTime().Format(time.RFC3339))
	return nil
}

// checked returns an error if a file of the backup is not what was copied, and prints which.
func (a *app) checked(dir string) error {
	_, found, err := backup.Check(dir)
	if err != nil {
		return err
	}
	for _, f := range found {
		a.printf("%s: %s\n", oneLine(f.Path), oneLine(f.What))
	}
	if len(found) > 0 {
		return mesh.Errorf(mesh.Precondition, "mesh.data", "the backup %s is damaged: %s %s (findings: %d); use another backup", dir, found[0].Path, found[0].What, len(found))
	}
	return nil
}

func (a *app) verifyDataCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Say whether a data folder, or a backup, is damaged",
		Long: `Look at all of a data folder that no mesh uses, or of a backup, and change nothing: at
the hashes of events and of the record of administrative acts, at values and at keys; of a
backup, at all files. What is damaged is printed with its place: the file, or the tenant,
thread and event. To look at the folder of a mesh that runs, make a backup of it.

'mesh audit verify' also compares with checkpoints that were kept elsewhere.

The exit code is 0 if nothing is damaged, 1 if something is, 2 for wrong usage, 3 if there
is no such folder and 5 if a mesh uses it.`,
		Example: `  mesh data verify --data /var/lib/mesh
  mesh data verify --data /backups/mesh-2026-11-27`,
		Args: nothing,
	}
	cmd.Flags().StringVar(&data, "data", node.DefaultData, "the data `folder` or the backup (MESH_DATA)")
	cmd.RunE = a.action(func(context.Context, []string) error {
		if !cmd.Flags().Changed("data") {
			data = a.env("MESH_DATA", data)
		}
		return a.verifyData(data)
	})
	return cmd
}

func (a *app) verifyData(dir string) error {
	const op = "mesh.data"
	folder := dir
	if backup.Is(dir) {
		if err := a.checked(dir); err != nil {
			return err
		}
		folder = filepath.Join(dir, backup.Data)
	} else if err := datafolder.Unused(dir); mesh.IsCode(err, mesh.Precondition) {
		return mesh.Errorf(mesh.Unavailable, op, "%s; or verify a backup of it, as 'mesh data backup' makes one: %w", mesh.DetailOf(err), err)
	} else if err != nil {
		return err
	}
	v, err := datafolder.VerifyAll(folder)
	if err != nil {
		return unreadable(op, "--data", folder, err)
	}
	if n := a.findings(v); n > 0 {
		return mesh.Errorf(mesh.Precondition, op, "%s is damaged (findings: %d); keep it as it is, and restore a backup", dir, n)
	}
	a.printf("%s: %d events and %d records were looked at, and nothing is damaged\n", dir, v.Events, v.Records)
	return nil
}

// findings prints what was found, and returns how much that is.
func (a *app) findings(v *datafolder.Verified) int {
	for _, f := range v.Findings {
		a.printf("%s: %s\n", f.Where, oneLine(f.What))
	}
	return len(v.Findings)
}
