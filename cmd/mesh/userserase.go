package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

func (a *app) usersEraseCommand() *cobra.Command {
	var dry, yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "erase USER",
		Short: "Remove what the mesh keeps of a user, for good",
		Long: `Remove what the mesh keeps of a user of the tenant, for good: the user's work is
canceled; the user's conversations go, also those that others take part in, and the user
leaves those of others, in which what was said stays; then skills that the user made with
their schedules, webhooks, agents that the user registered, memories, tasks, mail,
calendar, files and notes. At the end the user's credentials do not count any more. While
it is on, nothing is begun for the user.

It says what would go, and asks at a terminal; elsewhere it needs --yes, and removes
nothing without. With --dry-run it only says what would go. What was cut off is finished
when it is run again; a second time it finds nothing. It takes the role tenant-admin.

What stays: the record of who erased whom and how much, with ids; what users of the tenant
share; what agents keep for themselves; entries of the token file and accounts of
providers, which are the operator's to remove.`,
		Example: `  mesh users erase alice --dry-run
  mesh users erase corp:alice --yes
  mesh users erase alice --yes --json`,
		Args: exactly("USER"),
	}
	f := cmd.Flags()
	f.BoolVar(&dry, "dry-run", false, "only say what would be removed")
	f.BoolVar(&yes, "yes", false, "remove, and ask nobody")
	a.structured(cmd, &asJSON, "print the answer as one line of JSON")
	cmd.RunE = a.stream(func(ctx context.Context, c *client, args []string) error {
		return c.eraseUser(ctx, args[0], dry, yes, asJSON)
	})
	return cmd
}

func (c *client) eraseUser(ctx context.Context, user string, dry, yes, asJSON bool) error {
	a := c.app
	told := func(what string, all *meshv1.EraseUserResponse) error {
		if asJSON {
			return printAll(a, all)
		}
		if len(all.GetErased()) == 0 {
			what = "nothing of %s is kept"
		}
		a.printf(what+"\n", oneLine(user))
		for _, e := range all.GetErased() {
			a.printf("  %s: %d\n", oneLine(e.GetKind()), e.GetCount())
		}
		return nil
	}
	if dry || !yes {
		would, err := c.access.EraseUser(c.call(ctx, ""), &meshv1.EraseUserRequest{UserId: user, CountOnly: true})
		if err != nil {
			return err
		}
		if dry {
			return told("of %s would be removed:", would)
		}
		if !asJSON {
			if err := told("of %s is kept:", would); err != nil {
				return err
			}
		}
		if err := a.agrees(ctx, false, fmt.Sprintf("Remove all of it, and end the credentials of %s, for good?", oneLine(user))); err != nil {
			return err
		}
	}
	all, err := c.erasePages(ctx, user)
	if err != nil {
		switch mesh.CodeOf(err) {
		case mesh.Invalid, mesh.Denied, mesh.Unauthenticated: // nothing was begun
		default:
			a.notef("if it was begun, what is left of %s goes when this is run again; until then nothing is begun for that user\n", oneLine(user))
		}
		return err
	}
	return told("removed of %s:", all)
}

// erasePages erases until there is no more, and returns what was removed in all.
func (c *client) erasePages(ctx context.Context, user string) (*meshv1.EraseUserResponse, error) {
	all, at := new(meshv1.EraseUserResponse), map[string]*meshv1.Erased{}
	for more := true; more; {
		page, err := c.access.EraseUser(c.call(ctx, ""), &meshv1.EraseUserRequest{UserId: user})
		if err != nil {
			return all, err
		}
		for _, e := range page.GetErased() {
			if sum := at[e.GetKind()]; sum != nil {
				sum.Count += e.GetCount()
				continue
			}
			at[e.GetKind()] = e
			all.Erased = append(all.Erased, e)
		}
		if more = page.GetMore(); more {
			c.app.progress("removed %d conversations so far", int(at["threads"].GetCount()))
		}
	}
	return all, nil
}
