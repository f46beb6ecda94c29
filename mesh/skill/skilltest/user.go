package skilltest

import (
	"context"
	"strings"

	"agentmesh/mesh/skill"
	"agentmesh/mesh/state"
)

// Of returns the user's part of a State that has the values of several, as a node
// keeps those that are of a user. Of nil it is nil.
func Of(all skill.State, user string) skill.State {
	if all == nil {
		return nil
	}
	return users{all, state.UserPrefix(user)}
}

type users struct {
	all    skill.State
	prefix string
}

func (u users) Get(ctx context.Context, kind, key string) (data []byte, version int64, err error) {
	return u.all.Get(ctx, kind, u.prefix+key)
}

func (u users) Put(ctx context.Context, kind, key string, data []byte, version int64) (int64, error) {
	return u.all.Put(ctx, kind, u.prefix+key, data, version)
}

func (u users) Delete(ctx context.Context, kind, key string, version int64) error {
	return u.all.Delete(ctx, kind, u.prefix+key, version)
}

func (u users) List(ctx context.Context, kind, prefix, after string, limit int) ([]skill.Item, error) {
	items, err := u.all.List(ctx, kind, u.prefix+prefix, u.prefix+after, limit)
	for i := range items {
		items[i].Key = strings.TrimPrefix(items[i].Key, u.prefix)
	}
	return items, err
}
