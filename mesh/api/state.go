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

// State serves mesh.v1.StateService: the values of the tenant in the caller's
// grant, of the kinds that the grant names, and the breakers of its skills.
type State struct {
	meshv1.UnimplementedStateServiceServer
	kv *state.KV
}

// NewState returns the server.
func NewState(kv *state.KV) *State { return &State{kv: kv} }

// GetState implements the RPC.
func (s *State) GetState(ctx context.Context, req *meshv1.GetStateRequest) (*meshv1.GetStateResponse, error) {
	const op = "api.GetState"
	key, err := stateKey(ctx, op, req.GetKind(), req.GetKey())
	if err != nil {
		return nil, err
	}
	v, err := s.kv.Get(ctx, key)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.GetStateResponse{Value: &meshv1.Value{Key: key.Name, Data: v.Data, Version: v.Version}}, nil
}

// PutState implements the RPC.
func (s *State) PutState(ctx context.Context, req *meshv1.PutStateRequest) (*meshv1.PutStateResponse, error) {
	const op = "api.PutState"
	key, err := stateKey(ctx, op, req.GetKind(), req.GetKey())
	if err != nil {
		return nil, err
	}
	version, err := s.kv.Put(ctx, key, req.GetData(), req.GetVersion())
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.PutStateResponse{Version: version}, nil
}

// DeleteState implements the RPC.
func (s *State) DeleteState(ctx context.Context, req *meshv1.DeleteStateRequest) (*meshv1.DeleteStateResponse, error) {
	const op = "api.DeleteState"
	key, err := stateKey(ctx, op, req.GetKind(), req.GetKey())
	if err != nil {
		return nil, err
	}
	if err := s.kv.Delete(ctx, key, req.GetVersion()); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.DeleteStateResponse{}, nil
}

// ListState implements the RPC.
func (s *State) ListState(ctx context.Context, req *meshv1.ListStateRequest) (*meshv1.ListStateResponse, error) {
	const op = "api.ListState"
	key, err := stateKey(ctx, op, req.GetKind(), "")
	if err != nil {
		return nil, err
	}
	limit := int(req.GetLimit())
	if limit == 0 {
		limit = defaultPage
	}
	items, more, err := s.kv.List(ctx, state.Page{Tenant: key.Tenant, Kind: key.Kind,
		Prefix: req.GetPrefix(), After: req.GetAfter(), Limit: limit})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	res := &meshv1.ListStateResponse{More: more}
	for _, it := range items {
		res.Values = append(res.Values, &meshv1.Value{Key: it.Name, Data: it.Data, Version: it.Version})
	}
	return res, nil
}

// stateKey returns the key that the caller's grant makes of kind and name. It returns
// Denied for a kind that the grant
// does not name, or the breaker of a skill that it does not allow.
func stateKey(ctx context.Context, op, kind, name string) (state.Key, error) {
	g, err := grantOf(ctx, op)
	if err != nil {
		return state.Key{}, err
	}
	if kind == "" {
		return state.Key{}, mesh.InvalidField(op, "kind", "is missing; give the agent's name or a skill domain of the grant")
	}
	if kind == breakerKind {
		if !g.AllowsSkill(name) {
			return state.Key{}, &mesh.Error{Code: mesh.Denied, Op: op, Field: "key",
				Detail: "A breaker is reached under the name of its skill by those who may call that; " + g.Agent + " may call " + orNone(strings.Join(g.Skills, ", "))}
		}
		return state.Key{Tenant: g.Tenant, Kind: kind, Name: name}, nil
	}
	if kinds, all := kindsOf(g); !all && !slices.Contains(kinds, kind) {
		e := mesh.Errorf(mesh.Denied, op, "The grant of agent %s does not reach state of this kind; it reaches %s",
			g.Agent, orNone(strings.Join(kinds, ", ")))
		e.Field = "kind"
		return state.Key{}, e
	}
	return state.Key{Tenant: g.Tenant, Kind: kind, Name: name}, nil
}

func orNone(list string) string {
	if list == "" {
		return "none, because it has no skills"
	}
	return list
}

// kindsOf returns the kinds of state that a grant names: the domains of its
// skills and, of an agent that the node itself asked, the agent; all is set when
// it has every skill. The name of an agent that another one dispatched counts for
// nothing: that one has the grant in its hands, chose the name, and must not
// reach what it could not reach before.
func kindsOf(g *mesh.Grant) (kinds []string, all bool) {
	if len(g.Chain) <= 1 {
		kinds = []string{g.Agent}
	}
	for _, pattern := range g.Skills {
		if pattern == "*" {
			return nil, true
		}
		if domain, _, _ := strings.Cut(pattern, "."); domain != "" && !slices.Contains(kinds, domain) {
			kinds = append(kinds, domain)
		}
	}
	return kinds, false
}
