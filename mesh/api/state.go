package api

import (
	"context"
	"slices"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// defaultPage is how many values a list holds when its caller does not say.
const defaultPage = 100

// State serves mesh.v1.StateService: the values that are of the kinds that the caller's
// grant names, and of its user, its agent or its tenant, as their kinds declare, and the
// breakers of its skills.
type State struct {
	meshv1.UnimplementedStateServiceServer
	kv     *state.KV
	shared func(kind string) bool
}

// NewState returns the server; shared says which kinds that leave it to the operator all
// users of a tenant share.
func NewState(kv *state.KV, shared func(kind string) bool) *State {
	return &State{kv: kv, shared: shared}
}

// GetState implements the RPC.
func (s *State) GetState(ctx context.Context, req *meshv1.GetStateRequest) (*meshv1.GetStateResponse, error) {
	const op = "api.GetState"
	at, err := s.space(ctx, op, req.GetKind(), req.GetKey())
	if err != nil {
		return nil, err
	}
	v, err := s.kv.Get(ctx, at.Key(req.GetKey()))
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.GetStateResponse{Value: &meshv1.Value{Key: req.GetKey(), Data: v.Data, Version: v.Version}}, nil
}

// PutState implements the RPC.
func (s *State) PutState(ctx context.Context, req *meshv1.PutStateRequest) (*meshv1.PutStateResponse, error) {
	const op = "api.PutState"
	at, err := s.mine(ctx, op, req.GetKind(), req.GetKey())
	if err != nil {
		return nil, err
	}
	version, err := s.kv.Put(ctx, at.Key(req.GetKey()), req.GetData(), req.GetVersion())
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.PutStateResponse{Version: version}, nil
}

// DeleteState implements the RPC.
func (s *State) DeleteState(ctx context.Context, req *meshv1.DeleteStateRequest) (*meshv1.DeleteStateResponse, error) {
	const op = "api.DeleteState"
	at, err := s.mine(ctx, op, req.GetKind(), req.GetKey())
	if err != nil {
		return nil, err
	}
	if err := s.kv.Delete(ctx, at.Key(req.GetKey()), req.GetVersion()); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.DeleteStateResponse{}, nil
}

// ListState implements the RPC.
func (s *State) ListState(ctx context.Context, req *meshv1.ListStateRequest) (*meshv1.ListStateResponse, error) {
	const op = "api.ListState"
	at, err := s.space(ctx, op, req.GetKind(), "")
	if err != nil {
		return nil, err
	}
	limit := int(req.GetLimit())
	if limit == 0 {
		limit = defaultPage
	}
	items, more, err := s.kv.List(ctx, at.Page(state.Page{Prefix: req.GetPrefix(), After: req.GetAfter(), Limit: limit}))
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	res := &meshv1.ListStateResponse{More: more}
	for _, it := range items {
		res.Values = append(res.Values, &meshv1.Value{Key: at.Name(it.Name), Data: it.Data, Version: it.Version})
	}
	return res, nil
}

// maxKey and maxKind bound what callers name, in bytes.
const (
	maxKey  = 256
	maxKind = 64
)

// space returns where the values of the kind are that the caller's grant reaches:
// whose they are, the grant says, and no caller. It returns Denied for a kind that the
// grant does not name.
func (s *State) space(ctx context.Context, op, kind, name string) (state.Space, error) {
	g, err := grantOf(ctx, op)
	switch {
	case err != nil:
		return state.Space{}, err
	case kind == "" || len(kind) > maxKind+len("agent/"):
		return state.Space{}, mesh.InvalidField(op, "kind", "must have 1 to %d bytes; give agent/ and the agent's name, or a skill domain of the grant", maxKind)
	case len(name) > maxKey:
		return state.Space{}, mesh.InvalidField(op, "key", "must be at most %d bytes, and has %d", maxKey, len(name))
	case direct(g) && state.AgentKind(kind, g.Agent) && !slices.Contains(domains(g), kind):
		return state.AgentSpace(g.Tenant, g.Agent), nil
	case kind == state.KindBreaker:
		if !g.AllowsSkill(name) {
			return state.Space{}, &mesh.Error{Code: mesh.Denied, Op: op, Field: "key",
				Detail: "A breaker is reached under the name of its skill by those who may call that; " + g.Agent + " may call " + orNone(strings.Join(g.Skills, ", "))}
		}
	default:
		kinds := domains(g)
		if !slices.Contains(kinds, "*") && !slices.Contains(kinds, kind) || state.ScopeOf(kind) == state.ScopeAgent {
			if direct(g) {
				kinds = append(kinds, "agent/"+g.Agent)
			}
			e := mesh.Errorf(mesh.Denied, op, "The grant of agent %s does not reach state of this kind; it reaches %s",
				g.Agent, orNone(strings.Join(kinds, ", ")))
			e.Field = "kind"
			return state.Space{}, e
		}
	}
	if scope := state.ScopeOf(kind); scope == state.ScopeTenant || scope == state.ScopeSetting && s.shared(kind) {
		return state.TenantSpace(g.Tenant, kind), nil
	}
	return state.UserSpace(g.Tenant, g.User, kind), nil
}

// mine is space for who changes a value. Breakers are the node's, which goes by what is
// in the log.
func (s *State) mine(ctx context.Context, op, kind, name string) (state.Space, error) {
	at, err := s.space(ctx, op, kind, name)
	if err == nil && at.Kind == state.KindBreaker {
		err = &mesh.Error{Code: mesh.Denied, Op: op, Field: "kind", Detail: "The mesh itself writes breakers, by what it logged of calls; leave them to it"}
	}
	return at, err
}

func orNone(list string) string {
	if list == "" {
		return "none, because it has no skills"
	}
	return list
}

// direct reports whether the node itself asked the agent of the grant. The name of one
// that another agent dispatched counts for nothing: that one has the grant in its hands,
// chose the name, and must not reach what it could not reach before.
func direct(g *mesh.Grant) bool { return len(g.Chain) <= 1 }

// domains returns those of the skills in a grant, "*" for all. Only agents that somebody
// trusts have some.
func domains(g *mesh.Grant) []string {
	var out []string
	for _, pattern := range g.Skills {
		if domain, _, _ := strings.Cut(pattern, "."); domain != "" {
			out = append(out, domain)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
