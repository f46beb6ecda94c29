package main

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
)

func (a *app) threadsShareCommand() *cobra.Command {
	var thread string
	var with, without []string
	var readable, asJSON bool
	cmd := &cobra.Command{
		Use:   "share [ID]",
		Short: "Say who may see a conversation",
		Long: `Say who may see a conversation of yours, and print who may. Those with whom it is
shared take part: they read it, send messages and cancel tasks. What a task asks,
only the user answers who opened it. With --readable, everybody in the tenant may
read it. What is not named stays as it is.`,
		Example: `  mesh threads share 550e8400-e29b-41d4-a716-446655440000 --with bob --with eve
  mesh threads share 550e8400-e29b-41d4-a716-446655440000 --without eve --readable=false`,
		ValidArgsFunction: a.offer(threadNames),
		Args:              a.threadArg(&thread),
	}
	cmd.Flags().StringArrayVar(&with, "with", nil, "this `user` takes part from now on; may be given several times")
	cmd.Flags().StringArrayVar(&without, "without", nil, "this `user` takes part no more; may be given several times")
	cmd.Flags().BoolVar(&readable, "readable", false, "everybody in the tenant may read it")
	a.structured(cmd, &asJSON, "print the thread as one line of JSON")
	cmd.RunE = a.lookup(func(ctx context.Context, c *client, _ []string) error {
		req := &meshv1.ShareThreadRequest{ThreadId: thread, Add: with, Remove: without}
		if cmd.Flags().Changed("readable") {
			req.Readable = proto.Bool(readable)
		}
		resp, err := c.threads.ShareThread(c.call(ctx, thread), req)
		if err != nil {
			return err
		}
		th := resp.GetThread()
		if asJSON {
			return printAll(a, th)
		}
		a.printf("thread %s of %s is shared with %s\n", th.GetThreadId(), oneLine(th.GetOwner()), withWhom(th.GetReadable(), th.GetParticipants()))
		return nil
	})
	return cmd
}
