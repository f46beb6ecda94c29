package tasks

import (
	"context"
	"io"
	"math"

	"agentmesh/mesh"
	"agentmesh/mesh/thread/rows"
)

// Keeps names what an Index keeps of users beside their threads.
func (x *Index) Keeps() string { return "sums of use" }

// Erase implements retention.Holder: what models used for the user stays in sums, without the
// name.
func (x *Index) Erase(ctx context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	const op = "tasks.Erase"
	if err := x.Catch(ctx, o.Tenant); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	release, err := x.turn(ctx)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	x.mu.Lock()
	n := x.rename(o, "", countOnly)
	err = x.table.Err()
	x.mu.Unlock()
	release()
	if err == nil && n > 0 && !countOnly {
		err = x.Keep(ctx)
	}
	if err != nil || n == 0 {
		return nil, mesh.Wrap(op, err)
	}
	return []mesh.Held{{What: x.Keeps(), Count: n}}, nil
}

// rename adds the user's sums to those of another name, and returns how many there were. The
// caller holds mu, and has the turn.
func (x *Index) rename(o mesh.Owner, to string, countOnly bool) (n int) {
	type row struct {
		key sumKey
		sum Sum
	}
	for _, sort := range []byte{rowSum, rowThreadSum} {
		from := rowKey(sort, o.Tenant, o.User)
		var all []row
		for at := from; at < rows.Beyond(from); {
			at = x.walk(at, rows.Beyond(from), math.MaxInt, span{0, math.MaxUint32}, func(_ string, k sumKey, s Sum) { all = append(all, row{k, s}) })
		}
		if n += len(all); countOnly {
			continue
		}
		for _, r := range all {
			x.table.Delete(sumsKey(sort, o.Tenant, o.User, r.key.day) + r.key.rest)
			x.increase(sumsKey(sort, o.Tenant, to, r.key.day)+r.key.rest, r.sum)
			if sort == rowThreadSum {
				of := mesh.ThreadKey{Tenant: o.Tenant, ID: r.key.rest}
				x.table.Delete(threadSumKey(of, o.User, r.key.day))
				x.table.Put(threadSumKey(of, to, r.key.day), "")
			}
		}
	}
	return n
}

// Export implements retention.Holder: sums are made of the threads where these go.
func (x *Index) Export(context.Context, mesh.TenantID, func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	return nil, nil
}

// Import implements retention.Holder: there is nothing that Export gave.
func (x *Index) Import(context.Context, mesh.TenantID, mesh.Kept, io.Reader) (bool, error) {
	return false, mesh.Errorf(mesh.Unsupported, "tasks.Import", "sums of use are made of the threads, and not imported; leave them out")
}
