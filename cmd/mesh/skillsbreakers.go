package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

func (a *app) skillsBreakersCommand() *cobra.Command {
	var reset string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "breakers",
		Short: "List the skills that are stopped because they keep failing, and let one go on",
		Long: `List the skills whose last call failed, with the state of their breakers:

  closed     the skill is called; so many calls of it in a row have failed
  open       it failed too often: calls are refused until the time of the next call
  half open  one call is let through, and decides

Skills that work are not listed. With --reset, the failures of one skill are
forgotten, and it is called again at once; agents at work notice within two
seconds. That needs the role skill-author.`,
		Example: `  mesh skills breakers
  mesh skills breakers --json
  mesh skills breakers --reset mail.send`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return errors.New("a skill is named with --reset NAME; without it, all skills that fail are listed")
			case reset == "" && cmd.Flags().Changed("reset"):
				return errors.New("--reset needs the name of a skill")
			}
			return nil
		},
		RunE: a.lookup(func(ctx context.Context, c *client, _ []string) error {
			if reset != "" {
				return c.resetBreaker(ctx, reset, asJSON)
			}
			list, err := c.listBreakers(ctx)
			switch {
			case err != nil:
				return err
			case asJSON:
				return printAll(a, list...)
			}
			a.printf("%s", breakerTable(list, a.now()))
			return nil
		}),
	}
	cmd.Flags().StringVar(&reset, "reset", "", "let the skill of this `name` be called again")
	a.structured(cmd, &asJSON, "print each breaker, or what was reset, as one line of JSON")
	return cmd
}

// listBreakers asks for all pages.
func (c *client) listBreakers(ctx context.Context) (list []*meshv1.SkillBreaker, err error) {
	req := &meshv1.ListBreakersRequest{PageSize: skillsPage}
	for {
		resp, err := c.skills.ListBreakers(c.call(ctx, c.app.flags.thread), req)
		if err != nil {
			return nil, err
		}
		list = append(list, resp.GetBreakers()...)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return list, nil
		}
	}
}

// resetBreaker closes the circuit of a skill, and says what it was.
func (c *client) resetBreaker(ctx context.Context, name string, asJSON bool) error {
	resp, err := c.skills.ResetBreaker(c.call(ctx, c.app.flags.thread), &meshv1.ResetBreakerRequest{Name: name})
	switch {
	case mesh.IsCode(err, mesh.NotFound):
		return c.noSkill(ctx, name, err)
	case err != nil:
		return err
	case asJSON:
		return printAll(c.app, resp)
	}
	c.app.printf("%s %s\n", oneLine(name), wasReset(resp.GetBefore()))
	return nil
}

// wasReset says what a skill was before its breaker was reset, nil for one that
// works.
func wasReset(before *meshv1.SkillBreaker) string {
	failures := counted(int(before.GetFailures()), "failure")
	switch {
	case before == nil:
		return "works; there was nothing to be reset"
	case before.GetState() == "closed":
		return "was closed after " + failures + "; nothing is counted any more"
	}
	return "was " + breakerState(before) + " after " + failures + "; it is called again"
}

// breakerTable returns breakers as a table, one line each.
func breakerTable(list []*meshv1.SkillBreaker, now time.Time) string {
	if len(list) == 0 {
		return "All circuits are closed.\n"
	}
	rows := [][]string{{"SKILL", "STATE", "FAILURES", "OPENED (UTC)", "NEXT CALL (UTC)"}}
	for _, b := range list {
		next := stamp(b.GetNextProbe())
		if b.GetNextProbe() == nil || !b.GetNextProbe().AsTime().After(now) {
			next = "now"
		}
		rows = append(rows, []string{b.GetSkill(), breakerState(b), fmt.Sprint(b.GetFailures()), stamp(b.GetOpenedAt()), next})
	}
	return table(rows)
}

// breakerState is the state in words.
func breakerState(b *meshv1.SkillBreaker) string { return strings.ReplaceAll(b.GetState(), "_", " ") }
