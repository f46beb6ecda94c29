package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

func (a *app) skillsCommand() *cobra.Command {
	return group("skills", "List, show, check, run, write and delete skills", "  mesh skills list",
		a.skillsListCommand(), a.skillsDomainsCommand(), a.skillsShowCommand(), a.skillsRunCommand(), a.skillsRunsCommand(),
		a.skillsBreakersCommand(), a.skillsNewCommand(), a.skillsDeleteCommand(), a.skillsValidateCommand(), a.skillsReloadCommand(), a.skillsWatchCommand())
}

// Bounds of 'mesh skills list': skills that are listed unless all are asked
// for, and skills asked for at a time.
const (
	skillsShown = 100
	skillsPage  = 1000
)

func (a *app) skillsListCommand() *cobra.Command {
	var req meshv1.ListSkillsRequest
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List skills; the filters must all hold",
		Long: fmt.Sprintf(`List skills. With --search those come first that have most of the words.

Where there are more than %d skills, only their domains are listed, each with the
number of its skills; name one with --domain, search, or ask for --all.

Skill files that could not be loaded are named on stderr, with what is wrong with
them.`, skillsShown),
		Example: `  mesh skills list
  mesh skills list --domain mail
  mesh skills list --search "overdue tasks"
  mesh skills list --all --json`,
		Args: nothing,
		RunE: a.lookup(func(ctx context.Context, c *client, _ []string) error {
			list, more, err := c.listSkills(ctx, &req, all || asJSON)
			if err == nil && len(list) == 0 && req.GetDomain() != "" {
				err = c.noDomain(ctx, req.GetDomain())
			}
			switch {
			case err != nil:
				return err
			case asJSON:
				return printAll(a, list...)
			case more && req.GetDomain() == "" && req.GetQuery() == "":
				return c.showDomains(ctx)
			}
			a.printf("%s", skillTable(list))
			if more {
				a.notef("these are the first %d; --all lists all, --search narrows them down\n", len(list))
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Domain, "domain", "", "only skills of this `domain`")
	flags.StringVar(&req.Query, "search", "", "only skills whose name, description or tags hold some of these `words`")
	flags.BoolVar(&all, "all", false, "list all skills, however many there are")
	a.structured(cmd, &asJSON, "print each skill as one line of JSON")
	return cmd
}

// listSkills asks for the skills, or for the first of them, and reports whether
// there are more. Problems of files go to stderr.
func (c *client) listSkills(ctx context.Context, req *meshv1.ListSkillsRequest, all bool) (list []*meshv1.Skill, more bool, err error) {
	req.PageSize = skillsShown
	if all {
		req.PageSize = skillsPage
	}
	for {
		resp, err := c.skills.ListSkills(c.call(ctx, c.app.flags.thread), req)
		if err != nil {
			return nil, false, err
		}
		for _, p := range resp.GetProblems() {
			c.app.notef("%s\n", problemLine(p))
		}
		list = append(list, resp.GetSkills()...)
		req.PageToken = resp.GetNextPageToken()
		if req.PageToken == "" || !all {
			return list, req.PageToken != "", nil
		}
	}
}

// showDomains prints the domains instead of very many skills.
func (c *client) showDomains(ctx context.Context) error {
	resp, err := c.skills.ListSkillDomains(c.call(ctx, c.app.flags.thread), &meshv1.ListSkillDomainsRequest{})
	if err != nil {
		return err
	}
	total := int32(0)
	for _, d := range resp.GetDomains() {
		total += d.GetSkills()
	}
	c.app.printf("%s", domainTable(resp.GetDomains()))
	c.app.notef("there are %d skills; list a domain's with --domain, some with --search WORDS, or --all\n", total)
	return nil
}

func (a *app) skillsDomainsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "domains",
		Short: "List the domains of skills",
		Example: `  mesh skills domains
  mesh skills domains --json`,
		Args: nothing,
		RunE: a.lookup(func(ctx context.Context, c *client, _ []string) error {
			resp, err := c.skills.ListSkillDomains(c.call(ctx, a.flags.thread), &meshv1.ListSkillDomainsRequest{})
			if err != nil {
				return err
			}
			if asJSON {
				return printAll(a, resp.GetDomains()...)
			}
			a.printf("%s", domainTable(resp.GetDomains()))
			return nil
		}),
	}
	a.structured(cmd, &asJSON, "print each domain, with its text, as one line of JSON")
	return cmd
}

func (a *app) skillsShowCommand() *cobra.Command {
	var file string
	var source, asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a skill: what it does, and how it is called",
		Long: `Show a skill: where it comes from and what holds for it, and below that its man
page, which is what models are shown for 'NAME --help'.

A skill that is a folder may have files of its own; --file prints one of them.`,
		Example: `  mesh skills show mail.send
  mesh skills show mail.send --source
  mesh skills show workflows.pdf_forms --file references/fields.md
  mesh skills show mail.send --json`,
		ValidArgsFunction: a.offer(skillNames),
		Args: func(cmd *cobra.Command, args []string) error {
			if source && (file != "" || asJSON) || file != "" && asJSON {
				return errors.New("--file, --source and --json are different answers; give one of them")
			}
			return exactly("the skill's name")(cmd, args)
		},
		RunE: a.lookup(func(ctx context.Context, c *client, args []string) error {
			resp, err := c.getSkill(ctx, &meshv1.GetSkillRequest{Name: args[0], File: file})
			switch {
			case err != nil:
				return err
			case asJSON:
				return printAll(a, resp.GetSkill())
			case file != "":
				a.printf("%s", a.shown(string(resp.GetFile())))
			case source:
				a.printf("%s", a.shown(resp.GetSkill().GetSource()))
			default:
				a.printf("%s", a.shown(skillText(resp.GetSkill())))
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "print this `file` of the skill's folder")
	cmd.Flags().BoolVar(&source, "source", false, "print the skill's file as it is")
	a.structured(cmd, &asJSON, "print the skill as one line of JSON")
	return cmd
}

// shown returns text as it is printed: for a person's terminal without what
// could steer it.
func (a *app) shown(text string) string {
	if a.shows {
		return printable(text)
	}
	return text
}

// getSkill asks for a skill. Of one that is not there, the error proposes
// another one.
func (c *client) getSkill(ctx context.Context, req *meshv1.GetSkillRequest) (*meshv1.GetSkillResponse, error) {
	resp, err := c.skills.GetSkill(c.call(ctx, c.app.flags.thread), req)
	if !mesh.IsCode(err, mesh.NotFound) || mesh.FieldOf(err) == "file" {
		return resp, err
	}
	return nil, c.noSkill(ctx, req.GetName(), err)
}

// noSkill says that there is no skill of the name, and proposes another one. It
// returns err where the skills cannot be listed.
func (c *client) noSkill(ctx context.Context, name string, err error) error {
	list, listErr := c.skills.ListSkills(c.call(ctx, c.app.flags.thread), &meshv1.ListSkillsRequest{})
	if listErr != nil {
		return err // that the skill is not there is what matters
	}
	var names []string
	for _, s := range list.GetSkills() {
		names = append(names, s.GetName())
	}
	advice := "'mesh skills list' shows them"
	if near := skill.Closest(name, names); near != "" {
		advice = fmt.Sprintf("did you mean %s?", near)
	}
	return mesh.Errorf(mesh.NotFound, "mesh.skill", "there is no skill %q; %s", mesh.Clip(name, 64), advice)
}

// noDomain returns the error for a domain that there is not, and nil for one
// that has only no skill that was asked for.
func (c *client) noDomain(ctx context.Context, name string) error {
	resp, err := c.skills.ListSkillDomains(c.call(ctx, c.app.flags.thread), &meshv1.ListSkillDomainsRequest{})
	if err != nil {
		return err
	}
	var names []string
	for _, d := range resp.GetDomains() {
		if d.GetName() == name {
			return nil
		}
		names = append(names, d.GetName())
	}
	advice := "'mesh skills domains' shows them"
	if near := skill.Closest(strings.ToLower(name), names); near != "" {
		advice = fmt.Sprintf("did you mean %s?", near)
	}
	return mesh.Errorf(mesh.NotFound, "mesh.skills", "there is no domain %q; %s", mesh.Clip(name, 64), advice)
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

// domainTable returns domains as a table, one line each.
func domainTable(domains []*meshv1.SkillDomain) string {
	if len(domains) == 0 {
		return "no skills\n"
	}
	rows := [][]string{{"DOMAIN", "SKILLS", "DESCRIPTION"}}
	for _, d := range domains {
		rows = append(rows, []string{d.GetName(), fmt.Sprint(d.GetSkills()), clip(d.GetDescription(), 80)})
	}
	return table(rows)
}

// skillText returns all that a person wants to know about a skill, and then its
// man page.
func skillText(s *meshv1.Skill) string {
	rows := [][]string{
		{"run by", runBy(s)}, {"access", s.GetAccess()}, {"approval", approval(s)},
		{"schedule", schedule(s)}, {"belongs to", skillOwner(s)}, {"version", s.GetVersion()},
	}
	if s.GetPath() != "" {
		rows = slices.Insert(rows, 0, []string{"file", s.GetPath()})
	}
	for _, list := range []struct {
		name   string
		values []string
	}{{"tags", s.GetTags()}, {"more files", s.GetFiles()}} {
		if len(list.values) > 0 {
			rows = append(rows, []string{list.name, strings.Join(list.values, ", ")})
		}
	}
	return fmt.Sprintf("%s  %s\n\n%s\n%s\n", oneLine(s.GetName()), oneLine(s.GetDescription()), table(rows), strings.TrimSpace(s.GetBody()))
}

// runBy says what carries the skill out.
func runBy(s *meshv1.Skill) string {
	server, isMCP := strings.CutPrefix(s.GetHandler(), "mcp:")
	switch {
	case isMCP:
		return "the MCP server " + server
	case s.GetHandler() == "":
		return "a model that follows its text"
	}
	return "the mesh's own code, " + s.GetHandler()
}

// approval says whether the user is asked before each run.
func approval(s *meshv1.Skill) string {
	switch {
	case s.GetConfirm() != "":
		return "asked for before each run: " + s.GetConfirm()
	case s.GetRequiresApproval():
		return "asked for before each run"
	}
	return "not needed"
}

// schedule says when the skill runs by itself.
func schedule(s *meshv1.Skill) string {
	if s.GetSchedule() == "" {
		return "none"
	}
	return s.GetSchedule() + " (" + cmp.Or(s.GetTimezone(), "UTC") + ")"
}

func skillOwner(s *meshv1.Skill) string {
	if s.GetTenant() == "" {
		return "all tenants"
	}
	return "tenant " + s.GetTenant()
}

// problemLine says what is wrong with a skill file.
func problemLine(p *meshv1.SkillProblem) string {
	where := p.GetPath()
	if p.GetLine() > 0 {
		where += fmt.Sprintf(":%d", p.GetLine())
	}
	return oneLine(where + ": " + p.GetDetail())
}
