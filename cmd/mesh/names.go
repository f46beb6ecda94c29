package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// namesTimeout bounds how long whoever completes a name waits for the mesh.
const namesTimeout = 2 * time.Second

// A naming asks the mesh for the names of something.
type naming func(ctx context.Context, c *client) ([]string, error)

func agentNames(ctx context.Context, c *client) (names []string, err error) {
	resp, err := c.agents.ListAgents(c.call(ctx, ""), &meshv1.ListAgentsRequest{})
	for _, ag := range resp.GetAgents() {
		names = append(names, ag.GetName())
	}
	return names, err
}

func skillNames(ctx context.Context, c *client) (names []string, err error) {
	resp, err := c.skills.ListSkills(c.call(ctx, ""), &meshv1.ListSkillsRequest{PageSize: skillsPage})
	for _, s := range resp.GetSkills() {
		names = append(names, s.GetName())
	}
	return names, err
}

func threadNames(ctx context.Context, c *client) (names []string, err error) {
	list, err := c.listThreads(ctx, 50)
	for _, th := range list {
		names = append(names, th.GetThreadId())
	}
	return names, err
}

func taskNames(ctx context.Context, c *client) (names []string, err error) {
	list, err := c.listTasks(ctx, 0, 50)
	for _, t := range list {
		names = append(names, t.GetId())
	}
	return names, err
}

// beginning returns the names that begin with the prefix, in order.
func beginning(prefix string, names []string) []string {
	fit := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, prefix) })
	slices.Sort(fit)
	return slices.Compact(fit)
}

// complete completes the last word of what is typed in the chat: a command and
// what belongs to it, an agent, or a skill. A mesh that is away completes nothing.
func (c *client) complete(head string) (from int, words []string) {
	from = strings.LastIndexAny(head, " \n\t(,;:") + 1
	word, before := head[from:], strings.TrimSpace(head[:from])
	if before == "" && strings.HasPrefix(word, "/") {
		return from, beginning(word, chatCommands)
	}
	ask := []naming{agentNames, skillNames}
	switch {
	case before == "/agent":
		ask = []naming{agentNames}
	case before == "/thread":
		ask = []naming{threadNames}
	case strings.HasPrefix(word, "@"):
		from, word, ask = from+1, word[1:], []naming{agentNames}
	case word == "": // nobody asks for all there is
		return from, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), namesTimeout)
	defer cancel()
	for _, names := range ask {
		list, _ := names(ctx, c) // what cannot be had cannot be offered
		words = append(words, list...)
	}
	return from, beginning(word, words)
}

// offer has a shell complete the first argument, or a flag, with names.
func (a *app) offer(names naming) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		var list []string
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), namesTimeout)
		defer cancel()
		if a.checkGlobals() == nil {
			_ = a.connected(ctx, nil, func(ctx context.Context, c *client, _ []string) (err error) { // as in complete
				list, err = names(ctx, c)
				return err
			})
		}
		return beginning(prefix, list), cobra.ShellCompDirectiveNoFileComp
	}
}

// agentName is the value of a flag that names an agent.
type agentName string

func (n *agentName) String() string { return string(*n) }
func (n *agentName) Type() string   { return "name" }

// Set refuses what cannot be an agent's name.
func (n *agentName) Set(s string) error {
	if !mesh.ValidAgentName(s) {
		return errors.New("must be an agent's name, in lower-case letters, digits, '-' and '_'; 'mesh agents list' shows them")
	}
	*n = agentName(s)
	return nil
}

// agentFlag gives the command the flag --agent.
func (a *app) agentFlag(cmd *cobra.Command, agent *string, usage string) {
	cmd.Flags().Var((*agentName)(agent), "agent", usage)
	a.offerFlag(cmd, "agent", agentNames)
}

// offerFlag has a shell complete the value of a flag.
func (a *app) offerFlag(cmd *cobra.Command, flag string, names naming) {
	complete := a.offer(names)
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, prefix)
	})
	if err != nil {
		panic(err) // the flag is there: it was just defined
	}
}

// fixed has a shell complete the value of a flag with words.
func fixed(cmd *cobra.Command, flag string, words []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is there: it was just defined
	}
}
