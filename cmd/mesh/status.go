package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
)

func (a *app) statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print what a node should read or write and cannot",
		Long: `Print the alarms of the node that answers: what it should read or write and cannot,
such as policies with a mistake, since when, and what it goes on with meanwhile. It
needs the role operator.`,
		Example: `  mesh status
  mesh status --json`,
		Args: nothing,
	}
	a.structured(cmd, &asJSON, "print the answer as one line of JSON")
	cmd.RunE = a.lookup(func(ctx context.Context, c *client, _ []string) error {
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

// alarmOf names what an alarm is about.
func alarmOf(al *meshv1.Alarm) string {
	if al.GetOf() == "" {
		return al.GetSetting()
	}
	return al.GetSetting() + " " + al.GetOf()
}
