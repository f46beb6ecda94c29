package state

import (
	"bytes"
	"context"
	"io"

	"agentmesh/mesh"
)

// Keeps names what a KV keeps of tenants.
func (kv *KV) Keeps() string { return "values" }

// Export gives put the tenant's values of all kinds, whosever they are. The circuits of skills
// stay: they are about calls that were made here.
func (kv *KV) Export(ctx context.Context, t mesh.TenantID, put func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	const op = "state.Export"
	if t == "" {
		return nil, mesh.InvalidField(op, "tenant", "is missing; the operator's own values are no tenant's")
	}
	kinds, err := kv.store.StateKinds(ctx, t)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	for _, kind := range kinds {
		if kind == KindBreaker {
			continue
		}
		for page, more := (Page{Tenant: t, Kind: kind, Limit: MaxPage}), true; more; {
			var items []Item
			if items, more, err = kv.List(ctx, page); err != nil {
				return nil, mesh.Wrap(op, err)
			}
			for _, it := range items {
				page.After = it.Name
				if err := put(mesh.Kept{Kind: kind, Name: it.Name, Size: int64(len(it.Data))}, bytes.NewReader(it.Data)); err != nil {
					return nil, err
				}
			}
		}
	}
	return nil, nil
}

// Import keeps a value that Export gave, unless there is one of its name.
func (kv *KV) Import(ctx context.Context, t mesh.TenantID, k mesh.Kept, r io.Reader) (bool, error) {
	const op = "state.Import"
	switch {
	case t == "":
		return false, mesh.InvalidField(op, "tenant", "is missing; the operator's own values are no tenant's")
	case k.Kind == KindBreaker:
		return false, mesh.InvalidField(op, "kind", "is %s, which the node writes alone", k.Kind)
	case k.Size > MaxData:
		return false, mesh.InvalidField(op, "data", "must be at most %d bytes, and has %d", MaxData, k.Size)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return false, err
	}
	_, err = kv.Put(ctx, Key{t, k.Kind, k.Name}, data, 0)
	if mesh.IsCode(err, mesh.Conflict) { // it is there
		return false, nil
	}
	return err == nil, mesh.Wrap(op, err)
}
