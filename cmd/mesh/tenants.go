package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

func (a *app) tenantsCommand() *cobra.Command {
	return group("tenants", "List what is kept of tenants, and bring all of one to another mesh", "  mesh tenants list\n  mesh tenants export acme acme.jsonl\n  mesh tenants import acme.jsonl --addr other:7420",
		a.tenantsListCommand(), a.tenantsExportCommand(), a.tenantsImportCommand())
}

func (a *app) tenantsExportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export TENANT FILE",
		Short: "Write what is kept of a tenant into a file, which can be imported",
		Long: `Write what the mesh keeps of the tenant into FILE, while it serves: conversations with all
their events, values as memories and tasks, mail, calendar, files and notes, skills with
their schedules, and records of runs. A FILE of - is the standard output. Each conversation
and each file is as it was at one moment. FILE is there only when it is whole; what a kill
leaves is FILE.partial, which the next try replaces.

What only this mesh can use is left out, and said: webhooks and agents, with their secrets.
Nothing of another tenant is in it, and no key of the mesh. It has all that users said: keep
it secret. It takes the role operator, and is in the record of administrative acts.`,
		Example: `  mesh tenants export acme acme.jsonl
  mesh tenants export acme - >acme.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("TENANT and FILE are two arguments, and there are %d", len(args))
			}
			return a.actFor("TENANT", args[0])
		},
		RunE: a.stream(func(ctx context.Context, c *client, args []string) error {
			if args[1] == "-" {
				_, err := c.exportTenant(ctx, a.stdout)
				return err
			}
			var end *meshv1.TenantEnd
			err := wholeFile(args[1], func(w io.Writer) (err error) {
				end, err = c.exportTenant(ctx, w)
				return err
			})
			if err != nil {
				return err
			}
			a.printf("%s: %d conversations with %d events\n", args[1], end.GetThreads(), end.GetEvents())
			a.tellHeld(end.GetThings(), end.GetLeft())
			return nil
		}),
	}
}

// actFor has the command act for the tenant that its argument names, as --tenant does.
func (a *app) actFor(arg, tenant string) error {
	if err := mesh.TenantID(tenant).Validate(); err != nil {
		return mesh.InvalidField("mesh.tenants", arg, "%s", mesh.DetailOf(err))
	}
	if is := a.flags.tenant; is != "" && is != tenant {
		return mesh.InvalidField("mesh.tenants", "--tenant", "is %s, and the command is about %s; leave it out", is, tenant)
	}
	a.flags.tenant = tenant
	return nil
}

// tellHeld prints how many things there are, and what is left out.
func (a *app) tellHeld(things []*meshv1.TenantHeld, left []*meshv1.TenantLeft) {
	for _, h := range things {
		a.printf("  %s: %d\n", oneLine(h.GetStore()), h.GetCount())
	}
	for _, l := range left {
		a.printf("left out: %d %s: %s\n", l.GetCount(), oneLine(l.GetKind()), oneLine(l.GetWhy()))
	}
}

// wholeFile writes a file that is there only when all of it is written, and on the disk.
func wholeFile(name string, write func(io.Writer) error) error {
	unwritable := func(err error) error {
		return mesh.InvalidField("mesh.tenants", "FILE", "cannot be written: %v", err)
	}
	if _, err := os.Lstat(name); err == nil {
		return mesh.InvalidField("mesh.tenants", "FILE", "%s is there already; name another one", name)
	}
	f, err := os.OpenFile(filepath.Clean(name+".partial"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return unwritable(err)
	}
	if err := write(f); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return errors.Join(unwritable(err), os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return unwritable(err)
	}
	return nil
}

func (a *app) tenantsImportCommand() *cobra.Command {
	var asJSON bool
	var head fileHead
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Bring a tenant here that was exported",
		Long: `Bring the tenant here that 'mesh tenants export' wrote into FILE, from another mesh or from
this one. The tenant must have nothing here: it is an error if it does, unless that is of the
same FILE. FILE is read to its end and compared with its checksum before anything is sent.

When it is cut off, by a kill of this command or of the mesh, run it again: what is there
already is passed over. Once all is there, to run it again does nothing.

Conversations keep their ids, times and authors; tasks that were not over end as FAILED, and
nothing goes on by itself. Schedules run from their next due time on: end them where the
tenant was, or they run in both. It takes the role operator.`,
		Example: `  mesh tenants import acme.jsonl
  mesh tenants import acme.jsonl --addr other:7420 --json`,
		Args: exactly("FILE"),
	}
	a.structured(cmd, &asJSON, "print what came of it as one line of JSON")
	send := a.stream(func(ctx context.Context, c *client, args []string) error {
		res, err := c.importTenant(ctx, args[0])
		switch {
		case err != nil:
			return err
		case asJSON:
			return printAll(a, res)
		}
		a.printf("imported %s: %d conversations", head.Tenant, res.GetThreads())
		if n := res.GetThreadsBefore(); n > 0 {
			a.printf(", of which %d were here already", n)
		}
		a.printf("\n")
		if res.GetDoneBefore() {
			a.printf("all of it was imported before, and nothing was done\n")
		}
		if n := res.GetEnded(); n > 0 {
			a.printf("%d tasks were not over, and are FAILED now\n", n)
		}
		a.tellHeld(res.GetThings(), res.GetLeft())
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if head, err = checkTenantFile(args[0]); err != nil {
			return err
		}
		if err := a.actFor("tenantId", head.Tenant); err != nil {
			return err
		}
		return send(cmd, args)
	}
	return cmd
}

// exportTenant writes the tenant of the client into w, and returns what it has.
func (c *client) exportTenant(ctx context.Context, w io.Writer) (*meshv1.TenantEnd, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := meshv1.NewNodeServiceClient(c.conn).ExportTenant(c.call(ctx, ""), &meshv1.ExportTenantRequest{})
	if err != nil {
		return nil, err
	}
	out, told, n := newLines(w), c.app.now(), 0
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, mesh.Errorf(mesh.Unavailable, "mesh.export", "the mesh ended before its end; export again")
		}
		if err != nil {
			return nil, timeUp(ctx, err)
		}
		p := res.GetPiece()
		if err := out.piece(p); err != nil {
			return nil, err
		}
		if p.GetThread() != nil {
			n++
		}
		if now := c.app.now(); now.Sub(told) >= time.Second {
			told = now
			c.app.progress("exported %d conversations", n)
		}
		if end := p.GetEnd(); end != nil {
			return end, out.end()
		}
	}
}

// importTenant sends the tenant in the file.
func (c *client) importTenant(ctx context.Context, name string) (*meshv1.ImportTenantResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := meshv1.NewNodeServiceClient(c.conn).ImportTenant(c.call(ctx, ""))
	if err != nil {
		return nil, err
	}
	told, n := c.app.now(), 0
	_, err = tenantPieces(name, func(p *meshv1.TenantPiece) error {
		if p.GetThread() != nil {
			n++
		}
		if now := c.app.now(); now.Sub(told) >= time.Second {
			told = now
			c.app.progress("sent %d conversations", n)
		}
		return stream.Send(&meshv1.ImportTenantRequest{Piece: p})
	})
	if err != nil && !errors.Is(err, io.EOF) { // which the mesh says the reason of
		return nil, err
	}
	res, err := closeAndRecv(stream)
	if err != nil {
		return nil, timeUp(ctx, err)
	}
	return res, nil
}

func closeAndRecv(stream grpc.ClientStreamingClient[meshv1.ImportTenantRequest, meshv1.ImportTenantResponse]) (*meshv1.ImportTenantResponse, error) {
	res, err := stream.CloseAndRecv()
	if err != nil {
		return nil, fmt.Errorf("%w; what came is there, and running it again goes on", err)
	}
	return res, nil
}
