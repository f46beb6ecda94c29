package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// usedBy is of what there are sums.
var usedBy = []string{"day", "user", "agent", "model", "thread", "tenant"}

// usedOptions are the flags of 'mesh usage'.
type usedOptions struct {
	by, since, until, of string
	limit                int32
	json                 bool
}

func (a *app) usageCommand() *cobra.Command {
	o := usedOptions{}
	req := &meshv1.ListUsageRequest{}
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Print what models used and cost, by day, user, agent, model or conversation",
		Long: `Print what models used and what that cost: what was used for you or, for those who may read
all conversations of the tenant, for all its users; by tenant, for operators. Days are those of
UTC. It is kept for 400 days, also of conversations that were deleted since; by conversation, of
those that there are. Tokens of models without a price (model.prices) cost nothing here.`,
		Example: `  mesh usage
  mesh usage --by model --since 7d
  mesh usage --by user --since 2026-01-01 --until 2026-01-31 -o json
  mesh usage --by agent --of bob`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if err = nothing(cmd, args); err == nil {
				err = o.fill(req, a.now())
			}
			return err
		},
		RunE: a.lookup(func(ctx context.Context, c *client, _ []string) error {
			resp, err := c.threads.ListUsage(c.call(ctx, ""), req)
			switch {
			case err != nil:
				return err
			case o.json:
				return printAll(a, append(resp.GetSums(), resp.GetTotal())...)
			case len(resp.GetSums()) == 0:
				a.printf("no model was used\n")
				return nil
			}
			a.printf("%s", usageTable(o.by, resp))
			return nil
		}),
	}
	a.structured(cmd, &o.json, "print each sum as one line of JSON, and last that of all")
	flags := cmd.Flags()
	flags.StringVar(&o.by, "by", "day", "what there is a line for: `what` is day, user, agent, model, thread or, for operators, tenant")
	flags.StringVar(&o.since, "since", "30d", "from that `date` on, as 2026-01-01, or from so long ago, as 7d")
	flags.StringVar(&o.until, "until", "", "up to that `date`, or so long ago")
	flags.StringVar(&o.of, "of", "", "only what the `user` of that name used")
	flags.Int32Var(&o.limit, "limit", 100, "print at most this `many`; the others are in the sum")
	fixed(cmd, "by", usedBy)
	return cmd
}

// fill makes the request of the flags.
func (o *usedOptions) fill(req *meshv1.ListUsageRequest, now time.Time) error {
	if !slices.Contains(usedBy, o.by) {
		return fmt.Errorf("--by must be %s, and is %q", strings.Join(usedBy, ", "), mesh.Clip(o.by, 40))
	}
	if o.limit < 1 || o.limit > 1000 {
		return fmt.Errorf("--limit must be 1 to 1000, and is %d", o.limit)
	}
	req.By, req.UserId, req.Limit = o.by, o.of, o.limit
	for _, at := range []struct {
		flag, value string
		to          **timestamppb.Timestamp
	}{{"--since", o.since, &req.Since}, {"--until", o.until, &req.Until}} {
		if at.value == "" {
			continue
		}
		t, err := parseWhen(at.flag, at.value, now.UTC())
		if err != nil {
			return err
		}
		*at.to = timestamppb.New(t)
	}
	return nil
}

// usageTable has a line for each sum, and one for all.
func usageTable(by string, resp *meshv1.ListUsageResponse) string {
	rows := [][]string{{strings.ToUpper(by), "REPLIES", "PROMPTS", "ANSWERS", "COST", "WITHOUT PRICE"}}
	line := func(name string, s *meshv1.UsageSum) {
		u := s.GetUsage()
		rows = append(rows, []string{name, grouped(s.GetReplies()), grouped(u.GetPrompt()), grouped(u.GetCompletion()), dollars(u.GetCost()), grouped(u.GetUnpriced())})
	}
	for _, s := range resp.GetSums() {
		name := s.GetKey()
		if name == "" {
			name = "-"
		}
		line(name, s)
	}
	if n := resp.GetLeftOut(); n > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %s more", grouped(int64(n))), "", "", "", "", ""})
	}
	line("all", resp.GetTotal())
	return table(rows)
}
