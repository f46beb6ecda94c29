package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

func (a *app) statusCommand() *cobra.Command {
	var asJSON, ready bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print what a node should read or write and cannot",
		Long: `Print the alarms of the node that answers: what it should read or write and cannot,
such as policies with a mistake, since when, and what it goes on with meanwhile. It
needs the role operator.

With --ready say only whether the node is to be given work, which needs no token: for the health
checks of containers and supervisors. The exit code is 5 while it starts, stops,
cannot write, or has damaged data.`,
		Example: `  mesh status
  mesh status --json
  mesh status --ready --timeout 5s`,
		Args: nothing,
	}
	a.structured(cmd, &asJSON, "print the answer as one line of JSON")
	cmd.Flags().BoolVar(&ready, "ready", false, "say only whether the node is to be given work")
	cmd.MarkFlagsMutuallyExclusive("ready", "json", "output")
	cmd.RunE = a.lookup(func(ctx context.Context, c *client, _ []string) error {
		if ready {
			return a.isReady(ctx, c)
		}
		resp, err := meshv1.NewNodeServiceClient(c.conn).ListAlarms(c.call(ctx, ""), &meshv1.ListAlarmsRequest{})
		switch {
		case err != nil:
			return err
		case asJSON:
			return printAll(a, resp)
		case len(resp.GetAlarms()) == 0:
			a.printf("no alarms\n")
		}
		for _, al := range resp.GetAlarms() {
			a.printf("%s %s: %s\n  %s\n", al.GetSince().AsTime().Format(time.RFC3339), oneLine(alarmOf(al)), oneLine(al.GetMeanwhile()), oneLine(al.GetDetail()))
		}
		return nil
	})
	return cmd
}

// isReady says whether the node is to be given work.
func (a *app) isReady(ctx context.Context, c *client) error {
	resp, err := healthpb.NewHealthClient(c.conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if s := resp.GetStatus(); s != healthpb.HealthCheckResponse_SERVING {
		return mesh.Errorf(mesh.Unavailable, "mesh.status", "the node is not to be given work: %s", s)
	}
	a.printf("ready\n")
	return nil
}

// alarmOf names what an alarm is about.
func alarmOf(al *meshv1.Alarm) string {
	if al.GetOf() == "" {
		return al.GetSetting()
	}
	return al.GetSetting() + " " + al.GetOf()
}
