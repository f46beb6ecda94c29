package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

func (a *app) agentsCommand() *cobra.Command {
	return group("agents", "List, show, test, add and remove agents, and give and end their certificates and credentials", "  mesh agents list",
		a.agentsListCommand(), a.agentsShowCommand(), a.agentsTestCommand(), a.agentsAddCommand(), a.agentsRemoveCommand(), a.agentsCredentialsCommand(), a.agentsInviteCommand(), a.agentsRevokeCommand())
}

func (a *app) agentsListCommand() *cobra.Command {
	var req meshv1.ListAgentsRequest
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List agents; the filters must all hold",
		Example: `  mesh agents list
  mesh agents list --tag calendar --live
  mesh agents list --query "send mail" --json`,
		Args: nothing,
		RunE: a.lookup(func(ctx context.Context, c *client, _ []string) error {
			resp, err := c.agents.ListAgents(c.call(ctx, a.flags.thread), &req)
			if err != nil {
				return err
			}
			if asJSON {
				return printAll(a, resp.GetAgents()...)
			}
			a.printf("%s", agentTable(resp.GetAgents()))
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Skill, "skill", "", "only agents with this skill `id`")
	flags.StringVar(&req.Tag, "tag", "", "only agents with a skill that has this `tag`")
	flags.StringVar(&req.Query, "query", "", "only agents whose name, description, skills or tags hold these `words`")
	flags.BoolVar(&req.Live, "live", false, "only agents that answer")
	a.structured(cmd, &asJSON, "print each agent as one line of JSON")
	return cmd
}

func (a *app) agentsShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show an agent and its skills",
		Example: `  mesh agents show knowledge
  mesh agents show knowledge --json`,
		ValidArgsFunction: a.offer(agentNames),
		Args:              exactly("the agent's name"),
		RunE: a.lookup(func(ctx context.Context, c *client, args []string) error {
			resp, err := c.agents.GetAgent(c.call(ctx, a.flags.thread), &meshv1.GetAgentRequest{Name: args[0]})
			if err != nil {
				return err
			}
			if asJSON {
				return printAll(a, resp.GetAgent())
			}
			a.printf("%s", agentText(resp.GetAgent()))
			return nil
		}),
	}
	a.structured(cmd, &asJSON, "print the agent as one line of JSON")
	return cmd
}

func (a *app) agentsAddCommand() *cobra.Command {
	var req meshv1.RegisterAgentRequest
	var given []string
	cmd := &cobra.Command{
		Use:   "add CARD-URL",
		Short: "Add an agent by the URL of its card",
		Long: `Add an A2A agent by the URL of its agent card, or by the address that serves it
at /.well-known/agent-card.json: host:port, dns:///host:port, or grpcs://host:port for TLS.
The mesh keeps the agent, and looks whether it answers. What is odd on its card is told as
a warning, here and by 'mesh agents show', as are credentials that it wants and lacks.

` + credentialHelp,
		Example: `  mesh agents add http://127.0.0.1:9001
  mesh agents add https://agents.example.com/translate/card.json --name translate
  mesh agents add https://agents.example.com --credential bearer=env:TRANSLATE_TOKEN`,
		Args: exactly("the card's URL"),
		RunE: a.prepared(a.credentials(&given, &req.Credentials), func(ctx context.Context, c *client, args []string) error {
			req.CardUrl = args[0]
			resp, err := c.agents.RegisterAgent(c.call(ctx, a.flags.thread), &req)
			if err != nil {
				return err
			}
			ag := resp.GetAgent()
			a.printf("%s added, at %s\n%s\n%s", oneLine(ag.GetName()), oneLine(ag.GetEndpoint()), trustText(ag), warningText(ag))
			if extended(ag) {
				a.printf("Its secret, which is shown once: %s\nWith it the agent redeems tickets and uses grants (metadata mesh-holder).\n", oneLine(resp.GetSecret()))
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&req.Name, "name", "", "`name` in the mesh (default made from the card's name)")
	cmd.Flags().BoolVar(&req.Shared, "shared", false, "share it with all tenants; for operators")
	credentialFlag(cmd, &given)
	return cmd
}

func (a *app) agentsRemoveCommand() *cobra.Command {
	var req meshv1.DeregisterAgentRequest
	cmd := &cobra.Command{
		Use:               "rm NAME",
		Aliases:           []string{"remove", "delete"},
		Short:             "Remove an agent that was added",
		Example:           `  mesh agents rm translate`,
		ValidArgsFunction: a.offer(agentNames),
		Args:              exactly("the agent's name"),
		RunE: a.lookup(func(ctx context.Context, c *client, args []string) error {
			req.Name = args[0]
			if _, err := c.agents.DeregisterAgent(c.call(ctx, a.flags.thread), &req); err != nil {
				return err
			}
			a.printf("%s removed\n", oneLine(args[0]))
			return nil
		}),
	}
	cmd.Flags().BoolVar(&req.Shared, "shared", false, "remove a shared agent; for operators")
	return cmd
}

// agentTable returns agents as a table, one line each.
func agentTable(agents []*meshv1.Agent) string {
	if len(agents) == 0 {
		return "no agents\n"
	}
	rows := [][]string{{"NAME", "STATE", "ADDRESS", "SKILLS", "DESCRIPTION"}}
	for _, ag := range agents {
		at := ag.GetEndpoint()
		if all := ag.GetInstances(); len(all) > 0 {
			at = processes(all)
		}
		rows = append(rows, []string{ag.GetName(), agentState(ag), at,
			fmt.Sprint(len(ag.GetCard().GetSkills())), clip(ag.GetCard().GetDescription(), 60)})
		for _, i := range ag.GetInstances() {
			rows = append(rows, []string{"", instanceState(i), i.GetEndpoint(), "", ""})
		}
	}
	return table(rows)
}

// processes says how many of an agent's processes are up.
func processes(all []*meshv1.AgentInstance) string {
	live := 0
	for _, i := range all {
		if i.GetLive() {
			live++
		}
	}
	return fmt.Sprintf("%d of %d processes", live, len(all))
}

func instanceState(i *meshv1.AgentInstance) string {
	return agentState(&meshv1.Agent{Live: i.GetLive(), Problem: i.GetProblem()})
}

// agentState says in a word or a clause whether the agent is called.
func agentState(ag *meshv1.Agent) string {
	switch {
	case ag.GetLive():
		return "live"
	case ag.GetProblem() != "":
		return "down: " + clip(ag.GetProblem(), 50)
	}
	return "down"
}

// agentText returns all that a person wants to know about an agent.
func agentText(ag *meshv1.Agent) string {
	card := ag.GetCard()
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n%s\n\n", oneLine(ag.GetName()), oneLine(card.GetVersion()), printable(card.GetDescription()))
	rows := [][]string{{"state", agentState(ag)}, {"address", ag.GetEndpoint()}, {"belongs to", owner(ag)}, {"gets", trustText(ag)}}
	if url := ag.GetCardUrl(); url != "" {
		rows = append(rows, []string{"card", url})
	}
	if required := ag.GetRequiredPermissions(); len(required) > 0 {
		rows = append(rows, []string{"requires", requiredText(required, ag.GetMissingPermissions())})
	}
	for _, c := range ag.GetCredentials() {
		kind := c.GetKind()
		if kind == "" {
			kind = "the card has no place for it"
		}
		rows = append(rows, []string{"credential", c.GetScheme() + " (" + kind + "): set"})
	}
	if at := ag.GetRegistered(); at != nil {
		rows = append(rows, []string{"registered", stamp(at)})
	}
	if at := ag.GetExpires(); at != nil {
		rows = append(rows, []string{"lease ends", stamp(at)})
	}
	for _, i := range ag.GetInstances() {
		rows = append(rows, []string{"process", strings.TrimSpace(i.GetId()+" "+i.GetEndpoint()) + ", " + instanceState(i)})
	}
	b.WriteString(table(rows))
	b.WriteString(warningText(ag))
	for i, s := range card.GetSkills() {
		if i == 0 {
			b.WriteString("\nskills\n")
		}
		fmt.Fprintf(&b, "  %s: %s", oneLine(s.GetId()), oneLine(s.GetDescription()))
		if len(s.GetTags()) > 0 {
			fmt.Fprintf(&b, " [%s]", oneLine(strings.Join(s.GetTags(), ", ")))
		}
		b.WriteByte('\n')
		for _, ex := range s.GetExamples() {
			fmt.Fprintf(&b, "      e.g. %s\n", oneLine(ex))
		}
	}
	return b.String()
}

// requiredText says which permissions an agent requires of users, and which roles give those
// that the caller lacks.
func requiredText(required, missing []string) string {
	parts := make([]string, 0, len(required))
	for _, name := range required {
		if slices.Contains(missing, name) {
			name += " (you lack it; roles that give it: " + strings.Join(mesh.RoleNames(name), ", ") + ")"
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, "; ")
}

// warningText says what is odd on the agent's card, one line for each; "" for nothing.
func warningText(ag *meshv1.Agent) string {
	var b strings.Builder
	for _, w := range ag.GetWarnings() {
		fmt.Fprintf(&b, "warning: %s %s\n", oneLine(w.GetField()), oneLine(w.GetText()))
	}
	return b.String()
}

// owner says who an agent belongs to.
func owner(ag *meshv1.Agent) string {
	switch {
	case ag.GetBuiltin():
		return "the mesh"
	case ag.GetTenant() == "":
		return "all tenants"
	}
	if of := ag.GetOwner(); of != "" {
		return of + " of tenant " + ag.GetTenant()
	}
	return "tenant " + ag.GetTenant()
}

// trustText says what an agent gets for its work, if it speaks the mesh's extension.
func trustText(ag *meshv1.Agent) string {
	switch {
	case ag.GetBuiltin():
		return "what its work needs: it is one of the mesh's own"
	case !extended(ag):
		return "messages alone: its card does not have the mesh's extension"
	case ag.GetTrusted():
		return "the skills on its card, other agents to ask, and the user's stream to hand over"
	}
	return "its own thread and state: nobody who may trust agents registered it, and trusted_agents does not name it"
}

// extended reports whether the agent speaks the mesh's extension.
func extended(ag *meshv1.Agent) bool {
	return slices.ContainsFunc(ag.GetCard().GetCapabilities().GetExtensions(), func(e *a2apb.AgentExtension) bool { return e.GetUri() == mesh.ExtensionURI })
}

// table aligns the columns of rows.
func table(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine(cell)
		}
		// A strings.Builder takes everything.
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush()
	return b.String()
}
