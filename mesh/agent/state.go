package agent

import (
	"context"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// state is skill.State over the StateService.
type state struct{ mesh *Mesh }

func (s *state) Get(ctx context.Context, kind, key string) ([]byte, int64, error) {
	res, err := s.mesh.states.GetState(s.mesh.Context(ctx), &meshv1.GetStateRequest{Kind: kind, Key: key})
	if err == nil && res.GetValue() == nil {
		return nil, 0, mesh.Errorf(mesh.NotFound, "agent.State", "There is no %s named %s", kind, key)
	}
	return res.GetValue().GetData(), res.GetValue().GetVersion(), failed("agent.State", err)
}

func (s *state) Put(ctx context.Context, kind, key string, data []byte, version int64) (int64, error) {
	res, err := s.mesh.states.PutState(s.mesh.Context(ctx),
		&meshv1.PutStateRequest{Kind: kind, Key: key, Data: data, Version: version})
	return res.GetVersion(), failed("agent.State", err)
}

func (s *state) Delete(ctx context.Context, kind, key string, version int64) error {
	_, err := s.mesh.states.DeleteState(s.mesh.Context(ctx),
		&meshv1.DeleteStateRequest{Kind: kind, Key: key, Version: version})
	return failed("agent.State", err)
}

func (s *state) List(ctx context.Context, kind, prefix, after string, limit int) ([]skill.Item, error) {
	res, err := s.mesh.states.ListState(s.mesh.Context(ctx),
		&meshv1.ListStateRequest{Kind: kind, Prefix: prefix, After: after, Limit: int32(min(limit, 1000))})
	if err != nil {
		return nil, failed("agent.State", err)
	}
	items := make([]skill.Item, len(res.GetValues()))
	for i, v := range res.GetValues() {
		items[i] = skill.Item{Key: v.GetKey(), Data: v.GetData(), Version: v.GetVersion()}
	}
	return items, nil
}
