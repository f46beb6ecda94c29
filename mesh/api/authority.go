package api

import (
	"cmp"
	"context"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/authz"
	"agentmesh/mesh/security/policy"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// Holders know whose a secret is: a *registry.Registry.
type Holders interface {
	// Holds reports whether the secret is that of the agent's registration with the
	// tenant, or for all.
	Holds(tenant mesh.TenantID, agent, secret string) bool
}

// An Authority says who may call what: by the table, the operator's policies and, under a
// grant, only as its holder and as long as the execution is at work that it was made for.
// What the user may for whom the work is done is what the log has. It is an rpc.Authorizer.
type Authority struct {
	Table   authz.Table
	States  *cache.States
	Holders Holders
	// Policies are asked after the table; nil for none. Main is the agent that messages
	// are for that name none.
	Policies *policy.Source
	Main     string
	// Standing has an error for turns of the tenant on which agents may not work any more;
	// nil for none.
	Standing func(tenant mesh.TenantID, turn *thread.Execution) error
	// Erasing has an error for users of whom all is being erased, who call nothing but that
	// meanwhile; nil for none.
	Erasing func(tenant mesh.TenantID, user string) error
}

// Authorize implements rpc.Authorizer. Beside the table's errors and those of policies it
// is Unauthenticated for a grant or ticket of somebody else, Precondition when its
// execution is over, and NotFound when its thread is gone.
func (a Authority) Authorize(ctx context.Context, p mesh.Principal, method string, message any) (by string, err error) {
	const op = "api.Authorize"
	g := p.Grant
	if g == nil {
		if a.Erasing != nil && method != meshv1.AccessService_EraseUser_FullMethodName {
			if err := a.Erasing(p.Tenant, p.User); err != nil {
				return "", err
			}
		}
		return a.judge(ctx, p, method, message)
	}
	call, _ := mesh.CallFrom(ctx)
	if proved := g.Agent != "" && call.Peer == (mesh.AgentID{Tenant: g.Holder, Name: g.Agent}); !proved && !a.Holders.Holds(g.Holder, g.Agent, call.Holder) {
		return "", &mesh.Error{Code: mesh.Unauthenticated, Op: op, Field: "mesh-holder",
			Detail: "must be the secret that the agent " + g.Agent + " got when it was registered: tickets and grants are good for their agent alone"}
	}
	if a.Table[method].Settles {
		return a.judge(ctx, p, method, message)
	}
	return "", a.States.With(ctx, g.Key(), func(st *thread.State) error {
		if t := st.Turn(g.Turn); t != nil {
			p.Roles = t.Roles
		}
		if _, err := a.judge(ctx, p, method, message); err != nil {
			return err
		}
		if err := atWork(op, st, g); err != nil || a.Standing == nil {
			return err
		}
		if t := st.TurnOf(g.Execution); t != nil {
			return a.Standing(p.Tenant, t)
		}
		return nil
	})
}

// judge asks the table, and then policies.
func (a Authority) judge(ctx context.Context, p mesh.Principal, method string, message any) (by string, err error) {
	err = a.Table.Authorize(ctx, p, method)
	rule := a.Table[method]
	of, asked := policy.TypeOf(rule.Action)
	if set := a.Policies.Set(); asked && set.Asks(p.Tenant, rule.Action) {
		r := policy.Request{Principal: p, Action: rule.Action}
		if r.Name, asked = a.named(ctx, rule, message); asked || of == policy.Tenant {
			return set.Judge("api.Authorize", r, err)
		}
	}
	return "", err
}

// Named is [authz.Named], and the name of a skill that is to be created, which is in its
// file, and of an agent that has it from its card. A file that cannot be read has none.
func Named(message any, path string) string {
	switch req := message.(type) {
	case *meshv1.CreateSkillRequest:
		if s, problem := skill.ParseNew([]byte(req.GetSource())); problem == nil {
			return s.Name
		}
	case *meshv1.RegisterAgentRequest:
		if req.GetName() == "" {
			return registry.Slug(req.GetCard().GetName())
		}
	}
	return authz.Named(message, path)
}

// Recorded is [Named] for the record of administrative acts, with the schemes of the
// credentials that are given for an agent.
func Recorded(message any, path string) string {
	name := Named(message, path)
	var schemes []string
	note := func(scheme string) { schemes = append(schemes, mesh.Clip(scheme, 64)) }
	switch m := message.(type) {
	case interface {
		GetCredentials() []*meshv1.AgentCredential
	}:
		for _, c := range m.GetCredentials() {
			note(c.GetScheme())
		}
	case *meshv1.RegisterAgentResponse: // of what has its name from its card
		name = m.GetAgent().GetName()
		for _, c := range m.GetAgent().GetCredentials() {
			note(c.GetScheme())
		}
	}
	if name == "" || len(schemes) == 0 {
		return name
	}
	return name + " (credentials: " + strings.Join(schemes, ", ") + ")"
}

// named returns the name of what a call is about; false for one that names nothing: the end
// of a handoff, skills that are read again, and the registration of an agent that has its
// name from a card that is fetched, of which the registry asks.
func (a Authority) named(ctx context.Context, rule authz.Rule, message any) (string, bool) {
	if rule.Action == mesh.ActChat {
		call, _ := mesh.CallFrom(ctx)
		return cmp.Or(call.Agent, a.Main), true
	}
	name := Named(message, rule.Resource)
	if rule.Action == mesh.ActDeleteThread {
		name, _ = mesh.ParseThreadID(name) // as it is written in policies
	}
	return name, name != ""
}
