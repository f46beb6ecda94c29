// Package revocation keeps which credentials of users were revoked: all that were issued
// until a time; and which users are being erased, for whom nothing is begun meanwhile.
//
// A [List] knows that in memory, for it is asked at every call, and keeps it in the
// mesh's state, so that it survives restarts. On a store that nodes share each reads it
// again every second. It is safe for concurrent use.
//
// What a tenant's admin revokes does not end credentials of operators: no tenant locks
// those out.
package revocation

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/state"
)

// kind is that of the records in the state, among the operator's own values, which no
// grant reaches.
const kind = "revoked-users"

// maxUsers bounds the records of a tenant, which its admins write.
const maxUsers = 10_000

// lookEvery is how often Run ends what was revoked.
const lookEvery = time.Second

type user struct {
	tenant mesh.TenantID
	name   string
}

// A record says until when credentials were issued that do not count.
type record struct {
	Until time.Time `json:"until"`
	// Operators is that for credentials with the role operator.
	Operators time.Time `json:"operators,omitzero"`
	// Erasing is since when the user is being erased; zero for one that is not.
	Erasing time.Time `json:"erasing,omitzero"`
}

// A List is what was revoked. Use Open.
type List struct {
	kv     *state.KV
	shared bool
	alarms *alarm.Set

	changing sync.Mutex // held while a record is written

	mu    sync.RWMutex
	users map[user]record
	count map[mesh.TenantID]int
}

// Open returns the list in kv, which others may write too if it is shared.
func Open(ctx context.Context, kv *state.KV, shared bool, alarms *alarm.Set) (*List, error) {
	l := &List{kv: kv, shared: shared, alarms: alarms}
	return l, l.read(ctx)
}

// read takes over what the state has.
func (l *List) read(ctx context.Context) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	users, count := map[user]record{}, map[mesh.TenantID]int{}
	for p := (state.Page{Kind: kind, Limit: state.MaxPage}); ; {
		items, more, err := l.kv.List(ctx, p)
		if err != nil {
			return mesh.Wrap("revocation.read", err)
		}
		for _, i := range items {
			var u user
			var r record
			tenant, name, ok := strings.Cut(i.Name, "/") // a tenant has none
			if u = (user{mesh.TenantID(tenant), name}); json.Unmarshal(i.Data, &r) != nil || !ok {
				return mesh.Errorf(mesh.Unknown, "revocation.read", "the record of %q in the kind %s of the state cannot be read", mesh.Clip(i.Name, 200), kind)
			}
			users[u] = r
			count[u.tenant]++
			p.After = i.Name
		}
		if !more {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users, l.count = users, count
	return nil
}

// Revoke has the credentials of the tenant's user not count that were issued until now;
// those of operators too if by one. It is Exhausted for more users than are kept of a
// tenant.
func (l *List) Revoke(ctx context.Context, tenant mesh.TenantID, name string, byOperator bool, now time.Time) error {
	return mesh.Wrap("revocation.Revoke", l.change(ctx, user{tenant, name}, func(r *record) {
		if r.Until = now.UTC(); byOperator {
			r.Operators = r.Until
		}
	}))
}

// SetErasing says that the tenant's user is being erased, since that time, or, if it is zero,
// no more. Who is that already is it since then. It is durable, and on a store that nodes
// share it returns when the others have had the time to read it. It is Exhausted as Revoke is.
func (l *List) SetErasing(ctx context.Context, tenant mesh.TenantID, name string, since time.Time) error {
	const op = "revocation.SetErasing"
	err := l.change(ctx, user{tenant, name}, func(r *record) {
		if since.IsZero() || r.Erasing.IsZero() {
			r.Erasing = since.UTC()
		}
	})
	if err != nil || !l.shared || since.IsZero() {
		return mesh.Wrap(op, err)
	}
	read := time.NewTimer(2 * lookEvery)
	defer read.Stop()
	select {
	case <-read.C:
		return nil
	case <-ctx.Done():
		return mesh.Wrap(op, ctx.Err())
	}
}

// Erasing returns since when the user is being erased; false for one that is not.
func (l *List) Erasing(tenant mesh.TenantID, name string) (time.Time, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	at := l.users[user{tenant, name}].Erasing
	return at, !at.IsZero()
}

// change keeps what f makes of the user's record, and nothing of one that says nothing.
func (l *List) change(ctx context.Context, u user, f func(*record)) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	l.mu.RLock()
	was, known := l.users[u]
	full := l.count[u.tenant] >= maxUsers
	l.mu.RUnlock()
	r := was
	if f(&r); r == was {
		return nil
	}
	if !known && full {
		return mesh.Errorf(mesh.Exhausted, "", "the credentials of %d users of the tenant were revoked, and no more are kept; have the operator take theirs away where they are issued", maxUsers)
	}
	key := state.Key{Kind: kind, Name: string(u.tenant) + "/" + u.name}
	if r == (record{}) {
		if err := l.kv.Delete(ctx, key, state.AnyVersion); err != nil && !mesh.IsCode(err, mesh.NotFound) {
			return err
		}
	} else if data, err := json.Marshal(r); err != nil {
		return err
	} else if _, err := l.kv.Put(ctx, key, data, state.AnyVersion); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.users[u] = r; {
	case r == (record{}):
		delete(l.users, u)
		l.count[u.tenant]--
	case !known:
		l.count[u.tenant]++
	}
	return nil
}

// Of returns when the credentials of the user were revoked; false if that one, issued
// then, still counts.
func (l *List) Of(tenant mesh.TenantID, name string, operator bool, issued time.Time) (time.Time, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	r, ok := l.users[user{tenant, name}]
	at := r.Until
	if operator {
		at = r.Operators
	}
	return at, ok && !at.IsZero() && !issued.After(at)
}

// Any reports whether anything was revoked of the user, or the user is being erased.
func (l *List) Any(tenant mesh.TenantID, name string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, ok := l.users[user{tenant, name}]
	return ok
}

// Run has end called again and again as long as anything is revoked or somebody is being
// erased, to end what goes on with such credentials, until ctx is done.
func (l *List) Run(ctx context.Context, end func()) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if l.shared {
			if err := l.read(ctx); ctx.Err() == nil {
				l.alarms.Report(ctx, alarm.Source{Setting: "auth", Of: "revocations"}, "what was revoked by other nodes before goes on to count", err)
			}
		}
		l.mu.RLock()
		some := len(l.users) > 0
		l.mu.RUnlock()
		if some {
			end()
		}
	}
}
