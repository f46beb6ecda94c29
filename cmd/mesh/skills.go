package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
)

func (a *app) skillsCommand() *cobra.Command {
	return group("skills", "List and show skills", "  mesh skills list", a.skillsListCommand(), a.skillsShowCommand())
}

func (a *app) skillsListCommand() *cobra.Command {
	var req meshv1.ListSkillsRequest
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List skills; the filters must all hold",
		Long: `List skills. Skill files that could not be loaded are named on stderr, with what
is wrong with them.`,
		Example: `  mesh skills list
  mesh skills list --domain mail
  mesh skills list --query overdue --json`,
		Args: cobra.NoArgs,
		RunE: a.lookup(func(ctx context.Context, c *client, _ []string) error {
			resp, err := c.skills.ListSkills(c.call(ctx, a.flags.thread), &req)
			if err != nil {
				return err
			}
			for _, p := range resp.GetProblems() {
				a.notef("%s\n", problemLine(p))
			}
			if asJSON {
				return printJSON(a, resp.GetSkills()...)
			}
			a.printf("%s", skillTable(resp.GetSkills()))
			return nil
		}),
	}
	cmd.Flags().StringVar(&req.Domain, "domain", "", "only skills of this `domain`")
	cmd.Flags().StringVar(&req.Query, "query", "", "only skills whose name, description or tags hold this `text`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each skill as one line of JSON")
	return cmd
}

func (a *app) skillsShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a skill's file",
		Example: `  mesh skills show mail.send
  mesh skills show mail.send --json`,
		Args: exactly("the skill's name"),
		RunE: a.lookup(func(ctx context.Context, c *client, args []string) error {
			resp, err := c.skills.GetSkill(c.call(ctx, a.flags.thread), &meshv1.GetSkillRequest{Name: args[0]})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a, resp.GetSkill())
			}
			source := resp.GetSkill().GetSource()
			if a.shows {
				source = printable(source)
			}
			a.printf("%s", source)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the skill as one line of JSON")
	return cmd
}

// skillTable returns skills as a table, one line each.
func skillTable(skills []*meshv1.Skill) string {
	if len(skills) == 0 {
		return "no skills\n"
	}
	rows := [][]string{{"NAME", "ACCESS", "DESCRIPTION"}}
	for _, s := range skills {
		rows = append(rows, []string{s.GetName(), s.GetAccess(), clip(s.GetDescription(), 80)})
	}
	return table(rows)
}

// problemLine says what is wrong with a skill file.
func problemLine(p *meshv1.SkillProblem) string {
	where := p.GetPath()
	if p.GetLine() > 0 {
		where += fmt.Sprintf(":%d", p.GetLine())
	}
	return oneLine(where + ": " + p.GetDetail())
}
