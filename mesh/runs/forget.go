package runs

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// Forget takes out of the records of runs what they have of threads that were deleted: which
// it was, and what was said. That the skill was due then, and how that ended, stays.
func (r *Runner) Forget(ctx context.Context, keys []mesh.ThreadKey) error {
	const op = "runs.Forget"
	byTenant := map[mesh.TenantID][]string{}
	for _, key := range keys {
		byTenant[key.Tenant] = append(byTenant[key.Tenant], key.ID)
	}
	for tenant, threads := range byTenant {
		for it, err := range r.journal.all(ctx, string(tenant)+"/") {
			if err == nil && slices.Contains(threads, it.rec.Thread) {
				err = r.journal.blank(ctx, it)
			}
			if err != nil {
				return mesh.Wrap(op, err)
			}
		}
	}
	return nil
}

// Kept yields the threads of the runs that are over, or wait for their user: others begin
// after their record.
func (r *Runner) Kept(ctx context.Context) iter.Seq2[mesh.ThreadKey, error] {
	return func(yield func(mesh.ThreadKey, error) bool) {
		for it, err := range r.journal.all(ctx, "") {
			if err != nil {
				yield(mesh.ThreadKey{}, mesh.Wrap("runs.Kept", err))
				return
			}
			if it.rec.forgettable() && !yield(mesh.ThreadKey{Tenant: it.tenant, ID: it.rec.Thread}, nil) {
				return
			}
		}
	}
}

// forgettable reports whether the record tells of a thread that there was.
func (r *record) forgettable() bool { return r.Task != "" && r.Status != statusRunning }

// A kept is a record where it is.
type kept struct {
	tenant mesh.TenantID
	key    state.Key
	rec    *record
	state.Value
}

// all yields the records whose names begin with the prefix, "" for those of all tenants.
func (j journal) all(ctx context.Context, prefix string) iter.Seq2[kept, error] {
	return func(yield func(kept, error) bool) {
		for page, more := (state.Page{Kind: kindRecord, Prefix: prefix, Limit: state.MaxPage}), true; more; {
			var items []state.Item
			var err error
			if items, more, err = j.kv.List(ctx, page); err != nil {
				yield(kept{}, err)
				return
			}
			for _, it := range items {
				page.After = it.Name
				tenant, _, _ := strings.Cut(it.Name, "/")
				k := kept{tenant: mesh.TenantID(tenant), key: state.Key{Kind: kindRecord, Name: it.Name}, rec: new(record), Value: it.Value}
				if !yield(k, decode(it.Data, k.rec)) {
					return
				}
			}
		}
	}
}

// blank takes out of the record what it has of its thread, unless it has changed.
func (j journal) blank(ctx context.Context, k kept) error {
	if !k.rec.forgettable() {
		return nil
	}
	k.rec.Thread, k.rec.Task, k.rec.Detail = "", "", ""
	if k.rec.Status == statusAwaiting { // the question is gone
		k.rec.Status, k.rec.Detail = statusFailed, "Its conversation was deleted before it was answered."
	}
	data, err := json.Marshal(k.rec)
	if err == nil {
		_, err = j.kv.Put(ctx, k.key, data, k.Version)
	}
	if mesh.IsCode(err, mesh.Conflict) {
		return nil
	}
	return err
}
