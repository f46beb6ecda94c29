package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agentmesh/agents/roster"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "Check a configuration, and say what holds and why, without a mesh",
		"  mesh config check\n  mesh config show\n  mesh config show log-analyzer", a.configCheckCommand(), a.configShowCommand())
}

func (a *app) configCheckCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say everything that is wrong with a configuration",
		Long: `Check mesh.yaml (or --config) as 'mesh up' does that reads it, with the variables MESH_*
that are set. Everything that is wrong is printed as FILE:LINE: field and remedy: fields that
are not known, values that cannot be, names of agents, models and MCP servers that there are
not, and chains that go in a circle. The exit code is 1 then. Agents that are as they should
be and cannot be offered here, as one that needs a model, are notes.

Nothing is started and nobody is called.`,
		Example: "  mesh config check\n  mesh config check --config staging.yaml",
		Args:    nothing,
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (default mesh.yaml)")
	cmd.RunE = a.raw(func(context.Context, []string) error {
		var c *crew
		_, problems := node.Problems(orText(file, defaultConfig), func(cfg *node.Config) (problems []error) {
			if err := a.fromEnv(cfg); err != nil {
				problems = append(problems, err)
			}
			c, problems = a.planned(*cfg, problems)
			return problems
		})
		if len(problems) == 1 && mesh.IsCode(problems[0], mesh.NotFound) {
			return problems[0]
		}
		for _, p := range problems {
			a.printf("%s\n", what(p))
		}
		if len(problems) > 0 {
			a.printf("config: %s\n", counted(len(problems), "mistake"))
			return errTaskFailed
		}
		for _, l := range c.Left {
			if slices.Contains(c.asked(), l.Name) {
				a.printf("note: %s is not offered: %s\n", l.Name, oneLine(l.Why))
			}
		}
		a.printf("config: %s, no mistakes\n", counted(len(c.names()), "agent"))
		return nil
	})
	return cmd
}

func (a *app) planned(cfg node.Config, problems []error) (*crew, []error) {
	c, more := planCrew(cfg, a.now, slog.New(slog.DiscardHandler))
	return c, append(problems, more...)
}

func (a *app) configShowCommand() *cobra.Command {
	var file string
	flags := &node.Config{}
	cmd := &cobra.Command{
		Use:   "show [AGENT]",
		Short: "Say what holds, and what has set it",
		Long: `Show the settings that something has set, each with the line of the file, the variable or
the flag that has; what is not shown is as docs/configuration.md says. Then the agents, and
those that are not offered, with the reason.

With an AGENT, all that holds for it, each with the level that it comes from: defaults, what
the agent is by itself ("built in"), its entry below agents, or "default" for what nothing has
set; and how it is used otherwise by chains and orchestrators. Secrets and URLs are not shown.`,
		Example: "  mesh config show\n  mesh config show orchestrator\n  mesh config show LogAnalyzer --config staging.yaml",
		Args:    cobra.MaximumNArgs(1),
	}
	nodeFlags(cmd, flags)
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (default mesh.yaml, if it is there)")
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if cfg, err := a.config(cmd, file, flags); err == nil && len(args) == 0 {
			c, _ := a.planned(cfg, nil)
			return c.names(), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = a.raw(func(_ context.Context, args []string) error {
		cfg, err := a.config(cmd, file, flags)
		if err != nil {
			return err
		}
		c, problems := a.planned(cfg, nil)
		if len(problems) > 0 {
			return cfg.Located(problems[0])
		}
		if len(args) > 0 {
			return a.showAgent(c, node.AgentName(args[0]))
		}
		a.showConfig(c)
		return nil
	})
	return cmd
}

// showConfig prints what has been set, and the agents.
func (a *app) showConfig(c *crew) {
	var rows [][]string
	for _, path := range c.cfg.Settings() {
		rows = append(rows, []string{oneLine(path), clip(c.cfg.Value(path), 60), oneLine(c.origin(path))})
	}
	if len(rows) == 0 {
		a.printf("Nothing is set; all is as docs/configuration.md says.\n")
	}
	a.printf("%s\n", table(rows))
	rows = [][]string{{"AGENT", "TYPE", "MODEL", "TOOLS"}}
	for _, x := range c.Agents {
		if x.Of == "" {
			rows = append(rows, []string{x.Name, cmp.Or(x.Type, "its own"), c.modelOf(x), clip(strings.TrimPrefix(strings.Join(toolsOf(x), "; "), "Tools: "), 60)})
		}
	}
	a.printf("%s", table(rows))
	for _, l := range c.Left {
		a.printf("%s is not offered: %s\n", l.Name, oneLine(l.Why))
	}
}

// modelOf is which model an agent asks, and where, for people.
func (c *crew) modelOf(x *roster.Agent) string {
	if x.Type == roster.TypeChain || x.Name == "skill-builder" {
		return "none"
	}
	t, err := c.thinking(x)
	switch {
	case err != nil || t.offline:
		return "offline planner"
	case x.Endpoint == "":
		return oneLine(cmp.Or(t.name, "the provider's"))
	}
	return oneLine(cmp.Or(t.name, "the provider's") + " at " + x.Endpoint)
}

// origin is where the field of that path was set.
func (c *crew) origin(path string) string {
	if dir, err := os.Getwd(); err == nil {
		return strings.TrimPrefix(c.cfg.Origin(path), dir+string(os.PathSeparator))
	}
	return c.cfg.Origin(path)
}

// showAgent prints all that holds for one agent.
func (a *app) showAgent(c *crew, name string) error {
	x := c.Get(name)
	if x == nil {
		i := slices.IndexFunc(c.Left, func(l roster.Left) bool { return l.Name == name })
		if i < 0 {
			return mesh.Errorf(mesh.NotFound, "mesh.config", "there is no agent %q; there are %s", name, strings.Join(c.names(), ", "))
		}
		a.printf("%s is not offered: %s\n", name, oneLine(c.Left[i].Why))
		if !slices.ContainsFunc(c.Agents, func(o *roster.Agent) bool { return o.Of == name }) {
			return nil
		}
	} else {
		a.printf("%s\n", table(c.about(x)))
	}
	for _, o := range c.Agents {
		if o.Of != name {
			continue
		}
		a.printf("used otherwise, as %s:\n", o.Name)
		rows := c.about(o)
		if x != nil {
			rows = slices.DeleteFunc(rows, func(row []string) bool {
				return slices.ContainsFunc(c.about(x), func(old []string) bool { return slices.Equal(old, row) })
			})
		}
		a.printf("%s", table(rows))
	}
	return nil
}
