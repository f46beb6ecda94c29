package state

import (
	"context"
	"strings"

	"agentmesh/mesh"
)

// Erase removes a user's values of all kinds, or counts them alone, and returns how many
// there were of each. What tenants share and what agents keep for themselves is nobody's,
// and stays. Errors: Invalid for an owner without a user, Unavailable.
func (kv *KV) Erase(ctx context.Context, o mesh.Owner, countOnly bool) (held []mesh.Held, err error) {
	const op = "state.Erase"
	if o.User == "" {
		return nil, mesh.InvalidField(op, "user", "is missing; values that users share are nobody's to erase")
	}
	kinds, err := kv.store.StateKinds(ctx, o.Tenant)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	for _, k := range kinds {
		kind, own := strings.CutPrefix(k, userKind)
		if !own && k != KindMemory {
			continue
		}
		n, err := kv.eraseSpace(ctx, UserSpace(o.Tenant, o.User, kind), countOnly)
		if n > 0 {
			held = append(held, mesh.Held{What: kind, Count: n})
		}
		if err != nil {
			return held, mesh.Wrap(op, err)
		}
	}
	return held, nil
}

// eraseSpace removes, or counts, the values of a space, and returns how many there were.
func (kv *KV) eraseSpace(ctx context.Context, s Space, countOnly bool) (n int, err error) {
	for page, more := s.Page(Page{Limit: MaxPage}), true; more; {
		var items []Item
		if items, more, err = kv.List(ctx, page); err != nil {
			return n, err
		}
		for _, it := range items {
			page.After = it.Name
			if !countOnly {
				err := kv.Delete(ctx, Key{s.Tenant, s.Kind, it.Name}, AnyVersion)
				if mesh.IsCode(err, mesh.NotFound) {
					continue
				}
				if err != nil {
					return n, err
				}
			}
			n++
		}
	}
	return n, nil
}
