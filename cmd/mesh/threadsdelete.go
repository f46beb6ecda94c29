package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
)

func (a *app) threadsDeleteCommand() *cobra.Command {
	var thread, before string
	var yes bool
	one := a.threadArg(&thread)
	cmd := &cobra.Command{
		Use:     "delete [ID]",
		Aliases: []string{"remove", "rm"},
		Short:   "Delete a conversation, or all that are old, for good",
		Long: `Delete a conversation with all that is kept of it, for good; or, with --before, all
conversations of the tenant that you may read and whose last event is older than a date
or an age. Those on which an agent is at work stay.

It says what would go, and asks at a terminal; elsewhere it needs --yes, and deletes
nothing without. It takes the role thread-deleter or tenant-admin. Ctrl-C ends it; what is
deleted by then is.`,
		Example: `  mesh threads delete 550e8400-e29b-41d4-a716-446655440000 --yes
  mesh threads delete --before 90d
  mesh threads delete --before 2026-01-01 --yes`,
		ValidArgsFunction: a.offer(threadNames),
		Args: func(cmd *cobra.Command, args []string) error {
			if before == "" {
				return one(cmd, args)
			}
			if len(args) > 0 || a.flags.thread != "" {
				return errors.New("give the id of a thread, or --before, and not both")
			}
			_, err := parseWhen("--before", before, time.Time{})
			return err
		},
	}
	cmd.Flags().StringVar(&before, "before", "", "all whose last event is before this `date`, as 2026-01-01, or older than this age, as 90d or 36h")
	cmd.Flags().BoolVar(&yes, "yes", false, "delete, and ask nobody")
	cmd.RunE = a.stream(func(ctx context.Context, c *client, _ []string) error {
		if before != "" {
			until, err := parseWhen("--before", before, a.now())
			if err != nil {
				return err
			}
			return c.deleteBefore(ctx, until, yes)
		}
		if err := a.agrees(ctx, yes, "Delete the conversation "+thread+" for good?"); err != nil {
			return err
		}
		if _, err := c.threads.DeleteThread(c.call(ctx, thread), &meshv1.DeleteThreadRequest{ThreadId: thread}); err != nil {
			return err
		}
		a.printf("deleted conversation %s\n", thread)
		return nil
	})
	return cmd
}

// parseWhen is the time that a date, in the place of now, or an age means, of the flag.
func parseWhen(flag, s string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	if age, err := node.ParseAge(s); err == nil {
		return now.Add(-age), nil
	}
	return time.Time{}, fmt.Errorf("%s must be a date such as 2026-01-01, or an age such as 90d or 36h, and is %q", flag, mesh.Clip(s, 40))
}

// agrees asks the person at the terminal, unless they have said yes on the command line.
func (a *app) agrees(ctx context.Context, yes bool, question string) error {
	const op = "mesh.agrees"
	if yes {
		return nil
	}
	if !a.asks {
		return mesh.InvalidField(op, "--yes", "is needed where nobody can be asked; nothing was deleted")
	}
	a.notef("%s [y/N] ", question)
	lines, stop := readLines(a.stdin)
	defer stop()
	select {
	case l := <-lines:
		if answer := strings.ToLower(strings.TrimSpace(l.Text)); l.Err == nil && (answer == "y" || answer == "yes") {
			return nil
		}
		return mesh.Errorf(mesh.Precondition, op, "nothing was deleted")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deleteBefore deletes the conversations that nobody has touched since.
func (c *client) deleteBefore(ctx context.Context, until time.Time, yes bool) error {
	a := c.app
	would, atWork, err := c.deletePages(ctx, &meshv1.DeleteThreadsRequest{Before: timestamppb.New(until), CountOnly: true, PageSize: 1000}, func(n int) {
		a.progress("found %d so far", n)
	})
	if err != nil {
		return err
	}
	since := until.Format(time.DateTime)
	a.printf("%s not been touched since %s%s\n", conversations(would, "has", "have"), since, stay(atWork))
	if would == 0 {
		return nil
	}
	if err := a.agrees(ctx, yes, fmt.Sprintf("Delete %s for good?", conversations(would, "", ""))); err != nil {
		return err
	}
	done, atWork, err := c.deletePages(ctx, &meshv1.DeleteThreadsRequest{Before: timestamppb.New(until)}, func(n int) {
		a.progress("deleted %d of %d", n, would)
	})
	if err != nil { // and perhaps some of the page that was cut off
		a.printf("deleted %s before that\n", conversations(done, "", ""))
		return err
	}
	a.printf("deleted %s%s\n", conversations(done, "", ""), stay(atWork))
	return nil
}

// deletePages asks for page after page, and returns how many conversations were deleted, or
// counted, and how many were left because an agent is at work on them; also with an error.
func (c *client) deletePages(ctx context.Context, req *meshv1.DeleteThreadsRequest, progress func(int)) (done, atWork int, err error) {
	for {
		page, cancel := context.WithTimeout(ctx, lookupTimeout)
		resp, err := c.threads.DeleteThreads(c.call(page, ""), req)
		cancel()
		if err != nil {
			return done, atWork, err
		}
		done, atWork = done+int(resp.GetDeleted()), atWork+int(resp.GetAtWork())
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return done, atWork, nil
		}
		progress(done)
	}
}

// progress tells a person who watches how far something is, each time on a line.
func (a *app) progress(format string, args ...any) {
	if a.watches {
		a.notef(format+"\n", args...)
	}
}

// conversations is so many of them, with a verb behind.
func conversations(n int, one, many string) string {
	if n == 1 {
		return strings.TrimSpace("1 conversation " + one)
	}
	return strings.TrimSpace(fmt.Sprintf("%d conversations %s", n, many))
}

// stay says how many stay.
func stay(atWork int) string {
	if atWork == 0 {
		return ""
	}
	return fmt.Sprintf("; %s, for agents are at work", conversations(atWork, "stays", "stay"))
}
