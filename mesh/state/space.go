package state

import (
	"context"
	"sync"

	"agentmesh/mesh"
)

// MaxKeys is how many values a tenant may have of one kind. The operator's own
// values have no such bound: who writes them bounds them.
const MaxKeys = 100_000

// An Option changes a default of [New].
type Option func(*KV)

// WithMaxKeys sets how many values a tenant may have of one kind, at least 1.
// The default is MaxKeys.
func WithMaxKeys(n int) Option { return func(kv *KV) { kv.most = max(n, 1) } }

// A space is the values of one kind of a tenant. They are counted when the first
// one is to be made, and from then on kept count of, while this KV is the only
// one over its store. A value that is removed and made again at the same time
// may be counted once too little.
type space struct {
	counting sync.RWMutex // held while values are removed, and exclusively while all are counted
	counted  bool         // guarded by counting

	mu sync.Mutex
	n  int
}

type spaceKey struct {
	tenant mesh.TenantID
	kind   string
}

func (kv *KV) space(k Key) *space {
	kv.mu.Lock()
	defer kv.mu.Unlock()
	at := spaceKey{k.Tenant, k.Kind}
	s := kv.spaces[at]
	if s == nil {
		s = new(space)
		if kv.spaces == nil {
			kv.spaces = map[spaceKey]*space{}
		}
		kv.spaces[at] = s
	}
	return s
}

// put is a Put that may make a value.
func (kv *KV) put(ctx context.Context, key Key, data []byte, version int64) (int64, error) {
	if key.Tenant == "" || version > 0 {
		return kv.store.PutState(ctx, key, data, version)
	}
	s := kv.space(key)
	if err := kv.count(ctx, key, s); err != nil {
		return 0, err
	}
	if !s.take(kv.most) {
		if _, err := kv.store.GetState(ctx, key); err != nil {
			if mesh.IsCode(err, mesh.NotFound) {
				err = mesh.Errorf(mesh.Exhausted, "state.Put",
					"The limit state.keys is reached: there are %d values of the kind %q, and no more are taken; delete some first", kv.most, key.Kind)
			}
			return 0, err
		}
		return kv.store.PutState(ctx, key, data, version) // replaces it
	}
	v, err := kv.store.PutState(ctx, key, data, version)
	if err != nil || v != 1 { // it was there before, or is not there now
		s.give()
	}
	return v, err
}

// remove is a Delete that is kept count of.
func (kv *KV) remove(ctx context.Context, key Key, version int64) error {
	if key.Tenant == "" {
		return kv.store.DeleteState(ctx, key, version)
	}
	s := kv.space(key)
	s.counting.RLock()
	defer s.counting.RUnlock()
	err := kv.store.DeleteState(ctx, key, version)
	if err == nil && s.counted {
		s.give()
	}
	return err
}

// count counts what the space has, once.
func (kv *KV) count(ctx context.Context, key Key, s *space) error {
	s.counting.RLock()
	done := s.counted
	s.counting.RUnlock()
	if done {
		return nil
	}
	s.counting.Lock()
	defer s.counting.Unlock()
	if s.counted {
		return nil
	}
	n := 0
	for p := (Page{Tenant: key.Tenant, Kind: key.Kind, Limit: MaxPage}); ; {
		items, more, err := kv.store.ListState(ctx, p)
		if err != nil {
			return err
		}
		n += len(items)
		if !more {
			break
		}
		p.After = items[len(items)-1].Name
	}
	s.n, s.counted = n, true
	return nil
}

// take makes room for one more value, if there is.
func (s *space) take(most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= most {
		return false
	}
	s.n++
	return true
}

func (s *space) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n--
}
