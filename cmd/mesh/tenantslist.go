package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
)

func (a *app) tenantsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print how much is kept of each tenant's conversations",
		Long: `Print of each tenant how many conversations it has, the bytes of their events in the log and of
their files, how many bytes these may have together (quotas.tenant.bytes), and the share that
is used. It takes the role operator.`,
		Example: `  mesh tenants list
  mesh tenants list --json`,
		Args: nothing,
	}
	a.structured(cmd, &asJSON, "print each tenant as one line of JSON")
	cmd.RunE = a.lookup(func(ctx context.Context, c *client, _ []string) error {
		resp, err := meshv1.NewNodeServiceClient(c.conn).ListTenants(c.call(ctx, ""), &meshv1.ListTenantsRequest{})
		switch {
		case err != nil:
			return err
		case asJSON:
			return printAll(a, resp.GetTenants()...)
		case len(resp.GetTenants()) == 0:
			a.printf("no tenant has a conversation\n")
			return nil
		}
		a.printf("%s", tenantTable(resp.GetTenants()))
		return nil
	})
	return cmd
}

// tenantTable has a line for each tenant.
func tenantTable(all []*meshv1.TenantUsage) string {
	rows := [][]string{{"TENANT", "THREADS", "LOG BYTES", "FILE BYTES", "QUOTA", "USED"}}
	for _, t := range all {
		quota, used := "none", "-"
		if n := t.GetQuotaBytes(); n > 0 {
			quota, used = fmt.Sprint(n), fmt.Sprintf("%.1f %%", 100*t.GetUsed())
		}
		rows = append(rows, []string{t.GetTenant(), fmt.Sprint(t.GetThreads()), fmt.Sprint(t.GetLogBytes()), fmt.Sprint(t.GetFileBytes()), quota, used})
	}
	return table(rows)
}
