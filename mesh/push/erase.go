package push

import (
	"context"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// Erase removes the configs that a user has, in whosever threads, or counts them alone, and
// returns how many there were.
func (d *Dispatcher) Erase(ctx context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	const op = "push.Erase"
	names, configs := map[string]bool{}, 0
	for _, kind := range []string{kindConfig, kindCursor} {
		err := d.each(ctx, kind, string(o.Tenant)+"/", func(it state.Item) error {
			if parts := strings.Split(it.Name, "/"); len(parts) > 2 && parts[2] == digest(o.User) && !names[it.Name] {
				names[it.Name] = true
				if kind == kindConfig {
					configs++
				}
			}
			return nil
		})
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
	}
	if !countOnly {
		for name := range names {
			if err := d.eraseConfig(ctx, name); err != nil {
				return nil, mesh.Wrap(op, err)
			}
		}
	}
	return []mesh.Held{{What: "webhooks", Count: configs}}, nil
}

// eraseConfig removes a config, and what is known of it.
func (d *Dispatcher) eraseConfig(ctx context.Context, name string) error {
	key, _, _ := parseName(name)
	defer d.lock(key)()
	return d.remove(ctx, name)
}
