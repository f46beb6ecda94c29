package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/policy"
)

func (a *app) policyCommand() *cobra.Command {
	return group("policy", "Check policies, and say what they decide, without a mesh",
		"  mesh policy check policies\n  mesh policy explain policies --user ann --action skill.call --resource mail.send",
		a.policyCheckCommand(), a.policyExplainCommand())
}

// policies makes a RunE of what is done with a folder of policies: the argument, or that
// of the configuration.
func (a *app) policies(cmd *cobra.Command, do func(dir string) error) {
	var file string
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` that names the folder (default mesh.yaml, if it is there)")
	cmd.RunE = a.raw(func(_ context.Context, args []string) error {
		if len(args) > 0 {
			return do(args[0])
		}
		cfg, err := a.config(cmd, file, &node.Config{})
		if err == nil && cfg.Policies == "" {
			err = mesh.InvalidField("mesh.policy", "DIR", "is missing, and no configuration names the folder (policies)")
		}
		if err != nil {
			return err
		}
		return do(cfg.Policies)
	})
}

func (a *app) policyCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Check the policies of a folder, without a mesh",
		Long: `Check policies as a mesh does that loads them: the files *.cedar of the folder, and
those of tenants in folders with their names. What is wrong is printed as
FILE:LINE:COLUMN: problem and remedy, and the exit code is 1 then; what is not, with
where it is and the name that refusals give.`,
		Example: `  mesh policy check policies
  mesh policy check --config mesh.yaml`,
	}
	a.policies(cmd, func(dir string) error {
		set, wrong := policy.Check(dir)
		var rows [][]string
		for _, p := range set.Policies() {
			rows = append(rows, []string{oneLine(p.At), effect(p), oneLine(p.ID)})
		}
		a.printf("%s", table(rows))
		for _, err := range wrong {
			a.printf("%s\n", oneLine(mesh.DetailOf(err)))
		}
		a.printf("policies: %d, %s\n", set.Len(), counted(len(wrong), "mistake"))
		if len(wrong) > 0 {
			return errTaskFailed
		}
		return nil
	})
	return cmd
}

func effect(p policy.Policy) string {
	if p.Permits {
		return "permits"
	}
	return "forbids"
}

// asking is what policy explain is asked about.
type asking struct {
	action, resource, agent, credential string
	roles                               []string
}

func (a *app) policyExplainCommand() *cobra.Command {
	var q asking
	cmd := &cobra.Command{
		Use:   "explain [DIR]",
		Short: "Say what is decided and which policy decides, without a mesh",
		Long: `Say whether a user may do something, or an agent that works for the user, and whether
the roles decide that or a policy, and which. --tenant and --user say for whom; without
them it is the tenant default and the user local.

An agent gets what its grant allows and no policy forbids: explain takes it that the
grant allows it. The exit code is 1 if it is not allowed.`,
		Example: `  mesh policy explain policies --tenant acme --user ann --action skill.call --resource mail.send
  mesh policy explain policies --tenant acme --user ann --action orchestrate --resource worker --agent helper
  mesh policy explain --user ann --role viewer --action chat.send --resource main --credential token:ann-laptop`,
	}
	f := cmd.Flags()
	f.StringVar(&q.action, "action", "", "the `action`, as skill.call")
	f.StringVar(&q.resource, "resource", "", "`name` of the agent, skill or thread that it is about")
	f.StringVar(&q.agent, "agent", "", "`agent` that does it for its work; several with commas are the chain, the last one does it")
	f.StringVar(&q.credential, "credential", "", "what the user is known by, as token:`NAME`")
	f.StringArrayVar(&q.roles, "role", []string{string(mesh.RoleUser)}, "`role` of the user; may be repeated")
	a.policies(cmd, func(dir string) error {
		r, err := a.request(&q)
		if err != nil {
			return err
		}
		set, err := policy.Load(dir)
		if err != nil {
			return err
		}
		return a.explainPolicy(set, r)
	})
	return cmd
}

// request is what is asked.
func (a *app) request(q *asking) (r policy.Request, err error) {
	r.Action, r.Name = mesh.Action(q.action), q.resource
	of, ok := policy.TypeOf(r.Action)
	switch {
	case !ok:
		return r, mesh.InvalidField("mesh.policy", "--action", "must be one of %s, and is %q", join(policy.Actions()), mesh.Clip(q.action, 48))
	case of != policy.Tenant && r.Name == "":
		return r, mesh.InvalidField("mesh.policy", "--resource", "must name what it is about, of the type %s", of)
	}
	r.Name = strings.TrimSuffix(strings.TrimPrefix(r.Name, of+`::"`), `"`)
	p := &r.Principal
	p.Tenant, p.User, p.Credential = cmp.Or(mesh.TenantID(a.flags.tenant), mesh.DefaultTenant), cmp.Or(a.flags.user, auth.LocalUser), q.credential
	for _, name := range q.roles {
		role, ok := mesh.RoleOf(name)
		if !ok {
			return r, mesh.InvalidField("mesh.policy", "--role", "must be one of %s, and is %q", join(mesh.Roles()), mesh.Clip(name, 48))
		}
		p.Roles = append(p.Roles, role)
	}
	slices.Sort(p.Roles)
	if q.agent != "" {
		p.Grant = new(mesh.Grant)
		for name := range strings.SplitSeq(q.agent, ",") {
			p.Grant.Agent, p.Grant.Chain = name, append(p.Grant.Chain, mesh.Actor{Agent: name})
		}
	}
	return r, nil
}

func join[T ~string](list []T) string {
	var all []string
	for _, s := range list {
		all = append(all, string(s))
	}
	return strings.Join(all, ", ")
}

// explainPolicy says what is decided, and by whom.
func (a *app) explainPolicy(set *policy.Set, r policy.Request) error {
	p := r.Principal
	roles, refusal := "allow it", error(nil)
	switch asked := p.Grant == nil || r.Action == mesh.ActCreateSkill; {
	case !asked:
		roles = "are not asked: the agent has a grant"
	case !p.Can(r.Action):
		roles = "do not allow it; these do: " + join(mesh.RolesWith(r.Action))
		refusal = mesh.Errorf(mesh.Denied, "mesh.policy", "the roles do not allow it")
	}
	decision, by := "allowed", "roles"
	id, err := set.Judge("mesh.policy", r, refusal)
	if err != nil {
		decision, id = "forbidden", mesh.PolicyOf(err)
	}
	for _, one := range set.Policies() {
		if one.ID == id {
			by = fmt.Sprintf("policy %s (%s), which %s it", one.ID, one.At, effect(one))
		}
	}
	if err == nil && id == "" && p.Grant != nil {
		by = "the grant; no policy forbids it"
	}
	what := string(r.Action)
	if r.Name != "" {
		what += " " + r.Name
	}
	rows := [][2]string{{"decision", decision}, {"by", by}, {"roles", roles}, {"asked", fmt.Sprintf("%s by %s/%s (%s)", what, p.Tenant, p.User, join(p.Roles))}}
	if p.Grant != nil {
		rows = append(rows, [2]string{"agents", strings.Join(p.Grant.Agents(), " -> ")})
	}
	for _, row := range rows {
		a.printf("%-9s %s\n", row[0], oneLine(row[1]))
	}
	if err != nil {
		return errTaskFailed
	}
	return nil
}
