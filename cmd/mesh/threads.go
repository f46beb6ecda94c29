package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

func (a *app) threadsCommand() *cobra.Command {
	return group("threads", "List, show, follow, export, import and delete conversations, and act on their agents", "  mesh threads list",
		a.threadsListCommand(), a.threadsShowCommand(), a.threadsFollowCommand(), a.threadsDownloadCommand(), a.threadsExportCommand(), a.threadsImportCommand(), a.threadsShareCommand(), a.threadsDeleteCommand(), a.threadsCancelCommand(), a.threadsTellCommand())
}

func (a *app) threadsListCommand() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tenant's threads, the last touched first",
		Example: `  mesh threads list
  mesh threads list --limit 0 --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return fmt.Errorf("--limit must not be negative, and is %d", limit)
			}
			return nothing(cmd, args)
		},
		RunE: a.lookup(func(ctx context.Context, c *client, _ []string) error {
			list, err := c.listThreads(ctx, limit)
			if err != nil {
				return err
			}
			if asJSON {
				return printAll(a, list...)
			}
			a.printf("%s", threadTable(list))
			return nil
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "list at most this `many`; 0 lists all")
	a.structured(cmd, &asJSON, "print each thread as one line of JSON")
	return cmd
}

// listThreads asks for pages until limit threads are there, or all for 0.
func (c *client) listThreads(ctx context.Context, limit int) ([]*meshv1.Thread, error) {
	const page = 100
	var list []*meshv1.Thread
	req := &meshv1.ListThreadsRequest{PageSize: page}
	for {
		if limit > 0 {
			req.PageSize = int32(min(page, limit-len(list))) // #nosec G115 -- at most page
		}
		resp, err := c.threads.ListThreads(c.call(ctx, ""), req)
		if err != nil {
			return nil, err
		}
		list = append(list, resp.GetThreads()...)
		req.PageToken = resp.GetNextPageToken()
		if req.PageToken == "" || limit > 0 && len(list) >= limit {
			return list, nil
		}
	}
}

func (a *app) threadsShowCommand() *cobra.Command {
	var asJSON, tree, follow bool
	var thread, execution string
	check := a.threadArg(&thread)
	cmd := &cobra.Command{
		Use:   "show [ID]",
		Short: "Print a conversation and who worked on it, or one agent's result",
		Long: `Print a conversation: what was said, what the agents did, and the tree of executions.

With the id of an execution, print that one: its state, its calls of skills, and its result.

With --tree, print the executions alone: who was asked by whom and for what, its state
and why, how long it takes, its tokens, cost and calls, alone and with all below it, each
call of a skill, and after whom it came. With --follow too, print what becomes of them
until nobody works any more.`,
		Example: `  mesh threads show 550e8400-e29b-41d4-a716-446655440000
  mesh threads show --thread 550e8400-e29b-41d4-a716-446655440000 --json
  mesh threads show 550e8400-e29b-41d4-a716-446655440000 --tree --follow
  mesh threads show 550e8400e29b41d4a716446655440000-2f1c9b6a7d3e4f50`,
		ValidArgsFunction: a.offer(threadNames),
		Args: func(cmd *cobra.Command, args []string) error {
			one := len(args) == 1 && isExecution(args[0])
			switch {
			case follow && !tree:
				return errors.New("--follow is for --tree; 'mesh threads follow' prints events")
			case one && tree:
				return errors.New("--tree is for a thread, and the argument is an execution; leave --tree away")
			case one:
				return a.executionArgs(&thread, &execution, 0)(cmd, args)
			}
			return check(cmd, args)
		},
		RunE: a.lookupOrFollow(&follow, func(ctx context.Context, c *client, _ []string) error {
			if execution != "" {
				return a.showExecution(ctx, c, thread, execution, asJSON)
			}
			if tree {
				return a.showTree(ctx, c, thread, follow, asJSON)
			}
			resp, err := c.threads.GetThread(c.call(ctx, thread), &meshv1.GetThreadRequest{ThreadId: thread})
			if err != nil {
				return err
			}
			if asJSON {
				return printAll(a, resp.GetThread())
			}
			a.printf("%s\n", threadHead(resp.GetThread()))
			t := new(transcript)
			for ev, err := range c.events(ctx, thread, false) {
				if err != nil {
					return err
				}
				a.printf("%s", t.add(ev))
			}
			a.printf("%s%s", t.end(), executionTree(resp.GetThread()))
			return nil
		}),
	}
	a.structured(cmd, &asJSON, "print what the thread adds up to as one line of JSON; of a tree, each execution as one; of an execution, what is known of it")
	cmd.Flags().BoolVar(&tree, "tree", false, "print the executions, with their calls, states and cost")
	cmd.Flags().BoolVar(&follow, "follow", false, "with --tree: until nobody works any more")
	return cmd
}

func (a *app) threadsFollowCommand() *cobra.Command {
	var after int64
	var asJSON bool
	var thread string
	check := a.threadArg(&thread)
	cmd := &cobra.Command{
		Use:   "follow [ID]",
		Short: "Print the events of a thread as they happen",
		Long: `Print the events of a thread, first those that there are and then each new one,
until Ctrl-C. A connection that breaks is made again; no event is printed twice.`,
		Example: `  mesh threads follow 550e8400-e29b-41d4-a716-446655440000
  mesh threads follow 550e8400-e29b-41d4-a716-446655440000 --after 12 --json`,
		ValidArgsFunction: a.offer(threadNames),
		Args: func(cmd *cobra.Command, args []string) error {
			if after < 0 {
				return fmt.Errorf("--after must not be negative, and is %d", after)
			}
			return check(cmd, args)
		},
		RunE: a.stream(func(ctx context.Context, c *client, _ []string) error {
			for ev, err := range c.followThread(ctx, thread, after) {
				if err != nil {
					return timeUp(ctx, err)
				}
				if !asJSON {
					a.printf("%s\n", eventLine(ev))
				} else if err := printAll(a, ev); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().Int64Var(&after, "after", 0, "only events after this `seq`")
	a.structured(cmd, &asJSON, "print each event as one line of JSON")
	return cmd
}

// lookupOrFollow is a look-up, or, where it follows, goes on for as long as it takes.
func (a *app) lookupOrFollow(follow *bool, do func(context.Context, *client, []string) error) func(*cobra.Command, []string) error {
	once, long := a.lookup(do), a.stream(do)
	return func(cmd *cobra.Command, args []string) error {
		if *follow {
			return long(cmd, args)
		}
		return once(cmd, args)
	}
}

// threadArg takes the thread from the argument or from --thread into id.
func (a *app) threadArg(id *string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		given := a.flags.thread
		switch {
		case len(args) > 1:
			return fmt.Errorf("the thread's id is one argument, and there are %d", len(args))
		case len(args) == 1 && given != "":
			return errors.New("the thread is named twice; leave --thread away")
		case len(args) == 1:
			given = args[0]
		case given == "":
			return errors.New("the thread's id is missing; 'mesh threads list' shows them")
		}
		var err error
		*id, err = parseThread("the thread's id", given)
		return err
	}
}

// events yields the thread's events as they are now, in order; in brief, without
// the midst of long output.
func (c *client) events(ctx context.Context, thread string, brief bool) iter.Seq2[*meshv1.Event, error] {
	return func(yield func(*meshv1.Event, error) bool) {
		req := &meshv1.ReadThreadRequest{ThreadId: thread, Limit: 1000, Brief: brief}
		for {
			resp, err := c.threads.ReadThread(c.call(ctx, thread), req)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, ev := range resp.GetEvents() {
				req.AfterSeq = ev.GetSeq()
				if !yield(ev, nil) {
					return
				}
			}
			if !resp.GetMore() || len(resp.GetEvents()) == 0 {
				return
			}
		}
	}
}

// followThread yields the thread's events after the Seq and then each new one. A
// connection that breaks is made again.
func (c *client) followThread(ctx context.Context, thread string, after int64) iter.Seq2[*meshv1.Event, error] {
	return func(yield func(*meshv1.Event, error) bool) {
		for try := 0; ; try++ {
			before := after
			err := c.followOnce(ctx, thread, &after, yield)
			if err == nil {
				return
			}
			if after != before {
				try = 0
			}
			// The end of the stream without an error is a break: the mesh ends.
			broken := errors.Is(err, io.EOF) || mesh.IsCode(err, mesh.Unavailable)
			if ctx.Err() != nil || !broken || try >= retries {
				yield(nil, c.followError(err))
				return
			}
			if err := c.reconnect(ctx, try); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// followOnce reads one stream. It returns nil when yield wants no more.
func (c *client) followOnce(ctx context.Context, thread string, after *int64, yield func(*meshv1.Event, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.threads.FollowThread(c.call(ctx, thread), &meshv1.FollowThreadRequest{ThreadId: thread, AfterSeq: *after})
	if err != nil {
		return err
	}
	for {
		resp, err := stream.Recv()
		if err != nil {
			return err
		}
		*after = resp.GetEvent().GetSeq()
		if !yield(resp.GetEvent(), nil) {
			return nil
		}
	}
}

// followError is what is told when following ends for good.
func (c *client) followError(err error) error {
	if errors.Is(err, io.EOF) || mesh.IsCode(err, mesh.Unavailable) && c.down() {
		return mesh.Errorf(mesh.Unavailable, "mesh.follow", "lost the connection to %s; go on with --after the last seq: %w",
			c.app.flags.addr, err)
	}
	return err
}
