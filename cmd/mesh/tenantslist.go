package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

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
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "TENANT\tTHREADS\tLOG BYTES\tFILE BYTES\tQUOTA\tUSED") // a builder takes all
	for _, t := range all {
		quota, used := "none", "-"
		if n := t.GetQuotaBytes(); n > 0 {
			quota, used = fmt.Sprint(n), fmt.Sprintf("%.1f %%", 100*t.GetUsed())
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", oneLine(t.GetTenant()), t.GetThreads(), t.GetLogBytes(), t.GetFileBytes(), quota, used)
	}
	_ = w.Flush()
	return b.String()
}
