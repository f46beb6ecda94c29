package meshclient

import (
	"context"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// state is skill.State over the StateService.
type state struct{ client *Client }

func (s *state) Get(ctx context.Context, kind, key string) ([]byte, int64, error) {
	res, err := s.client.states.GetState(s.client.Context(ctx), &meshv1.GetStateRequest{Kind: kind, Key: key})
	if err == nil && res.GetValue() == nil {
		return nil, 0, mesh.Errorf(mesh.NotFound, "meshclient.State", "There is no %s named %s", kind, key)
	}
	return res.GetValue().GetData(), res.GetValue().GetVersion(), failed("meshclient.State", err)
}

func (s *state) Put(ctx context.Context, kind, key string, data []byte, version int64) (int64, error) {
	res, err := s.client.states.PutState(s.client.Context(ctx),
		&meshv1.PutStateRequest{Kind: kind, Key: key, Data: data, Version: version})
	return res.GetVersion(), failed("meshclient.State", err)
}

func (s *state) Delete(ctx context.Context, kind, key string, version int64) error {
	_, err := s.client.states.DeleteState(s.client.Context(ctx),
		&meshv1.DeleteStateRequest{Kind: kind, Key: key, Version: version})
	return failed("meshclient.State", err)
}

func (s *state) List(ctx context.Context, kind, prefix, after string, limit int) ([]skill.Item, error) {
	res, err := s.client.states.ListState(s.client.Context(ctx),
		&meshv1.ListStateRequest{Kind: kind, Prefix: prefix, After: after, Limit: int32(min(limit, 1000))})
	if err != nil {
		return nil, failed("meshclient.State", err)
	}
	items := make([]skill.Item, len(res.GetValues()))
	for i, v := range res.GetValues() {
		items[i] = skill.Item{Key: v.GetKey(), Data: v.GetData(), Version: v.GetVersion()}
	}
	return items, nil
}
